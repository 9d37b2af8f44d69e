//! What `wisp generate` and `wisp logits` compute, without the program: on adapters, each new process would translate and
//! load all kernels of a model again, which takes far longer than running it.
//!
//! The program still computes everything on the host, calls with flags that are not in the table here, and the first call
//! of a process for some of the models.

use std::{collections::BTreeSet, path::Path, sync::Mutex};

use wisp_engine::{
    Completion, Model, ModelBuilder, Precision,
    pipelines::{
        PipelineConfig,
        config::{Field, FieldKind, Layer},
    },
};

use crate::{bundled, sample, test_device::TestDevice};

/// Flags of the program, and the fields that they set.
const FIELDS: &[(&str, &str)] = &[
    ("--cache-strategy", "cache_strategy"),
    ("--enable-prefix-caching", "enable_prefix_caching"),
    ("--kv-cache-format", "kv_cache_format"),
    ("--layer-embeddings", "layer_embeddings"),
    ("--max-num-steps", "max_num_steps"),
    ("--page-size", "kv_cache_page_size"),
    ("--precision", "precision"),
    ("--prefill-chunk", "prefill_chunk_size"),
];

/// The program's own defaults, and the format of the KV cache that [`command`](crate::program::command) sets.
const DEFAULTS: &[(&str, &str)] = &[
    ("cache_strategy", "paged"),
    ("kv_cache_format", "float32"),
    ("kv_cache_page_size", "32"),
];

/// Positions whose logits are computed at the same time, as `wisp logits` does it.
const LOGIT_ROWS: u64 = 64;

fn set(layer: &mut Layer, name: &str, text: &str) {
    let field = Field::find(name).expect("a field of the configuration");
    layer.set_text(field, text).expect("a valid setting");
}

/// Returns the configuration that the program has with these flags; `None` if a flag is not in the table.
fn config(model: Option<&Path>, flags: &[&str]) -> Option<PipelineConfig> {
    let mut given = Layer::new("a test");
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let (_, name) = FIELDS.iter().find(|(known, _)| known == flag)?;
        let field = Field::find(name).expect("a field of the configuration");
        let text = match field.kind {
            FieldKind::Switch => "true",
            _ => *flags.next()?,
        };
        set(&mut given, name, text);
    }
    let mut defaults = Layer::new("the program");
    for (name, text) in DEFAULTS {
        set(&mut defaults, name, text);
    }
    let config = PipelineConfig::from_layers(&[&given, &defaults]);
    let mut config = config.expect("valid settings");
    config.huggingface_repo_id = model.map(|path| path.to_str().expect("UTF-8").into());
    Some(config)
}

/// Whether the program computes a call: on the host, which starts at once, and the first call of this process for a third
/// of the models on each device; where all cases run, the first one with each set of flags.
fn is_for_program(model: Option<&Path>, place: TestDevice, flags: &[&str]) -> bool {
    static HAS_RUN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if place == TestDevice::Host {
        return true;
    }
    let name = model.and_then(Path::file_name).unwrap_or_default();
    let case = format!("{} on {place:?}", name.to_string_lossy());
    let key = match sample::takes_all() {
        true => flags.join(" "),
        false => String::new(),
    };
    HAS_RUN.lock().expect("no panic").insert(key) && sample::has(&case, 0, 3)
}

/// Loads a model as the program does for one prompt; `None` if the program is to compute the call.
#[track_caller]
fn load(
    model: Option<&Path>,
    place: TestDevice,
    flags: &[&str],
    [prompt, new_tokens]: [usize; 2],
    logit_rows: u64,
) -> Option<Model> {
    let config = config(model, flags)?;
    if is_for_program(model, place, flags) {
        return None;
    }
    let device = place.shared_with(config.precision == Precision::F16);
    let builder = ModelBuilder::from_config(config)
        .default_context_length()
        .logit_rows(logit_rows)
        .opened_device(device);
    let opened = match model {
        Some(_) => builder.open(),
        None => builder.with_files(bundled::files()),
    };
    let loaded = opened.and_then(|open| open.for_prompt(prompt, Some(new_tokens)).load());
    Some(loaded.unwrap_or_else(|error| panic!("{model:?} on {place:?} with {flags:?}: {error}")))
}

/// Generates exactly `new_tokens` tokens as [`program::generate`](crate::program::generate) does; `None` if the program is
/// to do it.
#[track_caller]
pub fn generate(
    model: Option<&Path>,
    place: TestDevice,
    prompt: &[u32],
    new_tokens: usize,
    flags: &[&str],
) -> Option<Completion> {
    let loaded = load(model, place, flags, [prompt.len(), new_tokens], 0)?;
    let request = loaded
        .generate_tokens(prompt)
        .max_tokens(new_tokens)
        .ignore_end();
    let completion = request.complete();
    loaded.unload();
    Some(completion.unwrap_or_else(|error| panic!("{model:?} on {place:?}: {error}")))
}

/// Returns the logits of every position, `[tokens, vocab]`, as [`program::logits`](crate::program::logits) does; `None` if
/// the program is to do it.
#[track_caller]
pub fn logits(
    model: Option<&Path>,
    place: TestDevice,
    tokens: &[u32],
    flags: &[&str],
) -> Option<Vec<Vec<f32>>> {
    let loaded = load(model, place, flags, [tokens.len(), 0], LOGIT_ROWS)?;
    let (logits, vocab) = (
        loaded.logits(tokens, None),
        loaded.info().vocab_size as usize,
    );
    loaded.unload();
    let logits = logits.unwrap_or_else(|error| panic!("{model:?} on {place:?}: {error}"));
    assert_eq!(logits.len(), tokens.len() * vocab, "{model:?} on {place:?}");
    Some(logits.chunks_exact(vocab).map(<[f32]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_set_fields_over_the_defaults_of_the_program() {
        let path = Path::new("model.gguf");
        let flags = ["--page-size", "3", "--enable-prefix-caching"];
        let config = config(Some(path), &flags).expect("known flags");
        assert_eq!(config.huggingface_repo_id.as_deref(), Some("model.gguf"));
        assert_eq!(config.kv_cache_page_size, 3);
        assert!(config.enable_prefix_caching);
        let plain = super::config(None, &[]).expect("no flag");
        assert_eq!(plain.huggingface_repo_id, None);
        assert_eq!(plain.kv_cache_page_size, 32);
        assert!(!plain.enable_prefix_caching);
        assert_eq!(super::config(None, &["--lora", "a=b"]), None);
        assert_eq!(super::config(None, &["--page-size"]), None);
    }

    #[test]
    fn the_host_is_left_to_the_program() {
        assert!(is_for_program(None, TestDevice::Host, &[]));
    }
}
