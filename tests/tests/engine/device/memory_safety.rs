//! Safe calls cannot make a kernel access memory outside of its bindings.

use super::{Addition, adapter, add, devices, read, write};
use wisp_engine::device::{Device, DeviceError, Dispatch, Pipeline, Usage};
use wisp_shaders::{Kernel, Wgsl};

/// A custom kernel with a built-in name: `out[200] = 42`, with the bindings of `binary_contiguous`.
fn impostor() -> &'static Kernel {
    let wgsl = "
@group(0) @binding(0) var<uniform> p: vec4<u32>;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(1) fn main() { out[200u + p.x * 0u + a[0] * 0u + b[0] * 0u] = 42u; }";
    Box::leak(Box::new(Kernel {
        wgsl: Wgsl::new(wgsl),
        workgroup_size: [1; 3],
        ..*add()
    }))
}

/// Runs a kernel on 256 of 1024 bytes and returns all of them. Lavapipe checks every access itself, so this
/// finds more on hardware GPUs.
fn run(device: &Device, pipeline: &Pipeline) -> Vec<u32> {
    let params = device.allocate("params", 16, Usage::Uniform).unwrap();
    let input = device.allocate("input", 1024, Usage::Storage).unwrap();
    let out = device.allocate("out", 1024, Usage::Storage).unwrap();
    let slices = [
        params.whole(),
        input.slice(0..256),
        input.slice(256..512),
        out.slice(0..256),
    ];
    let group = device.bind(add(), &slices).unwrap();
    let dispatch = Dispatch::new(device, pipeline, &group, [1; 3]).unwrap();
    device.record(&[dispatch]).unwrap();
    bytemuck::pod_collect_to_vec(&device.read_blocking(&out, 0..1024).unwrap())
}

#[test]
fn kernels_of_callers_are_checked_even_under_built_in_names() {
    let Some(gpu) = adapter() else { return };
    let safe = gpu.pipeline(impostor()).unwrap();
    // SAFETY: kernels that are not built in are compiled with checks.
    let also_safe = unsafe { gpu.unchecked_pipeline(impostor()).unwrap() };
    for pipeline in [safe, also_safe] {
        let out = run(&gpu, &pipeline);
        assert!(out[64..].iter().all(|word| *word == 0), "{out:?}");
    }
}

#[test]
fn kernel_of_a_caller_does_not_replace_the_built_in_one_of_its_name() {
    let Some(gpu) = adapter() else { return };
    gpu.pipeline(impostor()).unwrap();
    let addition = Addition::new(&gpu);
    write(&gpu, &addition.a, [1.0, 2.0, 3.0, 4.0]);
    gpu.record(std::slice::from_ref(&addition.dispatch))
        .unwrap();
    assert_eq!(read(&gpu, &addition.sum), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn checked_kernels_keep_to_their_memory_whatever_their_parameters_are() {
    for device in devices() {
        let addition = Addition::new(&device);
        write(&device, &addition.a, [1.0; 4]);
        // Far more elements than are bound.
        let params = [u32::MAX, u32::MAX, u32::MAX, u32::MAX];
        let params = bytemuck::cast_slice(&params);
        device.write(&addition.params, 0, params).unwrap();
        // The host's twin reports it; a GPU runs it within its memory.
        let ran = device.record(std::slice::from_ref(&addition.dispatch));
        let ran = ran.and_then(|()| device.finish_blocking());
        if let Err(error) = ran {
            assert!(error.to_string().contains("binary_contiguous"), "{error}");
        }
        assert_eq!(read(&device, &addition.a), [1.0; 4]);
    }
}

/// A custom kernel whose output has 320 bytes, with the bindings of `binary_contiguous`.
fn fixed_size() -> &'static Kernel {
    let wgsl = "
@group(0) @binding(0) var<uniform> p: vec4<u32>;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<u32>, 20>;
@compute @workgroup_size(1) fn main() { out[19u + p.x * 0u] = vec4(a[0] + b[0]); }";
    Box::leak(Box::new(Kernel {
        name: "fixed_size",
        wgsl: Wgsl::new(wgsl),
        workgroup_size: [1; 3],
        ..*add()
    }))
}

/// Runs [`fixed_size`] with so many bytes for its output, of which it may also read some as `b`.
fn run_fixed_size(gpu: &Device, out_bytes: u64, reads_out: bool) -> Result<(), DeviceError> {
    let params = gpu.allocate("params", 16, Usage::Uniform)?;
    let input = gpu.allocate("input", 1024, Usage::Storage)?;
    let out = gpu.allocate("out", 1024, Usage::Storage)?;
    let b = match reads_out {
        true => &out,
        false => &input,
    };
    let slices = [
        params.whole(),
        input.whole(),
        b.slice(0..16),
        out.slice(0..out_bytes),
    ];
    let kernel = fixed_size();
    let group = gpu.bind(kernel, &slices)?;
    let dispatch = Dispatch::new(gpu, &gpu.pipeline(kernel)?, &group, [1; 3])?;
    gpu.record(&[dispatch])?;
    gpu.finish_blocking()
}

#[test]
fn binding_shorter_than_its_type_is_an_error() {
    let Some(gpu) = adapter() else { return };
    run_fixed_size(&gpu, 320, false).unwrap();
    let error = run_fixed_size(&gpu, 256, false).unwrap_err().to_string();
    assert!(error.contains("256") && error.contains("320"), "{error}");
}

#[test]
fn memory_that_a_kernel_reads_and_writes_through_two_bindings_is_an_error() {
    let Some(gpu) = adapter() else { return };
    run_fixed_size(&gpu, 320, true).unwrap_err();
}

#[test]
fn bind_group_of_a_kernel_with_other_bindings_is_an_error() {
    let softmax = wisp_shaders::kernel("softmax.baseline").unwrap();
    for device in devices() {
        let addition = Addition::new(&device);
        let buffers = [&addition.params, &addition.a, &addition.sum];
        let group = device.bind(softmax, &buffers.map(|buffer| buffer.whole()));
        let pipeline = device.pipeline(add()).unwrap();
        let error = Dispatch::new(&device, &pipeline, &group.unwrap(), [1; 3]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "binary_contiguous.baseline cannot use memory that is bound for softmax.baseline: their \
             bindings differ"
        );
    }
}

#[test]
fn too_many_workgroups_are_an_error() {
    let Some(gpu) = adapter() else { return };
    let limit = gpu.info().capabilities.max_workgroups;
    let addition = Addition::new(&gpu);
    let buffers = [&addition.params, &addition.a, &addition.b, &addition.sum];
    let group = gpu
        .bind(add(), &buffers.map(|buffer| buffer.whole()))
        .unwrap();
    let pipeline = gpu.pipeline(add()).unwrap();
    let error = Dispatch::new(&gpu, &pipeline, &group, [1, limit + 1, 1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "binary_contiguous.baseline: {:?} workgroups, but {} runs at most {limit} in each dimension",
            [1, limit + 1, 1],
            gpu.info().name
        )
    );
    assert!(Dispatch::new(&gpu, &pipeline, &group, [1, 1, limit]).is_ok());
}
