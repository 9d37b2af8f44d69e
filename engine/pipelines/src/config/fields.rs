//! The table of the fields of a configuration: their names, ranges, defaults and descriptions.

/// The type and range of a field's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldKind {
    /// A string: a name, a path, or one of a list of choices.
    Text,
    /// An integer from the first number to the second, inclusive.
    Whole(i64, i64),
    /// A number above 0, at most 1.
    Fraction,
    /// A boolean: true or false.
    Switch,
    /// A list of names or paths.
    Texts,
}

/// The topic of a field. Each command of a program accepts the groups that apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldGroup {
    /// Selects the model and its files.
    Model,
    /// Selects the device and how it is used.
    Device,
    /// Limits memory, context length and batch sizes.
    Limits,
    /// Controls the generated text.
    Generation,
    /// Configures low-rank adapters.
    Lora,
}

/// A field of a [`PipelineConfig`](super::PipelineConfig).
#[derive(Debug)]
#[non_exhaustive]
pub struct Field {
    /// The field's name in the struct and in a TOML file.
    pub name: &'static str,
    /// The topic that the field belongs to.
    pub group: FieldGroup,
    /// The type and range of the field's value.
    pub kind: FieldKind,
    /// A description of the default value.
    pub default: &'static str,
    /// What the field does, as a phrase without a full stop.
    pub help: &'static str,
}

const fn field(
    group: FieldGroup,
    name: &'static str,
    kind: FieldKind,
    default: &'static str,
    help: &'static str,
) -> Field {
    Field {
        name,
        group,
        kind,
        default,
        help,
    }
}

use FieldGroup::{Device, Generation, Limits, Lora, Model};
use FieldKind::{Fraction, Switch, Text, Texts, Whole};

/// The upper end of ranges that have no natural limit.
pub(super) const UNBOUNDED: i64 = 1 << 32;

