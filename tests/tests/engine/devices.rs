//! Sessions of several devices, errors of devices, and transfers of tensors between devices.

use wisp_engine::{
    device::{
        Api, BindGroup, Buffer, Device, DeviceClassChoice, DeviceError, DeviceOptions, DeviceSpec,
        Dispatch, FeatureLevel, Usage,
    },
    graph::{Binary, DType, Graph, ops::Linear},
    session::{InferenceSession, Tensor},
    shape,
    weights::{Encoding, MemoryWeights},
};
use wisp_shaders::Kernel;
use wisp_tests::{
    kernels::noise,
    program::TestDevice,
    small::{options, three_devices as session},
};

#[test]
fn sessions_have_the_devices_and_threads_of_their_builder() {
    let alone = InferenceSession::builder()
        .num_threads(3)
        .build_blocking()
        .unwrap();
    let info = alone.device().info();
    assert_eq!(
        (alone.devices().len(), info.api, &*info.driver),
        (1, Api::Host, "3 threads")
    );
    let host = Device::host(1).unwrap();
    let short = InferenceSession::new(host.clone());
    assert_eq!(short.devices(), std::slice::from_ref(&host));
    let spec: DeviceSpec = "host".parse().unwrap();
    let both = InferenceSession::builder()
        .device(host.clone())
        .device(spec)
        .num_threads(2);
    let both = both.build_blocking().unwrap();
    assert_eq!(both.devices()[0], host);
    assert_ne!(both.devices()[1], host);
    assert_eq!(both.on(1).unwrap().device().info().driver, "2 threads");
    let error = both.on(2).unwrap_err().to_string();
    assert_eq!(
        error,
        "the session has no device 2, only 0 (host CPU), 1 (host CPU)"
    );
    let none: DeviceSpec = "vulkan:9".parse().unwrap();
    let error = InferenceSession::builder()
        .device(none)
        .build_blocking()
        .unwrap_err();
    assert!(
        error.to_string().starts_with("no vulkan:9 device found"),
        "{error}"
    );
    if TestDevice::VulkanBaseline.is_available() {
        let vulkan: DeviceSpec = "vulkan".parse().unwrap();
        let builder = InferenceSession::builder().device(vulkan);
        let two = builder
            .feature_level(FeatureLevel::Baseline)
            .build_blocking()
            .unwrap();
        assert_eq!(two.device().info().api, Api::Vulkan);
        assert!(!two.device().info().capabilities.subgroups);
        assert_eq!(two.devices()[1].info().api, Api::Host);
    }
}

/// Opens the Vulkan adapter with a class of kernels and compiles a product for it. Returns the device and the name of
/// the program's first kernel, or none where the machine has no adapter.
fn first_kernel(class: DeviceClassChoice) -> Option<(Device, String)> {
    if !TestDevice::Vulkan.is_available() {
        return None;
    }
    let builder = InferenceSession::builder().device("vulkan".parse::<DeviceSpec>().unwrap());
    let builder = builder.feature_level(FeatureLevel::Baseline);
    let session = builder.device_class(class).build_blocking().unwrap();
    let mut graph = Graph::new("product");
    let x = graph.input("x", DType::F32, shape!["n", 64u64]);
    let weight = graph.weight("w", Encoding::F32, shape![8u64, 64u64]);
    let product = graph.add(Linear, &[x, weight]).unwrap();
    graph.output("y", product);
    let compiled = session.compile(&graph).unwrap();
    let kernel = compiled
        .program()
        .kernels()
        .next()
        .unwrap()
        .name
        .to_string();
    Some((session.device().clone(), kernel))
}

