//! The normalizer of a `tokenizer.json`, which changes a text before it is split.

use serde_json::Value;
use tokenizers::{NormalizedString, Normalizer as _, NormalizerWrapper};

use super::deadline::Deadline;
use super::json::{component, component_type, components, invalid};
use super::pattern::SearchPattern;
use super::precompiled;
use crate::tokenizer::error::TokenizerError;

const WHAT: &str = "normalizer";

/// The longest text that is put before a text or instead of a match, in bytes.
const MAX_INSERTED: usize = 256;

/// A normalized text may have twelve times the bytes of the text and this many more. The compatibility
/// form of U+FDFA has eleven times its bytes.
const MAX_GROWTH: usize = 12;
const SPARE: usize = 1 << 20;

/// The steps of a normalizer.
#[derive(Debug, Default)]
pub struct Normalizer {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// Replaces what matches.
    Replace(SearchPattern, String),
    /// Makes a text at most some dozen times longer.
    Other(Box<NormalizerWrapper>),
}

impl Normalizer {
    /// Reads the `normalizer` of a `tokenizer.json`, which may be null.
    pub fn parse(json: &Value) -> Result<Self, TokenizerError> {
        let steps = components(json, WHAT, "normalizers")?;
        let steps = steps.into_iter().map(step).collect::<Result<_, _>>()?;
        Ok(Self { steps })
    }

    /// Normalizes a text.
    pub fn normalize(
        &self,
        text: &mut NormalizedString,
        deadline: &Deadline,
    ) -> Result<(), TokenizerError> {
        let limit = text
            .get()
            .len()
            .saturating_mul(MAX_GROWTH)
            .saturating_add(SPARE);
        let check = |bytes: usize| match bytes > limit {
            true => Err(TokenizerError::NormalizedTooLong { limit }),
            false => Ok(()),
        };
        for step in &self.steps {
            match step {
                Step::Replace(pattern, content) => {
                    let length = text.get().len();
                    if length.saturating_mul(content.len()) > limit {
                        let (count, removed) = pattern.count(text.get(), deadline)?;
                        check(length - removed + count.saturating_mul(content.len()))?;
                    }
                    let replaced = text.replace(pattern.timed(deadline), content);
                    replaced.map_err(TokenizerError::library)?;
                }
                Step::Other(normalizer) => {
                    let normalized = normalizer.normalize(text);
                    normalized.map_err(TokenizerError::library)?;
                    check(text.get().len())?;
                }
            }
        }
        Ok(())
    }
}

fn step(json: &Value) -> Result<Step, TokenizerError> {
    match component_type(json, WHAT)? {
        "Replace" => {
            let pattern = SearchPattern::parse(&json["pattern"], "normalizer Replace")?;
            let content = short_text(json, "content")?;
            return Ok(Step::Replace(pattern, content.to_owned()));
        }
        "Prepend" => {
            short_text(json, "prepend")?;
        }
        "Precompiled" => precompiled::check(&json["precompiled_charsmap"])?,
        "BertNormalizer" | "Strip" | "StripAccents" | "NFC" | "NFD" | "NFKC" | "NFKD"
        | "Lowercase" | "Nmt" | "ByteLevel" => {}
        other => return Err(invalid(WHAT, "a known type", other)),
    }
    component(json, WHAT).map(|step| Step::Other(Box::new(step)))
}

/// Returns a text that a normalizer inserts.
fn short_text<'j>(json: &'j Value, key: &str) -> Result<&'j str, TokenizerError> {
    let text = json[key].as_str().filter(|text| text.len() <= MAX_INSERTED);
    let expected = format!("a text `{key}` of at most {MAX_INSERTED} bytes");
    text.ok_or_else(|| invalid(WHAT, &expected, json))
}
