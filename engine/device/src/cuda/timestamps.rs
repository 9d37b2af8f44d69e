//! Times of dispatches, from events before and after them.

use std::{ops::Range, slice, sync::Arc};

use cudarc::driver::{CudaEvent, sys::CUevent_flags};

use super::{device::CudaDevice, graph::Graph, launch::launch_all};
use crate::{
    error::DeviceError,
    host_clock::timed_together,
    pipeline::Dispatch,
    timing::{Granularity, Spans},
};

const WHAT: &str = "a timed submission";

impl CudaDevice {
    pub(super) fn submit_with_events(
        &self,
        dispatches: &[Dispatch],
        granularity: Granularity,
    ) -> Result<Spans, DeviceError> {
        let event = || {
            let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
            self.errors.check(WHAT, self.stream.record_event(timed))
        };
        let mut events: Vec<[CudaEvent; 2]> = Vec::new();
        let mut graphs = Vec::new();
        self.begin(WHAT)?;
        for timed in timed_together(dispatches, granularity) {
            let graph = self.graph_of_several(timed);
            let start = event()?;
            match &graph {
                Some(graph) => self.graphs().launch(slice::from_ref(graph))?,
                None => launch_all(&self.errors, &self.stream, timed)?,
            }
            events.push([start, event()?]);
            graphs.extend(graph);
        }
        let done = self.waiter.after(self.launched_so_far()?, (events, graphs));
        let errors = self.errors.clone();
        Ok(Box::pin(async move {
            let (events, _) = errors.check(WHAT, super::backend::answer(done.await))?;
            errors.check(WHAT, spans(&events))
        }))
    }

    /// Returns several dispatches as a graph on the device: launched one by one, short kernels would take as long as the
    /// program takes to launch them. `None` if they are to be launched so all the same.
    fn graph_of_several(&self, dispatches: &[Dispatch]) -> Option<Arc<Graph>> {
        if dispatches.len() < 2 || self.launches_block {
            return None;
        }
        let graphs = self.graphs();
        let graph = graphs.captured(dispatches).ok()?;
        graphs.upload(&graph).ok()?;
        Some(Arc::new(graph))
    }
}

/// The spans of pairs of events that were reached, in nanoseconds since the first of them.
fn spans(events: &[[CudaEvent; 2]]) -> Result<Vec<Range<u64>>, cudarc::driver::DriverError> {
    let Some([first, _]) = events.first() else {
        return Ok(Vec::new());
    };
    let since = |event| Ok((f64::from(first.elapsed_ms(event)?) * 1e6).max(0.0) as u64);
    let mut spans = Vec::with_capacity(events.len());
    for [start, end] in events {
        // From the start itself: a long profile is more than the precision of the milliseconds since the first.
        let length = (f64::from(start.elapsed_ms(end)?) * 1e6).max(0.0) as u64;
        let start = since(start)?;
        spans.push(start..start.saturating_add(length));
    }
    Ok(spans)
}
