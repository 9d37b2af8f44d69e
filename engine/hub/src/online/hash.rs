//! The hashes by which hubs name contents: git's hash for small files, SHA-256 for large ones (LFS).
//! The list of a repository's files has only git's hashes. For a large file that is the hash of a
//! pointer, a small text that contains the SHA-256.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// Starts git's hash of a content: SHA-1 of `blob LENGTH`, a zero byte and the content.
fn git_hasher(len: u64) -> Sha1 {
    Sha1::new_with_prefix(format!("blob {len}\0"))
}

/// Returns git's hash of the pointer to a large file.
pub(super) fn pointer_hash(sha256: &str, len: u64) -> String {
    let pointer =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len}\n");
    hex(git_hasher(pointer.len() as u64).chain_update(pointer))
}

/// Returns whether text has the form of a SHA-256 in hexadecimal.
pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the hash of a file's content: SHA-256 for a large file, else git's; `None` if `go_on`
/// returns false on the way.
pub(super) fn content_hash(
    file: &mut File,
    is_large: bool,
    go_on: impl Fn() -> bool,
) -> std::io::Result<Option<String>> {
    let len = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    match is_large {
        true => digest(Sha256::new(), file, go_on),
        false => digest(git_hasher(len), file, go_on),
    }
}

fn digest(
    mut hasher: impl Digest,
    file: &mut File,
    go_on: impl Fn() -> bool,
) -> std::io::Result<Option<String>> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(Some(hex(hasher))),
            count => hasher.update(&chunk[..count]),
        }
        if !go_on() {
            return Ok(None);
        }
    }
}

fn hex(hasher: impl Digest) -> String {
    let bytes = hasher.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The expected values come from `git hash-object` and `sha256sum`.
    #[test]
    fn hashes_are_those_of_git_and_sha256sum() {
        let (small, large) = (
            "ce013625030ba8dba906f756967f9e9ca394464a",
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        );
        assert!(is_sha256(large) && !is_sha256(small));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello\n").unwrap();
        let mut hash = |is_large, go_on| content_hash(&mut file, is_large, || go_on).unwrap();
        assert_eq!(hash(false, true).as_deref(), Some(small));
        assert_eq!(hash(true, true).as_deref(), Some(large));
        assert_eq!(hash(true, false), None);
        assert_eq!(
            pointer_hash(large, 6),
            "fa61e1ef71c9908c0926776a4aa3504b3a27f159"
        );
    }
}
