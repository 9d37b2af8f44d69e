//! Dispatches that are recorded again and again.

use std::sync::{Mutex, PoisonError};

use crate::{device::Device, error::DeviceError, object::BackendObject, pipeline::Dispatch};

/// Dispatches that are recorded again and again, as those of a decode step are. A device that can keep them in a
/// form of its own does so when they are recorded for the second time.
#[derive(Debug)]
pub struct Sequence {
    dispatches: Vec<Dispatch>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    New,
    RecordedOnce,
    /// Holds what the backend made of them, if it made anything.
    Prepared(Option<BackendObject>),
}

impl Sequence {
    /// Creates a sequence of dispatches, to run in order.
    pub fn new(dispatches: Vec<Dispatch>) -> Sequence {
        Sequence {
            dispatches,
            state: Mutex::new(State::New),
        }
    }

    /// The dispatches, in order.
    pub fn dispatches(&self) -> &[Dispatch] {
        &self.dispatches
    }
}

impl Device {
    /// Records the dispatches of a sequence, as [`Self::record`] does.
    ///
    /// # Errors
    ///
    /// As [`Self::record`].
    pub fn replay(&self, sequence: &Sequence) -> Result<(), DeviceError> {
        let dispatches = sequence.dispatches();
        self.check_dispatches(dispatches)?;
        // Poisoning is harmless: the state is replaced whole.
        let mut state = sequence
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let backend = self.backend();
        match &*state {
            State::Prepared(Some(prepared)) => return backend.replay(prepared),
            State::RecordedOnce if !dispatches.is_empty() => {
                let prepared = backend.prepare(dispatches)?;
                *state = State::Prepared(prepared);
                if let State::Prepared(Some(prepared)) = &*state {
                    return backend.replay(prepared);
                }
            }
            State::New => *state = State::RecordedOnce,
            _ => {}
        }
        backend.record(dispatches)
    }
}
