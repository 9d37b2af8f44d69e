//! Work that takes too long for the threads that wait for events, such as tokenizing a long text.

use axum::http::StatusCode;

use super::error::ApiError;

/// Runs work on a thread of its own.
///
/// # Errors
///
/// The error of the work.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(match error.is_panic() {
            true => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "an internal error"),
            false => ApiError::unavailable("the server is shutting down"),
        })
    })
}
