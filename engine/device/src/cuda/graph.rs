//! Dispatches as CUDA graphs, which the driver launches in one call.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Weak},
};

use cudarc::driver::{
    CudaGraph, CudaStream, result,
    sys::{CUgraphExec, CUgraphInstantiate_flags, CUstreamCaptureMode},
};

use super::{errors::Errors, launch::launch_all, objects::make_current};
use crate::{error::DeviceError, pipeline::Dispatch};

/// What errors call a graph.
pub(super) const WHAT: &str = "a graph of kernels";

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
struct SendGraph {
    graph: CudaGraph,
    /// The stream that it was captured on.
    stream: Arc<CudaStream>,
}

// SAFETY: the driver allows graphs to be used by any thread, by one at a time: they are launched under a lock.
unsafe impl Send for SendGraph {}
// SAFETY: as above.
unsafe impl Sync for SendGraph {}

impl SendGraph {
    fn executable(&self) -> CUgraphExec {
        self.graph.cu_graph_exec()
    }
}

impl Drop for SendGraph {
    /// The graph is destroyed next, maybe by a thread that has not used the device yet.
    fn drop(&mut self) {
        make_current(self.stream.context());
    }
}

impl fmt::Debug for SendGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CudaGraph")
    }
}

/// The graphs that were recorded and not launched yet, and one graph for each series of them that came again, such as
/// those of a few decode steps and their sampling.
#[derive(Debug)]
pub(super) struct Graphs {
    errors: Errors,
    stream: Arc<CudaStream>,
    /// Takes launches that are to become a graph.
    capture: Arc<CudaStream>,
    recorded: Vec<Arc<Graph>>,
    /// The error of a launch whose caller returns none. The next launch returns it.
    failed: Option<DeviceError>,
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
    /// Creates the state of a device, whose work goes to `stream`; launches are captured on a stream of their own.
    pub fn new(errors: &Errors, stream: &Arc<CudaStream>, capture: Arc<CudaStream>) -> Graphs {
        Graphs {
            errors: errors.clone(),
            stream: stream.clone(),
            capture,
            recorded: Vec::new(),
            failed: None,
            series: VecDeque::new(),
        }
    }

    /// Captures dispatches as a graph.
    pub fn captured(&self, dispatches: &[Dispatch]) -> Result<Graph, DeviceError> {
        Ok(Graph {
            graph: self.capture(dispatches)?,
            dispatches: dispatches.to_vec(),
        })
    }

    /// Copies what a launch of a graph needs to the device, which the first one would do otherwise.
    pub fn upload(&self, graph: &Graph) -> Result<(), DeviceError> {
        // SAFETY: the graph is alive.
        self.errors.check(WHAT, unsafe {
            result::graph::upload(graph.graph.executable(), self.stream.cu_stream())
        })
    }

    /// Records a graph. Returns true if what was recorded should be launched now.
    pub fn record(&mut self, graph: &Arc<Graph>) -> bool {
        self.recorded.push(graph.clone());
        let recorded = self.recorded.iter().map(|graph| graph.dispatches.len());
        recorded.sum::<usize>() >= MAX_DISPATCHES
    }

    /// Returns what was recorded, for [`Self::launch`].
    pub fn take(&mut self) -> Vec<Arc<Graph>> {
        std::mem::take(&mut self.recorded)
    }

    /// Keeps an error of a launch for the next one.
    pub fn fail(&mut self, error: DeviceError) {
        self.failed = Some(error);
    }

    /// Launches graphs in their order: as one if they were launched in this order before. The device must be current.
    pub fn launch(&mut self, recorded: &[Arc<Graph>]) -> Result<(), DeviceError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.series.retain(Series::is_alive);
        if recorded.len() > 1 {
            self.note_series(recorded);
            if let Some(Series {
                whole: Some(whole), ..
            }) = self.series.back()
                && self.launch_graph(whole)?
            {
                return Ok(());
            }
        }
        recorded.iter().try_for_each(|part| {
            if self.launch_graph(&part.graph)? {
                return Ok(());
            }
            launch_all(&self.errors, &self.stream, &part.dispatches)
        })
    }

    /// Makes the series of some graphs the most recent one, with one graph of all from the second time on that they are
    /// launched in this order. If it cannot be captured, for example because memory is short, the parts do as well.
    fn note_series(&mut self, parts: &[Arc<Graph>]) {
        let known = self.series.iter().position(|series| series.matches(parts));
        let series = match known.and_then(|at| self.series.remove(at)) {
            None => Series {
                parts: parts.iter().map(Arc::downgrade).collect(),
                whole: None,
            },
            Some(Series { parts: weak, whole }) => {
                let dispatches = parts.iter().flat_map(|graph| &graph.dispatches);
                let whole = whole.or_else(|| self.capture(dispatches).ok());
                Series { parts: weak, whole }
            }
        };
        if self.series.len() == MAX_SERIES {
            self.series.pop_front();
        }
        self.series.push_back(series);
    }

    fn capture<'a>(
        &self,
        dispatches: impl IntoIterator<Item = &'a Dispatch>,
    ) -> Result<SendGraph, DeviceError> {
        let (stream, errors) = (&self.capture, &self.errors);
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        errors.check(WHAT, stream.begin_capture(mode))?;
        let launched = launch_all(errors, stream, dispatches);
        // A capture is ended even if a launch failed.
        let graph = stream.end_capture(CUgraphInstantiate_flags(0));
        launched?;
        let graph = errors.check(WHAT, graph)?;
        let graph = graph.ok_or_else(|| DeviceError::Validation {
            what: WHAT.into(),
            device: errors.device.clone(),
            message: "the driver captured nothing".into(),
        })?;
        Ok(SendGraph {
            graph,
            stream: stream.clone(),
        })
    }

    /// Launches a graph whose kernels and memory somebody keeps until it returns. Returns false if there is no memory for
    /// that: graphs take some when they are first launched.
    fn launch_graph(&self, graph: &SendGraph) -> Result<bool, DeviceError> {
        let stream = self.stream.cu_stream();
        // SAFETY: the graph is alive, and the caller keeps what it uses.
        let launched = unsafe { result::graph::launch(graph.executable(), stream) };
        match self.errors.check(WHAT, launched) {
            Err(DeviceError::OutOfMemory { .. }) => Ok(false),
            launched => launched.map(|()| true),
        }
    }
}
