//! The table of statistics: a text file of a line for each kernel and family of GPUs, with values parted by tabs.

use std::{collections::BTreeMap, fmt::Write};

use crate::metric::Metric;

/// The numbers, and what they come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// As the compiler states it: `Mesa 25.0.7-2~bpo12+1`.
    pub version: String,
    /// The digest of the compiler, of what it got for the kernels that are measured by default, and of this program:
    /// `inputs::digest`.
    pub inputs: String,
    /// By kernel and family, in the order in which they are written.
    pub rows: BTreeMap<Key, Row>,
}

/// Names a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The kernel's name, or that of a group of kernels.
    pub kernel: String,
    /// The family of GPUs, as the compiler names it.
    pub family: String,
}

/// A kernel's statistics on a family.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// What the hot loop's numbers are stated for; empty without a loop.
    pub unit: String,
    /// In the order of [`Metric::ALL`]; none where a metric does not apply.
    pub values: [Option<f64>; Metric::ALL.len()],
}

impl Row {
    /// Returns a metric's value.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.values[metric as usize]
    }

    /// Sets a metric's value, rounded as the table has it.
    pub fn set(&mut self, metric: Metric, value: f64) {
        self.values[metric as usize] = Some((value * 1000.0).round() / 1000.0);
    }

    /// Drops the values of metrics that are no columns.
    pub fn restrict(&mut self, columns: &[Metric]) {
        for metric in Metric::ALL {
            if !columns.contains(&metric) {
                self.values[metric as usize] = None;
            }
        }
    }
}

impl Table {
    /// Writes the table with its header, and a column for each of the metrics.
    pub fn write(&self, metrics: &[Metric]) -> String {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name()).collect();
        let names = names.join("\t");
        let mut text = format!(
            "# {}\n# inputs {}\nkernel\tfamily\tunit\t{names}\n",
            self.version, self.inputs
        );
        for (Key { kernel, family }, row) in &self.rows {
            let value = |metric: &Metric| row.get(*metric).map_or(String::new(), |v| v.to_string());
            let values: Vec<String> = metrics.iter().map(value).collect();
            let _ = writeln!(
                text,
                "{kernel}\t{family}\t{}\t{}",
                row.unit,
                values.join("\t")
            );
        }
        text
    }

    /// Reads what [`Self::write`] has written for the same metrics.
    ///
    /// # Errors
    ///
    /// If the header or a line is another, with the line's number.
    pub fn parse(text: &str, metrics: &[Metric]) -> Result<Table, String> {
        let mut lines = text.lines().zip(1..);
        let version = lines.next().and_then(|(line, _)| line.strip_prefix("# "));
        let version = version.ok_or("line 1: the version of the compiler is missing")?;
        let inputs = lines
            .next()
            .and_then(|(line, _)| line.strip_prefix("# inputs "));
        let inputs = inputs.ok_or("line 2: the digest of the kernels is missing")?;
        let names = lines.next().map(|(line, _)| line.split('\t').skip(3));
        if !names.is_some_and(|names| names.eq(metrics.iter().map(|metric| metric.name()))) {
            return Err("line 3: other columns than those of this program".into());
        }
        let rows = lines.map(|(line, number)| {
            parse_row(line, metrics)
                .ok_or_else(|| format!("line {number}: not a row of statistics: {line}"))
        });
        Ok(Table {
            version: version.into(),
            inputs: inputs.into(),
            rows: rows.collect::<Result<_, _>>()?,
        })
    }
}

fn parse_row(line: &str, metrics: &[Metric]) -> Option<(Key, Row)> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [kernel, family, unit, values @ ..] = &fields[..] else {
        return None;
    };
    let mut row = Row {
        unit: (*unit).into(),
        ..Row::default()
    };
    if values.len() != metrics.len() {
        return None;
    }
    for (metric, text) in metrics.iter().zip(values) {
        row.values[*metric as usize] = match *text {
            "" => None,
            text => Some(text.parse().ok()?),
        };
    }
    let key = Key {
        kernel: (*kernel).into(),
        family: (*family).into(),
    };
    Some((key, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut row = Row {
            unit: "weight".into(),
            ..Row::default()
        };
        row.set(Metric::Registers, 84.0);
        row.set(Metric::LoopValu, 696.0 / 128.0);
        let key = Key {
            kernel: "matmul.q4_0.matvec".into(),
            family: "navi31".into(),
        };
        Table {
            version: "Mesa 25.0.7".into(),
            inputs: "0f".into(),
            rows: [(key, row)].into(),
        }
    }

    #[test]
    fn a_written_table_is_read_back() {
        assert_eq!(
            Table::parse(&table().write(&Metric::AMD), &Metric::AMD),
            Ok(table())
        );
    }

    #[test]
    fn a_row_is_restricted_to_the_columns() {
        let mut row = Row::default();
        row.set(Metric::Registers, 84.0);
        row.set(Metric::LoopValu, 3.0);
        row.restrict(&Metric::NVIDIA);
        assert_eq!(row.get(Metric::Registers), Some(84.0));
        assert_eq!(row.get(Metric::LoopValu), None);
    }

    #[test]
    fn errors_name_the_line() {
        let text = table().write(&Metric::AMD);
        let error = |text: &str| Table::parse(text, &Metric::AMD).unwrap_err();
        assert!(error("").contains("line 1"));
        assert!(error(&text.replace("waves", "wave")).contains("line 3"));
        assert!(error(&text.replace("# inputs", "#")).contains("line 2"));
        assert!(error(&text.replace("84", "many")).contains("line 4"));
        assert!(error(&(text + "matmul.q4_0.tiled\tnavi31\n")).contains("line 5"));
    }
}
