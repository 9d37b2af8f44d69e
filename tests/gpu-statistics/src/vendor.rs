//! The vendors of GPUs whose compilers are recorded, each in a table of its own.

use crate::{
    amd,
    goals::{self, Standing},
    metric::Metric,
    nvidia, summary,
    table::Table,
};

/// A vendor, with what differs between vendors.
pub struct Vendor {
    /// The name on the command line.
    pub name: &'static str,
    /// The path of the recorded table.
    pub path: &'static str,
    /// The table's columns.
    pub metrics: &'static [Metric],
    /// Measures all kernels, or with `false` those that are measured by default.
    pub measure: fn(all: bool) -> Result<Table, String>,
    /// Returns a digest of what the compiler gets for the kernels that are measured by default, whose numbers are those of
    /// the given table.
    pub digest: fn(&Table) -> Result<String, String>,
    /// True if a kernel is measured by default.
    pub is_chosen: fn(kernel: &str) -> bool,
    /// Describes the loops of the kernels that fit a pattern, perhaps with their assembly.
    pub describe: fn(pattern: &str, with_assembly: bool) -> Result<String, String>,
    /// Compares a table with the goals.
    pub goals: fn(&Table) -> Standing,
    /// Writes the summary in README.md.
    pub summary: fn(&Table) -> String,
    /// The lines of README.md around the summary.
    pub marks: [&'static str; 2],
}

/// All vendors.
pub const VENDORS: [Vendor; 2] = [
    Vendor {
        name: "amd",
        path: concat!(env!("CARGO_MANIFEST_DIR"), "/table.tsv"),
        metrics: &Metric::AMD,
        // All kernels take 80 seconds of CPU time.
        measure: |_| amd::measure_all(),
        digest: amd::digest,
        is_chosen: |_| true,
        describe: amd::describe,
        goals: goals::check_amd,
        summary: summary::amd,
        marks: [
            "<!-- begin of the summary -->\n",
            "<!-- end of the summary -->\n",
        ],
    },
    Vendor {
        name: "nvidia",
        path: concat!(env!("CARGO_MANIFEST_DIR"), "/nvidia.tsv"),
        metrics: &Metric::NVIDIA,
        measure: nvidia::measure,
        digest: nvidia::digest,
        is_chosen: nvidia::is_chosen,
        describe: nvidia::describe,
        goals: goals::check_nvidia,
        summary: summary::nvidia,
        marks: [
            "<!-- begin of NVIDIA's summary -->\n",
            "<!-- end of NVIDIA's summary -->\n",
        ],
    },
];
