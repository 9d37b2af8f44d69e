//! A bounded folder of files that can be recreated: compiled programs and drivers' pipeline caches.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use sha2::{Digest, Sha256};

use crate::{atomic::replace, bounded::open_regular};

/// The total size that a cache keeps its files below unless told otherwise, in bytes.
const DEFAULT_MAX_BYTES: u64 = 256 << 20;

/// The length of the SHA-256 checksum that ends each file.
const CHECKSUM_BYTES: usize = 32;

/// What a file of a [`DiskCache`] holds. The extension of its name says so.
///
/// A cache deletes files of these kinds only: anything else in its folder stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEntry {
    /// A compiled program.
    Program,
    /// The pipelines that a driver compiled.
    Pipelines,
    /// A kernel's machine code.
    MachineCode,
    /// The kernels that were measured to be the fastest on a device.
    Tuning,
}

impl CacheEntry {
    const ALL: [CacheEntry; 4] = [
        CacheEntry::Program,
        CacheEntry::Pipelines,
        CacheEntry::MachineCode,
        CacheEntry::Tuning,
    ];

    fn extension(self) -> &'static str {
        match self {
            CacheEntry::Program => ".program",
            CacheEntry::Pipelines => ".pipelines",
            CacheEntry::MachineCode => ".code",
            CacheEntry::Tuning => ".tuning",
        }
    }

    /// Returns the file name of the entry with this key.
    pub fn file_name(self, key: &str) -> String {
        format!("{key}{}", self.extension())
    }

    /// Returns true if a file name is that of an entry of any kind.
    fn is_entry(file_name: &str) -> bool {
        let mut kinds = CacheEntry::ALL.iter();
        kinds.any(|kind| file_name.ends_with(kind.extension()))
    }
}

/// A bounded folder of files that can be recreated.
///
/// Several processes may use one folder at the same time. Files are written atomically, so nobody reads
/// half of one. Each ends with a checksum, and a damaged file counts as absent. When the folder grows
/// beyond its limit, the files that were not used for longest are deleted. A cache and its clones count what
/// they write themselves, and what others write only when they look at the whole folder: with their first
/// file, and when they reach the limit. Nothing that goes wrong is an error: the caller recreates whatever it
/// does not find.
///
/// What is read is trusted: programs run without bounds checks, and drivers parse pipeline caches. So on
/// Unix a file counts as absent if a user other than the process's own may have written it.
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
    max_bytes: u64,
    /// The bytes of all entries when the folder was last looked at, and of those that were written since; `None` until
    /// something is written.
    total: Arc<Mutex<Option<u64>>>,
}

impl DiskCache {
    /// Creates a cache in a folder, which is created with the first file. The limit is 256 MiB.
    pub fn new(folder: impl Into<PathBuf>) -> DiskCache {
        DiskCache {
            folder: folder.into(),
            max_bytes: DEFAULT_MAX_BYTES,
            total: Arc::default(),
        }
    }

    /// Limits the total size of the cache's files to `bytes`.
    pub fn with_limit(mut self, bytes: u64) -> DiskCache {
        self.max_bytes = bytes;
        self
    }

    /// Returns the folder of the cache's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the contents of the file with this name; `None` if it does not exist, is damaged, or may have
    /// been written by another user.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.folder.join(name);
        let file = open_regular(&path).ok()?;
        let owned =
            |data: io::Result<fs::Metadata>| data.is_ok_and(|data| is_exclusively_ours(&data));
        if !owned(file.metadata()) || !owned(fs::metadata(&self.folder)) {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).take(self.max_bytes).read_to_end(&mut bytes).ok()?;
        let contents = bytes.len().checked_sub(CHECKSUM_BYTES)?;
        let intact = Sha256::digest(&bytes[..contents])[..] == bytes[contents..];
        bytes.truncate(contents);
        // The most recently used file is deleted last. Setting the time takes the right to write.
        if let Ok(file) = File::options().write(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        intact.then_some(bytes)
    }

