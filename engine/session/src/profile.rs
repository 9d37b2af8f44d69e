//! Measurements of a profiler as spans, a table or a trace.

use std::{collections::HashMap, fmt::Write, ops::Range};

use serde::Serialize;
use serde_json::json;

use wisp_compiler::{Call, Program};
use wisp_device::{Clock, measure::Ceilings};

/// The work of one span: a kernel, or all kernels of one run of a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Work {
    /// The op and its first weight or result, or the model's name.
    pub name: String,
    /// The kernel; `None` for a whole run.
    pub kernel: Option<&'static str>,
    /// The sizes of the symbolic dimensions.
    pub sizes: String,
    /// The number of dispatches.
    pub dispatches: usize,
    /// Bytes of weights that matrix products read; 0 for other ops.
    pub bytes: u64,
    /// Floating-point operations of matrix products, two for each multiply-add; 0 for other ops.
    pub operations: u64,
}

impl Work {
    /// A call of a program; its grid has `rows` rows.
    pub(crate) fn of(
        program: &Program,
        call: &Call,
        kernel: &'static str,
        sizes: &str,
        rows: u64,
    ) -> Work {
        let product = call.is_product();
        let of_products = |count: u64| if product { count } else { 0 };
        let weights = program.matrix_weights(call);
        Work {
            name: call.label.clone(),
            kernel: Some(kernel),
            sizes: sizes.into(),
            dispatches: 1,
            bytes: of_products(program.matrix_bytes(call)),
            operations: of_products(weights.saturating_mul(rows).saturating_mul(2)),
        }
    }

    /// All kernels of one run together.
    pub(crate) fn whole(name: String, kernels: &[Work]) -> Work {
        let sum = |count: fn(&Work) -> u64| kernels.iter().map(count).fold(0, u64::saturating_add);
        Work {
            name,
            kernel: None,
            sizes: kernels
                .first()
                .map_or(String::new(), |work| work.sizes.clone()),
            dispatches: kernels.len(),
            bytes: sum(|work| work.bytes),
            operations: sum(|work| work.operations),
        }
    }
}

/// Work and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The measured kernel call, or all calls of a run together.
    #[serde(flatten)]
    pub work: Work,
    /// Start and end in nanoseconds of the clock.
    pub nanoseconds: Range<u64>,
}

impl Span {
    /// Returns the length of the span in seconds.
    pub fn seconds(&self) -> f64 {
        self.nanoseconds.end.saturating_sub(self.nanoseconds.start) as f64 * 1e-9
    }
}

/// What a [`Profiler`](super::Profiler) has measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimingReport {
    /// The name of the device that ran the spans.
    pub device: String,
    /// What it was measured with.
    pub clock: Clock,
    /// Spans that are not here, because there were too many.
    pub left_out: usize,
    /// What ran, in order.
    pub spans: Vec<Span>,
}

/// Spans of a kind together: the same op in all layers, in runs of the same sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProfileRow {
    /// The op and its first weight or result, with N for numbers, or the model's name.
    pub name: String,
    /// The kernel; `None` for a whole run.
    pub kernel: Option<&'static str>,
    /// The sizes of the symbolic dimensions.
    pub sizes: String,
    /// Spans.
    pub spans: usize,
    /// Kernels that ran in them.
    pub dispatches: usize,
    /// How long they took together.
    pub seconds: f64,
    /// Of the time of all spans.
    pub share: f64,
    /// Bytes of weights read a second, if any are counted.
    pub bytes_per_second: Option<f64>,
    /// Operations a second, if any are counted.
    pub operations_per_second: Option<f64>,
}

impl TimingReport {
    /// Seconds of all spans.
    pub fn seconds(&self) -> f64 {
        self.spans.iter().map(Span::seconds).sum()
    }

