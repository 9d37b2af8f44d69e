//! Wisp's WGSL kernels, as data.
//!
//! This crate holds the kernels and nothing that runs them: the WGSL of every variant of every op, what a
//! device must know to run it, and the Rust twins of its parameter structs. It depends on no other crate of
//! Wisp, so that the host crate (which implements the same ops in Rust), the compiler (which selects kernels)
//! and the devices (which run them) agree on one source.
//!
//! Each op is one `.wgsl` file in `src/`, each weight encoding one in `encodings/`, each format of the KV
//! cache one in `caches/`; the table in `variants.rs` lists the combinations. The build script composes them
//! with `wesl` (imports and `@if`), validates each with naga, and generates from naga's types what Rust needs:
//! bindings, workgroup sizes, workgroup memory, and the structs of [`params`]. A shader that fails any of
//! this fails the build. What is embedded is plain WGSL.
//!
//! Two alternatives were rejected: assembling sources from strings, which is hard to read and is checked
//! only when a kernel first runs, and writing bindings, sizes and structs a second time in Rust.
//!
//! # Dispatching
//!
//! A kernel covers its op's grid (see [`params`]) in tiles: `ceil(grid / tile)` workgroups in x and y. If x
//! exceeds the device's limit, it continues in y for ops with a grid of one dimension (`x + y *
//! num_workgroups.x`), and in z for the others ([`Kernel::folds_into_z`]). Kernels check their place in the
//! grid, so a dispatch may be larger than the grid. They do not rely on zeroed workgroup memory.
//!
//! # Memory safety
//!
//! Parameters, bindings and dispatch sizes must fit each other; programs are checked for that. Data need
//! not: whatever the numbers in buffers are, a kernel reads and writes only within its bindings, and its
//! loops end. Kernels can therefore run without the device's bounds checks.
//!
//! # Selecting a kernel
//!
//! [`candidates`] yields an op's kernels. Skip every kernel
//!
//! 1. whose [`Needs`] the device does not meet;
//! 2. whose [`device_class`](Kernel::device_class) is neither `Any` nor that of the device;
//! 3. that has a [switch](Kernel::switches) which the session has not turned on;
//! 4. whose [`cols_multiple`](Kernel::cols_multiple) does not divide the op's columns;
//! 5. whose [`max_cols`](Kernel::max_cols) is below the op's columns;
//! 6. whose [`max_grid_y`](Kernel::max_grid_y) is below the second dimension of the grid.
//!
//! Take the first that remains. Within each class the best kernel stands first, those for the device's class
//! before those for any. There always is one: an op's baseline needs nothing and fits every grid.
//!
//! ```
//! use wisp_shaders::{Access, Needs, candidates};
//!
//! # fn main() -> Result<(), &'static str> {
//! let softmax = candidates("softmax").next().ok_or("softmax is an op")?;
//! assert_eq!(softmax.bindings, [Access::Uniform, Access::Read, Access::Write]);
//! assert!(softmax.wgsl.text().contains("@compute"));
//!
//! let baseline = candidates("matmul.q4_k").last().ok_or("matmul.q4_k is an op")?;
//! assert_eq!((baseline.needs, baseline.max_grid_y), (Needs::default(), u32::MAX));
//! # Ok(())
//! # }
//! ```

mod cache_format;
mod device_class;
mod op_kind;
pub mod params;
#[cfg(test)]
#[expect(dead_code, reason = "the build script reads the table itself")]
mod variants;
mod wgsl;

pub use cache_format::CacheFormat;
pub use device_class::DeviceClass;
pub use op_kind::{AttentionKind, OpKind};
pub use wgsl::Wgsl;

/// The overrides that CUDA devices set in kernels, in the form that `naga-cuda` takes; elsewhere none is set. `SUBNORMALS`: these
/// devices compute with subnormal floats as with others, if code is compiled without `--ftz=true`.
pub const CUDA_OVERRIDES: &[(&str, f64)] = &[("SUBNORMALS", 1.0)];

