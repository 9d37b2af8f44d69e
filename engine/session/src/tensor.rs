//! Numbers with their shape, on the host or on a device.

use std::fmt;

use crate::error::SessionError;
use wisp_device::{Buffer, Device, DeviceError, Usage};
use wisp_types::DType;

/// Numbers with their shape, outermost dimension first: in the program's own memory, where they can be
/// seen, or on a device, where a model takes them from and leaves them.
///
/// ```
/// use wisp_engine::session::Tensor;
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
    /// Each of the elements.
    Words(Vec<u32>),
    /// At the start of a buffer of a device.
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

    /// Floats; `None` if they are not as many as the shape has.
    pub fn f32(shape: &[u64], values: &[f32]) -> Option<Tensor> {
        Tensor::of(DType::F32, shape, bytemuck::cast_slice(values).to_vec())
    }

    /// Whole numbers; `None` if they are not as many as the shape has.
    pub fn u32(shape: &[u64], values: &[u32]) -> Option<Tensor> {
        Tensor::of(DType::U32, shape, values.to_vec())
    }

    /// A tensor over the start of a buffer of a device: nothing is copied, and whatever writes to the
    /// buffer changes the tensor. Given to a model as the input whose [own
    /// memory](crate::Model::buffer) this is, it costs nothing.
    ///
    /// ```
    /// use wisp_engine::{device::{Device, Usage}, graph::DType, session::Tensor};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::host(1)?;
    /// let buffer = device.allocate("positions", 16, Usage::Storage)?;
    /// let positions = Tensor::on_device(&device, &buffer, DType::U32, &[4])?;
    /// device.write(&buffer, 0, bytemuck::cast_slice(&[5u32, 6, 7, 8]))?;
    /// let seen = pollster::block_on(positions.to_host())?;
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

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The device that it is on; `None` if it is in the program's own memory.
    pub fn device(&self) -> Option<&Device> {
        match &self.values {
            Values::Words(_) => None,
            Values::On(device, _) => Some(device),
        }
    }

    /// The buffer that it is at the start of; `None` if it is in the program's own memory.
    pub fn buffer(&self) -> Option<&Buffer> {
        match &self.values {
            Values::Words(_) => None,
            Values::On(_, buffer) => Some(buffer),
        }
    }

    /// Its elements, if they are floats in the program's own memory.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.values {
            Values::Words(words) if self.dtype == DType::F32 => Some(bytemuck::cast_slice(words)),
            _ => None,
        }
    }

    /// Its elements, if they are whole numbers in the program's own memory.
    pub fn as_u32(&self) -> Option<&[u32]> {
        match &self.values {
            Values::Words(words) if self.dtype == DType::U32 => Some(words),
            _ => None,
        }
    }

    /// Bytes of its elements.
    fn bytes(&self) -> u64 {
        let elements = elements(&self.shape).unwrap_or(u64::MAX);
        elements.saturating_mul(4)
    }

    /// The tensor on a device: where it is there already, the same memory, else a copy.
    ///
    /// ```
    /// use wisp_engine::{device::Device, session::Tensor};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (one, other) = (Device::host(1)?, Device::host(1)?);
    /// let x = Tensor::f32(&[2], &[1.0, 2.0]).ok_or("two numbers")?;
    /// let there = pollster::block_on(async { x.to(&one).await?.to(&other).await })?;
    /// assert_eq!((there.device(), there.as_f32()), (Some(&other), None));
    /// assert_eq!(pollster::block_on(there.to_host())?, x);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the device has no memory left, or one of the devices fails.
    pub async fn to(&self, device: &Device) -> Result<Tensor, SessionError> {
        if self.device() == Some(device) {
            return Ok(self.clone());
        }
        let buffer = device.allocate("a tensor", self.bytes(), Usage::Storage)?;
        self.write_to(device, &buffer).await?;
        let values = Values::On(device.clone(), buffer);
        Ok(Tensor::new(self.dtype, self.shape.clone(), values))
    }

    /// The tensor in the program's own memory, where its elements can be seen. Of one that is on a device
    /// the read starts now ([`Device::read`]), after everything recorded there before this call.
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

    /// The tensor in other memory of its device.
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

    /// Writes the elements at the start of a buffer.
    pub(crate) async fn write_to(
        &self,
        device: &Device,
        buffer: &Buffer,
    ) -> Result<(), DeviceError> {
        match &self.values {
            Values::Words(words) if words.is_empty() => Ok(()),
            Values::Words(words) => device.write(buffer, 0, bytemuck::cast_slice(words)),
            // Already there: an input in the model's own memory.
            Values::On(_, from) if from.is(buffer) => Ok(()),
            Values::On(from_device, from) => {
                let to = (device, buffer);
                from_device.transfer(from, self.bytes(), to).await
            }
        }
    }
}

/// Two tensors on devices are equal only if they are the same memory.
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

/// The elements of a shape.
pub(crate) fn elements(shape: &[u64]) -> Option<u64> {
    shape
        .iter()
        .try_fold(1u64, |all, size| all.checked_mul(*size))
}
