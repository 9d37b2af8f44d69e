//! The endpoints about the server: `/health`, `/version`, `/metrics` and `/v1/models`.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    error::{ApiError, json_response},
    metrics,
    models::ServedModel,
    state::Server,
};

/// Answers whether the server takes requests.
///
/// # Errors
///
/// While the models are loaded, once the server is about to end, and if the device of a model was lost.
pub async fn health(State(server): State<Arc<Server>>) -> Result<Response, ApiError> {
    for served in server.models()?.all() {
        served.health.check(&served.id)?;
    }
    Ok(json_response(StatusCode::OK, &json!({ "status": "ok" })))
}

/// Answers with the program's version.
pub async fn version() -> Response {
    let version = json!({ "version": env!("CARGO_PKG_VERSION") });
    json_response(StatusCode::OK, &version)
}

/// Answers with the metrics.
pub async fn metrics(State(server): State<Arc<Server>>) -> Response {
    let text = server.metrics.text(server.loaded_models());
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

/// Answers with all models.
///
/// # Errors
///
/// While they are loaded.
pub async fn models(State(server): State<Arc<Server>>) -> Result<Response, ApiError> {
    let all = server.models()?.all();
    let all: Vec<Value> = all.iter().map(|served| describe(&server, served)).collect();
    let list = json!({ "object": "list", "data": all });
    Ok(json_response(StatusCode::OK, &list))
}

/// Answers with one model.
///
/// # Errors
///
/// While the models are loaded, and if there is none of this name.
pub async fn model(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let served = server.models()?.find(Some(&id))?;
    Ok(json_response(StatusCode::OK, &describe(&server, &served)))
}

fn describe(server: &Server, served: &ServedModel) -> Value {
    json!({
        "id": served.id,
        "object": "model",
        "created": server.started,
        "owned_by": "wisp",
        // Also in vLLM's answers.
        "max_model_len": served.model.context_length(),
        "root": served.base,
        "parent": served.adapter.as_ref().map(|_| &served.base),
    })
}
