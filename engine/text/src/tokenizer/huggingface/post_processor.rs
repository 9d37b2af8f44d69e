//! The post-processor of a `tokenizer.json`, which puts special tokens around a text.

use serde_json::Value;

use super::json::{component, components, invalid};
use crate::tokenizer::error::TokenizerError;

const WHAT: &str = "post_processor";

/// The most tokens that are put around a text.
const MAX_TOKENS: usize = 64;

/// The tokens before and after a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PostProcessor {
    pub before: Vec<u32>,
    pub after: Vec<u32>,
}

impl PostProcessor {
    /// Reads the `post_processor` of a `tokenizer.json`, which may be null.
    pub fn parse(json: &Value) -> Result<Self, TokenizerError> {
        let mut all = Self::default();
        for json in components(json, WHAT, "processors")? {
            let mut outer = match json["type"].as_str() {
                // It changes only the places of tokens in the text.
                Some("ByteLevel") => continue,
                Some("TemplateProcessing") => template(json)?,
                // The oldest files have no type.
                Some("BertProcessing" | "RobertaProcessing") | None => Self {
                    before: vec![named_id(json, "cls")?],
                    after: vec![named_id(json, "sep")?],
                },
                Some(other) => return Err(invalid(WHAT, "a known type", other)),
            };
            outer.before.append(&mut all.before);
            all.after.append(&mut outer.after);
            all.before = outer.before;
            if all.before.len() + all.after.len() > MAX_TOKENS {
                let expected = format!("at most {MAX_TOKENS} tokens around a text");
                return Err(invalid(WHAT, &expected, "more"));
            }
        }
        Ok(all)
    }
}

/// Reads `["[CLS]", 101]`.
fn named_id(json: &Value, key: &str) -> Result<u32, TokenizerError> {
    let (_, id): (String, u32) = component(&json[key], WHAT)?;
    Ok(id)
}

fn template(json: &Value) -> Result<PostProcessor, TokenizerError> {
    let wrong = |expected: &str| {
        invalid(
            "post_processor TemplateProcessing",
            expected,
            &json["single"],
        )
    };
    let pieces = json["single"].as_array();
    let pieces = pieces.filter(|pieces| pieces.len() <= MAX_TOKENS);
    let pieces = pieces.ok_or_else(|| wrong("a list `single`"))?;
    let mut processor = PostProcessor::default();
    let mut has_text = false;
    for piece in pieces {
        let ids = match (
            piece["Sequence"]["id"].as_str(),
            piece["SpecialToken"]["id"].as_str(),
        ) {
            (Some("A"), _) if !has_text => {
                has_text = true;
                continue;
            }
            (None, Some(name)) => &json["special_tokens"][name]["ids"],
            _ => return Err(wrong("special tokens around one text A")),
        };
        let ids: Vec<u32> = component(ids, WHAT)?;
        if has_text {
            processor.after.extend(ids);
        } else {
            processor.before.extend(ids);
        }
    }
    match has_text {
        true => Ok(processor),
        false => Err(wrong("special tokens around one text A")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sequence_puts_later_tokens_outside() {
        let template = json!({"type": "TemplateProcessing", "special_tokens": {"<s>": {"ids": [1, 2]}},
            "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]});
        let bert = json!({"type": "BertProcessing", "cls": ["[CLS]", 7], "sep": ["[SEP]", 8]});
        let sequence = json!({"type": "Sequence", "processors": [template, bert]});
        let processor = PostProcessor::parse(&sequence).unwrap();
        assert_eq!(
            (processor.before, processor.after),
            (vec![7, 1, 2], vec![8])
        );
    }

    #[test]
    fn template_without_its_text_or_tokens_is_refused() {
        let text = json!({"Sequence": {"id": "A"}});
        for single in [
            json!([]),
            json!([text, text]),
            json!([{"Sequence": {"id": "B"}}]),
            json!([text, {"SpecialToken": {"id": "missing"}}]),
        ] {
            let template =
                json!({"type": "TemplateProcessing", "single": single, "special_tokens": {}});
            assert!(PostProcessor::parse(&template).is_err(), "{template}");
        }
    }
}
