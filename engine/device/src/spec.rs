//! Choosing a device: `auto`, `host`, `vulkan:1`, …

use std::{fmt, str::FromStr};

use super::{Api, Device, DeviceError, DeviceInfo};

/// Which device to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceSpec {
    /// A real GPU if there is one, else the host. A software adapter only when asked for by name.
    #[default]
    Auto,
    /// The adapter at this index among those of one interface.
    Adapter {
        /// The interface.
        api: Api,
        /// Counts the adapters of that interface, best first.
        index: usize,
    },
}

impl FromStr for DeviceSpec {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || DeviceError::UnknownDevice(text.into());
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, index.parse().map_err(|_| unknown())?),
            None => (text, 0),
        };
        let api = match name {
            "auto" if !text.contains(':') => return Ok(DeviceSpec::Auto),
            "host" => Api::Host,
            "vulkan" => Api::Vulkan,
            "metal" => Api::Metal,
            "dx12" => Api::Dx12,
            "gl" => Api::Gl,
            "cuda" => {
                return Err(DeviceError::NoAdapter {
                    wanted: "cuda".into(),
                    found: Vec::new(),
                    hint: "This build has no CUDA backend; NVIDIA cards work through --device vulkan.",
                });
            }
            _ => return Err(unknown()),
        };
        Ok(DeviceSpec::Adapter { api, index })
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSpec::Auto => f.write_str("auto"),
            DeviceSpec::Adapter { api, index: 0 } => write!(f, "{api}"),
            DeviceSpec::Adapter { api, index } => write!(f, "{api}:{index}"),
        }
    }
}

/// How much of an adapter to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureLevel {
    /// All that the adapter offers.
    #[default]
    Full,
    /// Only what every browser guarantees.
    Baseline,
}

impl FromStr for FeatureLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "full" => Ok(FeatureLevel::Full),
            "baseline" => Ok(FeatureLevel::Baseline),
            _ => Err(format!("unknown profile {text:?}: use full or baseline")),
        }
    }
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FeatureLevel::Full => "full",
            FeatureLevel::Baseline => "baseline",
        })
    }
}

/// serde by the text that `Display` writes and `FromStr` reads.
macro_rules! serde_as_text {
    ($($name:ident),*) => { $(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )* };
}
serde_as_text!(DeviceSpec, FeatureLevel);

/// Every device of this machine, the host last; each with the name that [`DeviceSpec`] reads.
pub async fn list() -> Vec<(DeviceSpec, DeviceInfo)> {
    #[allow(
        unused_mut,
        reason = "there are only host devices without the wgpu feature"
    )]
    let mut devices = Vec::new();
    #[cfg(feature = "wgpu")]
    {
        devices.extend(super::wgpu::list().await);
    }
    devices.push((
        DeviceSpec::Adapter {
            api: Api::Host,
            index: 0,
        },
        super::host::info(0),
    ));
    devices
}

pub(super) async fn open(
    spec: &DeviceSpec,
    profile: FeatureLevel,
    num_threads: usize,
) -> Result<Device, DeviceError> {
    match spec {
        DeviceSpec::Adapter { api: Api::Host, .. } => Device::host(num_threads),
        #[cfg(feature = "wgpu")]
        DeviceSpec::Auto => match super::wgpu::open_gpu(profile).await {
            Ok(device) => Ok(device),
            Err(DeviceError::NoAdapter { .. }) => Device::host(num_threads),
            Err(other) => Err(other),
        },
        #[cfg(feature = "wgpu")]
        DeviceSpec::Adapter { api, index } => super::wgpu::open(*api, *index, profile).await,
        #[cfg(not(feature = "wgpu"))]
        DeviceSpec::Auto => Device::host(num_threads),
        #[cfg(not(feature = "wgpu"))]
        DeviceSpec::Adapter { api, .. } => {
            let _ = profile;
            Err(DeviceError::NoAdapter {
                wanted: api.to_string(),
                found: vec!["host".into()],
                hint: "This build has only the host device: build with the feature `wgpu`.",
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_read_and_written() {
        for text in [
            "auto", "host", "vulkan", "vulkan:2", "metal", "dx12", "gl:1",
        ] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap().to_string(), text);
        }
        for text in ["", "auto:1", "gpu", "vulkan:", "vulkan:x"] {
            let expected = format!(
                "unknown device {text:?}: use auto, host, vulkan, metal, dx12 or gl, with :INDEX to choose one of several"
            );
            let error = text.parse::<DeviceSpec>().unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(
            "cuda".parse::<DeviceSpec>().unwrap_err().to_string(),
            "no cuda device found. This build has no CUDA backend; NVIDIA cards work through --device vulkan."
        );
    }

    #[test]
    fn profiles_are_read_and_written() {
        for text in ["full", "baseline"] {
            assert_eq!(text.parse::<FeatureLevel>().unwrap().to_string(), text);
        }
        assert_eq!(
            "half".parse::<FeatureLevel>().unwrap_err(),
            "unknown profile \"half\": use full or baseline"
        );
    }
}
