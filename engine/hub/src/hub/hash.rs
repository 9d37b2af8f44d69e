//! The hashes by which hubs name contents: git's for small files, SHA-256 for large ones (LFS). The list of a
//! repository's files has git's alone; for large files that is the one of a pointer, which holds the other.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Git's name of a content of this length: SHA-1 of `blob`, the length, a zero and the content.
fn git(len: u64) -> Sha1 {
    Sha1::new_with_prefix(format!("blob {len}\0"))
}

/// Git's name of the pointer to a large file of this SHA-256 and length.
pub(super) fn pointer_name(sha256: &str, len: u64) -> String {
    let pointer =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len}\n");
    hex(git(pointer.len() as u64).chain_update(pointer))
}

/// True for what may be a SHA-256.
pub(super) fn is_sha256(name: &str) -> bool {
    name.len() == 64
        && name
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What a file's content is called; `None` if `go_on` says no.
pub(super) fn name_of(
    file: &mut File,
    large: bool,
    go_on: impl Fn() -> bool,
) -> std::io::Result<Option<String>> {
    let len = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    match large {
        true => digest(Sha256::new(), file, go_on),
        false => digest(git(len), file, go_on),
    }
}

fn digest(
    mut hasher: impl Digest,
    file: &mut File,
    go_on: impl Fn() -> bool,
) -> std::io::Result<Option<String>> {
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(Some(hex(hasher))),
            count => hasher.update(&piece[..count]),
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

    /// From `git hash-object` and `sha256sum`.
    #[test]
    fn names_of_contents() {
        let (small, large) = (
            "ce013625030ba8dba906f756967f9e9ca394464a",
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        );
        assert!(is_sha256(large) && !is_sha256(small));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello\n").unwrap();
        let mut name = |large, on| name_of(&mut file, large, || on).unwrap();
        assert_eq!(name(false, true).as_deref(), Some(small));
        assert_eq!(name(true, true).as_deref(), Some(large));
        assert_eq!(name(true, false), None);
        assert_eq!(
            pointer_name(large, 6),
            "fa61e1ef71c9908c0926776a4aa3504b3a27f159"
        );
    }
}