/// How a kernel uses a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A uniform buffer, which holds the parameters.
    Uniform,
    /// A storage buffer that is only read.
    Read,
    /// A storage buffer that is written and may be read.
    Write,
}

/// What a kernel needs of a device beyond the baseline that every WebGPU implementation guarantees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Subgroup operations in compute shaders.
    pub subgroups: bool,
    /// The type `f16` in shaders.
    pub f16: bool,
    /// The smallest subgroup size that the kernel works with; 0 for any.
    pub min_subgroup_size: u32,
    /// The rows and columns of the cooperative matrices that the kernel uses, of `f16` with sums in f32: 16 or 8; 0
    /// if it uses none.
    pub matrix_size: u32,
    /// The matrix instructions `mma.m16n8k16` and `mma.m16n8k32` of NVIDIA's GPUs, of halves or signed bytes, through CUDA. The
    /// kernel calls functions with names like `cuda_mma_m16n8k16`, which `naga-cuda` translates to them.
    pub mma: bool,
}

/// A kernel: one variant of an op. The entry point is `main`, all bindings are in group 0.
#[derive(Debug)]
pub struct Kernel {
    /// Op and variant, unique among kernels: `matmul.q4_k.tile64x64`.
    pub name: &'static str,
    /// The op, with its encoding or cache format if it has one: `matmul.q4_k`.
    pub op: &'static str,
    /// The kernel's plain WGSL.
    pub wgsl: Wgsl,
    /// Invocations of a workgroup in x, y and z.
    pub workgroup_size: [u32; 3],
    /// Elements of the op's grid that one workgroup covers.
    pub tile: [u32; 2],
    /// How the kernel uses each binding, in order of their numbers.
    pub bindings: &'static [Access],
    /// What the kernel needs of a device beyond the baseline.
    pub needs: Needs,
    /// Switches that must be on in a session for the kernel to be selected: `f16` (the precision of that name:
    /// products in half precision), `f16_partials` (partial sums of products in half precision), `int8` (the
    /// precision of that name: products with signed bytes), `plain_top_k` (top-k by repeated maxima).
    pub switches: &'static [&'static str],
    /// The kind of adapter that the kernel is written for.
    pub device_class: DeviceClass,
    /// The largest second dimension of the grid that the kernel is written for; `u32::MAX` for any.
    pub max_grid_y: u32,
    /// The number that the op's columns must be a multiple of.
    pub cols_multiple: u32,
    /// The most columns that the kernel is written for; `u32::MAX` for any.
    pub max_cols: u32,
    /// Whether a long first dimension of the grid continues in the third dimension of the workgroups
    /// rather than in the second.
    pub folds_into_z: bool,
    /// Bytes of workgroup memory that a workgroup uses.
    pub workgroup_bytes: u32,
}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Returns every kernel. Those of an op stand next to each other, within a device class the best first.
pub fn kernels() -> &'static [Kernel] {
    KERNELS
}

/// Returns a hash of every kernel's source and selection. A program that was compiled with another
/// fingerprint does not fit these kernels.
pub fn fingerprint() -> &'static [u8; 32] {
    &FINGERPRINT
}

/// Returns the kernel with a name such as `matmul.q4_k.tile64x64`.
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name)
}

