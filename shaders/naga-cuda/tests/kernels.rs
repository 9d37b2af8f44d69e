//! Wisp's kernels, all of them.

mod support;

use naga::proc::BoundsCheckPolicy;
use naga_cuda::{Error, Options, Parameter, Resources, compile_in_registers};
use std::collections::BTreeSet;
use std::time::Instant;
use support::nvrtc::Nvrtc;
use support::{POLICIES, options, parse, takes_all, turn};
use wisp_shaders::{Access, CUDA_OVERRIDES, DeviceClass, Kernel, kernels};

/// The options for a kernel, with the overrides that CUDA devices set.
fn kernel_options<'a>(policy: BoundsCheckPolicy, kernel: &'a Kernel, wgsl: &'a str) -> Options<'a> {
    Options {
        overrides: CUDA_OVERRIDES,
        ..options(policy, kernel.name, wgsl)
    }
}

/// Cooperative matrices of 8 by 8 are those of Apple's GPUs.
fn is_supported(kernel: &Kernel) -> bool {
    kernel.needs.matrix_size != 8
}

/// Every kernel without checks, as sessions run it; in an ordinary run a third of them under the other policies too.
#[test]
fn every_kernel_has_a_translation_under_every_policy() {
    let (mut translated, mut overrides) = (0, BTreeSet::new());
    for (number, kernel) in kernels().iter().enumerate() {
        let wgsl = kernel.wgsl.text();
        let (module, info) =
            parse(&wgsl).unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
        let names = module.overrides.iter();
        overrides.extend(names.filter_map(|(_, value)| value.name.clone()));
        let policies = match takes_all() || (number + turn()).is_multiple_of(3) {
            true => POLICIES.len(),
            false => 1,
        };
        for policy in POLICIES.into_iter().take(policies) {
            let result =
                naga_cuda::translate(&module, &info, &kernel_options(policy, kernel, &wgsl));
            if !is_supported(kernel) {
                assert!(
                    matches!(
                        result,
                        Err(Error::Unsupported {
                            location: Some(_),
                            ..
                        })
                    ),
                    "{result:?}"
                );
                continue;
            }
            let translation = result.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(
                translation.workgroup_size, kernel.workgroup_size,
                "{}",
                kernel.name
            );
            // The functions became instructions.
            let has_instruction = translation.source.contains("return w_mma_");
            assert_eq!(has_instruction, kernel.needs.mma, "{}", kernel.name);
            assert_eq!(
                pointers(&translation.parameters),
                expected_pointers(kernel),
                "{}",
                kernel.name
            );
            translated += 1;
        }
    }
    assert!(translated >= 200, "{translated} translations");
    let set: BTreeSet<_> = CUDA_OVERRIDES
        .iter()
        .map(|(name, _)| name.to_string())
        .collect();
    assert_eq!(
        overrides, set,
        "the overrides of kernels are those that are set"
    );
}

fn pointers(parameters: &[Parameter]) -> Vec<(u32, bool)> {
    let pointer = |parameter: &Parameter| match *parameter {
        Parameter::Pointer {
            binding, writable, ..
        } => Some((binding, writable)),
        Parameter::Bytes { .. } => None,
    };
    parameters.iter().filter_map(pointer).collect()
}

fn expected_pointers(kernel: &Kernel) -> Vec<(u32, bool)> {
    (0..)
        .zip(kernel.bindings)
        .map(|(binding, access)| (binding, *access == Access::Write))
        .collect()
}

/// Kernels spread evenly over the table, others for each architecture: four times as many with `WISP_TEST_ALL=1`, and
/// all of them, which takes an hour, if `NVRTC_ALL` is set. Those for software adapters, and those with checks, need
/// not stay in registers.
#[test]
fn kernels_compile_and_stay_in_registers() {
    let Some(nvrtc) = Nvrtc::load() else { return };
    let all = std::env::var_os("NVRTC_ALL").is_some();
    let step = match (all, takes_all()) {
        (true, _) => 1,
        (false, true) => 60,
        (false, false) => 240,
    };
    let kernels: Vec<_> = kernels()
        .iter()
        .filter(|kernel| is_supported(kernel))
        .collect();
    let mut failures = Vec::new();
    for (offset, architecture) in ["sm_75", "sm_80", "sm_90", "sm_120"]
        .into_iter()
        .enumerate()
    {
        let (start, mut kernels_compiled, mut compilations) = (Instant::now(), 0, 0);
        for kernel in kernels
            .iter()
            .skip((step / 4 * offset + turn()) % step)
            .step_by(step)
        {
            let wgsl = kernel.wgsl.text();
            let (module, info) = parse(&wgsl).unwrap();
            // As sessions run them, and in the sample one in four with all checks.
            let is_checked = !all && kernels_compiled % 4 == 3;
            let options = match is_checked {
                true => {
                    let policy = POLICIES[1 + (kernels_compiled / 4 + offset) % 2];
                    kernel_options(policy, kernel, &wgsl)
                }
                false => Options {
                    bound_loops: false,
                    zero_workgroup_memory: false,
                    ..kernel_options(BoundsCheckPolicy::Unchecked, kernel, &wgsl)
                },
            };
            let threads = kernel.workgroup_size.iter().product();
            let made = compile_in_registers(threads, |min_workgroups| {
                let options = Options {
                    min_workgroups,
                    ..options.clone()
                };
                let translation = naga_cuda::translate(&module, &info, &options).unwrap();
                compilations += 1;
                let log = nvrtc.compile(&translation.source, architecture)?;
                Ok::<_, String>(((), Resources::parse(&log)))
            });
            match made.map(|(_, resources)| resources) {
                Ok(Some(resources)) => {
                    let may_spill = is_checked || kernel.device_class == DeviceClass::Software;
                    if resources.spills > 0 && !may_spill {
                        failures.push(format!("{} on {architecture}: {resources:?}", kernel.name));
                    }
                }
                Ok(None) => failures.push(format!("{}: ptxas states no registers", kernel.name)),
                Err(log) => failures.push(format!("{} on {architecture}: {log}", kernel.name)),
            }
            kernels_compiled += 1;
        }
        assert_ne!(kernels_compiled, 0);
        println!(
            "{architecture}: {kernels_compiled} kernels in {compilations} compilations and {:.1} s",
            start.elapsed().as_secs_f32()
        );
    }
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
