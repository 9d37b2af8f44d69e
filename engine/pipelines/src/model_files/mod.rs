//! A model's files together: weights, configuration, tokenizer.

use std::collections::{BTreeSet, HashMap};

use serde_json::Map;

pub mod sentence_transformers;

use crate::{
    PipelineError,
    architectures::{self, GgufConfig, ModelSpec},
    chat_template::{ChatTemplate, Message},
    tokenizer::{HuggingFaceFiles, Metadata, Tokenizer, TokenizerError},
};
use sentence_transformers::SentenceTransformer;
use wisp_weights::{
    Checkpoint, FileBytes,
    gguf::{Gguf, Strings},
};

/// What a model's files say, before anything is loaded to a device.
#[derive(Debug)]
pub struct ModelFiles {
    /// What the user calls the model.
    pub name: String,
    /// The weights.
    pub checkpoint: Checkpoint,
    /// The folder with `config.json` and the tokenizer, unless the model is in GGUF.
    pub directory: Option<std::path::PathBuf>,
    /// The architecture and its sizes.
    pub model_spec: ModelSpec,
    /// What describes the model in Hugging Face's layout; `None` in GGUF.
    pub huggingface_config: Option<serde_json::Value>,
    /// The tokenizer, or why there is none; token ids work without.
    pub tokenizer: Result<Tokenizer, TokenizerError>,
    /// Tokens that end a text.
    pub stop_tokens: BTreeSet<u32>,
    /// Of an encoder: how its embeddings are made.
    pub sentence_transformer: SentenceTransformer,
}

impl ModelFiles {
    /// Opens a `.gguf` file, or a directory in Hugging Face's layout.
    ///
    /// # Errors
    ///
    /// If the files cannot be read, or the architecture is unknown. A missing tokenizer is no error yet.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<ModelFiles, PipelineError> {
        let name = path.display().to_string();
        ModelFiles::from_checkpoint(&name, Checkpoint::open(path)?, None)
    }

    /// The model of a checkpoint on disk. Unless it is in GGUF, what describes it stands in
    /// `directory`, or else beside the weights.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn from_checkpoint(
        name: &str,
        checkpoint: Checkpoint,
        directory: Option<&std::path::Path>,
    ) -> Result<ModelFiles, PipelineError> {
        let name = name.to_string();
        if checkpoint.gguf().is_some() {
            return ModelFiles::from_gguf(name, checkpoint);
        }
        let beside = checkpoint.directory().unwrap_or(std::path::Path::new("."));
        let directory = directory.unwrap_or(beside).to_path_buf();
        let config = read(&directory.join("config.json"))?;
        let generation = std::fs::read_to_string(directory.join("generation_config.json"));
        let files = ModelFiles::assemble(
            name,
            checkpoint,
            &config,
            generation.ok().as_deref(),
            Tokenizer::from_dir(&directory),
            || SentenceTransformer::from_directory(&directory),
        )?;
        Ok(ModelFiles {
            directory: Some(directory),
            ..files
        })
    }

    /// The model of a checkpoint whose other files are in memory, by their names beside the weights.
    /// Of a checkpoint in GGUF no others are needed.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn from_files(
        name: &str,
        checkpoint: Checkpoint,
        files: &HashMap<String, Vec<u8>>,
    ) -> Result<ModelFiles, PipelineError> {
        if checkpoint.gguf().is_some() {
            return ModelFiles::from_gguf(name.into(), checkpoint);
        }
        let bytes = |name: &str| files.get(name).map(Vec::as_slice);
        let text = |name: &str| bytes(name).map(String::from_utf8_lossy);
        let config = text("config.json").ok_or_else(|| PipelineError::Config {
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
            text("generation_config.json").as_deref(),
            tokenizer,
            || SentenceTransformer::from_files(&|name| Ok(text(name).map(Into::into))),
        )
    }

    /// A model in Hugging Face's layout.
    fn assemble(
        name: String,
        checkpoint: Checkpoint,
        config: &str,
        generation: Option<&str>,
        tokenizer: Result<Tokenizer, TokenizerError>,
        sentence_transformer: impl FnOnce() -> Result<SentenceTransformer, PipelineError>,
    ) -> Result<ModelFiles, PipelineError> {
        let model_spec = architectures::from_hugging_face(config)?;
        let sentence_transformer = match model_spec.spec.encoder {
            Some(_) => sentence_transformer()?,
            None => SentenceTransformer::default(),
        };
        let stop_tokens = stop_tokens(&tokenizer, config, generation);
        Ok(ModelFiles {
            name,
            checkpoint,
            directory: None,
            model_spec,
            huggingface_config: serde_json::from_str(config).ok(),
            tokenizer,
            stop_tokens,
            sentence_transformer,
        })
    }

    /// A conversation as the model reads it, up to where its answer begins.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer or no chat template, or the template refuses the conversation.
    pub fn chat_prompt(&self, messages: &[Message]) -> Result<Vec<u32>, PipelineError> {
        chat_prompt(&self.name, &self.tokenizer, messages)
    }

    /// A model in memory, in GGUF.
    ///
    /// # Errors
    ///
    /// If the bytes are damaged, or the architecture is unknown.
    pub fn from_bytes(
        name: &str,
        bytes: impl Into<FileBytes>,
    ) -> Result<ModelFiles, PipelineError> {
        ModelFiles::from_gguf(name.into(), Checkpoint::from_bytes(name, bytes)?)
    }

    fn from_gguf(name: String, checkpoint: Checkpoint) -> Result<ModelFiles, PipelineError> {
        let file = checkpoint.file_names().next().unwrap_or(&name).to_string();
        let model_spec = architectures::from_gguf(&checkpoint, &file)?;
        let pooling_type = match model_spec.spec.encoder {
            Some(_) => GgufConfig::new(&checkpoint, &file)?.u32("pooling_type")?,
            None => None,
        };
        let tokenizer = tokenizer(&checkpoint);
        let stop_tokens = tokenizer
            .as_ref()
            .map(|tokenizer| tokenizer.eos().clone())
            .unwrap_or_default();
        Ok(ModelFiles {
            name,
            checkpoint,
            directory: None,
            model_spec,
            huggingface_config: None,
            tokenizer,
            stop_tokens,
            sentence_transformer: SentenceTransformer::from_gguf(pooling_type),
        })
    }
}

