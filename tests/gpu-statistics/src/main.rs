//! What AMD's and NVIDIA's shader compilers make of every kernel, compared with recorded tables; see README.md beside
//! this folder. `bash tests/scripts/gpu-statistics.sh` fetches the compilers and runs this program.

mod amd;
mod assembly;
mod compare;
mod goals;
mod inputs;
mod measure;
mod metric;
mod nvidia;
mod parallel;
mod pattern;
mod selection;
mod summary;
mod table;
mod vendor;
mod wgsl;
mod work;

use std::process::ExitCode;

use metric::Metric;
use table::Table;
use vendor::{VENDORS, Vendor};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const RECORD: &str = "bash tests/scripts/gpu-statistics.sh record";
const USAGE: &str = "\
usage: gpu-statistics amd|nvidia COMMAND
       compare [all]      compare kernels with the recorded table (the default); measures only if the compiler
                          gets something else than when it was recorded, or with `all`
       record [all]       write the table and the summary in README.md anew
       summary            print the products and attention in Markdown
       goals [all]        print how the goals stand
       loops NAME         print the loops of kernels; NAME may have stars
       assembly NAME      print the loops and the assembly of kernels
       spills [NAME]      NVIDIA: check that no kernel keeps registers in memory, on any architecture
NVIDIA's compiler takes minutes for all kernels, so it compiles the chosen ones, unless `all` is given.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpu-statistics: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), String> {
    let [name, command @ ..] = arguments else {
        return Err(USAGE.into());
    };
    let vendor = VENDORS.iter().find(|vendor| vendor.name == *name);
    let vendor = vendor.ok_or(USAGE)?;
    let (command, all) = match command {
        [command @ .., "all"] => (command, true),
        command => (command, false),
    };
    match (command, vendor.name) {
        ([] | ["compare"], _) => compare_with_recorded(vendor, all),
        (["record"], _) => record(vendor, all),
        (["summary"], _) => {
            (vendor.measure)(all).map(|table| print!("{}", (vendor.summary)(&table)))
        }
        (["goals"], _) => (vendor.measure)(all)
            .map(|table| println!("{}", (vendor.goals)(&table).lines.join("\n"))),
        (["loops", pattern], _) => (vendor.describe)(pattern, false).map(|text| print!("{text}")),
        (["assembly", pattern], _) => (vendor.describe)(pattern, true).map(|text| print!("{text}")),
        (["spills"], "nvidia") => check_spills("*"),
        (["spills", pattern], "nvidia") => check_spills(pattern),
        (["spills"] | ["spills", _], _) => Ok(()),
        // What this program runs for each of AMD's families.
        (["measure", family], "amd") => {
            amd::measure_family(family).map(|table| print!("{}", table.write(&Metric::AMD)))
        }
        (["loops", pattern, family], "amd") => {
            amd::describe_family(family, pattern, false).map(|text| print!("{text}"))
        }
        (["assembly", pattern, family], "amd") => {
            amd::describe_family(family, pattern, true).map(|text| print!("{text}"))
        }
        _ => Err(USAGE.into()),
    }
}

fn check_spills(pattern: &str) -> Result<(), String> {
    match nvidia::check_spills(pattern)? {
        0 => Err(format!("no kernel for NVIDIA fits {pattern}")),
        count => {
            println!("{count} compilations without spills");
            Ok(())
        }
    }
}

/// Reads a vendor's recorded table.
fn recorded(vendor: &Vendor) -> Result<Table, String> {
    let path = vendor.path;
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Table::parse(&text, vendor.metrics).map_err(|error| format!("{path}: {error}"))
}

fn compare_with_recorded(vendor: &Vendor, all: bool) -> Result<(), String> {
    let mut recorded = recorded(vendor)?;
    recorded
        .rows
        .retain(|key, _| all || (vendor.is_chosen)(&key.kernel));
    let is_recorded = recorded.inputs == (vendor.digest)(&recorded)?;
    if !all && is_recorded {
        println!(
            "{} rows with {} hold: the compiler gets what it got when they were recorded",
            recorded.rows.len(),
            recorded.version
        );
        return Ok(());
    }
    let measured = (vendor.measure)(all)?;
    if measured.version != recorded.version {
        return Err(format!(
            "this is {}, but the table was recorded with {}: other compilers give other numbers. Run {RECORD}",
            measured.version, recorded.version
        ));
    }
    let differences = compare::compare(&recorded, &measured);
    let goals = (vendor.goals)(&measured);
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
    if !is_recorded {
        println!(
            "the compiler got something else than when they were recorded: {RECORD} makes the next comparisons quick"
        );
    }
    match differences.worse.len() + differences.unrecorded.len() + goals.missed.len() {
        0 => Ok(()),
        _ => Err(format!(
            "statistics differ from the table; where that is meant, run {RECORD}"
        )),
    }
}

/// Writes the rows of all kernels, or of the chosen ones and keeps the others.
fn record(vendor: &Vendor, all: bool) -> Result<(), String> {
    let mut table = (vendor.measure)(all)?;
    table.inputs = (vendor.digest)(&table)?;
    let measured = table.rows.len();
    // Rows of another version cannot be kept.
    if let Ok(mut before) = recorded(vendor)
        && before.version == table.version
    {
        before
            .rows
            .retain(|key, _| !all && !(vendor.is_chosen)(&key.kernel));
        table.rows.extend(before.rows);
    }
    let readme = std::fs::read_to_string(README).map_err(|error| format!("{README}: {error}"))?;
    let readme = summary::replace(&readme, vendor.marks, &(vendor.summary)(&table))?;
    let path = vendor.path;
    std::fs::write(path, table.write(vendor.metrics))
        .map_err(|error| format!("{path}: {error}"))?;
    std::fs::write(README, readme).map_err(|error| format!("{README}: {error}"))?;
    println!("{measured} rows with {}", table.version);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summaries_in_the_readme_are_those_of_the_recorded_tables() {
        for vendor in VENDORS {
            let readme = include_str!("../README.md");
            let summary = (vendor.summary)(&recorded(&vendor).unwrap());
            assert_eq!(
                summary::replace(readme, vendor.marks, &summary).as_deref(),
                Ok(readme),
                "run {RECORD}"
            );
        }
    }

    #[test]
    fn the_recorded_tables_reach_the_goals_that_are_marked_as_reached() {
        for vendor in VENDORS {
            let standing = (vendor.goals)(&recorded(&vendor).unwrap());
            assert_eq!(standing.missed, [""; 0], "{}", vendor.name);
            assert_eq!(standing.newly_reached, [""; 0], "{}", vendor.name);
        }
    }
}
