//! The report of `wisp bench` about whole models.

use anyhow::Result;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use serde::Serialize;
use wisp_engine::{
    device::measure::Ceilings,
    files::DiskCache,
    pipelines::{KvCacheFormat, ModelFiles, ModelLimits, benchmark::Rate, prepare},
    session::{InferenceSession, Precision, StartTimes},
};

use crate::{
    output::{counted, print_line},
    settings::Resolved,
};

/// What `--json` prints, and the table shows.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) model: String,
    pub(super) device: String,
    /// The class of kernels; `None` on the host.
    pub(super) device_class: Option<&'static str>,
    /// The precision of products that the device has kernels for.
    pub(super) precision: Precision,
    pub(super) kv_cache_format: KvCacheFormat,
    /// The shapes of calls for which `wisp tune` chose other kernels than the default.
    pub(super) tuned_shapes: usize,
    pub(super) runs: u32,
    pub(super) load_seconds: f64,
    /// The times of two starts that share a cache.
    pub(super) starts: Starts,
    pub(super) first_token_seconds: f64,
    pub(super) prefill: Rate,
    pub(super) decode: Rate,
    pub(super) ceilings: Ceilings,
    /// Bytes of weights and KV cache that decode reads per second, relative to the read ceiling.
    pub(super) decode_fraction_of_read_ceiling: f64,
    /// Operations of prefill per second, relative to the FMA ceiling.
    pub(super) prefill_fraction_of_fma_ceiling: f64,
    /// Bytes of weights that kernels read for a token.
    pub(super) weight_bytes_per_token: u64,
    /// Bytes of the KV cache that kernels read for the token at `traffic_position`.
    pub(super) cache_bytes_per_token: u64,
    /// How many times as many bytes of both kernels read for that token as have to be read.
    pub(super) bytes_read_of_least: f64,
    pub(super) traffic_position: u32,
    pub(super) dispatches_per_token: usize,
    /// The fraction of prompt tokens found in the prefix cache, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prefix_cache_hit_rate: Option<f64>,
    pub(super) device_peak_bytes: u64,
    pub(super) host_peak_bytes: Option<u64>,
}

/// The times of compiling programs and creating pipelines, without loading weights.
#[derive(Serialize)]
pub(super) struct Starts {
    first: StartTimes,
    second: StartTimes,
}

impl Starts {
    /// Measures a start with an empty cache and one with the cache that the first start filled, each on a
    /// new device. The driver may have a cache too, which can make the first start faster.
    pub(super) fn measure(
        settings: &Resolved,
        files: &ModelFiles,
        limits: ModelLimits,
    ) -> Result<Starts> {
        let folder = tempfile::tempdir()?;
        let start = || -> Result<StartTimes> {
            let session = InferenceSession::new(settings.device()?);
            session.set_precision(settings.config.precision);
            let session = session.with_cache(DiskCache::new(folder.path()));
            let target = &session.device().info().capabilities;
            for graph in prepare::graphs(files, target, limits)? {
                session.prepare(&session.compile(&graph)?)?;
            }
            Ok(session.start_times())
        };
        Ok(Starts {
            first: start()?,
            second: start()?,
        })
    }
}

impl Report {
    /// Prints the report as a table and lines of text.
    pub(super) fn print(&self) -> Result<()> {
        let runs = counted(self.runs.into(), "run");
        print_line!("{} on {}, {runs}", self.model, self.device)?;
        print_line!("{}", self.rates())?;
        self.print_details()
    }

    /// Returns the table of prefill and decode rates.
    fn rates(&self) -> Table {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "",
            "tokens",
            "tokens/s",
            "least",
            "most",
            "of the ceiling",
        ]);
        let rows = [
            (
                "prefill",
                &self.prefill,
                self.prefill_fraction_of_fma_ceiling,
                "FMA",
            ),
            (
                "decode",
                &self.decode,
                self.decode_fraction_of_read_ceiling,
                "read",
            ),
        ];
        for (name, rate, fraction, ceiling) in rows {
            table.add_row([
                name.to_string(),
                rate.tokens.to_string(),
                format!("{:.2}", rate.median),
                format!("{:.2}", rate.least),
                format!("{:.2}", rate.most),
                format!("{:.0}% ({ceiling})", fraction * 100.0),
            ]);
        }
        table
    }

    fn print_details(&self) -> Result<()> {
        let mebibytes = |bytes: u64| bytes as f64 / 1048576.0;
        print_line!(
            "ceilings       {:.2} GB/s read, {:.1} GFLOP/s f32",
            self.ceilings.read_bytes_per_second / 1e9,
            self.ceilings.f32_operations_per_second / 1e9
        )?;
        print_line!(
            "first token    {:.3} s after the prompt; loading took {:.2} s",
            self.first_token_seconds,
            self.load_seconds
        )?;
        let start = |times: &StartTimes| {
            let milliseconds = (times.compile_seconds + times.pipeline_seconds) * 1e3;
            let (made, found) = (times.programs_compiled, times.programs_cached);
            format!("{milliseconds:.1} ms ({made} programs compiled, {found} from the cache)")
        };
        print_line!(
            "start          {} with an empty cache, then {}; {} pipelines",
            start(&self.starts.first),
            start(&self.starts.second),
            self.starts.second.pipelines
        )?;
        print_line!(
            "a token        {} dispatches; at position {} it reads {:.1} MiB of weights and {:.1} MiB of the KV cache, in {} \
             ({:.2} of the least)",
            self.dispatches_per_token,
            self.traffic_position,
            mebibytes(self.weight_bytes_per_token),
            mebibytes(self.cache_bytes_per_token),
            self.kv_cache_format,
            self.bytes_read_of_least
        )?;
        let host = self.host_peak_bytes.map_or("unknown".into(), |bytes| {
            format!("{:.0} MiB", mebibytes(bytes))
        });
        print_line!(
            "memory peaks   {:.0} MiB on the device, {host} in this process",
            mebibytes(self.device_peak_bytes)
        )
    }
}
