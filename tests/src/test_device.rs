//! The devices on which tests run.

use std::sync::OnceLock;

use wisp_engine::device::{
    Device, DeviceClassChoice, DeviceOptions, DeviceSpec, FeatureLevel, list_blocking,
};

/// A device on which a test runs. [`on_every_device`](crate::on_every_device) generates a test for each.
///
/// `WISP_TEST_DEVICE`, such as `cuda`, replaces `vulkan`. `WISP_TEST_CLASS`, `gpu` or `software`, replaces the class
/// of kernels of every adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestDevice {
    /// The host CPU.
    Host,
    /// The first Vulkan adapter with all its features, and the kernels of its own class.
    Vulkan,
    /// The same adapter with all its features, posing as a GPU.
    VulkanGpu,
    /// The same adapter with only the features that every browser guarantees, posing as a GPU.
    VulkanBaseline,
}

impl TestDevice {
    /// Returns the device's specification and the options with which it is opened.
    pub fn open(self) -> (DeviceSpec, DeviceOptions) {
        let (feature_level, device_class) = match self {
            TestDevice::Host | TestDevice::Vulkan => (FeatureLevel::Full, DeviceClassChoice::Auto),
            TestDevice::VulkanGpu => (FeatureLevel::Full, DeviceClassChoice::Gpu),
            TestDevice::VulkanBaseline => (FeatureLevel::Baseline, DeviceClassChoice::Gpu),
        };
        let options = DeviceOptions {
            feature_level,
            device_class: class_of_all().unwrap_or(device_class),
            ..DeviceOptions::default()
        };
        (self.name().parse().expect("a device"), options)
    }

    /// Returns the device, which all callers in this process share, so that each kernel is compiled once. A test that
    /// measures the memory of a device opens one of its own.
    pub fn shared(self) -> Device {
        self.shared_with(false)
    }

    /// The same with kernels for cooperative matrices, if the adapter has these, or without.
    pub fn shared_with(self, cooperative_matrices: bool) -> Device {
        static ALL: [[OnceLock<Device>; 2]; 4] = [const { [const { OnceLock::new() }; 2] }; 4];
        let device = &ALL[self as usize][usize::from(cooperative_matrices)];
        let open = || {
            let (spec, options) = self.open();
            let options = DeviceOptions {
                cooperative_matrices,
                ..options
            };
            Device::open_blocking(&spec, options).expect("the device")
        };
        device.get_or_init(open).clone()
    }

    fn name(self) -> &'static str {
        match self {
            TestDevice::Host => "host",
            _ => adapter_under_test(),
        }
    }

    /// Returns the flags that select the device.
    pub fn args(self) -> [&'static str; 6] {
        let (_, options) = self.open();
        let profile = match options.feature_level {
            FeatureLevel::Full => "full",
            FeatureLevel::Baseline => "baseline",
        };
        let class = options.device_class.name();
        [
            "--device",
            self.name(),
            "--profile",
            profile,
            "--device-class",
            class,
        ]
    }

    /// Returns whether this machine has the device, and prints that the test is skipped if not.
    pub fn is_available(self) -> bool {
        static ADAPTER: OnceLock<bool> = OnceLock::new();
        let has_adapter = || {
            let devices = list_blocking();
            let mut names = devices.iter().map(|(spec, _)| spec.to_string());
            names.any(|name| name == adapter_under_test())
        };
        let here = self == TestDevice::Host || *ADAPTER.get_or_init(has_adapter);
        if !here {
            eprintln!("skipped: no {} device", adapter_under_test());
        }
        here
    }
}

/// Returns the name of the adapter under test: that of `WISP_TEST_DEVICE`, by default `vulkan`.
pub fn adapter_under_test() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| std::env::var("WISP_TEST_DEVICE").unwrap_or("vulkan".into()))
}

/// Returns the class that `WISP_TEST_CLASS` gives all adapters.
fn class_of_all() -> Option<DeviceClassChoice> {
    let name = std::env::var("WISP_TEST_CLASS").ok()?;
    Some(name.parse().expect("WISP_TEST_CLASS names a device class"))
}
