//! NVIDIA's GPUs, through NVRTC and nvdisasm.

mod nvrtc;
mod resources;
mod sass;

use std::{fs, path::PathBuf, process::Command};

use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga_cuda::{Options, Resources, compile_in_registers};
use wisp_shaders::{Kernel, Needs};

use crate::{
    assembly::Listing,
    inputs, measure,
    metric::Metric,
    parallel,
    pattern::matches,
    selection::is_selected,
    table::{Key, Row, Table},
    wgsl::{self, Parsed},
    work,
};
use nvrtc::Nvrtc;

/// The architectures that kernels are measured on: the A100's (Ampere).
pub const FAMILIES: [&str; 1] = ["sm_80"];

/// The architectures that models are compiled for in advance.
const TARGETS: [&str; 4] = ["sm_75", "sm_80", "sm_90", "sm_120"];

/// The environment variable that names the library NVRTC.
const NVRTC: &str = "NVRTC_LIBRARY";
/// The environment variable that names the program nvdisasm.
const NVDISASM: &str = "NVDISASM";

/// The kernels that are measured unless all are asked for, which takes minutes: those that decide how fast models with
/// the usual encodings run.
#[rustfmt::skip]
pub const CHOSEN: &[&str] = &[
    "matmul.q4_0.*", "matmul.q4_k.*", "matmul.q6_k.*", "matmul.q8_0.*", "matmul.f16.*",
    "matmul_int8.q4_0.*", "matmul_int8.q4_k.*", "matmul_int8.q6_k.*", "matmul_int8.q8_0.*",
    "matmul.mxfp4.*mma*", "matmul.iq4_nl.mma1", "matmul.f8_e4m3.*mma*",
    "attention_split.f16.*", "attention_split_wide.f16.*", "attention_tiled.f16.*",
    "attention_split*.q8_0.mma", "attention_tiled.q8_0.mma_*",
];

/// NVRTC and nvdisasm.
struct Compiler {
    nvrtc: Nvrtc,
    nvdisasm: String,
}

/// A kernel in machine code.
struct Compiled {
    parsed: Parsed,
    resources: Resources,
    assembly: String,
    listing: Listing,
}

/// Measures the kernels that an NVIDIA GPU selects: all of them, or those of [`CHOSEN`].
///
/// # Errors
///
/// If there is no compiler, or with a line for each kernel that it does not compile.
pub fn measure(all: bool) -> Result<Table, String> {
    let [architecture] = FAMILIES;
    let kernels = measured(all);
    let compiler = Compiler::find()?;
    let rows = parallel::map(&kernels, |kernel| {
        let key = Key {
            kernel: kernel.name.into(),
            family: architecture.into(),
        };
        let row = compiler.row(kernel, architecture);
        row.map(|row| (key, row))
            .map_err(|error| format!("{} on {architecture}: {error}", kernel.name))
    })?;
    Ok(Table {
        version: compiler.version()?,
        rows: rows.into_iter().collect(),
        ..Table::default()
    })
}

fn measured(all: bool) -> Vec<&'static Kernel> {
    let is_wanted = |kernel: &&Kernel| {
        is_selected(kernel) && has(&kernel.needs) && (all || is_chosen(kernel.name))
    };
    wisp_shaders::kernels().iter().filter(is_wanted).collect()
}

/// How kernels that spill are compiled again.
const REGISTERS: &str = include_str!("../../../../shaders/naga-cuda/src/registers.rs");

/// Returns a digest of what NVRTC gets for the kernels that are measured by default.
///
/// # Errors
///
/// As [`inputs::digest`].
pub fn digest(_: &Table) -> Result<String, String> {
    let version = Compiler::find()?.version()? + REGISTERS;
    inputs::digest(&version, &measured(false), |kernel| {
        let wgsl = kernel.wgsl.text();
        let parsed = wgsl::parse(&wgsl)?;
        let source = translate(&parsed, None)? + &translate(&parsed, Some(2))?;
        let row = format!(
            "{} {:?}\n{wgsl}{source}",
            kernel.name, kernel.workgroup_size
        );
        Ok(row.into())
    })
}

/// Compiles every kernel that an NVIDIA GPU selects, and whose name fits a pattern, for all [`TARGETS`]. Returns how many
/// compilations that were.
///
/// # Errors
///
/// If there is no compiler, or with a line for each kernel that it does not compile, or that keeps registers in memory.
pub fn check_spills(pattern: &str) -> Result<usize, String> {
    let compiler = Compiler::find()?;
    let kernels = wisp_shaders::kernels().iter();
    let is_meant = |kernel: &&Kernel| matches(pattern, kernel.name);
    let kernels = kernels.filter(|kernel| is_selected(kernel) && has(&kernel.needs));
    let kernels = kernels.filter(is_meant);
    let of_targets = |kernel| TARGETS.map(|target| (kernel, target));
    let jobs: Vec<(&Kernel, &str)> = kernels.flat_map(of_targets).collect();
    let checked = parallel::map(&jobs, |(kernel, target)| {
        let compiled = compiler.machine_code(kernel, target);
        let wrong = match compiled.map(|(_, _, resources)| resources) {
            Ok(Resources {
                spills: 0,
                local: 0,
                ..
            }) => return Ok(()),
            Ok(resources) => format!("{resources:?}"),
            Err(error) => error,
        };
        Err(format!("{} on {target}: {wrong}", kernel.name))
    });
    checked.map(|_| jobs.len())
}

/// True if a kernel is measured by default.
pub fn is_chosen(kernel: &str) -> bool {
    CHOSEN.iter().any(|pattern| matches(pattern, kernel))
}

