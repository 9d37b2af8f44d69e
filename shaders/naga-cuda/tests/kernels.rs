//! Wisp's kernels, all of them.

mod support;

use naga::proc::BoundsCheckPolicy;
use naga_cuda::{Error, Parameter};
use std::time::Instant;
use support::nvrtc::Nvrtc;
use support::{POLICIES, options, parse};
use wisp_shaders::{Access, Kernel, kernels};

/// Cooperative matrices of 8 by 8 are those of Apple's GPUs.
fn is_supported(kernel: &Kernel) -> bool {
    kernel.needs.matrix_size != 8
}

#[test]
fn every_kernel_has_a_translation_under_every_policy() {
    let mut translated = 0;
    for kernel in kernels() {
        let (module, info) =
            parse(kernel.wgsl).unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
        for policy in POLICIES {
            let result =
                naga_cuda::translate(&module, &info, &options(policy, kernel.name, kernel.wgsl));
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
            assert_eq!(
                pointers(&translation.parameters),
                expected_pointers(kernel),
                "{}",
                kernel.name
            );
            translated += 1;
        }
    }
    assert!(translated >= 3 * 200, "{translated} translations");
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

/// Kernels spread evenly over the table, others for each architecture; all of them if `NVRTC_ALL` is set.
#[test]
fn kernels_compile_without_spills() {
    let Some(nvrtc) = Nvrtc::load() else { return };
    let all = std::env::var_os("NVRTC_ALL").is_some();
    let step = if all { 1 } else { 32 };
    let kernels: Vec<_> = kernels()
        .iter()
        .filter(|kernel| is_supported(kernel))
        .collect();
    let mut failures = Vec::new();
    for (offset, architecture) in ["sm_75", "sm_80", "sm_90", "sm_120"]
        .into_iter()
        .enumerate()
    {
        let (start, mut compiled) = (Instant::now(), 0);
        for kernel in kernels
            .iter()
            .skip(if all { 0 } else { 7 * offset })
            .step_by(step)
        {
            let (module, info) = parse(kernel.wgsl).unwrap();
            // Of the policies the sample takes one after the other.
            let policy = if all {
                BoundsCheckPolicy::Unchecked
            } else {
                POLICIES[compiled % POLICIES.len()]
            };
            let translation =
                naga_cuda::translate(&module, &info, &options(policy, kernel.name, kernel.wgsl))
                    .unwrap();
            match nvrtc.compile(&translation.source, architecture) {
                Ok(statistics) if statistics.spills == 0 => {}
                Ok(statistics) => {
                    failures.push(format!("{} on {architecture}: {statistics:?}", kernel.name))
                }
                Err(log) => failures.push(format!("{} on {architecture}: {log}", kernel.name)),
            }
            compiled += 1;
        }
        assert_ne!(compiled, 0);
        println!(
            "{architecture}: {compiled} kernels in {:.1} s",
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
