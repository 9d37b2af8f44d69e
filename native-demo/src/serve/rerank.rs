//! `POST /v1/rerank` and `/v1/score`: the relevance of documents to a query, from a cross-encoder.

use std::sync::Arc;

use axum::{body::Body, extract::State, http::StatusCode, response::Response};
use serde::Deserialize;
use serde_json::{Value, json};
use wisp_engine::{
    Error, Relevance,
    pipelines::{ClientId, EncodeError, PipelineError},
};

use super::{
    blocking::run_blocking,
    client::Caller,
    error::{ApiError, json_response},
    fields::Fields,
    models::ServedModel,
    state::{Server, now},
};

/// The most pairs of a request.
const MAX_PAIRS: usize = 2048;

/// The longest text in bytes that is paired with several others.
const MAX_QUERY_BYTES: usize = 32 << 10;

/// Two texts, of which one may be part of other pairs too.
type Pair = (Arc<str>, Arc<str>);

/// A document as clients send it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Document {
    Text(String),
    Object { text: String },
}

impl Document {
    fn text(self) -> String {
        match self {
            Document::Text(text) | Document::Object { text } => text,
        }
    }
}

/// One text, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Answers with the documents of a request, the most relevant to its query first, in the format of Cohere, Jina and
/// vLLM.
///
/// # Errors
///
/// If the request is invalid, the model is no cross-encoder, or the queue is full.
pub async fn rerank(
    State(server): State<Arc<Server>>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let (fields, served) = server.read(body, &[]).await?;
    let query = shared_text("query", fields.require("query")?)?;
    let documents: Vec<Document> = fields.require("documents")?;
    let documents = documents.into_iter().map(Document::text).collect();
    let documents = checked("documents", documents)?;
    // Other servers write 0 for all.
    let top_n = match fields.get_or::<usize>("top_n", 0)? {
        0 => usize::MAX,
        top_n => top_n,
    };
    let return_documents = fields.get_or("return_documents", true)?;
    let pairs = documents
        .iter()
        .map(|document| (query.clone(), document.clone()));
    let mut ranking = relevances(&served, caller.client, pairs.collect(), "documents").await?;
    let tokens = ranking.iter().map(|relevance| relevance.tokens).sum();
    server.metrics.count_prompt(&served, tokens);
    caller.facts.set_prompt(&served.id, tokens);
    Relevance::sort(&mut ranking);
    ranking.truncate(top_n);
    let result = |relevance: &Relevance| {
        let mut result = json!({
            "index": relevance.index, "relevance_score": relevance.score,
        });
        if return_documents {
            result["document"] = json!({ "text": *documents[relevance.index] });
        }
        result
    };
    let answer = json!({
        "id": format!("rerank-{}", caller.id),
        "model": served.id,
        "results": ranking.iter().map(result).collect::<Vec<Value>>(),
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    });
    Ok(json_response(StatusCode::OK, &answer))
}

/// Answers with the relevance of texts to others, in the format of vLLM: of one to one, of several to one, or of each
/// of a list to its partner in another.
///
/// # Errors
///
/// If the request is invalid, the model is no cross-encoder, or the queue is full.
pub async fn score(
    State(server): State<Arc<Server>>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let (fields, served) = server.read(body, &[]).await?;
    let pairs = pairs(&fields)?;
    let scored = relevances(&served, caller.client, pairs, "text_2").await?;
    let tokens = scored.iter().map(|relevance| relevance.tokens).sum();
    server.metrics.count_prompt(&served, tokens);
    caller.facts.set_prompt(&served.id, tokens);
    let scores = scored.iter().map(|relevance| {
        json!({ "index": relevance.index, "object": "score", "score": relevance.score })
    });
    let answer = json!({
        "id": format!("score-{}", caller.id),
        "object": "list",
        "created": now(),
        "model": served.id,
        "data": scores.collect::<Vec<Value>>(),
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    });
    Ok(json_response(StatusCode::OK, &answer))
}

/// Returns a text that is paired with several others: it must not be empty, nor very long.
fn shared_text(name: &str, text: String) -> Result<Arc<str>, ApiError> {
    let problem = match text.len() {
        _ if text.trim().is_empty() => format!("{name} is empty"),
        len if len > MAX_QUERY_BYTES => {
            format!("{name} has {len} bytes, but at most {MAX_QUERY_BYTES} are allowed")
        }
        _ => return Ok(text.into()),
    };
    Err(ApiError::parameter(name, problem))
}

