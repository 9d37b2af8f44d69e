//! The chat page at `/`.

use axum::{
    http::header,
    response::{Html, IntoResponse, Response},
};

use super::error::ApiError;

/// The page, which loads nothing else.
const PAGE: &str = include_str!("page.html");

/// What stands in the page where the nonce of the policy belongs.
const NONCE: &str = "NONCE";

/// Answers with the page, under a policy that lets it run only its own script and style and talk only to this server.
///
/// # Errors
///
/// If the system has no random numbers.
pub async fn page() -> Result<Response, ApiError> {
    let random = getrandom::u64();
    let random =
        random.map_err(|error| ApiError::unavailable(format!("no random numbers: {error}")))?;
    let nonce = format!("{random:016x}");
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".into()),
        (header::REFERRER_POLICY, "no-referrer".into()),
        (header::CACHE_CONTROL, "no-store".into()),
    ];
    Ok((headers, Html(PAGE.replace(NONCE, &nonce))).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_loads_nothing_and_has_a_nonce_for_its_script_and_style() {
        assert_eq!(PAGE.matches(NONCE).count(), 2);
        for outside in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
        // What a model writes is text, never markup.
        assert!(!PAGE.contains("innerHTML"));
    }
}
