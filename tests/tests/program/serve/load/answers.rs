//! What matters of an answer: the texts, not how they are cut into events, nor ids and times.

use std::collections::BTreeMap;

use serde_json::Value;
use wisp_tests::server::Response;

use super::requests::Request;

/// The fields that hold parts of texts, in all interfaces.
const TEXTS: [&str; 12] = [
    "text",
    "content",
    "reasoning_content",
    "delta",
    "arguments",
    "partial_json",
    "name",
    "token",
    "tokens",
    "finish_reason",
    "stop_reason",
    "message",
];

/// Embeddings depend on the batch in their last bits.
const TOLERANCE: f64 = 1e-4;

/// The content of an answer.
#[derive(Debug, Default, PartialEq)]
pub struct Content {
    /// Whether a stream came to its end; an answer in one piece always did.
    pub is_complete: bool,
    /// The texts by the number of the choice or block, and the name of the field.
    texts: BTreeMap<(u64, &'static str), String>,
    numbers: Vec<f64>,
}

/// Returns the content of an answer.
pub fn content_of(response: &Response) -> Content {
    let mut content = Content::default();
    if response.header("content-type") != Some("text/event-stream") {
        content.is_complete = true;
        // What is no HTTP is refused without a body.
        let body = serde_json::from_str(&response.body).unwrap_or_default();
        content.read(&body, 0);
        return content;
    }
    let data = response
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    for data in data {
        content.is_complete = data == "[DONE]";
        if content.is_complete {
            continue;
        }
        let event: Value =
            serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
        content.is_complete = matches!(
            event["type"].as_str(),
            Some("message_stop" | "response.completed" | "response.incomplete")
        );
        content.read(&event, 0);
    }
    content
}

impl Content {
    fn read(&mut self, value: &Value, outer: u64) {
        let Value::Object(fields) = value else {
            if let Value::Array(elements) = value {
                elements
                    .iter()
                    .for_each(|element| self.read(element, outer));
            }
            return;
        };
        let number = ["index", "output_index"]
            .iter()
            .find_map(|name| fields.get(*name)?.as_u64());
        let number = number.unwrap_or(outer);
        for (name, field) in fields {
            if let Some(name) = TEXTS.iter().find(|text| *text == name) {
                let texts = field.as_array().into_iter().flatten().chain([field]);
                let mut text: String = texts.filter_map(Value::as_str).collect();
                // Some messages begin with the number of a request.
                if *name == "message" && text.starts_with("request ") {
                    text.retain(|character| !character.is_ascii_digit());
                }
                *self.texts.entry((number, name)).or_default() += &text;
            }
            match name.as_str() {
                "embedding" => self.numbers.extend(
                    field
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_f64),
                ),
                _ => self.read(field, number),
            }
        }
    }

    /// Checks that an answer has the content of another one.
    #[track_caller]
    pub fn assert_same(&self, expected: &Content, request: &Request) {
        assert!(self.is_complete, "a stream was lost: {request:?}: {self:?}");
        assert_eq!(self.texts, expected.texts, "{request:?}");
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < TOLERANCE;
        let same = self.numbers.len() == expected.numbers.len()
            && self.numbers.iter().zip(&expected.numbers).all(near);
        assert!(same, "{request:?}: {self:?}, not {expected:?}");
    }
}
