//! Prompts and texts to embed: a text, tokens, or a list of either.

use wisp_engine::{Error, Model};

use super::{
    error::ApiError,
    fields::{Fields, parse},
};

/// The most prompts of a request.
const MAX_PROMPTS: usize = 2048;

/// A prompt, or a text to embed.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// Text, which the tokenizer encodes.
    Text(String),
    /// Tokens, which are used unchanged.
    Tokens(Vec<u32>),
}

impl Prompt {
    /// Reads a field of prompts.
    ///
    /// # Errors
    ///
    /// If it is absent, has another type, or has no prompts or too many.
    pub fn all_of(fields: &Fields, name: &str) -> Result<Vec<Prompt>, ApiError> {
        let json = fields.raw(name).ok_or_else(|| ApiError::missing(name))?;
        let mut first = json.chars().filter(|c| !c.is_ascii_whitespace());
        let prompts = match (first.next(), first.next()) {
            (Some('['), Some('"')) => {
                let texts: Vec<String> = parse(name, json)?;
                texts.into_iter().map(Prompt::Text).collect()
            }
            (Some('['), Some('[')) => {
                let lists: Vec<Vec<u32>> = parse(name, json)?;
                lists.into_iter().map(Prompt::Tokens).collect()
            }
            (Some('['), Some(']')) => Vec::new(),
            (Some('['), _) => vec![Prompt::Tokens(parse(name, json)?)],
            _ => vec![Prompt::Text(parse(name, json)?)],
        };
        let refuse = |problem: String| Err(ApiError::parameter(name, problem));
        match prompts.len() {
            0 => refuse(format!("{name} is empty")),
            count if count > MAX_PROMPTS => refuse(format!(
                "{name} has {count} entries, but at most {MAX_PROMPTS} are allowed"
            )),
            _ => Ok(prompts),
        }
    }

    /// Returns the prompt's tokens for a model that generates; those of a text have the special tokens at its beginning
    /// if `add_special` is true.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer, or no token for a part of the text.
    pub fn tokens(&self, model: &Model, add_special: bool) -> Result<Vec<u32>, Error> {
        match self {
            Prompt::Text(text) => Ok(model.text().tokenizer()?.encode(text, add_special, true)?),
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
        }
    }

    /// Returns the prompt's text, with control tokens if it is tokens; empty if the model has no tokenizer then.
    pub fn text(&self, model: &Model) -> String {
        match self {
            Prompt::Text(text) => text.clone(),
            Prompt::Tokens(tokens) => {
                let tokenizer = model.text().tokenizer();
                tokenizer.map_or_else(|_| String::new(), |it| it.decode(tokens, false))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_every_form_are_read() {
        let text = |text: &str| Prompt::Text(text.into());
        for (json, expected) in [
            (r#""a""#, vec![text("a")]),
            (r#"[ "a", "b"]"#, vec![text("a"), text("b")]),
            ("[1, 2]", vec![Prompt::Tokens(vec![1, 2])]),
            (
                "[[1], [2]]",
                vec![Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2])],
            ),
        ] {
            let fields = Fields::parse(format!("{{\"prompt\": {json}}}").as_bytes()).unwrap();
            assert_eq!(Prompt::all_of(&fields, "prompt").unwrap(), expected);
        }
        for json in [
            "[]",
            "null",
            "5",
            "[\"a\", 1]",
            "[1, -1]",
            "[[1], \"a\"]",
            "{}",
            "[1.5]",
        ] {
            let fields = Fields::parse(format!("{{\"prompt\": {json}}}").as_bytes()).unwrap();
            assert!(Prompt::all_of(&fields, "prompt").is_err(), "{json}");
        }
    }
}
