//! The client's errors in our words.

use hf_hub::HFError;

use super::{Hub, RepoError};

/// What an error comes from in the end: the layers above only say that a request failed.
pub(super) fn root(error: &dyn std::error::Error) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    shown(&root.to_string())
}

/// Words from elsewhere, made fit for one line of a terminal.
fn shown(text: &str) -> String {
    const MOST: usize = 300;
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST)
        .collect();
    line.trim().to_string()
}

impl Hub {
    pub(super) fn hub_error(&self, problem: &str) -> RepoError {
        RepoError::Hub {
            repo: self.name.clone(),
            endpoint: self.endpoint(),
            problem: shown(problem),
        }
    }

    /// An error of the client's in the words of ours.
    pub(super) fn error(&self, error: HFError) -> RepoError {
        let (repo, endpoint) = (self.name.clone(), self.endpoint());
        let gated = |code: &Option<String>| code.as_deref() == Some("GatedRepo");
        match error {
            HFError::AuthRequired { context } | HFError::Forbidden { context }
                if gated(&context.error_code) =>
            {
                RepoError::Gated { repo, endpoint }
            }
            HFError::AuthRequired { .. } => RepoError::Unauthorised { repo, endpoint },
            HFError::Forbidden { context } => RepoError::Forbidden {
                repo,
                endpoint,
                message: context
                    .server_message
                    .map_or(String::new(), |message| format!(": {}", shown(&message))),
            },
            HFError::RepoNotFound { .. } => RepoError::Missing { repo, endpoint },
            HFError::RevisionNotFound { revision, .. } => RepoError::NoRevision {
                repo,
                revision,
                endpoint,
            },
            HFError::EntryNotFound { path, .. } => RepoError::NoFile {
                repo,
                file: path,
                there_are: Vec::new(),
            },
            HFError::RateLimited { retry_after, .. } => RepoError::RateLimited {
                endpoint,
                after_seconds: retry_after.map(|after| after.as_secs()),
            },
            HFError::Http { context } => {
                let message = context.server_message.unwrap_or_default();
                self.hub_error(&format!("the hub answers {} {message}", context.status))
            }
            error @ HFError::Request { .. } => RepoError::Unreachable {
                repo,
                endpoint,
                problem: root(&error),
            },
            other => self.hub_error(&shown(&other.to_string())),
        }
    }
}
