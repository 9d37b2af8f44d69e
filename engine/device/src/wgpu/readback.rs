//! Bytes on their way from the device to the program.

use std::ops::Range;

use super::{device::WgpuDevice, objects::buffer_of, poller::Answer};
use crate::{buffer::Buffer, error::DeviceError};

impl WgpuDevice {
    /// Submits a copy of part of a buffer to the program's memory, with everything recorded before it.
    pub(super) fn start_read(
        &self,
        buffer: &Buffer,
        range: Range<u64>,
    ) -> Result<impl Future<Output = Result<Vec<u8>, DeviceError>> + use<>, DeviceError> {
        let bytes = range.end - range.start;
        let source = buffer_of(buffer)?;
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size: bytes,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut recorder = self.recorder();
        let submits_dispatches = recorder.has_dispatches();
        let written = self.uploads.written();
        let encoder = recorder.encoder(&self.device);
        encoder.copy_buffer_to_buffer(&source.raw, range.start, &staging, 0, bytes);
        let index = self.queue.submit(recorder.finish());
        drop(recorder);
        let fetched = self.fetch(staging, index);
        if submits_dispatches {
            self.errors.check("a submission", 0)?;
        }
        let (errors, label) = (self.errors.clone(), buffer.label.clone());
        let uploads = self.uploads.clone();
        Ok(async move {
            let fetched = fetched.await;
            if fetched.is_ok() {
                uploads.note_arrival(written);
            }
            errors.check(&label, bytes)?;
            fetched
        })
    }

    /// Returns what a submission leaves in a staging buffer, when it has run.
    pub(super) fn fetch(
        &self,
        staging: wgpu::Buffer,
        index: wgpu::SubmissionIndex,
    ) -> impl Future<Output = Result<Vec<u8>, DeviceError>> + use<> {
        let (answer, receiver) = Answer::new();
        let mapped = answer.clone();
        staging.map_async(wgpu::MapMode::Read, .., move |result| mapped.send(result));
        self.poller.wait(index, answer);
        let device = self.info.name.clone();
        async move {
            let lost = |message: String| DeviceError::Lost { device, message };
            match receiver.await {
                Ok(Ok(())) => match staging.get_mapped_range(..) {
                    Ok(view) => Ok(view.to_vec()),
                    Err(error) => Err(lost(error.to_string())),
                },
                Ok(Err(error)) => Err(lost(error.to_string())),
                Err(_) => Err(lost(NO_ANSWER.into())),
            }
        }
    }
}

/// The message of a device that drops a callback without calling it.
pub(super) const NO_ANSWER: &str = "it stopped answering";
