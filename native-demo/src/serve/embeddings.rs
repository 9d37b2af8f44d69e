//! `POST /v1/embeddings`.

use std::sync::Arc;

use axum::{body::Body, extract::State, http::StatusCode, response::Response};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use wisp_engine::{Embedder, Error};

use super::{
    blocking::run_blocking,
    client::Caller,
    error::{ApiError, json_response},
    fields::Fields,
    models::ServedModel,
    prompts::Prompt,
    state::Server,
};

/// Answers with an embedding of each text.
///
/// # Errors
///
/// If the request is invalid, the model makes no embeddings, or the queue is full.
pub async fn answer(
    State(server): State<Arc<Server>>,
    caller: Caller,
    body: Body,
) -> Result<Response, ApiError> {
    let models = server.models()?;
    let fields = Fields::read(body, server.options.max_body_bytes).await?;
    let served = models.find(fields.get::<String>("model")?.as_deref())?;
    if !served.model.info().is_encoder {
        let model = served.id.clone();
        return Err(ApiError::from(Error::NotAnEncoder { model }).about("model"));
    }
    let inputs = Prompt::all_of(&fields, "input")?;
    let encoding = encoding(&fields)?;
    let dimensions: Option<usize> = fields.get("dimensions")?;
    // A request is one text here: the encoder runs its texts as one batch.
    let _slots = served.admission.enter(caller.client, 1, 1)?;
    let (vectors, tokens) = embed(&served, inputs).await?;
    let width = vectors.first().map_or(0, Vec::len);
    if dimensions.is_some_and(|wanted| wanted != width) {
        let problem =
            format!("the model's embeddings have {width} dimensions, and cannot have others");
        return Err(ApiError::parameter("dimensions", problem));
    }
    server.metrics.count_prompt(&served, tokens);
    caller.facts.set_prompt(&served.id, tokens);
    let embeddings = vectors.iter().enumerate().map(|(index, vector)| {
        json!({ "object": "embedding", "index": index, "embedding": encoding(vector) })
    });
    let answer = json!({
        "object": "list",
        "data": embeddings.collect::<Vec<Value>>(),
        "model": served.id,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    });
    Ok(json_response(StatusCode::OK, &answer))
}

/// Returns the function that writes a vector as the client wants it.
fn encoding(fields: &Fields) -> Result<fn(&Vec<f32>) -> Value, ApiError> {
    let wanted: Option<String> = fields.get("encoding_format")?;
    match wanted.as_deref() {
        None | Some("float") => Ok(|vector| json!(vector)),
        Some("base64") => Ok(|vector| {
            let bytes: Vec<u8> = vector
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            BASE64_STANDARD.encode(bytes).into()
        }),
        Some(_) => {
            let problem = "encoding_format must be float or base64";
            Err(ApiError::parameter("encoding_format", problem))
        }
    }
}

/// Returns the embeddings of texts or of tokens, and the number of their tokens.
async fn embed(
    served: &ServedModel,
    inputs: Vec<Prompt>,
) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
    let failed = |error: Error| served.failed(error).about("input");
    let embedder = served.model.embedder();
    let tokenizer = embedder.clone();
    let lists = run_blocking(move || Ok(tokens(&tokenizer, inputs))).await?;
    let lists = lists.map_err(failed)?;
    let count = lists.iter().map(Vec::len).sum();
    let vectors = embedder.embed_tokens_async(lists).await.map_err(failed)?;
    Ok((vectors, count))
}

/// Returns the tokens of each input. All are of one kind.
fn tokens(embedder: &Embedder, inputs: Vec<Prompt>) -> Result<Vec<Vec<u32>>, Error> {
    let (mut texts, mut lists) = (Vec::new(), Vec::new());
    for input in inputs {
        match input {
            Prompt::Text(text) => texts.push(text),
            Prompt::Tokens(tokens) => lists.push(tokens),
        }
    }
    let tokenized = embedder.tokenize(&texts)?;
    lists.extend(tokenized.into_iter().map(|text| text.tokens));
    Ok(lists)
}
