//! `wisp info`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use comfy_table::{Table, presets::NOTHING};
use serde_json::{Value, json};
use wisp_engine::{
    compiler::{Call, Footprint, Target, compile},
    device::Capabilities,
    pipelines::{
        CheckpointModel, DecoderModel, DecoderSpec, ModelFiles, ModelLimits, SupportedEncoding,
        TextEncoder, format_bytes, prepare,
    },
    weights::WeightSource,
};

use crate::{
    escape, open,
    output::{print, print_json, print_line},
    settings::{LIMITS, LORA, MODEL, Settings},
};

/// Describe a model and estimate the memory that it needs.
#[derive(Args)]
pub struct Info {
    /// The model, as for --model. Default: the model that is built into the program
    #[arg(value_name = "MODEL", conflicts_with = "huggingface_repo_id")]
    model_name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the model's graph in Graphviz's DOT language instead: pipe it to dot -Tsvg
    #[arg(long, conflicts_with_all = ["json", "text"])]
    graph: bool,
    /// Print the model's graph as text instead, one op per line
    #[arg(long = "graph-text", id = "text", conflicts_with = "json")]
    graph_text: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL | LIMITS | LORA }>,
}

/// The number of tensors, parameters and bytes of one encoding.
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
        // A model needs the same memory on every device, except for some padding.
        let estimate = match files.model_spec.spec.encoder {
            Some(_) => TextEncoder::estimate_memory,
            None => DecoderModel::estimate_memory,
        };
        let memory =
            estimate(&Capabilities::HOST, files, limits).map_err(|error| error.to_string());
        let kernels = Kernels::of(files, limits).map_err(|error| error.to_string());
        if self.json {
            print_json(&report(files, &encodings, limits, &memory, &kernels))
        } else {
            print_report(files, &encodings, limits, &memory, &kernels)
        }
    }
}

impl Info {
    /// Prints the model's graph without the sampler, which is the same for all models.
    fn print_graphs(&self, files: &ModelFiles, limits: ModelLimits) -> Result<()> {
        let graphs = prepare::graphs(files, &Capabilities::HOST, limits)?;
        for graph in graphs.iter().take(1) {
            match self.graph {
                true => print(format_args!("{}", graph.to_dot()))?,
                false => print_line!("{graph}")?,
            }
        }
        Ok(())
    }
}

/// The kernel calls of a model's graph on a GPU.
#[derive(serde::Serialize)]
struct Kernels {
    /// Calls of a run that decodes one token in a short context.
    calls_per_token: usize,
    /// What calls miss the best kernels, with the number of kernels of which this is true.
    fallbacks: BTreeMap<String, usize>,
    /// What ops run as several calls that others run as one, with the number of ops of which this is true.
    unfused: BTreeMap<String, usize>,
}

impl Kernels {
    /// Compiles the model's graph for a GPU, without weights.
    fn of(files: &ModelFiles, limits: ModelLimits) -> Result<Kernels> {
        let target = Target::named("vulkan")?.capabilities;
        let mut kernels = Kernels {
            calls_per_token: 0,
            fallbacks: BTreeMap::new(),
            unfused: BTreeMap::new(),
        };
        for graph in prepare::graphs(files, &target, limits)?.iter().take(1) {
            let program = compile(graph, &target)?;
            let dims = vec![1; program.dims.len()];
            let made = |call: &&Call| call.is_made(&dims) == Some(true);
            kernels.calls_per_token += program.calls.iter().filter(made).count();
            for fallback in program.fallbacks() {
                let layer = without_numbers(&fallback.to_string());
                *kernels.fallbacks.entry(layer).or_default() += 1;
            }
            for unfused in program
                .stages
                .iter()
                .filter_map(|stage| stage.unfused.as_ref())
            {
                *kernels.unfused.entry(unfused.to_string()).or_default() += 1;
            }
        }
        Ok(kernels)
    }

    /// Describes the calls for the table.
    fn text(&self) -> String {
        let mut text = format!("{} calls a token on a GPU", self.calls_per_token);
        if self.fallbacks.is_empty() {
            text += ", all by the best kernels";
        }
        for (problem, count) in self.fallbacks.iter().chain(&self.unfused) {
            text += &format!("; {count} times: {problem}");
        }
        text
    }
}

/// The name of a weight without the number of its layer, so that layers count together.
fn without_numbers(text: &str) -> String {
    let (label, rest) = text.split_once(" runs ").unwrap_or((text, ""));
    let parts = label.split('.');
    let parts = parts.map(
        |part| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => "N",
            false => part,
        },
    );
    format!("{} runs {rest}", parts.collect::<Vec<_>>().join("."))
}

fn has_chat_template(files: &ModelFiles) -> bool {
    let tokenizer = files.tokenizer.as_ref();
    tokenizer.is_ok_and(|tokenizer| tokenizer.chat_template(None).is_some())
}

