//! What a model in sentence-transformers' layout, or its GGUF metadata, says of its embeddings.

use crate::Pooling;

/// How a model's embeddings are made, as far as its files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentenceTransformer {
    /// How the tokens' hidden states become one.
    pub pooling: Option<Pooling>,
    /// What the embeddings are made with that Wisp lacks, in words.
    pub unsupported: Option<String>,
    /// Whether embeddings are scaled to length 1.
    pub normalizes: Option<bool>,
    /// Tokens of a text, special ones included; what is longer is cut. Never more than the model's
    /// positions. `None`: nothing is cut.
    pub max_length: Option<u64>,
    /// Texts are made lower-case first.
    pub lowercases: bool,
}

impl SentenceTransformer {
    /// What GGUF metadata says in `pooling_type`.
    pub(super) fn from_gguf(pooling_type: Option<u32>) -> SentenceTransformer {
        let (pooling, unsupported) = match pooling_type {
            // 0 is no pooling, which leaves the choice to the user.
            None | Some(0) => (None, None),
            Some(1) => (Some(Pooling::Mean), None),
            Some(2) => (Some(Pooling::Cls), None),
            Some(other) => (None, Some(format!("pooling of type {other}"))),
        };
        SentenceTransformer {
            pooling,
            unsupported,
            ..Default::default()
        }
    }
}

mod files {
    use std::path::{Component, Path};

    use serde_json::Value;

    use super::SentenceTransformer;
    use crate::{PipelineError, Pooling};

    fn problem(file: &str, problem: String) -> PipelineError {
        PipelineError::Config {
            file: file.into(),
            problem,
        }
    }

    /// A file's JSON, if there is such a file.
    fn json(read: Read<'_>, name: &str) -> Result<Option<Value>, PipelineError> {
        let parse = |text: String| {
            serde_json::from_str(&text).map_err(|error| problem(name, error.to_string()))
        };
        read(name)?.map(parse).transpose()
    }

    /// Reads a file beside the weights, if there is such a file.
    type Read<'a> = &'a dyn Fn(&str) -> Result<Option<String>, PipelineError>;

    /// The ways of pooling that a pooling module's configuration asks for.
    fn modes(config: &Value) -> Vec<&str> {
        if let Some(mode) = config.get("pooling_mode").and_then(Value::as_str) {
            return vec![mode];
        }
        let fields = config.as_object().into_iter().flatten();
        let asked = fields.filter(|(_, value)| value.as_bool() == Some(true));
        asked
            .filter_map(|(key, _)| key.strip_prefix("pooling_mode_"))
            .map(|mode| mode.strip_suffix("_tokens").unwrap_or(mode))
            .collect()
    }

    impl SentenceTransformer {
        /// [`Self::from_files`] of a directory.
        #[cfg(not(target_arch = "wasm32"))]
        pub(crate) fn from_directory(
            directory: &Path,
        ) -> Result<SentenceTransformer, PipelineError> {
            SentenceTransformer::from_files(&|name| {
                let path = directory.join(name);
                match std::fs::read_to_string(&path) {
                    Ok(text) => Ok(Some(text)),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(problem(&path.display().to_string(), error.to_string())),
                }
            })
        }