/// Returns the kernels of an op such as `matmul.q4_k`, within a device class the best first.
pub fn candidates(op: &str) -> impl Iterator<Item = &'static Kernel> + use<'_> {
    KERNELS.iter().filter(move |kernel| kernel.op == op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_begin_with_the_op() {
        let mut names = HashSet::new();
        for kernel in kernels() {
            assert!(names.insert(kernel.name), "{}", kernel.name);
            assert!(kernel.name.starts_with(kernel.op), "{}", kernel.name);
        }
    }

    #[test]
    fn modules_are_sorted() {
        // Of the modules `constants` and `encodings`.
        let declarations = ["const WG: u32", "struct Scales {"];
        let places = |kernel: &Kernel| {
            let wgsl = kernel.wgsl.text();
            declarations.map(|text| wgsl.find(text))
        };
        let both = kernels().iter().filter_map(|kernel| match places(kernel) {
            [Some(constant), Some(scales)] => Some((kernel, constant, scales)),
            _ => None,
        });
        let mut checked = 0;
        for (kernel, constant, scales) in both {
            assert!(constant < scales, "{}", kernel.name);
            checked += 1;
        }
        assert!(checked > 100, "{checked} kernels have both");
    }

    #[test]
    fn cache_formats_match_the_table_of_kernels() {
        assert_eq!(CacheFormat::ALL.map(CacheFormat::name), *variants::CACHES);
    }

    #[test]
    fn every_op_has_a_baseline_kernel() {
        let ops: HashSet<_> = kernels().iter().map(|kernel| kernel.op).collect();
        // Two ops measure a device.
        assert_eq!(
            ops.len(),
            39 + 2
                + 4 * variants::ENCODINGS.len()
                + 3 * variants::INT8_ENCODINGS.len()
                + 10 * variants::CACHES.len()
        );
        // A gated product, or a norm that quantises its result, is two calls where it has no kernel.
        let fused = |op: &str| op.starts_with("matmul_gated") || op.ends_with("norm_int8");
        for op in ops.into_iter().filter(|op| !fused(op)) {
            let baseline = candidates(op).find(|kernel| {
                let encodings = variants::ENCODINGS.iter();
                let mut quantised = encodings.filter(|name| !variants::ANY_COLS.contains(name));
                // Every kernel of the products with signed bytes has their switch.
                let is_switched = kernel.switches.iter().any(|switch| *switch != "int8");
                kernel.needs == Needs::default()
                    && !is_switched
                    && kernel.device_class == DeviceClass::Any
                    && kernel.max_grid_y == u32::MAX
                    && kernel.max_cols == u32::MAX
                    // Rows of quantised weights are always multiples of 32 wide.
                    && (kernel.cols_multiple == 1 || quantised.any(|name| op.ends_with(name)))
            });
            assert!(baseline.is_some(), "{op}");
        }
    }

    /// Kernels for tensor cores keep whole queries in registers.
    #[test]
    fn attention_of_prompts_has_kernels_for_heads_of_all_sizes() {
        for (head_dim, most) in [(1, 64), (65, 128), (192, 256), (257, 512), (576, 576)] {
            let mut fitting =
                candidates("attention_tiled.f16").filter(|kernel| kernel.max_cols >= head_dim);
            let kernel = fitting.next().unwrap();
            assert_eq!((kernel.max_cols, kernel.needs.mma), (most, true));
            let others = fitting.find(|kernel| kernel.needs == Needs::default());
            assert!(others.is_some_and(|kernel| kernel.max_cols >= head_dim));
        }
    }

    #[test]
    fn kernels_keep_to_the_default_limits_of_webgpu() {
        for kernel in kernels() {
            let storage = kernel
                .bindings
                .iter()
                .filter(|access| **access != Access::Uniform);
            assert!(storage.count() <= 8, "{}: storage buffers", kernel.name);
            // Only native devices have matrix units, and all of these have more: those of 8 rows 32 KiB, others 48 KiB, and CUDA
            // 1,024 invocations.
            let (limit, max_invocations) = match (kernel.needs.matrix_size, kernel.needs.mma) {
                (_, true) => (48 << 10, 1024),
                (16, _) => (48 << 10, 256),
                (8, _) => (32 << 10, 256),
                _ => (16 << 10, 256),
            };
            assert!(
                kernel.workgroup_bytes <= limit,
                "{}: workgroup memory",
                kernel.name
            );
            let invocations: u32 = kernel.workgroup_size.iter().product();
            assert!(
                invocations <= max_invocations,
                "{}: invocations",
                kernel.name
            );
        }
    }
}
