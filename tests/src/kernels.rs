//! Runs kernels on an adapter and their twins on the host, and compares what they write.
//!
//! A [`Case`] is one run of an op: parameters, the memory of every binding, a grid. A test lists cases and
//! calls [`check`], which runs every kernel of the op that fits, with all features of the adapter and with
//! the baseline's. `WISP_TEST_DEVICE` names the adapter (default: `vulkan`), `WISP_TEST_SAMPLE` a sample of the kernels,
//! `WISP_TEST_KERNELS` a part of the names of those to run, `WISP_TEST_CACHE` a folder in which CUDA devices keep compiled kernels for later runs.

use std::sync::OnceLock;

use wisp_engine::device::{
    Api, Buffer, Device, DeviceError, DeviceOptions, Dispatch, FeatureLevel, Usage,
};
use wisp_engine::files::DiskCache;
use wisp_engine::weights::{Encoding, encodings::repack_rows};
use wisp_shaders::{Access, CacheFormat, Kernel, params::MatmulParams};

use crate::{
    cache::{decode, encode},
    kernel_records,
    program::adapter_under_test,
    quantize::quantize,
    sample,
};

/// The bound of the normalised error of products in half precision.
pub const F16_BOUND: f64 = 1e-3;

/// The memory of one binding, and the allowed difference between a kernel and its twin.
#[derive(Clone, Debug)]
pub struct Memory {
    pub(crate) bytes: Vec<u8>,
    /// Bound on `|a - b| / |b|` over floats; `None` if the bytes must be equal.
    pub(crate) bound: Option<f64>,
    /// The format of a KV cache and the elements of its heads; `None` if the bytes are floats.
    pub(crate) cache: Option<(CacheFormat, usize)>,
}

/// Memory that is only read, or that a kernel must write exactly as the twin does.
pub fn exact<T: bytemuck::NoUninit>(data: &[T]) -> Memory {
    Memory {
        bytes: bytemuck::cast_slice(data).to_vec(),
        bound: None,
        cache: None,
    }
}

/// A KV cache of these padded heads, which must be within `bound` of the twin's after decoding.
pub fn cache(format: CacheFormat, head_dim: usize, heads: &[f32], bound: Option<f64>) -> Memory {
    Memory {
        bound,
        cache: Some((format, head_dim)),
        ..exact(&encode(format, head_dim, heads))
    }
}

/// `len` floats to be written. They hold noise, which shows elements that are not written.
pub fn close(len: usize, bound: f64) -> Memory {
    replaced(&noise(99, len), bound)
}

/// Floats that a kernel reads and replaces, which must be within `bound` of the twin's afterwards.
pub fn replaced(data: &[f32], bound: f64) -> Memory {
    Memory {
        bound: Some(bound),
        ..exact(data)
    }
}

/// `len` zeros, in which a kernel may leave some as they are.
pub fn zeros(len: usize, bound: f64) -> Memory {
    replaced(&vec![0f32; len], bound)
}

/// Memory in which a kernel may write anything.
pub fn any<T: bytemuck::NoUninit>(data: &[T]) -> Memory {
    Memory {
        bound: Some(f64::INFINITY),
        ..exact(data)
    }
}

/// One run of an op: parameters, memory and sizes.
#[derive(Clone, Debug)]
pub struct Case {
    /// The parameters: binding 0.
    pub params: Vec<u8>,
    /// The memory of the bindings from 1 on.
    pub memory: Vec<Memory>,
    /// The op's grid, of one or two dimensions.
    pub grid: Vec<usize>,
    /// How often the kernel is dispatched in sequence.
    pub dispatches: usize,
    /// The columns, which a kernel's `cols_multiple` must divide.
    pub cols: usize,
    /// The workgroups after which the grid's first dimension is folded into another one.
    pub fold: u32,
    /// The parameters, for messages.
    pub label: String,
}

/// WebGPU's default limit on the workgroups of a dimension. Long grids are folded there on every device, whatever its own
/// limit is.
const MAX_WORKGROUPS: u32 = 65535;

