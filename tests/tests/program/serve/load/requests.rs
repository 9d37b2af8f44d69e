//! What the clients send.

use std::{fmt, io::Write, net::TcpStream};

use serde_json::{Value, json};
use wisp_tests::server::Server;

use super::super::merged;

/// What a client sends, and where to.
#[derive(Clone)]
pub struct Request {
    /// The method and the path.
    pub line: &'static str,
    /// Headers beside those that every request has.
    headers: Vec<String>,
    /// The JSON, or nonsense in its place.
    pub body: Vec<u8>,
    /// Whether the server answers it with success.
    pub is_valid: bool,
    /// Whether the metrics count it: what is no HTTP is refused before.
    pub is_counted: bool,
}

impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(300)]);
        write!(formatter, "{} {:?} {body}", self.line, self.headers)
    }
}

impl Request {
    fn new(line: &'static str, body: impl Into<Vec<u8>>) -> Request {
        let body = body.into();
        Request {
            line,
            headers: Vec::new(),
            body,
            is_valid: true,
            is_counted: true,
        }
    }

    fn invalid(line: &'static str, body: impl Into<Vec<u8>>) -> Request {
        Request {
            is_valid: false,
            ..Request::new(line, body)
        }
    }

    fn with_header(mut self, header: impl Into<String>) -> Request {
        self.headers.push(header.into());
        self
    }

    /// Returns the bytes that are sent.
    pub fn bytes(&self, server: &Server) -> Vec<u8> {
        let mut head = format!(
            "{} HTTP/1.1\r\nContent-Length: {}\r\n",
            self.line,
            self.body.len()
        );
        if !self
            .headers
            .iter()
            .any(|header| header.starts_with("Host:"))
        {
            head += &format!("Host: {}\r\n", server.address);
        }
        for header in &self.headers {
            head += &format!("{header}\r\n");
        }
        [(head + "Connection: close\r\n\r\n").as_bytes(), &self.body].concat()
    }

    /// Sends it, and returns the connection.
    pub fn send(&self, server: &Server) -> TcpStream {
        let mut stream = server.connect();
        // The server may refuse it and close before it has read all.
        let _ = stream.write_all(&self.bytes(server));
        stream
    }
}

const COMPLETIONS: &str = "POST /v1/completions";
const CHATS: &str = "POST /v1/chat/completions";

/// Returns all requests.
pub fn all() -> Vec<Request> {
    let mut all = texts();
    all.extend(structured());
    all.extend(others());
    all.extend(invalid());
    all
}

/// Returns streamed completions with all kinds of sampling.
fn texts() -> Vec<Request> {
    let prefix = "The cat and the dog went to the park. ".repeat(12);
    let prompts = [
        "Once upon a time",
        "The dog",
        "Lily was",
        &prefix,
        &format!("{prefix}Then"),
        &format!("{prefix}Tom "),
    ];
    let mut all = Vec::new();
    for (seed, prompt) in prompts.iter().enumerate() {
        for (length, temperature) in [(16, 0.0), (40, 1.0)] {
            let sampling =
                json!({ "temperature": temperature, "seed": seed, "max_tokens": length });
            all.push(merged(
                json!({ "prompt": prompt, "logprobs": 1 }),
                &sampling,
            ));
        }
    }
    let sampled = json!({ "prompt": "One day", "temperature": 1.2, "seed": 7, "max_tokens": 30 });
    for more in [
        json!({ "n": 3 }),
        json!({ "prompt": ["One day", "A bird"], "n": 2 }),
        json!({ "stop": [".", " was"] }),
        json!({ "top_k": 12, "top_p": 0.8, "min_p": 0.02 }),
        json!({ "presence_penalty": 1, "frequency_penalty": 0.5, "repetition_penalty": 1.2 }),
        json!({ "logit_bias": { "300": 4, "301": -100 } }),
        json!({ "echo": true, "logprobs": 2 }),
        json!({ "max_tokens": 150, "ignore_eos": true }),
        json!({ "model": "poet" }),
        json!({ "model": "poet", "seed": 8, "temperature": 0 }),
    ] {
        all.push(merged(sampled.clone(), &more));
    }
    let streamed = |body: Value| {
        let fixed =
            json!({ "model": "tiny", "stream": true, "stream_options": { "include_usage": true } });
        Request::new(COMPLETIONS, merged(fixed, &body).to_string())
    };
    all.into_iter().map(streamed).collect()
}