/// The tokenizer of a GGUF checkpoint; one that has nothing but a vocabulary will do.
///
/// # Errors
///
/// If there is none in the file, or it is of an unknown kind.
pub fn tokenizer(checkpoint: &Checkpoint) -> Result<Tokenizer, TokenizerError> {
    match checkpoint.gguf() {
        Some(gguf) => Tokenizer::from_gguf(&TokenizerMetadata::new(gguf)),
        #[cfg(not(target_arch = "wasm32"))]
        None => Tokenizer::from_dir(checkpoint.directory().unwrap_or(std::path::Path::new("."))),
        #[cfg(target_arch = "wasm32")]
        // There are no directories: whoever has the files calls `from_files`.
        None => Tokenizer::from_files(&HuggingFaceFiles::default()),
    }
}

/// A GGUF header as a tokenizer sees it.
struct TokenizerMetadata<'a> {
    gguf: &'a Gguf,
    /// The arrays of strings, which the header keeps in one piece.
    strings: HashMap<&'a str, Vec<String>>,
}

impl<'a> TokenizerMetadata<'a> {
    fn new(gguf: &'a Gguf) -> TokenizerMetadata<'a> {
        let tokenizer_keys = gguf
            .metadata
            .keys()
            .filter(|key| key.starts_with("tokenizer."));
        let strings = tokenizer_keys.filter_map(|key| {
            let strings: &Strings = gguf.get(key).ok()??;
            Some((key.as_str(), strings.iter().map(String::from).collect()))
        });
        TokenizerMetadata {
            gguf,
            strings: strings.collect(),
        }
    }
}

impl Metadata for TokenizerMetadata<'_> {
    fn string(&self, key: &str) -> Option<&str> {
        self.gguf.get(key).ok()?
    }

