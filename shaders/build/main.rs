//! Composes every kernel of `src/variants.rs` and generates Rust code from them:
//!
//! - `kernels.rs`: the table of kernels that the target may run, with what naga knows of each (bindings, workgroup size and
//!   memory), and a fingerprint of all sources;
//! - `params.rs`: the parameter structs, from the WGSL structs that kernels bind, and the constants that
//!   Rust shares with kernels, both documented by the `///` comments of the WGSL files.
//!
//! The build fails if a kernel does not compose or validate, or if something that Rust sees is not
//! documented.

mod comments;
mod compose;
mod kernel_table;
mod params;

#[path = "../src/device_class.rs"]
mod device_class;
#[path = "../src/variants.rs"]
mod variants;

use std::{path::PathBuf, thread};

use compose::Composed;

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build");
    if let Err(message) = build() {
        // Cargo shows this as it is, with naga's excerpt of the source.
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let out = PathBuf::from(std::env::var("OUT_DIR").map_err(|e| e.to_string())?);
    let sources = comments::Sources::read("src".as_ref())?;
    let kernels = compose_all()?;
    write(&out.join("kernels.rs"), &kernel_table::generate(&kernels)?)?;
    write(
        &out.join("params.rs"),
        &params::generate(&kernels, &sources)?,
    )
}

/// Composes all kernels, on all cores.
fn compose_all() -> Result<Vec<Composed>, String> {
    let jobs = compose::jobs();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let compose = |jobs: &[compose::Job]| -> Result<Vec<Composed>, String> {
        jobs.iter().map(|job| compose::compose(*job)).collect()
    };
    thread::scope(|scope| {
        let parts = jobs.chunks(jobs.len().div_ceil(threads).max(1));
        let running: Vec<_> = parts.map(|jobs| scope.spawn(|| compose(jobs))).collect();
        let mut kernels = Vec::with_capacity(jobs.len());
        for part in running {
            let composed = part.join();
            kernels.extend(composed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(kernels)
    })
}

fn write(path: &std::path::Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