fn parameters(encodings: &BTreeMap<String, Count>) -> u64 {
    encodings.values().map(|count| count.parameters).sum()
}

/// Returns the bytes of the buffers for LoRA adapters.
fn adapters(spec: &DecoderSpec, limits: ModelLimits) -> u64 {
    let layout = limits.lora().filter(|_| spec.encoder.is_none());
    layout.map_or(0, |layout| layout.bytes(spec))
}

/// Returns the object that `--json` prints.
fn report(
    files: &ModelFiles,
    encodings: &BTreeMap<String, Count>,
    limits: ModelLimits,
    memory: &Result<Footprint, String>,
    kernels: &Result<Kernels, String>,
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
        "state_bytes": spec.state_bytes(),
        "tokenizer": files.tokenizer.is_ok(),
        "chat_template": has_chat_template(files),
        "stop_tokens": files.stop_tokens,
        "memory": {
            "max_length": limits.max_length,
            "max_batch": limits.max_batch,
            "weights": memory.as_ref().ok().map(|footprint| footprint.weights),
            "kv_cache": memory.as_ref().ok().map(|footprint| footprint.buffers - adapters(spec, limits)),
            "adapters": adapters(spec, limits),
            "working": memory.as_ref().ok().map(|footprint| footprint.working),
            "total": memory.as_ref().ok().map(Footprint::total),
            "problem": memory.as_ref().err(),
        },
        "kernels": kernels.as_ref().ok(),
    })
}

/// Prints the report as a table of two columns.
fn print_report(
    files: &ModelFiles,
    encodings: &BTreeMap<String, Count>,
    limits: ModelLimits,
    memory: &Result<Footprint, String>,
    kernels: &Result<Kernels, String>,
) -> Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    for (name, value) in model_rows(files, encodings, limits) {
        table.add_row([name, &escape::line(&value)]);
    }
    for (name, count) in encodings {
        let value = format!("{} tensors, {}", count.tensors, format_bytes(count.bytes));
        table.add_row([name, &value]);
    }
    table.add_row(["tokenizer", &escape::line(&tokenizer_text(files))]);
    table.add_row(["memory", &escape::line(&memory_text(limits, memory))]);
    if let Ok(kernels) = kernels {
        table.add_row(["kernels", &escape::line(&kernels.text())]);
    }
    print_line!("{table}")
}

/// Returns names and values of the table's rows about the model.
fn model_rows(
    files: &ModelFiles,
    encodings: &BTreeMap<String, Count>,
    limits: ModelLimits,
) -> [(&'static str, String); 7] {
    let spec = &files.model_spec.spec;
    let millions = parameters(encodings) as f64 / 1e6;
    let file_bytes = format_bytes(files.checkpoint.byte_len());
    let layers = spec.layers.len();
    let (width, feed_forward) = (spec.hidden_size, spec.intermediate_size);
    let (heads, head_dim, kv_heads) = (spec.heads, spec.head_dim, spec.kv_heads);
    let state = match spec.state_bytes() {
        0 => String::new(),
        bytes => format!(", {} of state for each text", format_bytes(bytes)),
    };
    let position_bytes = format_bytes(spec.kv_bytes_per_position(limits.cache_format));
    [
        ("model", files.name.clone()),
        ("architecture", files.model_spec.architecture.name().into()),
        ("parameters", format!("{millions:.1} M in {file_bytes}")),
        (
            "layers",
            format!("{layers} of width {width}, feed-forward {feed_forward}"),
        ),
        (
            "heads",
            format!("{heads} of {head_dim} over {kv_heads} KV heads"),
        ),
        ("vocabulary", spec.vocab_size.to_string()),
        (
            "context",
            format!(
                "{} tokens, {position_bytes} of KV cache each{state}",
                spec.max_positions
            ),
        ),
    ]
}

fn tokenizer_text(files: &ModelFiles) -> String {
    let template = match has_chat_template(files) {
        true => "with a",
        false => "no",
    };
    match &files.tokenizer {
        Ok(tokenizer) => {
            let tokens = tokenizer.vocab_size();
            format!("{tokens} tokens, {template} chat template")
        }
        Err(error) => format!("none: {error}"),
    }
}

/// Returns the memory that the model needs, or why it cannot be estimated.
fn memory_text(limits: ModelLimits, memory: &Result<Footprint, String>) -> String {
    match memory {
        Ok(footprint) => format!(
            "{} for {} tokens: weights {}, KV cache {}, intermediate results {}",
            format_bytes(footprint.total()),
            limits.max_length,
            format_bytes(footprint.weights),
            format_bytes(footprint.buffers),
            format_bytes(footprint.working)
        ),
        Err(problem) => problem.clone(),
    }
}
