//! The decoder of a `tokenizer.json`, one token at a time.
//!
//! The `tokenizers` crate decodes lists of tokens to text. A stream needs the *bytes* of each token
//! to put characters together whose bytes are spread over several tokens. Only a few kinds of
//! decoders are in use.

use serde_json::Value;

use super::json::{components, invalid};
use crate::tokenizer::byte_level;
use crate::tokenizer::byte_tokens::parse_byte_token;
use crate::tokenizer::error::TokenizerError;

/// How many times longer decoding may make a token.
const MAX_GROWTH: usize = 64;

/// The steps that turn a token's text into bytes.
#[derive(Debug, Default)]
pub struct Decoder {
    steps: Vec<Step>,
    strips_first_space: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Replaces a string everywhere.
    Replace { from: String, to: String },
    /// `<0xHH>` is a byte.
    ByteFallback,
    /// The GPT-2 byte alphabet.
    ByteLevel,
    /// A token without this prefix begins a word.
    WordPiece { prefix: String },
    /// A space precedes every token.
    Spaced,
}

impl Decoder {
    /// Reads the `decoder` of a `tokenizer.json`, which may be null.
    pub fn new(json: &Value, warnings: &mut Vec<String>) -> Result<Self, TokenizerError> {
        let mut decoder = Self::default();
        if json.is_null() {
            // Without a decoder, tokens are joined by spaces.
            decoder.steps.push(Step::Spaced);
            decoder.strips_first_space = true;
        }
        for json in components(json, "decoder", "decoders")? {
            decoder.add(json, warnings);
        }
        decoder.check_growth()?;
        Ok(decoder)
    }

    fn add(&mut self, json: &Value, warnings: &mut Vec<String>) {
        let text = |key: &str, usual: &str| {
            let text = json[key].as_str().filter(|text| !text.is_empty());
            text.unwrap_or(usual).to_owned()
        };
        match json["type"].as_str().unwrap_or_default() {
            "ByteLevel" => self.steps.push(Step::ByteLevel),
            "ByteFallback" => self.steps.push(Step::ByteFallback),
            "Fuse" => {}
            "Replace" => match (json["pattern"]["String"].as_str(), json["content"].as_str()) {
                (Some(from), Some(to)) if !from.is_empty() => {
                    let (from, to) = (from.to_owned(), to.to_owned());
                    self.steps.push(Step::Replace { from, to });
                }
                _ => warnings.push("a Replace decoder without a string is ignored".to_owned()),
            },
            "Strip" => {
                let (content, start) = (json["content"].as_str(), json["start"].as_u64());
                self.strips_first_space |= content == Some(" ") && start > Some(0);
            }
            "Metaspace" => {
                let from = text("replacement", "▁");
                let to = " ".to_owned();
                self.steps.push(Step::Replace { from, to });
                // Older files have a flag instead of the scheme.
                let never = json["prepend_scheme"].as_str() == Some("never")
                    || json["add_prefix_space"].as_bool() == Some(false);
                self.strips_first_space |= !never;
            }
            "WordPiece" => {
                let prefix = text("prefix", "##");
                self.steps.push(Step::WordPiece { prefix });
                self.strips_first_space = true;
            }
            "BPEDecoder" => {
                let from = text("suffix", "</w>");
                let to = " ".to_owned();
                self.steps.push(Step::Replace { from, to });
            }
            other => warnings.push(format!("decoder {other:.100?} is not known and ignored")),
        }
    }

    /// Checks that a token does not become far longer.
    fn check_growth(&self) -> Result<(), TokenizerError> {
        let growth = self.steps.iter().map(|step| match step {
            Step::Replace { from, to } => to.len().div_ceil(from.len()).max(1),
            _ => 1,
        });
        let growth = growth.fold(1, usize::saturating_mul);
        match growth > MAX_GROWTH {
            true => {
                let expected = format!("tokens that become at most {MAX_GROWTH} times longer");
                Err(invalid("decoder", &expected, format!("{growth} times")))
            }
            false => Ok(()),
        }
    }

    /// Appends the bytes of a token to `out`.
    pub fn decode(&self, token: String, out: &mut Vec<u8>) {
        let mut token = token;
        for step in &self.steps {
            match step {
                Step::Replace { from, to } => token = token.replace(from, to),
                Step::ByteFallback => {
                    if let Some(byte) = parse_byte_token(&token) {
                        return out.push(byte);
                    }
                }
                Step::ByteLevel => return byte_level::decode(&token, out),
                Step::WordPiece { prefix } => {
                    token = match token.strip_prefix(prefix) {
                        Some(rest) => rest.to_owned(),
                        None => format!(" {token}"),
                    };
                }
                Step::Spaced => token.insert(0, ' '),
            }
        }
        out.extend_from_slice(token.as_bytes());
    }

    /// Returns whether the first space of a text is dropped.
    pub fn strips_first_space(&self) -> bool {
        self.strips_first_space
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decode(decoder: &Value, tokens: &[&str]) -> (String, bool) {
        let mut warnings = Vec::new();
        let decoder = Decoder::new(decoder, &mut warnings).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let mut out = Vec::new();
        for token in tokens {
            decoder.decode((*token).to_owned(), &mut out);
        }
        (
            String::from_utf8(out).unwrap(),
            decoder.strips_first_space(),
        )
    }

    #[test]
    fn llama_2_tokens_decode_with_bytes_and_spaces() {
        let decoder = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]});
        let tokens = ["▁Hello", "▁", "<0xE4>", "<0xBD>", "<0xA0>"];
        assert_eq!(decode(&decoder, &tokens), (" Hello 你".to_owned(), true));
    }

    #[test]
    fn each_kind_of_decoder_restores_its_spaces() {
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": true});
        assert_eq!(decode(&bytes, &["Ġhi", "Ċ"]), (" hi\n".to_owned(), false));
        let words = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
        assert_eq!(
            decode(&words, &["un", "##able", "to"]),
            (" unable to".to_owned(), true)
        );
        let meta = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"});
        assert_eq!(decode(&meta, &["▁a", "b"]), (" ab".to_owned(), true));
        assert_eq!(decode(&Value::Null, &["a", "b"]), (" a b".to_owned(), true));
    }

    #[test]
    fn unknown_decoder_is_a_warning() {
        let mut warnings = Vec::new();
        Decoder::new(&json!({"type": "CTC"}), &mut warnings).unwrap();
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn decoder_that_makes_tokens_far_longer_is_refused() {
        let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaa"});
        let decoder = json!({"type": "Sequence", "decoders": [double, double, double, double]});
        assert!(Decoder::new(&decoder, &mut Vec::new()).is_err());
    }
}
