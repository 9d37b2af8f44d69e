//! What a tuning measured, as data and as a table to send in.

use std::fmt::Write;

use serde::Serialize;
use wisp_compiler::{CallShape, KernelChoice, Tuning};
use wisp_device::Clock;
use wisp_types::{Api, DeviceInfo};

use super::race::Ratio;

/// A kernel in comparison with the default.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TuneVariant {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Its time relative to the default's; `None` if it was not timed.
    pub ratio: Option<Ratio>,
    /// The normalised difference of its results from the baseline's; `None` if they were not compared.
    pub error: Option<f64>,
    /// Why it cannot be chosen, such as wrong results.
    pub problem: Option<String>,
}

/// The kernels of one shape of calls, in runs of some sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunePoint {
    /// The shape of the calls.
    #[serde(flatten)]
    pub shape: CallShape,
    /// What the calls compute, with N for the numbers of layers.
    pub label: String,
    /// The sizes of the run, such as `tokens=8`.
    pub sizes: String,
    /// The second dimension of the grid, on which the choice of a kernel depends: rows of the product.
    pub rows: u32,
    /// The number of calls in a run.
    pub calls: usize,
    /// The kernel that runs by default.
    pub default: &'static str,
    /// The kernel that the tuning chooses.
    pub chosen: &'static str,
    /// The default's kernels for all numbers of rows.
    #[serde(skip)]
    pub(super) default_kernels: Vec<KernelChoice>,
    /// What is wrong with the default's results.
    pub problem: Option<String>,
    /// The median time of one call by default, in seconds.
    pub seconds: f64,
    /// The other kernels that the device can run.
    pub variants: Vec<TuneVariant>,
    /// Whether enough rounds were timed before the time limit.
    pub is_complete: bool,
}

impl TunePoint {
    /// Returns the measured variant that is chosen, or else the fastest one that gives right results.
    fn shown(&self) -> Option<&TuneVariant> {
        let chosen = self
            .variants
            .iter()
            .find(|variant| variant.kernel == self.chosen);
        let right = self
            .variants
            .iter()
            .filter(|variant| variant.problem.is_none());
        let timed = right.filter_map(|variant| Some((variant, variant.ratio?.ratio)));
        let fastest = timed.min_by(|one, other| one.1.total_cmp(&other.1));
        chosen.or(fastest.map(|(variant, _)| variant))
    }
}

/// What a tuning measured and chose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TuneReport {
    /// The version of Wisp.
    pub version: &'static str,
    /// The operating system.
    pub os: &'static str,
    /// The device that was measured, with its driver and limits.
    pub device: DeviceInfo,
    /// What times were measured with.
    pub clock: Clock,
    /// One entry for each kernel, shape and number of tokens that was measured.
    pub points: Vec<TunePoint>,
    /// The number of measurements that the time limit left out.
    pub left_out: usize,
    /// Whether the caller stopped the tuning.
    pub is_cancelled: bool,
    /// The kernels to prefer from now on.
    pub tuning: Tuning,
}

/// The name of a kernel without its op.
fn variant<'a>(op: &str, kernel: &'a str) -> &'a str {
    kernel
        .strip_prefix(op)
        .map_or(kernel, |rest| rest.trim_start_matches('.'))
}

impl TuneReport {
    /// Returns the measurements in which another kernel than the default is chosen.
    pub fn changed(&self) -> impl Iterator<Item = &TunePoint> {
        self.points
            .iter()
            .filter(|point| point.chosen != point.default)
    }

    /// Returns the report as text of aligned columns, with the device on top.
    ///
    /// A ratio is the time of the chosen kernel, or else of the fastest other one, divided by the default's.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let DeviceInfo {
            name, api, driver, ..
        } = &self.device;
        let _ = writeln!(text, "adapter  {name} ({api})");
        let _ = writeln!(text, "driver   {driver}");
        if let Some(class) = self.device.device_class() {
            let _ = writeln!(text, "class    {class}");
        }
        let _ = writeln!(text, "wisp     {} on {}", self.version, self.os);
        let _ = writeln!(text, "clock    {}", self.clock);
        if self.points.is_empty() && self.left_out == 0 && *api == Api::Host {
            text += "The host has one Rust function for each op: there is nothing to choose.\n";
            return text;
        }
        let mut lines = vec![
            [
                "op",
                "rows x cols",
                "sizes",
                "µs",
                "default",
                "chosen",
                "ratio",
                "noise",
            ]
            .map(String::from),
        ];
        lines.extend(self.points.iter().map(row));
        let mut widths = [0; 8];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        text.push('\n');
        for line in &lines {
            let cells = line.iter().zip(widths);
            let cells: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            let _ = writeln!(text, "{}", cells.join("  ").trim_end());
        }
        for point in &self.points {
            let default = (point.default, &point.problem);
            let variants = point.variants.iter().map(|it| (it.kernel, &it.problem));
            for (kernel, problem) in variants.chain([default]) {
                if let Some(problem) = problem {
                    let _ = writeln!(text, "{kernel} {}: {problem}", point.sizes);
                }
            }
        }
        text.push('\n');
        let (changed, all) = (self.changed().count(), self.points.len());
        let _ = writeln!(
            text,
            "{changed} of {all} defaults are beaten by more than the noise"
        );
        if self.left_out > 0 {
            let _ = writeln!(
                text,
                "{} measurements did not fit the time limit",
                self.left_out
            );
        }
        text
    }
}

/// The cells of a measurement.
fn row(point: &TunePoint) -> [String; 8] {
    let shape = &point.shape;
    let size = |count: u64| match count {
        0 => "-".to_string(),
        count => count.to_string(),
    };
    let shown = point.shown();
    let ratio = shown.and_then(|variant| variant.ratio);
    let number = |number: Option<f64>| number.map_or("-".to_string(), |it| format!("{it:.2}"));
    let chosen = match (point.chosen == point.default, shown, point.is_complete) {
        (_, _, false) => "(out of time)".to_string(),
        (false, ..) => variant(&shape.op, point.chosen).to_string(),
        (true, Some(next), _) => format!("= (next: {})", variant(&shape.op, next.kernel)),
        (true, None, _) => "=".to_string(),
    };
    [
        shape.op.clone(),
        format!("{} x {}", size(shape.width), size(shape.cols)),
        point.sizes.clone(),
        format!("{:.1}", point.seconds * 1e6),
        variant(&shape.op, point.default).to_string(),
        chosen,
        number(ratio.map(|it| it.ratio)),
        number(ratio.map(|it| it.noise)),
    ]
}
