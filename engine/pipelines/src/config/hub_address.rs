//! Names of repositories with the address of Hugging Face's hub before them.

use std::path::Path;

/// Returns the name of a model without the address of Hugging Face's hub that people copy with it: `org/name:part` of
/// `https://huggingface.co/org/name:part`. Paths of this machine and all other names stay as they are.
pub(crate) fn without_address(name: &str) -> &str {
    let address = name
        .strip_prefix("https://")
        .or_else(|| name.strip_prefix("http://"))
        .unwrap_or(name);
    let hosts = ["huggingface.co/", "www.huggingface.co/", "hf.co/"];
    match hosts.iter().find_map(|host| address.strip_prefix(*host)) {
        Some(repo) if !Path::new(name).exists() => {
            let repo = repo.trim_end_matches('/');
            repo.strip_suffix("/tree/main").unwrap_or(repo)
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_hub_are_removed_from_names() {
        for (name, expected) in [
            ("https://huggingface.co/org/name", "org/name"),
            ("https://huggingface.co/org/name/", "org/name"),
            ("https://huggingface.co/org/name/tree/main", "org/name"),
            ("http://huggingface.co/org/name", "org/name"),
            ("huggingface.co/org/name", "org/name"),
            ("hf.co/org/name:q4_k", "org/name:q4_k"),
            ("org/name", "org/name"),
            (
                "https://example.org/org/name",
                "https://example.org/org/name",
            ),
            ("model.gguf", "model.gguf"),
            (".", "."),
            ("", ""),
        ] {
            assert_eq!(without_address(name), expected);
        }
    }
}
