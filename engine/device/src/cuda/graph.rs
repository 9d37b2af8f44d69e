//! Dispatches as a CUDA graph, which the driver launches in one call.

use std::sync::PoisonError;

use cudarc::driver::{
    CudaGraph,
    sys::{CUgraphInstantiate_flags, CUstreamCaptureMode},
};

use super::device::CudaDevice;
use crate::{error::DeviceError, object::BackendObject, pipeline::Dispatch};

/// A graph, with the dispatches whose kernels and memory it uses.
#[derive(Debug)]
pub(super) struct Graph {
    pub graph: SendGraph,
    pub _dispatches: Vec<Dispatch>,
}

/// A graph that threads hand to each other.
pub(super) struct SendGraph(pub CudaGraph);

// SAFETY: the driver allows graphs to be used by any thread, by one at a time: `replay` launches under a lock.
unsafe impl Send for SendGraph {}
// SAFETY: as above.
unsafe impl Sync for SendGraph {}

impl std::fmt::Debug for SendGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CudaGraph")
    }
}

const WHAT: &str = "a graph of kernels";

impl CudaDevice {
    /// Captures dispatches as a graph.
    pub fn captured(&self, dispatches: &[Dispatch]) -> Result<BackendObject, DeviceError> {
        // Poisoning is harmless: a capture that was not ended makes the next one fail, which is an error.
        let stream = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.errors.check(WHAT, stream.begin_capture(mode))?;
        let launched = self.launch_all(&stream, dispatches);
        // A capture is ended even if a launch failed.
        let graph = stream.end_capture(CUgraphInstantiate_flags(0));
        launched?;
        let graph = self.errors.check(WHAT, graph)?;
        let graph = graph.ok_or_else(|| DeviceError::Validation {
            what: WHAT.into(),
            device: self.info.name.clone(),
            message: "the driver captured nothing".into(),
        })?;
        Ok(BackendObject::new(Graph {
            graph: SendGraph(graph),
            _dispatches: dispatches.to_vec(),
        }))
    }

    /// Launches a graph after everything recorded before.
    pub fn launch_graph(&self, prepared: &BackendObject) -> Result<(), DeviceError> {
        let Graph { graph, .. } = prepared.get(WHAT)?;
        let _one_at_a_time = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        self.bind_to_thread(WHAT)?;
        // SAFETY: the graph is alive, and its dispatches keep what it uses.
        self.errors.check(WHAT, unsafe {
            cudarc::driver::result::graph::launch(graph.0.cu_graph_exec(), self.stream.cu_stream())
        })
    }
}
