//! Turns the errors of requests into errors of repositories.

use super::{
    http::{HttpError, Refusal},
    repo::OnlineRepo,
};
use crate::error::RepoError;

impl OnlineRepo {
    /// Explains why a request failed; `file` is the file that was asked for, if it was one.
    pub(super) fn explain(&self, error: HttpError, file: Option<&str>) -> RepoError {
        let (repo, endpoint) = (self.name.clone(), self.settings.endpoint.clone());
        match error {
            HttpError::Cancelled => RepoError::Interrupted,
            HttpError::Stalled => RepoError::Stalled {
                repo,
                endpoint,
                seconds: self.settings.timeout.as_secs_f64().round() as u64,
            },
            HttpError::Connection(problem) => RepoError::Unreachable {
                repo,
                endpoint,
                problem,
            },
            HttpError::Malformed(problem) => self.bad_response(&problem),
            HttpError::Status(refusal) => self.explain_refusal(refusal, file),
        }
    }

    /// Returns why a request failed, for a message that names the hub.
    pub(super) fn cause(&self, error: &HttpError) -> String {
        match error {
            HttpError::Cancelled => "interrupted".into(),
            HttpError::Stalled => format!(
                "it has sent nothing for {} s (HF_HUB_DOWNLOAD_TIMEOUT sets this limit)",
                self.settings.timeout.as_secs_f64().round()
            ),
            HttpError::Connection(problem) | HttpError::Malformed(problem) => problem.clone(),
            HttpError::Status(refusal) => format!("status {} {}", refusal.status, refusal.message)
                .trim_end()
                .into(),
        }
    }

    fn explain_refusal(&self, refusal: Refusal, file: Option<&str>) -> RepoError {
        let (repo, endpoint) = (self.name.clone(), self.settings.endpoint.clone());
        let revision = self.revision.clone();
        let code = refusal.code.as_deref();
        match (refusal.status, code, file) {
            (401 | 403, Some("GatedRepo"), _) => RepoError::Gated { repo, endpoint },
            (401, ..) => RepoError::Unauthorized { repo, endpoint },
            (403, ..) => RepoError::Forbidden {
                repo,
                endpoint,
                message: match refusal.message.as_str() {
                    "" => String::new(),
                    message => format!(": {message}"),
                },
            },
            (404, _, Some(file)) => RepoError::FileNotFound {
                repo,
                file: file.into(),
                available: Vec::new(),
            },
            (404, Some("RevisionNotFound"), _) => RepoError::RevisionNotFound {
                repo,
                revision,
                endpoint,
            },
            (404, code, _) if code == Some("RepoNotFound") || revision == "main" => {
                RepoError::RepoNotFound { repo, endpoint }
            }
            (404, ..) => RepoError::RevisionNotFound {
                repo,
                revision,
                endpoint,
            },
            (429, ..) => RepoError::RateLimited {
                endpoint,
                after_seconds: refusal.retry_after,
            },
            (status, ..) => self.bad_response(&format!("status {status} {}", refusal.message)),
        }
    }
}
