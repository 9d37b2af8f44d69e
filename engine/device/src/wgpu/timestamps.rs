//! Times of dispatches, from timestamp queries at the start and the end of compute passes.

use std::ops::Range;

use super::{
    device::WgpuDevice,
    recorder::{Load, encode},
};
use crate::{
    error::DeviceError,
    host_clock::timed_together,
    pipeline::Dispatch,
    timing::{Granularity, Spans},
};

/// Bytes of one timestamp.
const TIMESTAMP_BYTES: u64 = wgpu::QUERY_SIZE as u64;

/// Query sets: two queries for each pass, at its start and its end.
struct Queries {
    sets: Vec<wgpu::QuerySet>,
    queries_per_set: u32,
    used: u32,
}

impl Queries {
    fn new(granularity: Granularity) -> Queries {
        Queries {
            sets: Vec::new(),
            queries_per_set: match granularity {
                // As many as `resolve` needs for the alignment of what follows.
                Granularity::Submission => 32,
                Granularity::Dispatch => wgpu::QUERY_SET_MAX_QUERIES,
            },
            used: 0,
        }
    }

    /// Begins a pass with a timestamp before and one after it.
    fn begin_pass<'a>(
        &mut self,
        device: &wgpu::Device,
        encoder: &'a mut wgpu::CommandEncoder,
    ) -> wgpu::ComputePass<'a> {
        let first = self.used % self.queries_per_set;
        if first == 0 {
            self.sets
                .push(device.create_query_set(&wgpu::QuerySetDescriptor {
                    label: Some("timestamps"),
                    ty: wgpu::QueryType::Timestamp,
                    count: self.queries_per_set,
                }));
        }
        self.used += 2;
        let writes = self
            .sets
            .last()
            .map(|query_set| wgpu::ComputePassTimestampWrites {
                query_set,
                beginning_of_pass_write_index: Some(first),
                end_of_pass_write_index: Some(first + 1),
            });
        encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes: writes,
        })
    }

    /// Returns the number of passes so far.
    fn passes(&self) -> usize {
        self.used as usize / 2
    }

    /// Copies the timestamps to a buffer that the program can read.
    fn resolve(&self, device: &wgpu::Device, encoder: &mut wgpu::CommandEncoder) -> wgpu::Buffer {
        let bytes = u64::from(self.used) * TIMESTAMP_BYTES;
        let buffer = |usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("timestamps"),
                size: bytes,
                usage,
                mapped_at_creation: false,
            })
        };
        let resolved = buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC);
        let staging = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        let firsts = (0u32..).step_by(self.queries_per_set as usize);
        for (set, first) in self.sets.iter().zip(firsts) {
            let count = self.queries_per_set.min(self.used - first);
            let at = u64::from(first) * TIMESTAMP_BYTES;
            encoder.resolve_query_set(set, 0..count, &resolved, at);
        }
        encoder.copy_buffer_to_buffer(&resolved, 0, &staging, 0, bytes);
        staging
    }
}

impl WgpuDevice {
    pub(super) fn has_timestamps(&self) -> bool {
        let features = self.device.features();
        features.contains(wgpu::Features::TIMESTAMP_QUERY)
    }

    pub(super) fn submit_with_timestamps(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        let new_encoder = || self.device.create_command_encoder(&Default::default());
        let (mut encoder, mut load) = (new_encoder(), Load::default());
        let mut queries = Queries::new(granularity);
        // All submissions but the last, and the passes of each span: one for each submission that has a part of
        // it.
        let (mut submissions, mut passes) = (Vec::new(), Vec::new());
        for mut timed in timed_together(dispatches, granularity) {
            let first = queries.passes();
            while !timed.is_empty() {
                let mut pass = queries.begin_pass(&self.device, &mut encoder);
                while let Some((dispatch, rest)) = timed.split_first() {
                    encode(&mut pass, dispatch)?;
                    load.add(dispatch.operations);
                    timed = rest;
                    if load.is_full() {
                        break;
                    }
                }
                drop(pass);
                if load.is_full() {
                    let full = std::mem::replace(&mut encoder, new_encoder());
                    submissions.push(full.finish());
                    load = Load::default();
                }
            }
            passes.push(first..queries.passes());
        }
        let mut recorder = self.recorder();
        recorder.submit(&self.queue);
        if queries.used == 0 {
            return Ok(Box::pin(std::future::ready(Ok(Vec::new()))));
        }
        for commands in submissions {
            self.queue.submit([commands]);
        }
        let staging = queries.resolve(&self.device, &mut encoder);
        let index = self.queue.submit([encoder.finish()]);
        drop(recorder);
        let fetched = self.fetch(staging, index);
        self.errors.check("a timed submission", 0)?;
        let period = f64::from(self.queue.get_timestamp_period());
        Ok(Box::pin(async move {
            let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&fetched.await?);
            let spans = spans(&ticks, period);
            Ok(passes
                .into_iter()
                .filter_map(|passes| joined(spans.get(passes)?))
                .collect())
        }))
    }
}

/// Returns the span from the start of the first to the end of the last.
fn joined(spans: &[Range<u64>]) -> Option<Range<u64>> {
    let (first, last) = (spans.first()?, spans.last()?);
    Some(first.start..last.end.max(first.start))
}

/// Converts pairs of ticks of `period` nanoseconds to spans. A span that ends before it starts is empty.
fn spans(ticks: &[u64], period: f64) -> Vec<Range<u64>> {
    let nanoseconds = |ticks: u64| (ticks as f64 * period) as u64;
    let span = |[start, end]: &[u64; 2]| {
        let length = nanoseconds(end.saturating_sub(*start));
        let start = nanoseconds(*start);
        start..start.saturating_add(length)
    };
    ticks.as_chunks::<2>().0.iter().map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::{joined, spans};

    #[test]
    fn ticks_are_converted_to_nanoseconds() {
        let ticks = [10, 20, 20, 15, u64::MAX - 1, u64::MAX];
        assert_eq!(spans(&ticks[..4], 2.5), [25..50, 50..50]);
        assert!(
            spans(&ticks[4..], 10.0)
                .iter()
                .all(|span| span.start <= span.end)
        );
    }

    #[test]
    fn passes_of_several_submissions_make_one_span() {
        assert_eq!(joined(&[10..20, 30..40, 40..70]), Some(10..70));
        assert_eq!(joined(std::slice::from_ref(&(10..20))), Some(10..20));
        assert_eq!(joined(&[]), None);
    }
}
