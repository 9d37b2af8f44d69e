//! What a session is made of: its devices, and the host's threads.

use crate::{error::SessionError, session::InferenceSession};
use wisp_device::{Device, DeviceSpec, FeatureLevel};
use wisp_graph::extension::Extensions;

/// A device for a session: one to be opened, or one that is open.
#[derive(Clone, Debug)]
pub enum SessionDevice {
    /// To be opened, at the builder's feature level.
    Spec(DeviceSpec),
    /// Open already; other sessions may use it too.
    Open(Device),
}

impl From<DeviceSpec> for SessionDevice {
    fn from(spec: DeviceSpec) -> SessionDevice {
        SessionDevice::Spec(spec)
    }
}

impl From<Device> for SessionDevice {
    fn from(device: Device) -> SessionDevice {
        SessionDevice::Open(device)
    }
}

/// Makes a session of several devices, or of other than the usual threads.
///
/// ```
/// use wisp_engine::{device::Device, session::InferenceSession};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let session = InferenceSession::builder()
///     .device(Device::host(1)?) // or `"vulkan".parse::<DeviceSpec>()?`, and as many as there are
///     .device(Device::host(1)?)
///     .build_blocking()?;
/// assert_eq!(session.devices().len(), 2);
/// assert_eq!(session.on(1)?.device(), &session.devices()[1]);
///
/// // The host is always there.
/// let alone = InferenceSession::builder().num_threads(2).build_blocking()?;
/// assert_eq!(alone.device().info().driver, "2 threads");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct SessionBuilder {
    devices: Vec<SessionDevice>,
    feature_level: FeatureLevel,
    num_threads: usize,
    extensions: Extensions,
}

impl SessionBuilder {
    /// Adds a device. The first one is where graphs run that are placed nowhere else.
    pub fn device(mut self, device: impl Into<SessionDevice>) -> SessionBuilder {
        self.devices.push(device.into());
        self
    }

    /// Adds devices.
    pub fn devices<D: Into<SessionDevice>>(
        mut self,
        devices: impl IntoIterator<Item = D>,
    ) -> SessionBuilder {
        self.devices.extend(devices.into_iter().map(Into::into));
        self
    }

    /// How much of the adapters to use; of devices that are open nothing changes.
    pub fn feature_level(mut self, level: FeatureLevel) -> SessionBuilder {
        self.feature_level = level;
        self
    }

    /// The host's threads; 0, which they are without this, is one a core.
    pub fn num_threads(mut self, num_threads: usize) -> SessionBuilder {
        self.num_threads = num_threads;
        self
    }

    /// Custom ops; see [`InferenceSession::with_extensions`].
    pub fn custom_extensions(mut self, extensions: Extensions) -> SessionBuilder {
        self.extensions = extensions;
        self
    }

    /// Opens the devices; the host is always among them, as the last if it was not given.
    ///
    /// # Errors
    ///
    /// If there is no device of a specification, with what there is instead.
    pub async fn build(self) -> Result<InferenceSession, SessionError> {
        let mut devices = Vec::with_capacity(self.devices.len() + 1);
        for device in self.devices {
            devices.push(match device {
                SessionDevice::Open(device) => device,
                SessionDevice::Spec(spec) => {
                    Device::open(&spec, self.feature_level, self.num_threads).await?
                }
            });
        }
        Ok(InferenceSession::of(
            devices,
            self.num_threads,
            self.extensions,
        ))
    }

    /// [`Self::build`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::build`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn build_blocking(self) -> Result<InferenceSession, SessionError> {
        pollster::block_on(self.build())
    }
}

impl InferenceSession {
    /// A session of any devices.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// A session on a device, and the host beside it: the short way of [`Self::builder`].
    pub fn new(device: Device) -> InferenceSession {
        InferenceSession::of(vec![device], 0, Extensions::default())
    }
}
