//! Building a session from devices and options.

use crate::{error::SessionError, session::InferenceSession};
use wisp_device::{Device, DeviceClassChoice, DeviceOptions, DeviceSpec, FeatureLevel};
use wisp_graph::extension::Extensions;

/// A device of a session: a specification to open, or an open device.
#[derive(Clone, Debug)]
pub enum SessionDevice {
    /// To be opened, with the builder's options.
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

/// Builds a session: devices, threads of the host, custom ops.
///
/// ```
/// use wisp_device::Device;
/// use wisp_session::InferenceSession;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let session = InferenceSession::builder()
///     .device(Device::host(1)?) // or `"vulkan".parse::<DeviceSpec>()?`
///     .device(Device::host(1)?)
///     .build_blocking()?;
/// assert_eq!(session.devices().len(), 2);
/// assert_eq!(session.on(1)?.device(), &session.devices()[1]);
///
/// // A session always has the host.
/// let alone = InferenceSession::builder().num_threads(2).build_blocking()?;
/// assert_eq!(alone.device().info().driver, "2 threads");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct SessionBuilder {
    devices: Vec<SessionDevice>,
    options: DeviceOptions,
    extensions: Extensions,
}

impl SessionBuilder {
    /// Adds a device. Graphs run on the first one unless [`InferenceSession::on`] chooses another.
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

    /// Sets the feature level of devices that the builder opens.
    pub fn feature_level(mut self, level: FeatureLevel) -> SessionBuilder {
        self.options.feature_level = level;
        self
    }

    /// Sets the class of kernels on adapters that the builder opens.
    pub fn device_class(mut self, class: DeviceClassChoice) -> SessionBuilder {
        self.options.device_class = class;
        self
    }

    /// Sets the number of the host's threads; 0, the default, is one for each core.
    pub fn num_threads(mut self, num_threads: usize) -> SessionBuilder {
        self.options.num_threads = num_threads;
        self
    }

    /// Sets custom ops; see [`InferenceSession::with_extensions`].
    pub fn custom_extensions(mut self, extensions: Extensions) -> SessionBuilder {
        self.extensions = extensions;
        self
    }

    /// Opens the devices and adds the host as the last one if it is not among them.
    ///
    /// # Errors
    ///
    /// If no device matches a specification; the error lists the available ones.
    pub async fn build(self) -> Result<InferenceSession, SessionError> {
        let mut devices = Vec::with_capacity(self.devices.len() + 1);
        for device in self.devices {
            devices.push(match device {
                SessionDevice::Open(device) => device,
                SessionDevice::Spec(spec) => Device::open(&spec, self.options).await?,
            });
        }
        Ok(InferenceSession::of(
            devices,
            self.options.num_threads,
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
    /// A builder for a session of several devices or with other options.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// A session of one device and the host, with default options.
    pub fn new(device: Device) -> InferenceSession {
        InferenceSession::of(vec![device], 0, Extensions::default())
    }
}
