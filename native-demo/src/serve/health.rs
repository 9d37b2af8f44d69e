//! Whether the device of a model still works.

use std::sync::OnceLock;

use axum::http::StatusCode;
use wisp_engine::Error;

use super::error::ApiError;

/// The state of a model's device, which the model shares with those with its adapters. A device that was lost does not
/// come back: the model has to be loaded again.
#[derive(Debug, Default)]
pub struct Health {
    /// What was lost, once a request has found out.
    lost: OnceLock<String>,
}

impl Health {
    /// Takes note of an error after which the model answers no more requests.
    pub fn note(&self, error: &Error) {
        if matches!(error, Error::DeviceLost { .. } | Error::WorkerEnded) {
            let message = error.to_string();
            if self.lost.set(message.clone()).is_ok() {
                tracing::error!(%message, "a model is lost: restart the server");
            }
        }
    }

    /// Returns whether the device was lost.
    pub fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Checks that the model answers requests.
    ///
    /// # Errors
    ///
    /// If its device was lost: an error with status 503 and the code `model_lost`.
    pub fn check(&self, id: &str) -> Result<(), ApiError> {
        match self.lost.get() {
            None => Ok(()),
            Some(_) => {
                let message = format!(
                    "the device of the model {id} was lost: the server has to be restarted; its log has the reason"
                );
                let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message);
                Err(error.with_code("model_lost"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn only_errors_after_which_the_model_is_gone_count() {
        let health = Health::default();
        health.note(&Error::EmptyPrompt);
        health.note(&Error::NonFinite { request: 1 });
        assert!(health.check("a").is_ok() && !health.is_lost());
        let (device, message) = ("a GPU".to_string(), "unplugged".to_string());
        health.note(&Error::DeviceLost { device, message });
        health.note(&Error::WorkerEnded);
        assert!(health.is_lost());
        let error = health.check("a").unwrap_err();
        assert_eq!(error.body()["error"]["code"], "model_lost");
        assert_eq!(error.into_response().status(), 503);
    }
}
