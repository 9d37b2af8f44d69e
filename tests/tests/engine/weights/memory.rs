//! The readers of headers allocate no more than the bytes that they have received explain, whatever counts
//! and lengths a file claims.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use wisp_engine::weights::gguf::Gguf;
use wisp_engine::weights::safetensors::Safetensors;

use super::samples;

thread_local! {
    /// The number of bytes that this thread has allocated and not freed.
    static NOW: Cell<isize> = const { Cell::new(0) };
    /// The largest value of `NOW` so far.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, which also counts the bytes of each thread.
struct Counting;

/// Adds to this thread's count, unless its thread-local variables are already destroyed.
fn count(bytes: isize) {
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
    });
}

// SAFETY: every call is forwarded to the system's allocator; counting does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The old and the new memory may exist at the same time.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the largest number of bytes that were allocated at a time while `work` ran on this thread.
fn peak<T>(work: impl FnOnce() -> T) -> usize {
    let before = NOW.get();
    PEAK.set(before);
    let result = work();
    let peak = PEAK.get() - before;
    drop(result);
    peak as usize
}

/// The bound: a few times the size of Rust's structs for the smallest items of a file, and room for the
/// message of an error.
const FACTOR: usize = 24;
const CONSTANT: usize = 16 << 10;

/// Asserts that parsing a file allocates an amount of memory in proportion to its size.
#[track_caller]
fn assert_modest(file: &[u8]) {
    let peak = peak(|| Gguf::parse(file));
    assert!(
        peak <= FACTOR * file.len() + CONSTANT,
        "{peak} bytes allocated for a file of {}",
        file.len()
    );
}

/// Returns a file with one key whose value is an array of elements of type `element` with a claimed length.
fn array(version: u32, element: u32, claimed: u64, body: &[u8]) -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    let count = |file: &mut Vec<u8>, n: u64| match version {
        1 => file.extend((n as u32).to_le_bytes()),
        _ => file.extend(n.to_le_bytes()),
    };
    file.extend(version.to_le_bytes());
    count(&mut file, 0);
    count(&mut file, 1);
    count(&mut file, 1);
    file.push(b'k');
    file.extend(9u32.to_le_bytes());
    file.extend(element.to_le_bytes());
    count(&mut file, claimed);
    file.extend(body);
    file
}

#[test]
fn allocations_are_counted() {
    assert!(peak(|| vec![0u8; 1 << 20]) >= 1 << 20);
    assert!(peak(|| ()) == 0);
}

#[test]
fn claimed_lengths_allocate_nothing() {
    for version in [1, 3] {
        for element in 0..=12 {
            for claimed in [1 << 20, 1 << 28, (1 << 32) - 1, 1 << 40, 1 << 60, u64::MAX] {
                assert_modest(&array(version, element, claimed, &[0; 100]));
            }
        }
    }
}

#[test]
fn the_smallest_items_take_a_bounded_multiple_of_their_size() {
    for version in [1, 3] {
        let length = if version == 1 { 4 } else { 8 };
        let n = 50_000;
        // Empty strings, and empty arrays in an array.
        assert_modest(&array(version, 8, n, &vec![0; n as usize * length]));
        assert_modest(&array(version, 9, n, &vec![0; n as usize * (length + 4)]));
    }
    let mut tensors = b"GGUF\x03\0\0\0".to_vec();
    tensors.extend(20_000u64.to_le_bytes());
    tensors.extend(0u64.to_le_bytes());
    for i in 0..20_000u32 {
        tensors.extend(2u64.to_le_bytes());
        // Names of two ASCII characters. They repeat, which is found only at the end.
        tensors.extend([b'a' + (i % 26) as u8, b'a' + (i / 26 % 26) as u8]);
        tensors.extend([0; 16]);
    }
    tensors.extend([0; 64]);
    assert_modest(&tensors);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn mutated_gguf_headers_take_modest_memory(
        version in 1u32..=3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut file = samples::tiny(version, false);
        for (index, byte) in changes {
            let at = index.index(file.len());
            file[at] = byte;
        }
        assert_modest(&file);
    }

    #[test]
    fn mutated_safetensors_headers_take_modest_memory(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut file = samples::tiny_safetensors();
        for (index, byte) in changes {
            let at = index.index(file.len());
            file[at] = byte;
        }
        let len = Some(file.len() as u64);
        let peak = peak(|| Safetensors::parse(&file, len));
        prop_assert!(peak <= FACTOR * file.len() + CONSTANT, "{peak} bytes");
    }
}
