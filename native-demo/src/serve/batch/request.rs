//! A request of a batch, and the line that answers it.

use std::collections::HashSet;

use serde_json::{Value, json, value::RawValue};

use super::{
    super::{error::ApiError, fields::Fields},
    input::Line,
    output::{Earlier, ID, Outcome},
};

/// The endpoints that a batch may call.
const URLS: &[&str] = &[
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/score",
];

/// The longest `custom_id` in bytes.
const MAX_ID: usize = 512;

/// A request of a batch.
#[derive(Debug)]
pub struct Request {
    /// The number of its line.
    pub line: u64,
    /// The client's name of it.
    pub custom_id: String,
    /// The endpoint.
    pub url: String,
    /// The body as it is in the line.
    pub body: Box<RawValue>,
}

/// What becomes of a line of the input.
#[derive(Debug)]
pub enum Task {
    /// It has a line of an earlier run.
    Done(Outcome),
    /// It is no request: the line that says so.
    Bad(String),
    /// It is to be answered.
    Answer(Request),
}

/// Reads the requests of a batch, each once.
#[derive(Debug, Default)]
pub struct Reader {
    /// The ids of the lines so far.
    ids: HashSet<String>,
}

impl Reader {
    /// Returns what is to be done for a line. A line whose id another line had before is bad, under its number.
    pub fn task(&mut self, line: &Line, earlier: &Earlier) -> Task {
        let fields = match &line.bytes {
            Some(bytes) => Fields::parse_named("the line", bytes),
            None => Err(ApiError::invalid("the line is too long")),
        };
        let id = fields.and_then(|fields| Ok((self.id(&fields)?, fields)));
        let (id, fields) = match (id, earlier.of_line(line.number)) {
            (Ok(found), _) => found,
            (Err(_), Some(outcome)) => return Task::Done(outcome),
            (Err(error), None) => return Task::Bad(refused(line.number, None, &error)),
        };
        if let Some(outcome) = earlier.of_id(&id) {
            return Task::Done(outcome);
        }
        match request(line.number, &id, &fields) {
            Ok(request) => Task::Answer(request),
            Err(error) => Task::Bad(refused(line.number, Some(&id), &error)),
        }
    }

    /// Returns the id of a line.
    fn id(&mut self, fields: &Fields) -> Result<String, ApiError> {
        let id: String = fields.require("custom_id")?;
        let problem = match id.len() {
            0 => "custom_id is empty".into(),
            len if len > MAX_ID => {
                format!("custom_id has {len} bytes, but at most {MAX_ID} are allowed")
            }
            _ if !self.ids.insert(id.clone()) => {
                format!("an earlier line has the custom_id {id:?} too")
            }
            _ => return Ok(id),
        };
        Err(ApiError::parameter("custom_id", problem))
    }
}

fn request(line: u64, id: &str, fields: &Fields) -> Result<Request, ApiError> {
    let method: String = fields.require("method")?;
    if method != "POST" {
        return Err(ApiError::parameter("method", "method must be POST"));
    }
    let url: String = fields.require("url")?;
    if !URLS.contains(&url.as_str()) {
        let message = format!("url must be one of {}", URLS.join(", "));
        return Err(ApiError::parameter("url", message));
    }
    let body: Box<RawValue> = fields.require("body")?;
    let inner = Fields::parse(body.get().as_bytes());
    let inner = inner.map_err(|error| error.with_param("body"))?;
    if inner.raw("stream") == Some("true") {
        let message = "the requests of a batch are not streamed";
        return Err(ApiError::parameter("body.stream", message));
    }
    Ok(Request {
        line,
        custom_id: id.into(),
        url,
        body,
    })
}

/// Returns the line of a request that was answered, whatever the status.
pub fn answered(request: &Request, status: u16, request_id: &str, body: &RawValue) -> String {
    let [id, custom_id, request_id] = [
        json!(id(request.line)),
        json!(request.custom_id),
        json!(request_id),
    ];
    format!(
        "{{\"id\":{id},\"custom_id\":{custom_id},\"response\":{{\"status_code\":{status},\
         \"request_id\":{request_id},\"body\":{body}}},\"error\":null}}\n"
    )
}

