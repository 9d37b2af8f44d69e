//! Rebuilds a tokenizer from GGUF metadata, to the letter of llama.cpp's `llama-vocab.cpp`.

use super::bpe::Bpe;
use super::end_of_generation;
use super::error::TokenizerError;
use super::metadata::Metadata;
use super::pretokenizers::{self, Rules};
use super::rebuilt::{Algorithm, GgufTokenizer};
use super::special::{SpecialTokens, Stripping};
use super::spm::Spm;
use super::unigram::Unigram;
use super::vocabulary::{TokenKind, Vocabulary, byte_of};
use super::wordpiece::WordPiece;
use super::{Loaded, Traits};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
const CHAT_TEMPLATE: &str = "tokenizer.chat_template";

/// What a kind of tokenizer is unless the file says otherwise.
struct Defaults {
    model: &'static str,
    bos: Option<u64>,
    eos: Option<u64>,
    unknown: Option<u64>,
    separator: Option<u64>,
    add_bos: bool,
    add_eos: bool,
    add_separator: bool,
    space_prefix: bool,
}

const KINDS: &[Defaults] = &[
    Defaults {
        model: "llama",
        bos: Some(1),
        eos: Some(2),
        unknown: Some(0),
        separator: None,
        add_bos: true,
        add_eos: false,
        add_separator: false,
        space_prefix: true,
    },
    Defaults {
        model: "gpt2",
        bos: Some(11),
        eos: Some(11),
        unknown: None,
        separator: None,
        add_bos: false,
        add_eos: false,
        add_separator: false,
        space_prefix: false,
    },
    Defaults {
        model: "gemma4",
        bos: None,
        eos: None,
        unknown: None,
        separator: None,
        add_bos: true,
        add_eos: false,
        add_separator: false,
        space_prefix: false,
    },
    Defaults {
        model: "bert",
        bos: Some(101),
        eos: None,
        unknown: Some(100),
        separator: Some(102),
        add_bos: true,
        add_eos: false,
        add_separator: true,
        space_prefix: false,
    },
    Defaults {
        model: "t5",
        bos: None,
        eos: Some(1),
        unknown: Some(2),
        separator: None,
        add_bos: false,
        add_eos: true,
        add_separator: false,
        space_prefix: false,
    },
];

/// Rebuilds the tokenizer that `metadata` describes.
pub fn load(metadata: &dyn Metadata) -> Result<Loaded, TokenizerError> {
    // Files of models without a tokenizer say so, because llama.cpp insists on the key.
    let kind = metadata.string(MODEL);
    let kind = kind.filter(|kind| !matches!(*kind, "none" | "no_vocab"));
    let kind = kind.ok_or(TokenizerError::MissingKey {
        key: MODEL,
        expected: "string",
    })?;
    let defaults = KINDS.iter().find(|defaults| defaults.model == kind);
    let defaults = defaults.ok_or_else(|| TokenizerError::UnsupportedKind {
        kind: kind.to_owned(),
    })?;
    let mut warnings = Vec::new();
    let mut vocabulary = read_vocabulary(metadata)?;
    let ids = SpecialIds::read(metadata, defaults, vocabulary.len(), &mut warnings);
    let end = end_of_generation::mark(metadata, &mut vocabulary, ids.eos);
    let algorithm = read_algorithm(metadata, defaults, &ids, &vocabulary, &mut warnings)?;
    let adds = Additions::read(metadata, defaults)?;
    let special = SpecialTokens::new(&vocabulary, stripping(metadata))?;
    let traits = Traits {
        bos: ids.bos,
        eos: ids.eos,
        end,
        adds_bos: adds.bos,
        chat_templates: chat_templates(metadata),
        warnings,
    };
    let backend = GgufTokenizer {
        before: pick(adds.bos, ids.bos, "BOS")?,
        // BERT ends with a separator, the others with EOS.
        after: match kind {
            "bert" => pick(adds.separator, ids.separator, "SEP")?,
            _ => pick(adds.eos, ids.eos, "EOS")?,
        },
        vocabulary,
        special,
        algorithm,
    };
    Ok(Loaded {
        backend: Box::new(backend),
        traits,
    })
}

