//! Compilation targets by name: the capabilities that a program may rely on and the shader languages
//! of the target's drivers.

use wisp_types::{Api, Capabilities, DeviceInfo};

use crate::{program::Program, select::lacking, shader_language::ShaderLanguage};

/// A target that programs are compiled for.
///
/// ```
/// use wisp_compiler::Target;
///
/// let names: Vec<&str> = Target::names().collect();
/// assert!(names.starts_with(&["browser", "baseline", "vulkan", "metal", "dx12", "gl", "host"]));
/// let error = Target::named("toaster").unwrap_err().to_string();
/// assert!(error.starts_with("there is no target \"toaster\"; there are browser, "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name, as [`Target::named`] takes it.
    pub name: String,
    /// The capabilities that programs may rely on.
    pub capabilities: Capabilities,
    /// The shader languages that kernels must be translatable to; none on the host, which runs twins.
    pub languages: &'static [ShaderLanguage],
}

/// What nearly every recent GPU and driver supports. Only the sizes exceed the baseline: no GPU kernel
/// needs other features, and a program that needs less runs on more GPUs.
const GPU: Capabilities = Capabilities {
    max_binding_bytes: 1 << 30,
    max_buffer_bytes: 1 << 30,
    ..Capabilities::BASELINE
};

/// An NVIDIA GPU of compute capability 7.5 or newer: what CUDA guarantees there. Not all of 7.5 have tensor cores.
#[cfg(feature = "cuda")]
const NVIDIA: Capabilities = Capabilities {
    max_workgroup_invocations: 1024,
    max_workgroup_bytes: 48 << 10,
    max_storage_buffers: 32,
    subgroups: true,
    min_subgroup_size: 32,
    f16: true,
    ..GPU
};

/// An NVIDIA GPU of compute capability 8.0 or newer.
#[cfg(feature = "cuda")]
const AMPERE: Capabilities = Capabilities {
    mma: true,
    ..NVIDIA
};

#[cfg(feature = "cuda")]
use ShaderLanguage::Cuda;
use ShaderLanguage::{Glsl, Hlsl, Msl, Spirv, Wgsl};

/// A row of the table of targets: name, capabilities, languages, description.
type Row = (
    &'static str,
    Capabilities,
    &'static [ShaderLanguage],
    &'static str,
);

const TARGETS: &[Row] = &[
    (
        "browser",
        Capabilities::BASELINE,
        &[Wgsl],
        "every browser with WebGPU",
    ),
    (
        "baseline",
        Capabilities::BASELINE,
        &[Wgsl, Spirv, Msl, Hlsl],
        "whatever WebGPU runs on",
    ),
    ("vulkan", GPU, &[Spirv], "GPUs with Vulkan"),
    ("metal", GPU, &[Msl], "Apple's GPUs"),
    ("dx12", GPU, &[Hlsl], "GPUs with Direct3D 12"),
    (
        "gl",
        Capabilities::BASELINE,
        &[Glsl],
        "GPUs with OpenGL 4.3 or OpenGL ES 3.1",
    ),
    ("host", Capabilities::HOST, &[], "the host CPU"),
    #[cfg(feature = "cuda")]
    ("sm_75", NVIDIA, &[Cuda], "NVIDIA's Turing GPUs and newer"),
    #[cfg(feature = "cuda")]
    ("sm_80", AMPERE, &[Cuda], "NVIDIA's Ampere GPUs and newer"),
    #[cfg(feature = "cuda")]
    ("sm_90", AMPERE, &[Cuda], "NVIDIA's Hopper GPUs and newer"),
    #[cfg(feature = "cuda")]
    ("sm_120", AMPERE, &[Cuda], "NVIDIA's Blackwell GPUs"),
];

/// Why a target cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Occurs when no target has this name.
    #[error("there is no target {name:?}; there are {}", Target::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name given.
        name: String,
    },
    /// Occurs when the name is that of an NVIDIA architecture.
    #[error(
        "{name} is not a target of this build: build Wisp with the feature cuda (targets sm_75, sm_80, sm_90 and sm_120), or use the target vulkan, which NVIDIA's drivers run"
    )]
    Cuda {
        /// The name given.
        name: String,
    },
    /// Occurs when a target cannot run all kernels of a program.
    #[error("{target} cannot run {}", .problems.join("; "))]
    Refused {
        /// Name of the target.
        target: String,
        /// Each such kernel with what the target lacks.
        problems: Vec<String>,
    },
}

