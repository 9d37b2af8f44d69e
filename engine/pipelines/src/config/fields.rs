//! The fields of a [`PipelineConfig`](super::PipelineConfig): their names, flags, ranges, defaults
//! and the words that explain them. Flags, environment variables, files and help come from this one
//! table.

use serde_json::Value;

use super::ConfigError;

/// What a field's value is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A name, a path, or one of some choices.
    Text,
    /// A whole number in this range.
    Whole(i64, i64),
    /// Above 0, at most 1.
    Fraction,
    /// On or off.
    Switch,
    /// Several names or paths.
    Texts,
}

/// What a field is about; a command takes the groups that matter to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Group {
    /// Which model, from which files.
    Model = 1,
    /// Where it runs.
    Device = 2,
    /// How much memory and work at a time.
    Limits = 4,
    /// What is generated.
    Generation = 8,
    /// Adapters.
    Lora = 16,
}

/// A field of the configuration.
#[derive(Debug)]
pub struct Field {
    /// Its name in [`PipelineConfig`](super::PipelineConfig) and in a file.
    pub name: &'static str,
    /// Its flag, without the dashes.
    pub flag: &'static str,
    /// Its one-letter flag.
    pub short: Option<char>,
    /// What stands for its value in help; empty for switches.
    pub value_name: &'static str,
    /// What it is about.
    pub group: Group,
    /// What its value is.
    pub kind: Kind,
    /// The default, in words.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

const fn field(
    group: Group,
    name: &'static str,
    flag: &'static str,
    value_name: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Field {
    Field {
        name,
        flag,
        short: None,
        value_name,
        group,
        kind,
        default,
        help,
    }
}

impl Field {
    const fn short(mut self, letter: char) -> Field {
        self.short = Some(letter);
        self
    }
}

use Group::{Device, Generation, Limits, Lora, Model};
use Kind::{Fraction, Switch, Text, Texts, Whole};

const MANY: i64 = 1 << 32;

/// Every field.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    field(Model, "huggingface_repo_id", "model", "MODEL", Text, "the model inside the program",
        "A .gguf file, a directory in Hugging Face's layout, or a repository of a hub: org/name, \
         org/name:q4_k or org/name:file.gguf").short('m'),
    field(Model, "huggingface_revision", "revision", "REVISION", Text, "main",
        "The branch, tag or commit of a hub repository"),
    field(Model, "weight_path", "weight-path", "FILE", Texts, "those of the model",
        "Weights to use instead of the model's own: local files, or files of its repository; give \
         it several times for weights in several files"),
    field(Model, "quantization_encoding", "quantization-encoding", "ENCODING", Text, "as stored",
        "The encoding of the weights, such as q4_k or bfloat16: chooses among a repository's files, \
         and refuses weights in another one"),
    field(Model, "engine", "engine", "ENGINE", Text, "max",
        "What runs the model: max is Wisp's own engine; huggingface is Hugging Face's candle on the \
         CPU, for architectures that Wisp lacks, in builds that have it (--features candle)"),
    field(Model, "architecture", "architecture", "NAME", Text, "the checkpoint's own",
        "Insist on this architecture, by Wisp's name or Hugging Face's"),
    field(Model, "rope_type", "rope-type", "TYPE", Text, "the checkpoint's own",
        "Force a kind of rotary position embedding: none, normal, neox, longrope or yarn"),
    field(Model, "trust_remote_code", "trust-remote-code", "", Switch, "false",
        "Accepted for compatibility: Wisp never runs code from a repository"),
    field(Model, "force_download", "force-download", "", Switch, "false",
        "Download files anew even if they are in the cache"),
    field(Device, "device_specs", "device", "DEVICE", Texts, "auto",
        "auto, host, vulkan, metal, dx12 or gl; with :INDEX, one of several"),
    field(Device, "profile", "profile", "PROFILE", Text, "full",
        "full, or baseline: only what every browser guarantees"),
    field(Device, "threads", "threads", "N", Whole(0, 65536), "0",
        "Threads of the host device; 0 is one a core"),
    field(Device, "gpu_memory_utilization", "gpu-memory-utilization", "FRACTION", Fraction, "0.9",
        "The share of the device's free memory to use: what the weights leave of it is for the KV \
         cache"),
    field(Limits, "max_length", "max-length", "N", Whole(1, MANY), "512",
        "Tokens that the context holds, prompt and answer together"),
    field(Limits, "max_cache_batch_size", "max-cache-batch-size", "N", Whole(1, 65536), "1",
        "Sequences that the KV cache has room for at the same time"),
    field(Limits, "max_ce_batch_size", "max-ce-batch-size", "N", Whole(1, 65536), "32",
        "Prompts that go through the model at the same time, at most --max-cache-batch-size"),
    field(Limits, "prefill_chunk_size", "prefill-chunk", "N", Whole(1, 65536), "512",
        "Tokens of a prompt that go through the model at a time"),
    field(Limits, "pad_to_multiple_of", "pad-to-multiple-of", "N", Whole(1, 65536), "2",
        "Round the tokens that a step has room for up to a multiple of this; batches are ragged and \
         need no other padding"),
    field(Limits, "max_num_steps", "max-num-steps", "N", Whole(1, 256), "1",
        "Decode steps in one submission to the device"),
    field(Limits, "cache_strategy", "cache-strategy", "STRATEGY", Text, "continuous",
        "How the KV cache is laid out: naive (one sequence at a time), continuous (every sequence \
         has its whole context in one piece) or paged (sequences take pages as they grow)"),
    field(Limits, "kv_cache_format", "kv-cache-format", "FORMAT", Text, "float32",
        "How the KV cache stores keys and values: float32, float16 (half the memory) or q8_0 (little \
         more than a quarter)"),
    field(Limits, "kv_cache_page_size", "page-size", "N", Whole(1, 65536), "512",
        "Positions in a page of the paged KV cache"),
    field(Limits, "enable_prefix_caching", "enable-prefix-caching", "", Switch, "false",
        "Keep full pages of the KV cache for prompts that begin alike; the cache is then paged"),
    field(Limits, "serialized_model_path", "serialized-model-path", "FILE", Text, "none",
        "Load a compiled model from this file instead of compiling it"),
    field(Limits, "save_to_serialized_model_path", "save-to-serialized-model-path", "FILE", Text, "none",
        "Save the compiled model to this file"),
    field(Lora, "enable_lora", "enable-lora", "", Switch, "false",
        "Reserve memory for adapters even if none is named by --lora"),
    field(Lora, "lora_paths", "lora", "NAME=PATH", Texts, "none",
        "Load a low-rank adapter, a folder as PEFT writes it, under this name (without one: under its \
         path); may be given several times"),
    field(Lora, "max_lora_rank", "max-lora-rank", "N", Whole(1, 65536), "16",
        "The highest rank that an adapter may have; each takes memory for this rank"),
    field(Lora, "max_num_loras", "max-num-loras", "N", Whole(1, 65536), "1",
        "Adapters that there is room for at the same time; those named by --lora always have some"),
    field(Generation, "max_new_tokens", "max-new-tokens", "N", Whole(-1, MANY), "-1",
        "Most tokens to generate; -1: until the context is full").short('n'),
    field(Generation, "top_k", "top-k", "K", Whole(0, MANY - 1), "0",
        "Draw from the K likeliest tokens; 0 is all"),
    field(Generation, "enable_echo", "enable-echo", "", Switch, "false",
        "Give the prompt back in front of what was generated, and compute the logits of all its \
         positions"),
];

