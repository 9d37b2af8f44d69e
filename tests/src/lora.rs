//! Random LoRA adapters in PEFT's layout, and checkpoints with merged adapters.

use std::path::Path;

use half::bf16;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};
use wisp_engine::pipelines::AdapterFiles;

use crate::{dequantize, kernels::noise};

/// The name of a module in Hugging Face's layout, and the shape `[out, in]` of its weight.
pub type Module = (String, [usize; 2]);

/// The low-rank factors of one module.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The module that the factors change.
    pub module: Module,
    /// The columns of B and rows of A.
    pub rank: usize,
    /// The factor on `B A`.
    pub scale: f32,
    /// `[rank, in]`.
    pub a: Vec<f32>,
    /// `[out, rank]`.
    pub b: Vec<f32>,
}

/// A LoRA adapter with random factors.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// `adapter_config.json`.
    pub config: Value,
    /// The factors of each module.
    pub pairs: Vec<Pair>,
}

/// Pseudo-random numbers that BF16 represents exactly, so that an adapter is the same in F32 and BF16.
fn numbers(seed: u32, len: usize) -> Vec<f32> {
    let round = |x: &f32| bf16::from_f32(x * 0.15).to_f32();
    noise(seed, len).iter().map(round).collect()
}

impl Adapter {
    /// Creates an adapter of these modules. `rank` returns the rank and scale of each module, which must match
    /// the configuration; `peft_type` is added to it.
    pub fn random(
        seed: u32,
        modules: &[Module],
        mut config: Value,
        rank: impl Fn(&str) -> (usize, f32),
    ) -> Adapter {
        config["peft_type"] = json!("LORA");
        let pair = |(i, module): (usize, &Module)| {
            let (rank, scale) = rank(&module.0);
            let [rows, cols] = module.1;
            let seed = seed.wrapping_mul(1000) + 2 * i as u32;
            Pair {
                module: module.clone(),
                rank,
                scale,
                a: numbers(seed, rank * cols),
                b: numbers(seed + 1, rows * rank),
            }
        };
        Adapter {
            pairs: modules.iter().enumerate().map(pair).collect(),
            config,
        }
    }

    /// Creates an adapter of these modules with one rank.
    pub fn plain(seed: u32, modules: &[Module], rank: usize, alpha: f32) -> Adapter {
        let config = json!({"r": rank, "lora_alpha": alpha});
        Adapter::random(seed, modules, config, |_| (rank, alpha / rank as f32))
    }

    /// Returns the contents of `adapter_model.safetensors`, in F32 or BF16.
    ///
    /// # Panics
    ///
    /// If the tensors cannot be serialised.
    pub fn weights(&self, dtype: Dtype) -> Vec<u8> {
        let mut tensors = Vec::new();
        for Pair {
            module, rank, a, b, ..
        } in &self.pairs
        {
            let (name, [rows, cols]) = module;
            for (half, shape, numbers) in [("A", [*rank, *cols], a), ("B", [*rows, *rank], b)] {
                let bytes: Vec<u8> = match dtype {
                    Dtype::BF16 => numbers
                        .iter()
                        .flat_map(|x| bf16::from_f32(*x).to_le_bytes())
                        .collect(),
                    _ => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
                };
                tensors.push((
                    format!("base_model.model.{name}.lora_{half}.weight"),
                    shape,
                    bytes,
                ));
            }
        }
        let views = tensors.iter().map(|(name, shape, bytes)| {
            (
                name,
                TensorView::new(dtype, shape.to_vec(), bytes).expect("a tensor"),
            )
        });
        safetensors::serialize(views, None).expect("a safetensors file")
    }

    /// Returns the adapter as files in memory.
    ///
    /// # Panics
    ///
    /// If the engine refuses it.
    pub fn files(&self, dtype: Dtype) -> AdapterFiles {
        AdapterFiles::from_bytes(&self.config.to_string(), self.weights(dtype)).expect("an adapter")
    }

