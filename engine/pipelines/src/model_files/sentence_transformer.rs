//! How a model's embeddings are computed, as sentence-transformers' files or GGUF metadata say.

use std::path::{Component, Path};

use serde_json::Value;
#[cfg(not(target_arch = "wasm32"))]
use wisp_files::{FileKind, read_small_text};
use wisp_text::python_json;
use wisp_weights::Checkpoint;

use super::{dense::Dense, error::ModelFilesError};
use crate::pooling::Pooling;

/// How a model's embeddings are computed, as far as its files say.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SentenceTransformer {
    /// How the hidden states of a text's tokens are pooled.
    pub pooling: Option<Pooling>,
    /// The linear layers that are applied to pooled embeddings, one after the other.
    pub dense: Vec<Dense>,
    /// A step of the computation that is not supported, in words.
    pub unsupported: Option<String>,
    /// Whether embeddings are scaled to length 1. `None` if there is no list of modules.
    pub normalizes: Option<bool>,
    /// The length, in tokens with special ones, to which texts are cut. `None` if none are cut.
    pub max_length: Option<u64>,
    /// True if texts are converted to lower case before they are tokenized.
    pub lowercases: bool,
}

/// Reads a file beside the weights; `None` if it does not exist.
type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Option<String>, ModelFilesError>;

/// Opens the weights of a module in a folder beside the model's.
pub(super) type OpenWeights<'a> = &'a dyn Fn(&str) -> Result<Checkpoint, ModelFilesError>;

fn error(file: &str, problem: String) -> ModelFilesError {
    ModelFilesError::File {
        file: file.into(),
        problem,
    }
}

/// Parses a JSON file; `None` if it does not exist.
fn json(read: ReadFile<'_>, name: &str) -> Result<Option<Value>, ModelFilesError> {
    let parse = |text: String| {
        let json = python_json::parse(text.as_bytes());
        json.map_err(|problem| error(name, problem.to_string()))
    };
    read(name)?.map(parse).transpose()
}

/// Returns the modes that the configuration of a pooling module selects.
fn pooling_modes(config: &Value) -> Vec<&str> {
    if let Some(mode) = config.get("pooling_mode").and_then(Value::as_str) {
        return vec![mode];
    }
    let fields = config.as_object().into_iter().flatten();
    let selected = fields.filter(|(_, value)| value.as_bool() == Some(true));
    selected
        .filter_map(|(key, _)| key.strip_prefix("pooling_mode_"))
        .map(|mode| mode.strip_suffix("_tokens").unwrap_or(mode))
        .collect()
}

impl SentenceTransformer {
    /// Reads `pooling_type` of GGUF metadata.
    pub(super) fn from_gguf(pooling_type: Option<u32>) -> SentenceTransformer {
        let (pooling, unsupported) = match pooling_type {
            // 0 is no pooling, which leaves the choice to the user.
            None | Some(0) => (None, None),
            Some(1) => (Some(Pooling::Mean), None),
            Some(2) => (Some(Pooling::Cls), None),
            Some(3) => (Some(Pooling::Last), None),
            Some(other) => (None, Some(format!("pooling of type {other}"))),
        };
        SentenceTransformer {
            pooling,
            unsupported,
            ..Default::default()
        }
    }

