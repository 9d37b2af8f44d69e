//! The goals that kernels for GPUs are written towards, and which of them are reached.

use std::fmt::Write;

use crate::{
    amd,
    metric::{Better, Metric},
    nvidia,
    pattern::matches,
    table::Table,
};

/// A bound for a metric of some kernels.
struct Goal<const FAMILIES: usize> {
    /// What the goal is about.
    about: &'static str,
    /// Names of kernels.
    pattern: &'static str,
    metric: Metric,
    /// For each of the vendor's families.
    bounds: [f64; FAMILIES],
    /// The families on which the goal is reached, and must stay so.
    reached: &'static [&'static str],
}

const fn goal<const FAMILIES: usize>(
    about: &'static str,
    pattern: &'static str,
    metric: Metric,
    bounds: [f64; FAMILIES],
    reached: &'static [&'static str],
) -> Goal<FAMILIES> {
    Goal {
        about,
        pattern,
        metric,
        bounds,
        reached,
    }
}

/// Bounds for a metric that are the same on all families.
const fn same(bound: f64) -> [f64; 3] {
    [bound; 3]
}

const ALL: &[&str] = &amd::FAMILIES;
const NONE: &[&str] = &[];

#[rustfmt::skip]
const AMD: &[Goal<3>] = &[
    goal("Q4_0, one token: VALU a weight", "matmul.q4_0.matvec1*", Metric::LoopValu, same(3.3), ALL),
    goal("Q4_K, one token: VALU a weight", "matmul.q4_k.matvec1*", Metric::LoopValu, same(4.0), ALL),
    goal("Q6_K, one token: VALU a weight", "matmul.q6_k.matvec1*", Metric::LoopValu, same(4.4), ALL),
    goal("Q8_0, one token: VALU a weight", "matmul.q8_0.matvec1*", Metric::LoopValu, same(3.2), ALL),
    goal("F16, one token: VALU a weight",  "matmul.f16.matvec1",   Metric::LoopValu, [2.0, 2.0, 3.0], ALL),
    goal("F16, one token: VALU a weight",  "matmul.f16.matvec1_subgroups", Metric::LoopValu, [2.0, 2.0, 3.0], ALL),
    goal("Q4_0, one token, int8: VALU a weight", "matmul_int8.q4_0.matvec1", Metric::LoopValu, same(1.0), ALL),
    goal("Q4_K, one token, int8: VALU a weight", "matmul_int8.q4_k.matvec1", Metric::LoopValu, same(1.4), ALL),
    goal("Q6_K, one token, int8: VALU a weight", "matmul_int8.q6_k.matvec1", Metric::LoopValu, same(1.8), ALL),
    goal("Q8_0, one token, int8: VALU a weight", "matmul_int8.q8_0.matvec1", Metric::LoopValu, same(0.7), ALL),
    goal("one token, int8: busy lanes at 896 columns", "matmul_int8.*.matvec*", Metric::BusyLanes, same(85.0), ALL),
    goal("one token, int8: registers", "matmul_int8.*.matvec1*", Metric::Registers, same(64.0), ALL),
    goal("one token: busy lanes at 896 columns", "matmul.*.matvec*", Metric::BusyLanes, same(85.0), ALL),
    goal("one token: registers", "matmul.*.matvec1*", Metric::Registers, same(64.0), ALL),
    goal("one token: waves",     "matmul.*.matvec1*", Metric::Waves, [24.0, 16.0, 4.0], ALL),
    goal("Q4_0, many tokens, f32: instructions a multiply-add", "matmul.q4_0.tile64x64", Metric::LoopInstructions, same(1.4), &["navi31", "navi21"]),
    goal("Q4_0, many tokens, int8: instructions a multiply-add", "matmul_int8.q4_0.tile64x64", Metric::LoopInstructions, same(0.51), ALL),
    goal("Q4_0, many tokens, f16: instructions a multiply-add", "matmul.q4_0.f16_tile128x64", Metric::LoopInstructions, same(0.9), ALL),
    goal("Q4_0, many tokens, cooperative: instructions a multiply-add", "matmul.q4_0.cooperative16_patch64x64", Metric::LoopInstructions, same(0.2), &["navi31"]),
    goal("products: registers", "matmul*", Metric::Registers, same(64.0), NONE),
    goal("products: waves",     "matmul*", Metric::Waves, [24.0, 16.0, 4.0], NONE),
    goal("products: spills",    "matmul*", Metric::Spills,  same(0.0), ALL),
    goal("products: scratch",   "matmul*", Metric::Scratch, same(0.0), ALL),
    goal("attention, decode: instructions per 64 positions and head", "attention_split.f16.heads4", Metric::LoopInstructions, same(500.0), ALL),
    goal("attention, prefill: instructions a multiply-add", "attention_tiled.f16.head128", Metric::LoopInstructions, same(1.5), ALL),
    goal("attention, prefill: bytes a multiply-add", "attention_tiled.f16.head128", Metric::LoopBytes, same(0.07), ALL),
    goal("attention: registers", "*attention*", Metric::Registers, same(64.0), NONE),
    goal("attention: waves",     "*attention*", Metric::Waves, [24.0, 16.0, 4.0], NONE),
    goal("attention: spills",    "*attention*", Metric::Spills,  same(0.0), ALL),
    goal("attention: scratch",   "*attention* !*attention_tiled.*.baseline", Metric::Scratch, same(0.0), ALL),
    goal("attention, prefill, cooperative: instructions a multiply-add", "attention_tiled.f16.cooperative16_lanes64_head128", Metric::LoopInstructions, same(0.3), &["navi31"]),
    goal("attention, prefill, cooperative, heads of 256: instructions a multiply-add", "attention_tiled.f16.cooperative16_lanes64_head256", Metric::LoopInstructions, same(0.32), &["navi31"]),
    // Tiles of heads of 512: the sums of a lane are in memory.
    goal("attention, heads of 512: scratch", "*attention_tiled.*.baseline", Metric::Scratch, same(0.0), NONE),
    goal("norms: barriers, with subgroups", "*_norm.subgroup*", Metric::Barriers, same(2.0), ALL),
];

