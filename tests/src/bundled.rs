//! The built-in model, opened by the library.

use std::path::{Path, PathBuf};

use wisp_engine::{
    device::{Device, DeviceSpec, FeatureLevel},
    pipelines::ModelFiles,
    session::InferenceSession,
};

use crate::program::TestDevice;

/// Returns the folder of the model and its reference results.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../native-demo/model")
}

/// Opens the model's files.
pub fn files() -> ModelFiles {
    ModelFiles::open(&folder().join("wisp-tiny.gguf")).expect("the built-in model")
}

/// Opens a session on a test device.
pub fn session(place: TestDevice) -> InferenceSession {
    let (spec, profile) = match place {
        TestDevice::Host => ("host", FeatureLevel::Full),
        TestDevice::Vulkan => ("vulkan", FeatureLevel::Full),
        TestDevice::VulkanBaseline => ("vulkan", FeatureLevel::Baseline),
    };
    let spec: DeviceSpec = spec.parse().expect("a device");
    InferenceSession::new(Device::open_blocking(&spec, profile, 0).expect("the device"))
}
