//! Conversions whose result would be larger, torn or lost.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};
use wisp_engine::weights::{Checkpoint, Encoding, WeightSource};
use wisp_tests::{fault, program};

/// Writes a model of one layer whose hidden states have `width` elements, in `vocab` rows of the embedding.
fn model(folder: &Path, width: usize, vocab: usize, dtype: Dtype) {
    let feed_forward = 256;
    // Heads have an even width of at most 256.
    let heads = if width.is_multiple_of(4 * 2) { 4 } else { 2 };
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": vocab, "hidden_size": width,
        "intermediate_size": feed_forward, "num_hidden_layers": 1, "num_attention_heads": heads,
        "num_key_value_heads": heads, "tie_word_embeddings": true, "max_position_embeddings": 64,
    });
    std::fs::create_dir_all(folder).expect("a folder");
    std::fs::write(folder.join("config.json"), config.to_string()).expect("a configuration");
    let layer = |name: &str| format!("model.layers.0.{name}.weight");
    let shapes = [
        ("model.embed_tokens.weight".to_string(), vec![vocab, width]),
        ("model.norm.weight".to_string(), vec![width]),
        (layer("input_layernorm"), vec![width]),
        (layer("post_attention_layernorm"), vec![width]),
        (layer("self_attn.q_proj"), vec![width, width]),
        (layer("self_attn.k_proj"), vec![width, width]),
        (layer("self_attn.v_proj"), vec![width, width]),
        (layer("self_attn.o_proj"), vec![width, width]),
        (layer("mlp.gate_proj"), vec![feed_forward, width]),
        (layer("mlp.up_proj"), vec![feed_forward, width]),
        (layer("mlp.down_proj"), vec![width, feed_forward]),
    ];
    let size = if dtype == Dtype::F32 { 4 } else { 2 };
    // The bytes of 1.0 in any of the types, little-endian.
    let one: &[u8] = match dtype {
        Dtype::F32 => &[0, 0, 0x80, 0x3f],
        Dtype::BF16 => &[0x80, 0x3f],
        _ => &[0, 0x3c],
    };
    let largest = one.repeat(
        shapes
            .iter()
            .map(|(_, shape)| shape.iter().product())
            .max()
            .unwrap_or(0),
    );
    let tensors = shapes.iter().map(|(name, shape)| {
        let bytes = &largest[..shape.iter().product::<usize>() * size];
        let view = TensorView::new(dtype, shape.clone(), bytes).expect("a tensor");
        (name.as_str(), view)
    });
    safetensors::serialize_to_file(tensors, None, &folder.join("model.safetensors"))
        .expect("weights");
}

fn args<'a>(from: &'a Path, to: &'a Path, encoding: &'a str) -> [&'a str; 8] {
    let text = |path: &'a Path| path.to_str().expect("a path in UTF-8");
    [
        "convert",
        "--json",
        "--model",
        text(from),
        "--out",
        text(to),
        "--encoding",
        encoding,
    ]
}

fn encoding_of(path: &Path, tensor: &str) -> Encoding {
    let checkpoint = Checkpoint::open(path).expect("a checkpoint");
    let tensor = checkpoint.find(tensor).expect("a tensor");
    tensor.encoding().expect("an encoding")
}

fn notes(report: &Value) -> Vec<&str> {
    let notes = report["report"]["notes"].as_array().expect("notes");
    notes.iter().filter_map(Value::as_str).collect()
}

#[test]
fn rows_that_do_not_fit_take_the_nearest_encoding_and_one_note() {
    let folder = tempfile::tempdir().expect("a folder");
    for (width, dtype, wanted, expected) in [
        (576, Dtype::F32, "q4_k", Encoding::Q5_0),
        (576, Dtype::BF16, "q5_k", Encoding::Q5_1),
        (576, Dtype::F16, "q6_k", Encoding::Q8_0),
        (100, Dtype::F32, "q4_k", Encoding::F16),
        (100, Dtype::BF16, "q8_0", Encoding::BF16),
        (256, Dtype::F32, "q4_k", Encoding::Q4_K),
    ] {
        let (from, to) = (folder.path().join("from"), folder.path().join("to.gguf"));
        model(&from, width, 512, dtype);
        let run = program::run(args(&from, &to, wanted)).succeeded();
        let what = format!("{width} {dtype:?} {wanted}: {}", run.stderr);
        let report = run.json();
        assert_eq!(encoding_of(&to, "token_embd.weight"), expected, "{what}");
        // Rows of 256 fit every encoding.
        let fits = wanted.to_uppercase();
        assert_eq!(
            encoding_of(&to, "blk.0.ffn_down.weight")
                .name()
                .to_uppercase(),
            fits,
            "{what}"
        );
        let about_rows: Vec<_> = notes(&report)
            .into_iter()
            .filter(|note| note.contains("needs rows"))
            .map(String::from)
            .collect();
        assert_eq!(about_rows.len(), usize::from(width != 256), "{what}");
        let source = std::fs::metadata(from.join("model.safetensors"))
            .expect("weights")
            .len();
        let new = std::fs::metadata(&to).expect("a file").len();
        assert!(new < source + 10_000, "{what}: {source} bytes became {new}");
        for key in ["kinds", "total", "notes"] {
            assert!(!report["report"][key].is_null(), "{key}");
        }
        std::fs::remove_file(&to).expect("the file");
        std::fs::remove_dir_all(&from).expect("the folder");
    }
}

