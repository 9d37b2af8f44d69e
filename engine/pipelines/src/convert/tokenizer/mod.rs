//! The tokenizer of a `tokenizer.json` as GGUF metadata.
//!
//! GGUF has four kinds of tokenizers, and names a pre-tokenizer where `tokenizer.json` has regular
//! expressions. The name is found by comparing how pre-tokenizers split a set of probe texts. Keys
//! are written only if the tokenizer that they describe encodes these texts to the same tokens as
//! the original.

mod candidates;
mod keys;
mod probes;
mod round_trip;
mod source;
#[cfg(test)]
mod tests;

use std::path::Path;

use wisp_text::tokenizer::TokenizerError;
use wisp_weights::gguf::GgufHeaderBuilder;

use crate::model_files::ModelFiles;
use keys::text;
use source::Source;

/// Names of tokenizer files that Wisp cannot read.
const UNREADABLE: [&str; 6] = [
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tiktoken.model",
    "vocab.json",
    "vocab.txt",
];

/// Writes the keys of the model's tokenizer to the metadata of the new file, or the model `none` if
/// there is no tokenizer that GGUF can express.
pub(super) fn describe(
    files: &ModelFiles,
    header: &mut GgufHeaderBuilder,
    notes: &mut Vec<String>,
) {
    let directory = files.directory.as_deref();
    let keys = match (&files.tokenizer, directory) {
        (Ok(tokenizer), Some(directory)) => {
            let source = Source::new(tokenizer, directory, files.model_spec.spec.vocab_size);
            source.gguf_keys(header, notes).map_err(Some)
        }
        (Ok(_), None) => Err(None),
        (Err(TokenizerError::MissingFile { .. }), _) => Err(unreadable_file(directory)),
        (Err(error), _) => Err(Some(error.to_string())),
    };
    match keys {
        Ok(keys) => {
            for (key, value) in keys {
                header.key(&format!("tokenizer.{key}"), value);
            }
        }
        Err(problem) => {
            // llama.cpp refuses files without the key.
            header.key("tokenizer.ggml.model", text("none"));
            notes.extend(problem.map(|problem| {
                format!(
                    "the tokenizer is not converted: {problem}; keep its files, and give the new \
                     model token ids (`tokens`)"
                )
            }));
        }
    }
}

/// Returns why a directory that has a tokenizer without `tokenizer.json` is not converted.
fn unreadable_file(directory: Option<&Path>) -> Option<String> {
    let exists = |name: &&&str| directory.is_some_and(|folder| folder.join(name).is_file());
    let file = UNREADABLE.iter().find(exists)?;
    Some(format!(
        "{file} is not read, and there is no tokenizer.json"
    ))
}
