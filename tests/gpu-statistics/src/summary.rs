//! The products and attention beside llama.cpp's, in Markdown.

use std::fmt::Write;

use crate::{
    measure::FAMILIES,
    metric::Metric,
    table::{Key, Table},
};

/// A kernel of Wisp beside the shader of llama.cpp for the same.
struct Pair {
    about: &'static str,
    kernel: &'static str,
    /// Instructions of llama.cpp's hot loop for the same unit on navi31; a dash where they were not measured.
    llama_cpp: &'static str,
}

#[rustfmt::skip]
const PAIRS: &[Pair] = &[
    Pair { about: "Q4_0, one token", kernel: "matmul.q4_0.matvec1", llama_cpp: "7.2" },
    Pair { about: "Q4_K, one token", kernel: "matmul.q4_k.matvec1", llama_cpp: "7.2" },
    Pair { about: "Q6_K, one token", kernel: "matmul.q6_k.matvec1", llama_cpp: "7.8" },
    Pair { about: "Q8_0, one token", kernel: "matmul.q8_0.matvec1", llama_cpp: "7.6" },
    Pair { about: "F16, one token",  kernel: "matmul.f16.matvec1", llama_cpp: "3.4" },
    Pair { about: "Q4_0, one token, int8", kernel: "matmul_int8.q4_0.matvec1", llama_cpp: "–" },
    Pair { about: "Q4_K, one token, int8", kernel: "matmul_int8.q4_k.matvec1", llama_cpp: "–" },
    Pair { about: "Q4_0, many tokens, f32", kernel: "matmul.q4_0.tile64x64", llama_cpp: "1.29" },
    Pair { about: "Q4_0, many tokens, int8", kernel: "matmul_int8.q4_0.tile64x64", llama_cpp: "–" },
    Pair { about: "Q4_0, many tokens, f16", kernel: "matmul.q4_0.f16_tile128x64", llama_cpp: "1.29" },
    Pair { about: "Q4_0, many tokens, cooperative", kernel: "matmul.q4_0.cooperative16_patch64x64", llama_cpp: "0.17" },
    Pair { about: "attention, decode", kernel: "attention_split.f16.heads4", llama_cpp: "530" },
    Pair { about: "attention, prefill", kernel: "attention_tiled.f16.head128", llama_cpp: "1.9" },
];

/// Writes a line for each kernel: all instructions a unit of work, those on the vector ALUs, registers and waves.
pub fn markdown(table: &Table) -> String {
    let mut text = format!(
        "| | unit | {} | llama.cpp, navi31 |\n|---|---|{}---|\n",
        FAMILIES.join(" | "),
        "---|".repeat(FAMILIES.len())
    );
    for pair in PAIRS {
        let rows = FAMILIES.map(|family| {
            table.rows.get(&Key {
                kernel: pair.kernel.into(),
                family: family.into(),
            })
        });
        let unit = rows[0].map_or("", |row| row.unit.as_str());
        let cells = rows.map(|row| {
            let get = |metric| {
                let value = row.and_then(|row| row.get(metric));
                value.map_or("–".into(), three_digits)
            };
            format!(
                "{} ({})",
                get(Metric::LoopInstructions),
                get(Metric::LoopValu)
            )
        });
        let _ = writeln!(
            text,
            "| {} | {unit} | {} | {} |",
            pair.about,
            cells.join(" | "),
            pair.llama_cpp
        );
    }
    text
}

/// Writes a number with two digits after the point, or with none from 100 on.
fn three_digits(value: f64) -> String {
    let digits = if value < 100.0 { 2 } else { 0 };
    format!("{value:.digits$}")
}

/// The lines of README.md around the summary.
const MARKS: [&str; 2] = [
    "<!-- begin of the summary -->\n",
    "<!-- end of the summary -->\n",
];

/// Replaces the summary in the text of README.md.
///
/// # Errors
///
/// If the text has no summary.
pub fn replace(readme: &str, table: &Table) -> Result<String, String> {
    let [begin, end] = MARKS;
    let parts = readme.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or("README.md: no place for the summary")?;
    Ok(format!("{before}{begin}{}{end}{after}", markdown(table)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Row;

    #[test]
    fn the_summary_replaces_the_one_before() {
        let [begin, end] = MARKS;
        let mut row = Row {
            unit: "64 positions".into(),
            ..Row::default()
        };
        row.set(Metric::LoopInstructions, 1162.4);
        row.set(Metric::LoopValu, 5.438);
        let key = Key {
            kernel: PAIRS[0].kernel.into(),
            family: FAMILIES[0].into(),
        };
        let table = Table {
            version: String::new(),
            rows: [(key, row)].into(),
        };
        let readme = replace(&format!("before\n{begin}old\n{end}after\n"), &table).unwrap();
        assert!(
            readme.contains("| 64 positions | 1162 (5.44) | – (–) | – (–) |"),
            "{readme}"
        );
        assert!(readme.starts_with("before\n") && readme.ends_with("after\n"));
        assert_eq!(replace(&readme, &table), Ok(readme));
        assert!(replace("nothing", &table).is_err());
    }
}