    /// Spans of a kind together, those that took longest first.
    pub fn rows(&self) -> Vec<ProfileRow> {
        let total = self.seconds();
        let mut places = HashMap::new();
        let mut rows: Vec<(ProfileRow, f64, f64)> = Vec::new();
        for span in &self.spans {
            let work = &span.work;
            let name = match work.kernel {
                Some(_) => numberless(&work.name),
                None => work.name.clone(),
            };
            let place = *places
                .entry((name.clone(), work.kernel, work.sizes.clone()))
                .or_insert(rows.len());
            if place == rows.len() {
                let row = ProfileRow {
                    name,
                    kernel: work.kernel,
                    sizes: work.sizes.clone(),
                    spans: 0,
                    dispatches: 0,
                    seconds: 0.0,
                    share: 0.0,
                    bytes_per_second: None,
                    operations_per_second: None,
                };
                rows.push((row, 0.0, 0.0));
            }
            let (row, bytes, operations) = &mut rows[place];
            row.spans += 1;
            row.dispatches += work.dispatches;
            row.seconds += span.seconds();
            *bytes += work.bytes as f64;
            *operations += work.operations as f64;
        }
        let finished = rows.into_iter().map(|(mut row, bytes, operations)| {
            let rate = |count: f64| (count > 0.0 && row.seconds > 0.0).then(|| count / row.seconds);
            (row.bytes_per_second, row.operations_per_second) = (rate(bytes), rate(operations));
            row.share = if total > 0.0 {
                row.seconds / total
            } else {
                0.0
            };
            row
        });
        let mut rows: Vec<ProfileRow> = finished.collect();
        rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        rows
    }

    /// The rows as a table to print, next to what the device can do at most, if that is known.
    pub fn table(&self, ceilings: Option<&Ceilings>) -> String {
        let number = |value: Option<f64>| value.map_or(String::new(), |x| format!("{x:.2}"));
        let percent = |value: Option<f64>, most: Option<f64>| match (value, most) {
            (Some(value), Some(most)) if most > 0.0 => format!("{:.0}%", value / most * 100.0),
            _ => String::new(),
        };
        let read = ceilings.map(|ceilings| ceilings.read_bytes_per_second);
        let fma = ceilings.map(|ceilings| ceilings.f32_operations_per_second);
        let mut lines = vec![
            [
                "ms", "share", "spans", "µs each", "GB/s", "of read", "GFLOP/s", "of FMA", "what",
            ]
            .map(String::from),
        ];
        lines.extend(self.rows().into_iter().map(|row| {
            let (bytes, operations) = (row.bytes_per_second, row.operations_per_second);
            let kernel = row
                .kernel
                .map_or(String::new(), |name| format!(" ({name})"));
            [
                format!("{:.3}", row.seconds * 1e3),
                format!("{:.1}%", row.share * 100.0),
                row.spans.to_string(),
                format!("{:.1}", row.seconds * 1e6 / row.spans as f64),
                number(bytes.map(|x| x / 1e9)),
                percent(bytes, read),
                number(operations.map(|x| x / 1e9)),
                percent(operations, fma),
                format!("{}{kernel} {}", row.name, row.sizes),
            ]
        }));
        let mut text = format!(
            "{}: {:.3} ms in {} spans, by {}\n",
            self.device,
            self.seconds() * 1e3,
            self.spans.len(),
            self.clock
        );
        if self.left_out > 0 {
            let _ = writeln!(text, "{} earlier spans are left out", self.left_out);
        }
        for [ms, share, spans, each, bytes, read, operations, fma, what] in lines {
            let what = what.trim_end();
            let _ = writeln!(
                text,
                "{ms:>10} {share:>6} {spans:>6} {each:>10} {bytes:>7} {read:>7} {operations:>8} {fma:>6}  {what}"
            );
        }
        text
    }

