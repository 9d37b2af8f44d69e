//! Runs kernels on an adapter and on the host, and compares what they write.

use std::sync::OnceLock;

use wisp_engine::device::{Device, DeviceError, Dispatch, Profile, Usage};
use wisp_engine::weights::{Encoding, encodings::repack_rows};
use wisp_shaders::{Access, Kernel};

use crate::quantize::quantize;

/// The memory of one binding and how close a kernel must come to what its twin writes there.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    /// Bound of `|a - b| / |b|` over floats; `None` is equality of bytes.
    bound: Option<f64>,
}

/// Memory that is read, or must be written exactly as the twin writes it.
pub fn exact<T: bytemuck::NoUninit>(data: &[T]) -> Memory {
    let bytes = bytemuck::cast_slice(data).to_vec();
    Memory { bytes, bound: None }
}

/// `len` floats to be written, with noise in them that shows what is left untouched.
pub fn close(len: usize, bound: f64) -> Memory {
    Memory {
        bound: Some(bound),
        ..exact(&noise(99, len))
    }
}

/// Sizes, parameters and memory of one run.
#[derive(Clone, Debug)]
pub struct Case {
    /// The parameters: binding 0.
    pub params: Vec<u8>,
    /// The bindings from 1 on.
    pub memory: Vec<Memory>,
    /// The op's grid.
    pub grid: [usize; 2],
    /// What `cols_multiple` must divide.
    pub cols: usize,
    /// The sizes, for messages.
    pub label: String,
}

/// A case of an op.
pub fn case<P: bytemuck::NoUninit + std::fmt::Debug>(
    params: P,
    memory: Vec<Memory>,
    grid: [usize; 2],
    cols: usize,
) -> Case {
    let label = format!("{params:?}");
    Case {
        params: bytemuck::bytes_of(&params).to_vec(),
        memory,
        grid,
        cols,
        label,
    }
}

/// `len` numbers from -1 to 1 that depend on the seed.
pub fn noise(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// The planes of a random weight `[rows, cols]`.
pub fn weight(encoding: Encoding, rows: usize, cols: usize) -> Vec<Memory> {
    let file = quantize(encoding, &noise(7, rows * cols));
    let planes = repack_rows(encoding, &file, rows, cols).expect("whole rows");
    let present = planes
        .iter()
        .zip(encoding.has_plane())
        .filter(|(_, present)| *present);
    present.map(|(plane, _)| exact(plane)).collect()
}

/// The adapter under test with both profiles, or why there is none.
fn adapters() -> &'static Result<Vec<(Profile, Device)>, String> {
    static ADAPTERS: OnceLock<Result<Vec<(Profile, Device)>, String>> = OnceLock::new();
    ADAPTERS.get_or_init(|| {
        let name = std::env::var("WISP_TEST_DEVICE").unwrap_or("vulkan".into());
        let spec = name.parse().expect("WISP_TEST_DEVICE names a device");
        let open = |profile| match pollster::block_on(Device::open(&spec, profile, 0)) {
            Ok(device) => Ok((profile, device)),
            Err(error @ DeviceError::NoAdapter { .. }) => Err(error.to_string()),
            Err(error) => panic!("{error}"),
        };
        [Profile::Full, Profile::Baseline]
            .into_iter()
            .map(open)
            .collect()
    })
}

/// Why a device cannot run a kernel, if so.
fn unmet(kernel: &Kernel, device: &Device) -> Option<&'static str> {
    let has = &device.info().capabilities;
    let needs = kernel.needs;
    match () {
        () if needs.subgroups && !has.subgroups => Some("subgroups"),
        () if needs.min_subgroup_size > has.min_subgroup_size => Some("subgroup size"),
        () if needs.f16 && !has.f16 => Some("f16"),
        () if kernel.workgroup_bytes > has.max_workgroup_bytes => Some("workgroup memory"),
        () => None,
    }
}

/// Whether a kernel is meant for a case's sizes.
pub fn fits(kernel: &Kernel, case: &Case) -> bool {
    case.cols
        .is_multiple_of(kernel.cols_multiple.max(1) as usize)
        && case.grid[1] <= kernel.max_rows_y as usize
}

