//! Candidate GGUF metadata for each kind of tokenizer in `tokenizer.json`.

use std::collections::BTreeMap;

use base64::Engine;
use serde_json::Value as Json;
use tokenizers::{
    OffsetReferential, OffsetType, PreTokenizer as _, PreTokenizerWrapper,
    tokenizer::pre_tokenizer::PreTokenizedString,
};
use wisp_text::tokenizer::pre_tokenizers::{PRE_TOKENIZERS, PreTokenizer};
use wisp_weights::gguf::{Array, Strings, Value};

use super::{
    keys::{Keys, ggml, text},
    probes::PROBES,
    source::Source,
};

/// The character that represents a space in SentencePiece's tokens.
const SPACE: char = '▁';

impl Source<'_> {
    /// Returns each set of keys with which GGUF may express the tokenizer, the most probable first.
    pub fn candidates(&self) -> Result<Vec<Keys>, String> {
        let model = &self.json["model"];
        let merges = self.merges();
        // Old files do not state the model's type.
        let kind = match model["type"].as_str() {
            None if !merges.is_empty() => "BPE",
            None => "none",
            Some(kind) => kind,
        };
        let uses = |part: &str| self.json[part].to_string().contains("\"ByteLevel\"");
        match kind {
            "BPE" if uses("pre_tokenizer") || uses("decoder") => self.byte_level(&merges),
            "BPE" => Ok(self.sentence_piece(&merges)),
            "Unigram" => self.unigram(),
            "WordPiece" => Ok(self.word_piece()),
            other => Err(format!("GGUF has no tokenizers of the kind {other}")),
        }
    }

    /// Returns the two halves of each merge, in order of rank.
    fn merges(&self) -> Vec<(&str, &str)> {
        let merges = self.json["model"]["merges"].as_array();
        merges.into_iter().flatten().filter_map(halves).collect()
    }

    /// Returns candidates for byte-level BPE (GPT-2): one for each pre-tokenizer that splits the
    /// probes as the original does.
    fn byte_level(&self, merges: &[(&str, &str)]) -> Result<Vec<Keys>, String> {
        let expected = self.probe_words()?;
        let ignore_merges = self.json["model"]["ignore_merges"].as_bool();
        let ignore_merges = ignore_merges.unwrap_or(false);
        let same = PRE_TOKENIZERS.iter().filter(|rules| {
            rules.byte_level
                && rules.ignore_merges == ignore_merges
                && PreTokenizer::new(rules).is_ok_and(|splitter| {
                    let words = PROBES.iter().map(|text| splitter.split(text));
                    words.eq(expected.iter().map(Vec::as_slice))
                })
        });
        let names: Vec<&str> = same
            .filter_map(|rules| rules.names.first().copied())
            .collect();
        if names.is_empty() {
            return Err("GGUF has no name for how its pre-tokenizer splits text".into());
        }
        let merges: Vec<String> = merges
            .iter()
            .map(|(left, right)| format!("{left} {right}"))
            .collect();
        let merges: Strings = merges.iter().map(String::as_str).collect();
        let tokens = self.token_keys(str::to_string, false);
        let with_pre_tokenizer = |name: &str| {
            let own = [
                ggml("model", text("gpt2")),
                ggml("pre", text(name)),
                ggml("merges", Value::Array(Array::String(merges.clone()))),
            ];
            [tokens.as_slice(), &own].concat()
        };
        Ok(names.into_iter().map(with_pre_tokenizer).collect())
    }

    /// Returns the words into which the original splits each probe.
    fn probe_words(&self) -> Result<Vec<Vec<&'static str>>, String> {
        let pre_tokenizer: Option<PreTokenizerWrapper> =
            serde_json::from_value(self.json["pre_tokenizer"].clone())
                .map_err(|error| error.to_string())?;
        let split = |text: &&'static str| {
            let mut words = PreTokenizedString::from(*text);
            if let Some(pre_tokenizer) = &pre_tokenizer {
                let split = pre_tokenizer.pre_tokenize(&mut words);
                split.map_err(|error| error.to_string())?;
            }
            let splits = words.get_splits(OffsetReferential::Original, OffsetType::Byte);
            let words = splits
                .iter()
                .map(|(_, (start, end), _)| text.get(*start..*end));
            let words: Option<Vec<&str>> = words.filter(|word| *word != Some("")).collect();
            words.ok_or_else(|| format!("its pre-tokenizer splits characters of {text:?}"))
        };
        PROBES.iter().map(split).collect()
    }

    /// Returns candidates for SentencePiece BPE (Llama 2), whose merges become scores: with and
    /// without a space before the text.
    fn sentence_piece(&self, merges: &[(&str, &str)]) -> Vec<Keys> {
        // The rank of the first merge that produces each token.
        let mut ranks: BTreeMap<String, usize> = BTreeMap::new();
        for (left, right) in merges {
            let next = ranks.len();
            ranks.entry([*left, *right].concat()).or_insert(next);
        }
        // Tokens that no merge produces have the lowest score.
        let score = |id: usize| {
            let token = self.tokenizer.token(u32::try_from(id).ok()?)?;
            let last = ranks.len();
            Some(-(ranks.get(&token).copied().unwrap_or(last) as f32))
        };
        let scores = (0..self.vocab_size).map(|id| score(id).unwrap_or(0.0));
        let scores = Value::Array(Array::F32(scores.collect()));
        let tokens = self.token_keys(str::to_string, true);
        let with_space = |space: bool| {
            let own = [
                ggml("model", text("llama")),
                ggml("pre", text("default")),
                ggml("scores", scores.clone()),
                ggml("add_space_prefix", Value::Bool(space)),
            ];
            [tokens.as_slice(), &own].concat()
        };
        [true, false].map(with_space).into()
    }

    /// Returns candidates for Unigram (T5): one for each way of handling spaces.
    fn unigram(&self) -> Result<Vec<Keys>, String> {
        let pieces = self.json["model"]["vocab"].as_array();
        let pieces = pieces.map_or(&[][..], Vec::as_slice);
        let score = |id| pieces.get(id).and_then(|piece: &Json| piece[1].as_f64());
        let scores = (0..self.vocab_size).map(|id| score(id).unwrap_or(0.0) as f32);
        let mut shared = self.token_keys(str::to_string, true);
        shared.push(ggml("model", text("t5")));
        shared.push(ggml("pre", text("default")));
        shared.push(ggml("scores", Value::Array(Array::F32(scores.collect()))));
        if let Some(table) = find(&self.json["normalizer"], "precompiled_charsmap") {
            let table = base64::engine::general_purpose::STANDARD.decode(table);
            let table = table.map_err(|error| format!("its precompiled_charsmap: {error}"))?;
            let table = Value::Array(Array::U8(table));
            shared.push(ggml("precompiled_charsmap", table));
        }
        let with_spaces = |(prefix, merged)| {
            let own = [
                ggml("add_space_prefix", Value::Bool(prefix)),
                ggml("remove_extra_whitespaces", Value::Bool(merged)),
            ];
            [shared.as_slice(), &own].concat()
        };
        let ways = [(true, true), (true, false), (false, false), (false, true)];
        Ok(ways.map(with_spaces).into())
    }

    /// Returns the candidate for WordPiece (BERT). GGUF marks tokens that begin a word rather than
    /// tokens that continue one.
    fn word_piece(&self) -> Vec<Keys> {
        let prefix = self.json["model"]["continuing_subword_prefix"].as_str();
        let prefix = prefix.unwrap_or("##");
        let piece = |token: &str| match token.strip_prefix(prefix) {
            Some(rest) => rest.to_string(),
            None => format!("{SPACE}{token}"),
        };
        let flag = |name: &str| self.json["normalizer"][name].as_bool();
        let lowercase = flag("lowercase").unwrap_or(true);
        let strip_accents = flag("strip_accents").unwrap_or(lowercase);
        let own = [
            ggml("model", text("bert")),
            ggml("pre", text("default")),
            ggml("normalizer.lowercase", Value::Bool(lowercase)),
            ggml("normalizer.strip_accents", Value::Bool(strip_accents)),
        ];
        vec![[self.token_keys(piece, false).as_slice(), &own].concat()]
    }
}

/// Returns the halves of a merge, which is either one string with a space or a list of two strings.
fn halves(merge: &Json) -> Option<(&str, &str)> {
    match merge.as_str() {
        Some(merge) => merge.split_once(' '),
        None => Some((merge[0].as_str()?, merge[1].as_str()?)),
    }
}

/// Returns the first string with the given key, at any depth.
fn find<'j>(json: &'j Json, name: &str) -> Option<&'j str> {
    match json {
        Json::Object(fields) => match fields.get(name) {
            Some(Json::String(text)) => Some(text),
            _ => fields.values().find_map(|value| find(value, name)),
        },
        Json::Array(items) => items.iter().find_map(|item| find(item, name)),
        _ => None,
    }
}
