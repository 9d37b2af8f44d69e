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

/// A number of a case in a turn (FNV-1a). Those of different cases are independent of each other, so that any two samples,
/// of which one is within the other, meet in some turn.
fn number(case: &str, turn: usize) -> u64 {
    let bytes = (turn as u64).to_le_bytes().into_iter().chain(case.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    // The low bits of the hash alone depend on the low bits of the bytes.
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33
}

/// Returns whether a case is in the sample numbered `sample` of `samples`, which share the cases out. It is in each
/// where all cases run.
pub fn has(case: &str, sample: usize, samples: usize) -> bool {
    let (samples, sample) = (samples as u64, sample as u64);
    takes_all() || number(case, turn()) % samples == sample % samples
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

/// Returns whether a test that is written for some devices runs on one of them: on the host, and in half of the turns on
/// one of the others.
pub fn takes_test(test: &str, place: TestDevice, places: &[TestDevice]) -> bool {
    let mut others = places.iter().filter(|place| **place != TestDevice::Host);
    let samples = others.clone().count();
    let at = others.position(|other| *other == place);
    at.is_none_or(|sample| has(test, sample, 2 * samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_taken_within_every_other_in_some_turn() {
        for samples in [2, 3, 4] {
            for outer in 0..samples {
                for inner in 0..samples {
                    let taken = |case, sample, turn| number(case, turn) % samples == sample;
                    let both = |turn| taken("a test", outer, turn) && taken("a model", inner, turn);
                    assert!((0..256).any(both), "{outer} and {inner} of {samples}");
                }
            }
        }
    }
}
