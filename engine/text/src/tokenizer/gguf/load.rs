//! Assembles a tokenizer from GGUF metadata, following llama.cpp's `llama-vocab.cpp`.

use std::collections::HashSet;

use super::backend::{Algorithm, GgufTokenizer};
use super::bpe::Bpe;
use super::end_of_generation;
use super::keys::{self, CHARSMAP, CHAT_TEMPLATE, MERGES, SCORES, TOKEN_TYPES, TOKENS};
use super::kinds::{self, Kind};
use super::metadata::GgufMetadata;
use super::pre_tokenizer_table::{self, PreTokenizerRules};
use super::special_ids::{AddedSpecials, SpecialIds};
use super::special_tokens::{SpecialTokens, Stripping};
use super::spm::Spm;
use super::unigram::{Normalization, Unigram};
use super::vocabulary::{TokenKind, Vocabulary};
use super::wordpiece::WordPiece;
use crate::tokenizer::backend::{DEFAULT_TEMPLATE, LoadedTokenizer, Properties};
use crate::tokenizer::byte_tokens::parse_byte_token;
use crate::tokenizer::error::TokenizerError;

/// Rebuilds the tokenizer that `metadata` describes.
pub fn load(metadata: &dyn GgufMetadata) -> Result<LoadedTokenizer, TokenizerError> {
    // llama.cpp insists on the key, so files of models without a tokenizer have one of these values.
    let model = metadata.string(keys::KIND);
    let model = model.filter(|model| !matches!(*model, "none" | "no_vocab"));
    let model = model.ok_or(TokenizerError::MissingKey {
        key: keys::KIND,
        expected: "string",
    })?;
    let kind = kinds::find(model).ok_or_else(|| TokenizerError::UnsupportedKind {
        kind: model.to_owned(),
    })?;
    let mut warnings = Vec::new();
    let mut vocabulary = read_vocabulary(metadata)?;
    let ids = SpecialIds::read(metadata, kind, vocabulary.len(), &mut warnings);
    let mut control = control_tokens(&vocabulary);
    let end_of_generation = end_of_generation::mark(metadata, &mut vocabulary, ids.eos);
    // Tokens that were made visible in answers still belong to the template.
    control.extend(control_tokens(&vocabulary));
    let rules = read_rules(metadata, kind, &mut warnings)?;
    let algorithm = read_algorithm(metadata, kind, rules, &ids, &vocabulary, &mut warnings)?;
    let adds = AddedSpecials::read(metadata, kind, rules);
    let special = SpecialTokens::new(&vocabulary, &control, stripping(metadata))?;
    let properties = Properties {
        bos: ids.bos,
        eos: ids.eos,
        end_of_generation,
        adds_bos: adds.bos,
        chat_templates: chat_templates(metadata),
        warnings,
    };
    let backend = GgufTokenizer {
        before: added(adds.bos, ids.bos, "BOS")?,
        // BERT ends with a separator, the other kinds with EOS.
        after: match model {
            "bert" => added(adds.separator, ids.separator, "SEP")?,
            _ => added(adds.eos, ids.eos, "EOS")?,
        },
        vocabulary,
        special,
        control,
        algorithm,
    };
    Ok(LoadedTokenizer {
        backend: Box::new(backend),
        properties,
    })
}

/// Returns the token to add, which must be known if one is added at all.
fn added(add: bool, id: Option<u32>, what: &'static str) -> Result<Option<u32>, TokenizerError> {
    match (add, id) {
        (true, None) => Err(TokenizerError::NoSpecialToken { what }),
        (add, id) => Ok(id.filter(|_| add)),
    }
}

/// Returns the ids of control and unknown tokens.
fn control_tokens(vocabulary: &Vocabulary) -> HashSet<u32> {
    let is_control = |kind| matches!(kind, TokenKind::Control | TokenKind::Unknown);
    let tokens = vocabulary.iter().filter(|(_, _, kind)| is_control(*kind));
    tokens.map(|(id, ..)| id).collect()
}

fn read_vocabulary(metadata: &dyn GgufMetadata) -> Result<Vocabulary, TokenizerError> {
    let texts = metadata.strings(TOKENS).ok_or(TokenizerError::MissingKey {
        key: TOKENS,
        expected: "array of strings",
    })?;
    let kinds = match metadata.ints(TOKEN_TYPES) {
        Some(types) => {
            check_length(TOKEN_TYPES, texts.len(), types.len())?;
            let pairs = types.iter().zip(texts);
            pairs
                .map(|(&number, text)| TokenKind::from_number(number, text))
                .collect()
        }
        None => texts
            .iter()
            .map(|text| parse_byte_token(text).map_or(TokenKind::Normal, TokenKind::Byte))
            .collect(),
    };
    Vocabulary::new(texts, kinds)
}

/// Refuses arrays that are too short. Longer ones are accepted, because some converters pad.
fn check_length(key: &'static str, expected: usize, actual: usize) -> Result<(), TokenizerError> {
    if actual < expected {
        return Err(TokenizerError::WrongLength {
            key,
            expected,
            actual,
        });
    }
    Ok(())
}

fn read_scores(metadata: &dyn GgufMetadata, size: usize) -> Result<Vec<f32>, TokenizerError> {
    let Some(mut scores) = metadata.floats(SCORES) else {
        return Ok(vec![0.0; size]);
    };
    check_length(SCORES, size, scores.len())?;
    scores.truncate(size);
    Ok(scores)
}

