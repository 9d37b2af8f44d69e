//! Kernels with other WGSL than their own.

use wisp_engine::device::Device;
use wisp_shaders::{Kernel, Wgsl};

use crate::kernels::{Case, adapters, differences, is_sampled, least_bound, run, unmet};

/// Returns a kernel's WGSL with other names for the functions that CUDA replaces with instructions, which are computed as their
/// WGSL says then.
///
/// # Panics
///
/// If the kernel has none of them.
pub fn without_intrinsics(wgsl: &str) -> String {
    assert!(wgsl.contains("fn cuda_"), "{wgsl}");
    wgsl.replace("cuda_", "plain_")
}

/// Runs a kernel with other WGSL on every case.
///
/// # Panics
///
/// With messages about results that differ from the twin's.
pub fn check(name: &str, cases: &[Case], rewrite: impl FnOnce(&str) -> String) {
    let kernel = wisp_shaders::kernel(name).expect("a kernel");
    if !is_sampled(kernel) {
        return;
    }
    let wgsl = rewrite(&kernel.wgsl.text());
    let rewritten: &'static Kernel = Box::leak(Box::new(Kernel {
        name: "rewritten",
        wgsl: Wgsl::new(wgsl.leak()),
        ..*kernel
    }));
    let devices = match adapters() {
        Ok(devices) => devices,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let (_, device) = devices.first().expect("an adapter has a device");
    if let Some(need) = unmet(kernel, device) {
        return println!("skipped: {name} rewritten: needs {need}");
    }
    let host = Device::host(0).expect("the host device starts");
    for case in cases {
        let expected = run(&host, kernel, case).expect("the twin takes the case");
        let outputs = run(device, rewritten, case).expect("the kernel runs");
        let wrong = differences(case, least_bound(kernel, case), &outputs, &expected);
        assert!(wrong.is_empty(), "{name} rewritten: {}", wrong.join("\n"));
    }
}