/// The field of a name.
pub fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

impl Field {
    /// The environment variables that set it; the first one found counts.
    pub fn variables(&self) -> [String; 2] {
        let of = |name: &str| format!("WISP_{}", name.to_uppercase().replace('-', "_"));
        [of(self.flag), of(self.name)]
    }

    /// A value from the text of a flag or a variable; a list has one entry.
    ///
    /// # Errors
    ///
    /// If the text is no such value.
    pub fn parse(&'static self, text: &str) -> Result<Value, ConfigError> {
        let wrong = || self.wrong(&Value::from(text));
        let value = match self.kind {
            Text => Value::from(text),
            Texts => Value::from(vec![text]),
            Whole(..) => Value::from(text.trim().parse::<i64>().map_err(|_| wrong())?),
            Fraction => Value::from(text.trim().parse::<f64>().map_err(|_| wrong())?),
            Switch => match text.trim().to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Value::from(true),
                "" | "0" | "false" | "no" | "off" => Value::from(false),
                _ => return Err(wrong()),
            },
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Checks a value's kind and range, and that it is among the field's choices.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub fn check(&'static self, value: &Value) -> Result<(), ConfigError> {
        let fits = match self.kind {
            Text | Texts => value.is_string() || value.is_array(),
            Whole(least, most) => value.as_i64().is_some_and(|n| (least..=most).contains(&n)),
            Fraction => value.as_f64().is_some_and(|n| n > 0.0 && n <= 1.0),
            Switch => value.is_boolean(),
        };
        if !fits {
            return Err(self.wrong(value));
        }
        let one = serde_json::Map::from_iter([(self.name.to_string(), value.clone())]);
        match serde_json::from_value::<super::PipelineConfig>(Value::Object(one)) {
            Ok(_) => Ok(()),
            Err(error) => Err(ConfigError::Value {
                field: self.name,
                problem: error.to_string(),
            }),
        }
    }

    fn wrong(&self, value: &Value) -> ConfigError {
        let expected = match self.kind {
            Text => "a text".into(),
            Texts => "texts".into(),
            Whole(least, MANY) => format!("a whole number of at least {least}"),
            Whole(least, most) => format!("a whole number from {least} to {most}"),
            Fraction => "a number above 0, at most 1".into(),
            Switch => "true or false".into(),
        };
        let shown = match value {
            Value::String(text) => format!("{text:?}"),
            other => other.to_string(),
        };
        ConfigError::Value {
            field: self.name,
            problem: format!("is {shown}, but must be {expected}"),
        }
    }
}
