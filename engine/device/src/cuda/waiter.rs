//! A thread that waits for the device, so that no executor has to.

use std::sync::{Mutex, PoisonError, mpsc};

use cudarc::driver::{CudaEvent, DriverError};
use futures_channel::oneshot;

/// Waits for events in the order in which they were recorded.
#[derive(Debug)]
pub(super) struct Waiter {
    tasks: Mutex<mpsc::Sender<Task>>,
}

struct Task {
    event: CudaEvent,
    then: Box<dyn FnOnce(Result<(), DriverError>) + Send>,
}

impl Waiter {
    pub fn new() -> Waiter {
        let (tasks, received) = mpsc::channel::<Task>();
        // The thread ends when the sender is dropped.
        std::thread::spawn(move || {
            while let Ok(Task { event, then }) = received.recv() {
                then(event.synchronize());
            }
        });
        Waiter {
            tasks: Mutex::new(tasks),
        }
    }

    /// Returns `value` when an event is reached. The value is kept until then, even if nobody awaits it.
    pub fn after<T: Send + 'static>(
        &self,
        event: CudaEvent,
        value: T,
    ) -> oneshot::Receiver<Result<T, DriverError>> {
        let (sender, receiver) = oneshot::channel();
        let task = Task {
            event,
            then: Box::new(move |reached| {
                let _ = sender.send(reached.map(|()| value));
            }),
        };
        // Poisoning is harmless. The thread lives as long as this sender does.
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = tasks.send(task);
        receiver
    }
}
