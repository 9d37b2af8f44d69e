//! Targets by name: what a program may rely on where it will run, and the language that its kernels are
//! translated to there.

use wisp_types::{Api, Capabilities, DeviceInfo};

use crate::{program::Program, select::lacking, shader_language::ShaderLanguage};

/// Where a program will run.
///
/// ```
/// use wisp_compiler::Target;
///
/// let names: Vec<&str> = Target::names().collect();
/// assert_eq!(names, ["browser", "baseline", "vulkan", "metal", "dx12", "gl", "host"]);
/// let error = Target::named("toaster").unwrap_err().to_string();
/// assert!(error.starts_with("there is no target \"toaster\"; there are browser, "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// What programs may rely on.
    pub capabilities: Capabilities,
    /// The languages that its kernels must be translatable to; none on the host, which runs twins.
    pub languages: &'static [ShaderLanguage],
}

/// What nearly every GPU and driver of recent years has. Nothing here is beyond the baseline but the
/// sizes: no kernel for GPUs needs more, and a program that asks for less runs on more of them.
const GPU: Capabilities = Capabilities {
    max_binding_bytes: 1 << 30,
    max_buffer_bytes: 1 << 30,
    ..Capabilities::BASELINE
};

use ShaderLanguage::{Glsl, Hlsl, Msl, Spirv, Wgsl};

/// A row of the table of targets: name, capabilities, languages, what it is.
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
];

/// Occurs when a name is no target's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Occurs when there is no target of a name.
    #[error("there is no target {name:?}; there are {}", Target::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// Occurs when a target is an NVIDIA architecture.
    #[error(
        "{name} needs a CUDA backend, which this version does not have: use the target vulkan, which NVIDIA's drivers run"
    )]
    Cuda {
        /// The name.
        name: String,
    },
    /// Occurs when a target cannot run kernels that a program needs.
    #[error("{target} cannot run {}", .problems.join("; "))]
    Refused {
        /// The target.
        target: String,
        /// Each kernel with what the target cannot do.
        problems: Vec<String>,
    },
}

impl Target {
    /// The names of all targets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TARGETS.iter().map(|row| row.0)
    }

    /// Every target with a few words about it.
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

    /// The target of a name.
    ///
    /// # Errors
    ///
    /// If there is none, with the names of those there are.
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

    /// A device that is attached.
    pub fn of(device: &DeviceInfo) -> Target {
        let languages: &[ShaderLanguage] = match device.api {
            Api::Host => &[],
            Api::Vulkan => &[Spirv],
            Api::Metal => &[Msl],
            Api::Dx12 => &[Hlsl],
            Api::Gl => &[Glsl],
            Api::WebGpu => &[Wgsl],
        };
        Target {
            name: device.name.clone(),
            capabilities: device.capabilities.clone(),
            languages,
        }
    }

    /// Checks that the target can run every kernel of a program: its needs, and that each can be
    /// translated to the target's languages (with the feature `targets`, natively).
    ///
    /// # Errors
    ///
    /// Every kernel that it cannot run, and why.
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
    /// The program's kernels that cannot be translated to the target's languages.
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

    /// Nothing is translated in this build.
    #[cfg(not(all(feature = "targets", not(target_arch = "wasm32"))))]
    fn untranslatable(&self, _program: &Program) -> Vec<String> {
        Vec::new()
    }
}

impl Program {
    /// Returns what the program needs that a device with these capabilities does not have, in words.
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
        let error = Target::named("sm_90").unwrap_err().to_string();
        assert!(
            error.contains("CUDA") && error.contains("vulkan"),
            "{error}"
        );
    }
}
