//! Wisp's WGSL kernels, as data.
//!
//! Each op is one `.wgsl` file beside this one, each weight encoding one in `encodings/`, each format
//! of the KV cache one in `caches/`; the table in `variants.rs` says which combinations there are. The
//! build script composes them with `wesl` (imports and `@if`), validates every one with naga, reads
//! from naga what a device must know (bindings, workgroup size and memory), and asserts that the
//! structs of [`params`] have naga's layout. A shader that fails any of this fails the build. What is
//! embedded is plain WGSL.
//!
//! Rejected: gluing sources from strings (unreadable, and checked only when they first run) and
//! typing in bindings and sizes a second time.
//!
//! # Dispatching
//!
//! A kernel covers its op's grid (see [`params`]) in tiles: `ceil(grid / tile)` workgroups in x and y.
//! Where x exceeds the device's limit it is folded: into y for ops with a grid of one dimension
//! (`x + y * num_workgroups.x`), into z for the others ([`Kernel::folds_into_z`]). Kernels check bounds, so that a folded
//! dispatch may be larger than its grid. They rely on nothing else: neither on zeroed workgroup
//! memory nor on checked indices.
//!
//! # Choosing
//!
//! [`candidates`] yields an op's kernels, best first: take the first whose [`Needs`] the device meets,
//! whose [`DeviceClass`] is `Any` or the device's kind, whose `switches` are on, whose `max_rows_y` is not below the
//! grid's second dimension, and whose `cols_multiple` divides the op's columns. The baseline fits every device.
//!
//! ```
//! use wisp_shaders::{Access, Needs, candidates};
//!
//! let softmax = candidates("softmax").next().expect("there is one");
//! assert_eq!(softmax.bindings, [Access::Uniform, Access::Read, Access::Write]);
//! assert!(softmax.wgsl.contains("@compute"));
//! let last = candidates("matmul.q4_k").last().expect("there is one");
//! assert_eq!((last.needs, last.max_rows_y), (Needs::default(), u32::MAX));
//! ```

mod cache_format;
pub mod params;
#[expect(dead_code, reason = "the table is for the build script")]
mod variants;

pub use cache_format::CacheFormat;
pub use variants::DeviceClass;

/// How a kernel uses a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A uniform buffer: the parameters.
    Uniform,
    /// A storage buffer that is only read.
    Read,
    /// A storage buffer that is written, and perhaps read.
    Write,
}

/// What a kernel needs beyond the baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Subgroup operations.
    pub subgroups: bool,
    /// 16-bit floats in shaders.
    pub f16: bool,
    /// The least size of a subgroup that it works with; 0 is any.
    pub min_subgroup_size: u32,
}

/// One variant of an op, ready to be compiled: the entry point is `main`, all bindings are in group 0.
#[derive(Debug)]
pub struct Kernel {
    /// Op and variant: `matmul.q4_k.rows8`.
    pub name: &'static str,
    /// The op, with its encoding if it has one: `matmul.q4_k`.
    pub op: &'static str,
    /// Plain WGSL.
    pub wgsl: &'static str,
    /// Invocations of a workgroup.
    pub workgroup_size: [u32; 3],
    /// Elements of the op's grid that one workgroup covers.
    pub tile: [u32; 2],
    /// Every binding, by its number.
    pub bindings: &'static [Access],
    /// What it needs beyond the baseline.
    pub needs: Needs,
    /// What a session must have switched on for the kernel to be chosen: `half_sums`, `plain_top_k`.
    pub switches: &'static [&'static str],
    /// What kind of adapter it was made for.
    pub suits: DeviceClass,
    /// The largest second dimension of the grid that it is meant for; `u32::MAX` is any.
    pub max_rows_y: u32,
    /// The op's `cols` must be a multiple of this.
    pub cols_multiple: u32,
    /// A long first dimension of its grid continues in the third dimension of the workgroups, not in the
    /// second.
    pub folds_into_z: bool,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Every kernel; those of an op are neighbours, the best first.
pub fn kernels() -> &'static [Kernel] {
    KERNELS
}

/// A hash of every kernel's source: what was compiled for other kernels does not fit these.
pub fn fingerprint() -> &'static [u8; 32] {
    &FINGERPRINT
}

/// The kernel of that name.
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name)
}

/// The kernels of an op, the best first.
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
    fn every_format_of_the_cache_has_its_kernels() {
        assert_eq!(CacheFormat::ALL.map(CacheFormat::name), *variants::CACHES);
    }

    #[test]
    fn every_op_runs_on_every_adapter() {
        let ops: HashSet<_> = kernels().iter().map(|kernel| kernel.op).collect();
        // Two more measure a device.
        assert_eq!(
            ops.len(),
            24 + 2 + 3 * variants::ENCODINGS.len() + 5 * variants::CACHES.len()
        );
        for op in ops {
            let baseline = candidates(op).find(|kernel| {
                kernel.needs == Needs::default()
                    && kernel.switches.is_empty()
                    && kernel.suits == DeviceClass::Any
                    && kernel.max_rows_y == u32::MAX
                    // Rows of quantised weights are multiples of 32 wide.
                    && (kernel.cols_multiple == 1 || ["q", "fp4", "f8"].iter().any(|quantised| op.contains(quantised)))
            });
            assert!(baseline.is_some(), "{op}");
        }
    }

    #[test]
    fn no_kernel_passes_the_limits_of_every_browser() {
        for kernel in kernels() {
            let storage = kernel
                .bindings
                .iter()
                .filter(|access| **access != Access::Uniform);
            assert!(storage.count() <= 8, "{}: storage buffers", kernel.name);
            assert!(
                kernel.workgroup_bytes <= 16 << 10,
                "{}: workgroup memory",
                kernel.name
            );
            let invocations: u32 = kernel.workgroup_size.iter().product();
            assert!(invocations <= 256, "{}: invocations", kernel.name);
        }
    }
}
