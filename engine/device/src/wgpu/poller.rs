//! Progress of the device while futures wait for it.

#[cfg(not(target_arch = "wasm32"))]
use std::sync::{Mutex, PoisonError, mpsc};

/// Lets the device make progress: natively on a thread of its own, which blocks so that no executor has to;
/// in a browser the event loop does it.
#[derive(Debug)]
pub(super) struct Poller {
    #[cfg(not(target_arch = "wasm32"))]
    wake: Mutex<mpsc::Sender<wgpu::SubmissionIndex>>,
}

impl Poller {
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(device: &wgpu::Device) -> Poller {
        let (wake, woken) = mpsc::channel();
        let device = device.clone();
        // The thread ends when the sender is dropped.
        std::thread::spawn(move || {
            while let Ok(index) = woken.recv() {
                // A failure surfaces through the callbacks of the read and of the device.
                let _ = device.poll(wgpu::PollType::Wait {
                    submission_index: Some(index),
                    timeout: None,
                });
            }
        });
        Poller {
            wake: Mutex::new(wake),
        }
    }

    /// Makes progress until a submission has run.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn wait(&self, index: wgpu::SubmissionIndex) {
        let wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        // The thread lives as long as this sender does.
        let _ = wake.send(index);
    }

    #[cfg(target_arch = "wasm32")]
    pub fn new(_: &wgpu::Device) -> Poller {
        Poller {}
    }

    #[cfg(target_arch = "wasm32")]
    pub fn wait(&self, _: wgpu::SubmissionIndex) {}
}
