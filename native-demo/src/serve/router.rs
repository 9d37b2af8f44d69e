//! The endpoints.

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode, Uri},
    middleware::from_fn_with_state,
    routing::{get, post},
};

use super::{
    chat, completions, embeddings, error::ApiError, guard, info, page, request_log, state::Server,
    tokens,
};

/// Returns the service that answers all requests.
pub fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/health", get(info::health))
        .route("/version", get(info::version))
        .route("/metrics", get(info::metrics))
        .route("/v1/models", get(info::models))
        .route("/v1/models/{*id}", get(info::model))
        .route("/v1/chat/completions", post(chat::answer))
        .route("/v1/completions", post(completions::answer))
        .route("/v1/embeddings", post(embeddings::answer))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/apply-template", post(tokens::apply_template))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown)
        .layer(from_fn_with_state(server.clone(), guard::check))
        .layer(from_fn_with_state(server.clone(), request_log::record))
        .with_state(server)
}

async fn unknown(uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        format!("there is no endpoint {}", uri.path()),
    )
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not answer {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message)
}
