//! Tunings as JSON, in the cache on disk or in a file of the user's.

use wisp_compiler::Tuning;

/// The version of the format.
const FORMAT: u32 = 1;

/// The most bytes of a tuning that is read.
const MAX_BYTES: usize = 1 << 20;

/// Why a text holds no tuning for this build.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuningError {
    /// Occurs when the text is no tuning in JSON.
    #[error("it is no tuning of `wisp tune`: {0}")]
    Contents(#[from] serde_json::Error),
    /// Occurs when the text is longer than any tuning.
    #[error("it is no tuning of `wisp tune`: it has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// Occurs when the tuning has another format, or was measured with other kernels.
    #[error(
        "it was measured with other kernels than this build of Wisp has: run `wisp tune` again"
    )]
    Stale,
    /// Occurs when a file holds no tuning for this build.
    #[cfg(not(target_arch = "wasm32"))]
    #[error("{}: {source}", path.display())]
    File {
        /// The file's path.
        path: std::path::PathBuf,
        /// What is wrong with it.
        source: Box<TuningError>,
    },
    /// Occurs when a file cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    format: u32,
    tuning: Tuning,
}

/// Writes a tuning as JSON.
pub fn to_json(tuning: &Tuning) -> String {
    let contents = Contents {
        format: FORMAT,
        tuning: tuning.clone(),
    };
    // JSON can hold every tuning; an empty text is no tuning.
    serde_json::to_string(&contents).unwrap_or_default()
}

/// Reads the JSON that [`to_json`] wrote. Anyone may have written it: what does not fit a device has no effect
/// there.
///
/// # Errors
///
/// If it is no tuning, or one of other kernels.
pub fn from_json(text: &[u8]) -> Result<Tuning, TuningError> {
    if text.len() > MAX_BYTES {
        return Err(TuningError::TooLarge);
    }
    let contents: Contents = serde_json::from_slice(text)?;
    match contents.format == FORMAT && contents.tuning.is_current() {
        true => Ok(contents.tuning),
        false => Err(TuningError::Stale),
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub use files::{load, read, store, write};

#[cfg(not(target_arch = "wasm32"))]
mod files {
    use std::path::Path;

    use wisp_compiler::{Precision, Tuning};
    use wisp_files::{CacheEntry, DiskCache, FileKind, read_small, write_atomic};
    use wisp_types::{DeviceInfo, digest};

    use super::{TuningError, from_json, to_json};

    fn at<T, E: Into<TuningError>>(path: &Path, done: Result<T, E>) -> Result<T, TuningError> {
        done.map_err(|error| TuningError::File {
            path: path.into(),
            source: Box::new(error.into()),
        })
    }

    /// Reads a tuning from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no tuning, or one of other kernels.
    pub fn read(path: &Path) -> Result<Tuning, TuningError> {
        let text = at(path, read_small(path, FileKind::Settings))?;
        at(path, from_json(&text))
    }

    /// Writes a tuning to a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(path: &Path, tuning: &Tuning) -> Result<(), TuningError> {
        at(path, write_atomic(path, to_json(tuning).as_bytes()))
    }

    /// The name of a device's tuning in the cache: one for each adapter, driver, class and feature level, and
    /// for each precision and set of kernels.
    fn name(device: &DeviceInfo, precision: Precision) -> String {
        let DeviceInfo { name, driver, .. } = device;
        let (api, capabilities) = (device.api.to_string(), format!("{:?}", device.capabilities));
        let parts = [name, driver, &api, &capabilities, precision.name()];
        let parts = parts.map(|part| part.as_bytes().to_vec());
        let kernels = wisp_shaders::fingerprint().to_vec();
        CacheEntry::Tuning.file_name(&digest(parts.into_iter().chain([kernels])))
    }

    /// Returns the tuning of a device at a precision in the cache, if it has been measured.
    pub fn load(cache: &DiskCache, device: &DeviceInfo, precision: Precision) -> Option<Tuning> {
        from_json(&cache.read(&name(device, precision))?).ok()
    }

    /// Writes the tuning of a device at a precision to the cache, for [`load`]. What goes wrong is ignored, as the
    /// cache does.
    pub fn store(cache: &DiskCache, device: &DeviceInfo, precision: Precision, tuning: &Tuning) {
        cache.write(&name(device, precision), to_json(tuning).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use wisp_compiler::{CallShape, KernelChoice, Precision, TunedCall};

    use super::*;

    fn tuning() -> Tuning {
        let shape = CallShape {
            op: "softmax".into(),
            cols: 0,
            width: 0,
        };
        let kernels = vec![KernelChoice {
            name: "softmax.baseline".into(),
            max_rows: u32::MAX,
        }];
        Tuning::new(vec![TunedCall { shape, kernels }])
    }

    #[test]
    fn tunings_round_trip_and_other_texts_are_refused() {
        let json = to_json(&tuning());
        assert_eq!(from_json(json.as_bytes()).unwrap(), tuning());
        let refused = |text: &str| from_json(text.as_bytes()).unwrap_err().to_string();
        assert!(refused("").starts_with("it is no tuning"));
        assert!(refused("{\"format\":1}").contains("tuning"));
        assert!(refused(&json.replace("\"op\"", "\"ops\"")).starts_with("it is no tuning"));
        assert!(refused(&"[".repeat(100_000)).starts_with("it is no tuning"));
        assert!(refused(&" ".repeat(MAX_BYTES + 1)).contains("more than"));
        assert!(refused(&json.replace("\"format\":1", "\"format\":2")).contains("run `wisp tune`"));
        let kernels = json.split("\"kernels\":\"").nth(1).unwrap();
        let stale = json.replace(&kernels[..64], &"0".repeat(64));
        assert!(refused(&stale).contains("other kernels"));
    }

    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn the_cache_has_one_tuning_for_each_device_feature_level_and_precision() {
        use wisp_types::{Api, Capabilities, DeviceInfo};

        let folder = tempfile::tempdir().unwrap();
        let cache = wisp_files::DiskCache::new(folder.path().join("cache"));
        let device = DeviceInfo {
            name: "a GPU".into(),
            api: Api::Vulkan,
            software: false,
            integrated: false,
            driver: "1.0".into(),
            capabilities: Capabilities::BASELINE,
        };
        assert_eq!(load(&cache, &device, Precision::Exact), None);
        store(&cache, &device, Precision::Exact, &tuning());
        assert_eq!(load(&cache, &device, Precision::Exact), Some(tuning()));
        assert_eq!(load(&cache, &device, Precision::F16), None);
        type Change = fn(&mut DeviceInfo);
        let changes: [Change; 4] = [
            |it| it.name.push('2'),
            |it| it.driver.push('2'),
            |it| it.api = Api::Metal,
            |it| it.capabilities.f16 = true,
        ];
        for change in changes {
            let mut other = device.clone();
            change(&mut other);
            assert_eq!(load(&cache, &other, Precision::Exact), None);
        }
    }
}
