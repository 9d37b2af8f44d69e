//! Loads a tokenizer from its files.

use std::collections::{BTreeSet, HashSet};

use serde::Deserialize;
use serde_json::Value;
use tokenizers::ModelWrapper;

use super::added_tokens::{AddedToken, AddedTokens};
use super::backend::{AddedEnd, Components, HuggingFaceTokenizer};
use super::decoder::Decoder;
use super::files::HuggingFaceFiles;
use super::json::{BoundedJson, invalid};
use super::model::ModelJson;
use super::normalizer::Normalizer;
use super::older_tokens::older_tokens;
use super::post_processor::PostProcessor;
use super::pre_tokenizer::PreTokenizer;
use crate::python_json;
use crate::tokenizer::backend::{Backend, DEFAULT_TEMPLATE, LoadedTokenizer, Properties};
use crate::tokenizer::error::TokenizerError;

/// Loads the tokenizer of a folder.
#[cfg(not(target_arch = "wasm32"))]
pub fn load_directory(directory: &std::path::Path) -> Result<LoadedTokenizer, TokenizerError> {
    use wisp_files::{FileKind, read_small};
    let read = |name: &str| {
        let path = directory.join(name);
        let kind = match name {
            "tokenizer.json" => FileKind::Tokenizer,
            _ => FileKind::Config,
        };
        match read_small(&path, kind) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(TokenizerError::Read { path, source }),
        }
    };
    let tokenizer = read("tokenizer.json")?.ok_or_else(|| TokenizerError::MissingFile {
        path: directory.join("tokenizer.json"),
    })?;
    let optional = [
        read("tokenizer_config.json")?,
        read("special_tokens_map.json")?,
        read("added_tokens.json")?,
        read("generation_config.json")?,
        read("config.json")?,
        read("chat_template.jinja")?,
        read("chat_template.json")?,
    ];
    let [config, map, added, generation, model, jinja, json] = &optional;
    load(&HuggingFaceFiles {
        tokenizer: &tokenizer,
        tokenizer_config: config.as_deref(),
        special_tokens_map: map.as_deref(),
        added_tokens: added.as_deref(),
        generation_config: generation.as_deref(),
        config: model.as_deref(),
        chat_template: jinja.as_deref(),
        chat_template_json: json.as_deref(),
    })
}

/// Loads the tokenizer that `files` describe.
pub fn load(files: &HuggingFaceFiles<'_>) -> Result<LoadedTokenizer, TokenizerError> {
    let mut warnings = Vec::new();
    let mut components = components(files.tokenizer, &mut warnings)?;

    let config = parse(files.tokenizer_config, "tokenizer_config.json")?;
    let map = parse(files.special_tokens_map, "special_tokens_map.json")?;
    let generation = parse(files.generation_config, "generation_config.json")?;
    let model = parse(files.config, "config.json")?;
    let added = parse(files.added_tokens, "added_tokens.json")?;
    let size = components.vocab_size();
    let is_known = |text: &str| components.token_to_id(text).is_some();
    let older = older_tokens(&config, &added, size, is_known, &mut warnings);
    if !older.is_empty() {
        let (model, normalizer) = (&components.model, &components.normalizer);
        components.added.add(older, model, normalizer)?;
    }

    let named = |key: &str| {
        let text = [&config, &map]
            .into_iter()
            .find_map(|file| token_text(&file[key]));
        text.and_then(|text| components.token_to_id(&text))
    };
    let size = components.vocab_size();
    let numbered = |key: &str| {
        let ids = [&generation, &model].map(|file| token_ids(&file[key], size));
        let found = ids.into_iter().find(|ids| !ids.is_empty());
        found.unwrap_or_default()
    };
    let bos = named("bos_token").or_else(|| numbered("bos_token_id").first().copied());
    let numbered_eos = numbered("eos_token_id");
    let eos = named("eos_token").or_else(|| numbered_eos.first().copied());
    let end_of_generation: BTreeSet<u32> = numbered_eos.into_iter().chain(eos).collect();

    let added = |id, key: &str| AddedEnd {
        id,
        is_added: config[key].as_bool(),
    };
    let (added_bos, added_eos) = (added(bos, "add_bos_token"), added(eos, "add_eos_token"));
    let around = &components.post_processor;
    let around = around.before.iter().chain(&around.after);
    if let Some(id) = around
        .copied()
        .find(|&id| components.id_to_token(id).is_none())
    {
        return Err(invalid("post_processor", "ids of the vocabulary", id));
    }
    let backend = HuggingFaceTokenizer::new(components, added_bos, added_eos);
    let adds_bos = bos.is_some() && backend.encode("", true, true)?.first() == bos.as_ref();
    let properties = Properties {
        bos,
        eos,
        end_of_generation,
        adds_bos,
        chat_templates: chat_templates(files, &config)?,
        warnings,
    };
    Ok(LoadedTokenizer {
        backend: Box::new(backend),
        properties,
    })
}

