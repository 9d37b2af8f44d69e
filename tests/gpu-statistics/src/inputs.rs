//! Whether the recorded numbers still hold: the same compiler makes the same of the same input.

use std::{fs, path::Path};

use sha2::{Digest, Sha256};

use crate::parallel;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// Returns a digest of the compiler's version, of what it gets for each kernel, and of the sources of this program, which
/// reads what the compiler makes of it.
///
/// # Errors
///
/// If the sources cannot be read, or with a line for each kernel for which `input` fails.
pub fn digest<T: Sync>(
    version: &str,
    kernels: &[T],
    input: impl Fn(&T) -> Result<Vec<u8>, String> + Send + Sync,
) -> Result<String, String> {
    let mut whole = Sha256::new_with_prefix(version);
    sources(Path::new(SOURCES), &mut whole).map_err(|error| format!("{SOURCES}: {error}"))?;
    for digest in parallel::map(kernels, |kernel| Ok(Sha256::digest(input(kernel)?)))? {
        whole.update(digest);
    }
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(hexadecimal(&whole.finalize()[..16]))
}

fn sources(folder: &Path, digest: &mut Sha256) -> std::io::Result<()> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => sources(&path, digest)?,
            false if path.extension().is_some_and(|it| it == "rs") => {
                digest.update(fs::read(path)?);
            }
            false => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_input_of_one_kernel_is_another_digest() {
        let of = |kernels: &[&str]| digest("1", kernels, |kernel| Ok((*kernel).into())).unwrap();
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["a", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["a"]), of(&["a", "a"]));
        assert_ne!(digest("2", &["a"], |_| Ok("a".into())).unwrap(), of(&["a"]));
    }

    #[test]
    fn kernels_that_fail_are_named() {
        let input = |kernel: &&str| match *kernel {
            "good" => Ok(Vec::new()),
            bad => Err(format!("{bad}: invalid")),
        };
        let error = digest("1", &["one", "good", "two"], input).unwrap_err();
        assert_eq!(error, "one: invalid\ntwo: invalid");
    }
}
