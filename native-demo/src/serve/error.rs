//! Errors in OpenAI's format: `{"error": {"message", "type", "param", "code"}}`.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use wisp_engine::{
    Error,
    pipelines::{LoraError, PipelineError},
};

/// An error as a client receives it.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
    /// Seconds after which the client may try again.
    retry_after: Option<u32>,
}

impl ApiError {
    /// Creates an error with this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError {
            status,
            message: message.into(),
            param: None,
            code: None,
            retry_after: None,
        }
    }

    /// Creates an error about a request as a whole.
    pub fn invalid(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// Creates an error about a parameter of the request.
    pub fn parameter(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError {
            param: Some(param.into()),
            ..ApiError::invalid(message)
        }
    }

    /// Names the parameter that the error is about.
    pub fn with_param(self, param: &str) -> ApiError {
        ApiError {
            param: Some(param.into()),
            ..self
        }
    }

    /// Creates the error of a parameter that the request must have.
    pub fn missing(param: impl Into<String>) -> ApiError {
        let param = param.into();
        let message = format!("{param} is missing");
        ApiError::parameter(param, message)
    }

    /// Creates the error of a parameter that this version does not support.
    pub fn unsupported(param: impl Into<String>) -> ApiError {
        let param = param.into();
        let message = format!("{param} is not supported by this version");
        ApiError::unsupported_value(param, message)
    }

    /// Creates the error of a parameter with a value that this version does not support.
    pub fn unsupported_value(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError::parameter(param, message).with_code("unsupported_parameter")
    }

    /// Creates the error of a server that takes no requests now.
    pub fn unavailable(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message).with_retry_after(5)
    }

    /// Adds a code on which programs can match.
    pub fn with_code(self, code: &'static str) -> ApiError {
        ApiError {
            code: Some(code),
            ..self
        }
    }

    /// Adds the seconds after which the client may try again.
    pub fn with_retry_after(self, seconds: u32) -> ApiError {
        ApiError {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// Names the parameter that an error of the engine is about, unless it names one itself.
    pub fn about(self, param: &str) -> ApiError {
        match self.status == StatusCode::BAD_REQUEST && self.param.is_none() {
            true => self.with_param(param),
            false => self,
        }
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the code on which programs can match.
    pub fn code(&self) -> Option<&'static str> {
        self.code
    }

    /// Returns what has happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Names the parameter as another interface does, which calls it `to` and not `from`.
    pub fn renamed(self, from: &str, to: &str) -> ApiError {
        match self.param.as_deref() == Some(from) {
            true => self.with_param(to),
            false => self,
        }
    }

    /// Returns the object that describes the error.
    pub fn body(&self) -> Value {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            403 | 421 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": {
            "message": self.message, "type": kind, "param": self.param, "code": self.code,
        } })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, &self.body());
        if let Some(seconds) = self.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        // For formats that describe errors in another way.
        response.extensions_mut().insert(self);
        response
    }
}

/// Creates a response of JSON.
pub fn json_response(status: StatusCode, body: &Value) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (status, json, body.to_string()).into_response()
}

/// The code of a prompt that does not fit the context.
pub const CONTEXT_FULL: &str = "context_length_exceeded";

/// Parameters of OpenAI's interface by their names in the engine's messages.
const PARAMETERS: &[(&str, &str)] = &[
    ("top-p", "top_p"),
    ("min-p", "min_p"),
    ("repetition-penalty", "repetition_penalty"),
    ("presence-penalty", "presence_penalty"),
    ("frequency-penalty", "frequency_penalty"),
    ("a logit-bias", "logit_bias"),
    ("the count of logit-bias", "logit_bias"),
];

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        let message = error.to_string();
        let is_invalid = match &error {
            // Clients know the error by OpenAI's words.
            Error::ContextFull { have, max } => {
                let message = format!(
                    "this model's maximum context length is {max} tokens, but the prompt has {have}: \
                     shorten the prompt or load the model with a longer context"
                );
                return ApiError::invalid(message).with_code(CONTEXT_FULL);
            }
            // Without the engine's number of the request, which clients do not know.
            Error::ConstraintFailed { .. } => {
                return ApiError::invalid(
                    "the constraint cannot be followed any further: it is too complex for the limits of a step, \
                     or the vocabulary has no token for what must follow",
                );
            }
            // What the server knows about it is at `/health`.
            Error::DeviceLost { .. } | Error::WorkerEnded => {
                let message = "the model's device was lost: the server has to be restarted";
                let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message);
                return error.with_code("model_lost");
            }
            Error::EmptyPrompt
            | Error::EmptyText { .. }
            | Error::TextTooLong { .. }
            | Error::NotAGenerator { .. }
            | Error::NotAnEncoder { .. }
            | Error::Grammar(_)
            | Error::NoTokenizer { .. } => true,
            error => match error.pipeline_error() {
                Some(PipelineError::Sampling(error)) => {
                    let named = PARAMETERS.iter().find(|(name, _)| *name == error.name);
                    let param = named.map_or(error.name, |(_, param)| param);
                    let (value, allowed) = (error.value, error.allowed);
                    let message = format!("{param} is {value}, but must be {allowed}");
                    return ApiError::parameter(param, message);
                }
                // A template that refuses the conversation is among the errors of files.
                Some(
                    PipelineError::Request(_)
                    | PipelineError::UnknownToken { .. }
                    | PipelineError::Tokenizer(_)
                    | PipelineError::Encode(_)
                    | PipelineError::Tools(_)
                    | PipelineError::ModelFiles(_)
                    | PipelineError::Lora(LoraError::Nonexistent { .. }),
                ) => true,
                _ => false,
            },
        };
        match is_invalid {
            true => ApiError::invalid(message),
            false => {
                tracing::error!(%message, "a request failed");
                let message = "the model failed: the server's log has the reason";
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
        }
    }
}