    /// Writes the adapter to a folder.
    ///
    /// # Panics
    ///
    /// If a file cannot be written.
    pub fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).expect("a folder");
        let config = self.config.to_string();
        std::fs::write(folder.join("adapter_config.json"), config).expect("a file");
        let weights = self.weights(Dtype::F32);
        std::fs::write(folder.join("adapter_model.safetensors"), weights).expect("a file");
    }

    /// Writes a checkpoint in Hugging Face's layout to `folder`, with the adapter merged into its weights.
    /// `transposed` weights are stored as `[in, out]`.
    ///
    /// # Panics
    ///
    /// If the checkpoint lacks a module, or one is not in F32.
    pub fn merge(&self, checkpoint: &Path, transposed: bool, folder: &Path) {
        let config = "config.json";
        std::fs::copy(checkpoint.join(config), folder.join(config)).expect("a configuration");
        let file = std::fs::read(checkpoint.join("model.safetensors")).expect("the weights");
        let file = SafeTensors::deserialize(&file).expect("a safetensors file");
        let mut tensors = Vec::new();
        for (name, view) in file.tensors() {
            let dtype = view.dtype();
            // Packed experts stay as they are.
            if dtype == Dtype::U8 {
                tensors.push((name, dtype, view.shape().to_vec(), view.data().to_vec()));
                continue;
            }
            assert_eq!(dtype, Dtype::F32, "{name}");
            let mut values: Vec<f32> = bytemuck::pod_collect_to_vec(view.data());
            let module = name.strip_suffix(".weight").unwrap_or(&name);
            if let Some(pair) = self.pairs.iter().find(|pair| pair.module.0 == module) {
                let [rows, cols] = pair.module.1;
                assert_eq!(rows * cols, values.len(), "{name}");
                for (i, value) in values.iter_mut().enumerate() {
                    *value += match transposed {
                        false => pair.delta(i / cols, i % cols),
                        true => pair.delta(i % rows, i / rows),
                    };
                }
            }
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            tensors.push((name, dtype, view.shape().to_vec(), bytes));
        }
        let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
            (
                name,
                TensorView::new(*dtype, shape.clone(), bytes).expect("a tensor"),
            )
        });
        safetensors::serialize_to_file(views, None, &folder.join("model.safetensors"))
            .expect("a checkpoint");
    }

    /// Returns a GGUF file of a Llama in F32 with the adapter merged into its weights. GGUF orders the rows of
    /// queries and keys so that the rotary pairs `(i, i + dim / 2)` of a head are adjacent.
    ///
    /// # Panics
    ///
    /// If the file is invalid.
    pub fn merge_gguf(&self, file: &[u8], head_dim: usize) -> Vec<u8> {
        let names = [
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
        ];
        let gguf_name = |module: &str| {
            let (layer, rest) = module.strip_prefix("model.layers.")?.split_once('.')?;
            let (_, name) = names.iter().find(|(name, _)| *name == rest)?;
            Some(format!("blk.{layer}.{name}.weight"))
        };
        dequantize::change(file, |tensor, values| {
            for pair in &self.pairs {
                let [rows, cols] = pair.module.1;
                if gguf_name(&pair.module.0).as_deref() != Some(tensor) {
                    continue;
                }
                let permuted = tensor.contains("attn_q") || tensor.contains("attn_k");
                for row in 0..rows {
                    let (head, half, i) = (
                        row / head_dim,
                        row % head_dim / (head_dim / 2),
                        row % (head_dim / 2),
                    );
                    let at = match permuted {
                        true => head * head_dim + 2 * i + half,
                        false => row,
                    };
                    for col in 0..cols {
                        values[at * cols + col] += pair.delta(row, col);
                    }
                }
            }
        })
    }
}

impl Pair {
    /// The change of one weight: `scale * (B A)[row, col]`.
    fn delta(&self, row: usize, col: usize) -> f32 {
        let (rank, [_, cols]) = (self.rank, self.module.1);
        let product =
            |j: usize| f64::from(self.b[row * rank + j]) * f64::from(self.a[j * cols + col]);
        (f64::from(self.scale) * (0..rank).map(product).sum::<f64>()) as f32
    }
}

/// Returns the linear modules of a checkpoint in Hugging Face's layout that adapters usually change.
///
/// # Panics
///
/// If the checkpoint cannot be read.
pub fn modules(checkpoint: &Path, transposed: bool) -> Vec<Module> {
    let ends = [
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "qkv_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
        "gate_up_proj",
        "c_attn",
        "c_proj",
        "c_fc",
        "query_key_value",
        "attention.dense",
        "dense_h_to_4h",
        "dense_4h_to_h",
        "self_attn.out_proj",
        "feed_forward.w1",
        "feed_forward.w2",
        "feed_forward.w3",
    ];
    let file = std::fs::read(checkpoint.join("model.safetensors")).expect("the weights");
    let file = SafeTensors::deserialize(&file).expect("a safetensors file");
    let mut modules = Vec::new();
    for (name, view) in file.tensors() {
        let Some(module) = name.strip_suffix(".weight") else {
            continue;
        };
        let [rows, cols] = *view.shape() else {
            continue;
        };
        let others = ["experts", "shared_expert", "visual."];
        let is_other = others.iter().any(|other| module.contains(other));
        if ends.iter().any(|end| module.ends_with(end)) && !is_other {
            let shape = if transposed {
                [cols, rows]
            } else {
                [rows, cols]
            };
            modules.push((module.to_string(), shape));
        }
    }
    modules.sort();
    modules
}