/// Describes the loops of the kernels whose names fit a pattern, with the whole assembly if `with_assembly`.
///
/// # Errors
///
/// As [`measure`].
pub fn describe(pattern: &str, with_assembly: bool) -> Result<String, String> {
    let compiler = Compiler::find()?;
    let mut text = String::new();
    let kernels = wisp_shaders::kernels().iter();
    for kernel in kernels.filter(|kernel| has(&kernel.needs) && matches(pattern, kernel.name)) {
        for architecture in FAMILIES {
            let compiled = compiler.compile(kernel, architecture)?;
            text += &format!(
                "{} on {architecture}\n{:?}\n{}",
                kernel.name, compiled.resources, compiled.listing
            );
            if with_assembly {
                text += &compiled.assembly;
            }
        }
    }
    Ok(text)
}

/// True if NVIDIA's GPUs have what a kernel needs: all but matrices of 8 rows, which are Apple's.
fn has(needs: &Needs) -> bool {
    needs.matrix_size != 8 && needs.min_subgroup_size <= 32
}

/// Translates a kernel to CUDA C++ as sessions without runtime checks do.
fn translate(parsed: &Parsed, min_workgroups: Option<u32>) -> Result<String, String> {
    let options = Options {
        entry_point: Some("main"),
        overrides: wisp_shaders::CUDA_OVERRIDES,
        bounds_checks: BoundsCheckPolicies {
            index: BoundsCheckPolicy::Unchecked,
            buffer: BoundsCheckPolicy::Unchecked,
            ..BoundsCheckPolicies::default()
        },
        bound_loops: false,
        zero_workgroup_memory: false,
        min_workgroups,
        source: None,
    };
    let translation = naga_cuda::translate(&parsed.module, &parsed.info, &options);
    Ok(translation.map_err(|error| error.to_string())?.source)
}

impl Compiler {
    /// Loads NVRTC and finds nvdisasm, where the environment names them.
    fn find() -> Result<Compiler, String> {
        let variable = |name| {
            std::env::var(name).map_err(|_| {
                format!("{name} is not set; `bash tests/scripts/gpu-statistics.sh` sets it")
            })
        };
        Ok(Compiler {
            nvrtc: Nvrtc::load(&variable(NVRTC)?)?,
            nvdisasm: variable(NVDISASM)?,
        })
    }

    /// Returns the versions of both, such as `NVRTC 13.5, nvdisasm 13.5.37`.
    fn version(&self) -> Result<String, String> {
        let text = self.disassemble(&["--version"])?;
        let version = text
            .split_once(", V")
            .and_then(|(_, rest)| rest.lines().next());
        let version = version.ok_or_else(|| format!("nvdisasm states no version: {text}"))?;
        Ok(format!("{}, nvdisasm {version}", self.nvrtc.version))
    }

    fn row(&self, kernel: &Kernel, architecture: &str) -> Result<Row, String> {
        let compiled = self.compile(kernel, architecture)?;
        let threads = kernel.workgroup_size.iter().product();
        let instructions = (Metric::Instructions, compiled.listing.total.instructions);
        let stated: Vec<_> = resources::metrics(&compiled.resources, threads)
            .into_iter()
            .chain([instructions])
            .collect();
        let mut row = measure::row(
            kernel.name,
            &compiled.parsed,
            &compiled.listing,
            &stated,
            work::Compiler::Nvrtc,
        )?;
        row.restrict(&Metric::NVIDIA);
        Ok(row)
    }

    /// Compiles and disassembles a kernel.
    fn compile(&self, kernel: &Kernel, architecture: &str) -> Result<Compiled, String> {
        let (parsed, cubin, resources) = self.machine_code(kernel, architecture)?;
        let file = TemporaryFile::write(kernel.name, &cubin)?;
        let assembly = self.disassemble(&["--print-code", &file.0.to_string_lossy()])?;
        Ok(Compiled {
            resources,
            listing: sass::parse(&assembly),
            assembly,
            parsed,
        })
    }

    /// Compiles a kernel.
    fn machine_code(
        &self,
        kernel: &Kernel,
        architecture: &str,
    ) -> Result<(Parsed, Vec<u8>, Resources), String> {
        let parsed = wgsl::parse(&kernel.wgsl.text())?;
        let architecture = format!("--gpu-architecture={architecture}");
        let flags = [&architecture, "--std=c++17", "--ptxas-options=-v"];
        let threads = kernel.workgroup_size.iter().product();
        let compile = |min_workgroups| {
            let made = self
                .nvrtc
                .compile(&translate(&parsed, min_workgroups)?, &flags)?;
            Ok::<_, String>((made.cubin, Resources::parse(&made.log)))
        };
        let (cubin, resources) = compile_in_registers(threads, compile)?;
        let resources = resources.ok_or("ptxas states no registers")?;
        Ok((parsed, cubin, resources))
    }

    fn disassemble(&self, arguments: &[&str]) -> Result<String, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", self.nvdisasm);
        let output = Command::new(&self.nvdisasm).args(arguments).output();
        let output = output.map_err(|error| failed(&error))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into()),
            false => Err(failed(&String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// A file that is deleted when this is dropped; nvdisasm reads machine code from files only.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn write(name: &str, bytes: &[u8]) -> Result<TemporaryFile, String> {
        let name = format!("gpu-statistics-{}-{name}.cubin", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(TemporaryFile(path))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // A file that stays is harmless.
        let _ = fs::remove_file(&self.0);
    }
}
