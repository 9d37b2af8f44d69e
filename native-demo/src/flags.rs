//! The flags of a configuration's fields.

use wisp_engine::pipelines::config::Field;

/// How the command line sets a field.
pub struct Flag {
    /// The field's name.
    field: &'static str,
    /// The flag, without the dashes.
    pub long: &'static str,
    /// The one-letter flag.
    pub short: Option<char>,
    /// The flag's names in other programs, which the help leaves out.
    pub aliases: &'static [&'static str],
    /// The placeholder of the value in the help text; empty for switches.
    pub value_name: &'static str,
}

const fn flag(field: &'static str, long: &'static str, value_name: &'static str) -> Flag {
    Flag {
        field,
        long,
        short: None,
        aliases: &[],
        value_name,
    }
}

const fn with_short(flag: Flag, letter: char) -> Flag {
    Flag {
        short: Some(letter),
        ..flag
    }
}

const fn with_aliases(flag: Flag, aliases: &'static [&'static str]) -> Flag {
    Flag { aliases, ..flag }
}

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    with_short(flag("huggingface_repo_id", "model", "MODEL"), 'm'),
    flag("huggingface_revision", "revision", "REVISION"),
    flag("weight_path", "weight-path", "FILE"),
    flag("quantization_encoding", "quantization-encoding", "ENCODING"),
    flag("engine", "engine", "ENGINE"),
    flag("architecture", "architecture", "NAME"),
    flag("rope_type", "rope-type", "TYPE"),
    flag("trust_remote_code", "trust-remote-code", ""),
    flag("force_download", "force-download", ""),
    flag("device_specs", "device", "DEVICE"),
    flag("profile", "profile", "PROFILE"),
    flag("device_class", "device-class", "CLASS"),
    flag("precision", "precision", "PRECISION"),
    flag("threads", "threads", "N"),
    flag("gpu_memory_utilization", "gpu-memory-utilization", "FRACTION"),
    flag("tuning", "tuning", "TUNING"),
    with_aliases(flag("max_length", "max-length", "N"), &["ctx-size"]),
    flag("max_cache_batch_size", "max-cache-batch-size", "N"),
    flag("max_ce_batch_size", "max-ce-batch-size", "N"),
    flag("prefill_chunk_size", "prefill-chunk", "N"),
    flag("pad_to_multiple_of", "pad-to-multiple-of", "N"),
    flag("max_num_steps", "max-num-steps", "N"),
    flag("cache_strategy", "cache-strategy", "STRATEGY"),
    flag("kv_cache_format", "kv-cache-format", "FORMAT"),
    flag("kv_cache_page_size", "page-size", "N"),
    flag("cache_tokens", "cache-tokens", "N"),
    flag("layer_embeddings", "layer-embeddings", "PLACE"),
    flag("enable_prefix_caching", "enable-prefix-caching", ""),
    flag("serialized_model_path", "serialized-model-path", "FILE"),
    flag("save_to_serialized_model_path", "save-to-serialized-model-path", "FILE"),
    flag("enable_lora", "enable-lora", ""),
    flag("lora_paths", "lora", "NAME=PATH"),
    flag("max_lora_rank", "max-lora-rank", "N"),
    flag("max_num_loras", "max-num-loras", "N"),
    with_aliases(with_short(flag("max_new_tokens", "max-new-tokens", "N"), 'n'), &["max-tokens", "n-predict"]),
    flag("top_k", "top-k", "K"),
    flag("enable_echo", "enable-echo", ""),
];

/// Names in messages of the library that are not fields, and their flags.
const OTHERS: &[(&str, &str)] = &[("force", "force"), ("tokens", "tokens")];

impl Flag {
    /// Returns the flag of a field.
    pub fn of(field: &Field) -> &'static Flag {
        let found = FLAGS.iter().find(|flag| flag.field == field.name);
        // A test checks that every field has a row.
        found.unwrap_or(&FLAGS[0])
    }
}

/// Replaces the names of fields in a message of the library by those of flags: `` `max_length` ``
/// becomes `--max-length`, and `` `max_length = 7` `` becomes `--max-length 7`.
pub fn with_flags(message: &str) -> String {
    let mut parts = message.split('`');
    let mut text = parts.next().unwrap_or_default().to_string();
    while let Some(quoted) = parts.next() {
        let Some(after) = parts.next() else {
            // The last backquote has no partner.
            return text + "`" + quoted;
        };
        match as_flag(quoted) {
            Some(flag) => text += &flag,
            None => text = text + "`" + quoted + "`",
        }
        text += after;
    }
    text
}

/// Returns a quoted field, or a field and its value, as a flag.
fn as_flag(quoted: &str) -> Option<String> {
    let (name, value) = match quoted.split_once(" = ") {
        Some((name, value)) => (name, Some(value)),
        None => (quoted, None),
    };
    let fields = FLAGS.iter().map(|flag| (flag.field, flag.long));
    let mut all = fields.chain(OTHERS.iter().copied());
    let (_, flag) = all.find(|(field, _)| *field == name)?;
    Some(match value {
        Some(value) => format!("--{flag} {value}"),
        None => format!("--{flag}"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use wisp_engine::pipelines::config::{FIELDS, FieldKind};

    use super::*;

    #[test]
    fn every_field_has_a_unique_flag() {
        let names = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>();
        assert_eq!(
            names(&mut FLAGS.iter().map(|flag| flag.field)),
            names(&mut FIELDS.iter().map(|field| field.name))
        );
        let mut seen = HashSet::new();
        for field in FIELDS {
            let flag = Flag::of(field);
            for name in flag.aliases.iter().chain([&flag.long]) {
                assert!(seen.insert(*name), "{name}");
            }
            assert_eq!(
                flag.value_name.is_empty(),
                field.kind == FieldKind::Switch,
                "{}",
                flag.long
            );
        }
    }

    #[test]
    fn messages_name_flags_instead_of_fields() {
        for (message, expected) in [
            ("use `max_length = 7` or less", "use --max-length 7 or less"),
            (
                "set `huggingface_repo_id` or `weight_path`",
                "set --model or --weight-path",
            ),
            (
                "config.json: `head_dim` is 0",
                "config.json: `head_dim` is 0",
            ),
            ("an odd ` backquote", "an odd ` backquote"),
            ("`force`", "--force"),
        ] {
            assert_eq!(with_flags(message), expected);
        }
    }
}