const SM_80: &[&str] = &nvidia::FAMILIES;

/// Instructions for a weight of so many bits, at three for a byte of weights: a quarter of what an A100 issues in the time in
/// which its memory delivers a byte.
const fn three_a_byte(bits: f64) -> [f64; 1] {
    [3.0 * bits / 8.0]
}

#[rustfmt::skip]
const NVIDIA: &[Goal<1>] = &[
    goal("Q4_0, one token: three instructions a weight byte", "matmul.q4_0.mma1", Metric::LoopInstructions, three_a_byte(4.5), SM_80),
    goal("Q4_K, one token: three instructions a weight byte", "matmul.q4_k.mma1", Metric::LoopInstructions, three_a_byte(4.5), SM_80),
    goal("Q6_K, one token: three instructions a weight byte", "matmul.q6_k.mma1", Metric::LoopInstructions, three_a_byte(6.5625), SM_80),
    goal("Q8_0, one token: three instructions a weight byte", "matmul.q8_0.mma1", Metric::LoopInstructions, three_a_byte(8.5), SM_80),
    goal("F16, one token: three instructions a weight byte",  "matmul.f16.matvec1",  Metric::LoopInstructions, three_a_byte(16.0), SM_80),
    goal("F8, one token: three instructions a weight byte", "matmul.f8_e4m3.mma1", Metric::LoopInstructions, three_a_byte(9.0), SM_80),
    // About half of what an A100 issues in the time in which its memory delivers a byte.
    goal("MXFP4, one token: 6.2 instructions a weight byte", "matmul.mxfp4.mma1", Metric::LoopInstructions, [6.2 * 4.25 / 8.0], SM_80),
    goal("Q4_0, one token, int8: three instructions a weight byte", "matmul_int8.q4_0.matvec1", Metric::LoopInstructions, three_a_byte(4.5), SM_80),
    goal("Q4_K, one token, int8: three instructions a weight byte", "matmul_int8.q4_k.matvec1", Metric::LoopInstructions, three_a_byte(4.5), SM_80),
    goal("Q6_K, one token, int8: three instructions a weight byte", "matmul_int8.q6_k.matvec1", Metric::LoopInstructions, three_a_byte(6.5625), SM_80),
    goal("Q8_0, one token, int8: three instructions a weight byte", "matmul_int8.q8_0.matvec1", Metric::LoopInstructions, three_a_byte(8.5), SM_80),
    // Those of scales remain.
    goal("one token: conversions a weight", "matmul.*.matvec1", Metric::LoopSlow, [0.125], SM_80),
    goal("one token, exact: 16 bytes a load", "matmul.*.matvec1", Metric::LoadBytes, [16.0], NONE),
    goal("one token, int8: 16 bytes a load", "matmul_int8.*.matvec1", Metric::LoadBytes, [16.0], NONE),
    goal("many tokens: 16 bytes a load", "matmul*tile64x64", Metric::LoadBytes, [16.0], NONE),
    goal("attention, decode, matrix units: bytes a load", "attention_split.f16.mma", Metric::LoadBytes, [15.0], SM_80),
    goal("attention, decode, matrix units: instructions per 64 positions and head", "attention_split.f16.mma", Metric::LoopInstructions, [80.0], SM_80),
    goal("attention, decode, matrix units, q8_0: bytes a load", "attention_split.q8_0.mma", Metric::LoadBytes, [13.5], SM_80),
    goal("attention, decode, matrix units, q8_0: instructions per 64 positions and head", "attention_split.q8_0.mma", Metric::LoopInstructions, [240.0], SM_80),
    goal("attention, prefill, exact, q8_0: instructions a multiply-add", "attention_tiled.q8_0.mma_head128", Metric::LoopInstructions, [0.28], SM_80),
    goal("attention, decode, matrix units, heads of 576: bytes a load", "attention_split_wide.f16.mma", Metric::LoadBytes, [15.0], SM_80),
    goal("attention, decode, matrix units, heads of 576: instructions per 64 positions and head", "attention_split_wide.f16.mma", Metric::LoopInstructions, [280.0], SM_80),
    goal("attention: 16 bytes a load", "attention_*", Metric::LoadBytes, [16.0], NONE),
    // One m16n8k16 is 8 weights of each lane.
    goal("one token, matrix units: matrix products a weight", "matmul.*.mma1", Metric::LoopMatrices, [0.125], SM_80),
    // Four products of bytes each; the sums of the inputs are products as well.
    goal("one token, int8: dot products a weight", "matmul_int8.*.matvec1", Metric::LoopDots, [0.25], SM_80),
    goal("many tokens, int8: dot products a multiply-add", "matmul_int8.*.tile64x*", Metric::LoopDots, [0.25], SM_80),
    // One m16n8k16 is 64 multiply-adds of each lane: rounded as the table is.
    goal("cooperative: matrix products a multiply-add", "matmul.*.cooperative*", Metric::LoopMatrices, [0.016], SM_80),
    goal("Q4_0, many tokens, f32: instructions a multiply-add", "matmul.q4_0.tile64x64", Metric::LoopInstructions, [1.4], SM_80),
    // Two for 64 multiply-adds of each lane: both halves of x.
    goal("many tokens, matrix units: matrix products a multiply-add", "matmul.*.mma_tile*", Metric::LoopMatrices, [0.031], SM_80),
    goal("Q4_0, many tokens, matrix units: instructions a multiply-add", "matmul.q4_0.mma_tile128x64", Metric::LoopInstructions, [0.18], SM_80),
    goal("Q4_K, many tokens, matrix units: instructions a multiply-add", "matmul.q4_k.mma_tile128x64", Metric::LoopInstructions, [0.25], SM_80),
    goal("Q4_0, many tokens, int8: instructions a multiply-add", "matmul_int8.q4_0.tile64x64", Metric::LoopInstructions, [0.6], SM_80),
    // One m16n8k32 is 128 multiply-adds of each lane; with two scales in a block there are two m16n8k16.
    goal("many tokens, int8, matrix units: matrix products a multiply-add", "matmul_int8.*.mma_tile*", Metric::LoopMatrices, [0.008], SM_80),
    goal("Q4_0, many tokens, int8, matrix units: instructions a multiply-add", "matmul_int8.q4_0.mma_tile128x64", Metric::LoopInstructions, [0.12], SM_80),
    goal("Q4_K, many tokens, int8, matrix units: instructions a multiply-add", "matmul_int8.q4_k.mma_tile128x64", Metric::LoopInstructions, [0.17], SM_80),
    goal("Q4_0, many tokens, f16: instructions a multiply-add", "matmul.q4_0.f16_tile128x64", Metric::LoopInstructions, [1.0], NONE),
    goal("Q4_0, many tokens, cooperative: instructions a multiply-add", "matmul.q4_0.cooperative16_patch64x32", Metric::LoopInstructions, [0.1], NONE),
    goal("attention, prefill, cooperative: matrix products a multiply-add", "attention_tiled.*.cooperative*", Metric::LoopMatrices, [0.016], SM_80),
    goal("attention, prefill, cooperative: instructions a multiply-add", "attention_tiled.f16.cooperative16_lanes32_head128", Metric::LoopInstructions, [0.5], SM_80),
    // Each multiply-add is two products of halves: twice as many as above.
    goal("attention, prefill, exact: matrix products a multiply-add", "attention_tiled.f16.mma_*", Metric::LoopMatrices, [0.031], SM_80),
    goal("attention, prefill, exact: instructions a multiply-add", "attention_tiled.f16.mma_head128", Metric::LoopInstructions, [0.2], SM_80),
    goal("attention, prefill, exact, heads of 64: instructions a multiply-add", "attention_tiled.f16.mma_head64", Metric::LoopInstructions, [0.25], SM_80),
    goal("attention, prefill, exact, heads of 256: instructions a multiply-add", "attention_tiled.f16.mma_head256", Metric::LoopInstructions, [0.3], SM_80),
    goal("attention, prefill, exact: bytes a load", "attention_tiled.f16.mma_*", Metric::LoadBytes, [12.0], SM_80),
    goal("one token: warps", "matmul*.matvec1", Metric::Waves, [32.0], SM_80),
    goal("products: spills", "matmul*", Metric::Spills, [0.0], SM_80),
    goal("products: local memory", "matmul*", Metric::Scratch, [0.0], SM_80),
    goal("attention: spills", "attention_*", Metric::Spills, [0.0], SM_80),
    goal("attention: local memory", "attention_*", Metric::Scratch, [0.0], SM_80),
];