    /// Writes a file with this name, then deletes others while the folder exceeds its limit. Contents that
    /// exceed the limit by themselves are not written.
    pub fn write(&self, name: &str, contents: &[u8]) {
        let bytes = [contents, &Sha256::digest(contents)[..]].concat();
        if bytes.len() as u64 > self.max_bytes {
            return;
        }
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        let written = folder.create(&self.folder).and_then(|()| {
            let path = self.folder.join(name);
            replace(&path, 0o600, |temporary| fs::write(temporary, &bytes))
        });
        if written.is_ok() {
            self.count(bytes.len() as u64);
        }
    }

    /// Counts a file that was written, and shrinks the folder if it may exceed its limit. Hundreds of files may be
    /// written one after the other, so the folder is not looked at for each.
    fn count(&self, bytes: u64) {
        // Poisoning is harmless: the value is replaced whole.
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        *total = match *total {
            Some(known) if known.saturating_add(bytes) <= self.max_bytes => Some(known + bytes),
            _ => self.shrink(),
        };
    }

    /// Deletes the least recently used entries beyond the limit. Returns the bytes of those that are left; `None` if the
    /// folder cannot be read.
    fn shrink(&self) -> Option<u64> {
        let directory = fs::read_dir(&self.folder).ok()?;
        let mut entries = Vec::new();
        for file in directory.flatten() {
            let Ok(data) = file.metadata() else { continue };
            let Some(modified) = data.modified().ok().filter(|_| data.is_file()) else {
                continue;
            };
            if CacheEntry::is_entry(&file.file_name().to_string_lossy()) {
                entries.push((modified, data.len(), file.path()));
            }
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in entries {
            if total <= self.max_bytes {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
        Some(total)
    }
}

/// Returns true if only this process's user can have written a file or folder.
#[cfg(unix)]
fn is_exclusively_ours(data: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    data.uid() == rustix::process::geteuid().as_raw() && data.mode() & 0o022 == 0
}

/// Other systems keep caches in folders that belong to the user.
#[cfg(not(unix))]
fn is_exclusively_ours(_data: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_count_as_absent() {
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
    fn least_recently_used_files_are_deleted_beyond_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(folder.path()).with_limit(1000);
        let set_age = |name: &str, seconds| {
            let file = File::options()
                .write(true)
                .open(folder.path().join(name))
                .unwrap();
            let then = SystemTime::now() - std::time::Duration::from_secs(seconds);
            file.set_modified(then).unwrap();
        };
        for (name, seconds) in [("a.program", 30), ("b.program", 20), ("c.pipelines", 10)] {
            cache.write(name, &[1; 200]);
            set_age(name, seconds);
        }
        // Files that are not the cache's stay.
        fs::write(folder.path().join("model.gguf"), [0; 5000]).unwrap();
        set_age("model.gguf", 999);
        // Reading a file makes it the most recently used.
        assert!(cache.read("a.program").is_some());
        fs::write(folder.path().join(".wisp-part-1"), [0; 10]).unwrap();
        set_age(".wisp-part-1", 7200);
        cache.write("d.program", &[1; 400]);
        let names = ["a.program", "b.program", "c.pipelines", "d.program"];
        let found = names.map(|name| cache.read(name).is_some());
        assert_eq!(found, [true, false, true, true]);
        let exists = |name: &str| folder.path().join(name).exists();
        assert!(!exists(".wisp-part-1") && exists("model.gguf"));
        cache.write("e.program", &[1; 2000]);
        assert_eq!(cache.read("e.program"), None, "larger than the limit");
    }

    #[test]
    fn the_folder_stays_within_its_limit_whoever_writes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = |limit| DiskCache::new(folder.path()).with_limit(limit);
        let bytes = || -> u64 {
            let files = fs::read_dir(folder.path()).unwrap();
            files
                .map(|file| file.unwrap().metadata().unwrap().len())
                .sum()
        };
        // Clones count together.
        let first = cache(2000);
        for number in 0..20 {
            let name = format!("{number}.code");
            first.clone().write(&name, &[1; 300]);
            assert!(bytes() <= 2000, "after file {number}");
        }
        // Another one begins with what is there.
        let second = cache(1000);
        second.write("last.code", &[1; 300]);
        assert!(bytes() <= 1000);
        assert!(second.read("last.code").is_some());
    }

    #[cfg(unix)]
    #[test]
    fn files_that_others_can_write_count_as_absent() {
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
    fn concurrent_writers_leave_one_whole_file() {
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
