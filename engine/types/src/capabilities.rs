//! What a program may rely on when it is compiled for a device.

use serde::{Deserialize, Serialize};

/// The limits and features of a device that a program may rely on when it is compiled for it.
///
/// Programs depend on nothing else of a device, so a program that is compiled for some capabilities runs on every
/// device with at least these limits and features, and with matrices of the same
/// [size](Capabilities::matrix_size) if the program uses matrices.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capabilities {
    /// The largest range of a buffer that one storage binding may cover, in bytes.
    pub max_binding_bytes: u64,
    /// The largest buffer, in bytes.
    pub max_buffer_bytes: u64,
    /// The largest number of invocations (threads) in one workgroup.
    pub max_workgroup_invocations: u32,
    /// The most memory that the invocations of a workgroup may share, in bytes.
    pub max_workgroup_bytes: u32,
    /// The largest number of storage buffers that one kernel may bind.
    pub max_storage_buffers: u32,
    /// The largest number of workgroups in one dimension of a dispatch.
    pub max_workgroups: u32,
    /// True if kernels may use subgroup operations.
    pub subgroups: bool,
    /// The smallest subgroup that a kernel may run with, in invocations; 0 without subgroups.
    pub min_subgroup_size: u32,
    /// True if kernels may use the type `f16`.
    pub f16: bool,
    /// The rows and columns of the cooperative matrices that kernels may use, of `f16` with sums in f32: 16, or 8 on
    /// devices without those of 16; 0 if there are none, as in browsers. Where there are any, subgroups have at most 64
    /// invocations.
    pub matrix_size: u32,
    /// True if kernels may use the matrix instructions `mma.m16n8k16` and `mma.m16n8k32`, with factors of `f16` and sums in f32 or
    /// factors of signed bytes and sums in i32: on NVIDIA's GPUs with tensor cores, through CUDA.
    pub mma: bool,
    /// True if programs use the kernels for software adapters, which avoid workgroup memory and barriers;
    /// false if they use those for GPUs. The choice affects only the speed. Unless the user chooses a
    /// class, it follows [`DeviceInfo::software`](crate::DeviceInfo::software).
    pub software_kernels: bool,
    /// True if the target is the host CPU, which runs Rust functions in place of kernels.
    pub is_host: bool,
}

impl Capabilities {
    /// What every WebGPU implementation guarantees: the default limits of the WebGPU specification, and
    /// no optional feature.
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
        matrix_size: 0,
        mma: false,
        software_kernels: false,
        is_host: false,
    };

    /// The host CPU: buffers and bindings of any size, and Rust functions in place of the baseline
    /// kernels.
    pub const HOST: Capabilities = Capabilities {
        max_binding_bytes: u64::MAX,
        max_buffer_bytes: u64::MAX,
        is_host: true,
        ..Capabilities::BASELINE
    };
}
