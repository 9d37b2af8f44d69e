//! Tensors, in host memory or on a device.

use std::fmt;

use crate::error::SessionError;
use wisp_device::{Buffer, Device, DeviceError, Usage};
use wisp_types::DType;

/// Elements with a type and a shape, outermost dimension first: in host memory, where they can be read, or
/// on a device, where models read and write them.
///
/// ```
/// use wisp_session::Tensor;
///
/// let x = Tensor::f32(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).expect("six numbers");
/// assert_eq!(x.shape(), [2, 3]);
/// assert_eq!(x.as_f32().map(|values| values[4]), Some(4.0));
/// assert!(Tensor::u32(&[2, 3], &[1]).is_none());
/// ```
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<u64>,
    values: Values,
}

#[derive(Clone)]
pub(crate) enum Values {
    /// The bits of the elements, in host memory.
    Words(Vec<u32>),
    /// At the start of a device's buffer.
    On(Device, Buffer),
}

impl Tensor {
    pub(crate) fn new(dtype: DType, shape: Vec<u64>, values: Values) -> Tensor {
        Tensor {
            dtype,
            shape,
            values,
        }
    }

    fn of(dtype: DType, shape: &[u64], words: Vec<u32>) -> Option<Tensor> {
        (elements(shape)? == words.len() as u64)
            .then(|| Tensor::new(dtype, shape.to_vec(), Values::Words(words)))
    }

    /// A tensor of floats; `None` if their number is not that of the shape.
    pub fn f32(shape: &[u64], values: &[f32]) -> Option<Tensor> {
        Tensor::of(DType::F32, shape, bytemuck::cast_slice(values).to_vec())
    }

    /// A tensor of integers; `None` if their number is not that of the shape.
    pub fn u32(shape: &[u64], values: &[u32]) -> Option<Tensor> {
        Tensor::of(DType::U32, shape, values.to_vec())
    }

