//! Errors that wgpu reports by a callback, for the call that causes them to return.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::DeviceError;

/// The first error that a device has reported and no call has returned yet. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct ErrorSlot(Arc<Mutex<Option<DeviceError>>>);

impl ErrorSlot {
    /// Keeps the errors that a device reports from now on; `name` is the device's.
    pub fn watch(device: &wgpu::Device, name: &str) -> ErrorSlot {
        let slot = ErrorSlot::default();
        let (errors, label) = (slot.clone(), name.to_string());
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            let message = error.to_string();
            let device = label.clone();
            errors.keep(match error {
                wgpu::Error::OutOfMemory { .. } => DeviceError::OutOfMemory {
                    label: "a buffer".into(),
                    bytes: 0,
                    device,
                },
                _ => DeviceError::Validation {
                    what: "a command".into(),
                    device,
                    message,
                },
            });
        }));
        let (errors, label) = (slot.clone(), name.to_string());
        device.set_device_lost_callback(move |reason, message| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                errors.keep(DeviceError::Lost {
                    device: label.clone(),
                    message,
                });
            }
        });
        slot
    }

    fn lock(&self) -> MutexGuard<'_, Option<DeviceError>> {
        // Poisoning is harmless: an error is kept whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, error: DeviceError) {
        let mut kept = self.lock();
        match (&*kept, &error) {
            // What fails after the loss, or failed because of it, is no news.
            (Some(DeviceError::Lost { .. }), _) => {}
            (Some(_), DeviceError::Lost { .. }) | (None, _) => *kept = Some(error),
            (Some(_), _) => {}
        }
    }

    /// Returns the error that the device has reported, if any. `doing` names what the caller did, `bytes`
    /// is the size of what it allocated. A lost device stays lost.
    pub fn check(&self, doing: &str, bytes: u64) -> Result<(), DeviceError> {
        let mut kept = self.lock();
        if let Some(DeviceError::Lost { device, message }) = &*kept {
            return Err(DeviceError::Lost {
                device: device.clone(),
                message: message.clone(),
            });
        }
        match kept.take() {
            None => Ok(()),
            Some(DeviceError::OutOfMemory { device, .. }) => Err(DeviceError::OutOfMemory {
                label: doing.into(),
                bytes,
                device,
            }),
            Some(DeviceError::Validation {
                device, message, ..
            }) => Err(DeviceError::Validation {
                what: doing.into(),
                device,
                message,
            }),
            Some(other) => Err(other),
        }
    }
}
