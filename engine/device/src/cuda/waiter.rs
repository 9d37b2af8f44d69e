//! A thread that waits for the device, so that no executor has to.

use std::{
    sync::mpsc,
    thread::{self, JoinHandle},
};

use cudarc::driver::{CudaEvent, DriverError};
use futures_channel::oneshot;

/// Waits for events in the order in which they were recorded.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Until the waiter is dropped.
    tasks: Option<mpsc::Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

struct Task {
    event: CudaEvent,
    then: Box<dyn FnOnce(Result<(), DriverError>) + Send>,
}

impl Waiter {
    pub fn new() -> Waiter {
        let (tasks, received) = mpsc::channel::<Task>();
        // The thread ends when the sender is dropped.
        let thread = thread::spawn(move || {
            while let Ok(Task { event, then }) = received.recv() {
                let reached = event.synchronize();
                // Whoever waits may end the program next.
                drop(event);
                then(reached);
            }
        });
        Waiter {
            tasks: Some(tasks),
            thread: Some(thread),
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
        // The thread lives as long as this sender does.
        if let Some(tasks) = &self.tasks {
            let _ = tasks.send(task);
        }
        receiver
    }
}

impl Drop for Waiter {
    /// Waits for the thread, so that it does not call the driver while the program ends, which the driver does not allow.
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take()
            // The last owner of the device may be what the thread has waited for.
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
