//! The tokenizer of a checkpoint.

use std::collections::HashMap;

use wisp_text::tokenizer::{GgufMetadata, Tokenizer, TokenizerError};
use wisp_weights::{
    Checkpoint,
    gguf::{Gguf, Strings},
};

/// Returns the tokenizer of a checkpoint: the one in a GGUF file, which may have nothing but a
/// vocabulary, or the `tokenizer.json` beside other weights.
///
/// # Errors
///
/// If there is none, or it is of a kind that is not supported.
pub fn tokenizer(checkpoint: &Checkpoint) -> Result<Tokenizer, TokenizerError> {
    match checkpoint.gguf() {
        Some(gguf) => Tokenizer::from_gguf(&TokenizerMetadata::new(gguf)),
        #[cfg(not(target_arch = "wasm32"))]
        None => Tokenizer::from_dir(checkpoint.directory().unwrap_or(std::path::Path::new("."))),
        #[cfg(target_arch = "wasm32")]
        // A browser has no directories: `ModelFiles::from_files` takes the files.
        None => Tokenizer::from_files(&wisp_text::tokenizer::HuggingFaceFiles::default()),
    }
}

/// The metadata of a GGUF file as a tokenizer reads it.
struct TokenizerMetadata<'a> {
    gguf: &'a Gguf,
    /// The arrays of strings, which the header stores in one piece.
    strings: HashMap<&'a str, Vec<String>>,
}

impl<'a> TokenizerMetadata<'a> {
    fn new(gguf: &'a Gguf) -> TokenizerMetadata<'a> {
        let keys = gguf.metadata.keys();
        let tokenizer_keys = keys.filter(|key| key.starts_with("tokenizer."));
        let strings = tokenizer_keys.filter_map(|key| {
            let strings: &Strings = gguf.get(key).ok()??;
            Some((key.as_str(), strings.iter().map(String::from).collect()))
        });
        TokenizerMetadata {
            gguf,
            strings: strings.collect(),
        }
    }
}

impl GgufMetadata for TokenizerMetadata<'_> {
    fn string(&self, key: &str) -> Option<&str> {
        self.gguf.get(key).ok()?
    }

    fn strings(&self, key: &str) -> Option<&[String]> {
        self.strings.get(key).map(Vec::as_slice)
    }

    fn floats(&self, key: &str) -> Option<Vec<f32>> {
        self.gguf.get(key).ok()?
    }

    fn ints(&self, key: &str) -> Option<Vec<i64>> {
        self.gguf.get(key).ok()?
    }

    fn uint(&self, key: &str) -> Option<u64> {
        self.gguf.get(key).ok()?
    }

    fn boolean(&self, key: &str) -> Option<bool> {
        self.gguf.get(key).ok()?
    }

    fn keys_with_prefix(&self, prefix: &str) -> Vec<&str> {
        let keys = self.gguf.metadata.keys().map(String::as_str);
        keys.filter(|key| key.starts_with(prefix)).collect()
    }
}