/// What is checked before a `tokenizer.json` is read.
#[derive(Deserialize)]
struct TokenizerCheck {
    #[serde(default, rename = "normalizer")]
    _normalizer: BoundedJson,
    #[serde(default, rename = "pre_tokenizer")]
    _pre_tokenizer: BoundedJson,
    #[serde(default, rename = "post_processor")]
    _post_processor: BoundedJson,
    #[serde(default, rename = "decoder")]
    _decoder: BoundedJson,
    model: ModelJson,
}

/// A `tokenizer.json`. The settings of its last use, how texts were truncated and padded, are not read.
#[derive(Deserialize)]
struct TokenizerJson {
    #[serde(default)]
    added_tokens: Option<Vec<AddedToken>>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    model: ModelWrapper,
}

/// Reads and checks a `tokenizer.json`.
fn components(bytes: &[u8], warnings: &mut Vec<String>) -> Result<Components, TokenizerError> {
    let file = "tokenizer.json";
    let wrong = |source| TokenizerError::Json { file, source };
    let check: TokenizerCheck = serde_json::from_slice(bytes).map_err(wrong)?;
    check.model.check()?;
    let json: TokenizerJson = serde_json::from_slice(bytes).map_err(wrong)?;
    let mut model = json.model;
    if let ModelWrapper::BPE(bpe) = &mut model
        && bpe.dropout.take().is_some_and(|dropout| dropout > 0.0)
    {
        warnings.push("the dropout of training is ignored".to_owned());
    }
    let normalizer = Normalizer::parse(&json.normalizer)?;
    let added = json.added_tokens.unwrap_or_default();
    Ok(Components {
        added: AddedTokens::new(added, &model, &normalizer)?,
        pre_tokenizer: PreTokenizer::parse(&json.pre_tokenizer)?,
        post_processor: PostProcessor::parse(&json.post_processor)?,
        decoder: Decoder::new(&json.decoder, warnings)?,
        normalizer,
        model,
    })
}

fn parse(bytes: Option<&[u8]>, file: &'static str) -> Result<Value, TokenizerError> {
    let parsed = bytes.map(python_json::parse).transpose();
    let parsed = parsed.map_err(|source| TokenizerError::Json { file, source })?;
    Ok(parsed.unwrap_or_default())
}

/// Returns the text of a token that is written as a string or as an object.
fn token_text(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| value["content"].as_str());
    text.map(str::to_owned)
}

/// Returns the ids of a number or a list of numbers, without those that are out of range.
fn token_ids(value: &Value, size: usize) -> Vec<u32> {
    let ids = match value {
        Value::Array(ids) => ids.as_slice(),
        id => std::slice::from_ref(id),
    };
    let ids = ids
        .iter()
        .filter_map(Value::as_u64)
        .filter(|&id| id < size as u64);
    ids.filter_map(|id| u32::try_from(id).ok()).collect()
}

/// Returns the names and sources of the chat templates, the default one first. A template file takes
/// precedence over `tokenizer_config.json`.
fn chat_templates(
    files: &HuggingFaceFiles<'_>,
    config: &Value,
) -> Result<Vec<(String, String)>, TokenizerError> {
    let mut templates = Vec::new();
    if let Some(bytes) = files.chat_template {
        let source = std::str::from_utf8(bytes);
        let source = source
            .map_err(|error| TokenizerError::invalid("chat_template.jinja", "UTF-8", error))?;
        templates.push((DEFAULT_TEMPLATE.to_owned(), source.to_owned()));
    }
    let json = parse(files.chat_template_json, "chat_template.json")?;
    for value in [&json["chat_template"], &config["chat_template"]] {
        if let Some(source) = value.as_str() {
            templates.push((DEFAULT_TEMPLATE.to_owned(), source.to_owned()));
        }
        for named in value.as_array().into_iter().flatten() {
            let (name, source) = (named["name"].as_str(), named["template"].as_str());
            if let (Some(name), Some(source)) = (name, source) {
                templates.push((name.to_owned(), source.to_owned()));
            }
        }
    }
    let mut seen = HashSet::new();
    templates.retain(|(name, _)| seen.insert(name.clone()));
    Ok(templates)
}
