//! Translates kernels to the shader languages of drivers that are not present, as wgpu does where they
//! are.

use naga::{
    back::{glsl, hlsl, msl, pipeline_constants::process_overrides, spv, wgsl},
    proc::BoundsCheckPolicies,
    valid::{
        Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator,
    },
};
use wisp_shaders::Kernel;

use crate::shader_language::ShaderLanguage;

/// Translates a kernel to text, or to SPIR-V words in little-endian order.
///
/// # Errors
///
/// What the language cannot express.
pub fn translate(kernel: &Kernel, language: ShaderLanguage) -> Result<Vec<u8>, String> {
    let (module, info) = parsed(kernel)?;
    written(&module, &info, language)
}

/// Parses a kernel and validates it with the features that it needs.
fn parsed(kernel: &Kernel) -> Result<(naga::Module, ModuleInfo), String> {
    let wgsl = kernel.wgsl.text();
    let module = naga::front::wgsl::parse_str(&wgsl).map_err(|error| error.to_string())?;
    let mut capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    capabilities.set(Capabilities::SUBGROUP, kernel.needs.subgroups);
    capabilities.set(Capabilities::SHADER_FLOAT16, kernel.needs.f16);
    capabilities.set(
        Capabilities::COOPERATIVE_MATRIX,
        kernel.needs.matrix_size > 0,
    );
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator.subgroup_stages(ShaderStages::COMPUTE);
    validator.subgroup_operations(SubgroupOperationSet::all());
    let info = validator.validate(&module).map_err(words)?;
    Ok((module, info))
}

/// Writes a valid kernel in a language.
fn written(
    module: &naga::Module,
    info: &ModuleInfo,
    language: ShaderLanguage,
) -> Result<Vec<u8>, String> {
    let write: fn(&naga::Module, &ModuleInfo) -> Result<Vec<u8>, String> = match language {
        // CUDA devices set overrides, which the translation replaces.
        ShaderLanguage::Cuda => return to_cuda(module, info),
        ShaderLanguage::Wgsl => to_wgsl,
        ShaderLanguage::Spirv => to_spirv,
        ShaderLanguage::Msl => to_msl,
        ShaderLanguage::Hlsl => to_hlsl,
        ShaderLanguage::Glsl => to_glsl,
    };
    let (module, info) =
        process_overrides(module, info, Some(entry_point()), &Default::default()).map_err(words)?;
    write(&module, &info)
}

fn to_wgsl(module: &naga::Module, info: &ModuleInfo) -> Result<Vec<u8>, String> {
    wgsl::write_string(module, info, wgsl::WriterFlags::empty())
        .map(String::into_bytes)
        .map_err(words)
}

