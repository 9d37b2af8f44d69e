//! Targets by name: what a program may rely on where it will run, and the language that its kernels are
//! translated to there.

use std::collections::{BTreeMap, BTreeSet};

use wisp_shaders::{Access, Kernel};

use super::Program;
use wisp_types::{Api, Capabilities, DeviceInfo};

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
}

/// Where a program will run.
///
/// ```
/// use wisp_engine::compiler::Target;
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
                let problem = super::translate(kernel, *language).err();
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
    /// The kernels that the program may run, each once, by name.
    pub fn kernels(&self) -> impl Iterator<Item = &'static Kernel> + use<> {
        let names = self.calls.iter().flat_map(|call| &call.kernels);
        let names: BTreeSet<&String> = names.map(|(name, _)| name).collect();
        let kernels = names.into_iter().filter_map(|name| self.kernel(name));
        let kernels: BTreeMap<_, _> = kernels.map(|kernel| (kernel.name, kernel)).collect();
        kernels.into_values()
    }

    /// What the program needs that a device with these capabilities does not have, in words.
    pub fn lacks(&self, device: &Capabilities) -> Vec<String> {
        let kernels = self.kernels();
        let mut problems: Vec<String> = kernels.filter_map(|k| lacking(k, device)).collect();
        for matrix in &self.matrices {
            let (planes, bytes) = super::planes(matrix);
            let widest = planes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
            let limits = [
                ("one binding", widest, device.max_binding_bytes),
                ("one buffer", bytes, device.max_buffer_bytes),
            ];
            let tensor = matrix
                .pieces
                .first()
                .map_or("", |piece| piece.tensor.as_str());
            let over = limits.iter().find(|(_, wanted, has)| wanted > has);
            problems.extend(over.map(|(what, wanted, has)| {
                format!("{tensor} ({wanted} bytes in {what}, there at most {has})")
            }));
        }
        problems
    }
}

/// What a kernel needs that a device does not have, in words.
pub(super) fn lacking(kernel: &Kernel, device: &Capabilities) -> Option<String> {
    let storage = kernel.bindings.iter();
    let storage = storage.filter(|access| **access != Access::Uniform).count() as u64;
    let invocations = kernel.workgroup_size.iter();
    let invocations = invocations.fold(1u32, |all, size| all.saturating_mul(*size));
    let needs = [
        (
            "subgroups",
            kernel.needs.subgroups.into(),
            device.subgroups.into(),
        ),
        ("f16", kernel.needs.f16.into(), device.f16.into()),
        (
            "invocations of a subgroup",
            kernel.needs.min_subgroup_size.into(),
            device.min_subgroup_size.into(),
        ),
        (
            "invocations of a workgroup",
            invocations.into(),
            u64::from(device.max_workgroup_invocations),
        ),
        (
            "bytes of workgroup memory",
            kernel.workgroup_bytes.into(),
            device.max_workgroup_bytes.into(),
        ),
        (
            "storage buffers",
            storage,
            device.max_storage_buffers.into(),
        ),
    ];
    let (what, wanted, has) = needs.iter().find(|(_, wanted, has)| wanted > has)?;
    Some(match wanted {
        1 => format!("{} (it needs {what})", kernel.name),
        _ => format!(
            "{} (it needs {wanted} {what}, there are {has})",
            kernel.name
        ),
    })
}

#[cfg(test)]
mod tests {
    use wisp_shaders::Needs;

    use super::*;
    use crate::compile;
    use wisp_graph::{Graph, ops::Embed};
    use wisp_types::{DType, Encoding, shape};

    /// Each limit by itself, in words.
    #[test]
    fn what_a_device_lacks_is_told() {
        let kernel = Kernel {
            name: "kernel",
            workgroup_size: [8, 8, 1],
            bindings: &[Access::Uniform, Access::Read, Access::Write],
            needs: Needs {
                subgroups: true,
                f16: true,
                min_subgroup_size: 16,
            },
            workgroup_bytes: 512,
            ..*wisp_shaders::kernels().first().unwrap()
        };
        let enough = Capabilities {
            max_workgroup_invocations: 64,
            max_workgroup_bytes: 512,
            max_storage_buffers: 2,
            subgroups: true,
            min_subgroup_size: 16,
            f16: true,
            ..Capabilities::BASELINE
        };
        assert_eq!(lacking(&kernel, &enough), None);
        type Less = fn(&mut Capabilities);
        let rows: [(Less, &str); 6] = [
            (|c| c.subgroups = false, "subgroups"),
            (|c| c.f16 = false, "f16"),
            (
                |c| c.min_subgroup_size = 8,
                "16 invocations of a subgroup, there are 8",
            ),
            (
                |c| c.max_workgroup_invocations = 63,
                "64 invocations of a workgroup, there are 63",
            ),
            (
                |c| c.max_workgroup_bytes = 511,
                "512 bytes of workgroup memory, there are 511",
            ),
            (
                |c| c.max_storage_buffers = 1,
                "2 storage buffers, there are 1",
            ),
        ];
        for (less, needed) in rows {
            let mut poor = enough.clone();
            less(&mut poor);
            let expected = format!("kernel (it needs {needed})");
            assert_eq!(lacking(&kernel, &poor), Some(expected));
        }
    }

    #[test]
    fn a_weight_that_is_too_large_is_told() {
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
            "browser cannot run table (2048 bytes in one binding, there at most 2047)"
        );
        assert_eq!(
            said(2048, 2048),
            "browser cannot run table (2304 bytes in one buffer, there at most 2048)"
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
