//! Kernel cases as files. Browsers run them on their own adapter and compare the outputs with those of the
//! host's twins.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use serde_json::json;

use wisp_shaders::{CacheFormat, Kernel};

use crate::kernels::{Case, Memory, Outputs, fits, least_bound, workgroups};

/// The maximum bytes of a record. The software adapter of a browser needs minutes for larger ones.
const MAX_RECORD_BYTES: usize = 512 << 10;

/// The folder for records, if `WISP_KERNEL_RECORDS` names one.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("WISP_KERNEL_RECORDS").map(PathBuf::from)
}

/// Returns whether the kernel tests write records instead of running kernels.
pub fn wanted() -> bool {
    folder().is_some()
}

/// Writes a record of each case of an op, for the kernels for which `includes` returns true, with the expected outputs, if
/// records are wanted.
///
/// A record is the length of its JSON header in four bytes, the header, and then the parameters, bindings
/// and outputs, whose lengths the header lists.
///
/// # Panics
///
/// If a file cannot be written.
pub fn write(op: &str, cases: &[Case], includes: impl Fn(&Kernel) -> bool, expected: &[Outputs]) {
    let Some(folder) = folder() else { return };
    // Browsers compare floats and bytes, but do not decode caches.
    let decodes = |memory: &Memory| {
        let format = memory.cache.map(|(format, _)| format);
        memory.bound.is_some() && format.is_some_and(|format| format != CacheFormat::F32)
    };
    let all = cases.iter().zip(expected);
    for (case, outputs) in all.filter(|(case, _)| !case.memory.iter().any(decodes)) {
        let parts: Vec<&[u8]> = std::iter::once(case.params.as_slice())
            .chain(case.memory.iter().map(|memory| memory.bytes.as_slice()))
            .chain(outputs.iter().map(Vec::as_slice))
            .collect();
        let data = parts.concat();
        if data.len() > MAX_RECORD_BYTES {
            continue;
        }
        // Kernels that cannot meet the case's bounds get a separate record. Builds for browsers have none for matrix units.
        let is_for_browsers = |kernel: &Kernel| !kernel.needs.mma && kernel.needs.matrix_size == 0;
        let fitting: Vec<_> = wisp_shaders::candidates(op)
            .filter(|kernel| is_for_browsers(kernel) && includes(kernel) && fits(kernel, case))
            .collect();
        let (close, others): (Vec<_>, Vec<_>) = fitting
            .into_iter()
            .partition(|kernel| least_bound(kernel, case) == 0.0);
        for kernels in [close, others] {
            let bounds = kernels.iter().map(|kernel| least_bound(kernel, case));
            let Some(least) = bounds.reduce(f64::max) else {
                continue;
            };
            let runs = kernels.iter().map(|kernel| {
                let workgroups = workgroups(kernel, case);
                json!({ "kernel": kernel.name, "workgroups": workgroups })
            });
            let bounds = case.memory.iter().map(|memory| match memory.bound {
                None => json!("exact"),
                Some(f64::INFINITY) => json!("any"),
                Some(bound) => json!(bound.max(least)),
            });
            let head = json!({
                "op": op,
                "label": case.label,
                "dispatches": case.dispatches,
                "runs": runs.collect::<Vec<_>>(),
                "bounds": bounds.collect::<Vec<_>>(),
                "sizes": parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
            });
            save(&folder, op, &head.to_string(), &data);
        }
    }
}

fn save(folder: &Path, op: &str, head: &str, data: &[u8]) {
    let record = [&(head.len() as u32).to_le_bytes(), head.as_bytes(), data].concat();
    // Equal cases of several tests become one file.
    let mut hash = DefaultHasher::new();
    record.hash(&mut hash);
    let name = format!("{op}-{:016x}.case", hash.finish());
    std::fs::write(folder.join(name), record).expect("WISP_KERNEL_RECORDS is a folder");
}
