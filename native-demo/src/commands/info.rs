//! `wisp info`.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use comfy_table::{Table, presets::NOTHING};
use serde_json::{Value, json};
use wisp_engine::{
    KvCacheFormat, LayerEmbeddingsPlacement, OpenModel,
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
    output::{counted, print, print_json, print_line},
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
        // On the host only the format of the KV cache may differ.
        let limits = open.limits(&Capabilities::BASELINE)?;
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
        let memory = Memory::of(&open, files, limits)?;
        let kernels = Kernels::of(files, limits).map_err(|error| error.to_string());
        if self.json {
            print_json(&report(files, &encodings, &memory, &kernels))
        } else {
            print_report(files, &encodings, &memory, &kernels)
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

/// The memory that a model needs.
struct Memory {
    /// The limits on a GPU.
    limits: ModelLimits,
    /// Bytes of the embeddings by layer, if the model has any.
    layer_embeddings: Option<u64>,
    /// What the model needs on a GPU, or why that cannot be estimated.
    needs: Result<Footprint, String>,
    /// What it needs on the host, where the KV cache has another format unless the user chose one.
    on_host: Option<Footprint>,
}

impl Memory {
    fn of(open: &OpenModel, files: &ModelFiles, limits: ModelLimits) -> Result<Memory> {
        // Apart from the format of the KV cache and some padding, a model needs the same memory on every device.
        let target = Capabilities::HOST;
        let estimate = |limits| match files.model_spec.spec.encoder {
            Some(_) => TextEncoder::estimate_memory(&target, files, limits),
            None => DecoderModel::estimate_memory(&target, files, limits),
        };
        let host_limits = open.limits(&target)?;
        let differs = host_limits.cache_format != limits.cache_format;
        Ok(Memory {
            limits,
            layer_embeddings: files.layer_embedding_bytes(),
            needs: estimate(limits).map_err(|error| error.to_string()),
            on_host: match differs {
                true => estimate(host_limits).ok(),
                false => None,
            },
        })
    }

    /// Returns the format of the KV cache on a GPU.
    fn format(&self) -> KvCacheFormat {
        self.limits.cache_format.into()
    }

    /// Describes the memory for the table.
    fn text(&self) -> String {
        let footprint = match &self.needs {
            Ok(footprint) => footprint,
            Err(problem) => return problem.clone(),
        };
        let format = KvCacheFormat::default_on(&Capabilities::HOST);
        let on_host = self.on_host.map_or_else(String::new, |host| {
            format!(" (on the host {} in {format})", format_bytes(host.buffers))
        });
        let layer_embeddings = self.layer_embeddings.map_or_else(String::new, |bytes| {
            let relation = match self.limits.layer_embeddings {
                LayerEmbeddingsPlacement::Host => "and on the host",
                _ => "of which",
            };
            format!(" ({relation} embeddings by layer {})", format_bytes(bytes))
        });
        format!(
            "{} for {} tokens: weights {}{layer_embeddings}, KV cache {} in {}{on_host}, intermediate results {}",
            format_bytes(footprint.total()),
            self.limits.max_length,
            format_bytes(footprint.weights),
            format_bytes(footprint.buffers),
            self.format(),
            format_bytes(footprint.working)
        )
    }

    /// Returns the object that `--json` prints.
    fn json(&self, spec: &DecoderSpec) -> Value {
        let adapters = adapters(spec, self.limits);
        let needs = self.needs.as_ref().ok();
        let cache = |footprint: &Footprint| footprint.buffers - adapters;
        json!({
            "max_length": self.limits.max_length,
            "max_batch": self.limits.max_batch,
            "weights": needs.map(|footprint| footprint.weights),
            "layer_embeddings": self.layer_embeddings,
            "layer_embeddings_placement": self.limits.layer_embeddings,
            "kv_cache": needs.map(cache),
            "kv_cache_format": self.format(),
            "kv_cache_on_host": self.on_host.as_ref().or(needs).map(cache),
            "adapters": adapters,
            "working": needs.map(|footprint| footprint.working),
            "total": needs.map(Footprint::total),
            "problem": self.needs.as_ref().err(),
        })
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
    memory: &Memory,
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
        "longest_context": spec.longest_context(),
        "kv_bytes_per_position": spec.kv_bytes_per_position(memory.limits.cache_format),
        "state_bytes": spec.state_bytes(),
        "tokenizer": files.tokenizer.is_ok(),
        "chat_template": has_chat_template(files),
        "stop_tokens": files.stop_tokens,
        "memory": memory.json(spec),
        "kernels": kernels.as_ref().ok(),
    })
}

/// Prints the report as a table of two columns.
fn print_report(
    files: &ModelFiles,
    encodings: &BTreeMap<String, Count>,
    memory: &Memory,
    kernels: &Result<Kernels, String>,
) -> Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    for (name, value) in model_rows(files, encodings, memory.limits) {
        table.add_row([name, &escape::line(&value)]);
    }
    for (name, count) in encodings {
        let tensors = counted(count.tensors, "tensor");
        let value = format!("{tensors}, {}", format_bytes(count.bytes));
        table.add_row([name, &value]);
    }
    table.add_row(["tokenizer", &escape::line(&tokenizer_text(files))]);
    table.add_row(["memory", &escape::line(&memory.text())]);
    if let Ok(kernels) = kernels {
        table.add_row(["kernels", &escape::line(&kernels.text())]);
    }
    print_line!("{}", table.trim_fmt())
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
    let longest = match spec.longest_context() {
        longest if longest > spec.max_positions => {
            format!(" ({longest} with --max-length, because its positions are scaled)")
        }
        _ => String::new(),
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
                "{} tokens{longest}, {position_bytes} of KV cache each{state}",
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
