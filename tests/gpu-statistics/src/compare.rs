//! Compares measured statistics with the recorded ones.

use crate::{
    metric::Metric,
    table::{Key, Row, Table},
};

/// The share by which a value may be worse than the recorded one.
pub const TOLERANCE: f64 = 0.05;

/// The differences between two tables, a line of text each.
#[derive(Debug, Default, PartialEq)]
pub struct Differences {
    /// Values that are worse than the recorded ones by more than [`TOLERANCE`].
    pub worse: Vec<String>,
    /// Values that are better by more than that.
    pub better: Vec<String>,
    /// Rows that have to be recorded first: new kernels, new units, and those of kernels that are gone.
    pub unrecorded: Vec<String>,
}

/// Compares a table with the recorded one.
pub fn compare(recorded: &Table, measured: &Table) -> Differences {
    let mut differences = Differences::default();
    for (key, row) in &measured.rows {
        match recorded.rows.get(key) {
            Some(old) if old.unit == row.unit => compare_rows(key, old, row, &mut differences),
            Some(old) => differences.unrecorded.push(format!(
                "{} on {}: recorded per {}, measured per {}",
                key.kernel, key.family, old.unit, row.unit
            )),
            None => differences
                .unrecorded
                .push(format!("{} on {}: no row", key.kernel, key.family)),
        }
    }
    let gone = recorded
        .rows
        .keys()
        .filter(|key| !measured.rows.contains_key(key));
    let gone = gone.map(|key| format!("{} on {}: no such kernel any more", key.kernel, key.family));
    differences.unrecorded.extend(gone);
    differences
}

fn compare_rows(key: &Key, old: &Row, new: &Row, differences: &mut Differences) {
    for metric in Metric::ALL {
        let line = |old: String, new: String| {
            format!(
                "{} on {}: {} {old} -> {new}",
                key.kernel,
                key.family,
                metric.name()
            )
        };
        match (old.get(metric), new.get(metric)) {
            (Some(old), Some(new)) if metric.is_worse(new, old, TOLERANCE) => {
                differences
                    .worse
                    .push(line(old.to_string(), new.to_string()));
            }
            (Some(old), Some(new)) if metric.is_better(new, old, TOLERANCE) => {
                differences
                    .better
                    .push(line(old.to_string(), new.to_string()));
            }
            (Some(old), None) => differences
                .unrecorded
                .push(line(old.to_string(), "none".into())),
            (None, Some(new)) => differences
                .unrecorded
                .push(line("none".into(), new.to_string())),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel's name, its unit and its values.
    type MadeUp<'a> = (&'a str, &'a str, &'a [(Metric, f64)]);

    fn table(rows: &[MadeUp]) -> Table {
        let rows = rows.iter().map(|(kernel, unit, values)| {
            let mut row = Row {
                unit: (*unit).into(),
                ..Row::default()
            };
            for (metric, value) in *values {
                row.set(*metric, *value);
            }
            (
                Key {
                    kernel: (*kernel).into(),
                    family: "navi31".into(),
                },
                row,
            )
        });
        Table {
            version: "Mesa 1".into(),
            rows: rows.collect(),
            ..Table::default()
        }
    }

    #[test]
    fn equal_tables_differ_in_nothing() {
        let one = table(&[(
            "a",
            "weight",
            &[(Metric::Registers, 64.0), (Metric::Spills, 0.0)],
        )]);
        assert_eq!(compare(&one, &one), Differences::default());
    }

    #[test]
    fn values_beyond_the_tolerance_are_worse_or_better() {
        let recorded = [
            (Metric::Registers, 64.0),
            (Metric::Waves, 16.0),
            (Metric::LoopValu, 4.0),
        ];
        let measured = [
            (Metric::Registers, 68.0),
            (Metric::Waves, 18.0),
            (Metric::LoopValu, 4.2),
        ];
        let differences = compare(
            &table(&[("a", "weight", &recorded)]),
            &table(&[("a", "weight", &measured)]),
        );
        assert_eq!(differences.worse, ["a on navi31: registers 64 -> 68"]);
        assert_eq!(differences.better, ["a on navi31: waves 16 -> 18"]);
        assert_eq!(
            differences.unrecorded.len(),
            0,
            "5% is within the tolerance"
        );
    }

    #[test]
    fn rows_without_a_counterpart_are_unrecorded() {
        let recorded = table(&[
            ("old", "turn", &[]),
            ("same", "turn", &[(Metric::LoopValu, 4.0)]),
        ]);
        let measured = table(&[
            ("new", "turn", &[]),
            ("same", "weight", &[(Metric::LoopValu, 9.0)]),
        ]);
        assert_eq!(
            compare(&recorded, &measured).unrecorded,
            [
                "new on navi31: no row",
                "same on navi31: recorded per turn, measured per weight",
                "old on navi31: no such kernel any more",
            ]
        );
    }

    #[test]
    fn values_that_appear_or_vanish_are_unrecorded() {
        let with = table(&[("a", "turn", &[(Metric::LoadBytes, 16.0)])]);
        let without = table(&[("a", "turn", &[])]);
        assert_eq!(
            compare(&with, &without).unrecorded,
            ["a on navi31: load_bytes 16 -> none"]
        );
        assert_eq!(
            compare(&without, &with).unrecorded,
            ["a on navi31: load_bytes none -> 16"]
        );
    }
}
