//! `POST /v1/embeddings`.

use std::sync::Arc;

use axum::{body::Body, extract::State, http::StatusCode, response::Response};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use wisp_engine::{Embedder, Error, Model};

use super::{
    blocking::run_blocking,
    client::Caller,
    error::{ApiError, json_response},
    fields::Fields,
    models::ServedModel,
    prompts::Prompt,
    state::Server,
    unsupported,
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
    let (fields, served) = server.read(body, unsupported::EMBEDDINGS).await?;
    if !served.model.info().is_encoder {
        let model = served.id.clone();
        return Err(ApiError::from(Error::NotAnEncoder { model }).about("model"));
    }
    let inputs = Prompt::all_of(&fields, "input")?;
    let encoding = encoding(&fields)?;
    let embedder = embedder(&fields, &served.model)?;
    // A request is one text here: the encoder runs its texts as one batch.
    let _slots = served.admission.enter(caller.client, 1, 1)?;
    let (vectors, tokens) = embed(&served, embedder, inputs).await?;
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

/// Returns the settings of embeddings that the client wants.
fn embedder(fields: &Fields, model: &Model) -> Result<Embedder, ApiError> {
    let mut embedder = model.embedder();
    if let Some(dimensions) = dimensions(fields, model.info().embedding_width)? {
        embedder = embedder.dimensions(dimensions);
    }
    if let Some(normalize) = fields.get("normalize")? {
        embedder = embedder.normalize(normalize);
    }
    match fields.get::<i64>("truncate_prompt_tokens")? {
        None => Ok(embedder),
        // vLLM's word for the model's own limit.
        Some(-1) => Ok(embedder.truncate(true)),
        Some(most) => {
            let param = "truncate_prompt_tokens";
            let message =
                format!("{param} is {most}, but this version only supports -1, the model's limit");
            Err(ApiError::unsupported_value(param, message))
        }
    }
}

/// Returns the number of elements to which embeddings of this width are shortened, if the client wants that.
fn dimensions(fields: &Fields, width: Option<usize>) -> Result<Option<usize>, ApiError> {
    let dimensions: Option<usize> = fields.get("dimensions")?;
    let most = width.unwrap_or(usize::MAX);
    match dimensions.filter(|wanted| !(1..=most).contains(wanted)) {
        None => Ok(dimensions),
        Some(wanted) => {
            let message = format!(
                "dimensions is {wanted}, but must be from 1 to {most}, the width of the model's embeddings"
            );
            Err(ApiError::parameter("dimensions", message))
        }
    }
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
    embedder: Embedder,
    inputs: Vec<Prompt>,
) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
    let failed = |error: Error| served.failed(error).about("input");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_those_of_the_model_or_fewer() {
        let of = |dimensions: &str| {
            let body = format!("{{\"dimensions\": {dimensions}}}");
            dimensions_of(&body).map_err(|error| error.body()["error"]["param"].clone())
        };
        assert_eq!(of("null"), Ok(None));
        assert_eq!(of("1"), Ok(Some(1)));
        assert_eq!(of("8"), Ok(Some(8)));
        for wrong in ["0", "9", "-1", "1.5"] {
            assert_eq!(of(wrong), Err("dimensions".into()), "{wrong}");
        }
    }

    fn dimensions_of(body: &str) -> Result<Option<usize>, ApiError> {
        dimensions(&Fields::parse(body.as_bytes()).unwrap(), Some(8))
    }
}
