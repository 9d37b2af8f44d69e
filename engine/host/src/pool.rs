//! Memory that is kept from one call of a kernel to the next: what a system hands out anew is slow, because it clears it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values that no call uses at the moment, as many as were in use at once.
pub(super) struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    pub(super) const fn new() -> Pool<T> {
        Pool(Mutex::new(Vec::new()))
    }

    fn values(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task with a value, which holds what earlier tasks left in it.
    pub(super) fn lend<R>(&self, task: impl FnOnce(&mut T) -> R) -> R {
        let value = self.values().pop();
        let mut value = value.unwrap_or_default();
        let result = task(&mut value);
        self.values().push(value);
        result
    }
}

/// Lengthens kept values to at least `count`. They are never shortened: what grows again is cleared again.
pub(super) fn lengthen<T: Clone>(values: &mut Vec<T>, count: usize, value: T) {
    if values.len() < count {
        values.resize(count, value);
    }
}
