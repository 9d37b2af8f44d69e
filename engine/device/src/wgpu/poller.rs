//! Progress of the device while futures wait for it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};
#[cfg(not(target_arch = "wasm32"))]
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use futures_channel::oneshot;

/// Lets the device make progress: natively on a thread of its own, which blocks so that no executor has to;
/// in a browser the event loop does it.
#[derive(Debug)]
pub(super) struct Poller {
    #[cfg(not(target_arch = "wasm32"))]
    wake: Mutex<mpsc::Sender<Waiting>>,
}

/// A submission that something waits for.
#[cfg(not(target_arch = "wasm32"))]
struct Waiting {
    index: wgpu::SubmissionIndex,
    /// Called if the device does not get there.
    give_up: Box<dyn FnOnce() + Send>,
}

impl Poller {
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(device: &wgpu::Device) -> Poller {
        let (wake, woken) = mpsc::channel::<Waiting>();
        let device = device.clone();
        // The thread ends when the sender is dropped.
        std::thread::spawn(move || {
            while let Ok(Waiting { index, give_up }) = woken.recv() {
                let wait = wgpu::PollType::Wait {
                    submission_index: Some(index),
                    timeout: None,
                };
                if !poll(&device, wait) {
                    give_up();
                }
            }
        });
        Poller {
            wake: Mutex::new(wake),
        }
    }

    /// Makes progress until a submission has run, whose callback sends the answer. If the device does not get there, the
    /// answer is given up.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn wait<T: Send + 'static>(&self, index: wgpu::SubmissionIndex, answer: Answer<T>) {
        let wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        let give_up = Box::new(move || answer.give_up());
        // The thread lives as long as this sender does.
        let _ = wake.send(Waiting { index, give_up });
    }

    #[cfg(target_arch = "wasm32")]
    pub fn new(_: &wgpu::Device) -> Poller {
        Poller {}
    }

    #[cfg(target_arch = "wasm32")]
    pub fn wait<T>(&self, _: wgpu::SubmissionIndex, _: Answer<T>) {}
}

/// Makes progress as `wait` says; returns whether the device got there. Where the device is lost meanwhile, wgpu calls no
/// callback of what was submitted, and panics.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn poll(device: &wgpu::Device, wait: wgpu::PollType) -> bool {
    succeeds(|| {
        loop {
            let start = Instant::now();
            let result = device.poll(wait.clone());
            if !is_cut_short(&result, start.elapsed()) {
                return result;
            }
        }
    })
}

#[cfg(target_arch = "wasm32")]
pub(super) fn poll(device: &wgpu::Device, wait: wgpu::PollType) -> bool {
    succeeds(|| device.poll(wait))
}

/// Returns whether a wait without a limit should be repeated: with OpenGL it ends after two seconds at the
/// latest. One that ends at once has failed.
#[cfg(not(target_arch = "wasm32"))]
fn is_cut_short<T>(result: &Result<T, wgpu::PollError>, elapsed: Duration) -> bool {
    matches!(result, Err(wgpu::PollError::Timeout)) && elapsed >= Duration::from_secs(1)
}

/// Returns whether a function returns normally and without an error.
fn succeeds<T, E>(function: impl FnOnce() -> Result<T, E>) -> bool {
    // What wgpu leaves behind is a device that is lost.
    matches!(catch_unwind(AssertUnwindSafe(function)), Ok(Ok(_)))
}

/// The sender of an answer that the device's callback gives unless the device is lost.
#[derive(Debug)]
pub(super) struct Answer<T>(Arc<Mutex<Option<oneshot::Sender<T>>>>);

impl<T> Answer<T> {
    pub fn new() -> (Answer<T>, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Answer(Arc::new(Mutex::new(Some(sender)))), receiver)
    }

    /// Answers, unless that has been given up.
    pub fn send(&self, answer: T) {
        if let Some(sender) = self.take() {
            // An answer that nobody waits for is not needed.
            let _ = sender.send(answer);
        }
    }

    /// Ends the waiting for an answer that has not come.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn give_up(&self) {
        drop(self.take());
    }

    fn take(&self) -> Option<oneshot::Sender<T>> {
        // Poisoning is harmless: the sender is taken whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Answer<T> {
        Answer(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_repeated_that_opengl_has_cut_short() {
        let timeout = || Err::<(), _>(wgpu::PollError::Timeout);
        assert!(is_cut_short(&timeout(), Duration::from_millis(2147)));
        assert!(!is_cut_short(&timeout(), Duration::from_millis(1)));
        assert!(!is_cut_short(&Ok(()), Duration::from_millis(2147)));
    }

    #[test]
    fn lost_devices_end_the_waiting_for_what_they_were_to_answer() {
        assert!(succeeds(|| Ok::<_, ()>(1)));
        assert!(!succeeds(|| Err::<(), _>(1)));
        assert!(!succeeds(|| -> Result<(), ()> {
            // Without the panic hook's message in the tests' output.
            std::panic::resume_unwind(Box::new("Error in Device::poll: Parent device is lost"))
        }));

        let (answer, mut receiver) = Answer::new();
        let callback = answer.clone();
        callback.send(7);
        answer.give_up();
        assert_eq!(receiver.try_recv(), Ok(Some(7)));

        // The callback is never called, and lives as long as the device.
        let (answer, mut receiver) = Answer::<u32>::new();
        let _callback = answer.clone();
        assert_eq!(receiver.try_recv(), Ok(None));
        answer.give_up();
        assert!(receiver.try_recv().is_err());
    }
}