/// Returns the message of an error and of its causes.
fn words(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

fn entry_point() -> (naga::ShaderStage, &'static str) {
    (naga::ShaderStage::Compute, "main")
}

fn to_spirv(module: &naga::Module, info: &ModuleInfo) -> Result<Vec<u8>, String> {
    let options = spv::Options {
        lang_version: (1, 3),
        bounds_check_policies: BoundsCheckPolicies::default(),
        ..Default::default()
    };
    let (shader_stage, name) = entry_point();
    let pipeline = spv::PipelineOptions {
        shader_stage,
        entry_point: name.into(),
    };
    let words = spv::write_vec(module, info, &options, Some(&pipeline)).map_err(self::words)?;
    Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

fn to_msl(module: &naga::Module, info: &ModuleInfo) -> Result<Vec<u8>, String> {
    let options = msl::Options {
        lang_version: (2, 4),
        ..Default::default()
    };
    let (stage, name) = entry_point();
    let pipeline = msl::PipelineOptions {
        entry_point: Some((stage, name.into())),
        ..Default::default()
    };
    let (text, translated) = msl::write_string(module, info, &options, &pipeline).map_err(words)?;
    // Entry points that cannot be translated are reported separately.
    for name in translated.entry_point_names {
        name.map_err(words)?;
    }
    Ok(text.into_bytes())
}

fn to_hlsl(module: &naga::Module, info: &ModuleInfo) -> Result<Vec<u8>, String> {
    let options = hlsl::Options {
        shader_model: hlsl::ShaderModel::V6_2,
        ..Default::default()
    };
    let (stage, name) = entry_point();
    let pipeline = hlsl::PipelineOptions {
        entry_point: Some((stage, name.into())),
    };
    let mut text = String::new();
    let mut writer = hlsl::Writer::new(&mut text, &options, &pipeline);
    let reflection = writer.write(module, info, None).map_err(words)?;
    for name in reflection.entry_point_names {
        name.map_err(words)?;
    }
    Ok(text.into_bytes())
}

fn to_glsl(module: &naga::Module, info: &ModuleInfo) -> Result<Vec<u8>, String> {
    let options = glsl::Options {
        version: glsl::Version::new_gles(310),
        ..Default::default()
    };
    let (shader_stage, name) = entry_point();
    let pipeline = glsl::PipelineOptions {
        shader_stage,
        entry_point: name.into(),
        multiview: None,
    };
    let mut text = String::new();
    let policies = BoundsCheckPolicies::default();
    let writer = glsl::Writer::new(&mut text, module, info, &options, &pipeline, policies);
    writer.map_err(words)?.write().map_err(words)?;
    Ok(text.into_bytes())
}

#[cfg(feature = "cuda")]
fn to_cuda(module: &naga::Module, info: &ModuleInfo) -> Result<Vec<u8>, String> {
    let options = naga_cuda::Options {
        entry_point: Some(entry_point().1),
        overrides: wisp_shaders::CUDA_OVERRIDES,
        ..Default::default()
    };
    let translation = naga_cuda::translate(module, info, &options).map_err(words)?;
    Ok(translation.source.into_bytes())
}

#[cfg(not(feature = "cuda"))]
fn to_cuda(_: &naga::Module, _: &ModuleInfo) -> Result<Vec<u8>, String> {
    Err("this build does not translate to CUDA C++: it lacks the feature cuda".into())
}

#[cfg(test)]
mod tests {
    use wisp_shaders::Needs;

    use super::*;

    /// Whether a language has what a kernel needs.
    fn expresses(language: ShaderLanguage, kernel: &Kernel) -> bool {
        match language {
            // OpenGL has no more than the baseline, and Direct3D no cooperative matrices.
            ShaderLanguage::Glsl => kernel.needs == Needs::default(),
            ShaderLanguage::Hlsl => kernel.needs.matrix_size == 0,
            // CUDA's matrices are of 16.
            ShaderLanguage::Cuda => kernel.needs.matrix_size != 8,
            ShaderLanguage::Wgsl | ShaderLanguage::Spirv | ShaderLanguage::Msl => true,
        }
    }

    /// Whether a translation has an entry point, or SPIR-V's magic number.
    fn is_whole(language: ShaderLanguage, translation: Vec<u8>) -> bool {
        let entry = match language {
            ShaderLanguage::Spirv => return translation.starts_with(&0x0723_0203u32.to_le_bytes()),
            ShaderLanguage::Wgsl => "fn main",
            ShaderLanguage::Msl => "kernel void main_",
            ShaderLanguage::Hlsl | ShaderLanguage::Glsl => "void main(",
            ShaderLanguage::Cuda => "extern \"C\" __global__ void",
        };
        String::from_utf8(translation).is_ok_and(|text| text.contains(entry))
    }

    /// Every kernel there is, also those that no architecture uses yet; in an ordinary run each by two of the writers,
    /// which are others for the next kernel. (naga's SPIR-V writer panics at a `coopStore` whose index or stride has no
    /// name, and its parser rejects the directive `enable subgroups;`.)
    #[test]
    fn every_kernel_is_accepted_by_every_writer() {
        use ShaderLanguage::{Cuda, Glsl, Hlsl, Msl, Spirv, Wgsl};
        const WRITERS: [ShaderLanguage; 5] = [Wgsl, Spirv, Msl, Hlsl, Glsl];
        let takes_all = std::env::var_os("WISP_TEST_ALL").is_some_and(|value| value == "1");
        let turn = std::env::var("WISP_TEST_TURN");
        let turn: usize = turn.map_or(0, |turn| turn.parse().unwrap());
        for (number, kernel) in wisp_shaders::kernels().iter().enumerate() {
            let (module, info) = parsed(kernel).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
            let mut languages = match takes_all {
                true => WRITERS.to_vec(),
                false => [0, 2]
                    .map(|at| WRITERS[(number + turn + at) % WRITERS.len()])
                    .to_vec(),
            };
            // The translator to CUDA has a test of all kernels of its own.
            if cfg!(feature = "cuda") && number.is_multiple_of(10) {
                languages.push(Cuda);
            }
            languages.retain(|language| expresses(*language, kernel));
            for language in languages {
                let translation = written(&module, &info, language)
                    .unwrap_or_else(|error| panic!("{} in {language:?}: {error}", kernel.name));
                let is_whole = is_whole(language, translation);
                assert!(is_whole, "{} in {language:?}", kernel.name);
            }
        }
    }

    /// Malformed, invalid and missing entry points are errors, not panics.
    #[test]
    fn untranslatable_kernels_are_reported_with_their_problem() {
        use ShaderLanguage::{Hlsl, Msl, Spirv};
        for (wgsl, language, expected) in [
            (
                "@compute @workgroup_size(1) fn main() { let x: u32 = 1.5; }",
                Msl,
                "the type of `x` is expected to be `u32`, but got `{AbstractFloat}`",
            ),
            (
                "@compute @workgroup_size(0) fn main() {}",
                Spirv,
                "Entry point main at Compute is invalid: Workgroup size is out of range",
            ),
            (
                "@compute @workgroup_size(1) fn other() {}",
                Hlsl,
                "entry point with stage Compute and name 'main' not found",
            ),
        ] {
            let kernel = Kernel {
                wgsl: wisp_shaders::Wgsl::new(wgsl),
                ..*wisp_shaders::kernels().first().unwrap()
            };
            assert_eq!(translate(&kernel, language).unwrap_err(), expected);
        }
    }
}
