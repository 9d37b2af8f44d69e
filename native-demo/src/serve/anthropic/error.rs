//! Errors in Anthropic's format: `{"type": "error", "error": {"type", "message"}, "request_id"}`.

use axum::{
    body::Body,
    extract::Request,
    http::{StatusCode, header},
    middleware::Next,
    response::Response,
};
use serde_json::{Value, json};

use super::super::{
    error::{ApiError, CONTEXT_FULL},
    request_log::RequestId,
};

/// The path of the endpoints that answer in Anthropic's format.
const PATH: &str = "/v1/messages";

/// Describes the errors of Anthropic's endpoints in its format, whatever part of the server they come from.
pub async fn describe_errors(request: Request, next: Next) -> Response {
    let path = request.uri().path().strip_prefix(PATH);
    let is_own = path.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let id = request.extensions().get::<RequestId>().cloned();
    let mut response = next.run(request).await;
    let error = response.extensions().get::<ApiError>();
    let Some(mut body) = error.filter(|_| is_own).map(describe) else {
        return response;
    };
    body["request_id"] = id.map(|id| id.to_string()).into();
    response.headers_mut().remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(body.to_string());
    response
}

/// Returns the object that describes an error.
pub fn describe(error: &ApiError) -> Value {
    let kind = match error.status() {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    let message = match error.code() {
        // Words by which clients such as Claude Code know that the conversation must become shorter.
        Some(CONTEXT_FULL) => format!("prompt is too long: {}", error.message()),
        _ => error.message().into(),
    };
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

#[cfg(test)]
mod tests {
    use wisp_engine::Error;

    use super::*;

    #[test]
    fn full_context_is_told_in_the_words_of_both_interfaces() {
        let error = ApiError::from(Error::ContextFull { have: 9, max: 8 });
        let words = "this model's maximum context length is 8 tokens, but the prompt has 9: \
                     shorten the prompt or load the model with a longer context";
        let body = error.body();
        assert_eq!(body["error"]["message"], words);
        assert_eq!(body["error"]["code"], "context_length_exceeded");
        let described = describe(&error);
        let message = format!("prompt is too long: {words}");
        assert_eq!(described["error"]["message"], message);
        let other = describe(&ApiError::from(Error::EmptyPrompt));
        assert_eq!(other["error"]["message"], Error::EmptyPrompt.to_string());
    }
}
