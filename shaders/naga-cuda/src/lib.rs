//! Translates naga's IR to CUDA C++: one compute entry point becomes one kernel for NVRTC.
//!
//! The source that [`translate`] returns includes no header, so NVRTC compiles it as it is. It uses warps as
//! subgroups, static shared memory as workgroup memory, and tensor cores for cooperative matrices of 16 by 16. Its
//! semantics are WGSL's: integers wrap, divisions by zero are defined, structs have WGSL's layout, indices are
//! checked as [`Options::bounds_checks`] says. Floats that no integer holds convert to the nearest integer of the
//! type (WGSL says: the nearest that f32 holds too).
//!
//! ```
//! use naga::valid::{Capabilities, ValidationFlags, Validator};
//! use naga_cuda::{Options, Parameter, translate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let wgsl = "
//!     @group(0) @binding(0) var<storage, read_write> data: array<f32>;
//!     @compute @workgroup_size(64)
//!     fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//!         data[id.x] = 2.0 * data[id.x];
//!     }";
//! let module = naga::front::wgsl::parse_str(wgsl)?;
//! let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module)?;
//! let kernel = translate(&module, &info, &Options::default())?;
//! assert_eq!(kernel.entry_point, "main_main");
//! assert_eq!(kernel.workgroup_size, [64, 1, 1]);
//! // Bounds checks need the length of the buffer.
//! assert_eq!(
//!     kernel.parameters,
//!     [
//!         Parameter::Pointer { group: 0, binding: 0, writable: true },
//!         Parameter::Bytes { group: 0, binding: 0 },
//!     ]
//! );
//! # Ok(())
//! # }
//! ```
//!
//! # Launching
//!
//! A block has [`Translation::workgroup_size`] threads in x, y and z; the grid has one block for each workgroup. The
//! arguments are those of [`Translation::parameters`], in that order. Pointers must be aligned to 16 bytes and not
//! overlap where one of them is written. Compile with `--std=c++17 -default-device`.
//!
//! # What is not supported
//!
//! Textures, samplers, ray queries, types of 64 bits, cooperative matrices other than 16 by 16 with factors of f16
//! and sums in f32, and stages other than compute. Overrides are replaced by their values first
//! (`naga::back::pipeline_constants::process_overrides`). [`Error::Unsupported`] names what it is and where.

mod access;
mod atomics;
mod cast;
mod constants;
mod context;
mod cooperative;
mod entry;
mod error;
mod expressions;
mod function;
mod globals;
mod lines;
mod math;
mod operators;
mod options;
mod prelude;
mod statements;
mod structs;
mod subgroups;
mod types;
mod unroll;
mod usage;

pub use error::{Error, Location};
pub use options::{Options, Source};

/// The invocations of a subgroup: the threads of a warp.
pub const SUBGROUP_SIZE: u32 = 32;

/// An argument of a translated kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// A pointer to the memory that is bound to a variable.
    Pointer {
        /// The variable's group.
        group: u32,
        /// The variable's binding in the group.
        binding: u32,
        /// Whether the kernel may write to the memory.
        writable: bool,
    },
    /// The bytes that are bound to a variable whose last member is a runtime-sized array, as an `unsigned`.
    ///
    /// They hold at least one element of that array, as WebGPU requires of a binding.
    Bytes {
        /// The variable's group.
        group: u32,
        /// The variable's binding in the group.
        binding: u32,
    },
}

/// A kernel in CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The complete source: a prelude, declarations, functions and the kernel.
    pub source: String,
    /// The name of the kernel in the source, which has C linkage.
    pub entry_point: String,
    /// Threads of a block in x, y and z.
    pub workgroup_size: [u32; 3],
    /// The arguments of the kernel: pointers by group and binding, then lengths in the same order. Variables that
    /// the entry point does not use are left out, and lengths that it does not need.
    pub parameters: Vec<Parameter>,
}

/// Translates a compute entry point of a module to CUDA C++.
///
/// `info` is what naga's validator returned for this module. Subgroup operations are translated for uniform control
/// flow, as WGSL requires: all invocations of a subgroup that exist take part in each.
///
/// # Errors
///
/// If the entry point does not exist or uses what CUDA C++ has no translation for.
pub fn translate(
    module: &naga::Module,
    info: &naga::valid::ModuleInfo,
    options: &Options<'_>,
) -> Result<Translation, Error> {
    entry::translate(module, info, options)
}
