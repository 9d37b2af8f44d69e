//! The tokenizer of a `tokenizer.json` as GGUF metadata.
//!
//! GGUF knows four kinds of tokenizers and names a pre-tokeniser where `tokenizer.json` has expressions;
//! so the right name is found by what it does to texts of many kinds. The keys count only if the tokenizer that
//! they describe gives the same tokens for those texts as the original.

mod kinds;
mod probes;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use serde_json::Value as Json;

use crate::{model_files, model_files::ModelFiles};
use wisp_text::tokenizer::{DEFAULT_TEMPLATE, Tokenizer, TokenizerError};
use wisp_weights::{
    Checkpoint,
    gguf::{Array, GgufHeaderBuilder, Strings, Value},
};

use probes::PROBES;

/// Keys without `tokenizer.`, and their values.
type Keys = Vec<(String, Value)>;

/// Files of tokenizers that Wisp does not read.
const OTHER_FORMS: [&str; 6] = [
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tiktoken.model",
    "vocab.json",
    "vocab.txt",
];

/// Texts that end a turn; readers ask for the first by its key.
const TURN_ENDS: [&str; 4] = ["<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>"];

/// The text that ends a message within a turn.
const MESSAGE_END: &str = "<|eom_id|>";

/// The number that GGUF has for a kind of token.
mod token_type {
    pub const NORMAL: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
    pub const UNUSED: i32 = 5;
    pub const BYTE: i32 = 6;
}

/// A tokenizer's files, and the tokenizer that they describe.
struct Source<'f> {
    tokenizer: &'f Tokenizer,
    /// `tokenizer.json`.
    json: Json,
    /// `tokenizer_config.json` and `special_tokens_map.json`.
    names: [Json; 2],
    /// The rows of the embedding.
    vocab_size: usize,
}

/// Adds the model's tokenizer, or that there is none, to the metadata of its new file.
pub(super) fn describe(
    files: &ModelFiles,
    header: &mut GgufHeaderBuilder,
    notes: &mut Vec<String>,
) {
    let described = match &files.tokenizer {
        Ok(tokenizer) => match &files.directory {
            Some(directory) => Source::new(tokenizer, directory, files.model_spec.spec.vocab_size)
                .written(header, notes)
                .map_err(Some),
            None => Err(None),
        },
        Err(TokenizerError::MissingFile { .. }) => Err(other_form(files.directory.as_deref())),
        Err(error) => Err(Some(error.to_string())),
    };
    match described {
        Ok(keys) => keys
            .into_iter()
            .for_each(|(key, value)| header.key(&format!("tokenizer.{key}"), value)),
        Err(problem) => {
            header.key("tokenizer.ggml.model", string("none"));
            notes.extend(problem.map(|problem| {
                format!(
                    "the tokenizer is not converted: {problem}; keep its files, and use --tokens"
                )
            }));
        }
    }
}

