//! Tells builds of the compiler apart: `WISP_COMPILER` is a hash of the sources that decide what a graph
//! is compiled to, so that no build takes up programs that another one kept on disk.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// What a program depends on, besides the kernels, which have a hash of their own.
const SOURCES: &[&str] = &[
    "src/compiler",
    "src/extension",
    "src/graph",
    "src/weights",
    "src/session",
];

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => drop(files.insert(path.clone(), fs::read(&path)?)),
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let mut files = BTreeMap::new();
    for folder in SOURCES {
        println!("cargo::rerun-if-changed={folder}");
        collect(Path::new(folder), &mut files)?;
    }
    let mut hash = Sha256::new();
    for (path, contents) in files {
        hash.update(path.to_string_lossy().as_bytes());
        hash.update((contents.len() as u64).to_le_bytes());
        hash.update(contents);
    }
    let hash: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("cargo::rustc-env=WISP_COMPILER={hash}");
    Ok(())
}
