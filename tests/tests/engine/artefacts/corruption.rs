//! Random corruption of compiled models: none may panic, or lose a device.

use std::time::Instant;

use wisp_engine::{
    compiler::Target,
    device::Device,
    pipelines::{
        ModelLimits, PipelineError, prepare,
        text_generation::{GenerateOptions, TextGenerator},
    },
    session::{CompiledModel, CompiledModule, InferenceSession},
};
use wisp_tests::{bundled, program::TestDevice, sample::takes_all};

use super::{compiled, graph, run_on, sealed};

/// Pseudo-random numbers, the same in every run (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        for (left, shift) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left {
                self.0 << shift
            } else {
                self.0 >> shift
            };
        }
        (self.0 % most as u64) as usize
    }
}

/// Changes, removes or inserts some bytes from `from` on, or cuts the end off.
fn corrupted(bytes: &[u8], from: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(3) {
        let at = from + random.below(bytes.len() - from);
        match random.below(5) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, random.below(256) as u8),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
    if random.below(20) == 0 {
        bytes.truncate(from + random.below(bytes.len() - from));
    }
    bytes
}

/// A model with corrupted contents, whose length and checksum are right.
fn corrupted_contents(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut damaged = corrupted(&bytes[..bytes.len() - 32], 68, random);
    let contents = damaged.len() as u64 - 68;
    damaged[60..68].copy_from_slice(&contents.to_le_bytes());
    damaged.extend([0; 32]);
    sealed(damaged)
}

#[test]
fn no_corruption_is_accepted() {
    let bytes = compiled().to_bytes().unwrap();
    let mut random = Random(20261);
    let mut tried = 0;
    while tried < 10_000 {
        let damaged = corrupted(&bytes, 0, &mut random);
        if damaged != bytes {
            assert!(CompiledModel::from_bytes(&damaged).is_err());
            tried += 1;
        }
    }
}

/// Corrupts models but gives them a right checksum, so that loading, binding and running are tested. A
/// panic or a lost device fails the test.
fn corrupt_and_run(device: Device, times: usize) {
    let session = InferenceSession::new(device);
    let sound = session.compile(&graph()).unwrap();
    let expected = run_on(&session, &sound).unwrap();
    let bytes = sound.to_bytes().unwrap();
    let mut random = Random(77);
    let (mut loaded, mut ran, start) = (0, 0, Instant::now());
    for _ in 0..times {
        let Ok(model) = CompiledModel::from_bytes(&corrupted_contents(&bytes, &mut random)) else {
            continue;
        };
        loaded += 1;
        ran += usize::from(run_on(&session, &model).is_ok());
    }
    println!("{loaded} loaded, {ran} ran, {:?}", start.elapsed());
    // With fewer the test would show nothing.
    assert!(
        loaded > times / 20 && ran > times / 100,
        "{loaded} loaded, {ran} ran"
    );
    assert!(start.elapsed().as_secs() < 300);
    assert_eq!(run_on(&session, &sound).unwrap(), expected, "afterwards");
}

#[test]
fn no_corruption_with_a_right_checksum_panics() {
    corrupt_and_run(Device::host(1).unwrap(), 20_000);
}

#[test]
fn no_corruption_loses_the_vulkan_device() {
    if TestDevice::Vulkan.is_available() {
        let vulkan = "vulkan".parse().unwrap();
        corrupt_and_run(
            Device::open_blocking(&vulkan, Default::default()).unwrap(),
            4000,
        );
    }
}

/// The same with a whole decoder and its sampler.
fn corrupt_a_pipeline(device: Device, times: usize) {
    let files = bundled::files();
    let limits = ModelLimits {
        max_length: 8,
        page_size: 4,
        ..ModelLimits::default()
    };
    let target = Target::of(device.info());
    let graphs = prepare::graphs(&files, &target.capabilities, limits).unwrap();
    let bytes = CompiledModule::compile(&graphs, &target)
        .unwrap()
        .to_bytes()
        .unwrap();
    let generate = |module: CompiledModule| -> Result<Vec<u32>, PipelineError> {
        let session = InferenceSession::new(device.clone()).with_compiled(module);
        let mut generator = TextGenerator::load_blocking(&session, &files, limits)?;
        let options = GenerateOptions {
            max_new_tokens: Some(2),
            ..Default::default()
        };
        let go_on = |_: &str| std::ops::ControlFlow::Continue(());
        Ok(generator
            .generate_blocking(&[0, 5, 9], &options, go_on)?
            .tokens)
    };
    let sound = CompiledModule::from_bytes(&bytes).unwrap();
    let expected = generate(sound.clone()).unwrap();
    let mut random = Random(5);
    let (mut loaded, mut ran) = (0, 0);
    for _ in 0..times {
        if let Ok(module) = CompiledModule::from_bytes(&corrupted_contents(&bytes, &mut random)) {
            loaded += 1;
            ran += usize::from(generate(module).is_ok());
        }
    }
    println!("{loaded} loaded, {ran} ran");
    assert!(loaded > times / 20 && ran > 0, "{loaded} loaded, {ran} ran");
    assert_eq!(generate(sound).unwrap(), expected, "afterwards");
}

#[test]
fn no_corruption_of_a_pipeline_panics() {
    let times = if takes_all() { 20_000 } else { 5_000 };
    corrupt_a_pipeline(Device::host(1).unwrap(), times);
}

#[test]
fn no_corruption_of_a_pipeline_loses_the_vulkan_device() {
    if TestDevice::Vulkan.is_available() {
        let vulkan = "vulkan".parse().unwrap();
        corrupt_a_pipeline(
            Device::open_blocking(&vulkan, Default::default()).unwrap(),
            if takes_all() { 1500 } else { 500 },
        );
    }
}