/// The workgroups after which tests of folding fold their grids ([`Case::fold`]): those of sessions where all cases run, and
/// otherwise so few that a small case has more.
pub fn test_fold() -> u32 {
    match takes_all() {
        true => MAX_WORKGROUPS,
        false => 3,
    }
}

/// A case with one dispatch.
pub fn case<P: bytemuck::NoUninit + std::fmt::Debug>(
    params: P,
    memory: Vec<Memory>,
    grid: &[usize],
    cols: usize,
) -> Case {
    let label = format!("{params:?}");
    Case {
        params: bytemuck::bytes_of(&params).to_vec(),
        memory,
        grid: grid.to_vec(),
        dispatches: 1,
        cols,
        fold: MAX_WORKGROUPS,
        label,
    }
}

/// `len` numbers from -1 to 1, determined by the seed.
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

/// The parameters of a product of `[tokens, cols]` and a weight `[rows, cols]`, without a bias.
pub fn matmul_params([tokens, rows, cols]: [usize; 3]) -> MatmulParams {
    MatmulParams {
        tokens: tokens as u32,
        rows: rows as u32,
        cols: cols as u32,
        blocks: cols.div_ceil(32) as u32,
        out_stride: rows as u32,
        out_offset: 0,
        bias_offset: 0,
        has_bias: 0,
    }
}

/// The planes of a random weight `[rows, cols]`.
pub fn weight(encoding: Encoding, rows: usize, cols: usize) -> Vec<Memory> {
    let mut file = quantize(encoding, &noise(7, rows * cols));
    if let Encoding::IQ2 | Encoding::IQ3 = encoding {
        // Every other super-block has the values of the other grids, which the quantiser does not choose. Those of IQ2 are
        // about a quarter of its own, so that d has to be four times as large.
        for pair in file.chunks_exact_mut(2 * encoding.file_block_bytes()) {
            pair[2] = 1;
            if encoding == Encoding::IQ2 {
                pair[1] += 8;
            }
        }
    }
    planes(encoding, &file, rows, cols)
}

/// The planes of a weight `[rows, cols]` of these numbers.
pub fn weight_of(encoding: Encoding, rows: usize, cols: usize, values: &[f32]) -> Vec<Memory> {
    planes(encoding, &quantize(encoding, values), rows, cols)
}

fn planes(encoding: Encoding, file: &[u8], rows: usize, cols: usize) -> Vec<Memory> {
    let planes = repack_rows(encoding, file, rows, cols).expect("whole rows");
    let present = planes
        .iter()
        .zip(encoding.has_plane())
        .filter(|(_, present)| *present);
    present.map(|(plane, _)| exact(plane)).collect()
}

/// Opens the adapter under test with each feature level, or returns why there is none.
pub(crate) fn adapters() -> &'static Result<Vec<(FeatureLevel, Device)>, String> {
    static ADAPTERS: OnceLock<Result<Vec<(FeatureLevel, Device)>, String>> = OnceLock::new();
    ADAPTERS.get_or_init(|| {
        let spec = adapter_under_test()
            .parse()
            .expect("WISP_TEST_DEVICE names a device");
        let open = |feature_level| {
            let options = DeviceOptions {
                feature_level,
                cooperative_matrices: true,
                ..DeviceOptions::default()
            };
            match Device::open_blocking(&spec, options) {
                Ok(device) => {
                    // Only on request: the emulated device takes settings into account when it compiles a kernel.
                    let folder = std::env::var_os("WISP_TEST_CACHE");
                    if let Some(folder) = folder.filter(|_| device.info().api == Api::Cuda) {
                        device.use_cache(&DiskCache::new(folder));
                    }
                    Ok((feature_level, device))
                }
                Err(error @ DeviceError::NoAdapter { .. }) => Err(error.to_string()),
                Err(error) => panic!("{error}"),
            }
        };
        [FeatureLevel::Full, FeatureLevel::Baseline]
            .into_iter()
            .map(open)
            .collect()
    })
}

