//! Commands that were recorded and not submitted yet.

use std::{ops::Range, sync::atomic::Ordering};

use super::objects::{WgpuBindGroup, WgpuBuffer, buffer_of};
use crate::{buffer::Buffer, error::DeviceError, pipeline::Dispatch};

/// Recorded dispatches after which they are submitted without being asked for, so that the device does
/// not idle while much is recorded.
const MAX_DISPATCHES: usize = 2048;

/// Recorded floating-point operations after which dispatches are submitted. Drivers reset a device that
/// takes too long for a submission (Windows after 2 seconds, AMD's on Linux after 10), and slow adapters do
/// 1e11 operations in a second. A decode step of one sequence has fewer, except with the largest models.
const MAX_OPERATIONS: u64 = 100_000_000_000;

/// How much a submission has to do.
#[derive(Debug, Default)]
pub(super) struct Load {
    dispatches: usize,
    operations: u64,
}

impl Load {
    /// Adds a dispatch of so many operations.
    pub fn add(&mut self, operations: u64) {
        self.dispatches += 1;
        self.operations = self.operations.saturating_add(operations);
    }

    /// Returns true if no more should be added.
    pub fn is_full(&self) -> bool {
        self.dispatches >= MAX_DISPATCHES || self.operations >= MAX_OPERATIONS
    }
}

/// The current batch of commands: dispatches and copies, in order, until they are submitted together.
///
/// A write of the queue takes effect before the next submission, whatever was recorded earlier. So each
/// buffer remembers the last batch that uses it: only a write to a buffer of the current batch must
/// submit that batch first.
#[derive(Debug)]
pub(super) struct Recorder {
    /// The open pass; declared before its encoder, because it must end before that.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: Option<wgpu::CommandEncoder>,
    load: Load,
    /// The number of the current batch, from 1.
    batch: u64,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder {
            pass: None,
            encoder: None,
            load: Load::default(),
            batch: 1,
        }
    }
}

impl Recorder {
    /// Returns true if commands of the current batch read or write the buffer.
    pub fn uses(&self, buffer: &WgpuBuffer) -> bool {
        buffer.last_batch.load(Ordering::Relaxed) == self.batch
    }

    fn mark(&self, buffer: &WgpuBuffer) {
        // Relaxed: the recorder is behind a lock, which orders this.
        buffer.last_batch.store(self.batch, Ordering::Relaxed);
    }

    /// Returns true if there are dispatches in the current batch.
    pub fn has_dispatches(&self) -> bool {
        self.load.dispatches > 0
    }

    /// Returns true if the batch should be submitted now.
    pub fn is_full(&self) -> bool {
        self.load.is_full()
    }

    /// Records a dispatch.
    pub fn dispatch(
        &mut self,
        device: &wgpu::Device,
        dispatch: &Dispatch,
    ) -> Result<(), DeviceError> {
        let encoder = self.encoder.get_or_insert_with(|| new_encoder(device));
        let pass = self.pass.get_or_insert_with(|| {
            let pass = encoder.begin_compute_pass(&Default::default());
            pass.forget_lifetime()
        });
        let group = encode(pass, dispatch)?;
        for buffer in &group.buffers {
            self.mark(buffer_of(buffer)?);
        }
        self.load.add(dispatch.operations);
        Ok(())
    }

    /// Records a copy.
    pub fn copy(
        &mut self,
        device: &wgpu::Device,
        (from, range): (&Buffer, Range<u64>),
        (to, at): (&Buffer, u64),
    ) -> Result<(), DeviceError> {
        let (source, target) = (buffer_of(from)?, buffer_of(to)?);
        let bytes = range.end - range.start;
        let encoder = self.encoder(device);
        encoder.copy_buffer_to_buffer(&source.raw, range.start, &target.raw, at, bytes);
        self.mark(source);
        self.mark(target);
        Ok(())
    }

    /// Returns the batch's encoder, outside of any pass.
    pub fn encoder(&mut self, device: &wgpu::Device) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        self.encoder.get_or_insert_with(|| new_encoder(device))
    }

    /// Ends the batch; the caller submits its commands.
    pub fn finish(&mut self) -> Option<wgpu::CommandBuffer> {
        self.pass = None;
        self.load = Load::default();
        self.batch += 1;
        self.encoder.take().map(wgpu::CommandEncoder::finish)
    }

    /// Submits the batch, unless it is empty.
    pub fn submit(&mut self, queue: &wgpu::Queue) {
        if self.encoder.is_some() {
            queue.submit(self.finish());
        }
    }
}

fn new_encoder(device: &wgpu::Device) -> wgpu::CommandEncoder {
    device.create_command_encoder(&Default::default())
}

/// Records a dispatch in a pass; returns its bind group.
pub(super) fn encode<'a>(
    pass: &mut wgpu::ComputePass<'_>,
    dispatch: &'a Dispatch,
) -> Result<&'a WgpuBindGroup, DeviceError> {
    let name = dispatch.kernel().name;
    let pipeline: &wgpu::ComputePipeline = dispatch.pipeline.object.get(name)?;
    let group: &WgpuBindGroup = dispatch.group.object.get(name)?;
    pass.set_pipeline(pipeline);
    pass.set_bind_group(0, &group.raw, &[]);
    let [x, y, z] = dispatch.workgroups();
    pass.dispatch_workgroups(x, y, z);
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of dispatches of each submission.
    fn submissions(dispatches: impl IntoIterator<Item = u64>) -> Vec<usize> {
        let (mut counts, mut load) = (Vec::new(), Load::default());
        for operations in dispatches {
            load.add(operations);
            if load.is_full() {
                counts.push(load.dispatches);
                load = Load::default();
            }
        }
        counts.extend((load.dispatches > 0).then_some(load.dispatches));
        counts
    }

    #[test]
    fn submissions_end_after_many_dispatches_or_operations() {
        // Without estimates.
        assert_eq!(submissions([0; 5000]), [2048, 2048, 904]);
        // A decode step, and a prompt of 512 tokens, with 8 billion weights in 224 products.
        assert_eq!(submissions([16_000_000_000 / 224; 224]), [224]);
        let prompt = submissions([8_192_000_000_000 / 224; 224]);
        assert_eq!((prompt.len(), prompt[0], prompt[74]), (75, 3, 2));
        assert_eq!(submissions([1, u64::MAX, u64::MAX, 1]), [2, 1, 1]);
    }
}
