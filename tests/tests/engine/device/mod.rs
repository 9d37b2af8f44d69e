//! Commands on devices: their order, and the memory that they access.

mod memory_safety;
mod order;

use wisp_engine::device::{
    Buffer, Device, DeviceError, DeviceOptions, DeviceSpec, Dispatch, Usage,
};
use wisp_shaders::{Kernel, params::BinaryContiguousParams};
use wisp_tests::program::adapter_under_test;

/// The host, and the adapter under test if there is one.
pub fn devices() -> Vec<Device> {
    let host = Device::host(1).expect("the host's threads start");
    let devices = [Some(host), adapter()];
    devices.into_iter().flatten().collect()
}

/// The adapter under test.
pub fn adapter() -> Option<Device> {
    let spec: DeviceSpec = adapter_under_test().parse().expect("a specification");
    match Device::open_blocking(&spec, DeviceOptions::default()) {
        Ok(device) => Some(device),
        Err(DeviceError::NoAdapter { .. }) => {
            println!("skipped on GPUs: no {} device", adapter_under_test());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Adds four numbers to four others.
pub fn add() -> &'static Kernel {
    wisp_shaders::kernel("binary_contiguous.baseline").expect("a built-in kernel")
}

/// `sum = a + b`, four numbers each.
pub struct Addition {
    pub params: Buffer,
    pub a: Buffer,
    pub b: Buffer,
    pub sum: Buffer,
    pub dispatch: Dispatch,
}

impl Addition {
    pub fn new(device: &Device) -> Addition {
        let memory = |label| {
            device
                .allocate(label, 16, Usage::Storage)
                .expect("16 bytes")
        };
        let [a, b, sum] = ["a", "b", "sum"].map(memory);
        Addition::over(device, a, b, sum)
    }

    /// An addition over given buffers.
    pub fn over(device: &Device, a: Buffer, b: Buffer, sum: Buffer) -> Addition {
        let params = device.allocate("params", 16, Usage::Uniform);
        let params = params.expect("16 bytes");
        let words = BinaryContiguousParams {
            len: 4,
            b_len: 4,
            ..Default::default()
        };
        let written = device.write(&params, 0, bytemuck::bytes_of(&words));
        written.expect("parameters");
        let bindings = [&params, &a, &b, &sum].map(Buffer::whole);
        let group = device.bind(add(), &bindings).expect("four bindings");
        let pipeline = device.pipeline(add()).expect("it compiles");
        let dispatch = Dispatch::new(device, &pipeline, &group, [1; 3]).expect("it fits");
        Addition {
            params,
            a,
            b,
            sum,
            dispatch,
        }
    }
}

pub fn write(device: &Device, buffer: &Buffer, values: [f32; 4]) {
    let written = device.write(buffer, 0, bytemuck::cast_slice(&values));
    written.expect("four numbers");
}

pub fn read(device: &Device, buffer: &Buffer) -> Vec<f32> {
    let bytes = device.read_blocking(buffer, 0..16).expect("four numbers");
    bytemuck::pod_collect_to_vec(&bytes)
}
