//! Dispatches as CUDA graphs, which the driver launches in one call.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, MutexGuard, PoisonError, Weak},
};

use cudarc::driver::{
    CudaGraph, CudaStream,
    sys::{CUgraphInstantiate_flags, CUstreamCaptureMode},
};

use super::device::CudaDevice;
use crate::{error::DeviceError, object::BackendObject, pipeline::Dispatch};

/// Recorded dispatches after which they are launched without being asked for, so that the device does not idle
/// while much is recorded.
const MAX_DISPATCHES: usize = 2048;
/// How many series are remembered.
const MAX_SERIES: usize = 8;

/// A graph, with the dispatches whose kernels and memory it uses.
#[derive(Debug)]
pub(super) struct Graph {
    graph: SendGraph,
    dispatches: Vec<Dispatch>,
}

/// A graph that threads hand to each other.
struct SendGraph(CudaGraph);

// SAFETY: the driver allows graphs to be used by any thread, by one at a time: they are launched under a lock.
unsafe impl Send for SendGraph {}
// SAFETY: as above.
unsafe impl Sync for SendGraph {}

impl fmt::Debug for SendGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CudaGraph")
    }
}

/// The graphs that were recorded and not launched yet, and one graph for each series of them that came again, such as
/// those of a few decode steps and their sampling.
#[derive(Debug)]
pub(super) struct Graphs {
    /// Takes launches that are to become a graph.
    capture: Arc<CudaStream>,
    recorded: Vec<Arc<Graph>>,
    /// The most recent last.
    series: VecDeque<Series>,
}

/// Graphs that were launched one after the other.
#[derive(Debug)]
struct Series {
    /// Weak, so that a series does not keep the memory that they use.
    parts: Vec<Weak<Graph>>,
    /// One graph of all parts, captured when they are launched for the second time.
    whole: Option<SendGraph>,
}

impl Series {
    fn matches(&self, parts: &[Arc<Graph>]) -> bool {
        let same = |(weak, part): (&Weak<Graph>, &Arc<Graph>)| weak.as_ptr() == Arc::as_ptr(part);
        self.parts.len() == parts.len() && self.parts.iter().zip(parts).all(same)
    }

    fn is_alive(&self) -> bool {
        self.parts.iter().all(|part| part.strong_count() > 0)
    }
}

impl Graphs {
    /// Creates the state of a device; launches are captured on a stream of their own.
    pub fn new(capture: Arc<CudaStream>) -> Graphs {
        Graphs {
            capture,
            recorded: Vec::new(),
            series: VecDeque::new(),
        }
    }

    fn is_full(&self) -> bool {
        let recorded = self.recorded.iter().map(|graph| graph.dispatches.len());
        recorded.sum::<usize>() >= MAX_DISPATCHES
    }
}

const WHAT: &str = "a graph of kernels";

impl CudaDevice {
    fn graphs(&self) -> MutexGuard<'_, Graphs> {
        // Poisoning is harmless: a capture that was not ended makes the next one fail, which is an error.
        self.graphs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Captures dispatches as a graph.
    pub fn captured(&self, dispatches: &[Dispatch]) -> Result<BackendObject, DeviceError> {
        Ok(BackendObject::new(Arc::new(Graph {
            graph: self.capture(&self.graphs(), dispatches)?,
            dispatches: dispatches.to_vec(),
        })))
    }

    fn capture<'a>(
        &self,
        graphs: &Graphs,
        dispatches: impl IntoIterator<Item = &'a Dispatch>,
    ) -> Result<SendGraph, DeviceError> {
        let stream = &graphs.capture;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.errors.check(WHAT, stream.begin_capture(mode))?;
        let launched = self.launch_all(stream, dispatches);
        // A capture is ended even if a launch failed.
        let graph = stream.end_capture(CUgraphInstantiate_flags(0));
        launched?;
        let graph = self.errors.check(WHAT, graph)?;
        let graph = graph.ok_or_else(|| DeviceError::Validation {
            what: WHAT.into(),
            device: self.info.name.clone(),
            message: "the driver captured nothing".into(),
        })?;
        Ok(SendGraph(graph))
    }

    /// Records a graph. [`Self::launch_recorded`] launches it.
    pub fn record_graph(&self, prepared: &BackendObject) -> Result<(), DeviceError> {
        let graph: &Arc<Graph> = prepared.get(WHAT)?;
        let is_full = {
            let mut graphs = self.graphs();
            graphs.recorded.push(graph.clone());
            graphs.is_full()
        };
        match is_full {
            true => self.begin(WHAT),
            false => Ok(()),
        }
    }

    /// Launches what was recorded: several graphs at once if they were launched in this order before.
    pub fn launch_recorded(&self) -> Result<(), DeviceError> {
        // Dropped after the lock is released: its memory may be freed, which waits for the device.
        let recorded: Vec<Arc<Graph>>;
        let mut graphs = self.graphs();
        recorded = std::mem::take(&mut graphs.recorded);
        graphs.series.retain(Series::is_alive);
        if recorded.len() > 1
            && let Some(whole) = self.whole_of(&mut graphs, &recorded)
        {
            return self.launch_graph(whole);
        }
        recorded
            .iter()
            .try_for_each(|graph| self.launch_graph(&graph.graph))
    }

    /// Returns one graph of several, from the second time on that they are launched in this order. If it cannot be
    /// captured, for example because memory is short, there is none, and the parts do as well.
    fn whole_of<'a>(&self, graphs: &'a mut Graphs, parts: &[Arc<Graph>]) -> Option<&'a SendGraph> {
        let known = graphs
            .series
            .iter()
            .position(|series| series.matches(parts));
        let series = match known.and_then(|at| graphs.series.remove(at)) {
            None => Series {
                parts: parts.iter().map(Arc::downgrade).collect(),
                whole: None,
            },
            Some(Series { parts: weak, whole }) => {
                let dispatches = parts.iter().flat_map(|graph| &graph.dispatches);
                let whole = whole.or_else(|| self.capture(graphs, dispatches).ok());
                Series { parts: weak, whole }
            }
        };
        if graphs.series.len() == MAX_SERIES {
            graphs.series.pop_front();
        }
        graphs.series.push_back(series);
        graphs.series.back()?.whole.as_ref()
    }

    /// Launches a graph whose kernels and memory somebody keeps until it returns.
    fn launch_graph(&self, graph: &SendGraph) -> Result<(), DeviceError> {
        // SAFETY: the graph is alive, and the caller keeps what it uses.
        self.errors.check(WHAT, unsafe {
            cudarc::driver::result::graph::launch(graph.0.cu_graph_exec(), self.stream.cu_stream())
        })
    }
}