/// Whether every kernel runs in every case: with `WISP_TEST_ALL=1`, and on a GPU, which compiles and runs them in no time,
/// unless `WISP_TEST_SAMPLE` says that it is an emulated one.
pub(crate) fn takes_all() -> bool {
    let is_gpu = |(_, device): &(FeatureLevel, Device)| !device.info().software;
    let are_gpus = || adapters().as_ref().is_ok_and(|all| all.iter().all(is_gpu));
    sample::takes_all() || sample_of_kernels().is_none() && are_gpus()
}

/// Returns a requirement of a kernel that a device lacks.
pub(crate) fn unmet(kernel: &Kernel, device: &Device) -> Option<&'static str> {
    let has = &device.info().capabilities;
    let needs = kernel.needs;
    match () {
        () if needs.subgroups && !has.subgroups => Some("subgroups"),
        () if needs.min_subgroup_size > has.min_subgroup_size => Some("subgroup size"),
        () if needs.f16 && !has.f16 => Some("f16"),
        () if ![0, has.matrix_size].contains(&needs.matrix_size) => Some("cooperative matrices"),
        () if needs.mma && !has.mma => Some("mma.m16n8k16"),
        () if kernel.workgroup_bytes > has.max_workgroup_bytes => Some("workgroup memory"),
        () => None,
    }
}

/// Whether a kernel is written for the sizes of a case.
pub fn fits(kernel: &Kernel, case: &Case) -> bool {
    case.cols
        .is_multiple_of(kernel.cols_multiple.max(1) as usize)
        && case.cols <= kernel.max_cols as usize
        && case.grid.get(1).copied().unwrap_or(1) <= kernel.max_grid_y as usize
}

/// The workgroups that cover the grid of a case. A long first dimension is folded into another one as sessions do it.
pub(crate) fn workgroups(kernel: &Kernel, case: &Case) -> [u32; 3] {
    let tiles = |i: usize| case.grid[i].div_ceil(kernel.tile[i] as usize) as u32;
    let (x, fold) = (tiles(0), case.fold);
    match case.grid.len() {
        1 if x <= fold => [x, 1, 1],
        1 => [fold, x.div_ceil(fold), 1],
        _ if x <= fold => [x, tiles(1), 1],
        _ => [fold, tiles(1), x.div_ceil(fold)],
    }
}

/// The contents of each binding from 1 on after a run; empty for those that are only read.
pub(crate) type Outputs = Vec<Vec<u8>>;

pub(crate) fn run(
    device: &Device,
    kernel: &'static Kernel,
    case: &Case,
) -> Result<Outputs, DeviceError> {
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
    // The allocation is rounded up, but the parameters must have exactly their size.
    slices[0] = buffers[0].slice(0..case.params.len() as u64);
    // Without bounds checks, as in sessions.
    // SAFETY: the parameters of a case fit its memory.
    let pipeline = unsafe { device.unchecked_pipeline(kernel)? };
    let group = device.bind(kernel, &slices)?;
    let workgroups = workgroups(kernel, case);
    let dispatch = Dispatch::new(device, &pipeline, &group, workgroups)?;
    device.record(&vec![dispatch; case.dispatches])?;
    let read = |(buffer, access): (&Buffer, &Access)| match access {
        Access::Write => pollster::block_on(device.read(buffer, 0..buffer.bytes())),
        _ => Ok(Vec::new()),
    };
    let all = buffers.iter().zip(kernel.bindings);
    all.skip(1).map(read).collect()
}

impl Memory {
    /// Returns the contents before a run.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Decodes bytes of this memory to numbers.
    fn floats(&self, bytes: &[u8]) -> Vec<f64> {
        let words: Vec<u32> = bytemuck::pod_collect_to_vec(bytes);
        let (format, head_dim) = self.cache.unwrap_or((CacheFormat::F32, 4));
        let floats = decode(format, head_dim, &words);
        floats.into_iter().map(f64::from).collect()
    }
}

/// `|a - b| / |b|`; NaN if either contains a NaN.
fn error(a: &[f64], b: &[f64]) -> f64 {
    let off: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    let norm: f64 = b.iter().map(|b| b * b).sum();
    (off / norm.max(1e-30)).sqrt()
}

