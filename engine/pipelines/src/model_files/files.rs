//! The files of a model, opened together.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
#[cfg(not(target_arch = "wasm32"))]
use wisp_files::{FileKind, read_small_text};
use wisp_text::{
    chat::{ChatRequest, ChatTemplates},
    chat_template::Message,
    python_json,
    tokenizer::{HuggingFaceFiles, Tokenizer, TokenizerError},
};
use wisp_weights::{Checkpoint, FileBytes, QuantizationConfig, WeightSource};

use super::{
    chat_prompt::prepare_chat, dense::Dense, error::ModelFilesError, gguf_tokenizer::tokenizer,
    sampling_defaults::SamplingDefaults, sentence_transformer::SentenceTransformer,
    stop_tokens::stop_tokens,
};
use crate::{
    architectures::{GgufMetadata, ModelSpec},
    spec::{EncoderSpec, ScoreHead},
};

/// Where ModelOpt describes how weights are quantised, in checkpoints whose `config.json` does not.
pub(crate) const MODELOPT_CONFIG: &str = "hf_quant_config.json";

/// What a model's files say, before anything is loaded to a device.
#[derive(Debug)]
#[non_exhaustive]
pub struct ModelFiles {
    /// What the user calls the model, for error messages.
    pub name: String,
    /// The tensors in the model's GGUF, safetensors or PyTorch files.
    pub checkpoint: Checkpoint,
    /// The folder with `config.json` and the tokenizer; `None` if the model is in GGUF or in memory.
    pub directory: Option<std::path::PathBuf>,
    /// The architecture, and what the model computes.
    pub model_spec: ModelSpec,
    /// The content of `config.json`; `None` if the model is in GGUF.
    pub huggingface_config: Option<Value>,
    /// The tokenizer, or why it cannot be used. Token ids work without one.
    pub tokenizer: Result<Tokenizer, TokenizerError>,
    /// Tokens that end a text.
    pub stop_tokens: BTreeSet<u32>,
    /// How tokens are sampled where a request does not say it.
    pub sampling_defaults: SamplingDefaults,
    /// How embeddings are computed.
    pub sentence_transformer: SentenceTransformer,
}