    /// The spans in the format of Chrome's tracing, as JSON, for Perfetto or `chrome://tracing`:
    /// <https://perfetto.dev/docs/getting-started/other-formats>.
    pub fn trace(&self) -> String {
        let starts = self.spans.iter().map(|span| span.nanoseconds.start);
        let first = starts.min().unwrap_or(0);
        let named = |what: &str, name: &str| json!({ "name": what, "ph": "M", "pid": 1, "tid": 1, "args": { "name": name } });
        let mut events = vec![
            named("process_name", "wisp"),
            named("thread_name", &self.device),
        ];
        events.extend(self.spans.iter().map(|span| {
            let work = &span.work;
            let start = span.nanoseconds.start - first;
            json!({
                "name": work.name,
                "cat": work.kernel.unwrap_or("submission"),
                "ph": "X",
                "pid": 1,
                "tid": 1,
                "ts": start as f64 / 1e3,
                "dur": span.seconds() * 1e6,
                "args": {
                    "sizes": work.sizes,
                    "dispatches": work.dispatches,
                    "bytes": work.bytes,
                    "operations": work.operations,
                },
            })
        }));
        let about = json!({ "device": self.device, "clock": self.clock.to_string() });
        json!({ "traceEvents": events, "displayTimeUnit": "ns", "otherData": about }).to_string()
    }
}

/// A name with every run of digits as one N, so that the layers of a model have the same.
pub(crate) fn numberless(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if short.ends_with('N') => {}
            true => short.push('N'),
            false => short.push(c),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, kernel: Option<&'static str>, nanoseconds: Range<u64>) -> Span {
        Span {
            work: Work {
                name: name.into(),
                kernel,
                sizes: "tokens=1".into(),
                dispatches: 1,
                bytes: 1000,
                operations: 4000,
            },
            nanoseconds,
        }
    }

    fn profile() -> TimingReport {
        TimingReport {
            device: "a device".into(),
            clock: Clock::Device,
            left_out: 0,
            spans: vec![
                span("norm blk.0", Some("norm"), 5000..6000),
                span("linear blk.0", Some("matmul"), 6000..8000),
                span("linear blk.11", Some("matmul"), 8000..9000),
            ],
        }
    }

    #[test]
    fn rows_are_sorted_and_join_the_layers() {
        let rows = profile().rows();
        let names: Vec<_> = rows.iter().map(|row| (&*row.name, row.spans)).collect();
        assert_eq!(names, [("linear blk.N", 2), ("norm blk.N", 1)]);
        assert_eq!(rows[0].share, 0.75);
        let rate = rows[0].bytes_per_second.unwrap();
        assert!((rate / (2000.0 / 3e-6) - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn tables_compare_with_the_ceilings() {
        let ceilings = Ceilings {
            read_bytes_per_second: 4e9 / 3.0,
            f32_operations_per_second: 8e9 / 3.0,
        };
        let table = profile().table(Some(&ceilings));
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].contains("a device: 0.004 ms in 3 spans, by the device's timestamps"));
        let first: Vec<&str> = lines[2].split_whitespace().collect();
        let expected = [
            "0.003", "75.0%", "2", "1.5", "0.67", "50%", "2.67", "100%", "linear", "blk.N",
            "(matmul)", "tokens=1",
        ];
        assert_eq!(first, expected);
        assert!(!profile().table(None).contains("50%"));
    }

    #[test]
    fn traces_begin_at_the_first_span() {
        let trace: serde_json::Value = serde_json::from_str(&profile().trace()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let times = events.iter().filter(|event| event["ph"] == "X");
        let times: Vec<_> = times
            .map(|event| {
                (
                    event["ts"].as_f64().unwrap(),
                    event["dur"].as_f64().unwrap(),
                )
            })
            .collect();
        for (actual, expected) in times.iter().zip([(0.0, 1.0), (1.0, 2.0), (3.0, 1.0)]) {
            assert!((actual.0 - expected.0).abs() < 1e-9, "{times:?}");
            assert!((actual.1 - expected.1).abs() < 1e-9, "{times:?}");
        }
        assert_eq!(times.len(), 3);
    }
}
