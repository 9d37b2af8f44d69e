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
//!         Parameter::Pointer { group: 0, binding: 0, writable: true, min_bytes: 4 },
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
//! overlap where one of them is written, and at least as many bytes must be bound as [`Parameter::Pointer`] says: bounds
//! checks rely on it. Compile with `--std=c++17 -default-device`. [`compile_in_registers`] finds the
//! launch bound with which nothing spills.
//!
//! # Intrinsics
//!
//! A function with one of these names and signatures becomes an instruction. Its body is ignored, so write one that computes the
//! same: other translators use it.
//!
//! - `fn cuda_mma_m16n8k16(a: vec4<u32>, b: vec2<u32>, c: vec4<f32>) -> vec4<f32>`: `mma.sync.aligned.m16n8k16` with factors of
//!   f16 and sums in f32, `a` row-major and `b` column-major; two `m16n8k8` before compute capability 8.0. All lanes of a warp must
//!   call it together.
//! - `fn cuda_mma_m16n8k32_i8(a: vec4<u32>, b: vec2<u32>, c: vec4<i32>) -> vec4<i32>` and
//!   `fn cuda_mma_m16n8k16_i8(a: vec2<u32>, b: u32, c: vec4<i32>) -> vec4<i32>`: the same with factors of signed bytes and sums in
//!   i32, which wrap around; several `m8n8k16` before compute capability 8.0.
//! - `fn cuda_byte_perm(low: u32, high: u32, selector: u32) -> u32`: `prmt.b32`. Each of the four lowest hexadecimal digits
//!   of `selector` must be below 8.
//! - `fn cuda_add_f16x2(a: u32, b: u32) -> u32`: `add.f16x2`, the sums of two halves of each word.
//! - `fn cuda_fma_f16x2(a: u32, b: u32, c: u32) -> u32`: `fma.rn.f16x2`, `a * b + c` for two halves of each word.
//!
//! # What is not supported
//!
//! Textures, samplers, ray queries, types of 64 bits, cooperative matrices other than 16 by 16 with factors of f16
//! and sums in f32, and stages other than compute. [`Error::Unsupported`] names what it is and where.

mod access;
mod atomics;
mod bytes;
mod cast;
mod constants;
mod context;
mod cooperative;
mod entry;
mod error;
mod expressions;
mod function;
mod globals;
mod intrinsics;
mod lines;
mod math;
mod operators;
mod options;
mod prelude;
mod registers;
mod statements;
mod structs;
mod subgroups;
mod translation;
mod types;
mod unroll;
mod usage;

pub use entry::translate;
pub use error::{Error, Location};
pub use options::{Options, Source};
pub use registers::{Resources, compile_in_registers};
pub use subgroups::SUBGROUP_SIZE;
pub use translation::{Parameter, Translation};