fn pick(add: bool, id: Option<u32>, what: &'static str) -> Result<Option<u32>, TokenizerError> {
    match (add, id) {
        (true, None) => Err(TokenizerError::NoSpecialToken { what }),
        (add, id) => Ok(id.filter(|_| add)),
    }
}

fn read_vocabulary(metadata: &dyn Metadata) -> Result<Vocabulary, TokenizerError> {
    let texts = metadata.strings(TOKENS).ok_or(TokenizerError::MissingKey {
        key: TOKENS,
        expected: "array of strings",
    })?;
    let kinds = match metadata.ints(TYPES) {
        Some(types) => {
            check_length(TYPES, texts.len(), types.len())?;
            let pairs = types.iter().zip(texts);
            pairs
                .map(|(&number, text)| TokenKind::from_number(number, text))
                .collect()
        }
        None => texts
            .iter()
            .map(|text| byte_of(text).map_or(TokenKind::Normal, TokenKind::Byte))
            .collect(),
    };
    Vocabulary::new(texts, kinds)
}

/// Longer is fine: some converters pad. Shorter is not.
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

fn read_scores(metadata: &dyn Metadata, size: usize) -> Result<Vec<f32>, TokenizerError> {
    let Some(mut scores) = metadata.floats(SCORES) else {
        return Ok(vec![0.0; size]);
    };
    check_length(SCORES, size, scores.len())?;
    scores.truncate(size);
    Ok(scores)
}

/// Ids of special tokens. One that is out of range is left out, with a warning.
struct SpecialIds {
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    separator: Option<u32>,
}

impl SpecialIds {
    fn read(
        metadata: &dyn Metadata,
        defaults: &Defaults,
        size: usize,
        warnings: &mut Vec<String>,
    ) -> Self {
        let in_range = |id: u64| u32::try_from(id).ok().filter(|_| id < size as u64);
        let mut read = |key: &'static str, default: Option<u64>| {
            let default = default.and_then(in_range);
            let Some(id) = metadata.uint(key) else {
                return default;
            };
            let found = in_range(id);
            if found.is_none() {
                warnings.push(format!(
                    "{key} = {id} is not in the vocabulary of {size}; ignored"
                ));
            }
            found.or(default)
        };
        let names_bos = !matches!(metadata.string(PRE), Some("glm4" | "chatglm-bpe"));
        // BERT files may name their first token only by what it is for.
        let first = read(
            "tokenizer.ggml.cls_token_id",
            defaults.bos.filter(|_| names_bos),
        );
        Self {
            bos: read("tokenizer.ggml.bos_token_id", first.map(u64::from)),
            eos: read("tokenizer.ggml.eos_token_id", defaults.eos),
            unknown: read("tokenizer.ggml.unknown_token_id", defaults.unknown),
            // The key is misspelt in the format.
            separator: read("tokenizer.ggml.seperator_token_id", defaults.separator),
        }
    }
}

/// Which special tokens encoding adds.
struct Additions {
    bos: bool,
    eos: bool,
    separator: bool,
}

impl Additions {
    fn read(metadata: &dyn Metadata, defaults: &Defaults) -> Result<Self, TokenizerError> {
        let rules = match defaults.model {
            "gpt2" | "gemma4" => Some(read_rules(metadata, &mut Vec::new())?),
            _ => None,
        };
        let by_rules = rules.is_some_and(|rules| rules.add_bos);
        let plain_text = rules.is_some_and(|rules| !rules.byte_level);
        let read = |key, default| metadata.boolean(key).unwrap_or(default);
        Ok(Self {
            // BERT always has its first token; Gemma 4's files deny theirs by mistake.
            bos: defaults.model == "bert"
                || (plain_text && by_rules)
                || read("tokenizer.ggml.add_bos_token", defaults.add_bos || by_rules),
            eos: read("tokenizer.ggml.add_eos_token", defaults.add_eos),
            separator: defaults.add_separator,
        })
    }
}

