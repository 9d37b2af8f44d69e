//! Timing of the runs of a session's models.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use crate::{
    error::SessionError,
    profile::{Span, TimingReport, Work},
};
use wisp_device::{Clock, Device, Dispatch, Granularity, Spans};

/// The environment variable with the initial mode of profilers.
const VARIABLE: &str = "WISP_ENABLE_PROFILING";

/// The number of most recent runs or kernels that are kept.
const MAX_RECORDED: usize = 1 << 17;

/// What is timed on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuProfiling {
    /// Nothing.
    #[default]
    Off,
    /// Each run of a model, in one compute pass.
    On,
    /// Each kernel, in a compute pass of its own, which makes runs a little slower.
    Detailed,
}

impl GpuProfiling {
    /// Parses a mode: `detailed`; `off`, `false`, `no`, `0` or an empty text for off; any other text is on.
    ///
    /// ```
    /// use wisp_session::GpuProfiling;
    ///
    /// assert_eq!(GpuProfiling::named("Detailed"), GpuProfiling::Detailed);
    /// assert_eq!(GpuProfiling::named("no"), GpuProfiling::Off);
    /// assert_eq!(GpuProfiling::named("1"), GpuProfiling::On);
    /// ```
    pub fn named(text: &str) -> GpuProfiling {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "off" | "false" | "no" | "0" => GpuProfiling::Off,
            "detailed" => GpuProfiling::Detailed,
            _ => GpuProfiling::On,
        }
    }

    /// The mode in `WISP_ENABLE_PROFILING`.
    fn from_environment() -> GpuProfiling {
        GpuProfiling::named(&std::env::var(VARIABLE).unwrap_or_default())
    }
}

/// A submission whose times may still be pending.
struct Submission {
    clock: Clock,
    works: Vec<Work>,
    spans: Spans,
}

#[derive(Default)]
struct Recorded {
    device: String,
    submissions: VecDeque<Submission>,
    works: usize,
    left_out: usize,
}

/// Times the runs of a session's models, according to its [mode](GpuProfiling).
///
/// ```
/// use wisp_device::Device;
/// use wisp_graph::{DType, Graph, Binary};
/// use wisp_session::{GpuProfiling, InferenceSession, InitOptions};
/// use wisp_types::shape;
/// use wisp_weights::MemoryWeights;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut graph = Graph::new("double");
/// let x = graph.input("x", DType::F32, shape![64u64]);
/// let twice = graph.add(Binary::Add, &[x, x])?;
/// graph.output("twice", twice);
/// let session = InferenceSession::new(Device::host(1)?);
/// let model = session.load_blocking(&graph, &MemoryWeights::default(), InitOptions::default())?;
///
/// session.gpu_profiling(GpuProfiling::Detailed);
/// model.run(&model.dims(&[])?)?;
/// let profile = session.profiler().take_blocking()?;
/// assert_eq!(profile.spans.len(), model.dispatches_per_run());
/// println!("{}", profile.table(None)); // the slowest first
/// let for_perfetto = profile.trace(); // for Perfetto or chrome://tracing
/// # assert!(serde_json::from_str::<serde_json::Value>(&for_perfetto).is_ok());
/// # Ok(())
/// # }
/// ```
pub struct Profiler {
    mode: AtomicU8,
    recorded: Mutex<Recorded>,
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler")
            .field("mode", &self.mode())
            .finish_non_exhaustive()
    }
}

impl Default for Profiler {
    /// A profiler with the mode in `WISP_ENABLE_PROFILING`.
    fn default() -> Profiler {
        Profiler {
            mode: AtomicU8::new(GpuProfiling::from_environment() as u8),
            recorded: Mutex::default(),
        }
    }
}

impl Profiler {
    /// The current mode.
    pub fn mode(&self) -> GpuProfiling {
        match self.mode.load(Ordering::Relaxed) {
            0 => GpuProfiling::Off,
            1 => GpuProfiling::On,
            _ => GpuProfiling::Detailed,
        }
    }

    /// Sets the mode from now on, overriding `WISP_ENABLE_PROFILING`.
    pub fn set(&self, mode: GpuProfiling) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Submits one run of a model by itself and records how long it takes; `works` has an entry for
    /// each dispatch.
    pub(crate) fn submit(
        &self,
        device: &Device,
        model: &str,
        dispatches: &[Dispatch],
        works: Vec<Work>,
    ) -> Result<(), SessionError> {
        let (granularity, works) = match self.mode() {
            GpuProfiling::Detailed => (Granularity::Dispatch, works),
            _ => {
                let whole = Work::whole(model.into(), &works);
                (Granularity::Submission, vec![whole])
            }
        };
        let spans = device.submit_timed(dispatches, granularity)?;
        let mut recorded = self.lock();
        recorded.device = device.info().name.clone();
        recorded.works += works.len();
        recorded.submissions.push_back(Submission {
            clock: device.clock(),
            works,
            spans,
        });
        while recorded.works > MAX_RECORDED {
            let Some(oldest) = recorded.submissions.pop_front() else {
                break;
            };
            recorded.works -= oldest.works.len();
            recorded.left_out += oldest.works.len();
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the device and returns the times since the last call of this method, of the most recent
    /// 131,072 runs or kernels.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub async fn take(&self) -> Result<TimingReport, SessionError> {
        let recorded = mem::take(&mut *self.lock());
        let mut profile = TimingReport {
            device: recorded.device,
            clock: recorded
                .submissions
                .front()
                .map_or(Clock::None, |first| first.clock),
            left_out: recorded.left_out,
            spans: Vec::with_capacity(recorded.works),
        };
        for submission in recorded.submissions {
            let spans = submission.spans.await?;
            let timed = submission.works.into_iter().zip(spans);
            profile
                .spans
                .extend(timed.map(|(work, nanoseconds)| Span { work, nanoseconds }));
        }
        Ok(profile)
    }

    /// [`Self::take`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn take_blocking(&self) -> Result<TimingReport, SessionError> {
        pollster::block_on(self.take())
    }
}
