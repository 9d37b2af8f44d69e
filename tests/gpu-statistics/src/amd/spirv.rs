//! Lowers a kernel to SPIR-V, as wgpu does it before the driver compiles it.

use naga::{
    back::{pipeline_constants::process_overrides, spv},
    proc::{BoundsCheckPolicies, BoundsCheckPolicy},
};

use crate::wgsl::Parsed;

/// Lowers a kernel with the options that wgpu-hal passes for kernels without runtime checks: no bounds checks, no
/// counters in loops, no guards of divisions, no zeroed workgroup memory. The entry point is `main`.
///
/// # Errors
///
/// With naga's message, if SPIR-V cannot express the kernel.
pub fn lower(kernel: &Parsed) -> Result<Vec<u32>, String> {
    let entry_point = spv::PipelineOptions {
        shader_stage: naga::ShaderStage::Compute,
        entry_point: "main".into(),
    };
    let main = Some((entry_point.shader_stage, entry_point.entry_point.as_str()));
    let (module, info) = process_overrides(&kernel.module, &kernel.info, main, &Default::default())
        .map_err(|error| error.to_string())?;
    spv::write_vec(&module, &info, &options(), Some(&entry_point))
        .map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests {
    use crate::wgsl;

    #[test]
    fn kernels_become_modules() {
        let parsed = wgsl::parse("@compute @workgroup_size(64) fn main() {}").unwrap();
        let words = super::lower(&parsed).unwrap();
        assert_eq!(words.first(), Some(&0x0723_0203), "SPIR-V's magic number");
    }
}
