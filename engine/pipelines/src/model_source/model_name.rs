//! How users name a model.

use std::path::Path;

use wisp_hub::RepoError;
use wisp_weights::{SupportedEncoding, WeightsFormat};

use crate::config::without_address;

/// A file, folder or repository, and which of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelName {
    /// A path, or `org/name`.
    pub repo: String,
    /// An encoding or a file, written after a colon.
    pub part: Option<String>,
}

impl ModelName {
    /// Parses `path`, `path:part`, `org/name` or `org/name:part`; the names of repositories may have the hub's address
    /// before them.
    ///
    /// # Errors
    ///
    /// If the text is empty, or there is no such path and it cannot be the name of a repository either.
    pub fn parse(text: &str) -> Result<ModelName, RepoError> {
        let is_model = |name: &str| Path::new(name).exists() || is_repo_id(name);
        let name = |repo: &str, part: Option<&str>| ModelName {
            repo: repo.into(),
            part: part.map(Into::into),
        };
        let text = without_address(text);
        match text.rsplit_once(':') {
            _ if text.is_empty() => Err(RepoError::EmptyName),
            _ if is_model(text) => Ok(name(text, None)),
            Some((repo, part)) if is_model(repo) && !part.is_empty() => Ok(name(repo, Some(part))),
            _ => Err(RepoError::NotFound {
                name: text.into(),
                may_be_repo: false,
            }),
        }
    }

    /// Returns the encoding that the part names, unless it names a file.
    pub fn encoding(&self) -> Option<SupportedEncoding> {
        let part = self.part.as_deref()?;
        match WeightsFormat::of(part) {
            Some(_) => None,
            None => SupportedEncoding::parse_from_file_name(part),
        }
    }
}

/// True for `org/name` of letters, digits and `-_.`, unless it ends as a file of weights does.
pub(super) fn is_repo_id(name: &str) -> bool {
    let is_word = |word: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.len() <= 96
            && word.chars().all(is_allowed)
    };
    let parts = name.split_once('/');
    parts.is_some_and(|(org, name)| is_word(org) && is_word(name))
        && WeightsFormat::of(name).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_paths_and_parts_are_parsed() {
        let name = |repo: &str, part: Option<&str>| ModelName {
            repo: repo.into(),
            part: part.map(Into::into),
        };
        for (text, expected) in [
            ("org/name", name("org/name", None)),
            ("org/name:q4_k", name("org/name", Some("q4_k"))),
            ("https://huggingface.co/org/name", name("org/name", None)),
            ("hf.co/org/name:Q4_K_M", name("org/name", Some("Q4_K_M"))),
            (
                "org/n-a_m.e1:a/b.gguf",
                name("org/n-a_m.e1", Some("a/b.gguf")),
            ),
            (".", name(".", None)),
            (".:q8_0", name(".", Some("q8_0"))),
        ] {
            assert_eq!(ModelName::parse(text).unwrap(), expected, "{text}");
        }
        for text in [
            "absent.gguf",
            "absent/model.gguf",
            "name",
            "/absent/x",
            "a/b/c",
            "a b/c",
            "",
            ":",
            "org/:q4_k",
        ] {
            assert!(ModelName::parse(text).is_err(), "{text}");
        }
        assert!(matches!(ModelName::parse(""), Err(RepoError::EmptyName)));
        let encoding = |text| ModelName::parse(text).unwrap().encoding();
        assert_eq!(encoding("a/b:Q4_K_M"), Some(SupportedEncoding::q4_k));
        assert_eq!(encoding("a/b:f16"), Some(SupportedEncoding::float16));
        assert_eq!(encoding("a/b:x-Q4_K_M.gguf"), None);
    }
}
