//! Tokenizers of a directory in Hugging Face's layout. `tokenizer.json` is the `tokenizers` crate's
//! own format; the other files say which tokens begin and end a text and hold the chat template.
//!
//! The crate runs the expressions of a `tokenizer.json` on a backtracking engine that gives up after
//! a million steps, as on a megabyte of spaces, and then leaves the rest of the text uncut: the
//! tokens still spell the text, but may not be the model's own.

use std::collections::{BTreeSet, HashSet};
use std::sync::OnceLock;

use serde_json::Value;

use super::decoder::Decoder;
use super::error::TokenizerError;
use super::tokenizer_json;
use super::{Backend, DEFAULT_TEMPLATE, Loaded, Traits};

/// The files of a checkpoint that describe its tokenizer, in memory. Only `tokenizer.json` must be
/// there.
#[derive(Debug, Clone, Copy, Default)]
pub struct HuggingFaceFiles<'f> {
    /// `tokenizer.json`.
    pub tokenizer: &'f [u8],
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<&'f [u8]>,
    /// `special_tokens_map.json`.
    pub special_tokens_map: Option<&'f [u8]>,
    /// `added_tokens.json`.
    pub added_tokens: Option<&'f [u8]>,
    /// `generation_config.json`.
    pub generation_config: Option<&'f [u8]>,
    /// `config.json`, for the ids of models that have no `generation_config.json`.
    pub config: Option<&'f [u8]>,
    /// `chat_template.jinja`.
    pub chat_template: Option<&'f [u8]>,
    /// `chat_template.json`.
    pub chat_template_json: Option<&'f [u8]>,
}

/// A tokenizer from a `tokenizer.json`.
struct HuggingFaceTokenizer {
    tokenizer: tokenizers::Tokenizer,
    /// The same, but taking special tokens in the text for plain text; made when first needed.
    plain: OnceLock<tokenizers::Tokenizer>,
    decoder: Decoder,
    special: HashSet<u32>,
    bos: Option<u32>,
    /// `add_bos_token`, where it is said.
    add_bos: Option<bool>,
    size: usize,
}