/// Returns the line of a line that is no request.
fn refused(line: u64, custom_id: Option<&str>, error: &ApiError) -> String {
    let error = &error.body()["error"];
    let message = error["message"].as_str().unwrap_or_default();
    let answer = json!({
        "id": id(line),
        "custom_id": custom_id,
        "response": Value::Null,
        "error": {
            "code": "invalid_line",
            "message": format!("line {line}: {message}"),
            "param": error["param"],
        },
    });
    format!("{answer}\n")
}

/// Returns the id of the answer to a line.
fn id(line: u64) -> String {
    format!("{ID}{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, text: &str) -> Line {
        let bytes = Some(text.as_bytes().to_vec());
        Line { number, bytes }
    }

    #[test]
    fn lines_that_are_no_requests_are_named() {
        let url = "/v1/completions";
        let good = |id: &str| json!({ "custom_id": id, "method": "POST", "url": url, "body": {} });
        let with = |name: &str, value: Value| {
            let mut line = good("a");
            line[name] = value;
            line.to_string()
        };
        for (text, id, param) in [
            ("{".to_string(), Value::Null, Value::Null),
            ("[]".into(), Value::Null, Value::Null),
            (with("custom_id", json!(5)), Value::Null, json!("custom_id")),
            (
                with("custom_id", json!("")),
                Value::Null,
                json!("custom_id"),
            ),
            (with("method", json!("GET")), json!("a"), json!("method")),
            (with("url", json!("/v1/models")), json!("a"), json!("url")),
            (with("url", json!("/metrics")), json!("a"), json!("url")),
            (with("body", Value::Null), json!("a"), json!("body")),
            (with("body", json!([])), json!("a"), json!("body")),
            (
                with("body", json!({ "stream": true })),
                json!("a"),
                json!("body.stream"),
            ),
        ] {
            match Reader::default().task(&line(7, &text), &Earlier::default()) {
                Task::Bad(answer) => {
                    let answer: Value = serde_json::from_str(&answer).unwrap();
                    assert_eq!(answer["id"], "batch_req_7");
                    assert_eq!(answer["custom_id"], id, "{text}");
                    assert_eq!(answer["error"]["param"], param, "{text}: {answer}");
                    let message = answer["error"]["message"].as_str().unwrap();
                    let is_broken = ["{", "[]"].contains(&text.as_str());
                    assert_eq!(
                        message.contains("the line is no JSON object"),
                        is_broken,
                        "{message}"
                    );
                }
                task => panic!("{text}: {task:?}"),
            }
        }
        let too_long = Line {
            number: 1,
            bytes: None,
        };
        let task = Reader::default().task(&too_long, &Earlier::default());
        assert!(matches!(task, Task::Bad(_)), "{task:?}");
    }

    #[test]
    fn second_line_of_an_id_is_bad_once() {
        let text = json!({ "custom_id": "a", "method": "POST", "url": URLS[0], "body": {} });
        let text = text.to_string();
        let mut reader = Reader::default();
        let mut earlier = Earlier::default();
        assert!(matches!(
            reader.task(&line(1, &text), &earlier),
            Task::Answer(_)
        ));
        let Task::Bad(answer) = reader.task(&line(2, &text), &earlier) else {
            panic!("the second line of an id is bad");
        };
        // The next run skips both.
        earlier.add(answer.trim().as_bytes()).unwrap();
        earlier
            .add(br#"{"id": "batch_req_1", "custom_id": "a"}"#)
            .unwrap();
        let mut reader = Reader::default();
        for (number, expected) in [(1, Outcome::Answered), (2, Outcome::Failed)] {
            let task = reader.task(&line(number, &text), &earlier);
            assert!(
                matches!(task, Task::Done(outcome) if outcome == expected),
                "{task:?}"
            );
        }
    }
}
