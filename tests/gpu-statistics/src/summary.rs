//! The products and attention beside llama.cpp's, in Markdown.

use std::fmt::Write;

use crate::{
    amd::FAMILIES,
    metric::Metric,
    nvidia,
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
    Pair { about: "attention, prefill, cooperative", kernel: "attention_tiled.f16.cooperative16_lanes64_head128", llama_cpp: "–" },
    Pair { about: "attention, prefill, heads of 256", kernel: "attention_tiled.f16.head256", llama_cpp: "–" },
    Pair { about: "attention, prefill, heads of 256, cooperative", kernel: "attention_tiled.f16.cooperative16_lanes64_head256", llama_cpp: "–" },
];

/// Writes a line for each kernel on AMD's GPUs: all instructions a unit of work, and those on the vector ALUs.
pub fn amd(table: &Table) -> String {
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

/// The kernels of NVIDIA's summary, with the bits of a weight for products of one token: these are to be bound by memory.
#[rustfmt::skip]
const NVIDIA: &[(&str, &str, Option<f64>)] = &[
    ("Q4_0, one token", "matmul.q4_0.mma1", Some(4.5)),
    ("Q4_0, one token, without matrix units", "matmul.q4_0.matvec1", Some(4.5)),
    ("Q4_K, one token", "matmul.q4_k.mma1", Some(4.5)),
    ("Q4_K, one token, without matrix units", "matmul.q4_k.matvec1", Some(4.5)),
    ("Q6_K, one token", "matmul.q6_k.mma1", Some(6.5625)),
    ("Q6_K, one token, without matrix units", "matmul.q6_k.matvec1", Some(6.5625)),
    ("Q8_0, one token", "matmul.q8_0.mma1", Some(8.5)),
    ("Q8_0, one token, without matrix units", "matmul.q8_0.matvec1", Some(8.5)),
    ("MXFP4, one token", "matmul.mxfp4.mma1", Some(4.25)),
    ("F8, one token", "matmul.f8_e4m3.mma1", Some(9.0)),
    ("F16, one token",  "matmul.f16.matvec1",  Some(16.0)),
    ("Q4_0, one token, int8", "matmul_int8.q4_0.matvec1", Some(4.5)),
    ("Q4_K, one token, int8", "matmul_int8.q4_k.matvec1", Some(4.5)),
    ("Q6_K, one token, int8", "matmul_int8.q6_k.matvec1", Some(6.5625)),
    ("Q8_0, one token, int8", "matmul_int8.q8_0.matvec1", Some(8.5)),
    ("Q4_0, 8 tokens", "matmul.q4_0.mma8", Some(4.5)),
    ("Q4_0, 8 tokens, without matrix units", "matmul.q4_0.matvec8", Some(4.5)),
    ("Q4_0, up to 32 tokens", "matmul.q4_0.mma_tile64x32", None),
    ("Q4_0, many tokens", "matmul.q4_0.mma_tile128x64", None),
    ("Q4_K, many tokens", "matmul.q4_k.mma_tile128x64", None),
    ("MXFP4, many tokens", "matmul.mxfp4.mma_tile128x64", None),
    ("F16, many tokens", "matmul.f16.mma_tile128x64", None),
    ("Q4_0, many tokens, halves of x", "matmul.q4_0.f16_mma_tile128x64", None),
    ("Q4_0, many tokens, without matrix units", "matmul.q4_0.tile64x64", None),
    ("Q4_0, up to 32 tokens, int8", "matmul_int8.q4_0.mma_tile64x32", None),
    ("Q4_0, many tokens, int8", "matmul_int8.q4_0.mma_tile128x64", None),
    ("Q4_K, many tokens, int8", "matmul_int8.q4_k.mma_tile128x64", None),
    ("Q4_0, many tokens, int8, without matrix units", "matmul_int8.q4_0.tile64x64", None),
    ("Q4_0, many tokens, f16", "matmul.q4_0.f16_tile128x64", None),
    ("Q4_0, many tokens, cooperative", "matmul.q4_0.cooperative16_patch64x32", None),
    ("attention, decode, eight heads", "attention_split.f16.mma", None),
    ("attention, decode, eight heads, q8_0", "attention_split.q8_0.mma", None),
    ("attention, decode, four heads, without matrix units", "attention_split.f16.heads4", None),
    ("attention, decode, eight heads of 576", "attention_split_wide.f16.mma", None),
    ("attention, decode, four heads of 512, without matrix units", "attention_split_wide.f16.baseline", None),
    ("attention, prefill", "attention_tiled.f16.mma_head128", None),
    ("attention, prefill, q8_0", "attention_tiled.q8_0.mma_head128", None),
    ("attention, prefill, without matrix units", "attention_tiled.f16.head128", None),
    ("attention, prefill, heads of 256", "attention_tiled.f16.mma_head256", None),
    ("attention, prefill, heads of 256, without matrix units", "attention_tiled.f16.head256", None),
    ("attention, prefill, cooperative", "attention_tiled.f16.cooperative16_lanes32_head128", None),
];

/// Writes a line for each kernel on NVIDIA's GPUs: instructions a unit of work and, for products of one token, for a byte
/// of weights, in all and slow ones; the bytes of a load; registers, the warps of a multiprocessor, and bytes that are spilled.
pub fn nvidia(table: &Table) -> String {
    let [family] = nvidia::FAMILIES;
    let mut text = format!(
        "| {family} | unit | instructions | a weight byte | slow, a weight byte | bytes a load | registers | warps of 64 | spills |\n|{}\n",
        "---|".repeat(9)
    );
    for (about, kernel, bits) in NVIDIA {
        let row = table.rows.get(&Key {
            kernel: (*kernel).into(),
            family: family.into(),
        });
        let get = |metric| row.and_then(|row| row.get(metric));
        let cell = |value: Option<f64>| value.map_or("–".into(), three_digits);
        let whole = |metric| get(metric).map_or("–".into(), |value| format!("{value}"));
        let of_byte = |metric| {
            let of_weight = get(metric).zip(*bits);
            cell(of_weight.map(|(instructions, bits)| instructions * 8.0 / bits))
        };
        let cells = [
            row.map_or("", |row| row.unit.as_str()).into(),
            cell(get(Metric::LoopInstructions)),
            of_byte(Metric::LoopInstructions),
            of_byte(Metric::LoopSlow),
            cell(get(Metric::LoadBytes)),
            whole(Metric::Registers),
            whole(Metric::Waves),
            whole(Metric::Spills),
        ];
        let _ = writeln!(text, "| {about} | {} |", cells.join(" | "));
    }
    text
}

/// Writes a number with two digits after the point, or with none from 100 on.
fn three_digits(value: f64) -> String {
    let digits = if value < 100.0 { 2 } else { 0 };
    format!("{value:.digits$}")
}

/// Replaces the summary between two lines in the text of README.md.
///
/// # Errors
///
/// If the text has no summary.
pub fn replace(readme: &str, [begin, end]: [&str; 2], summary: &str) -> Result<String, String> {
    let parts = readme.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or("README.md: no place for the summary")?;
    Ok(format!("{before}{begin}{summary}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Row;

    #[test]
    fn the_summary_replaces_the_one_before() {
        let marks @ [begin, end] = ["<!-- begin -->\n", "<!-- end -->\n"];
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
            ..Table::default()
        };
        let readme = replace(
            &format!("before\n{begin}old\n{end}after\n"),
            marks,
            &amd(&table),
        )
        .unwrap();
        assert!(
            readme.contains("| 64 positions | 1162 (5.44) | – (–) | – (–) |"),
            "{readme}"
        );
        assert!(readme.starts_with("before\n") && readme.ends_with("after\n"));
        assert_eq!(replace(&readme, marks, &amd(&table)), Ok(readme));
        assert!(replace("nothing", marks, "").is_err());
    }
}
