//! A folder of files that can be made again: compiled programs, and what drivers made of kernels.
//!
//! Several processes may use it at once. A file is written beside its place and then moved there, so
//! that nobody reads half of one; each carries a checksum, and one that is damaged counts as absent.
//! The folder is kept below a size by deleting the files that were not used for longest. Nothing that
//! goes wrong here is an error: whatever is not found is made anew.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use sha2::{Digest, Sha256};

/// Bytes that the files of a cache may take together.
const MOST_BYTES: u64 = 256 << 20;

/// A folder of files that can be made again.
///
/// ```
/// use wisp_files::{CacheEntry, DiskCache};
///
/// # fn main() -> std::io::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let cache = DiskCache::new(folder).with_limit(64 << 20);
/// let name = CacheEntry::Program.file_name("3f2a");
/// assert_eq!(cache.read(&name), None);
/// cache.write(&name, b"compiled");
/// assert_eq!(cache.read(&name).as_deref(), Some(&b"compiled"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DiskCache {
    folder: PathBuf,
    most_bytes: u64,
}

/// Writes a file so that at its place there is at any time either all of it or what was there before.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomic_with(path, |part| fs::write(part, bytes))
}

/// The same for who has no bytes yet: `write` is given a file beside `path` to write to, which is moved there
/// afterwards. What is no file, such as `/dev/null`, is written to itself.
///
/// # Errors
///
/// Those of `write`; if the file cannot be made or moved. There is nothing of it then.
pub fn write_atomic_with<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return write(path);
    }
    write_beside(path, 0o666, write)
}

/// Writes a file, with these permissions where there are such, beside its place and moves it there.
fn write_beside<E: From<io::Error>>(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    let file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    write(file.path())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Whether nobody but the user can have written a file or folder: what is kept there is believed.
#[cfg(unix)]
fn is_own(data: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    data.uid() == rustix::process::geteuid().as_raw() && data.mode() & 0o022 == 0
}

/// Folders of users are their own there.
#[cfg(not(unix))]
fn is_own(_data: &fs::Metadata) -> bool {
    true
}

/// What a file of the cache holds, which the end of its name says.
///
/// The cache only deletes files of these kinds: anything else in its folder stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheEntry {
    /// A compiled program.
    Program,
    /// A driver's compiled pipelines.
    Pipelines,
}

impl CacheEntry {
    /// Every kind.
    const ALL: [CacheEntry; 2] = [CacheEntry::Program, CacheEntry::Pipelines];

    fn suffix(self) -> &'static str {
        match self {
            CacheEntry::Program => ".program",
            CacheEntry::Pipelines => ".pipelines",
        }
    }

    /// Returns the file name of the entry with this key.
    pub fn file_name(self, key: &str) -> String {
        format!("{key}{}", self.suffix())
    }

    /// True if a file name is that of an entry, of any kind.
    fn is_entry(file_name: &str) -> bool {
        CacheEntry::ALL
            .iter()
            .any(|kind| file_name.ends_with(kind.suffix()))
    }
}

/// How the names of files begin that are being written.
const TEMPORARY: &str = ".wisp-part-";

/// Age in seconds at which a file that was being written is one that nobody finishes.
const ABANDONED_SECONDS: u64 = 3600;