/// Returns the rules of the pre-tokenizer that the file names; `None` for kinds without one.
fn read_rules(
    metadata: &dyn GgufMetadata,
    kind: &Kind,
    warnings: &mut Vec<String>,
) -> Result<Option<&'static PreTokenizerRules>, TokenizerError> {
    let name = match (kind.model, metadata.string(keys::PRE_TOKENIZER)) {
        ("gemma4", _) => "gemma4",
        ("gpt2", Some(name)) => name,
        ("gpt2", None) => {
            warnings.push(format!(
                "{} is missing: the default pre-tokenizer may be wrong",
                keys::PRE_TOKENIZER
            ));
            "default"
        }
        _ => return Ok(None),
    };
    let rules = pre_tokenizer_table::find(name);
    let rules = rules.ok_or_else(|| TokenizerError::UnknownPreTokenizer {
        name: name.to_owned(),
    })?;
    Ok(Some(rules))
}

/// The longest token of WordPiece and unigram models in bytes: each position of a text takes the square
/// of it. The longest ones of models have some fifty.
const MAX_PIECE: usize = 160;

/// Builds the model of a kind of tokenizer. `rules` are those of the pre-tokenizer, which only BPE
/// has.
fn read_algorithm(
    metadata: &dyn GgufMetadata,
    kind: &Kind,
    rules: Option<&'static PreTokenizerRules>,
    ids: &SpecialIds,
    vocabulary: &Vocabulary,
    warnings: &mut Vec<String>,
) -> Result<Algorithm, TokenizerError> {
    if let Some(rules) = rules {
        return read_bpe(metadata, rules, vocabulary, warnings);
    }
    let space_prefix = metadata.boolean("tokenizer.ggml.add_space_prefix");
    let space_prefix = space_prefix.unwrap_or(kind.space_prefix);
    let unknown = ids.unknown.ok_or(TokenizerError::NoSpecialToken {
        what: "unknown words",
    });
    let scores = || read_scores(metadata, vocabulary.len());
    if matches!(kind.model, "bert" | "t5") && vocabulary.longest() > MAX_PIECE {
        let expected = format!("tokens of at most {MAX_PIECE} bytes");
        let found = format!("one of {} bytes", vocabulary.longest());
        return Err(TokenizerError::invalid(TOKENS, expected, found));
    }
    match kind.model {
        "bert" => {
            let lowercase = metadata.boolean("tokenizer.ggml.normalizer.lowercase");
            let lowercase = lowercase.unwrap_or(true);
            let strip = metadata.boolean("tokenizer.ggml.normalizer.strip_accents");
            let strip = strip.unwrap_or(lowercase);
            let model = WordPiece::new(lowercase, strip, unknown?);
            Ok(Algorithm::WordPiece(model))
        }
        "t5" => {
            let table = metadata.ints(CHARSMAP).filter(|table| !table.is_empty());
            // The array holds bytes, signed or not: the low eight bits are the byte.
            let table = table.map(|t| t.iter().map(|&v| (v & 0xff) as u8).collect::<Vec<u8>>());
            let merge_spaces = metadata.boolean("tokenizer.ggml.remove_extra_whitespaces");
            let normalization = Normalization::new(
                table.as_deref(),
                space_prefix,
                merge_spaces.unwrap_or(false),
            )?;
            let model = Unigram::new(vocabulary, &scores()?, unknown?, normalization)?;
            Ok(Algorithm::Unigram(Box::new(model)))
        }
        _ => Ok(Algorithm::Spm {
            model: Spm::new(scores()?, ids.unknown),
            space_prefix,
        }),
    }
}

fn read_bpe(
    metadata: &dyn GgufMetadata,
    rules: &'static PreTokenizerRules,
    vocabulary: &Vocabulary,
    warnings: &mut Vec<String>,
) -> Result<Algorithm, TokenizerError> {
    let name = metadata.string(keys::PRE_TOKENIZER);
    let merges = match (metadata.strings(MERGES), name) {
        (Some(merges), _) => merges,
        (None, Some("kimi-k2")) => &[],
        (None, _) => {
            return Err(TokenizerError::MissingKey {
                key: MERGES,
                expected: "array of strings",
            });
        }
    };
    let (bpe, ignored) = Bpe::new(vocabulary, merges, rules)?;
    if ignored > 0 {
        let all = merges.len();
        warnings.push(format!(
            "{ignored} of {all} merges are ignored: they name no token"
        ));
    }
    Ok(Algorithm::Bpe(Box::new(bpe)))
}

/// Returns which white space special tokens swallow, by the names of the models that do it.
fn stripping(metadata: &dyn GgufMetadata) -> Stripping {
    let name = metadata
        .string("general.name")
        .unwrap_or_default()
        .to_lowercase();
    let architecture = metadata.string("general.architecture").unwrap_or_default();
    let pre = metadata.string(keys::PRE_TOKENIZER).unwrap_or_default();
    let jina = ["jina-v2-de", "jina-v2-es", "jina-v2-code"]
        .iter()
        .any(|p| pre.contains(p));
    let mask = ["nomic-bert-moe", "jina-bert-v3"]
        .iter()
        .any(|a| architecture.contains(a));
    if jina || mask {
        Stripping::Mask
    } else if name.contains("phi-3") || name.contains("phi3") {
        Stripping::Phi3
    } else if name.contains("modern-bert") {
        Stripping::Mask
    } else {
        Stripping::None
    }
}

/// Returns the names and sources of the chat templates, the default one first.
fn chat_templates(metadata: &dyn GgufMetadata) -> Vec<(String, String)> {
    let named = metadata.keys_with_prefix(CHAT_TEMPLATE).into_iter();
    let named = named.filter_map(|key| {
        let name = key.strip_prefix(CHAT_TEMPLATE)?.strip_prefix('.')?;
        Some((name.to_owned(), metadata.string(key)?.to_owned()))
    });
    let default = metadata.string(CHAT_TEMPLATE);
    let default = default.map(|source| (DEFAULT_TEMPLATE.to_owned(), source.to_owned()));
    default.into_iter().chain(named).collect()
}
