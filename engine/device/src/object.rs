//! What backends keep behind buffers, pipelines and bind groups.

use std::{any::Any, fmt, sync::Arc};

use crate::error::DeviceError;

/// A backend's own buffer, pipeline or bind group. Cloning shares it.
#[derive(Clone)]
pub(crate) struct BackendObject(Arc<dyn Any + Send + Sync>);

impl BackendObject {
    pub fn new(object: impl Any + Send + Sync) -> BackendObject {
        BackendObject(Arc::new(object))
    }

    /// The object as the backend made it. It is of another type only if it is another backend's, which
    /// [`Device`](crate::Device) rules out; `name` is what it is or belongs to, for the error.
    pub fn get<T: Any>(&self, name: &str) -> Result<&T, DeviceError> {
        let object = self.0.downcast_ref();
        object.ok_or_else(|| DeviceError::ForeignObject(name.into()))
    }
}

impl fmt::Debug for BackendObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackendObject")
    }
}