/// The files of `directory`, loaded.
#[cfg(not(target_arch = "wasm32"))]
pub fn load_directory(directory: &std::path::Path) -> Result<Loaded, TokenizerError> {
    let read = |name: &str| {
        let path = directory.join(name);
        match std::fs::read(&path) {
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

/// The tokenizer that `files` describe.
pub fn load(files: &HuggingFaceFiles<'_>) -> Result<Loaded, TokenizerError> {
    let mut warnings = Vec::new();
    let decoder = tokenizer_json::check(files.tokenizer)?;
    let decoder = Decoder::new(&decoder, &mut warnings);
    let mut tokenizer = tokenizers::Tokenizer::from_bytes(files.tokenizer)
        .map_err(|error| TokenizerError::Library(error.to_string()))?;
    // Published files keep whatever was set last; nobody who encodes wants it.
    let truncation = tokenizer.with_truncation(None).map(|_| ());
    truncation.map_err(|error| TokenizerError::Library(error.to_string()))?;
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
    let numbered_end = numbered("eos_token_id");
    let eos = named("eos_token").or_else(|| numbered_end.first().copied());
    let end: BTreeSet<u32> = numbered_end.into_iter().chain(eos).collect();

    let special = tokenizer.get_added_tokens_decoder();
    let special = special.iter().filter(|(_, token)| token.special);
    let backend = HuggingFaceTokenizer {
        special: special.map(|(&id, _)| id).collect(),
        add_bos: config["add_bos_token"].as_bool(),
        plain: OnceLock::new(),
        bos,
        decoder,
        size,
        tokenizer,
    };
    let adds_bos = bos.is_some() && backend.encode("", true, true)?.first() == bos.as_ref();
    let traits = Traits {
        bos,
        eos,
        end,
        adds_bos,
        chat_templates: chat_templates(files, &config)?,
        warnings,
    };
    Ok(Loaded {
        backend: Box::new(backend),
        traits,
    })
}

fn parse(bytes: Option<&[u8]>, file: &'static str) -> Result<Value, TokenizerError> {
    let parsed = bytes.map(serde_json::from_slice).transpose();
    let parsed = parsed.map_err(|source| TokenizerError::Json { file, source })?;
    Ok(parsed.unwrap_or_default())
}

/// Adds the tokens that older checkpoints list beside `tokenizer.json`, if their ids are the next
/// ones, as `transformers` does.
fn add_tokens(
    tokenizer: &mut tokenizers::Tokenizer,
    config: &Value,
    added: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), TokenizerError> {
    let decoder = config["added_tokens_decoder"]
        .as_object()
        .into_iter()
        .flatten();
    let decoder = decoder.filter_map(|(id, token)| {
        let text = token["content"].as_str()?.to_owned();
        let flag = |name: &str| token[name].as_bool();
        let added = tokenizers::AddedToken::from(text, flag("special").unwrap_or(false))
            .lstrip(flag("lstrip").unwrap_or(false))
            .rstrip(flag("rstrip").unwrap_or(false))
            .single_word(flag("single_word").unwrap_or(false))
            .normalized(flag("normalized").unwrap_or(true));
        Some((id.parse::<u64>().ok()?, added))
    });
    let listed = added.as_object().into_iter().flatten();
    let listed = listed.filter_map(|(text, id)| {
        Some((
            id.as_u64()?,
            tokenizers::AddedToken::from(text.clone(), false),
        ))
    });
    let mut tokens: Vec<_> = decoder.chain(listed).collect();
    tokens.retain(|(_, token)| tokenizer.token_to_id(&token.content).is_none());
    // A stable sort: the first of two with the same id is the one that says more.
    tokens.sort_by_key(|(id, _)| *id);
    tokens.dedup_by_key(|(id, _)| *id);
    for (id, token) in tokens {
        if id != vocab_size(tokenizer) as u64 {
            warnings.push(format!(
                "added token {:?} has id {id}; ignored",
                token.content
            ));
            continue;
        }
        let result = tokenizer.add_tokens([token]);
        result.map_err(|error| TokenizerError::Library(error.to_string()))?;
    }
    Ok(())
}

/// One more than the largest id, which is more than the number of tokens if there are holes.
fn vocab_size(tokenizer: &tokenizers::Tokenizer) -> usize {
    let added = tokenizer.get_added_tokens_decoder();
    let largest = added.keys().max().map_or(0, |&id| id as usize + 1);
    tokenizer.get_vocab_size(true).max(largest)
}

/// The text of a token that is written as a string or as an object.
fn token_text(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| value["content"].as_str());
    text.map(str::to_owned)
}

/// The ids of a number or of a list of numbers, those in range.
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

/// All templates, the default one first. A template file outranks `tokenizer_config.json`.
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

impl HuggingFaceTokenizer {
    fn plain(&self) -> &tokenizers::Tokenizer {
        self.plain.get_or_init(|| {
            let mut plain = self.tokenizer.clone();
            plain.set_encode_special_tokens(true);
            plain
        })
    }
}

impl Backend for HuggingFaceTokenizer {
    fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        let tokenizer = if parse_special {
            &self.tokenizer
        } else {
            self.plain()
        };
        let encoding = tokenizer
            .encode_fast(text, add_special)
            .map_err(|error| TokenizerError::Library(error.to_string()))?;
        let mut ids = encoding.get_ids().to_vec();
        let Some(bos) = self.bos.filter(|_| add_special) else {
            return Ok(ids);
        };
        // The post-processor's BOS is marked as special, one from the text is not.
        let mask = encoding.get_special_tokens_mask();
        let added = ids.first() == Some(&bos) && mask.first() == Some(&1);
        match (self.add_bos, added) {
            (Some(true), false) => ids.insert(0, bos),
            (Some(false), true) => drop(ids.remove(0)),
            _ => {}
        }
        Ok(ids)
    }

    fn piece(&self, id: u32, out: &mut Vec<u8>) {
        if let Some(token) = self.tokenizer.id_to_token(id) {
            self.decoder.decode(token, out);
        }
    }

    fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    fn strips_first_space(&self) -> bool {
        self.decoder.strips_first_space()
    }

    fn token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    fn id(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_to_id(text)
    }

    fn vocab_size(&self) -> usize {
        self.size
    }
}
