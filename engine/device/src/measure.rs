//! What a device reads and computes at most, measured with the plainest kernels.

use std::time::Duration;

use wisp_shaders::params::MeasureParams;

use super::{Api, Buffer, Device, DeviceError, Dispatch, Usage};

/// A device's ceilings.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ceilings {
    /// Bytes read a second.
    pub read_bytes_per_second: f64,
    /// `f32` operations a second, a fused multiply-add being two.
    pub f32_operations_per_second: f64,
}

/// Bytes that the read kernel reads, if the device binds as many: more than caches hold.
const READ_BYTES: u64 = 256 << 20;

/// Each measurement runs at least this long in all.
const LONG_ENOUGH: Duration = Duration::from_millis(300);

struct Measurement<'a> {
    device: &'a Device,
    x: &'a Buffer,
    kernel: &'static str,
    params: MeasureParams,
}

impl Measurement<'_> {
    /// The median of the seconds that one run takes.
    async fn seconds(&self, now: &dyn Fn() -> Duration) -> Result<f64, DeviceError> {
        let device = self.device;
        let kernel = wisp_shaders::candidates(self.kernel)
            .next()
            .ok_or_else(|| DeviceError::Validation {
                what: self.kernel.into(),
                device: device.info().name.clone(),
                message: "there is no such kernel".into(),
            })?;
        let params = device.allocate(
            "parameters",
            size_of::<MeasureParams>() as u64,
            Usage::Uniform,
        )?;
        device.write(&params, 0, bytemuck::bytes_of(&self.params))?;
        let out = device.allocate(
            "sums",
            u64::from(self.params.invocations) * 4,
            Usage::Storage,
        )?;
        let pipeline = device.pipeline(kernel)?;
        let group = device.bind(
            kernel,
            &[
                params.slice(0..size_of::<MeasureParams>() as u64),
                self.x.whole(),
                out.whole(),
            ],
        )?;
        let dispatch = [Dispatch {
            pipeline,
            group,
            workgroups: [self.params.invocations.div_ceil(kernel.tile[0]), 1, 1],
        }];
        device.record(&dispatch)?;
        device.finish().await?;
        let (start, mut times) = (now(), Vec::new());
        while times.len() < 5 || (now() - start < LONG_ENOUGH && times.len() < 1000) {
            let before = now();
            device.record(&dispatch)?;
            device.finish().await?;
            times.push((now() - before).as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

/// Measures a device. `now` is a clock: a browser has another than a program.
///
/// # Errors
///
/// If the device fails.
pub async fn ceilings(
    device: &Device,
    now: &dyn Fn() -> Duration,
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
    // Memory that was never written may not exist.
    let piece = vec![0x3f; 1 << 20];
    for offset in (0..read_bytes).step_by(piece.len()) {
        device.write(&x, offset, &piece)?;
    }
    let invocations = if software { 1 << 12 } else { 1 << 17 };
    let len = (read_bytes / 16) as u32;
    let read = Measurement {
        device,
        x: &x,
        kernel: "measure_read",
        params: MeasureParams { len, invocations },
    };
    let read_seconds = read.seconds(now).await?;
    let rounds = if software { 1 << 10 } else { 1 << 12 };
    let fma = Measurement {
        device,
        x: &x,
        kernel: "measure_fma",
        params: MeasureParams {
            len: rounds,
            invocations,
        },
    };
    let fma_seconds = fma.seconds(now).await?;
    Ok(Ceilings {
        read_bytes_per_second: read_bytes as f64 / read_seconds,
        f32_operations_per_second: 128.0 * f64::from(rounds) * f64::from(invocations) / fma_seconds,
    })
}