fn read_rules(
    metadata: &dyn Metadata,
    warnings: &mut Vec<String>,
) -> Result<&'static Rules, TokenizerError> {
    let name = match (metadata.string(MODEL), metadata.string(PRE)) {
        (Some("gemma4"), _) => "gemma4",
        (_, Some(name)) => name,
        (_, None) => {
            warnings.push(format!(
                "{PRE} is missing: the default pre-tokeniser may be wrong"
            ));
            "default"
        }
    };
    pretokenizers::rules(name).ok_or_else(|| TokenizerError::UnknownPreTokenizer {
        name: name.to_owned(),
    })
}

fn read_algorithm(
    metadata: &dyn Metadata,
    defaults: &Defaults,
    ids: &SpecialIds,
    vocabulary: &Vocabulary,
    warnings: &mut Vec<String>,
) -> Result<Algorithm, TokenizerError> {
    let space_prefix = metadata.boolean("tokenizer.ggml.add_space_prefix");
    let space_prefix = space_prefix.unwrap_or(defaults.space_prefix);
    let unknown = ids.unknown.ok_or(TokenizerError::NoSpecialToken {
        what: "unknown words",
    });
    Ok(match defaults.model {
        "llama" => Algorithm::Spm {
            model: Spm::new(read_scores(metadata, vocabulary.len())?, ids.unknown),
            space_prefix,
        },
        "bert" => {
            let lowercase = metadata.boolean("tokenizer.ggml.normalizer.lowercase");
            let lowercase = lowercase.unwrap_or(true);
            let strip = metadata.boolean("tokenizer.ggml.normalizer.strip_accents");
            let strip = strip.unwrap_or(lowercase);
            Algorithm::WordPiece(WordPiece::new(lowercase, strip, unknown?))
        }
        "t5" => {
            let table = metadata.ints(CHARSMAP).filter(|table| !table.is_empty());
            // The array holds bytes, signed or not: the low eight bits are the byte.
            let table = table.map(|t| t.iter().map(|&v| (v & 0xff) as u8).collect::<Vec<u8>>());
            let merge_spaces = metadata.boolean("tokenizer.ggml.remove_extra_whitespaces");
            let scores = read_scores(metadata, vocabulary.len())?;
            Algorithm::Unigram(Box::new(Unigram::new(
                vocabulary,
                &scores,
                unknown?,
                table.as_deref(),
                space_prefix,
                merge_spaces.unwrap_or(false),
            )?))
        }
        _ => {
            let rules = read_rules(metadata, warnings)?;
            let merges = match (metadata.strings(MERGES), metadata.string(PRE)) {
                (Some(merges), _) => merges,
                (None, Some("kimi-k2")) => &[],
                (None, _) => {
                    return Err(TokenizerError::MissingKey {
                        key: MERGES,
                        expected: "array of strings",
                    });
                }
            };
            let (bpe, left_out) = Bpe::new(vocabulary, merges, rules)?;
            if left_out > 0 {
                let all = merges.len();
                warnings.push(format!("{left_out} of {all} merges name no token; ignored"));
            }
            Algorithm::Bpe(Box::new(bpe))
        }
    })
}

fn stripping(metadata: &dyn Metadata) -> Stripping {
    let name = metadata
        .string("general.name")
        .unwrap_or_default()
        .to_lowercase();
    let architecture = metadata.string("general.architecture").unwrap_or_default();
    let pre = metadata.string(PRE).unwrap_or_default();
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

fn chat_templates(metadata: &dyn Metadata) -> Vec<(String, String)> {
    let named = metadata.keys_with_prefix(CHAT_TEMPLATE).into_iter();
    let named = named.filter_map(|key| {
        let name = key.strip_prefix(CHAT_TEMPLATE)?.strip_prefix('.')?;
        Some((name.to_owned(), metadata.string(key)?.to_owned()))
    });
    let default = metadata.string(CHAT_TEMPLATE);
    let default = default.map(|source| (super::DEFAULT_TEMPLATE.to_owned(), source.to_owned()));
    default.into_iter().chain(named).collect()
}