impl ModelFiles {
    /// Opens a `.gguf` file, or a directory in Hugging Face's layout.
    ///
    /// # Errors
    ///
    /// If the files cannot be read or the architecture cannot be used. A missing tokenizer is not an
    /// error: [`Self::tokenizer`] has it.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<ModelFiles, ModelFilesError> {
        let name = path.display().to_string();
        ModelFiles::from_checkpoint(&name, Checkpoint::open(path)?, None)
    }

    /// Opens the files of a checkpoint on disk. Unless it is in GGUF, the files that describe it are
    /// in `directory`, or else beside the weights.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn from_checkpoint(
        name: &str,
        checkpoint: Checkpoint,
        directory: Option<&std::path::Path>,
    ) -> Result<ModelFiles, ModelFilesError> {
        let name = name.to_string();
        if checkpoint.gguf().is_some() {
            return ModelFiles::from_gguf(name, checkpoint);
        }
        let beside = checkpoint.directory().unwrap_or(std::path::Path::new("."));
        let directory = directory.unwrap_or(beside).to_path_buf();
        let config = read_config(&directory)?;
        let generation = read_generation_config(&directory)?;
        let files = ModelFiles::assemble(
            name,
            checkpoint,
            &config,
            || read_optional(&directory, MODELOPT_CONFIG),
            generation.as_deref(),
            Tokenizer::from_dir(&directory),
            || SentenceTransformer::from_directory(&directory),
        )?;
        Ok(ModelFiles {
            directory: Some(directory),
            ..files
        })
    }

    /// Opens the files of a checkpoint whose other files are in memory, under the names that they
    /// have beside the weights. A checkpoint in GGUF needs no others.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn from_files(
        name: &str,
        checkpoint: Checkpoint,
        files: &HashMap<String, Vec<u8>>,
    ) -> Result<ModelFiles, ModelFilesError> {
        if checkpoint.gguf().is_some() {
            return ModelFiles::from_gguf(name.into(), checkpoint);
        }
        let bytes = |name: &str| files.get(name).map(Vec::as_slice);
        let text = |name: &str| bytes(name).map(String::from_utf8_lossy);
        let config = text("config.json").ok_or_else(|| ModelFilesError::File {
            file: "config.json".into(),
            problem: "it is missing: safetensors need the checkpoint's config.json".into(),
        })?;
        let tokenizer = Tokenizer::from_files(&HuggingFaceFiles {
            tokenizer: bytes("tokenizer.json").unwrap_or_default(),
            tokenizer_config: bytes("tokenizer_config.json"),
            special_tokens_map: bytes("special_tokens_map.json"),
            added_tokens: bytes("added_tokens.json"),
            generation_config: bytes("generation_config.json"),
            config: bytes("config.json"),
            chat_template: bytes("chat_template.jinja"),
            chat_template_json: bytes("chat_template.json"),
        });
        ModelFiles::assemble(
            name.into(),
            checkpoint,
            &config,
            || Ok(text(MODELOPT_CONFIG).map(Into::into)),
            text("generation_config.json").as_deref(),
            tokenizer,
            || {
                let read = |name: &str| Ok(text(name).map(Into::into));
                SentenceTransformer::from_files(&read, &|folder| {
                    let name = format!("{folder}/model.safetensors");
                    let weights = files.get(&name).cloned().unwrap_or_default();
                    Ok(Checkpoint::from_bytes(&name, weights)?)
                })
            },
        )
    }

    /// Opens a model in memory, in GGUF.
    ///
    /// # Errors
    ///
    /// If the bytes are damaged or the architecture cannot be used.
    pub fn from_bytes(
        name: &str,
        bytes: impl Into<FileBytes>,
    ) -> Result<ModelFiles, ModelFilesError> {
        ModelFiles::from_gguf(name.into(), Checkpoint::from_bytes(name, bytes)?)
    }

    /// Assembles a model in Hugging Face's layout from the texts of its configurations. That of ModelOpt is read if
    /// `config.json` does not say how weights are quantised.
    fn assemble(
        name: String,
        mut checkpoint: Checkpoint,
        config: &str,
        modelopt_config: impl FnOnce() -> Result<Option<String>, ModelFilesError>,
        generation_config: Option<&str>,
        tokenizer: Result<Tokenizer, TokenizerError>,
        sentence_transformer: impl FnOnce() -> Result<SentenceTransformer, ModelFilesError>,
    ) -> Result<ModelFiles, ModelFilesError> {
        let mut model_spec = ModelSpec::from_config(config)?;
        let huggingface_config = python_json::parse(config.as_bytes()).ok();
        let mut quantization = match &huggingface_config {
            Some(config) => QuantizationConfig::from_config(config)?,
            None => None,
        };
        if quantization.is_none()
            && let Some(text) = modelopt_config()?
        {
            let config = python_json::parse(text.as_bytes());
            let config = config.map_err(|error| ModelFilesError::File {
                file: MODELOPT_CONFIG.into(),
                problem: error.to_string(),
            })?;
            quantization = QuantizationConfig::from_modelopt_config(&config)?;
        }
        if let Some(quantization) = quantization {
            checkpoint.join_quantized(&quantization)?;
        }
        if let Some((from, to)) = tied_name(&model_spec, &checkpoint) {
            checkpoint.rename(&from, &to);
        }
        let sentence_transformer = sentence_transformer()?;
        // Only the files of models that embed texts list modules.
        if sentence_transformer.normalizes.is_some() {
            model_spec.spec.embed_texts();
        }
        let stop_tokens = stop_tokens(&tokenizer, config, generation_config);
        let sampling_defaults = generation_config.map(SamplingDefaults::from_generation_config);
        Ok(ModelFiles {
            name,
            checkpoint,
            directory: None,
            model_spec,
            huggingface_config,
            tokenizer,
            stop_tokens,
            sampling_defaults: sampling_defaults.unwrap_or_default(),
            sentence_transformer,
        })
    }

    fn from_gguf(name: String, checkpoint: Checkpoint) -> Result<ModelFiles, ModelFilesError> {
        let file = checkpoint.file_names().next().unwrap_or(&name).to_string();
        let model_spec = ModelSpec::from_gguf(&checkpoint, &file)?;
        let metadata = GgufMetadata::new(&checkpoint, &file)?;
        let pooling_type = metadata.optional_u32("pooling_type")?;
        let mut sentence_transformer = SentenceTransformer::from_gguf(pooling_type);
        // EmbeddingGemma's, under the numbers of their modules.
        for name in ["dense_2.weight", "dense_3.weight"] {
            let layer = Dense::plain(&checkpoint, name);
            let problem = |problem| ModelFilesError::File {
                file: file.clone(),
                problem,
            };
            sentence_transformer.dense.extend(layer.map_err(problem)?);
        }
        let tokenizer = tokenizer(&checkpoint);
        let stop_tokens = match &tokenizer {
            Ok(tokenizer) => tokenizer.end_of_generation().clone(),
            Err(_) => BTreeSet::new(),
        };
        let sampling_defaults = checkpoint.gguf().map(SamplingDefaults::from_gguf);
        Ok(ModelFiles {
            name,
            checkpoint,
            directory: None,
            model_spec,
            huggingface_config: None,
            tokenizer,
            stop_tokens,
            sampling_defaults: sampling_defaults.unwrap_or_default(),
            sentence_transformer,
        })
    }

    /// Makes a decoder judge documents: the scores are the logits of the answers `yes` and `no`, as Qwen3-Reranker
    /// was trained to give them. An encoder stays as it is.
    ///
    /// # Errors
    ///
    /// If the tokenizer lacks one of the answers.
    pub fn score_by_answers(&mut self) -> Result<(), ModelFilesError> {
        if self
            .model_spec
            .spec
            .encoder
            .is_some_and(|encoder| !encoder.causal || encoder.score.is_some())
        {
            return Ok(());
        }
        let file_error = |problem: String| ModelFilesError::File {
            file: self.name.clone(),
            problem,
        };
        let tokenizer = self.tokenizer.as_ref();
        let tokenizer = tokenizer.map_err(|error| file_error(error.to_string()))?;
        let token = |answer: &str| match tokenizer.encode(answer, false, false).as_deref() {
            // Not the token for unknown words.
            Ok([token]) if tokenizer.decode(&[*token], false).trim() == answer => Ok(*token),
            _ => Err(file_error(format!(
                "the vocabulary has no token {answer:?}, with which documents are judged"
            ))),
        };
        let answers = [token("yes")?, token("no")?];
        self.model_spec.spec.encoder = Some(EncoderSpec {
            score: Some(ScoreHead::answers(answers)),
            ..EncoderSpec::causal()
        });
        Ok(())
    }

    /// Renders a conversation with the model's chat template, up to where its answer starts, and
    /// encodes it. Text of messages is plain text, even where it spells a control token.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer or no chat template, or the template refuses the conversation.
    pub fn chat_prompt(&self, messages: &[Message]) -> Result<Vec<u32>, ModelFilesError> {
        let tokenizer = self.tokenizer.as_ref();
        let tokenizer = tokenizer.map_err(|error| ModelFilesError::File {
            file: self.name.clone(),
            problem: error.to_string(),
        })?;
        let templates = ChatTemplates::new(tokenizer);
        let prompt = prepare_chat(&self.name, &templates, &ChatRequest::new(messages))?;
        Ok(prompt.tokens)
    }
}

