//! The kernels that were compiled for a device.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use wisp_shaders::Kernel;

/// Whether the accesses and loops of a kernel are checked when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Checks {
    On,
    Off,
}

/// What identifies a kernel: its address. It lives as long as the process, unlike a name it is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct KernelId(usize);

impl KernelId {
    fn of(kernel: &'static Kernel) -> KernelId {
        KernelId(std::ptr::from_ref(kernel).addr())
    }
}

/// The kernels that were compiled for a device; `P` is a backend's pipeline, of which clones are the same.
#[derive(Debug)]
pub(crate) struct Compiled<P> {
    pipelines: Mutex<HashMap<(KernelId, Checks), P>>,
}

impl<P> Default for Compiled<P> {
    fn default() -> Compiled<P> {
        Compiled {
            pipelines: Mutex::default(),
        }
    }
}

impl<P: Clone> Compiled<P> {
    fn locked(&self) -> MutexGuard<'_, HashMap<(KernelId, Checks), P>> {
        // Poisoning is harmless: entries are inserted whole.
        self.pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a pipeline that was compiled before.
    pub fn find(&self, kernel: &'static Kernel, checks: Checks) -> Option<P> {
        let key = (KernelId::of(kernel), checks);
        self.locked().get(&key).cloned()
    }

    /// Keeps a pipeline for [`Self::find`]; returns the one that is there already, if another thread was
    /// faster.
    pub fn keep(&self, kernel: &'static Kernel, checks: Checks, pipeline: P) -> P {
        let key = (KernelId::of(kernel), checks);
        self.locked().entry(key).or_insert(pipeline).clone()
    }
}
