//! An adapter's files.

use super::{LoraError, adapter_config::AdapterConfig};
use wisp_weights::{Checkpoint, FileBytes};

/// What PEFT calls an adapter's files.
const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// The longest configuration that is read.
#[cfg(not(target_arch = "wasm32"))]
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// An adapter in PEFT's layout, before it is loaded to a device.
#[derive(Debug)]
pub struct AdapterFiles {
    pub(super) config: AdapterConfig,
    /// The configuration's name, for messages.
    pub(super) config_file: String,
    pub(super) weights: Checkpoint,
}

impl AdapterFiles {
    /// Opens a folder with `adapter_config.json` and `adapter_model.safetensors`. The files are mapped,
    /// so they must not be changed before the adapter is loaded.
    ///
    /// # Errors
    ///
    /// If they are not there, damaged, or ask for more than low-rank products.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<AdapterFiles, LoraError> {
        let invalid = |problem: String| LoraError::InvalidPath {
            path: path.display().to_string(),
            problem,
        };
        if !path.is_dir() {
            let is_there = path.exists();
            let problem = if is_there {
                "it is no folder"
            } else {
                "it does not exist"
            };
            return Err(invalid(problem.into()));
        }
        for file in [CONFIG, WEIGHTS] {
            if !path.join(file).is_file() {
                return Err(invalid(format!("{file} is missing")));
            }
        }
        let config_path = path.join(CONFIG);
        let unreadable = |problem: String| LoraError::Config {
            file: config_path.display().to_string(),
            problem,
        };
        let length = std::fs::metadata(&config_path).map_or(0, |metadata| metadata.len());
        if length > MAX_CONFIG_BYTES {
            return Err(unreadable(format!(
                "it is {length} bytes long, which no configuration is"
            )));
        }
        let config = std::fs::read_to_string(&config_path);
        let config = config.map_err(|error| unreadable(error.to_string()))?;
        let weights = Checkpoint::open(path.join(WEIGHTS))?;
        AdapterFiles::new(config_path.display().to_string(), &config, weights)
    }

    /// An adapter in memory: the text of its `adapter_config.json` and the bytes of its
    /// `adapter_model.safetensors`.
    ///
    /// # Errors
    ///
    /// If they are damaged, or ask for more than low-rank products.
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

    /// The name of the file of weights, for messages.
    pub(super) fn weights_file(&self) -> String {
        self.weights.file_names().next().unwrap_or(WEIGHTS).into()
    }
}
