//! AMD's GPUs, through Mesa's driver RADV.

mod aco;
mod driver;
mod spirv;

use std::process::{Child, Command, Stdio};

use wisp_shaders::Kernel;

use crate::{
    inputs, measure,
    metric::Metric,
    pattern::matches,
    selection::is_selected,
    table::{Key, Row, Table},
    wgsl,
    work::Compiler,
};
use driver::{Compiled, Driver};

/// The families that kernels are measured on, as RADV names them: an RX 7900 XTX (RDNA 3), an RX 6900 XT (RDNA 2)
/// and a Radeon VII (GCN 5).
pub const FAMILIES: [&str; 3] = ["navi31", "navi21", "vega20"];

/// The row that sums up the kernels that GPUs do not select: those of software adapters, and those behind a
/// kernel that serves the same calls.
const OTHERS: &str = "(not selected by GPUs)";

/// Runs this program for every family at once, with the family as the last argument, and returns what each printed.
/// RADV reads the family from the environment, so each needs a process.
fn for_all(arguments: &[&str]) -> Result<Vec<String>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let start = |family: &str| {
        Command::new(&program)
            .arg("amd")
            .args(arguments)
            .arg(family)
            .env(driver::FAMILY_VARIABLE, family)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    let children: Vec<Child> = FAMILIES
        .into_iter()
        .map(start)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let outputs = children.into_iter().map(|child| {
        let output = child
            .wait_with_output()
            .map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim_end().into()),
        }
    });
    outputs.collect()
}

/// Measures every kernel on every family.
///
/// # Errors
///
/// As [`measure_family`].
pub fn measure_all() -> Result<Table, String> {
    let mut all = Table::default();
    for text in for_all(&["measure"])? {
        let table = Table::parse(&text, &Metric::AMD)?;
        all.version = table.version;
        all.rows.extend(table.rows);
    }
    Ok(all)
}

/// Returns a digest of what RADV of the table's version gets for every kernel, and of what decides which rows there are.
///
/// # Errors
///
/// As [`inputs::digest`].
pub fn digest(table: &Table) -> Result<String, String> {
    inputs::digest(&table.version, wisp_shaders::kernels(), |kernel| {
        let wgsl = kernel.wgsl.text();
        let words = spirv::lower(&wgsl::parse(&wgsl)?)?;
        let row = format!(
            "{} {} {:?} {:?}\n{wgsl}",
            kernel.name,
            is_selected(kernel),
            kernel.needs,
            kernel.workgroup_size
        );
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        Ok(row.into_bytes().into_iter().chain(words).collect())
    })
}

/// Describes the loops of kernels on every family, with the whole assembly if `with_assembly`.
///
/// # Errors
///
/// As [`measure_family`].
pub fn describe(pattern: &str, with_assembly: bool) -> Result<String, String> {
    let command = if with_assembly { "assembly" } else { "loops" };
    Ok(for_all(&[command, pattern])?.concat())
}

/// Compiles every kernel for a family, and returns a row for each that GPUs select and one for all others.
///
/// # Errors
///
/// If the driver cannot be opened, or with a line for each kernel that it does not compile.
pub fn measure_family(family: &str) -> Result<Table, String> {
    let driver = Driver::open(family)?;
    let mut table = Table {
        version: driver.version.clone(),
        ..Table::default()
    };
    let mut others = Row::default();
    let mut errors = Vec::new();
    for kernel in wisp_shaders::kernels()
        .iter()
        .filter(|kernel| has_matrices(kernel, family))
    {
        let key = |kernel: &str| Key {
            kernel: kernel.into(),
            family: family.into(),
        };
        match row(&driver, kernel) {
            Ok(row) if is_selected(kernel) => {
                table.rows.insert(key(kernel.name), row);
            }
            Ok(row) => measure::sum_up(&mut others, &row),
            Err(error) => errors.push(format!("{} on {family}: {error}", kernel.name)),
        }
        table.rows.insert(key(OTHERS), others.clone());
    }
    match errors.is_empty() {
        true => Ok(table),
        false => Err(errors.join("\n")),
    }
}

/// Describes the loops of the kernels whose names fit a pattern, with the whole assembly if `with_assembly`.
///
/// # Errors
///
/// As [`measure_family`].
pub fn describe_family(family: &str, pattern: &str, with_assembly: bool) -> Result<String, String> {
    let driver = Driver::open(family)?;
    let mut text = String::new();
    let kernels = wisp_shaders::kernels().iter();
    let described =
        |kernel: &&Kernel| matches(pattern, kernel.name) && has_matrices(kernel, family);
    for kernel in kernels.filter(described) {
        let words = spirv::lower(&wgsl::parse(&kernel.wgsl.text())?)?;
        let compiled = driver.compile(kernel, &words)?;
        let listing = aco::parse(&compiled.assembly);
        text += &format!("{} on {family}\n{listing}", kernel.name);
        if with_assembly {
            text += &compiled.assembly;
        }
    }
    Ok(text)
}

/// True if a family has the matrix units that a kernel uses, if it uses any: only RDNA 3 has cooperative matrices, of 16 rows.
fn has_matrices(kernel: &Kernel, family: &str) -> bool {
    match kernel.needs.matrix_size {
        _ if kernel.needs.mma => false,
        0 => true,
        size => size == 16 && family == "navi31",
    }
}

fn row(driver: &Driver, kernel: &Kernel) -> Result<Row, String> {
    let parsed = wgsl::parse(&kernel.wgsl.text())?;
    let compiled = driver.compile(kernel, &spirv::lower(&parsed)?)?;
    let listing = aco::parse(&compiled.assembly);
    let stated = driver_metrics(&compiled)?;
    measure::row(kernel.name, &parsed, &listing, &stated, Compiler::Aco)
}

/// The metrics that the driver states.
fn driver_metrics(compiled: &Compiled) -> Result<[(Metric, f64); 7], String> {
    let statistic = |name: &str| {
        let value = compiled.statistics.get(name).copied();
        value.ok_or_else(|| format!("the driver states no `{name}`"))
    };
    Ok([
        (Metric::Subgroup, f64::from(compiled.subgroup_size)),
        (Metric::Registers, statistic("VGPRs")?),
        (Metric::Waves, statistic("Subgroups per SIMD")?),
        (
            Metric::Spills,
            statistic("Spilled VGPRs")? + statistic("Spilled SGPRs")?,
        ),
        (Metric::Scratch, statistic("Scratch size")?),
        (Metric::Shared, statistic("LDS size")?),
        (Metric::Instructions, statistic("Instructions")?),
    ])
}
