//! Damaged GGUF files.

use super::*;

#[test]
fn the_intact_model_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, sound()).unwrap();
    generate(&path).succeeded();
}

#[test]
fn truncated_files_are_refused() {
    let file = sound();
    let data = file.len()
        - SHAPES
            .iter()
            .map(|(_, shape)| shape.iter().product::<u64>() as usize * 4)
            .sum::<usize>();
    // Lengths that end in the magic, the version, the counts, the rest of the header, and the data.
    let header = (0..32).chain((32..data).step_by(29));
    let rest = [
        data - 1,
        data,
        data + 1,
        data + 4000,
        file.len() - 4,
        file.len() - 1,
    ];
    for len in header.chain(rest) {
        refused(
            &format!("the first {len} of {} bytes", file.len()),
            &file[..len],
        );
    }
}

#[test]
fn files_without_a_model_are_refused() {
    refused("an empty file", b"");
    refused(
        "a page",
        b"<!DOCTYPE html><html><body>Sign in to download</body></html>",
    );
    refused("zeros", &[0; 4096]);
    refused(
        "a pointer to another store",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    );
    refused(
        "another version",
        &[b"GGUF".as_slice(), &99u32.to_le_bytes(), &[0; 64]].concat(),
    );
    refused(
        "many keys",
        &[
            b"GGUF".as_slice(),
            &3u32.to_le_bytes(),
            &0u64.to_le_bytes(),
            &u64::MAX.to_le_bytes(),
        ]
        .concat(),
    );
    refused(
        "many tensors",
        &[
            b"GGUF".as_slice(),
            &3u32.to_le_bytes(),
            &(u64::MAX / 2).to_le_bytes(),
            &0u64.to_le_bytes(),
        ]
        .concat(),
    );
    let long_key = [
        b"GGUF".as_slice(),
        &3u32.to_le_bytes(),
        &0u64.to_le_bytes(),
        &1u64.to_le_bytes(),
        &u64::MAX.to_le_bytes(),
    ];
    refused("an endless key", &long_key.concat());
}

#[test]
fn tensors_outside_the_file_are_refused() {
    let huge: [&[u64]; 4] = [
        &[u64::MAX, u64::MAX],
        &[1 << 40, 1 << 40],
        &[u64::MAX / 4 + 1],
        &[1 << 33, 32],
    ];
    for shape in huge {
        let file = header(&[])
            .raw_tensor(
                "token_embd.weight",
                Encoding::F32.ggml_type().unwrap(),
                shape,
                &[0; 64],
            )
            .write();
        refused(&format!("a tensor of {shape:?}"), &file);
    }
    let name = b"output.weight";
    let file = sound();
    let at = file
        .windows(name.len())
        .rposition(|window| window == name)
        .unwrap()
        + name.len();
    // The name is followed by the number of dimensions, two dimensions, the type and the offset.
    let offset_at = at + 4 + 16 + 4;
    for offset in [1u64, 1 << 20, 1 << 62, u64::MAX - 31, u64::MAX] {
        let mut file = file.clone();
        file[offset_at..][..8].copy_from_slice(&offset.to_le_bytes());
        refused(&format!("a tensor at {offset}"), &file);
    }
    let mut many_dimensions = file.clone();
    many_dimensions[at..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    refused("a tensor of many dimensions", &many_dimensions);
    let mut unknown_type = file;
    unknown_type[at + 20..][..4].copy_from_slice(&9999u32.to_le_bytes());
    refused("a tensor of an unknown type", &unknown_type);
}

#[test]
fn missing_tensors_are_named() {
    for (absent, _) in SHAPES.iter().filter(|(name, _)| *name != "output.weight") {
        let file = with_tensors(header(&[]), |name, shape| {
            (name != *absent).then(|| (shape.clone(), weights(&shape)))
        });
        let line = refused(&format!("no {absent}"), &file);
        assert!(line.contains(absent), "{line}");
    }
}

#[test]
fn wrong_shapes_are_refused() {
    for (wrong, shape) in SHAPES
        .iter()
        .filter(|(name, _)| *name != "token_embd.weight")
    {
        for factor in [2, 3] {
            let mut other = shape.to_vec();
            other[0] *= factor;
            let file = with_tensors(header(&[]), |name, shape| {
                let shape = if name == *wrong { other.clone() } else { shape };
                Some((shape.clone(), weights(&shape)))
            });
            let line = refused(&format!("{wrong} of {other:?}"), &file);
            assert!(line.contains(wrong), "{line}");
        }
    }
}

#[test]
fn norm_weights_in_integers_or_f64_are_refused() {
    // Norms may have any encoding, but not the integers of ggml (I8, I32) or F64.
    for (ggml_type, len) in [(24, 32), (26, 128), (28, 256)] {
        let mut writer = header(&[]);
        for (name, shape) in SHAPES {
            writer = match *name {
                "output_norm.weight" => writer.raw_tensor(name, ggml_type, shape, &vec![0; len]),
                _ => writer.tensor(name, Encoding::F32, shape, &bytes(&weights(shape))),
            };
        }
        refused(&format!("a norm of type {ggml_type}"), &writer.write());
    }
}

#[test]
fn weights_that_are_not_finite_are_reported() {
    for (broken, value) in [
        ("output_norm.weight", f32::NAN),
        ("token_embd.weight", f32::NAN),
        ("output.weight", f32::INFINITY),
        ("blk.0.ffn_norm.weight", f32::INFINITY),
    ] {
        let file = with_tensors(header(&[]), |name, shape| {
            let sound = weights(&shape);
            Some((
                shape,
                if name == broken {
                    vec![value; sound.len()]
                } else {
                    sound
                },
            ))
        });
        let line = refused(&format!("{broken} is {value}"), &file);
        assert!(line.contains("no finite logits"), "{line}");
    }
}

#[test]
fn invalid_metadata_is_refused() {
    let keys = [
        "general.architecture",
        "llama.embedding_length",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.feed_forward_length",
        "llama.context_length",
    ];
    let values = [
        None,
        Some(Value::U32(0)),
        Some(Value::I32(-1)),
        Some(Value::U64(u64::MAX)),
        Some(Value::F32(f32::NAN)),
        Some(Value::String("many".into())),
        Some(Value::Array(Array::U32(vec![]))),
    ];
    for key in keys {
        for value in &values {
            let file = with_tensors(header(&[(key, value.clone())]), |_, shape| {
                Some((shape.clone(), weights(&shape)))
            });
            refused(&format!("{key} is {value:?}"), &file);
        }
    }
}

#[test]
fn a_model_without_a_tokenizer_takes_token_ids_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, sound()).unwrap();
    let line = run([
        "generate",
        "--device",
        "host",
        "--prompt",
        "Hello",
        "--model",
        path.to_str().unwrap(),
    ])
    .failed("no tokenizer");
    assert!(line.contains("--tokens works"), "{line}");
}