/// Returns the name of the output layer and that of the embedding, if the model has one tensor for both and the
/// checkpoint stores it as the output layer. transformers drops one of two tensors that share memory, and which one
/// depends on the order in which it meets them.
fn tied_name(model: &ModelSpec, checkpoint: &Checkpoint) -> Option<(String, String)> {
    let names = model.tensor_names();
    let exists = |name: &str| checkpoint.find(name).is_some();
    let output = format!("{}.weight", names.output);
    if !model.spec.tied || model.spec.encoder.is_some() || !exists(&output) {
        return None;
    }
    let weight = |prefix: &str, name: &str| format!("{prefix}{name}.weight");
    let mut prefixes = names.prefixes.iter();
    if prefixes.any(|prefix| exists(&weight(prefix, &names.embedding))) {
        return None;
    }
    // The embedding would tell the prefix; the last norm stands in for it.
    let mut prefixes = names.prefixes.iter();
    let prefix = prefixes.find(|prefix| exists(&weight(prefix, &names.final_norm)))?;
    Some((output, weight(prefix, &names.embedding)))
}

/// Reads the `generation_config.json` of a directory; `None` if there is none.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn read_generation_config(
    directory: &std::path::Path,
) -> Result<Option<String>, ModelFilesError> {
    read_optional(directory, "generation_config.json")
}

/// Reads a configuration of a directory; `None` if there is none.
#[cfg(not(target_arch = "wasm32"))]
fn read_optional(
    directory: &std::path::Path,
    name: &str,
) -> Result<Option<String>, ModelFilesError> {
    let path = directory.join(name);
    match read_small_text(&path, FileKind::Config) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ModelFilesError::File {
            file: path.display().to_string(),
            problem: error.to_string(),
        }),
    }
}

/// Reads the `config.json` of a directory.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn read_config(directory: &std::path::Path) -> Result<String, ModelFilesError> {
    let path = directory.join("config.json");
    read_small_text(&path, FileKind::Config).map_err(|error| ModelFilesError::File {
        file: path.display().to_string(),
        problem: match error.kind() {
            std::io::ErrorKind::NotFound => {
                "it is missing: a directory needs the checkpoint's config.json".into()
            }
            _ => error.to_string(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantisation_is_read_beside_infinite_numbers() {
        let config =
            br#"{"architectures": ["NemotronHForCausalLM"], "time_step_limit": [0.0, Infinity],
            "quantization_config": {"quant_method": "aqlm"}}"#;
        let files = HashMap::from([("config.json".to_string(), config.to_vec())]);
        let weights = b"\x02\0\0\0\0\0\0\0{}".to_vec();
        let weights = Checkpoint::from_bytes("model.safetensors", weights).unwrap();
        let error = ModelFiles::from_files("model", weights, &files).unwrap_err();
        assert!(error.to_string().contains("aqlm"), "{error}");
    }
}