#[test]
fn device_class_selects_kernels_and_leaves_the_adapter_as_it_is() {
    use DeviceClassChoice::{Auto, Gpu, Software};
    let [Some(own), Some(gpu), Some(software)] = [Auto, Gpu, Software].map(first_kernel) else {
        return;
    };
    assert_ne!(gpu.1, software.1);
    for (device, kernel) in [&own, &gpu, &software] {
        let info = device.info();
        assert_eq!(info.software, own.0.info().software);
        let class = info.device_class().unwrap();
        assert_eq!(info.poses(), (class == "software") != info.software);
        let expected = if class == "gpu" { &gpu.1 } else { &software.1 };
        assert_eq!(kernel, expected);
    }
    assert!(!own.0.info().poses());
    assert_eq!(gpu.0.info().device_class(), Some("gpu"));
    assert_eq!(software.0.info().device_class(), Some("software"));
}

#[test]
fn host_ignores_the_device_class() {
    let infos = [DeviceClassChoice::Auto, DeviceClassChoice::Gpu].map(|device_class| {
        let options = DeviceOptions {
            device_class,
            num_threads: 1,
            ..DeviceOptions::default()
        };
        let device = Device::open_blocking(&"host".parse().unwrap(), options).unwrap();
        device.info().clone()
    });
    assert_eq!(infos[0], infos[1]);
    assert_eq!(infos[0].device_class(), None);
}

fn softmax_kernel() -> &'static Kernel {
    wisp_shaders::kernel("softmax.baseline").unwrap()
}

/// Allocates 16 bytes of storage and 16 bytes of parameters.
fn buffers(device: &Device, label: &str) -> [Buffer; 2] {
    [(label, Usage::Storage), ("params", Usage::Uniform)]
        .map(|(label, usage)| device.allocate(label, 16, usage).unwrap())
}

/// Binds `memory` as input and output of a softmax.
fn bind(device: &Device, params: &Buffer, memory: &Buffer) -> Result<BindGroup, DeviceError> {
    let bindings = [params.whole(), memory.whole(), memory.whole()];
    device.bind(softmax_kernel(), &bindings)
}

/// A Vulkan device with the baseline features, or none where the machine has none.
fn vulkan() -> Option<Device> {
    if !TestDevice::VulkanBaseline.is_available() {
        return None;
    }
    let spec: DeviceSpec = "vulkan".parse().unwrap();
    let options = DeviceOptions {
        feature_level: FeatureLevel::Baseline,
        ..DeviceOptions::default()
    };
    Some(Device::open_blocking(&spec, options).unwrap())
}

fn message<T>(result: Result<T, DeviceError>) -> String {
    result.map(drop).unwrap_err().to_string()
}

#[test]
fn allocations_beyond_the_memory_are_refused() {
    let host = Device::host(1).unwrap();
    assert_eq!(
        message(host.allocate("x", u64::MAX, Usage::Storage)),
        "host CPU is out of memory allocating 18446744073709551615 bytes for x: \
         use a smaller model, context or batch"
    );
}

#[test]
fn bindings_out_of_range_or_of_another_usage_are_refused() {
    let host = Device::host(1).unwrap();
    let [ours, our_params] = buffers(&host, "ours");
    assert_eq!(
        message(host.bind(softmax_kernel(), &[])),
        "softmax.baseline has 3 bindings, but 0 buffers are given"
    );
    for (range, expected) in [
        (
            16..24,
            "ours: bytes 16..24 are out of range, the buffer has 16",
        ),
        (
            std::ops::Range { start: 12, end: 8 },
            "ours: bytes 12..8 are out of range, the buffer has 16",
        ),
        (8..16, "ours: bytes 8..16 are not aligned to 256 bytes"),
        (0..0, "softmax.baseline: an empty range of ours is bound"),
        (0..7, "ours: bytes 0..7 are not aligned to 4 bytes"),
    ] {
        let bindings = [our_params.whole(), ours.slice(range), ours.whole()];
        assert_eq!(message(host.bind(softmax_kernel(), &bindings)), expected);
    }
    for (params, memory, expected) in [
        (
            &ours,
            &ours,
            "softmax.baseline: binding 0 is uniform memory, but ours was allocated for another use",
        ),
        (
            &our_params,
            &our_params,
            "softmax.baseline: binding 1 is storage memory, but params was allocated for another use",
        ),
    ] {
        assert_eq!(message(bind(&host, params, memory)), expected);
    }
}

