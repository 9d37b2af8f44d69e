//! Lowers a kernel to SPIR-V, as wgpu does it before the driver compiles it.

use std::collections::BTreeMap;

use naga::{
    Expression, Literal,
    back::spv,
    proc::{BoundsCheckPolicies, BoundsCheckPolicy},
    valid::{Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator},
};

/// A kernel in SPIR-V.
pub struct Lowered {
    /// The module, whose entry point is `main`.
    pub words: Vec<u32>,
    /// The kernel's `u32` constants by name: `ROWS`, `WG`.
    pub constants: BTreeMap<String, u32>,
}

/// Lowers WGSL with the options that wgpu-hal passes for kernels without runtime checks: no bounds checks, no
/// counters in loops, no guards of divisions, no zeroed workgroup memory.
///
/// # Errors
///
/// With naga's message, if the kernel is not valid WGSL.
pub fn lower(wgsl: &str) -> Result<Lowered, String> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|error| error.emit_to_string(wgsl))?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator
        .subgroup_stages(ShaderStages::COMPUTE)
        .subgroup_operations(SubgroupOperationSet::all());
    let info = validator
        .validate(&module)
        .map_err(|error| error.emit_to_string(wgsl))?;
    let entry_point = spv::PipelineOptions {
        shader_stage: naga::ShaderStage::Compute,
        entry_point: "main".into(),
    };
    let words = spv::write_vec(&module, &info, &options(), Some(&entry_point))
        .map_err(|error| error.to_string())?;
    Ok(Lowered {
        words,
        constants: constants(&module),
    })
}

fn options() -> spv::Options<'static> {
    const UNCHECKED: BoundsCheckPolicy = BoundsCheckPolicy::Unchecked;
    spv::Options {
        // What a driver of Vulkan 1.3 gets.
        lang_version: (1, 6),
        flags: spv::WriterFlags::LABEL_VARYINGS | spv::WriterFlags::FORCE_POINT_SIZE,
        capabilities: None,
        bounds_check_policies: BoundsCheckPolicies {
            index: UNCHECKED,
            buffer: UNCHECKED,
            image_load: UNCHECKED,
            binding_array: UNCHECKED,
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        use_storage_input_output_16: false,
        ..spv::Options::default()
    }
}

fn constants(module: &naga::Module) -> BTreeMap<String, u32> {
    let constants = module.constants.iter();
    let value = |constant: &naga::Constant| match module.global_expressions[constant.init] {
        Expression::Literal(Literal::U32(value)) => Some((constant.name.clone()?, value)),
        _ => None,
    };
    constants
        .filter_map(|(_, constant)| value(constant))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_evaluated() {
        let wgsl = "const WG = 64u; const HALF: u32 = WG / 2u; const SCALE = 0.5;
            @compute @workgroup_size(WG) fn main() {}";
        let lowered = lower(wgsl).unwrap();
        let expected = [("HALF".to_owned(), 32), ("WG".to_owned(), 64)];
        assert_eq!(lowered.constants, expected.into());
        assert_eq!(
            lowered.words.first(),
            Some(&0x0723_0203),
            "SPIR-V's magic number"
        );
    }

    #[test]
    fn invalid_wgsl_is_reported_with_its_line() {
        let error = lower("fn main() {\n    missing();\n}").err().unwrap();
        assert!(error.contains("missing"), "{error}");
    }
}