    /// A tensor over the start of a device's buffer, without a copy: writes to the buffer change the tensor.
    /// Passing it to a model as the input that has [this memory](crate::Model::buffer) copies nothing.
    ///
    /// ```
    /// use wisp_device::{Device, Usage};
    /// use wisp_graph::DType;
    /// use wisp_session::Tensor;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::host(1)?;
    /// let buffer = device.allocate("positions", 16, Usage::Storage)?;
    /// let positions = Tensor::on_device(&device, &buffer, DType::U32, &[4])?;
    /// device.write(&buffer, 0, bytemuck::cast_slice(&[5u32, 6, 7, 8]))?;
    /// let seen = positions.to_host_blocking()?;
    /// assert_eq!(seen.as_u32(), Some(&[5, 6, 7, 8][..]));
    /// assert!(Tensor::on_device(&device, &buffer, DType::U32, &[5]).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the buffer belongs to another device, or the shape has more elements than the buffer holds.
    pub fn on_device(
        device: &Device,
        buffer: &Buffer,
        dtype: DType,
        shape: &[u64],
    ) -> Result<Tensor, SessionError> {
        let values = Values::On(device.clone(), buffer.clone());
        let tensor = Tensor::new(dtype, shape.to_vec(), values);
        device.check_owns(buffer)?;
        if tensor.bytes() > buffer.bytes() {
            return Err(DeviceError::OutOfBounds {
                label: buffer.label().into(),
                start: 0,
                end: tensor.bytes(),
                bytes: buffer.bytes(),
            }
            .into());
        }
        Ok(tensor)
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size of each dimension, outermost first.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The tensor's device; `None` if it is in host memory.
    pub fn device(&self) -> Option<&Device> {
        match &self.values {
            Values::Words(_) => None,
            Values::On(device, _) => Some(device),
        }
    }

    /// The buffer that begins with the tensor; `None` if it is in host memory.
    pub fn buffer(&self) -> Option<&Buffer> {
        match &self.values {
            Values::Words(_) => None,
            Values::On(_, buffer) => Some(buffer),
        }
    }

    /// The elements, if they are floats in host memory.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.values {
            Values::Words(words) if self.dtype == DType::F32 => Some(bytemuck::cast_slice(words)),
            _ => None,
        }
    }

    /// The elements, if they are integers in host memory.
    pub fn as_u32(&self) -> Option<&[u32]> {
        match &self.values {
            Values::Words(words) if self.dtype == DType::U32 => Some(words),
            _ => None,
        }
    }

    /// The size of the elements in bytes.
    fn bytes(&self) -> u64 {
        let elements = elements(&self.shape).unwrap_or(u64::MAX);
        elements.saturating_mul(4)
    }

    /// The tensor on a device: a copy, or the same memory if it is there already.
    ///
    /// ```
    /// use wisp_device::Device;
    /// use wisp_session::Tensor;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (one, other) = (Device::host(1)?, Device::host(1)?);
    /// let x = Tensor::f32(&[2], &[1.0, 2.0]).ok_or("two numbers")?;
    /// let there = x.to_blocking(&one)?.to_blocking(&other)?;
    /// assert_eq!((there.device(), there.as_f32()), (Some(&other), None));
    /// assert_eq!(there.to_host_blocking()?, x);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the device is out of memory, or one of the devices fails.
    pub async fn to(&self, device: &Device) -> Result<Tensor, SessionError> {
        if self.device() == Some(device) {
            return Ok(self.clone());
        }
        let buffer = device.allocate("a tensor", self.bytes(), Usage::Storage)?;
        self.write_to(device, &buffer).await?;
        let values = Values::On(device.clone(), buffer);
        Ok(Tensor::new(self.dtype, self.shape.clone(), values))
    }

    /// [`Self::to`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::to`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn to_blocking(&self, device: &Device) -> Result<Tensor, SessionError> {
        pollster::block_on(self.to(device))
    }

    /// The tensor in host memory. For one on a device, this call itself starts the read ([`Device::read`]),
    /// after all work recorded there so far.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn to_host(&self) -> impl Future<Output = Result<Tensor, SessionError>> + use<> {
        let read = match &self.values {
            Values::Words(words) => Err(words.clone()),
            Values::On(device, buffer) => Ok(match self.bytes() {
                0 => None,
                bytes => Some(device.read(buffer, 0..bytes)),
            }),
        };
        let (dtype, shape) = (self.dtype, self.shape.clone());
        async move {
            let words = match read {
                Err(words) => words,
                Ok(None) => Vec::new(),
                Ok(Some(read)) => bytemuck::pod_collect_to_vec(&read.await?),
            };
            Ok(Tensor::new(dtype, shape, Values::Words(words)))
        }
    }

    /// [`Self::to_host`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::to_host`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn to_host_blocking(&self) -> Result<Tensor, SessionError> {
        pollster::block_on(self.to_host())
    }

    /// True if the elements are in a buffer.
    pub(crate) fn is_in(&self, buffer: &Buffer) -> bool {
        matches!(&self.values, Values::On(_, own) if own.is(buffer))
    }

    /// A copy in new memory of the same device.
    pub(crate) fn copied(&self) -> Result<Tensor, SessionError> {
        let Values::On(device, from) = &self.values else {
            return Ok(self.clone());
        };
        let bytes = self.bytes();
        let buffer = device.allocate("a tensor", bytes, Usage::Storage)?;
        device.copy(from, 0..bytes, &buffer, 0)?;
        let values = Values::On(device.clone(), buffer);
        Ok(Tensor::new(self.dtype, self.shape.clone(), values))
    }

    /// Writes the elements to the start of a buffer.
    pub(crate) async fn write_to(
        &self,
        device: &Device,
        buffer: &Buffer,
    ) -> Result<(), DeviceError> {
        match &self.values {
            Values::Words(words) if words.is_empty() => Ok(()),
            Values::Words(words) => device.write(buffer, 0, bytemuck::cast_slice(words)),
            // The tensor is the input's own memory.
            Values::On(..) if self.is_in(buffer) => Ok(()),
            Values::On(from_device, from) => {
                let to = (device, buffer);
                from_device.transfer(from, self.bytes(), to).await
            }
        }
    }
}

/// Tensors on devices are equal only if they are in the same memory.
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        let same = match (&self.values, &other.values) {
            (Values::Words(a), Values::Words(b)) => a == b,
            (Values::On(_, a), Values::On(_, b)) => a.is(b),
            _ => false,
        };
        same && (self.dtype, &self.shape) == (other.dtype, &other.shape)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?} ", self.dtype, self.shape)?;
        match (&self.values, self.as_f32(), self.as_u32()) {
            (Values::On(device, _), ..) => write!(f, "on {}", device.info().name),
            (_, Some(floats), _) => floats.fmt(f),
            (_, _, words) => words.unwrap_or_default().fmt(f),
        }
    }
}

/// The number of elements of a shape; `None` if it exceeds 64 bits.
pub(crate) fn elements(shape: &[u64]) -> Option<u64> {
    shape
        .iter()
        .try_fold(1u64, |all, size| all.checked_mul(*size))
}
