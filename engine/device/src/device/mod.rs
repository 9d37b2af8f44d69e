//! A device of any backend: its memory, its kernels and its commands.

mod commands;
mod dispatch;
mod kernels;
mod memory;

use std::sync::Arc;

use wisp_types::DeviceInfo;

use crate::{backend::Backend, device_id::DeviceId, ledger::Ledger};

/// A GPU or the host CPU: memory, kernels, and commands in order. Cloning shares it.
///
/// All commands of a device take effect in the order in which they are called. The crate's page has an
/// example.
#[derive(Clone, Debug)]
pub struct Device {
    id: DeviceId,
    backend: Arc<dyn Backend>,
    ledger: Arc<Ledger>,
}

/// Two devices that were opened separately are different, even on one adapter.
impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.id == other.id
    }
}

impl Eq for Device {}

impl Device {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Device {
        Device {
            id: DeviceId::next(),
            backend,
            ledger: Arc::default(),
        }
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// What the device is and can do.
    pub fn info(&self) -> &DeviceInfo {
        self.backend.info()
    }
}