/// A message about the first word that differs.
fn difference(a: &[u8], b: &[u8]) -> Option<String> {
    let mut words = a.chunks(4).zip(b.chunks(4)).enumerate();
    let (i, (a, b)) = words.find(|(_, (a, b))| a != b)?;
    Some(format!("word {i} is {a:02x?}, expected {b:02x?}"))
}

/// The lowest bound that a kernel can meet in a case. Products in half precision meet theirs over many results;
/// a few may happen to be small sums of large products, whose errors then weigh more. A gated product has the errors
/// of two. Attention averages values with rounded weights, which are a little off each: at most a third of its bound was
/// measured. Partial sums in half precision have a relative error of up to 2^-11, twice.
pub(crate) fn least_bound(kernel: &Kernel, case: &Case) -> f64 {
    let has = |switch| kernel.switches.contains(&switch);
    let results: usize = case.grid.iter().product();
    let products = if kernel.op.starts_with("matmul_gated") {
        2.0
    } else {
        1.0
    };
    match () {
        () if has("f16") && kernel.op.contains("attention") => F16_BOUND,
        () if has("f16") => products * F16_BOUND * (1.0 + 16.0 / results as f64),
        () if has("f16_partials") => 2.0 * 2f64.powi(-11),
        () => 0.0,
    }
}

/// Returns messages about the bindings that differ from those of the twin.
pub(crate) fn differences(
    case: &Case,
    least: f64,
    actual: &Outputs,
    expected: &Outputs,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (i, memory) in case.memory.iter().enumerate() {
        let (a, b) = (&actual[i], &expected[i]);
        let differs = match memory.bound {
            _ if a.len() != b.len() => Some(format!("{} bytes, expected {}", a.len(), b.len())),
            _ if a.is_empty() => None,
            None => difference(a, b),
            Some(f64::INFINITY) => None,
            Some(bound) => {
                let bound = bound.max(least);
                let error = error(&memory.floats(a), &memory.floats(b));
                (error.is_nan() || error > bound).then(|| format!("error {error:e} > {bound:e}"))
            }
        };
        wrong.extend(differs.map(|differs| format!("binding {}: {differs}", i + 1)));
    }
    wrong
}

/// Runs every kernel of an op on every case that it fits, and compares it with its twin.
///
/// # Panics
///
/// With a list of the outputs that differ.
pub fn check_fitting(op: &str, cases: &[Case]) {
    check_fitting_if(op, cases, |_| true);
}

/// [`check_fitting`] for the kernels of the op for which `includes` returns true.
///
/// # Panics
///
/// As [`check_fitting`].
pub fn check_fitting_if(op: &str, cases: &[Case], includes: impl Fn(&Kernel) -> bool) {
    check_and_judge(op, cases, includes, |_, _| Vec::new());
}

/// [`check`], with further messages about errors: `judge` takes the number of a case and its outputs.
///
/// # Panics
///
/// As [`check`], and with the messages of `judge`.
pub fn check_with(op: &str, cases: &[Case], judge: impl Fn(usize, &Outputs) -> Vec<String>) {
    assert_visits_all(op, cases);
    check_and_judge(op, cases, |_| true, judge);
}

fn check_and_judge(
    op: &str,
    cases: &[Case],
    includes: impl Fn(&Kernel) -> bool,
    judge: impl Fn(usize, &Outputs) -> Vec<String>,
) {
    let runs_here = |kernel: &Kernel| is_sampled(kernel) && includes(kernel);
    // The twin takes its time too.
    let runs = adapters().is_ok() && wisp_shaders::candidates(op).any(runs_here);
    if !runs && !kernel_records::wanted() {
        return check_each(op, cases, runs_here, |_, _, _| Vec::new());
    }
    let host = Device::host(0).expect("the host device starts");
    let kernel = wisp_shaders::candidates(op).next().expect("an op");
    let twin = |case| run(&host, kernel, case).unwrap_or_else(|e| panic!("{op} on the host: {e}"));
    let expected: Vec<Outputs> = cases.iter().map(twin).collect();
    if kernel_records::wanted() {
        return kernel_records::write(op, cases, includes, &expected);
    }
    check_each(op, cases, runs_here, |kernel, i, outputs| {
        let least = least_bound(kernel, &cases[i]);
        let mut wrong = differences(&cases[i], least, outputs, &expected[i]);
        wrong.extend(judge(i, outputs));
        wrong
    });
}

