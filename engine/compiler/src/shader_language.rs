//! The languages that drivers take kernels in.

/// A language that a driver takes kernels in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ShaderLanguage {
    /// WebGPU's.
    Wgsl,
    /// Vulkan's.
    Spirv,
    /// Metal's.
    Msl,
    /// Direct3D's.
    Hlsl,
    /// OpenGL's, as OpenGL ES 3.1 has it.
    Glsl,
    /// CUDA C++, for NVIDIA's GPUs.
    Cuda,
}
