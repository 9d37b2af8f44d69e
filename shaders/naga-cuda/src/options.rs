//! What the caller chooses about a translation.

use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};

/// Choices about a translation. The default is safe: every index is clamped, loops end, workgroup memory is zeroed.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The name of the entry point; `None` for the module's first compute entry point.
    pub entry_point: Option<&'a str>,
    /// Values of overrides by name; of a `bool` they are 0 and 1. Other overrides keep the module's values. Names that the
    /// module does not have are ignored, so that one list serves many modules.
    pub overrides: &'a [(&'a str, f64)],
    /// What happens with an index that is out of bounds: `buffer` applies to storage and uniform buffers, `index`
    /// to everything else.
    pub bounds_checks: BoundsCheckPolicies,
    /// Whether every loop ends after 2³² - 1 iterations, so that no loop is without end, which C++ does not define.
    pub bound_loops: bool,
    /// Whether workgroup memory is zeroed when the kernel starts, as WGSL says.
    pub zero_workgroup_memory: bool,
    /// The workgroups that a multiprocessor is to hold at once: the second of CUDA's launch bounds. The compiler then uses
    /// the registers that this leaves; `None` lets it choose between registers, spills and workgroups. See
    /// [`compile_in_registers`](crate::compile_in_registers).
    pub min_workgroups: Option<u32>,
    /// The WGSL, for `#line` directives and the locations in errors.
    pub source: Option<Source<'a>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            entry_point: None,
            overrides: &[],
            bounds_checks: BoundsCheckPolicies {
                index: BoundsCheckPolicy::Restrict,
                buffer: BoundsCheckPolicy::Restrict,
                ..BoundsCheckPolicies::default()
            },
            bound_loops: true,
            zero_workgroup_memory: true,
            min_workgroups: None,
            source: None,
        }
    }
}

/// The WGSL that a module was parsed from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name of the file or kernel, which `#line` directives and errors show.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
}