impl DiskCache {
    /// A cache in a folder of its own, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> DiskCache {
        DiskCache {
            folder: folder.into(),
            most_bytes: MOST_BYTES,
        }
    }

    /// The same cache, kept below another size than 256 MiB.
    pub fn with_limit(mut self, bytes: u64) -> DiskCache {
        self.most_bytes = bytes;
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file's contents; `None` if it is not there, damaged, or another user can have written it.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.folder.join(name);
        // To say that it was used takes the right to write.
        let file = File::options().read(true).write(true).open(&path);
        let file = file.or_else(|_| File::open(&path)).ok()?;
        let owns = |data: io::Result<fs::Metadata>| data.is_ok_and(|data| is_own(&data));
        if !owns(file.metadata()) || !owns(fs::metadata(&self.folder)) {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).take(self.most_bytes).read_to_end(&mut bytes).ok()?;
        let contents = bytes.len().checked_sub(32)?;
        let sound = Sha256::digest(&bytes[..contents])[..] == bytes[contents..];
        bytes.truncate(contents);
        // What was used last is deleted last.
        let _ = file.set_modified(SystemTime::now());
        sound.then_some(bytes)
    }

    /// Writes a file, then deletes others while the folder is too large.
    pub fn write(&self, name: &str, contents: &[u8]) {
        let bytes = [contents, &Sha256::digest(contents)[..]].concat();
        if bytes.len() as u64 > self.most_bytes {
            return;
        }
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        let written = folder.create(&self.folder).and_then(|()| {
            let place = self.folder.join(name);
            write_beside(&place, 0o600, |part| fs::write(part, &bytes))
        });
        if written.is_ok() {
            self.shrink();
        }
    }

    fn shrink(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let now = SystemTime::now();
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let Ok(data) = entry.metadata() else { continue };
            let Some(modified) = data.modified().ok().filter(|_| data.is_file()) else {
                continue;
            };
            let age = now.duration_since(modified).unwrap_or_default().as_secs();
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(TEMPORARY) {
                if age > ABANDONED_SECONDS {
                    let _ = fs::remove_file(entry.path());
                }
            } else if CacheEntry::is_entry(&name) {
                files.push((modified, data.len(), entry.path()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if total <= self.most_bytes {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_until_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(folder.path().join("deep/er"));
        assert_eq!(cache.read("a"), None);
        cache.write("a", b"contents");
        assert_eq!(cache.read("a").unwrap(), b"contents");
        let path = cache.folder().join("a");
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.read("a"), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(cache.read("a"), None, "cut at {at}");
        }
        cache.write("a", b"anew");
        assert_eq!(cache.read("a").unwrap(), b"anew");
    }

    #[test]
    fn what_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let failed = write_atomic_with(&path, |part| {
            fs::write(part, "half")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_folder_stays_below_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(folder.path()).with_limit(1000);
        let long_ago = |name: &str, seconds| {
            let file = File::options()
                .write(true)
                .open(folder.path().join(name))
                .unwrap();
            let then = SystemTime::now() - std::time::Duration::from_secs(seconds);
            file.set_modified(then).unwrap();
        };
        for (name, seconds) in [("a.program", 30), ("b.program", 20), ("c.pipelines", 10)] {
            cache.write(name, &[1; 200]);
            long_ago(name, seconds);
        }
        // Whatever else is in the folder stays.
        fs::write(folder.path().join("model.gguf"), [0; 5000]).unwrap();
        long_ago("model.gguf", 999);
        // Reading makes it the youngest.
        assert!(cache.read("a.program").is_some());
        fs::write(folder.path().join(".wisp-part-1"), [0; 10]).unwrap();
        fs::write(folder.path().join(".wisp-part-2"), [0; 10]).unwrap();
        long_ago(".wisp-part-1", 2 * ABANDONED_SECONDS);
        cache.write("d.program", &[1; 400]);
        let names = ["a.program", "b.program", "c.pipelines", "d.program"];
        let there = names.map(|name| cache.read(name).is_some());
        assert_eq!(there, [true, false, true, true]);
        let part = |name: &str| folder.path().join(name).exists();
        assert!(!part(".wisp-part-1") && part(".wisp-part-2") && part("model.gguf"));
        cache.write("e.program", &[1; 2000]);
        assert_eq!(cache.read("e.program"), None, "larger than the whole");
    }

    /// What another user can have put there might be anything.
    #[cfg(unix)]
    #[test]
    fn what_others_can_write_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(folder.path().join("own"));
        cache.write("a.program", b"contents");
        let file = cache.folder().join("a.program");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        assert!(cache.read("a.program").is_some());
        for (path, shared, own) in [
            (file.as_path(), 0o620, 0o600),
            (cache.folder(), 0o777, 0o700),
        ] {
            set(path, shared);
            assert!(cache.read("a.program").is_none(), "{}", path.display());
            set(path, own);
            assert!(cache.read("a.program").is_some());
        }
    }

    #[test]
    fn writers_at_once_leave_one_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(folder.path());
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let cache = &cache;
                scope.spawn(move || {
                    for _ in 0..50 {
                        cache.write("same", &[writer; 5000]);
                        let found = cache.read("same").unwrap();
                        assert!(found.len() == 5000 && found.iter().all(|b| *b == found[0]));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
