//! The post-processor of a `tokenizer.json`, which puts special tokens around a text.

use serde_json::Value;

use super::json::{component, components, invalid};
use crate::tokenizer::{PairPart, PairTemplate, error::TokenizerError};

const WHAT: &str = "post_processor";

/// The most tokens that are put around a text.
const MAX_TOKENS: usize = 64;

/// The tokens before and after a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PostProcessor {
    pub before: Vec<u32>,
    pub after: Vec<u32>,
    /// The template of two texts, if one processor alone has one.
    pub pair: Option<PairTemplate>,
}

impl PostProcessor {
    /// Reads the `post_processor` of a `tokenizer.json`, which may be null.
    pub fn parse(json: &Value) -> Result<Self, TokenizerError> {
        let mut all = Self::default();
        let mut pairs = Vec::new();
        for json in components(json, WHAT, "processors")? {
            let mut outer = match json["type"].as_str() {
                // It changes only the places of tokens in the text.
                Some("ByteLevel") => continue,
                Some("TemplateProcessing") => template(json)?,
                // The oldest files have no type.
                Some("BertProcessing" | "RobertaProcessing") | None => {
                    let [before, after] = [named_id(json, "cls")?, named_id(json, "sep")?];
                    let pair = match json["type"].as_str() {
                        Some("RobertaProcessing") => PairTemplate::roberta,
                        _ => PairTemplate::bert,
                    };
                    Self {
                        before: vec![before],
                        after: vec![after],
                        pair: Some(pair(&[before], &[after])),
                    }
                }
                Some(other) => return Err(invalid(WHAT, "a known type", other)),
            };
            pairs.push(outer.pair.take());
            outer.before.append(&mut all.before);
            all.after.append(&mut outer.after);
            all.before = outer.before;
            if all.before.len() + all.after.len() > MAX_TOKENS {
                let expected = format!("at most {MAX_TOKENS} tokens around a text");
                return Err(invalid(WHAT, &expected, "more"));
            }
        }
        if let [pair] = pairs.as_mut_slice() {
            all.pair = pair.take();
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
    processor.pair = pair_template(json);
    match has_text {
        true => Ok(processor),
        false => Err(wrong("special tokens around one text A")),
    }
}

/// Reads the template of two texts; `None` if there is none with each text once. Only those who encode
/// pairs need it, so it is no error.
fn pair_template(json: &Value) -> Option<PairTemplate> {
    let pieces = json["pair"].as_array()?;
    let pieces = Some(pieces).filter(|pieces| pieces.len() <= MAX_TOKENS)?;
    let mut parts = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let segment = |piece: &Value| u32::try_from(piece["type_id"].as_u64().unwrap_or(0)).ok();
        let (text, special) = (&piece["Sequence"], &piece["SpecialToken"]);
        parts.push(match (text["id"].as_str(), special["id"].as_str()) {
            (Some("A"), _) => PairPart::First(segment(text)?),
            (Some("B"), _) => PairPart::Second(segment(text)?),
            (None, Some(name)) => {
                let ids: Vec<u32> = component(&json["special_tokens"][name]["ids"], WHAT).ok()?;
                Some(()).filter(|()| ids.len() <= MAX_TOKENS)?;
                PairPart::Special(ids, segment(special)?)
            }
            _ => return None,
        });
    }
    let count = |wanted: fn(&PairPart) -> bool| parts.iter().filter(|part| wanted(part)).count();
    let firsts = count(|part| matches!(part, PairPart::First(_)));
    let seconds = count(|part| matches!(part, PairPart::Second(_)));
    (firsts == 1 && seconds == 1).then_some(PairTemplate(parts))
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
    fn pairs_have_the_types_of_their_template() {
        let special = |id: &str, kind: u32| json!({"SpecialToken": {"id": id, "type_id": kind}});
        let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
        let (a, b) = (text("A", 0), text("B", 1));
        let pair = json!([
            special("<s>", 0),
            a,
            special("</s>", 0),
            b,
            special("</s>", 1)
        ]);
        let template = |pair: Value| {
            json!({"type": "TemplateProcessing", "single": [a], "pair": pair,
                "special_tokens": {"<s>": {"ids": [7]}, "</s>": {"ids": [8]}}})
        };
        let processor = PostProcessor::parse(&template(pair)).unwrap();
        assert_eq!(processor.pair, Some(PairTemplate::bert(&[7], &[8])));
        let one_text = template(json!([special("<s>", 0), a]));
        assert_eq!(PostProcessor::parse(&one_text).unwrap().pair, None);
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
