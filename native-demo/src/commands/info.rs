//! `wisp info`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use comfy_table::{Table, presets::NOTHING};
use serde_json::{Value, json};
use wisp_engine::{
    compiler::Footprint,
    device::Capabilities,
    pipelines::{
        CheckpointModel, DecoderModel, DecoderSpec, ModelFiles, ModelLimits, SupportedEncoding,
        TextEncoder, format_bytes, prepare,
    },
    weights::WeightSource,
};

use super::print_json;
use crate::{
    open,
    settings::{LIMITS, LORA, MODEL, Settings},
};

/// Describe a model, and the memory that it will need.
#[derive(Args)]
pub struct Info {
    /// The model, as for --model. Default: the model inside the program
    #[arg(value_name = "MODEL", conflicts_with = "huggingface_repo_id")]
    model_name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Draw what the model computes instead, in Graphviz's DOT language: pipe it to dot -Tsvg
    #[arg(long, conflicts_with_all = ["json", "text"])]
    graph: bool,
    /// Print what the model computes instead, op by op
    #[arg(long = "graph-text", id = "text", conflicts_with = "json")]
    graph_text: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL | LIMITS | LORA }>,
}

/// Tensors, weights and bytes of one encoding.
#[derive(Default, serde::Serialize)]
struct Count {
    tensors: u64,
    parameters: u64,
    bytes: u64,
}

impl Info {
    pub fn run(mut self) -> Result<()> {
        if let Some(model) = &self.model_name {
            self.settings.set_model(model)?;
        }
        let settings = self.settings.resolve()?;
        let open = settings.open()?;
        let files = open::files(&open)?;
        let limits = open.limits()?;
        if self.graph || self.graph_text {
            return self.print_graphs(files, limits);
        }
        let mut encodings: BTreeMap<String, Count> = BTreeMap::new();
        for tensor in files.checkpoint.tensors() {
            let count = encodings.entry(tensor.stored.to_string()).or_default();
            count.tensors += 1;
            count.bytes += tensor.len;
            count.parameters += tensor.shape.iter().product::<u64>();
        }
        // Whatever the device, a model takes what it takes on the host, but for some padding.
        let estimate = match files.model_spec.spec.encoder {
            Some(_) => TextEncoder::estimate_memory,
            None => DecoderModel::estimate_memory,
        };
        let memory =
            estimate(&Capabilities::HOST, files, limits).map_err(|error| error.to_string());
        if self.json {
            print_json(&report(files, &encodings, limits, &memory))
        } else {
            print(files, &encodings, limits, &memory);
            Ok(())
        }
    }
}

impl Info {
    /// Prints the model's own graph; the sampler is the same in all.
    fn print_graphs(&self, files: &ModelFiles, limits: ModelLimits) -> Result<()> {
        let graphs = prepare::graphs(files, &Capabilities::HOST, limits)?;
        for graph in graphs.iter().take(1) {
            match self.graph {
                true => print!("{}", graph.to_dot()),
                false => println!("{graph}"),
            }
        }
        Ok(())
    }
}

fn has_chat_template(files: &ModelFiles) -> bool {
    let tokenizer = files.tokenizer.as_ref();
    tokenizer.is_ok_and(|tokenizer| tokenizer.chat_template(None).is_some())
}

fn parameters(encodings: &BTreeMap<String, Count>) -> u64 {
    encodings.values().map(|count| count.parameters).sum()
}

/// Bytes of the buffers that are for adapters.
fn adapters(spec: &DecoderSpec, limits: ModelLimits) -> u64 {
    let layout = limits.lora().filter(|_| spec.encoder.is_none());
    layout.map_or(0, |layout| layout.bytes(spec))
}

/// What --json prints.
fn report(
    files: &ModelFiles,
    encodings: &BTreeMap<String, Count>,
    limits: ModelLimits,
    memory: &Result<Footprint, String>,
) -> Value {
    let spec = &files.model_spec.spec;
    json!({
        "model": files.name,
        "architecture": files.model_spec.architecture.name(),
        "format": files.checkpoint.format(),
        "encoding": SupportedEncoding::of(&files.checkpoint),
        "parameters": parameters(encodings),
        "files": files.checkpoint.file_names().collect::<Vec<_>>(),
        "file_bytes": files.checkpoint.byte_len(),
        "encodings": encodings,
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.hidden_size,
        "intermediate_size": spec.intermediate_size,
        "layers": spec.layers.len(),
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "context": spec.max_positions,
        "kv_bytes_per_position": spec.kv_bytes_per_position(limits.cache_format),
        "tokenizer": files.tokenizer.is_ok(),
        "chat_template": has_chat_template(files),
        "stop_tokens": files.stop_tokens,
        "memory": {
            "max_length": limits.max_length,
            "max_batch": limits.max_batch,
            "weights": memory.as_ref().ok().map(|needs| needs.weights),
            "kv_cache": memory.as_ref().ok().map(|needs| needs.buffers - adapters(spec, limits)),
            "adapters": adapters(spec, limits),
            "working": memory.as_ref().ok().map(|needs| needs.working),
            "total": memory.as_ref().ok().map(Footprint::total),
            "problem": memory.as_ref().err(),
        },
    })
}

fn print(
    files: &ModelFiles,
    encodings: &BTreeMap<String, Count>,
    limits: ModelLimits,
    memory: &Result<Footprint, String>,
) {
    let spec = &files.model_spec.spec;
    let mut table = Table::new();
    table.load_style(NOTHING);
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_string(), value]);
    };
    row("model", files.name.clone());
    row("architecture", files.model_spec.architecture.name().into());
    row(
        "parameters",
        format!(
            "{:.1} M in {}",
            parameters(encodings) as f64 / 1e6,
            format_bytes(files.checkpoint.byte_len())
        ),
    );
    row(
        "layers",
        format!(
            "{} of width {}, feed-forward {}",
            spec.layers.len(),
            spec.hidden_size,
            spec.intermediate_size
        ),
    );
    row(
        "heads",
        format!(
            "{} of {} over {} KV heads",
            spec.heads, spec.head_dim, spec.kv_heads
        ),
    );
    row("vocabulary", spec.vocab_size.to_string());
    row(
        "context",
        format!(
            "{} tokens, {} of KV cache each",
            spec.max_positions,
            format_bytes(spec.kv_bytes_per_position(limits.cache_format))
        ),
    );
    for (name, count) in encodings {
        row(
            name,
            format!("{} tensors, {}", count.tensors, format_bytes(count.bytes)),
        );
    }
    row(
        "tokenizer",
        match &files.tokenizer {
            Ok(tokenizer) => format!(
                "{} tokens, {} chat template",
                tokenizer.vocab_size(),
                if has_chat_template(files) {
                    "with a"
                } else {
                    "no"
                }
            ),
            Err(error) => format!("none: {error}"),
        },
    );
    row(
        "memory",
        match memory {
            Ok(needs) => format!(
                "{} for {} tokens: weights {}, KV cache {}, intermediate results {}",
                format_bytes(needs.total()),
                limits.max_length,
                format_bytes(needs.weights),
                format_bytes(needs.buffers),
                format_bytes(needs.working)
            ),
            Err(problem) => problem.clone(),
        },
    );
    println!("{table}");
}