#[test]
fn transfers_out_of_range_or_misaligned_are_refused() {
    let host = Device::host(1).unwrap();
    let [ours, our_params] = buffers(&host, "ours");
    for (result, expected) in [
        (
            host.write(&ours, 12, &[0; 8]),
            "ours: bytes 12..20 are out of range, the buffer has 16",
        ),
        (
            host.write(&ours, 2, &[0; 4]),
            "ours: bytes 2..6 are not aligned to 4 bytes",
        ),
        (
            host.write(&ours, 0, &[0; 5]),
            "ours: bytes 0..5 are not aligned to 4 bytes",
        ),
        (
            host.read_blocking(&ours, 16..20).map(drop),
            "ours: bytes 16..20 are out of range, the buffer has 16",
        ),
        (
            host.read_blocking(&ours, std::ops::Range { start: 8, end: 4 })
                .map(drop),
            "ours: bytes 8..4 are out of range, the buffer has 16",
        ),
        (
            host.copy(&ours, 0..8, &our_params, 12),
            "params: bytes 12..20 are out of range, the buffer has 16",
        ),
        (
            host.copy(&ours, 0..4, &ours, 8),
            "ours cannot be copied to itself: copy it to another buffer first",
        ),
    ] {
        assert_eq!(message(result), expected);
    }
}

#[test]
fn allocations_and_bindings_beyond_the_limits_of_a_gpu_are_refused() {
    let Some(gpu) = vulkan() else { return };
    let name = &gpu.info().name;
    assert_eq!(
        message(gpu.allocate("x", 1 << 29, Usage::Storage)),
        format!("x needs 536870912 bytes in one buffer, but {name} allocates at most 268435456")
    );
    let large = gpu.allocate("x", 200 << 20, Usage::Storage).unwrap();
    let [_, params] = buffers(&gpu, "theirs");
    assert_eq!(
        message(bind(&gpu, &params, &large)),
        format!(
            "softmax.baseline: 209715200 bytes of x are bound, but {name} binds at most 134217728"
        )
    );
}

#[test]
fn buffers_and_pipelines_of_another_device_are_refused() {
    let Some(gpu) = vulkan() else { return };
    let host = Device::host(1).unwrap();
    let [ours, our_params] = buffers(&host, "ours");
    let [theirs, their_params] = buffers(&gpu, "theirs");
    let kernel = softmax_kernel();
    let group = bind(&host, &our_params, &ours).unwrap();
    let pipelines = [&host, &gpu].map(|device| device.pipeline(kernel).unwrap());
    let dispatch = [Dispatch::new(&host, &pipelines[0], &group, [1; 3]).unwrap()];
    for (result, owner) in [
        (host.write(&theirs, 0, &[0; 4]), "theirs"),
        (gpu.write(&ours, 0, &[0; 4]), "ours"),
        (gpu.read_blocking(&ours, 0..4).map(drop), "ours"),
        (host.copy(&ours, 0..4, &theirs, 0), "theirs"),
        (bind(&host, &our_params, &theirs).map(drop), "theirs"),
        (bind(&gpu, &their_params, &ours).map(drop), "ours"),
        (
            Dispatch::new(&host, &pipelines[1], &group, [1; 3]).map(drop),
            kernel.name,
        ),
        (
            Dispatch::new(&gpu, &pipelines[1], &group, [1; 3]).map(drop),
            kernel.name,
        ),
        (gpu.record(&dispatch), kernel.name),
    ] {
        assert_eq!(
            message(result),
            format!("{owner} belongs to another device")
        );
    }
}