/// All fields, in the order of the struct.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    field(Model, "huggingface_repo_id", Text, "the model inside the program",
        "A .gguf file, a directory in Hugging Face's layout, or a repository of a hub: org/name, \
         org/name:q4_k or org/name:file.gguf"),
    field(Model, "huggingface_revision", Text, "main",
        "The branch, tag or commit of a hub repository"),
    field(Model, "weight_path", Texts, "those of the model",
        "Weights to use instead of the model's own: local files, or files of its repository; give \
         it several times for weights in several files"),
    field(Model, "quantization_encoding", Text, "as stored",
        "The encoding of the weights, such as q4_k or bfloat16: chooses among a repository's files, \
         and refuses weights in another one"),
    field(Model, "engine", Text, "max",
        "What runs the model: max (Wisp's own engine, under the name that Modular's MAX gives its own), or huggingface \
         (Hugging Face's candle on the CPU, for architectures that Wisp lacks; needs a build with the feature candle)"),
    field(Model, "architecture", Text, "the checkpoint's own",
        "Insist on this architecture, by Wisp's name or Hugging Face's"),
    field(Model, "rope_type", Text, "the checkpoint's own",
        "Force a kind of rotary position embedding: none, normal, neox, longrope or yarn"),
    field(Model, "trust_remote_code", Switch, "false",
        "Has no effect: Wisp never runs code from a repository; accepted because scripts written for MAX give it"),
    field(Model, "force_download", Switch, "false",
        "Download files anew even if they are in the cache"),
    field(Device, "device_specs", Texts, "auto",
        "auto, host, vulkan, metal, dx12, gl or cuda; with :INDEX, one of several"),
    field(Device, "profile", Text, "full",
        "full, or baseline: only what every browser guarantees"),
    field(Device, "device_class", Text, "auto",
        "The class of kernels on an adapter: auto is the adapter's own; gpu lets a software adapter pose \
         as a GPU, and software the other way round; the host ignores it"),
    field(Device, "precision", Text, "exact",
        "The precision of products: exact; int8, with activations in 8 bits: faster on CPUs, and a little less \
         accurate; or f16: faster on GPUs with half precision, and less accurate; devices without it compute exactly"),
    field(Device, "threads", Whole(0, 65536), "0",
        "Threads of the host device; 0 is one a core"),
    field(Device, "gpu_memory_utilization", Fraction, "0.9",
        "The share of the device's free memory to use: what the weights leave of it is for the KV \
         cache"),
    field(Device, "tuning", Text, "auto",
        "Which kernels to prefer: auto, those that wisp tune found to be fastest on the device, if it ran; \
         off, the default ones; or a file that wisp tune --out wrote"),
    field(Limits, "max_length", Whole(1, UNBOUNDED), "512",
        "Tokens that the context holds, prompt and answer together"),
    field(Limits, "max_cache_batch_size", Whole(1, 65536), "1",
        "Sequences that the KV cache has room for at the same time"),
    field(Limits, "max_ce_batch_size", Whole(1, 65536), "32",
        "Prompts that go through the model at the same time, at most as many as the KV cache has \
         room for"),
    field(Limits, "prefill_chunk_size", Whole(1, 65536), "512",
        "Tokens of prompts that go through the model at a time, besides one of each other sequence"),
    field(Limits, "pad_to_multiple_of", Whole(1, 65536), "2",
        "Round the number of tokens that a step has room for up to a multiple of N; sequences themselves are not padded"),
    field(Limits, "max_num_steps", Whole(1, 256), "4 on an adapter, 1 on the host",
        "Most decode steps in one submission to the device; always 1 with layer_embeddings = host"),
    field(Limits, "cache_strategy", Text, "continuous",
        "How the KV cache is laid out: naive (one sequence at a time), continuous (every sequence \
         has its whole context in one piece) or paged (sequences take pages as they grow)"),
    field(Limits, "kv_cache_format", Text, "float16, on the host float32",
        "How the KV cache stores keys and values: float32, with which every device gives the same tokens, \
         float16 (half the memory) or q8_0 (about 30 %)"),
    field(Limits, "kv_cache_page_size", Whole(1, 65536), "512",
        "Positions in a page of the paged KV cache"),
    field(Limits, "cache_tokens", Whole(1, UNBOUNDED),
        "a whole context for each sequence",
        "Tokens that the paged KV cache holds for all sequences together, at least a whole context and at most one for each \
         sequence; fewer if the memory is too small"),
    field(Limits, "layer_embeddings", Text, "auto",
        "Where a model keeps its embeddings by layer (Gemma 3n, Gemma 4 E2B and E4B): device; host, which frees about half of \
         the memory of the weights, but submits every decode step alone; or auto, device if the model fits there"),
    field(Limits, "enable_prefix_caching", Switch, "false",
        "Keep full pages of the KV cache for prompts that begin alike; the cache is then paged"),
    field(Limits, "serialized_model_path", Text, "none",
        "Load a compiled model from this file instead of compiling it"),
    field(Limits, "save_to_serialized_model_path", Text, "none",
        "Save the compiled model to this file"),
    field(Lora, "enable_lora", Switch, "false",
        "Reserve memory for adapters even if none is loaded at the start"),
    field(Lora, "lora_paths", Texts, "none",
        "Load a low-rank adapter, a folder as PEFT writes it, under this name (without one: under its \
         path); may be given several times"),
    field(Lora, "max_lora_rank", Whole(1, 65536), "16",
        "The highest rank that an adapter may have; each takes memory for this rank"),
    field(Lora, "max_num_loras", Whole(1, 65536), "1",
        "Adapters that can be loaded at the same time, at least as many as are loaded at the start"),
    field(Generation, "max_new_tokens", Whole(-1, UNBOUNDED), "-1",
        "Most tokens to generate; -1: until the context is full"),
    field(Generation, "top_k", Whole(0, UNBOUNDED - 1), "0",
        "Sample from the K most probable tokens; 0 is all"),
    field(Generation, "enable_echo", Switch, "false",
        "Put the prompt in front of the generated text, and compute the logits of all its positions"),
];

impl Field {
    /// Returns the field with this name.
    pub fn find(name: &str) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.name == name)
    }
}
