//! Models with embeddings by layer that the tests write.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::Value;
use wisp_engine::weights::{Encoding, StoredEncoding, encodings::dequantize, gguf::Gguf};
use wisp_tests::{
    gguf_writer::GgufWriter, goldens::directory, kernels::noise, program::run, quantize::quantize,
};

/// The table's name in GGUF.
pub(super) const TABLE: &str = "per_layer_token_embd.weight";

/// Converts a model to GGUF, with its floats as they are.
pub(super) fn to_gguf(model: &Path, folder: &Path) -> PathBuf {
    let out = folder
        .join(model.file_name().unwrap())
        .with_extension("gguf");
    let [model, path] = [model, &out].map(|path| path.to_str().unwrap());
    run(["convert", "--model", model, "--out", path]).succeeded();
    out
}

/// A tensor of a safetensors file.
type Stored = (Vec<usize>, Vec<u8>);

/// Writes the model `gemma3n` with changes.
fn changed(
    folder: &Path,
    change: impl FnOnce(&mut Value, &mut BTreeMap<String, Stored>),
) -> PathBuf {
    let (from, to) = (directory("gemma3n").unwrap(), folder.join("changed"));
    std::fs::create_dir_all(&to).unwrap();
    let config = std::fs::read(from.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    let file = std::fs::read(from.join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&file).unwrap();
    let stored = |tensor: TensorView<'_>| (tensor.shape().to_vec(), tensor.data().to_vec());
    let tensors = file.tensors().into_iter();
    let mut tensors = tensors
        .map(|(name, tensor)| (name, stored(tensor)))
        .collect();
    change(&mut config, &mut tensors);
    std::fs::write(to.join("config.json"), config.to_string()).unwrap();
    let views = tensors.iter().map(|(name, (shape, bytes))| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
        (name, view)
    });
    safetensors::serialize_to_file(views, None, &to.join("model.safetensors")).unwrap();
    to
}

/// Writes the model `gemma3n` with embeddings by layer of 256 elements, random ones.
pub(super) fn wide(folder: &Path) -> PathBuf {
    changed(folder, |config, tensors| {
        config["hidden_size_per_layer_input"] = 256.into();
        let own = tensors.iter_mut();
        let own = own.filter(|(name, _)| name.contains("per_layer"));
        for (seed, (_, (shape, bytes))) in (0..).zip(own) {
            let widened = |size: usize| match size {
                7 => 256,
                35 => 5 * 256,
                size => size,
            };
            let wide: Vec<usize> = shape.iter().map(|size| widened(*size)).collect();
            if wide != *shape {
                let values = noise(seed, wide.iter().product()).into_iter();
                *bytes = values.flat_map(f32::to_le_bytes).collect();
                *shape = wide;
            }
        }
    })
}

/// Writes the model `gemma3n` with keys and values for every layer, as an encoder needs them.
pub(super) fn unshared(folder: &Path) -> PathBuf {
    changed(folder, |config, tensors| {
        config["num_kv_shared_layers"] = 0.into();
        for (from, to) in [(2, 3), (1, 4)] {
            let of =
                |layer: u32, part: &str| format!("model.layers.{layer}.self_attn.{part}.weight");
            for part in ["k_proj", "v_proj", "k_norm"] {
                let tensor = tensors[&of(from, part)].clone();
                tensors.insert(of(to, part), tensor);
            }
        }
    })
}

/// Writes a GGUF file again with its table of embeddings by layer in another encoding.
pub(super) fn with_table_in(encoding: Encoding, path: &Path, folder: &Path) -> PathBuf {
    let file = std::fs::read(path).unwrap();
    let gguf = Gguf::parse(&file).unwrap();
    let mut writer = GgufWriter::new(gguf.version, gguf.big_endian);
    for (key, value) in gguf.metadata {
        writer = writer.key(&key, value);
    }
    for tensor in gguf.tensors {
        let data = &file[tensor.offset as usize..][..tensor.len as usize];
        let StoredEncoding::Supported(stored) = tensor.stored else {
            panic!("{} is not stored in an encoding of Wisp", tensor.name);
        };
        writer = match tensor.name == TABLE {
            true => {
                let [rows, cols] = [tensor.shape[0], tensor.shape[1]].map(|size| size as usize);
                let data = quantize(encoding, &dequantize(stored, data, rows, cols).unwrap());
                writer.tensor(TABLE, encoding, &tensor.shape, &data)
            }
            false => writer.tensor(&tensor.name, stored, &tensor.shape, data),
        };
    }
    let out = folder.join(format!("{encoding}.gguf"));
    std::fs::write(&out, writer.write()).unwrap();
    out
}
