//! The pre-tokenizer of a `tokenizer.json`, which splits a text into parts.

use serde_json::Value;
use tokenizers::tokenizer::pattern::Invert;
use tokenizers::{
    PreTokenizedString, PreTokenizer as _, PreTokenizerWrapper, SplitDelimiterBehavior,
};

use super::deadline::Deadline;
use super::json::{component, component_type, components, invalid};
use super::pattern::SearchPattern;
use crate::tokenizer::error::TokenizerError;

const WHAT: &str = "pre_tokenizer";

/// The most steps that make a text longer: each one up to four times.
const MAX_GROWING: usize = 2;

/// The steps of a pre-tokenizer.
#[derive(Debug, Default)]
pub struct PreTokenizer {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// Splits at what matches, or at what does not.
    Split {
        pattern: SearchPattern,
        behavior: SplitDelimiterBehavior,
        invert: bool,
    },
    Other(Box<PreTokenizerWrapper>),
}

impl PreTokenizer {
    /// Reads the `pre_tokenizer` of a `tokenizer.json`, which may be null.
    pub fn parse(json: &Value) -> Result<Self, TokenizerError> {
        let steps = components(json, WHAT, "pretokenizers")?;
        let grows =
            |json: &&&Value| matches!(json["type"].as_str(), Some("ByteLevel" | "Metaspace"));
        if steps.iter().filter(grows).count() > MAX_GROWING {
            let expected = format!("at most {MAX_GROWING} of ByteLevel and Metaspace");
            return Err(invalid(WHAT, &expected, "more"));
        }
        let steps = steps.into_iter().map(step).collect::<Result<_, _>>()?;
        Ok(Self { steps })
    }

    /// Splits a text.
    pub fn split(
        &self,
        text: &mut PreTokenizedString,
        deadline: &Deadline,
    ) -> Result<(), TokenizerError> {
        for step in &self.steps {
            let split = match step {
                Step::Split {
                    pattern,
                    behavior,
                    invert,
                } => text.split(|_, part| {
                    let pattern = pattern.timed(deadline);
                    match invert {
                        true => part.split(Invert(pattern), *behavior),
                        false => part.split(pattern, *behavior),
                    }
                }),
                Step::Other(pre_tokenizer) => pre_tokenizer.pre_tokenize(text),
            };
            split.map_err(TokenizerError::library)?;
            deadline.check()?;
        }
        Ok(())
    }
}

fn step(json: &Value) -> Result<Step, TokenizerError> {
    match component_type(json, WHAT)? {
        // Splits between all characters.
        "Split" if json["pattern"]["String"].as_str() == Some("") => {
            let characters = serde_json::json!({"type": "FixedLength", "length": 1});
            return component(&characters, WHAT).map(|step| Step::Other(Box::new(step)));
        }
        "Split" => {
            return Ok(Step::Split {
                pattern: SearchPattern::parse(&json["pattern"], "pre_tokenizer Split")?,
                behavior: component(&json["behavior"], WHAT)?,
                invert: json["invert"].as_bool().unwrap_or(false),
            });
        }
        "FixedLength" => {
            let length = json["length"].as_u64();
            if length == Some(0) {
                return Err(invalid("pre_tokenizer FixedLength", "a length above 0", 0));
            }
        }
        "BertPreTokenizer" | "ByteLevel" | "CharDelimiterSplit" | "Metaspace" | "Whitespace"
        | "Punctuation" | "WhitespaceSplit" | "Digits" | "UnicodeScripts" => {}
        other => return Err(invalid(WHAT, "a known type", other)),
    }
    component(json, WHAT).map(|step| Step::Other(Box::new(step)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokenizers::{OffsetReferential, OffsetType};

    fn parts(text: &PreTokenizedString) -> Vec<&str> {
        let parts = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
        parts.into_iter().map(|(part, ..)| part).collect()
    }

    /// OLMo's SuperBPE cuts numbers into groups of three digits from the right, without a character between them.
    #[test]
    fn empty_matches_cut_the_text() {
        for (regex, text, expected) in [
            (r"(?=(\d{3})+(?!\d))", "1234567", vec!["1", "234", "567"]),
            (r"(?=b)|c", "abcb", vec!["a", "b", "c", "b"]),
        ] {
            for behavior in [
                "Isolated",
                "Removed",
                "Contiguous",
                "MergedWithPrevious",
                "MergedWithNext",
            ] {
                let json = json!({
                    "type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": false,
                });
                let mut split = PreTokenizedString::from(text);
                let pre_tokenizer = PreTokenizer::parse(&json).unwrap();
                let deadline = Deadline::new(text.len());
                pre_tokenizer.split(&mut split, &deadline).unwrap();
                let mut by_library = PreTokenizedString::from(text);
                let library: PreTokenizerWrapper = component(&json, WHAT).unwrap();
                library.pre_tokenize(&mut by_library).unwrap();
                assert_eq!(parts(&split), parts(&by_library), "{behavior}");
                if behavior == "Isolated" {
                    assert_eq!(parts(&split), expected);
                }
            }
        }
    }
}