#[test]
fn a_result_that_is_larger_than_its_source_is_noted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, small) = (folder.path().join("from"), folder.path().join("small.gguf"));
    model(&from, 256, 512, Dtype::F16);
    let report = program::run(args(&from, &small, "q4_0")).json();
    assert_eq!(
        notes(&report)
            .iter()
            .filter(|note| note.contains("more than"))
            .count(),
        0
    );
    for (source, name, encoding) in [(&small, "large.gguf", "f32"), (&from, "large", "f32")] {
        let report = program::run(args(source, &folder.path().join(name), encoding)).json();
        let larger = notes(&report)
            .iter()
            .filter(|note| note.contains("more than"))
            .count();
        assert_eq!(larger, 1, "{report}");
    }
}

#[test]
fn two_conversions_to_one_output_leave_one_whole_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("from");
    model(&from, 256, 4096, Dtype::F32);
    for (name, force) in [("a.gguf", false), ("b.gguf", true), ("c", false)] {
        let to = folder.path().join(name);
        let encoding = if name == "c" { "f16" } else { "q8_0" };
        let children: Vec<Child> = (0..2)
            .map(|_| {
                let force: &[&str] = if force { &["--force"] } else { &[] };
                let all = args(&from, &to, encoding)
                    .into_iter()
                    .chain(force.iter().copied());
                program::command(all).spawn().expect("wisp")
            })
            .collect();
        let mut succeeded = 0;
        for child in children {
            let output = child.wait_with_output().expect("an end");
            let message = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0) => succeeded += 1,
                Some(1) => assert!(message.contains(name), "{message}"),
                status => panic!("{status:?}: {message}"),
            }
        }
        assert!(
            if force {
                succeeded == 2
            } else {
                succeeded >= 1
            },
            "{name}: {succeeded}"
        );
        fault::run_limited(["info", to.to_str().expect("text")]).succeeded();
        assert_eq!(hidden(folder.path()), [] as [PathBuf; 0], "{name}");
    }
}

/// The hidden files and folders in a folder.
fn hidden(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let is_hidden = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('.')
    };
    entries
        .map(|entry| entry.path())
        .filter(is_hidden)
        .collect()
}

/// Kills conversions of a model with `vocab` rows of the embedding after growing pauses, and checks that the next one
/// succeeds and leaves nothing else.
#[cfg(unix)]
fn kill_conversions(moments: u64, vocab: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("from");
    model(&from, 256, vocab, Dtype::F32);
    for (name, encoding) in [("a.gguf", "q4_k"), ("b", "f16")] {
        let to = folder.path().join(name);
        let begun = std::time::Instant::now();
        program::run(args(&from, &to, encoding)).succeeded();
        let whole = begun.elapsed();
        let remove = || match to.is_dir() {
            true => std::fs::remove_dir_all(&to).expect("the folder"),
            false => std::fs::remove_file(&to).expect("the file"),
        };
        remove();
        for moment in 0..moments {
            let mut child = program::command(args(&from, &to, encoding))
                .spawn()
                .expect("wisp");
            std::thread::sleep(whole.mul_f64((moment as f64 + 0.5) / moments as f64));
            child.kill().expect("a kill");
            child.wait().expect("an end");
            if to.exists() {
                fault::run_limited(["info", to.to_str().expect("text")]).succeeded();
                remove();
            }
            program::run(args(&from, &to, encoding)).succeeded();
            assert_eq!(
                hidden(folder.path()),
                [] as [PathBuf; 0],
                "killed after moment {moment}"
            );
            remove();
        }
    }
}

#[cfg(unix)]
#[test]
fn killed_conversions_leave_nothing_after_the_next_one() {
    kill_conversions(4, 4096);
}

#[cfg(unix)]
#[test]
#[ignore = "takes minutes"]
fn conversions_killed_at_many_moments_leave_nothing_after_the_next_one() {
    kill_conversions(60, 16384);
}

/// Runs the program where files may have at most this many blocks of 512 bytes; the signal for it is ignored.
#[cfg(unix)]
fn with_small_files(blocks: u32, args: &[&str]) -> program::Run {
    let command = program::command(args);
    let mut shell = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    shell
        .args(["-c", &script])
        .arg(command.get_program())
        .args(args);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    program::run_command(shell, "")
}

#[cfg(unix)]
#[test]
fn outputs_that_do_not_fit_are_an_error_and_leave_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("from");
    model(&from, 256, 4096, Dtype::F32);
    for (name, encoding) in [("a.gguf", "q8_0"), ("b", "f16")] {
        let to = folder.path().join(name);
        for blocks in [0, 1, 100] {
            let message = with_small_files(blocks, &args(&from, &to, encoding)).failed("no room");
            assert!(message.contains(name), "{message}");
            assert!(!to.exists());
            assert_eq!(hidden(folder.path()), [] as [PathBuf; 0], "{name}");
        }
    }
    let out = folder.path().join("logits.safetensors");
    let out = out.to_str().expect("text");
    std::fs::write(out, "before").expect("a file");
    let logits = [
        "logits", "--device", "host", "--tokens", "1,2", "--out", out,
    ];
    let message = with_small_files(1, &logits).failed("no room");
    assert!(message.contains("logits.safetensors"), "{message}");
    assert_eq!(std::fs::read(out).expect("the file"), b"before");
}
