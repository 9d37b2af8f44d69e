//! How a device is reached and what is known about it.

use std::fmt;

use serde::Serialize;

use crate::Capabilities;

/// The programming interface through which a device is reached.
///
/// Its names, in lower case, are those of the command line's `--device` and of JSON output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// The host CPU, which runs the Rust twins of the kernels.
    Host,
    /// Vulkan.
    Vulkan,
    /// Apple's Metal.
    Metal,
    /// DirectX 12.
    Dx12,
    /// OpenGL or OpenGL ES.
    Gl,
    /// A browser's WebGPU.
    WebGpu,
    /// NVIDIA's CUDA.
    Cuda,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Api::Host => "host",
            Api::Vulkan => "vulkan",
            Api::Metal => "metal",
            Api::Dx12 => "dx12",
            Api::Gl => "gl",
            Api::WebGpu => "webgpu",
            Api::Cuda => "cuda",
        })
    }
}

/// The identity of a device and what it can do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceInfo {
    /// The adapter's name, as its driver reports it.
    pub name: String,
    /// The programming interface through which the device is reached.
    pub api: Api,
    /// True for an adapter that runs kernels on a CPU, such as lavapipe, SwiftShader or WARP, whichever
    /// class of kernels it runs.
    pub software: bool,
    /// True for an integrated GPU, which shares the host's memory.
    pub integrated: bool,
    /// The driver's name and version; may be empty.
    pub driver: String,
    /// What programs that run on the device may rely on.
    pub capabilities: Capabilities,
}

impl DeviceInfo {
    /// Returns the class of kernels that programs use on the device, `gpu` or `software`; `None` for the
    /// host, which runs the kernels' twins.
    pub fn device_class(&self) -> Option<&'static str> {
        match (self.api, self.capabilities.software_kernels) {
            (Api::Host, _) => None,
            (_, true) => Some("software"),
            (_, false) => Some("gpu"),
        }
    }

    /// Returns whether an adapter runs kernels of another class than its own.
    pub fn poses(&self) -> bool {
        self.api != Api::Host && self.capabilities.software_kernels != self.software
    }
}
