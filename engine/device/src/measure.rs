//! The rates at which a device reads memory and computes, measured with the simplest kernels: what other
//! kernels can reach at most.

use std::time::Duration;

use wisp_shaders::params::MeasureParams;

use crate::{Api, Buffer, Device, DeviceError, Dispatch, Usage};

/// A device's highest rates.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ceilings {
    /// Bytes read per second.
    pub read_bytes_per_second: f64,
    /// `f32` operations per second; a fused multiply-add counts as two.
    pub f32_operations_per_second: f64,
}

/// Bytes that the read kernel reads if the device binds that many: more than caches hold.
const READ_BYTES: u64 = 256 << 20;

/// A run for the rate of operations is made longer until it takes this long, or has [`MAX_ROUNDS`].
const MIN_RUN_SECONDS: f64 = 0.005;

/// The longest run: about 2 ms on the fastest GPUs.
const MAX_ROUNDS: u32 = 1 << 12;

/// `f32` operations of one invocation of `measure_fma` in one round.
const OPERATIONS_PER_ROUND: f64 = 128.0;

struct Measurement<'a> {
    device: &'a Device,
    x: &'a Buffer,
    kernel: &'static str,
    params: MeasureParams,
}

impl Measurement<'_> {
    fn dispatch(&self) -> Result<Dispatch, DeviceError> {
        let device = self.device;
        let kernel = wisp_shaders::candidates(self.kernel)
            .next()
            .ok_or_else(|| DeviceError::NoTwin {
                kernel: self.kernel.into(),
            })?;
        let bytes = size_of::<MeasureParams>() as u64;
        let params = device.allocate("parameters", bytes, Usage::Uniform)?;
        device.write(&params, 0, bytemuck::bytes_of(&self.params))?;
        let out_bytes = u64::from(self.params.invocations) * 4;
        let out = device.allocate("sums", out_bytes, Usage::Storage)?;
        let bindings = [params.slice(0..bytes), self.x.whole(), out.whole()];
        let group = device.bind(kernel, &bindings)?;
        let workgroups = [self.params.invocations.div_ceil(kernel.tile[0]), 1, 1];
        // SAFETY: `x` has the `len` vectors that `measure_read` reads (`measure_fma` reads only its
        // start), and `out` a float for each invocation; the pipeline runs with these only.
        let pipeline = unsafe { device.unchecked_pipeline(kernel)? };
        Dispatch::new(device, &pipeline, &group, workgroups)
    }

    /// Returns the median of the seconds that one run takes, of five and as many as the duration allows. If one takes more
    /// than ten times the duration, it is the only one.
    async fn seconds(
        &self,
        now: &dyn Fn() -> Duration,
        duration: Duration,
    ) -> Result<f64, DeviceError> {
        let (device, dispatch) = (self.device, [self.dispatch()?]);
        device.record(&dispatch)?;
        device.finish().await?;
        let (start, mut times) = (now(), Vec::new());
        while times.len() < 5 || (now() - start < duration && times.len() < 1000) {
            let before = now();
            device.record(&dispatch)?;
            device.finish().await?;
            let took = now() - before;
            times.push(took.as_secs_f64());
            if !duration.is_zero() && took > 10 * duration {
                break;
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

/// [`ceilings`], blocking the thread.
///
/// # Errors
///
/// As [`ceilings`].
#[cfg(not(target_arch = "wasm32"))]
pub fn ceilings_blocking(
    device: &Device,
    now: &dyn Fn() -> Duration,
    duration: Duration,
) -> Result<Ceilings, DeviceError> {
    pollster::block_on(ceilings(device, now, duration))
}

/// Measures a device: for about `duration` how fast it reads, and for as long how fast it computes. `now` is a clock,
/// because browsers have another one than programs.
///
/// # Errors
///
/// If the device fails.
pub async fn ceilings(
    device: &Device,
    now: &dyn Fn() -> Duration,
    duration: Duration,
) -> Result<Ceilings, DeviceError> {
    let software = device.info().software;
    let slow = software && device.info().api != Api::Host;
    let most = if slow { READ_BYTES / 4 } else { READ_BYTES };
    let capabilities = &device.info().capabilities;
    let read_bytes = most
        .min(capabilities.max_binding_bytes)
        .min(capabilities.max_buffer_bytes)
        >> 20
        << 20;
    let x = device.allocate("measurement", read_bytes, Usage::Storage)?;
    // The system may provide pages only when they are first written.
    let mebibyte = vec![0x3f; 1 << 20];
    for offset in (0..read_bytes).step_by(mebibyte.len()) {
        device.write(&x, offset, &mebibyte)?;
    }
    let invocations = if software { 1 << 12 } else { 1 << 17 };
    let len = (read_bytes / 16) as u32;
    let read = Measurement {
        device,
        x: &x,
        kernel: "measure_read",
        params: MeasureParams { len, invocations },
    };
    let read_seconds = read.seconds(now, duration).await?;
    let mut fma = Measurement {
        device,
        x: &x,
        kernel: "measure_fma",
        params: MeasureParams {
            len: 1 << 6,
            invocations,
        },
    };
    while fma.params.len < MAX_ROUNDS && fma.seconds(now, Duration::ZERO).await? < MIN_RUN_SECONDS {
        fma.params.len *= 4;
    }
    let operations = OPERATIONS_PER_ROUND * f64::from(fma.params.len) * f64::from(invocations);
    Ok(Ceilings {
        read_bytes_per_second: read_bytes as f64 / read_seconds,
        f32_operations_per_second: operations / fma.seconds(now, duration).await?,
    })
}
