//! `wisp serve`: a live server, compared with `wisp generate` and `wisp encode`.

mod adapters;
mod anthropic;
mod chat;
mod clients;
mod completions;
mod embeddings;
mod errors;
mod fairness;
mod lifecycle;
mod load;
mod metrics;
mod rerank;
mod responses;
mod safety;
mod structured;
mod telemetry;
mod thoughts;
mod tokens;
mod tools;

use serde_json::{Value, json};
use wisp_tests::program::run;

/// A text that the built-in model continues.
const PROMPT: &str = "Once upon a time";

/// Returns what `wisp generate` makes of a prompt with these flags.
fn generated(flags: &[&str]) -> Value {
    let fixed = ["generate", "--json", "--device", "host"];
    run([&fixed[..], flags].concat()).json()
}

/// Returns an object with the fields of both.
fn merged(mut a: Value, b: &Value) -> Value {
    let fields = a.as_object_mut().expect("an object");
    fields.extend(b.as_object().expect("an object").clone());
    a
}

/// Returns a greedy completion of [`PROMPT`] with further fields.
fn completion(more: &Value) -> Value {
    let fixed = json!({ "prompt": PROMPT, "temperature": 0, "max_tokens": 24 });
    merged(fixed, more)
}

/// Returns a greedy chat with further fields.
fn chat(more: &Value) -> Value {
    let messages = json!([{ "role": "user", "content": "Tell me a story." }]);
    let fixed = json!({ "messages": messages, "temperature": 0, "max_completion_tokens": 24 });
    merged(fixed, more)
}

/// The flag with which texts run one after the other, so that [`long`] takes its time.
const ONE_AT_A_TIME: [&str; 2] = ["--max-cache-batch-size", "1"];

/// Returns a streamed completion of `texts` texts, each of which fills the context of the built-in model.
fn long(texts: usize) -> Value {
    completion(&json!({ "n": texts, "max_tokens": 512, "ignore_eos": true, "stream": true }))
}

/// Asserts that two values are equal, with numbers within 1e-4: log-probabilities depend on the batch in their last
/// bits.
#[track_caller]
fn assert_near(found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| assert_near(a, b));
        }
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.values()
                .zip(b.values())
                .for_each(|(a, b)| assert_near(a, b));
        }
        (Value::Number(a), Value::Number(b)) => {
            let numbers = a.as_f64().zip(b.as_f64());
            let (a, b) = numbers.expect("numbers");
            assert!((a - b).abs() < 1e-4, "{found} is not {expected}");
        }
        _ => assert_eq!(found, expected),
    }
}

/// Joins the texts of the chunks of one choice, and checks that its last chunk, and only that, has a finish reason.
#[track_caller]
fn joined(chunks: &[Value], index: usize, text_of: fn(&Value) -> &Value) -> (String, String) {
    let choices = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"].as_array().expect("choices"));
    let own: Vec<&Value> = choices.filter(|choice| choice["index"] == index).collect();
    let (last, others) = own.split_last().expect("chunks");
    assert!(
        others
            .iter()
            .all(|choice| choice["finish_reason"].is_null())
    );
    let texts = own
        .iter()
        .map(|choice| text_of(choice).as_str().unwrap_or_default());
    let reason = last["finish_reason"].as_str().expect("a reason");
    (texts.collect(), reason.into())
}