/// The contents of each binding from 1 on after the twin of an op has run; empty for those that are only read.
///
/// # Panics
///
/// If the twin refuses the case.
pub fn twin_outputs(op: &str, case: &Case) -> Vec<Vec<u8>> {
    let host = Device::host(0).expect("the host device starts");
    let kernel = wisp_shaders::candidates(op).next().expect("an op");
    let mut outputs = run(&host, kernel, case).unwrap_or_else(|e| panic!("{op} on the host: {e}"));
    // Buffers are rounded up.
    for (output, memory) in outputs.iter_mut().zip(&case.memory) {
        output.truncate(memory.bytes.len().next_multiple_of(4));
    }
    outputs
}

/// [`check_fitting`], but every kernel of the op must have a case.
///
/// # Panics
///
/// Also if one of the kernels fits no case.
pub fn check(op: &str, cases: &[Case]) {
    assert_visits_all(op, cases);
    check_fitting(op, cases);
}

/// Asserts that each kernel of an op fits a case, so that no kernel is added without one. An adapter that
/// lacks what a kernel needs still skips it, and prints that.
///
/// # Panics
///
/// With the names of the kernels that fit no case.
pub fn assert_visits_all(op: &str, cases: &[Case]) {
    let unvisited: Vec<_> = wisp_shaders::candidates(op)
        .filter(|kernel| !cases.iter().any(|case| fits(kernel, case)))
        .map(|kernel| kernel.name)
        .collect();
    assert!(unvisited.is_empty(), "no case fits {unvisited:?}");
}

/// Runs every kernel of an op on every case that it fits; `judge` takes the number of a case and its
/// outputs, and returns messages about errors.
///
/// # Panics
///
/// With the messages of `judge`.
pub fn check_outputs(op: &str, cases: &[Case], judge: impl Fn(usize, &Outputs) -> Vec<String>) {
    check_each(op, cases, is_sampled, |_, i, outputs| judge(i, outputs));
}

/// The encodings of tests whose point hardly depends on the encoding: a third of them, others in each [turn](sample::turn),
/// and all with `WISP_TEST_ALL=1`.
pub fn some_encodings() -> impl Iterator<Item = Encoding> {
    let (first, step) = match sample::takes_all() {
        true => (0, 1),
        false => (sample::turn() % 3, 3),
    };
    Encoding::device_encodings().skip(first).step_by(step)
}

/// Whether a kernel is one of those that run. With `WISP_TEST_SAMPLE=N:K` they are every Nth, from the Kth on: an emulated
/// device compiles each kernel for half a second. Otherwise software adapters run a sixth of the products and of attention,
/// because there are hundreds, others in each [turn](sample::turn) ([`takes_all`]). With `WISP_TEST_KERNELS=TEXT` they are
/// those whose names have the text.
pub(crate) fn is_sampled(kernel: &Kernel) -> bool {
    if let Ok(text) = std::env::var("WISP_TEST_KERNELS") {
        return kernel.name.contains(&text);
    }
    match sample_of_kernels() {
        Some((every, first)) => {
            let mut kernels = wisp_shaders::kernels().iter();
            let place = kernels.position(|known| known.name == kernel.name);
            place.is_some_and(|place| place % every == first)
        }
        None => !has_many_kernels(kernel.op) || sample::has(kernel.name, 0, 6) || takes_all(),
    }
}

/// Whether there are kernels of an op for each encoding or format.
fn has_many_kernels(op: &str) -> bool {
    op.starts_with("matmul") || op.contains("attention")
}