/// How the goals stand.
#[derive(Debug, Default, PartialEq)]
pub struct Standing {
    /// A line of text for each goal and family.
    pub lines: Vec<String>,
    /// The goals that count as reached and are missed.
    pub missed: Vec<String>,
    /// The goals that are reached and do not count as such yet.
    pub newly_reached: Vec<String>,
}

/// Compares AMD's table with the goals.
pub fn check_amd(table: &Table) -> Standing {
    standing(AMD, amd::FAMILIES, table)
}

/// Compares NVIDIA's table with the goals.
pub fn check_nvidia(table: &Table) -> Standing {
    standing(NVIDIA, nvidia::FAMILIES, table)
}

fn standing<const FAMILIES: usize>(
    goals: &[Goal<FAMILIES>],
    families: [&str; FAMILIES],
    table: &Table,
) -> Standing {
    let mut standing = Standing::default();
    for goal in goals {
        for (family, bound) in families.into_iter().zip(goal.bounds) {
            let worst = worst(goal, family, table);
            let holds = worst.is_some_and(|(value, _)| !goal.metric.is_worse(value, bound, 0.0));
            let sign = match goal.metric.better() {
                Better::More => "at least",
                _ => "at most",
            };
            let mut line = format!("{} ({family}): {sign} {bound}, ", goal.about);
            let _ = match worst {
                Some((value, kernel)) => write!(line, "{value} by {kernel}"),
                None => write!(line, "no kernel {}", goal.pattern),
            };
            match (goal.reached.contains(&family), holds) {
                (true, false) => standing.missed.push(line.clone()),
                (false, true) => standing.newly_reached.push(line.clone()),
                _ => {}
            }
            let mark = if holds { "reached" } else { "open   " };
            standing.lines.push(format!("{mark}  {line}"));
        }
    }
    standing
}

