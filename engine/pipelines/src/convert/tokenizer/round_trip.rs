//! Selects the keys whose tokenizer gives the same tokens as the original.

use std::collections::BTreeSet;

use wisp_text::tokenizer::Tokenizer;
use wisp_weights::{Checkpoint, gguf::GgufHeaderBuilder};

use super::{keys::Keys, probes::PROBES, source::Source};
use crate::model_files;

impl Source<'_> {
    /// Returns GGUF keys whose tokenizer gives the same tokens as this one.
    ///
    /// # Errors
    ///
    /// A sentence about why GGUF cannot express the tokenizer.
    pub fn gguf_keys(
        &self,
        header: &GgufHeaderBuilder,
        notes: &mut Vec<String>,
    ) -> Result<Keys, String> {
        let (size, rows) = (self.tokenizer.vocab_size(), self.vocab_size);
        if size > rows {
            return Err(format!("it has {size} tokens, but the model only {rows}"));
        }
        let common = self.common_keys();
        let mut problem = None;
        for own in self.candidates()? {
            let keys = [common.clone(), own].concat();
            match self.check_round_trip(&keys, header) {
                Ok(differences) => {
                    notes.extend(differences);
                    notes.extend(self.losses());
                    return Ok(keys);
                }
                // Keeps the problem of the first candidate, which is the most probable one.
                Err(found) => problem = problem.or(Some(found)),
            }
        }
        Err(problem.unwrap_or_default())
    }

    /// Reads the keys back, and checks that texts without special tokens, and special tokens alone,
    /// give the same tokens. Returns notes about remaining differences.
    fn check_round_trip(
        &self,
        keys: &Keys,
        header: &GgufHeaderBuilder,
    ) -> Result<Vec<String>, String> {
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
                "GGUF has no tokenizer that gives the same tokens for {text:?}"
            ));
        }
        let mut different = BTreeSet::new();
        for id in self.added_ids() {
            // Token ids fit in 32 bits.
            let id = id as u32;
            let Some(token) = self.tokenizer.token(id) else {
                continue;
            };
            let is_one_token = |tokenizer: &Tokenizer| {
                let ids = tokenizer.encode(&token, false, true);
                ids.is_ok_and(|ids| ids == [id])
            };
            let is_special = self.tokenizer.is_special(id);
            if is_special && is_one_token(self.tokenizer) && !is_one_token(&back) {
                return Err(format!("GGUF cannot express the token {token:?}"));
            }
            if !same(&format!("one {token} two{token}\nthree"), false, true) {
                different.insert(token);
            }
        }
        let mut notes = Vec::new();
        if let Some(first) = different.first() {
            notes.push(format!(
                "{} special tokens treat the spaces around them differently in GGUF, such as \
                 {first:?}",
                different.len()
            ));
        }
        notes.extend(self.different_ends(&back));
        Ok(notes)
    }

    /// Returns notes about tokens that end generation only in the original or only in the new file.
    fn different_ends(&self, back: &Tokenizer) -> Vec<String> {
        let (own, back) = (self.tokenizer.end_of_generation(), back.end_of_generation());
        // Encoders do not generate text.
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

    /// Returns a note about normalization that GGUF cannot express, if there is any.
    fn losses(&self) -> Option<String> {
        let normalizer = self.json["normalizer"].to_string();
        normalizer.contains("\"NFC\"").then(|| {
            "GGUF's tokenizers do not compose characters (NFC): compose texts before encoding them"
                .into()
        })
    }
}