    fn strings(&self, key: &str) -> Option<&[String]> {
        self.strings.get(key).map(Vec::as_slice)
    }

    fn floats(&self, key: &str) -> Option<Vec<f32>> {
        self.gguf.get(key).ok()?
    }

    fn ints(&self, key: &str) -> Option<Vec<i64>> {
        self.gguf.get(key).ok()?
    }

    fn uint(&self, key: &str) -> Option<u64> {
        self.gguf.get(key).ok()?
    }

    fn boolean(&self, key: &str) -> Option<bool> {
        self.gguf.get(key).ok()?
    }

    fn keys_with_prefix(&self, prefix: &str) -> Vec<&str> {
        self.gguf
            .metadata
            .keys()
            .map(String::as_str)
            .filter(|key| key.starts_with(prefix))
            .collect()
    }
}

/// The tokens that end a text, by the tokenizer and the texts of `config.json` and
/// `generation_config.json`.
pub(crate) fn stop_tokens(
    tokenizer: &Result<Tokenizer, TokenizerError>,
    config: &str,
    generation: Option<&str>,
) -> BTreeSet<u32> {
    let tokenizer = tokenizer
        .iter()
        .flat_map(|tokenizer| tokenizer.eos().clone());
    let files = eos(config).into_iter();
    tokenizer
        .chain(files)
        .chain(generation.map(eos).unwrap_or_default())
        .collect()
}

/// A conversation as a model of this name and tokenizer reads it, up to where its answer begins.
pub(crate) fn chat_prompt(
    name: &str,
    tokenizer: &Result<Tokenizer, TokenizerError>,
    messages: &[Message],
) -> Result<Vec<u32>, PipelineError> {
    let tokenizer = tokenizer.as_ref();
    let tokenizer = tokenizer.map_err(|error| PipelineError::Config {
        file: name.into(),
        problem: error.to_string(),
    })?;
    render_chat(name, tokenizer, messages)
}

/// Renders a conversation with the chat template of a tokenizer, and encodes it.
pub(super) fn render_chat(
    name: &str,
    tokenizer: &Tokenizer,
    messages: &[Message],
) -> Result<Vec<u32>, PipelineError> {
    let problem = |problem: String| PipelineError::Config {
        file: name.into(),
        problem,
    };
    let source = tokenizer.chat_template(None).ok_or_else(|| {
        problem("it has no chat template: it can continue texts, but not converse".into())
    })?;
    let special = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
    let (bos, eos) = (special(tokenizer.bos()), special(tokenizer.eos_token()));
    let render = || ChatTemplate::new(source, &bos, &eos)?.render(messages, true, &Map::new());
    let text = render().map_err(|error| problem(error.to_string()))?;
    let mut tokens = tokenizer.encode(&text, false, true)?;
    // Most templates write BOS; some leave it to the tokenizer.
    if let Some(bos) = tokenizer
        .bos()
        .filter(|bos| tokenizer.adds_bos() && tokens.first() != Some(bos))
    {
        tokens.insert(0, bos);
    }
    Ok(tokens)
}

#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn read(path: &std::path::Path) -> Result<String, PipelineError> {
    std::fs::read_to_string(path).map_err(|error| PipelineError::Config {
        file: path.display().to_string(),
        problem: match error.kind() {
            std::io::ErrorKind::NotFound => {
                "it is missing: a directory needs the checkpoint's config.json".into()
            }
            _ => error.to_string(),
        },
    })
}

/// `eos_token_id` of a configuration: a number or a list of them.
fn eos(config: &str) -> Vec<u32> {
    let Ok(json) = serde_json::from_str::<serde_json::Value>(config) else {
        return Vec::new();
    };
    let ids = match json.get("eos_token_id") {
        Some(serde_json::Value::Array(ids)) => ids.clone(),
        Some(id) => vec![id.clone()],
        None => Vec::new(),
    };
    ids.iter()
        .filter_map(|id| u32::try_from(id.as_u64()?).ok())
        .collect()
}