/// What to say of a directory that has a tokenizer, but no `tokenizer.json`.
fn other_form(directory: Option<&Path>) -> Option<String> {
    let mut others = OTHER_FORMS.iter();
    let other = others.find(|name| directory.is_some_and(|folder| folder.join(name).is_file()))?;
    Some(format!(
        "{other} is not read, and there is no tokenizer.json"
    ))
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

impl Source<'_> {
    fn new<'f>(tokenizer: &'f Tokenizer, directory: &Path, vocab_size: u64) -> Source<'f> {
        let read = |name: &str| {
            let bytes = std::fs::read(directory.join(name)).unwrap_or_default();
            serde_json::from_slice::<Json>(&bytes).unwrap_or_default()
        };
        Source {
            tokenizer,
            json: read("tokenizer.json"),
            names: ["tokenizer_config.json", "special_tokens_map.json"].map(read),
            vocab_size: usize::try_from(vocab_size).unwrap_or(usize::MAX),
        }
    }

    /// The keys of the tokenizer, or why GGUF cannot have it.
    fn written(&self, header: &GgufHeaderBuilder, notes: &mut Vec<String>) -> Result<Keys, String> {
        let (size, rows) = (self.tokenizer.vocab_size(), self.vocab_size);
        if size > rows {
            return Err(format!("it has {size} tokens, the model {rows}"));
        }
        let common = self.common();
        let mut problem = None;
        for own in self.candidates()? {
            let keys = [common.clone(), own].concat();
            match self.compare(&keys, header) {
                Ok(differences) => {
                    notes.extend(differences);
                    notes.extend(self.losses());
                    return Ok(keys);
                }
                // That of the likeliest candidate.
                Err(found) => problem = problem.or(Some(found)),
            }
        }
        Err(problem.unwrap_or_default())
    }

    /// Ids that do not come from the model's own vocabulary.
    fn added(&self) -> HashSet<u64> {
        let own: HashSet<u64> = match &self.json["model"]["vocab"] {
            Json::Object(vocab) => vocab.values().filter_map(Json::as_u64).collect(),
            Json::Array(pieces) => (0..pieces.len() as u64).collect(),
            _ => HashSet::new(),
        };
        let listed = self.json["added_tokens"].as_array().into_iter().flatten();
        let listed = listed.filter_map(|token| token["id"].as_u64());
        let size = self.tokenizer.vocab_size() as u64;
        (0..size)
            .filter(|id| !own.contains(id))
            .chain(listed)
            .collect()
    }

    /// The id of a token that the configuration names: `unk_token`.
    fn named(&self, name: &str) -> Option<u32> {
        self.names.iter().find_map(|file| {
            let text = file[name]
                .as_str()
                .or_else(|| file[name]["content"].as_str());
            self.tokenizer.id(text?)
        })
    }

    /// What every kind of tokenizer has, except for the tokens' texts and types.
    fn common(&self) -> Keys {
        let tokenizer = self.tokenizer;
        let mut keys = Keys::new();
        let mut id = |name: &str, id: Option<u32>| {
            let key = format!("ggml.{name}_token_id");
            keys.extend(id.map(|id| (key, Value::U32(id))));
        };
        let around = tokenizer.encode("", true, true).unwrap_or_default();
        // What stands around an empty text is named by nothing else in some files.
        let [first, last] =
            [around.first(), around.last()].map(|id| id.copied().filter(|_| around.len() > 1));
        let eos = tokenizer.eos_token();
        let bos = tokenizer.bos().or(self.named("cls_token")).or(first);
        // Readers take a token of their own choice where none is named.
        id("bos", bos.or(eos));
        id("eos", eos);
        for (name, key) in [
            ("unk_token", "unknown"),
            // The key is misspelt in the format.
            ("sep_token", "seperator"),
            ("pad_token", "padding"),
            ("cls_token", "cls"),
            ("mask_token", "mask"),
        ] {
            let found = match key {
                "unknown" => self.unknown(),
                "seperator" => last,
                _ => None,
            };
            id(key, self.named(name).or(found));
        }
        let [eot, eom] = self.other_ends();
        id("eot", eot);
        id("eom", eom);
        let is = |found: Option<&u32>, id: Option<u32>| {
            Value::Bool(id.is_some() && found == id.as_ref())
        };
        let ends = is(
            around.last(),
            eos.filter(|eos| around.len() > 1 || bos != Some(*eos)),
        );
        keys.push(("ggml.add_bos_token".into(), is(around.first(), bos)));
        keys.push(("ggml.add_eos_token".into(), ends));
        for name in tokenizer.chat_template_names() {
            let key = match name {
                DEFAULT_TEMPLATE => "chat_template".into(),
                name => format!("chat_template.{name}"),
            };
            let template = tokenizer.chat_template(Some(name)).unwrap_or_default();
            keys.push((key, string(template)));
        }
        keys
    }

    /// The ends of a turn and of a message beside the end of a text: by their texts, else by their numbers.
    fn other_ends(&self) -> [Option<u32>; 2] {
        let eos = self.tokenizer.eos_token();
        let others = self.tokenizer.eos().iter().copied();
        let mut others: Vec<u32> = others.filter(|id| Some(*id) != eos).collect();
        let is = |id: u32, text: &str| self.tokenizer.token(id).as_deref() == Some(text);
        let rank = |id: &u32| {
            let known = TURN_ENDS.iter().position(|text| is(*id, text));
            known.unwrap_or(TURN_ENDS.len())
        };
        others.sort_by_key(rank);
        let eom = others.iter().position(|id| is(*id, MESSAGE_END));
        let eom = eom.map(|at| others.remove(at));
        let mut rest = others.into_iter();
        let eot = rest.next();
        [eot, eom.or(rest.next())]
    }

    /// The token for what has none, by the model's own word.
    fn unknown(&self) -> Option<u32> {
        let model = &self.json["model"];
        let by_text = model["unk_token"]
            .as_str()
            .and_then(|text| self.tokenizer.id(text));
        by_text.or_else(|| u32::try_from(model["unk_id"].as_u64()?).ok())
    }

    /// Texts and types of all tokens, with unused ones up to the embedding's size.
    fn tokens(&self, text: impl Fn(&str) -> String, plain_bytes: bool) -> Keys {
        let (added, unknown) = (self.added(), self.unknown().filter(|_| plain_bytes));
        let (mut texts, mut types) = (Strings::default(), Vec::with_capacity(self.vocab_size));
        // The embedding's rows were checked to be fewer than 2^32.
        for id in 0..self.vocab_size as u32 {
            let Some(token) = self.tokenizer.token(id) else {
                texts.push(&format!("[PAD{id}]"));
                types.push(token_type::UNUSED);
                continue;
            };
            let kind = match added.contains(&id.into()) {
                _ if unknown == Some(id) => token_type::UNKNOWN,
                true if self.tokenizer.is_special(id) => token_type::CONTROL,
                true => token_type::USER_DEFINED,
                false if plain_bytes && is_byte(&token) => token_type::BYTE,
                false => token_type::NORMAL,
            };
            match kind {
                token_type::NORMAL => texts.push(&text(&token)),
                _ => texts.push(&token),
            }
            types.push(kind);
        }
        vec![
            ("ggml.tokens".into(), Value::Array(Array::String(texts))),
            ("ggml.token_type".into(), Value::Array(Array::I32(types))),
        ]
    }

    /// Reads the keys back. Texts without special tokens must give the same tokens, and special tokens themselves;
    /// gives notes about special tokens around which texts do not, and about other ends.
    fn compare(&self, keys: &Keys, header: &GgufHeaderBuilder) -> Result<Vec<String>, String> {
        let mut header = header.clone();
        for (key, value) in keys {
            header.key(&format!("tokenizer.{key}"), value.clone());
        }
        let checkpoint = Checkpoint::from_bytes("its metadata", header.bytes());
        let checkpoint = checkpoint.map_err(|error| error.to_string())?;
        let back = model_files::tokenizer(&checkpoint).map_err(|error| error.to_string())?;
        let same = |text: &str, add: bool, parse: bool| {
            let tokens = [self.tokenizer, &back].map(|one| one.encode(text, add, parse).ok());
            tokens[0] == tokens[1]
        };
        if let Some(text) = PROBES.iter().find(|text| !same(text, true, false)) {
            return Err(format!(
                "GGUF has none that cuts {text:?} into the same tokens"
            ));
        }
        let mut differences = Vec::new();
        for id in self.added() {
            // Ids of tokens were counted by 32 bits.
            let Some(token) = self.tokenizer.token(id as u32) else {
                continue;
            };
            let alone = |one: &Tokenizer| {
                one.encode(&token, false, true)
                    .is_ok_and(|ids| ids == [id as u32])
            };
            if self.tokenizer.is_special(id as u32) && alone(self.tokenizer) && !alone(&back) {
                return Err(format!("GGUF has no way to write the token {token:?}"));
            }
            if !same(&format!("one {token} two{token}\nthree"), false, true) {
                differences.push(token);
            }
        }
        differences.sort();
        let mut notes = Vec::new();
        if let Some(first) = differences.first() {
            notes.push(format!(
                "{} special tokens treat the spaces around them differently in GGUF, as {first:?}",
                differences.len()
            ));
        }
        notes.extend(self.other_ends_of(&back));
        Ok(notes)
    }

    /// Tokens that end generation in only one of the original and the new file.
    fn other_ends_of(&self, back: &Tokenizer) -> Vec<String> {
        let (own, back) = (self.tokenizer.eos(), back.eos());
        // Encoders generate nothing.
        if own.is_empty() {
            return Vec::new();
        }
        let texts = |ids: &mut dyn Iterator<Item = &u32>| {
            let texts = ids.filter_map(|id| self.tokenizer.token(*id));
            texts.collect::<Vec<_>>().join(", ")
        };
        let lost = texts(&mut own.difference(back));
        let new = texts(&mut back.difference(own));
        let notes = [
            (lost, "end generation in the original only"),
            (new, "end generation in GGUF too, by their texts"),
        ];
        let notes = notes.into_iter().filter(|(tokens, _)| !tokens.is_empty());
        notes
            .map(|(tokens, what)| format!("these tokens {what}: {tokens}"))
            .collect()
    }

    /// What the new file does not say of how texts are composed.
    fn losses(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.json["normalizer"].to_string().contains("\"NFC\"") {
            notes.push(
                "GGUF's tokenizers do not compose characters (NFC): texts should be composed"
                    .into(),
            );
        }
        notes
    }
}

/// True for a token written `<0xHH>`.
fn is_byte(token: &str) -> bool {
    let hex = token
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'));
    hex.is_some_and(|hex| hex.len() == 2 && hex.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Numbers by the texts that they belong to.
type Ranks = BTreeMap<String, usize>;