/// The worst value of a goal's metric on a family, with the kernel's name.
fn worst<'a, const FAMILIES: usize>(
    goal: &Goal<FAMILIES>,
    family: &str,
    table: &'a Table,
) -> Option<(f64, &'a str)> {
    let rows = table
        .rows
        .iter()
        .filter(|(key, _)| key.family == family && matches(goal.pattern, &key.kernel));
    let values = rows.filter_map(|(key, row)| Some((row.get(goal.metric)?, key.kernel.as_str())));
    values.reduce(
        |worst, other| match goal.metric.is_worse(other.0, worst.0, 0.0) {
            true => other,
            false => worst,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Key, Row};

    fn table(rows: &[(&str, f64)]) -> Table {
        let rows = rows.iter().map(|(kernel, waves)| {
            let mut row = Row::default();
            row.set(Metric::Waves, *waves);
            let key = Key {
                kernel: (*kernel).into(),
                family: "navi31".into(),
            };
            (key, row)
        });
        Table {
            version: String::new(),
            rows: rows.collect(),
            ..Table::default()
        }
    }

    #[test]
    fn the_worst_kernel_decides_and_reached_goals_must_hold() {
        let goals = |reached| {
            [goal(
                "waves",
                "matmul.*",
                Metric::Waves,
                same(24.0),
                reached,
            )]
        };
        let good = table(&[("matmul.a", 24.0), ("matmul.b", 32.0), ("rope", 8.0)]);
        let bad = table(&[("matmul.a", 16.0), ("matmul.b", 32.0)]);

        let held = standing(&goals(&["navi31"]), amd::FAMILIES, &good);
        assert_eq!((held.missed.len(), held.newly_reached.len()), (0, 0));
        let missed = standing(&goals(&["navi31"]), amd::FAMILIES, &bad);
        assert_eq!(
            missed.missed,
            ["waves (navi31): at least 24, 16 by matmul.a"]
        );
        let reached = standing(&goals(&[]), amd::FAMILIES, &good);
        assert_eq!(
            reached.newly_reached,
            ["waves (navi31): at least 24, 24 by matmul.a"]
        );
        let open = standing(&goals(&[]), amd::FAMILIES, &bad);
        assert_eq!((open.missed.len(), open.newly_reached.len()), (0, 0));
    }

    #[test]
    fn a_reached_goal_without_a_kernel_is_missed() {
        let goals = [goal(
            "waves",
            "matmul.*",
            Metric::Waves,
            same(24.0),
            &["navi31"],
        )];
        assert_eq!(standing(&goals, amd::FAMILIES, &table(&[])).missed.len(), 1);
    }
}