/// The numbers of `WISP_TEST_SAMPLE=N:K`.
fn sample_of_kernels() -> Option<(usize, usize)> {
    static SAMPLE: OnceLock<Option<(usize, usize)>> = OnceLock::new();
    *SAMPLE.get_or_init(|| {
        let text = std::env::var("WISP_TEST_SAMPLE").ok()?;
        let (every, first) = text.split_once(':').expect("WISP_TEST_SAMPLE is N:K");
        let number = |text: &str| text.parse().expect("WISP_TEST_SAMPLE is N:K");
        Some((number(every), number(first)))
    })
}

/// Runs the kernels of an op that `includes` takes.
fn check_each(
    op: &str,
    cases: &[Case],
    includes: impl Fn(&Kernel) -> bool,
    judge: impl Fn(&Kernel, usize, &Outputs) -> Vec<String>,
) {
    let adapters = match adapters() {
        Ok(adapters) => adapters,
        Err(why) => return println!("skipped: no adapter ({why})"),
    };
    let (mut failures, mut runs) = (Vec::new(), 0);
    for kernel in wisp_shaders::candidates(op).filter(|kernel| includes(kernel)) {
        let mut has_run = false;
        for (level, device) in adapters {
            if let Some(need) = unmet(kernel, device) {
                println!("skipped: {} on {level:?}: needs {need}", kernel.name);
                continue;
            }
            // What has run with all features need only meet the baseline's limits, in an ordinary run: they are checked
            // when the pipeline is created.
            if has_run && !takes_all() {
                // SAFETY: the pipeline is never dispatched.
                let created = unsafe { device.unchecked_pipeline(kernel) };
                let failure = created.err();
                failures.extend(failure.map(|why| format!("{} on {level:?}: {why}", kernel.name)));
                continue;
            }
            let all = cases.iter().enumerate();
            for (i, case) in all.filter(|(_, case)| fits(kernel, case)) {
                (has_run, runs) = (true, runs + 1);
                let wrong = match run(device, kernel, case) {
                    Ok(outputs) => judge(kernel, i, &outputs),
                    Err(error) => vec![error.to_string()],
                };
                let at = format!("{} on {level:?}, {}", kernel.name, case.label);
                failures.extend(wrong.iter().map(|wrong| format!("{at}: {wrong}")));
            }
        }
    }
    println!("{op}: {runs} runs");
    let all_run = wisp_shaders::candidates(op).all(includes);
    assert!(runs > 0 || !all_run, "{op}: no kernel ran");
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
    fn error_measures_are_computed() {
        let of = |a: [f64; 2], b: [f64; 2]| error(&a, &b);
        assert_eq!(of([3.0, 4.0], [3.0, 4.0]), 0.0);
        assert_eq!(of([3.0, 9.0], [3.0, 4.0]), 1.0);
        assert!(of([f64::NAN, 4.0], [3.0, 4.0]).is_nan());
        assert!(of([f64::INFINITY, 4.0], [f64::INFINITY, 4.0]).is_nan());
        assert!(difference(&[1, 2, 3, 4], &[1, 2, 3, 4]).is_none());
        assert!(difference(&[1, 2, 3, 4], &[1, 2, 3, 5]).is_some());
    }

    #[test]
    #[should_panic(expected = "no case fits")]
    fn kernels_without_a_case_are_reported() {
        // Too many tokens for the kernels that are written for one.
        let wide = case([0u32; 2], Vec::new(), &[1, 9], 32);
        assert_visits_all("matmul.q8_0", &[wide]);
    }

    #[test]
    fn long_grids_are_folded() {
        let kernel = wisp_shaders::kernel("binary_contiguous.baseline").unwrap();
        let of = |grid: &[usize]| workgroups(kernel, &case([0u32; 2], Vec::new(), grid, 32));
        let long = 65535 * kernel.tile[0] as usize;
        assert_eq!(of(&[long]), [65535, 1, 1]);
        assert_eq!(of(&[long + 1]), [65535, 2, 1]);
        assert_eq!(of(&[long + 1, 3]), [65535, 3, 2]);
        let short = Case {
            fold: 3,
            ..case([0u32; 2], Vec::new(), &[7 * kernel.tile[0] as usize], 32)
        };
        assert_eq!(workgroups(kernel, &short), [3, 3, 1]);
    }
}