impl Target {
    /// Returns the names of all targets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TARGETS.iter().map(|row| row.0)
    }

    /// Returns every target with a short description.
    pub fn all() -> impl Iterator<Item = (Target, &'static str)> {
        TARGETS.iter().map(|row| (Target::from_row(row), row.3))
    }

    fn from_row((name, capabilities, languages, _): &Row) -> Target {
        Target {
            name: name.to_string(),
            capabilities: capabilities.clone(),
            languages,
        }
    }

    /// Returns the target of this name.
    ///
    /// # Errors
    ///
    /// If no target has this name; the error lists the names of all targets.
    pub fn named(name: &str) -> Result<Target, TargetError> {
        if let Some(row) = TARGETS.iter().find(|row| row.0 == name) {
            return Ok(Target::from_row(row));
        }
        let name = name.to_string();
        Err(match name.starts_with("sm_") || name == "cuda" {
            true => TargetError::Cuda { name },
            false => TargetError::Unknown { name },
        })
    }

    /// Returns the target that describes an attached device.
    pub fn of(device: &DeviceInfo) -> Target {
        let languages: &[ShaderLanguage] = match device.api {
            Api::Host => &[],
            Api::Vulkan => &[Spirv],
            Api::Metal => &[Msl],
            Api::Dx12 => &[Hlsl],
            Api::Gl => &[Glsl],
            Api::WebGpu => &[Wgsl],
            #[cfg(feature = "cuda")]
            Api::Cuda => &[Cuda],
            #[cfg(not(feature = "cuda"))]
            Api::Cuda => &[],
        };
        Target {
            name: device.name.clone(),
            capabilities: device.capabilities.clone(),
            languages,
        }
    }

    /// The compute capability of a target that is an architecture of NVIDIA's GPUs: 80 for `sm_80`.
    pub fn cuda_architecture(&self) -> Option<u32> {
        self.name.strip_prefix("sm_")?.parse().ok()
    }

    /// Checks that the target has the capabilities that every kernel of a program needs and, in native
    /// builds with the feature `targets`, that every kernel can be translated to the target's
    /// languages.
    ///
    /// # Errors
    ///
    /// If there are kernels that the target cannot run; the error lists them with the reasons.
    pub fn check(&self, program: &Program) -> Result<(), TargetError> {
        let problems = [
            program.lacks(&self.capabilities),
            self.untranslatable(program),
        ]
        .concat();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(TargetError::Refused {
                target: self.name.clone(),
                problems,
            }),
        }
    }
}

impl Target {
    /// Returns the program's kernels that cannot be translated to the target's languages.
    #[cfg(all(feature = "targets", not(target_arch = "wasm32")))]
    fn untranslatable(&self, program: &Program) -> Vec<String> {
        let mut problems = Vec::new();
        for kernel in program.kernels() {
            for language in self.languages {
                let problem = crate::translate::translate(kernel, *language).err();
                problems.extend(problem.map(|problem| format!("{}: {problem}", kernel.name)));
            }
        }
        problems
    }

    /// Returns nothing: this build translates no kernels.
    #[cfg(not(all(feature = "targets", not(target_arch = "wasm32"))))]
    fn untranslatable(&self, _program: &Program) -> Vec<String> {
        Vec::new()
    }
}

impl Program {
    /// Describes the needs of the program that a device with these capabilities does not meet.
    pub fn lacks(&self, device: &Capabilities) -> Vec<String> {
        let kernels = self.kernels();
        let mut problems: Vec<String> = kernels.filter_map(|k| lacking(k, device)).collect();
        for matrix in &self.matrices {
            let layout = matrix.layout();
            let widest = layout.planes.iter().map(|(_, bytes)| *bytes).max();
            let needs = [
                ("one binding", widest.unwrap_or(0), device.max_binding_bytes),
                ("one buffer", layout.bytes, device.max_buffer_bytes),
            ];
            let exceeded = needs.iter().find(|(_, needed, limit)| needed > limit);
            if let Some((what, needed, limit)) = exceeded {
                let tensor = matrix.row_ranges.first();
                let tensor = tensor.map_or("", |range| range.tensor.as_str());
                problems.push(format!(
                    "{tensor} (it needs {needed} bytes in {what}, the limit is {limit})"
                ));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;
    use wisp_graph::{Graph, ops::Embed};
    use wisp_types::{DType, Encoding, shape};

    #[test]
    fn weights_that_are_together_too_large_are_refused() {
        let mut graph = Graph::new("huge");
        let x = graph.input("x", DType::F32, shape![1u64 << 59]);
        let weight = graph.weight("w", Encoding::F32, shape![1u64 << 59]);
        let sum = graph.scaled_add(x, weight, 1.0).unwrap();
        graph.output("sum", sum);
        let error = compile(&graph, &Capabilities::HOST).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the weights of huge are together too large for any device"
        );
    }

    #[test]
    fn a_weight_beyond_the_target_s_limits_is_named() {
        let mut graph = Graph::new("large");
        let ids = graph.input("ids", DType::U32, shape!["tokens"]);
        let table = graph.weight("table", Encoding::Q8_0, shape![64u64, 32u64]);
        let rows = graph.add(Embed { scale: 1.0 }, &[ids, table]).unwrap();
        graph.output("rows", rows);
        let program = compile(&graph, &Capabilities::HOST).unwrap();
        let said = |binding, buffer| {
            let target = Target {
                capabilities: Capabilities {
                    max_binding_bytes: binding,
                    max_buffer_bytes: buffer,
                    ..Capabilities::BASELINE
                },
                ..Target::named("browser").unwrap()
            };
            target.check(&program).unwrap_err().to_string()
        };
        assert_eq!(
            said(2047, 4096),
            "browser cannot run table (it needs 2048 bytes in one binding, the limit is 2047)"
        );
        assert_eq!(
            said(2048, 2048),
            "browser cannot run table (it needs 2304 bytes in one buffer, the limit is 2048)"
        );
    }

    #[test]
    fn names_are_found_or_explained() {
        for name in Target::names() {
            assert_eq!(Target::named(name).unwrap().name, name);
        }
        let error = Target::named("metall").unwrap_err().to_string();
        assert!(
            error.contains("\"metall\"") && error.contains("metal, dx12"),
            "{error}"
        );
        let error = Target::named("sm_10").unwrap_err().to_string();
        assert!(
            error.contains("cuda") && error.contains("vulkan"),
            "{error}"
        );
    }
}