/// Returns streamed chats, some of which are held to a schema or call a tool.
fn structured() -> Vec<Request> {
    let city = json!({ "enum": ["Oslo", "Rome"] });
    let schema = json!({ "type": "object", "properties": { "city": city, "sure": { "type": "boolean" } },
        "required": ["city", "sure"], "additionalProperties": false });
    let tool =
        json!({ "type": "function", "function": { "name": "weather", "parameters": schema } });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema, "strict": true } });
    let bodies = [
        json!({}),
        json!({ "temperature": 1, "seed": 3 }),
        json!({ "temperature": 1, "seed": 4, "logprobs": true, "top_logprobs": 1 }),
        json!({ "response_format": format }),
        json!({ "response_format": format, "temperature": 1, "seed": 5 }),
        json!({ "tools": [tool], "tool_choice": "required", "max_completion_tokens": 80 }),
        json!({ "tools": [tool], "tool_choice": "auto" }),
        json!({ "guided_regex": "[a-z]{4,12}[0-9]{3}" }),
        json!({ "guided_choice": ["yes", "no", "it depends"], "temperature": 1, "seed": 6 }),
    ];
    let chat = |body: &Value| {
        let messages = json!([{ "role": "user", "content": "Tell me a story." }]);
        let fixed = json!({ "model": "tiny", "messages": messages, "temperature": 0, "max_completion_tokens": 24, "stream": true });
        Request::new(CHATS, merged(fixed, body).to_string())
    };
    bodies.iter().map(chat).collect()
}

/// Returns requests of the other endpoints.
fn others() -> Vec<Request> {
    let messages = json!([{ "role": "user", "content": "Tell me a story." }]);
    let response = json!({ "model": "tiny", "input": "Tell me a story.", "temperature": 0, "max_output_tokens": 24, "stream": true });
    let message = json!({ "model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 24, "stream": true });
    let whole = json!({ "model": "tiny", "prompt": "The cat", "n": 2, "seed": 5, "temperature": 1, "max_tokens": 20 });
    let embeddings = json!({ "model": "bert", "input": ["the cat", "the kitten sleeps ."], "encoding_format": "float" });
    vec![
        Request::new("POST /v1/responses", response.to_string()),
        Request::new("POST /v1/messages", message.to_string()),
        Request::new(COMPLETIONS, whole.to_string()),
        Request::new("POST /v1/embeddings", embeddings.to_string()),
        Request::new(
            "POST /tokenize",
            json!({ "model": "tiny", "prompt": "a story" }).to_string(),
        ),
    ]
}

/// Returns what clients get wrong.
fn invalid() -> Vec<Request> {
    let mut all = Vec::new();
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{\"prompt\": \"a\"}{",
        "\u{0}",
        "{\"prompt\": \"\\ud800\"}",
    ] {
        all.push(Request::invalid(COMPLETIONS, body));
    }
    all.push(Request::invalid(COMPLETIONS, [0xff, 0xfe]));
    all.push(Request::invalid(COMPLETIONS, "[".repeat(5000)));
    all.push(Request::invalid(COMPLETIONS, " ".repeat(60_000)));
    for more in [
        json!({ "model": "gpt-5" }),
        json!({ "prompt": null }),
        json!({ "prompt": { "a": 1 } }),
        json!({ "prompt": [1, -1] }),
        json!({ "prompt": "a story ".repeat(2000) }),
        json!({ "max_tokens": "many" }),
        json!({ "temperature": -1 }),
        json!({ "n": 1_000_000 }),
        json!({ "logit_bias": { "x": 1 } }),
        json!({ "stop": ["", "a"] }),
        json!({ "seed": 1.5 }),
        json!({ "guided_regex": "(" }),
        json!({ "guided_regex": "(a{1000}){1000}" }),
        json!({ "guided_json": { "type": "array", "uniqueItems": true } }),
        json!({ "guided_json": { "$ref": "#/$defs/none" } }),
        json!({ "guided_grammar": "start: (" }),
    ] {
        let body = merged(
            json!({ "model": "tiny", "prompt": "a", "max_tokens": 2 }),
            &more,
        );
        all.push(Request::invalid(COMPLETIONS, body.to_string()));
    }
    let chat = json!({ "model": "tiny", "messages": [{ "role": "nobody", "content": "a" }] });
    all.push(Request::invalid(CHATS, chat.to_string()));
    all.push(Request::invalid(
        "POST /v1/messages",
        json!({ "model": "tiny", "messages": [] }).to_string(),
    ));
    all.push(Request::invalid(
        "POST /v1/embeddings",
        json!({ "model": "bert", "input": "the cat ".repeat(500) }).to_string(),
    ));
    all.push(Request::invalid("GET /v1/completions", ""));
    all.push(Request::invalid("POST /v1/nothing", "{}"));
    all.push(Request::invalid("POST /v1/completions", "{}").with_header("Host: evil.example.org"));
    all.push(
        Request::invalid("GET /v1/models", "").with_header("Origin: https://evil.example.org"),
    );
    for line in ["nonsense", "PRI * HTTP/2.0\r\n\r\nSM"] {
        all.push(Request {
            is_counted: false,
            ..Request::invalid(line, "")
        });
    }
    let header = format!("X-Long: {}", "x".repeat(100_000));
    all.push(Request {
        is_counted: false,
        ..Request::invalid(COMPLETIONS, "{}").with_header(header)
    });
    all
}