/// Checks the number of texts, and that none is empty.
fn checked(name: &str, texts: Vec<String>) -> Result<Vec<Arc<str>>, ApiError> {
    if texts.is_empty() {
        return Err(ApiError::parameter(name, format!("{name} is empty")));
    }
    if texts.len() > MAX_PAIRS {
        let message = format!(
            "{name} has {} entries, but at most {MAX_PAIRS} are allowed",
            texts.len()
        );
        return Err(ApiError::parameter(name, message));
    }
    match texts.iter().position(|text| text.trim().is_empty()) {
        Some(at) => {
            let param = format!("{name}[{at}]");
            let message = format!("{param} is empty");
            Err(ApiError::parameter(param, message))
        }
        None => Ok(texts.into_iter().map(Arc::from).collect()),
    }
}

/// Reads a field with one text or several.
fn texts(fields: &Fields, name: &str) -> Result<Vec<String>, ApiError> {
    Ok(match fields.require(name)? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    })
}

/// Returns the pairs that `text_1` and `text_2` mean.
fn pairs(fields: &Fields) -> Result<Vec<Pair>, ApiError> {
    let mut first = texts(fields, "text_1")?;
    let second = checked("text_2", texts(fields, "text_2")?)?;
    let first = match first.len() {
        1 => vec![shared_text("text_1", first.remove(0))?; second.len()],
        _ => checked("text_1", first)?,
    };
    if first.len() != second.len() {
        let (one, other) = (first.len(), second.len());
        let message =
            format!("text_1 has {one} entries and text_2 has {other}: give one, or as many");
        return Err(ApiError::parameter("text_1", message));
    }
    Ok(first.into_iter().zip(second).collect())
}

/// Scores pairs. Those that are too long for the model are cut.
///
/// # Errors
///
/// If the model does not score pairs, the queue is full, or the model fails; `param` names the field of the texts.
async fn relevances(
    served: &ServedModel,
    client: ClientId,
    pairs: Vec<Pair>,
    param: &str,
) -> Result<Vec<Relevance>, ApiError> {
    let _slots = served.admission.enter(client, 1, 1)?;
    let reranker = served.model.reranker().truncate(true);
    let tokenizer = reranker.clone();
    let tokens = run_blocking(move || Ok(tokenizer.tokenize(&pairs))).await?;
    let scored = match tokens {
        Ok(tokens) => reranker.score_tokens_async(tokens).await,
        Err(error) => Err(error),
    };
    scored.map_err(|error| failed(served, error, param))
}

/// Returns the answer to an error; `param` names the field of the texts.
fn failed(served: &ServedModel, error: Error, param: &str) -> ApiError {
    let is_wrong_model = matches!(
        error.pipeline_error(),
        Some(PipelineError::Encode(EncodeError::NotAReranker { .. }))
    );
    match error {
        Error::NotAnEncoder { .. } => {
            let message = format!(
                "{} continues texts, but scores no pairs of texts: that takes a cross-encoder such as \
                 BAAI/bge-reranker-v2-m3",
                served.id
            );
            ApiError::parameter("model", message)
        }
        error if is_wrong_model => served.failed(error).about("model"),
        error => served.failed(error).about(param),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Result<Vec<Pair>, ApiError> {
        pairs(&Fields::parse(body.as_bytes()).unwrap())
    }

    #[test]
    fn texts_are_paired_one_to_one_one_to_many_and_each_to_its_partner() {
        for (body, expected) in [
            (r#"{"text_1": "a", "text_2": "b"}"#, &[("a", "b")][..]),
            (
                r#"{"text_1": "a", "text_2": ["b", "c"]}"#,
                &[("a", "b"), ("a", "c")],
            ),
            (
                r#"{"text_1": ["a"], "text_2": ["b", "c"]}"#,
                &[("a", "b"), ("a", "c")],
            ),
            (
                r#"{"text_1": ["a", "d"], "text_2": ["b", "c"]}"#,
                &[("a", "b"), ("d", "c")],
            ),
        ] {
            let found = of(body).unwrap();
            let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
            assert_eq!(found, expected, "{body}");
        }
        for (body, param) in [
            (r#"{"text_1": ["a", "d"], "text_2": "b"}"#, "text_1"),
            (
                r#"{"text_1": ["a", "d"], "text_2": ["b", "c", "e"]}"#,
                "text_1",
            ),
            (r#"{"text_1": "a"}"#, "text_2"),
            (r#"{"text_1": "a", "text_2": []}"#, "text_2"),
            (r#"{"text_1": "a", "text_2": ["b", " "]}"#, "text_2[1]"),
            (r#"{"text_1": 5, "text_2": "b"}"#, "text_1"),
        ] {
            let error = of(body).unwrap_err().body();
            assert_eq!(error["error"]["param"], param, "{body}: {error}");
        }
    }
}