        /// Reads `modules.json`, the configuration of its pooling, and `sentence_bert_config.json`,
        /// as far as they are there.
        ///
        /// # Errors
        ///
        /// If one is there and cannot be read.
        pub(crate) fn from_files(read: Read<'_>) -> Result<SentenceTransformer, PipelineError> {
            let mut found = SentenceTransformer::default();
            let modules = json(read, "modules.json")?;
            let mut pooling_at = "1_Pooling".to_string();
            if let Some(modules) = &modules {
                // Later versions leave the length to the tokenizer; a number that is no length is huge.
                let tokenizer = json(read, "tokenizer_config.json")?;
                let most = tokenizer.and_then(|config| config.get("model_max_length")?.as_f64());
                found.max_length = Some(most.map_or(u64::MAX, |most| most as u64));
                found.normalizes = Some(false);
                for module in modules.as_array().into_iter().flatten() {
                    let text = |key: &str| module.get(key).and_then(Value::as_str).unwrap_or("");
                    // `sentence_transformers.models.Pooling`.
                    match text("type").rsplit('.').next().unwrap_or("") {
                        "Transformer" => {}
                        "Pooling" => pooling_at = text("path").into(),
                        "Normalize" => found.normalizes = Some(true),
                        other => found.unsupported = Some(format!("a module {other:?}")),
                    }
                }
            }
            // A file says where to look, but never outside the model's own folder.
            let is_inside = Path::new(&pooling_at)
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            let pooling_at = match pooling_at.as_str() {
                "" => "config.json".into(),
                folder => format!("{folder}/config.json"),
            };
            if is_inside && let Some(pooling) = json(read, &pooling_at)? {
                match modes(&pooling)[..] {
                    [] => {}
                    ["mean"] => found.pooling = Some(Pooling::Mean),
                    ["cls" | "cls_token"] => found.pooling = Some(Pooling::Cls),
                    ref others => {
                        found.unsupported = Some(format!("pooling by {}", others.join(" and ")));
                    }
                }
            }
            if let Some(config) = json(read, "sentence_bert_config.json")? {
                let max_length = config.get("max_seq_length").and_then(Value::as_u64);
                found.max_length = max_length.or(found.max_length);
                let lowercases = config.get("do_lower_case").and_then(Value::as_bool);
                found.lowercases = lowercases.unwrap_or(false);
            }
            Ok(found)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn read(files: &[(&str, &str)]) -> Result<SentenceTransformer, PipelineError> {
            let directory = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = directory.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            SentenceTransformer::from_directory(directory.path())
        }

        const MODULES: &str = r#"[
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]"#;

        #[test]
        fn the_layout_is_read() {
            assert_eq!(read(&[]).unwrap(), SentenceTransformer::default());
            let found = read(&[
                ("modules.json", MODULES),
                (
                    "1_Pooling/config.json",
                    r#"{"word_embedding_dimension": 8, "pooling_mode_cls_token": true,
                        "pooling_mode_mean_tokens": false}"#,
                ),
                (
                    "sentence_bert_config.json",
                    r#"{"max_seq_length": 12, "do_lower_case": false}"#,
                ),
            ]);
            let expected = SentenceTransformer {
                pooling: Some(Pooling::Cls),
                normalizes: Some(true),
                max_length: Some(12),
                ..Default::default()
            };
            assert_eq!(found.unwrap(), expected);
        }

        #[test]
        fn the_layout_of_later_versions_is_read() {
            let found = read(&[
                ("modules.json", MODULES),
                ("1_Pooling/config.json", r#"{"pooling_mode": "mean"}"#),
                ("sentence_bert_config.json", "{}"),
                ("tokenizer_config.json", r#"{"model_max_length": 8}"#),
            ]);
            let found = found.unwrap();
            let expected = (Some(Pooling::Mean), Some(8));
            assert_eq!((found.pooling, found.max_length), expected);
        }

        #[test]
        fn what_is_lacking_is_named() {
            let dense = MODULES.replace("models.Normalize", "models.Dense");
            let found = read(&[("modules.json", &dense)]).unwrap();
            assert!(found.unsupported.unwrap().contains("Dense"));
            let max = r#"{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": true}"#;
            let found = read(&[("1_Pooling/config.json", max)]).unwrap();
            assert_eq!(found.unsupported.unwrap(), "pooling by max and mean");
            let line = read(&[("modules.json", "[")]).unwrap_err().to_string();
            assert!(line.contains("modules.json"), "{line}");
        }

        #[test]
        fn nothing_outside_the_directory_is_read() {
            for path in ["../1_Pooling", "/etc", "a/../../b"] {
                let modules = MODULES.replace("1_Pooling", path);
                let found = read(&[("modules.json", &modules)]).unwrap();
                assert_eq!(found.pooling, None);
            }
        }
    }
}
