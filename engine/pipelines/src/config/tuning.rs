//! Where a model's preferred kernels come from.

use serde::{Deserialize, Serialize};

/// Where the kernels come from that were measured to be the fastest on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum TuningSource {
    /// The cache, if the device has been tuned.
    #[default]
    Auto,
    /// Nowhere: the default kernels run.
    Off,
    /// A file that `wisp tune --out` wrote.
    File(String),
}

impl From<String> for TuningSource {
    fn from(text: String) -> TuningSource {
        match text.as_str() {
            "auto" => TuningSource::Auto,
            "off" => TuningSource::Off,
            _ => TuningSource::File(text),
        }
    }
}

impl From<TuningSource> for String {
    fn from(source: TuningSource) -> String {
        match source {
            TuningSource::Auto => "auto".into(),
            TuningSource::Off => "off".into(),
            TuningSource::File(path) => path,
        }
    }
}
