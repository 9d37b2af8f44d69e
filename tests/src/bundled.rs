//! The model inside the program, through the library.

use std::path::{Path, PathBuf};

use wisp_engine::{
    device::{Device, DeviceSpec, FeatureLevel},
    pipelines::ModelFiles,
    session::InferenceSession,
};

use crate::program::TestDevice;

/// The folder of the model and its goldens.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../native-demo/model")
}

/// The model's files.
pub fn files() -> ModelFiles {
    ModelFiles::open(&folder().join("wisp-tiny.gguf")).expect("the model inside")
}

/// A session where a test runs.
pub fn session(place: TestDevice) -> InferenceSession {
    let (spec, profile) = match place {
        TestDevice::Host => ("host", FeatureLevel::Full),
        TestDevice::Vulkan => ("vulkan", FeatureLevel::Full),
        TestDevice::VulkanBaseline => ("vulkan", FeatureLevel::Baseline),
    };
    let spec: DeviceSpec = spec.parse().expect("a device");
    InferenceSession::new(Device::open_blocking(&spec, profile, 0).expect("the device"))
}
