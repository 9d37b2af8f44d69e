//! Which device to use: `auto`, `host`, `vulkan:1`, …

use std::{fmt, str::FromStr};

use wisp_types::Api;

use crate::DeviceError;

/// Which device to use, as [`Device::open`](crate::Device::open) takes it. Its text form is `auto`, or an
/// interface (`host`, `vulkan`, `metal`, `dx12`, `gl`, `cuda`) with `:INDEX` to choose one of its adapters.
///
/// ```
/// use wisp_device::{Api, DeviceSpec};
///
/// let second: DeviceSpec = "vulkan:1".parse()?;
/// assert_eq!(second, DeviceSpec::Adapter { api: Api::Vulkan, index: 1 });
/// assert_eq!(second.to_string(), "vulkan:1");
/// # Ok::<(), wisp_device::DeviceError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceSpec {
    /// The best real GPU if there is one, else the host. Software adapters, OpenGL, CUDA, and DX12 without
    /// `dxcompiler.dll` are used only if they are asked for by interface: [`SkipReason`](crate::SkipReason) says why.
    #[default]
    Auto,
    /// One adapter of an interface.
    Adapter {
        /// The graphics API of the adapter, or `Api::Host` for the CPU.
        api: Api,
        /// The adapter's place among those of the interface, the best first.
        index: usize,
    },
}

impl DeviceSpec {
    /// The host CPU.
    pub(crate) const HOST: DeviceSpec = DeviceSpec::Adapter {
        api: Api::Host,
        index: 0,
    };
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
            "cuda" => Api::Cuda,
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

impl serde::Serialize for DeviceSpec {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for DeviceSpec {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_parsed_and_displayed() {
        for text in [
            "auto", "host", "vulkan", "vulkan:2", "metal", "dx12", "gl:1", "cuda", "cuda:1",
        ] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap().to_string(), text);
        }
        for text in ["", "auto:1", "gpu", "vulkan:", "vulkan:x"] {
            let expected = format!(
                "unknown device {text:?}: use auto, host, vulkan, metal, dx12, gl or cuda, with :INDEX to choose one of several"
            );
            let error = text.parse::<DeviceSpec>().unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
