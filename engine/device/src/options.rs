//! How a device is opened.

use wisp_types::choices;

use crate::FeatureLevel;

choices! {
    /// Which class of kernels programs use on an adapter.
    ///
    /// Kernels for GPUs rely on workgroup memory and barriers in hardware, those for software adapters
    /// avoid both. Either class runs on every adapter and computes the same results, only the speed
    /// differs; so a software adapter can pose as a GPU, to test there what GPUs run. The host device
    /// ignores the class, because it runs the kernels' Rust twins.
    #[derive(Default)]
    DeviceClassChoice, "device class" {
        /// The class of the adapter.
        #[default]
        Auto = "auto",
        /// Kernels for GPUs.
        Gpu = "gpu",
        /// Kernels for software adapters.
        Software = "software",
    }
}

impl DeviceClassChoice {
    /// True if programs use the kernels for software adapters on an adapter.
    #[cfg(any(feature = "wgpu", feature = "cuda", test))]
    pub(crate) fn selects_software_kernels(self, is_software_adapter: bool) -> bool {
        match self {
            DeviceClassChoice::Auto => is_software_adapter,
            DeviceClassChoice::Gpu => false,
            DeviceClassChoice::Software => true,
        }
    }
}

/// How a device is opened. The default uses all that the device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// How much of an adapter's features and limits programs may use.
    pub feature_level: FeatureLevel,
    /// The class of kernels that programs use on an adapter.
    pub device_class: DeviceClassChoice,
    /// Whether programs may use cooperative matrices, an experimental feature of wgpu; they compute products
    /// and attention with less precision than others.
    pub cooperative_matrices: bool,
    /// The number of the host device's threads; 0 is one for each core.
    pub num_threads: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_is_that_of_the_adapter_unless_one_is_chosen() {
        use DeviceClassChoice::{Auto, Gpu, Software};
        for (choice, on_a_gpu, on_a_software_adapter) in [
            (Auto, false, true),
            (Gpu, false, false),
            (Software, true, true),
        ] {
            assert_eq!(choice.selects_software_kernels(false), on_a_gpu, "{choice}");
            let selected = choice.selects_software_kernels(true);
            assert_eq!(selected, on_a_software_adapter, "{choice}");
        }
    }
}
