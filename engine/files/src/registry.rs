//! The temporary files of this process, and their removal before an exit that runs no destructors.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The number of paths from which on those that no longer exist are forgotten.
const MANY: usize = 64;

/// The temporary files and folders that this process has created. Their names are random, so that those which were
/// moved or deleted do no harm here.
static CREATED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Poisoning is harmless: paths are inserted and removed whole.
fn created() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    CREATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a temporary file or folder that [`remove_temporaries`] removes.
pub(crate) fn register<T: AsRef<Path>>(create: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // Locked until it is registered, so that an exit in between leaves no file.
    let mut created = created();
    let temporary = create()?;
    if created.len() >= MANY {
        created.retain(|path| path.exists());
    }
    created.insert(std::path::absolute(&temporary)?);
    Ok(temporary)
}

/// Removes the temporary files and folders of this process, for an exit that runs no destructors, such as that of a
/// signal handler. Other threads create no more of them: they wait for the exit, which must follow.
pub fn remove_temporaries() {
    let created = created();
    for path in created.iter() {
        // What was moved or cannot be removed is left alone.
        let _ = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
    }
    std::mem::forget(created);
}
