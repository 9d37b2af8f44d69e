//! `wisp info`.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Result;
use clap::Args;
use serde_json::json;
use wisp_engine::weights::WeightSource;

use super::print_json;
use crate::setup::ModelArgs;

/// Describe a model file.
#[derive(Args)]
pub struct Info {
    /// A .gguf file or a directory in Hugging Face's layout. Default: the model inside the program
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(self) -> Result<()> {
        let args = ModelArgs { model: self.model };
        let files = args.open()?;
        let spec = &files.recognised.spec;
        let mut encodings: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut parameters = 0u64;
        for tensor in files.checkpoint.tensors() {
            let entry = encodings.entry(tensor.stored.to_string()).or_default();
            entry.0 += 1;
            entry.1 += tensor.len;
            parameters += tensor.shape.iter().product::<u64>();
        }
        let tokenizer = files.tokenizer.as_ref();
        let chat = tokenizer.is_ok_and(|tokenizer| tokenizer.chat_template(None).is_some());
        if self.json {
            let encodings: BTreeMap<_, _> = encodings
                .iter()
                .map(|(name, (tensors, bytes))| {
                    (name, json!({ "tensors": tensors, "bytes": bytes }))
                })
                .collect();
            return print_json(&json!({
                "model": files.name,
                "architecture": files.recognised.architecture,
                "parameters": parameters,
                "file_bytes": files.checkpoint.file_bytes(),
                "encodings": encodings,
                "vocab_size": spec.vocab_size,
                "hidden_size": spec.hidden_size,
                "intermediate_size": spec.intermediate_size,
                "layers": spec.layers.len(),
                "heads": spec.heads,
                "kv_heads": spec.kv_heads,
                "head_dim": spec.head_dim,
                "context": spec.max_positions,
                "kv_bytes_per_position": spec.kv_bytes_per_position(),
                "tokenizer": tokenizer.is_ok(),
                "chat_template": chat,
            }));
        }
        println!("model          {}", files.name);
        println!("architecture   {}", files.recognised.architecture);
        println!(
            "parameters     {:.1} M in {:.1} MiB",
            parameters as f64 / 1e6,
            files.checkpoint.file_bytes() as f64 / 1048576.0
        );
        println!(
            "layers         {} of width {}, feed-forward {}",
            spec.layers.len(),
            spec.hidden_size,
            spec.intermediate_size
        );
        println!(
            "heads          {} of {} over {} KV heads",
            spec.heads, spec.head_dim, spec.kv_heads
        );
        println!("vocabulary     {}", spec.vocab_size);
        println!(
            "context        {} tokens, {:.1} KiB of KV cache each",
            spec.max_positions,
            spec.kv_bytes_per_position() as f64 / 1024.0
        );
        for (name, (tensors, bytes)) in &encodings {
            println!(
                "{name:<14} {tensors} tensors, {:.1} MiB",
                *bytes as f64 / 1048576.0
            );
        }
        match tokenizer {
            Ok(tokenizer) => println!(
                "tokenizer      {} tokens, {} chat template",
                tokenizer.vocab_size(),
                if chat { "with a" } else { "no" }
            ),
            Err(error) => println!("tokenizer      none: {error}"),
        }
        Ok(())
    }
}