    /// [`Self::from_files`] of a directory.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn from_directory(directory: &Path) -> Result<SentenceTransformer, ModelFilesError> {
        let read = |name: &str| {
            let path = directory.join(name);
            match read_small_text(&path, FileKind::Config) {
                Ok(text) => Ok(Some(text)),
                Err(problem) if problem.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(problem) => Err(error(&path.display().to_string(), problem.to_string())),
            }
        };
        SentenceTransformer::from_files(&read, &|folder| {
            let path = directory.join(folder);
            Ok(Checkpoint::open(&path)?)
        })
    }

    /// Reads `modules.json`, the configuration of its pooling module, and
    /// `sentence_bert_config.json`, as far as they exist.
    ///
    /// # Errors
    ///
    /// If one exists and cannot be read.
    pub(super) fn from_files(
        read: ReadFile<'_>,
        open: OpenWeights<'_>,
    ) -> Result<SentenceTransformer, ModelFilesError> {
        let mut found = SentenceTransformer::default();
        let pooling_folder = found.read_modules(read, open)?;
        let is_inside = is_inside(&pooling_folder);
        let pooling_config = match pooling_folder.as_str() {
            "" => "config.json".into(),
            folder => format!("{folder}/config.json"),
        };
        if is_inside && let Some(pooling) = json(read, &pooling_config)? {
            match pooling_modes(&pooling)[..] {
                [] => {}
                ["mean"] => found.pooling = Some(Pooling::Mean),
                ["cls" | "cls_token"] => found.pooling = Some(Pooling::Cls),
                ["lasttoken"] => found.pooling = Some(Pooling::Last),
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

    /// Reads `modules.json`, and returns the folder of its pooling module.
    fn read_modules(
        &mut self,
        read: ReadFile<'_>,
        open: OpenWeights<'_>,
    ) -> Result<String, ModelFilesError> {
        let mut pooling_folder = "1_Pooling".to_string();
        let Some(modules) = json(read, "modules.json")? else {
            return Ok(pooling_folder);
        };
        // Later versions leave the length to the tokenizer, which has a huge number for none.
        let tokenizer = json(read, "tokenizer_config.json")?;
        let length = tokenizer.and_then(|config| config.get("model_max_length")?.as_f64());
        self.max_length = Some(length.map_or(u64::MAX, |length| length as u64));
        self.normalizes = Some(false);
        for module in modules.as_array().into_iter().flatten() {
            let text = |key: &str| module.get(key).and_then(Value::as_str).unwrap_or("");
            // The type is a path such as `sentence_transformers.models.Pooling`.
            match text("type").rsplit('.').next().unwrap_or("") {
                "Transformer" => {}
                "Pooling" => pooling_folder = text("path").into(),
                "Normalize" => self.normalizes = Some(true),
                "Dense" if is_inside(text("path")) && !text("path").is_empty() => {
                    match dense(text("path"), read, open) {
                        Ok(layer) => self.dense.push(layer),
                        Err(problem) => {
                            self.unsupported = Some(format!("a module \"Dense\" ({problem})"));
                        }
                    }
                }
                other => self.unsupported = Some(format!("a module {other:?}")),
            }
        }
        Ok(pooling_folder)
    }
}

/// True if a file names a folder that is inside of the model's own.
fn is_inside(folder: &str) -> bool {
    let mut parts = Path::new(folder).components();
    parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Reads the module of a linear layer.
fn dense(
    folder: &str,
    read: ReadFile<'_>,
    open: OpenWeights<'_>,
) -> Result<Dense, ModelFilesError> {
    let name = format!("{folder}/config.json");
    let config = json(read, &name)?.unwrap_or(Value::Null);
    Dense::read(&config, &open(folder)?).map_err(|problem| error(folder, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Result<SentenceTransformer, ModelFilesError> {
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
    fn modules_pooling_and_length_are_read() {
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
    fn last_token_is_pooled() {
        for config in [
            r#"{"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false, "include_prompt": true}"#,
            r#"{"pooling_mode": "lasttoken"}"#,
        ] {
            let found = read(&[("modules.json", MODULES), ("1_Pooling/config.json", config)]);
            assert_eq!(found.unwrap().pooling, Some(Pooling::Last));
        }
    }

    #[test]
    fn later_versions_name_one_mode_and_leave_the_length_to_the_tokenizer() {
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
    fn unsupported_steps_and_damaged_files_are_named() {
        let other = MODULES.replace("models.Normalize", "models.LSTM");
        let found = read(&[("modules.json", &other)]).unwrap();
        assert!(found.unsupported.unwrap().contains("LSTM"));
        // A linear layer needs its weights.
        let dense = MODULES.replace("models.Normalize", "models.Dense");
        let found = read(&[("modules.json", &dense)]).unwrap();
        assert!(found.unsupported.unwrap().contains("2_Normalize"));
        let max = r#"{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": true}"#;
        let found = read(&[("1_Pooling/config.json", max)]).unwrap();
        assert_eq!(found.unsupported.unwrap(), "pooling by max and mean");
        let line = read(&[("modules.json", "[")]).unwrap_err().to_string();
        assert!(line.contains("modules.json"), "{line}");
    }

    #[test]
    fn folders_outside_the_model_are_not_read() {
        for path in ["../1_Pooling", "/etc", "a/../../b"] {
            let modules = MODULES.replace("1_Pooling", path);
            let found = read(&[("modules.json", &modules)]).unwrap();
            assert_eq!(found.pooling, None);
        }
    }
}
