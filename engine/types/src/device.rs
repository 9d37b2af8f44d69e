//! What is known of a device: its interface and its capabilities.

use std::fmt;

/// The programming interface that reaches a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Api {
    Host,
    Vulkan,
    Metal,
    Dx12,
    Gl,
    WebGpu,
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
        })
    }
}

/// What a device is called and what it can do.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct DeviceInfo {
    /// The adapter's own name.
    pub name: String,
    /// The programming interface that reaches it.
    pub api: Api,
    /// True for an adapter that runs on the CPU (lavapipe, SwiftShader, WARP).
    pub software: bool,
    /// True for an integrated GPU, which shares the host's memory.
    pub integrated: bool,
    /// The driver's name and version.
    pub driver: String,
    /// What programs may rely on.
    pub capabilities: Capabilities,
}

/// What a program may rely on when it is compiled for a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Capabilities {
    /// Largest storage binding in bytes.
    pub max_binding_bytes: u64,
    /// Largest buffer in bytes.
    pub max_buffer_bytes: u64,
    /// Invocations in one workgroup.
    pub max_workgroup_invocations: u32,
    /// Workgroup memory in bytes.
    pub max_workgroup_bytes: u32,
    /// Storage buffers one kernel may bind.
    pub max_storage_buffers: u32,
    /// Workgroups in one dimension of a dispatch.
    pub max_workgroups: u32,
    /// Subgroup operations.
    pub subgroups: bool,
    /// The least size of a subgroup; 0 without them.
    pub min_subgroup_size: u32,
    /// `f16` in shaders.
    pub f16: bool,
    /// Runs on a CPU: kernels that avoid workgroup memory and barriers are faster there.
    pub software: bool,
}

impl Capabilities {
    /// What every WebGPU implementation guarantees.
    pub const BASELINE: Capabilities = Capabilities {
        max_binding_bytes: 128 << 20,
        max_buffer_bytes: 256 << 20,
        max_workgroup_invocations: 256,
        max_workgroup_bytes: 16 << 10,
        max_storage_buffers: 8,
        max_workgroups: 65535,
        subgroups: false,
        min_subgroup_size: 0,
        f16: false,
        software: false,
    };

    /// The host: memory in one piece, kernels replaced by twins.
    pub const HOST: Capabilities = Capabilities {
        max_binding_bytes: u64::MAX,
        max_buffer_bytes: u64::MAX,
        ..Capabilities::BASELINE
    };
}

/// A call's parameters start at a multiple of this, the largest alignment that WebGPU may ask of
/// a uniform binding.
pub const PARAMS_STRIDE: u64 = 256;
