//! What AMD's shader compiler makes of every kernel, compared with a recorded table; see README.md beside this
//! folder. `bash tests/scripts/gpu-statistics.sh` fetches the compiler and runs this program.

mod assembly;
mod compare;
mod driver;
mod goals;
mod measure;
mod metric;
mod pattern;
mod spirv;
mod summary;
mod table;
mod work;

use std::process::{Child, Command, ExitCode, Stdio};

use measure::FAMILIES;
use table::Table;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/table.tsv");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const RECORD: &str = "bash tests/scripts/gpu-statistics.sh record";
const USAGE: &str = "\
usage: gpu-statistics compare             compare every kernel with the recorded table (the default)
       gpu-statistics record              write the table and the summary in README.md anew
       gpu-statistics summary             print the products and attention in Markdown
       gpu-statistics goals               print how the goals stand
       gpu-statistics loops NAME          print the loops of kernels; NAME may have stars
       gpu-statistics assembly NAME       print the loops and the assembly of kernels";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [] | ["compare"] => compare_with_recorded(),
        ["record"] => record(),
        ["summary"] => measure_all().map(|table| print!("{}", summary::markdown(&table))),
        ["goals"] => {
            measure_all().map(|table| println!("{}", goals::check(&table).lines.join("\n")))
        }
        ["loops", pattern] => {
            for_all(&["loops-of", pattern]).map(|texts| print!("{}", texts.concat()))
        }
        ["assembly", pattern] => {
            for_all(&["assembly-of", pattern]).map(|texts| print!("{}", texts.concat()))
        }
        // What this program runs for each family.
        ["measure", family] => measure::measure(family).map(|table| print!("{}", table.write())),
        ["loops-of", pattern, family] => {
            measure::describe(family, pattern, false).map(|text| print!("{text}"))
        }
        ["assembly-of", pattern, family] => {
            measure::describe(family, pattern, true).map(|text| print!("{text}"))
        }
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpu-statistics: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program for every family at once, with the family as the last argument, and returns what each printed.
/// RADV reads the family from the environment, so each needs a process.
fn for_all(arguments: &[&str]) -> Result<Vec<String>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let start = |family: &str| {
        Command::new(&program)
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

fn measure_all() -> Result<Table, String> {
    let mut all = Table::default();
    for text in for_all(&["measure"])? {
        let table = Table::parse(&text)?;
        all.version = table.version;
        all.rows.extend(table.rows);
    }
    Ok(all)
}

fn compare_with_recorded() -> Result<(), String> {
    let text = std::fs::read_to_string(TABLE).map_err(|error| format!("{TABLE}: {error}"))?;
    let recorded = Table::parse(&text).map_err(|error| format!("{TABLE}: {error}"))?;
    let measured = measure_all()?;
    if measured.version != recorded.version {
        return Err(format!(
            "this is {}, but the table was recorded with {}: other compilers give other numbers. Run {RECORD}",
            measured.version, recorded.version
        ));
    }
    let differences = compare::compare(&recorded, &measured);
    let goals = goals::check(&measured);
    let sections = [
        ("worse than recorded by more than 5%", &differences.worse),
        ("not as recorded", &differences.unrecorded),
        ("goals that were reached and are missed", &goals.missed),
        ("better than recorded by more than 5%", &differences.better),
        (
            "goals that are reached and not marked so in goals.rs",
            &goals.newly_reached,
        ),
    ];
    for (title, lines) in sections.iter().filter(|(_, lines)| !lines.is_empty()) {
        println!("{title}:\n  {}", lines.join("\n  "));
    }
    let reached = goals
        .lines
        .iter()
        .filter(|line| line.starts_with("reached"))
        .count();
    println!(
        "{} rows with {}: {} values worse, {} better, {} unrecorded; {reached} of {} goals reached, {} lost",
        measured.rows.len(),
        measured.version,
        differences.worse.len(),
        differences.better.len(),
        differences.unrecorded.len(),
        goals.lines.len(),
        goals.missed.len()
    );
    match differences.worse.len() + differences.unrecorded.len() + goals.missed.len() {
        0 => Ok(()),
        _ => Err(format!(
            "statistics differ from the table; where that is meant, run {RECORD}"
        )),
    }
}

fn record() -> Result<(), String> {
    let table = measure_all()?;
    let readme = std::fs::read_to_string(README).map_err(|error| format!("{README}: {error}"))?;
    let readme = summary::replace(&readme, &table)?;
    std::fs::write(TABLE, table.write()).map_err(|error| format!("{TABLE}: {error}"))?;
    std::fs::write(README, readme).map_err(|error| format!("{README}: {error}"))?;
    println!("{} rows with {}", table.rows.len(), table.version);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_in_the_readme_is_that_of_the_recorded_table() {
        let recorded = Table::parse(include_str!("../table.tsv")).unwrap();
        let readme = include_str!("../README.md");
        assert_eq!(
            summary::replace(readme, &recorded).as_deref(),
            Ok(readme),
            "run {RECORD}"
        );
    }
}