#[test]
fn tensors_move_between_all_devices_and_models_take_them_from_any() {
    let session = session();
    let mut graph = Graph::new("double");
    let x = graph.input("x", DType::F32, shape!["n", 8u64]);
    let twice = graph.add(Binary::Add, &[x, x]).unwrap();
    graph.output("twice", twice);
    let x = Tensor::f32(&[3, 8], &noise(1, 24)).unwrap();
    let expected: Vec<f32> = x.as_f32().unwrap().iter().map(|x| 8.0 * x).collect();
    let models: Vec<_> = (0..3)
        .map(|device| {
            let session = session.on(device).unwrap();
            session
                .load_blocking(&graph, &MemoryWeights::default(), options())
                .unwrap()
        })
        .collect();
    for from in session.devices() {
        for to in session.devices() {
            let there = pollster::block_on(async { x.to(from).await?.to(to).await }).unwrap();
            assert_eq!(there.device(), Some(to));
            assert_eq!((there.as_f32(), there.shape()), (None, &[3, 8][..]));
            assert_eq!(pollster::block_on(there.to_host()).unwrap(), x);
            let same = pollster::block_on(there.to(to)).unwrap();
            assert_eq!(same, there, "the same memory");
        }
    }
    // Each model takes the tensor that the model before it left on its device.
    for order in [[0, 1, 2], [2, 0, 1], [1, 1, 1]] {
        let mut value = vec![x.clone()];
        for model in order {
            let left = pollster::block_on(models[model].execute_on_device(&[&value[0]])).unwrap();
            assert_eq!(left[0].device(), Some(models[model].device()));
            value = left;
        }
        let value = pollster::block_on(value[0].to_host()).unwrap();
        assert_eq!(value.as_f32().unwrap(), expected, "{order:?}");
    }
    // Later runs do not overwrite a tensor that was left on the device.
    let left = pollster::block_on(models[0].execute_on_device(&[&x])).unwrap();
    pollster::block_on(models[0].execute(&[&Tensor::f32(&[3, 8], &[0.0; 24]).unwrap()])).unwrap();
    let left = pollster::block_on(left[0].to_host()).unwrap();
    assert_eq!(left.as_f32().unwrap()[0], 2.0 * x.as_f32().unwrap()[0]);
    let none = Tensor::f32(&[0, 8], &[]).unwrap();
    let there = pollster::block_on(none.to(&session.devices()[0])).unwrap();
    assert_eq!(pollster::block_on(there.to_host()).unwrap(), none);
    let nothing = pollster::block_on(models[0].execute_on_device(&[&there])).unwrap();
    assert_eq!(nothing[0].shape(), [0, 8]);
}

/// The output of one model and the input of another are the same memory.
#[test]
fn models_share_memory() {
    let session = session();
    let mut graph = Graph::new("double");
    let x = graph.input("x", DType::F32, shape!["n"]);
    let twice = graph.add(Binary::Add, &[x, x]).unwrap();
    graph.output("twice", twice);
    for device in 0..3 {
        let session = session.on(device).unwrap();
        let none = MemoryWeights::default();
        let first = session.load_blocking(&graph, &none, options()).unwrap();
        let mut shared = options();
        shared
            .shared
            .insert("x".into(), first.buffer("twice").unwrap().clone());
        let second = session.load_blocking(&graph, &none, shared).unwrap();
        assert!(
            second
                .buffer("x")
                .unwrap()
                .is(first.buffer("twice").unwrap())
        );
        first.write("x", &[1.0f32, 2.0, 3.0]).unwrap();
        let dims = first.dims(&[("n", 3)]).unwrap();
        first.run(&dims).unwrap();
        second.run(&dims).unwrap();
        let fourfold: Vec<f32> = pollster::block_on(second.read("twice", 3)).unwrap();
        assert_eq!(fourfold, [4.0, 8.0, 12.0]);
    }
}
