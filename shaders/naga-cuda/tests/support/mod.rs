//! What the tests share: WGSL to CUDA C++, and NVRTC.
#![allow(dead_code, reason = "each test uses its own part")]

pub mod nvrtc;

use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{
    Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator,
};
use naga_cuda::{Options, Source, Translation};

/// The policies of bounds checks.
pub const POLICIES: [BoundsCheckPolicy; 3] = [
    BoundsCheckPolicy::Unchecked,
    BoundsCheckPolicy::Restrict,
    BoundsCheckPolicy::ReadZeroSkipWrite,
];

/// Whether all cases of all tests run: `WISP_TEST_ALL=1`. An ordinary run takes a part of those that are slow.
pub fn takes_all() -> bool {
    std::env::var_os("WISP_TEST_ALL").is_some_and(|value| value == "1")
}

/// The number that decides which part an ordinary run takes, `WISP_TEST_TURN`, by default 0.
pub fn turn() -> usize {
    let turn = std::env::var("WISP_TEST_TURN");
    turn.map_or(0, |turn| turn.parse().expect("WISP_TEST_TURN is a number"))
}

/// Parses and validates WGSL with all of naga's capabilities.
pub fn parse(wgsl: &str) -> Result<(naga::Module, ModuleInfo), String> {
    let options = naga::front::wgsl::Options {
        parse_doc_comments: false,
        capabilities: Capabilities::all(),
    };
    let mut frontend = naga::front::wgsl::Frontend::new_with_options(options);
    let module = frontend
        .parse(wgsl)
        .map_err(|error| error.emit_to_string(wgsl))?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator
        .subgroup_stages(ShaderStages::COMPUTE)
        .subgroup_operations(SubgroupOperationSet::all());
    let info = validator
        .validate(&module)
        .map_err(|error| error.emit_to_string(wgsl))?;
    Ok((module, info))
}

/// The options with one policy for all indices, and the source for errors.
pub fn options<'a>(policy: BoundsCheckPolicy, name: &'a str, wgsl: &'a str) -> Options<'a> {
    Options {
        bounds_checks: BoundsCheckPolicies {
            index: policy,
            buffer: policy,
            ..BoundsCheckPolicies::default()
        },
        source: Some(Source { name, text: wgsl }),
        ..Options::default()
    }
}

/// Translates WGSL; fails with what naga or the translation says.
pub fn translate(wgsl: &str, options: &Options<'_>) -> Result<Translation, String> {
    let (module, info) = parse(wgsl)?;
    naga_cuda::translate(&module, &info, options).map_err(|error| error.to_string())
}
