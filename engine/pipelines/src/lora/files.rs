//! The files of an adapter.

#[cfg(not(target_arch = "wasm32"))]
use wisp_files::{FileKind, read_small_text};
use wisp_weights::{Checkpoint, FileBytes};

use super::{adapter_config::AdapterConfig, error::LoraError};

/// PEFT's name of an adapter's configuration.
const CONFIG: &str = "adapter_config.json";

/// PEFT's name of an adapter's weights.
const WEIGHTS: &str = "adapter_model.safetensors";

/// An adapter as PEFT writes it, before it is loaded to a device.
#[derive(Debug)]
pub struct AdapterFiles {
    pub(super) config: AdapterConfig,
    /// The configuration's name, for error messages.
    pub(super) config_file: String,
    pub(super) weights: Checkpoint,
}

impl AdapterFiles {
    /// The names of the files in an adapter's folder.
    pub const NAMES: [&str; 2] = [CONFIG, WEIGHTS];

    /// Opens a folder with `adapter_config.json` and `adapter_model.safetensors`. The weights are
    /// mapped, so the file must not change before the adapter is loaded.
    ///
    /// # Errors
    ///
    /// If a file is missing or damaged, or the adapter has more than low-rank products.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<AdapterFiles, LoraError> {
        let invalid = |problem: String| LoraError::InvalidPath {
            path: path.display().to_string(),
            problem,
        };
        if !path.exists() {
            return Err(invalid("it does not exist".into()));
        }
        if !path.is_dir() {
            return Err(invalid("it is not a folder".into()));
        }
        for file in AdapterFiles::NAMES {
            if !path.join(file).exists() {
                return Err(invalid(format!("{file} is missing")));
            }
        }
        let config_path = path.join(CONFIG);
        let unreadable = |problem: String| LoraError::Config {
            file: config_path.display().to_string(),
            problem,
        };
        let config = read_small_text(&config_path, FileKind::Config);
        let config = config.map_err(|error| unreadable(error.to_string()))?;
        let weights = Checkpoint::open(path.join(WEIGHTS))?;
        AdapterFiles::new(config_path.display().to_string(), &config, weights)
    }

    /// Opens an adapter in memory: the text of its `adapter_config.json` and the bytes of its
    /// `adapter_model.safetensors`.
    ///
    /// # Errors
    ///
    /// If they are damaged, or the adapter has more than low-rank products.
    pub fn from_bytes(
        config: &str,
        weights: impl Into<FileBytes>,
    ) -> Result<AdapterFiles, LoraError> {
        let weights = Checkpoint::from_bytes(WEIGHTS, weights)?;
        AdapterFiles::new(CONFIG.into(), config, weights)
    }

    fn new(
        config_file: String,
        config: &str,
        weights: Checkpoint,
    ) -> Result<AdapterFiles, LoraError> {
        let config = AdapterConfig::parse(config).map_err(|problem| LoraError::Config {
            file: config_file.clone(),
            problem,
        })?;
        Ok(AdapterFiles {
            config,
            config_file,
            weights,
        })
    }

    /// The name of the file of weights, for error messages.
    pub(super) fn weights_file(&self) -> String {
        self.weights.file_names().next().unwrap_or(WEIGHTS).into()
    }
}