fn run(device: &Device, kernel: &'static Kernel, case: &Case) -> Result<Vec<Vec<u8>>, DeviceError> {
    let params = device.allocate("params", case.params.len() as u64, Usage::Uniform)?;
    device.write(&params, 0, &case.params)?;
    let mut buffers = vec![params];
    for memory in &case.memory {
        let buffer = device.allocate("memory", memory.bytes.len() as u64, Usage::Storage)?;
        let mut bytes = memory.bytes.clone();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        device.write(&buffer, 0, &bytes)?;
        buffers.push(buffer);
    }
    let mut slices: Vec<_> = buffers.iter().map(|buffer| buffer.whole()).collect();
    // Parameters have exactly their size, whatever allocation rounded it up to.
    slices[0] = buffers[0].slice(0..case.params.len() as u64);
    let pipeline = device.pipeline(kernel)?;
    let group = device.bind(kernel, &slices)?;
    let tiles = |i: usize| case.grid[i].div_ceil(kernel.tile[i] as usize) as u32;
    let workgroups = [tiles(0), tiles(1), 1];
    device.submit(
        [Dispatch {
            pipeline: &pipeline,
            group: &group,
            workgroups,
        }]
        .into_iter(),
    )?;
    let read = |buffer| pollster::block_on(device.read(buffer, 0..buffer.bytes()));
    buffers[1..].iter().map(read).collect()
}

/// `|a - b| / |b|`: NaN where either has one.
fn error(a: &[u8], b: &[u8]) -> f64 {
    let floats = |bytes: &[u8]| -> Vec<f64> {
        bytes
            .chunks_exact(4)
            .map(|b| bytemuck::pod_read_unaligned::<f32>(b).into())
            .collect()
    };
    let (a, b) = (floats(a), floats(b));
    let off: f64 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
    let norm: f64 = b.iter().map(|b| b * b).sum();
    (off / norm.max(1e-30)).sqrt()
}

/// Runs every kernel of an op on every case that it is meant for.
///
/// # Panics
///
/// With the list of what differs from the twin.
pub fn check(op: &str, cases: &[Case]) {
    let adapters = match adapters() {
        Ok(adapters) => adapters,
        Err(why) => return println!("skipped: no adapter ({why})"),
    };
    let host = Device::host(0).expect("the host device starts");
    let (mut failures, mut runs) = (Vec::new(), 0);
    for kernel in wisp_shaders::candidates(op) {
        let fitting: Vec<&Case> = cases.iter().filter(|case| fits(kernel, case)).collect();
        for (profile, device) in adapters {
            if let Some(need) = unmet(kernel, device) {
                println!("skipped: {} on {profile:?}: needs {need}", kernel.name);
            }
        }
        for case in fitting {
            let expected =
                run(&host, kernel, case).unwrap_or_else(|e| panic!("{op} on the host: {e}"));
            for (profile, device) in adapters {
                if unmet(kernel, device).is_some() {
                    continue;
                }
                runs += 1;
                let at = format!("{} on {profile:?}, {}", kernel.name, case.label);
                let actual = match run(device, kernel, case) {
                    Ok(actual) => actual,
                    Err(error) => {
                        failures.push(format!("{at}: {error}"));
                        continue;
                    }
                };
                for (i, memory) in case.memory.iter().enumerate() {
                    let (a, b) = (&actual[i], &expected[i]);
                    let written = kernel.bindings[i + 1] == Access::Write;
                    let off = memory.bound.map(|bound| (error(a, b), bound));
                    let wrong = match off {
                        None => a != b,
                        Some((error, bound)) => error.is_nan() || error > bound,
                    };
                    if written && wrong {
                        failures.push(format!("{at}: binding {}, error and bound {off:?}", i + 1));
                    }
                }
            }
        }
    }
    println!("{op}: {runs} runs");
    assert!(runs > 0, "{op}: no kernel ran");
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_seen() {
        let of = |a: [f32; 2], b: [f32; 2]| error(bytemuck::bytes_of(&a), bytemuck::bytes_of(&b));
        assert_eq!(of([3.0, 4.0], [3.0, 4.0]), 0.0);
        assert_eq!(of([3.0, 9.0], [3.0, 4.0]), 1.0);
        assert!(of([f32::NAN, 4.0], [3.0, 4.0]).is_nan());
        assert!(of([f32::INFINITY, 4.0], [f32::INFINITY, 4.0]).is_nan());
    }
}
