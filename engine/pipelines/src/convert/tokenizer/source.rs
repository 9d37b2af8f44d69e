//! The tokenizer of a directory in Hugging Face's layout, and the keys that all kinds share.

use std::{collections::HashSet, path::Path};

use serde_json::Value as Json;
use wisp_files::{FileKind, read_small};
use wisp_text::{
    python_json,
    tokenizer::{DEFAULT_TEMPLATE, Tokenizer},
};
use wisp_weights::gguf::{Array, Strings, Value};

use super::keys::{Keys, ggml, text};

/// The texts of tokens that end a turn, the preferred ones first: GGUF has a key for one of them.
const TURN_ENDS: [&str; 4] = ["<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>"];

/// The token that ends a message within a turn.
const MESSAGE_END: &str = "<|eom_id|>";

/// The numbers of `tokenizer.ggml.token_type`.
mod token_type {
    pub const NORMAL: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
    pub const UNUSED: i32 = 5;
    pub const BYTE: i32 = 6;
}

/// The tokenizer of a directory in Hugging Face's layout.
pub(super) struct Source<'f> {
    pub tokenizer: &'f Tokenizer,
    /// The content of `tokenizer.json`.
    pub json: Json,
    /// The contents of `tokenizer_config.json` and `special_tokens_map.json`, which name special
    /// tokens.
    configs: [Json; 2],
    /// The number of rows of the model's embedding.
    pub vocab_size: usize,
}

impl Source<'_> {
    /// Reads the tokenizer's files.
    pub fn new<'f>(tokenizer: &'f Tokenizer, directory: &Path, vocab_size: u64) -> Source<'f> {
        let read = |name: &str| {
            let bytes = read_small(&directory.join(name), FileKind::Tokenizer).unwrap_or_default();
            python_json::parse(&bytes).unwrap_or_default()
        };
        Source {
            tokenizer,
            json: read("tokenizer.json"),
            configs: ["tokenizer_config.json", "special_tokens_map.json"].map(read),
            vocab_size: usize::try_from(vocab_size).unwrap_or(usize::MAX),
        }
    }

    /// Returns the ids that are not in the vocabulary of the tokenizer's own model.
    pub fn added_ids(&self) -> HashSet<u64> {
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

    /// Returns the id of a token that a configuration names, such as `unk_token`.
    fn named(&self, name: &str) -> Option<u32> {
        self.configs.iter().find_map(|config| {
            let text = config[name]
                .as_str()
                .or_else(|| config[name]["content"].as_str());
            self.tokenizer.id(text?)
        })
    }

    /// Returns the unknown token that the tokenizer's model names.
    fn unknown(&self) -> Option<u32> {
        let model = &self.json["model"];
        let by_text = model["unk_token"]
            .as_str()
            .and_then(|text| self.tokenizer.id(text));
        by_text.or_else(|| u32::try_from(model["unk_id"].as_u64()?).ok())
    }

    /// Returns the keys that all kinds of tokenizers have, except for the tokens' texts and types.
    pub fn common_keys(&self) -> Keys {
        let tokenizer = self.tokenizer;
        // In some files, only the encoding of a text shows which tokens are added at its ends.
        let around = tokenizer.encode("", true, true).unwrap_or_default();
        let at_end = |id: Option<&u32>| id.copied().filter(|_| around.len() > 1);
        let (first, last) = (at_end(around.first()), at_end(around.last()));
        let eos = tokenizer.eos();
        let bos = tokenizer.bos().or(self.named("cls_token")).or(first);
        let [eot, eom] = self.other_ends();
        let ids = [
            // Without the key, readers choose a BOS token themselves.
            ("bos", bos.or(eos)),
            ("eos", eos),
            ("unknown", self.named("unk_token").or(self.unknown())),
            // The key is misspelt in the format.
            ("seperator", self.named("sep_token").or(last)),
            ("padding", self.named("pad_token")),
            ("cls", self.named("cls_token")),
            ("mask", self.named("mask_token")),
            ("eot", eot),
            ("eom", eom),
        ];
        let ids = ids.into_iter();
        let ids = ids.filter_map(|(name, id)| Some((format!("{name}_token_id"), id?)));
        let mut keys: Keys = ids.map(|(name, id)| ggml(&name, Value::U32(id))).collect();

        let is = |found: Option<&u32>, id: Option<u32>| {
            Value::Bool(id.is_some() && found == id.as_ref())
        };
        // If an empty text gives a single token that is both BOS and EOS, it counts as BOS.
        let ending = eos.filter(|eos| around.len() > 1 || bos != Some(*eos));
        keys.push(ggml("add_bos_token", is(around.first(), bos)));
        keys.push(ggml("add_eos_token", is(around.last(), ending)));
        for name in tokenizer.chat_template_names() {
            let key = match name {
                DEFAULT_TEMPLATE => "chat_template".into(),
                name => format!("chat_template.{name}"),
            };
            let template = tokenizer.chat_template(Some(name)).unwrap_or_default();
            keys.push((key, text(template)));
        }
        keys
    }

    /// Returns the tokens that end a turn and a message, other than EOS. They are found by their
    /// texts, or else by their ids.
    fn other_ends(&self) -> [Option<u32>; 2] {
        let eos = self.tokenizer.eos();
        let others = self.tokenizer.end_of_generation().iter().copied();
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

    /// Returns the texts and types of all tokens, with unused tokens up to the size of the
    /// embedding. `text` converts the texts of normal tokens. With `byte_fallback`, tokens such as
    /// `<0x0A>` have the type of bytes, and the unknown token has its own type.
    pub fn token_keys(&self, text: impl Fn(&str) -> String, byte_fallback: bool) -> Keys {
        let (added, unknown) = (self.added_ids(), self.unknown().filter(|_| byte_fallback));
        let (mut texts, mut types) = (Strings::default(), Vec::with_capacity(self.vocab_size));
        // The spec was checked, so the vocabulary size fits in 32 bits.
        for id in 0..self.vocab_size as u32 {
            let Some(token) = self.tokenizer.token(id) else {
                texts.push(&format!("[PAD{id}]"));
                types.push(token_type::UNUSED);
                continue;
            };
            let token_type = match added.contains(&id.into()) {
                _ if unknown == Some(id) => token_type::UNKNOWN,
                true if self.tokenizer.is_special(id) => token_type::CONTROL,
                true => token_type::USER_DEFINED,
                false if byte_fallback && is_byte(&token) => token_type::BYTE,
                false => token_type::NORMAL,
            };
            match token_type {
                token_type::NORMAL => texts.push(&text(&token)),
                _ => texts.push(&token),
            }
            types.push(token_type);
        }
        vec![
            ggml("tokens", Value::Array(Array::String(texts))),
            ggml("token_type", Value::Array(Array::I32(types))),
        ]
    }
}

/// Returns whether a token has the form `<0xHH>`.
fn is_byte(token: &str) -> bool {
    let hex = token
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'));
    hex.is_some_and(|hex| hex.len() == 2 && hex.bytes().all(|digit| digit.is_ascii_hexdigit()))
}
