//! The kinds of tokenizers: what GGUF has for each of `tokenizer.json`'s models.

use base64::Engine;
use serde_json::Value as Json;
use tokenizers::{
    OffsetReferential, OffsetType, PreTokenizer as _, PreTokenizerWrapper,
    tokenizer::pre_tokenizer::PreTokenizedString,
};

use super::{Keys, PROBES, Ranks, Source, string};
use wisp_text::tokenizer::{PreTokenizer, TABLE};
use wisp_weights::gguf::{Array, Strings, Value};

/// What SentencePiece writes for a space.
const SPACE: char = '▁';

fn key(name: &str, value: Value) -> (String, Value) {
    (format!("ggml.{name}"), value)
}

impl Source<'_> {
    /// The keys of each way to have the tokenizer in GGUF, the likeliest first.
    pub(super) fn candidates(&self) -> Result<Vec<Keys>, String> {
        let model = &self.json["model"];
        // Old files do not name the model.
        let merges = self.merges();
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

    /// The halves of each merge, best first.
    fn merges(&self) -> Vec<(&str, &str)> {
        let merges = self.json["model"]["merges"].as_array();
        merges.into_iter().flatten().filter_map(halves).collect()
    }

    /// Pre-tokenisers that cut texts as the original does.
    fn byte_level(&self, merges: &[(&str, &str)]) -> Result<Vec<Keys>, String> {
        let expected = self.words()?;
        let ignore_merges = self.json["model"]["ignore_merges"]
            .as_bool()
            .unwrap_or(false);
        let same = TABLE.iter().filter(|rules| {
            rules.byte_level
                && rules.ignore_merges == ignore_merges
                && PreTokenizer::new(rules).is_ok_and(|cut| {
                    let words = PROBES.iter().map(|text| cut.split(text));
                    words.eq(expected.iter().map(Vec::as_slice))
                })
        });
        let pres: Vec<&str> = same
            .filter_map(|rules| rules.names.first().copied())
            .collect();
        if pres.is_empty() {
            return Err("GGUF has no name for how its pre-tokeniser cuts text".into());
        }
        let joined: Vec<String> = merges
            .iter()
            .map(|(left, right)| format!("{left} {right}"))
            .collect();
        let joined: Strings = joined.iter().map(String::as_str).collect();
        let tokens = self.tokens(str::to_string, false);
        let with = |pre: &str| {
            let own = [
                key("model", string("gpt2")),
                key("pre", string(pre)),
                key("merges", Value::Array(Array::String(joined.clone()))),
            ];
            [tokens.as_slice(), &own].concat()
        };
        Ok(pres.into_iter().map(with).collect())
    }

    /// The words that the original cuts each probe into.
    fn words(&self) -> Result<Vec<Vec<&'static str>>, String> {
        let own: Option<PreTokenizerWrapper> =
            serde_json::from_value(self.json["pre_tokenizer"].clone())
                .map_err(|e| e.to_string())?;
        let cut = |text: &&'static str| {
            let mut words = PreTokenizedString::from(*text);
            if let Some(own) = &own {
                own.pre_tokenize(&mut words)
                    .map_err(|error| error.to_string())?;
            }
            let splits = words.get_splits(OffsetReferential::Original, OffsetType::Byte);
            let words = splits
                .iter()
                .map(|(_, (start, end), _)| text.get(*start..*end));
            let words: Option<Vec<&str>> = words.filter(|word| *word != Some("")).collect();
            words.ok_or_else(|| format!("its pre-tokeniser cuts characters of {text:?} apart"))
        };
        PROBES.iter().map(cut).collect()
    }

    /// Merges by the score of what they make; with and without a space before the text.
    fn sentence_piece(&self, merges: &[(&str, &str)]) -> Vec<Keys> {
        let mut ranks = Ranks::new();
        for (left, right) in merges {
            let next = ranks.len();
            ranks.entry([*left, *right].concat()).or_insert(next);
        }
        // What no merge makes comes last.
        let score = |id: usize| {
            let token = self.tokenizer.token(u32::try_from(id).ok()?)?;
            let last = ranks.len();
            Some(-(ranks.get(&token).copied().unwrap_or(last) as f32))
        };
        let scores = (0..self.vocab_size).map(|id| score(id).unwrap_or(0.0));
        let scores = Value::Array(Array::F32(scores.collect()));
        let tokens = self.tokens(str::to_string, true);
        let with = |space: bool| {
            let own = [
                key("model", string("llama")),
                key("pre", string("default")),
                key("scores", scores.clone()),
                key("add_space_prefix", Value::Bool(space)),
            ];
            [tokens.as_slice(), &own].concat()
        };
        [true, false].map(with).into()
    }

    /// Pieces by their likelihood.
    fn unigram(&self) -> Result<Vec<Keys>, String> {
        let pieces = self.json["model"]["vocab"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let score = |id| pieces.get(id).and_then(|piece: &Json| piece[1].as_f64());
        let scores = (0..self.vocab_size).map(|id| score(id).unwrap_or(0.0) as f32);
        let mut shared = self.tokens(str::to_string, true);
        shared.push(key("model", string("t5")));
        shared.push(key("pre", string("default")));
        shared.push(key("scores", Value::Array(Array::F32(scores.collect()))));
        if let Some(table) = find(&self.json["normalizer"], "precompiled_charsmap") {
            let table = base64::engine::general_purpose::STANDARD.decode(table);
            let table = table.map_err(|error| format!("its precompiled_charsmap: {error}"))?;
            shared.push(key("precompiled_charsmap", Value::Array(Array::U8(table))));
        }
        let with = |(space, merged)| {
            let own = [
                key("add_space_prefix", Value::Bool(space)),
                key("remove_extra_whitespaces", Value::Bool(merged)),
            ];
            [shared.as_slice(), &own].concat()
        };
        let ways = [(true, true), (true, false), (false, false), (false, true)];
        Ok(ways.map(with).into())
    }

    /// Words in pieces, which carry a mark where a word begins, not `##` where it goes on.
    fn word_piece(&self) -> Vec<Keys> {
        let prefix = self.json["model"]["continuing_subword_prefix"]
            .as_str()
            .unwrap_or("##");
        let text = |token: &str| match token.strip_prefix(prefix) {
            Some(rest) => rest.to_string(),
            None => format!("{SPACE}{token}"),
        };
        let lowercase = self.json["normalizer"]["lowercase"]
            .as_bool()
            .unwrap_or(true);
        let strip = self.json["normalizer"]["strip_accents"]
            .as_bool()
            .unwrap_or(lowercase);
        let own = [
            key("model", string("bert")),
            key("pre", string("default")),
            key("normalizer.lowercase", Value::Bool(lowercase)),
            key("normalizer.strip_accents", Value::Bool(strip)),
        ];
        vec![[self.tokens(text, false).as_slice(), &own].concat()]
    }
}

/// A merge: one text with a space in it, or two.
fn halves(merge: &Json) -> Option<(&str, &str)> {
    match merge.as_str() {
        Some(merge) => merge.split_once(' '),
        None => Some((merge[0].as_str()?, merge[1].as_str()?)),
    }
}

/// A text under a name, wherever it is.
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
