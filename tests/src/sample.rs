//! What an ordinary run takes of tests that have many cases. `WISP_TEST_ALL=1` takes all.

use crate::test_device::TestDevice;

/// Returns whether all cases of all tests run: `WISP_TEST_ALL=1`.
pub fn takes_all() -> bool {
    std::env::var_os("WISP_TEST_ALL").is_some_and(|value| value == "1")
}

/// The number that turns the samples, `WISP_TEST_TURN`, by default 0: with another number other cases run.
pub fn turn() -> usize {
    let turn = std::env::var("WISP_TEST_TURN");
    turn.map_or(0, |turn| turn.parse().expect("WISP_TEST_TURN is a number"))
}

/// Returns whether a case is in the sample numbered `sample` of `samples`, which share the cases out. It is in each
/// where all cases run.
pub fn has(case: &str, sample: usize, samples: usize) -> bool {
    let sum: usize = case.bytes().map(usize::from).sum();
    takes_all() || (sum + turn()) % samples == sample % samples
}

/// Returns whether a checkpoint runs on a device: on the host, and on one of the Vulkan devices, which for every other
/// checkpoint is the one that poses as a GPU.
pub fn runs_on(checkpoint: &str, place: TestDevice) -> bool {
    match place {
        TestDevice::Host => true,
        TestDevice::VulkanGpu => has(checkpoint, 0, 2),
        TestDevice::Vulkan => has(checkpoint, 1, 4),
        TestDevice::VulkanBaseline => has(checkpoint, 3, 4),
    }
}

/// Returns whether a test that is written for some devices runs on one of them: on the host, and on one of the others.
pub fn takes_test(test: &str, place: TestDevice, places: &[TestDevice]) -> bool {
    let mut others = places.iter().filter(|place| **place != TestDevice::Host);
    let samples = others.clone().count();
    let at = others.position(|other| *other == place);
    at.is_none_or(|sample| has(test, sample, samples))
}
