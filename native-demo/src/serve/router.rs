//! The endpoints.

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode, Uri},
    middleware::{from_fn, from_fn_with_state},
    routing::{get, post},
};

use super::{
    adapters, anthropic, chat, completions, embeddings, error::ApiError, guard, info, openapi,
    page, request_log, rerank, responses, state::Server, tokens,
};

/// Defines the endpoints: the method, the path and the function that answers.
macro_rules! endpoints {
    ($($method:ident $path:literal $answer:path;)*) => {
        fn endpoints() -> Router<Arc<Server>> {
            Router::new()$(.route($path, $method($answer)))*
        }

        /// The methods and paths, for the test of their description.
        #[cfg(test)]
        pub const ENDPOINTS: &[(&str, &str)] = &[$((stringify!($method), $path)),*];
    };
}

endpoints! {
    get "/" page::page;
    get "/health" info::health;
    get "/version" info::version;
    get "/metrics" info::metrics;
    get "/openapi.json" openapi::description;
    get "/v1/models" info::models;
    get "/models" info::models;
    get "/v1/models/{*id}" info::model;
    post "/v1/chat/completions" chat::answer;
    post "/chat/completions" chat::answer;
    post "/v1/completions" completions::answer;
    post "/v1/responses" responses::answer;
    post "/responses" responses::answer;
    post "/v1/messages" anthropic::answer;
    post "/v1/messages/count_tokens" anthropic::count_tokens;
    post "/v1/embeddings" embeddings::answer;
    post "/v1/rerank" rerank::rerank;
    post "/v2/rerank" rerank::rerank;
    post "/rerank" rerank::rerank;
    post "/v1/score" rerank::score;
    post "/score" rerank::score;
    post "/v1/load_lora_adapter" adapters::load;
    post "/v1/unload_lora_adapter" adapters::unload;
    post "/tokenize" tokens::tokenize;
    post "/detokenize" tokens::detokenize;
    post "/apply-template" tokens::apply_template;
}

/// Returns the service that answers all requests.
pub fn router(server: Arc<Server>) -> Router {
    endpoints()
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown)
        .layer(from_fn_with_state(server.clone(), guard::check))
        .layer(from_fn(anthropic::describe_errors))
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
