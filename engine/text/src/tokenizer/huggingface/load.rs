//! Loads a tokenizer from its files.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::added_tokens::{add_tokens, vocab_size};
use super::backend::HuggingFaceTokenizer;
use super::decoder::Decoder;
use super::files::HuggingFaceFiles;
use super::validate;
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
    let decoder = validate::check(files.tokenizer)?;
    let decoder = Decoder::new(&decoder, &mut warnings);
    let mut tokenizer =
        tokenizers::Tokenizer::from_bytes(files.tokenizer).map_err(TokenizerError::library)?;
    // Published files keep the settings of their last use.
    let truncation = tokenizer.with_truncation(None).map(|_| ());
    truncation.map_err(TokenizerError::library)?;
    tokenizer.with_padding(None);

    let config = parse(files.tokenizer_config, "tokenizer_config.json")?;
    let map = parse(files.special_tokens_map, "special_tokens_map.json")?;
    let generation = parse(files.generation_config, "generation_config.json")?;
    let model = parse(files.config, "config.json")?;
    let added = parse(files.added_tokens, "added_tokens.json")?;
    add_tokens(&mut tokenizer, &config, &added, &mut warnings)?;

    let named = |key: &str| {
        let text = [&config, &map]
            .into_iter()
            .find_map(|file| token_text(&file[key]));
        text.and_then(|text| tokenizer.token_to_id(&text))
    };
    let size = vocab_size(&tokenizer);
    let numbered = |key: &str| {
        let ids = [&generation, &model].map(|file| token_ids(&file[key], size));
        let found = ids.into_iter().find(|ids| !ids.is_empty());
        found.unwrap_or_default()
    };
    let bos = named("bos_token").or_else(|| numbered("bos_token_id").first().copied());
    let numbered_eos = numbered("eos_token_id");
    let eos = named("eos_token").or_else(|| numbered_eos.first().copied());
    let end_of_generation: BTreeSet<u32> = numbered_eos.into_iter().chain(eos).collect();

    let add_bos = config["add_bos_token"].as_bool();
    let backend = HuggingFaceTokenizer::new(tokenizer, decoder, bos, add_bos);
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

fn parse(bytes: Option<&[u8]>, file: &'static str) -> Result<Value, TokenizerError> {
    let parsed = bytes.map(serde_json::from_slice).transpose();
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
