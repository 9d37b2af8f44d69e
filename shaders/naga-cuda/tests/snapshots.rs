//! The exact text of some translations, without the prelude: `tests/snapshots/NAME.cu` for `tests/wgsl/NAME.wgsl`.
//! `UPDATE_SNAPSHOTS=1` writes them again.

mod support;

use naga::proc::BoundsCheckPolicy;
use naga_cuda::Options;
use std::path::Path;
use support::{options, translate};

/// Compares the translation of a shader with its snapshot. `with_source` adds `#line` directives.
fn check(name: &str, policy: BoundsCheckPolicy, with_source: bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let wgsl = std::fs::read_to_string(folder.join(format!("wgsl/{name}.wgsl"))).unwrap();
    let file = format!("{name}.wgsl");
    let mut options = options(policy, &file, &wgsl);
    if !with_source {
        options = Options {
            source: None,
            bound_loops: false,
            zero_workgroup_memory: false,
            ..options
        };
    }
    let source = translate(&wgsl, &options).unwrap().source;
    let (_, text) = source.split_once("// The translation.\n").unwrap();
    let path = folder.join(format!("snapshots/{name}.cu"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(
        text == expected,
        "{} differs; UPDATE_SNAPSHOTS=1 writes it again:\n{text}",
        path.display()
    );
}

#[test]
fn structs_have_padding_and_functions_get_globals() {
    check("structs", BoundsCheckPolicy::Unchecked, false);
}

#[test]
fn loops_are_bounded_and_lines_lead_back() {
    check("control", BoundsCheckPolicy::Unchecked, true);
}

#[test]
fn restricted_indices_are_clamped() {
    check("arrays", BoundsCheckPolicy::Restrict, false);
}

#[test]
fn indices_out_of_bounds_are_skipped() {
    check("atomics", BoundsCheckPolicy::ReadZeroSkipWrite, false);
}

#[test]
fn workgroup_memory_is_cleared() {
    check("workgroups", BoundsCheckPolicy::Restrict, true);
}

#[test]
fn cooperative_matrices_are_tensor_core_tiles() {
    check("cooperative", BoundsCheckPolicy::Unchecked, false);
}

#[test]
fn bytes_become_floats_without_conversions() {
    check("bytes", BoundsCheckPolicy::Unchecked, false);
}

/// One instruction computes four products and adds a sum, unless another expression needs the products alone.
#[test]
fn dot_products_of_bytes_add_a_sum() {
    check("dots", BoundsCheckPolicy::Unchecked, false);
}

#[test]
fn functions_with_an_instruction_lose_their_bodies() {
    check("intrinsics", BoundsCheckPolicy::Unchecked, false);
}

#[test]
fn functions_of_other_types_keep_their_bodies() {
    let wgsl = "
        @group(0) @binding(0) var<storage, read_write> out: array<f32>;
        fn cuda_byte_perm(low: f32, high: u32, selector: u32) -> f32 { return low + f32(high * selector); }
        fn cuda_mma_m16n8k16(a: f32) -> f32 { return 3.5 * a; }
        @compute @workgroup_size(1) fn main() { out[0] = cuda_mma_m16n8k16(cuda_byte_perm(out[1], 2u, 3u)); }";
    let source = translate(wgsl, &Options::default()).unwrap().source;
    let (_, text) = source.split_once("// The translation.\n").unwrap();
    assert!(text.contains("high_a1 * selector_a2"), "{text}");
    assert!(
        !text.contains("w_mma") && !text.contains("cuda_prmt"),
        "{text}"
    );
}

#[test]
fn overrides_have_the_values_asked_for_or_those_of_the_module() {
    let wgsl = "
        override is_double: bool = false;
        @id(7) override count: u32 = 3;
        var<workgroup> lanes: array<u32, count>;
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(count) fn main(@builtin(local_invocation_index) i: u32) {
            lanes[i] = i;
            if is_double { out[i] = 2 * lanes[i]; } else { out[i] = lanes[i]; }
        }";
    let check = |overrides: &[(&str, f64)], count: u32, condition: &str| {
        let options = Options {
            overrides,
            ..Options::default()
        };
        let translation = translate(wgsl, &options).unwrap();
        assert_eq!(translation.workgroup_size, [count, 1, 1], "{overrides:?}");
        assert!(
            translation.source.contains(condition),
            "{}",
            translation.source
        );
    };
    check(&[], 3, "if (false)");
    check(&[("is_double", 1.0), ("missing", 1.0)], 3, "if (true)");
    check(&[("count", 5.0)], 5, "if (false)");
    check(&[("count", 5.0)], 5, "arr<unsigned, 5>");
}

#[test]
fn launch_bounds_name_the_threads_and_the_workgroups_asked_for() {
    let wgsl = "@compute @workgroup_size(8, 4) fn main() {}";
    for (min_workgroups, bounds) in [(None, "(32)"), (Some(3), "(32, 3)")] {
        let options = Options {
            min_workgroups,
            ..Options::default()
        };
        let translation = translate(wgsl, &options).unwrap();
        let bounds = format!("__launch_bounds__{bounds}\n");
        assert!(
            translation.source.contains(&bounds),
            "{}",
            translation.source
        );
    }
}
