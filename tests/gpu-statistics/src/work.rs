//! What a turn of a kernel's hot loop achieves, so that its instructions can be stated per weight or multiply-add.
//!
//! What a turn achieves no compiler can tell, so a table does, in terms of the kernel's own constants. The hot loop is the
//! one that loads the most bytes, of the outermost loops with as many inner loops as the table states. If a kernel has matrix
//! products, it is one that has some: an outermost loop or, if none is such, one within them. Kernels without a row are measured
//! by a turn of their longest loop.

use std::collections::BTreeMap;

use crate::{
    assembly::{Listing, Loop, Mix},
    pattern::matches,
};

/// What a turn of the hot loop achieves in one lane. Texts are products of numbers and constants of the kernel,
/// such as `32*ROWS`, which may end in a divisor: `EDGE*EDGE/WG`.
struct Work {
    /// Names of kernels.
    pattern: &'static str,
    /// What is counted.
    unit: &'static str,
    /// How many units a lane achieves in a turn.
    units: &'static str,
    /// How often each inner loop turns in a turn of the loop around it, in order of appearance. Compilers
    /// unroll more loops for some families than for others: the list with as many loops as there are holds.
    turns: &'static [&'static [&'static str]],
    /// Columns of a row that all its lanes cover in a turn; empty for kernels without columns.
    columns: &'static str,
}

/// Hot loops without inner loops.
const UNROLLED: &[&[&str]] = &[&[]];

/// Sums in cooperative matrices are rarely rescaled, in loops over them that are unrolled or not.
const RESCALES: &[&[&str]] = &[
    &[],
    &["0", "0"],
    &["0", "0", "0", "0"],
    &["0", "0", "0", "0", "0", "0", "0", "0"],
];

/// The first row that fits a kernel's name holds. Attention is stated for heads of 128 elements.
#[rustfmt::skip]
const WORK: &[Work] = &[
    // Two lanes share a block of 32 weights.
    Work { pattern: "matmul*_int8.*.matvec*", unit: "weight", units: "32*ROWS", turns: UNROLLED, columns: "32*LANES" },
    Work { pattern: "matmul*.matvec*", unit: "weight", units: "16*ROWS", turns: UNROLLED, columns: "16*WG" },
    Work { pattern: "matmul*_int8.*.tile64x*", unit: "multiply-add", units: "EDGE_ROWS*EDGE_TOKENS*32/WG", turns: UNROLLED, columns: "" },
    // On some families a part of the last loop stays rolled.
    Work { pattern: "matmul*.tile64x*", unit: "multiply-add", units: "EDGE_ROWS*EDGE_TOKENS*32/WG", turns: &[&[], &["4"]], columns: "" },
    // 64 blocks of columns. Subgroups of 64 lanes, the driver's choice, compute half of the patches of 64 by 32 in a turn.
    Work { pattern: "matmul*.cooperative*_patch64x64", unit: "multiply-add", units: "64*EDGE_ROWS*EDGE_TOKENS*32/WG", turns: &[&["64", "0", "0"]], columns: "" },
    Work { pattern: "matmul*.cooperative*", unit: "multiply-add", units: "64*EDGE_ROWS*EDGE_TOKENS*16/WG", turns: &[&["64", "0", "0"]], columns: "" },
    // The loop before it finds the largest inputs.
    Work { pattern: "matmul*.f16_tile*", unit: "multiply-add", units: "EDGE_ROWS*EDGE_TOKENS*32/WG", turns: UNROLLED, columns: "" },
    // Each lane computes a score over 32 vec4s, takes part in two reductions, and sums the values of 32 positions.
    Work {
        pattern: "*attention.*.baseline", unit: "64 positions", units: "WG/64", columns: "",
        // Keys in q8_0 have a loop over 4 blocks.
        turns: &[&["32", "LANES", "LANES", "32"], &["4", "8", "LANES", "LANES", "32"]],
    },
    // A step of 128 positions: scores by four vec4s, none left over, perhaps a pass over the largest scores, and the
    // values of half the positions, eight at a time.
    // With few heads, of a quarter of the positions, two vec4s of each.
    Work {
        pattern: "attention_split.f16.heads* !*.heads4", unit: "64 positions", units: "CHUNK_STEP*HEADS/64", columns: "",
        turns: &[
            &["8", "0", "4"],
            &["8", "0", "64/HEADS", "4"],
        ],
    },
    Work {
        pattern: "attention_split.*", unit: "64 positions", units: "CHUNK_STEP*HEADS/64", columns: "",
        turns: &[
            &["8", "0", "8"],
            &["8", "0", "64/HEADS", "8"],
        ],
    },
    // The same for heads of 512: scores over 128 vec4s, and the values of all positions, two vec4s of each.
    Work {
        pattern: "attention_split_wide.*", unit: "64 positions", units: "CHUNK_STEP*HEADS/64", columns: "",
        turns: &[
            &["32", "0", "16"],
            &["32", "0", "64/HEADS", "16"],
        ],
    },
    // A tile of positions on matrix units, whose loops rescale sums. Subgroups are of 64 lanes: kernels for 32 compute half of
    // the patches at a time.
    Work { pattern: "*attention_tiled.*.cooperative16_lanes32_*", unit: "multiply-add", units: "ROWS*POSITIONS*DIMS/WG", turns: RESCALES, columns: "" },
    Work { pattern: "*attention_tiled.*.cooperative16_lanes64_*", unit: "multiply-add", units: "ROWS*POSITIONS*DIMS*2/WG", turns: RESCALES, columns: "" },
    // The largest head of each variant, and 64 tiles of positions. The tile's tokens, of four heads each; the tiles:
    // slices of queries and keys, where no query has a part of a vec4; slices of values.
    Work {
        pattern: "*attention_tiled.*", unit: "multiply-add", units: "64*ROWS*POSITIONS*VEC4S*8/WG", columns: "",
        turns: &[
            &["ROWS/4", "64", "VEC4S/SLICE", "0", "POSITIONS/VALUES"],
            &["ROWS/4", "64", "VEC4S/SLICE", "0", "POSITIONS/VALUES", "VALUES/4"],
            // For heads of 512: the four values of a slice, in two loops that turn once, and the results, counted once.
            &["ROWS/4", "64", "VEC4S/SLICE", "0", "POSITIONS/VALUES", "VALUES/4", "1", "1"],
        ],
    },
];

/// The rows of NVIDIA's compiler, which come before the others: its subgroups are of 32 lanes, and it unrolls other loops.
#[rustfmt::skip]
const NVIDIA: &[Work] = &[
    // Heads of 256, which count as two of 128, in twice as many lanes as other kernels of the op have: slices of keys, and no
    // capped scores.
    Work { pattern: "attention_split.*.mma", unit: "64 positions", units: "CHUNK_STEP*HEADS/64", turns: &[&["DIMS/64", "0"]], columns: "" },
    // The same for heads of 576, in twice as many lanes: slices of keys, no capped scores, and the values of four runs of positions.
    Work { pattern: "attention_split_wide.*.mma", unit: "64 positions", units: "CHUNK_STEP*HEADS/128", turns: &[&["DIMS/64", "0", "4"]], columns: "" },
    // Four of eight positions whose values are summed at a time.
    Work { pattern: "attention_split_wide.*.baseline", unit: "64 positions", units: "CHUNK_STEP*HEADS/64", turns: &[&["32", "0", "16", "2"]], columns: "" },
    // Steps of blocks. A loop over pairs of rows unpacks weights, unless it is unrolled; one over blocks multiplies, with `splits`
    // a quarter of them.
    Work { pattern: "matmul*_int8.*.mma_tile64x32", unit: "multiply-add", units: "EDGE_ROWS*EDGE_TOKENS*32*BLOCKS/WG", turns: &[&["BLOCKS/4"], &["2", "BLOCKS/4"]], columns: "" },
    Work { pattern: "matmul*_int8.*.mma_tile128x64", unit: "multiply-add", units: "EDGE_ROWS*EDGE_TOKENS*32*BLOCKS/WG", turns: &[&["BLOCKS"], &["2", "BLOCKS"]], columns: "" },
    // Steps of blocks. A loop over these splits x, unless it is unrolled.
    Work { pattern: "matmul*.*mma_tile64x32", unit: "multiply-add", units: "EDGE_ROWS*EDGE_TOKENS*32*BLOCKS/WG", turns: &[&[], &["BLOCKS"]], columns: "" },
    // The same, and a loop over blocks that multiplies.
    Work { pattern: "matmul*.*mma_tile128x64", unit: "multiply-add", units: "EDGE_ROWS*EDGE_TOKENS*32*BLOCKS/WG", turns: &[&["BLOCKS", "BLOCKS"], &["BLOCKS"]], columns: "" },
    // Steps of blocks; the loop in them splits x into halves, each time for several steps.
    Work { pattern: "matmul*.mma*", unit: "weight", units: "32*STEP*ROWS/WG", turns: &[&["4*TOKENS*STEP/WG"]], columns: "" },
    // The last loop, in two halves.
    Work { pattern: "matmul*.tile64x*", unit: "multiply-add", units: "EDGE_ROWS*EDGE_TOKENS*32/WG", turns: &[&[], &["4", "4"]], columns: "" },
    // 64 blocks of columns. All patches are computed at once, those of 64 by 64 by half of the subgroups: the others repeat
    // the last. Results are stored after the blocks, in a loop for each matrix.
    Work { pattern: "matmul*.cooperative*", unit: "multiply-add", units: "64*EDGE_ROWS*EDGE_TOKENS*32/WG", turns: &[
        &["64", "0", "0", "0", "0", "0", "0", "0", "0"],
        &["64", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0"],
    ], columns: "" },
    // A half of a block, of two octets of columns. Both halves count with the sums in f32 that follow them, although
    // blocks with one scale have those once.
    Work { pattern: "matmul*.f16_tile*", unit: "multiply-add", units: "EDGE_ROWS*EDGE_TOKENS*32/WG", turns: &[&[], &["2", "2"]], columns: "" },
    // A tile of positions, as AMD's.
    Work { pattern: "*attention_tiled.*.cooperative*", unit: "multiply-add", units: "ROWS*POSITIONS*DIMS*2/WG", turns: RESCALES, columns: "" },
    // The tiles have a loop that caps scores.
    Work { pattern: "*attention_tiled.*.mma_*", unit: "multiply-add", units: "64*ROWS*POSITIONS*DIMS*2/WG", turns: &[&["ROWS/4", "0", "64", "0"]], columns: "" },
    // The rest of the loop over the tile's tokens has a loop of its own.
    Work {
        pattern: "*attention_tiled.*", unit: "multiply-add", units: "64*ROWS*POSITIONS*VEC4S*8/WG", columns: "",
        turns: &[
            &["ROWS/4", "0", "64", "VEC4S/SLICE", "0", "POSITIONS/VALUES"],
            &["ROWS/4", "0", "64", "VEC4S/SLICE", "0", "POSITIONS/VALUES", "VALUES/4"],
        ],
    },
];

/// The unit of kernels that are in no row of the table.
pub const TURN: &str = "turn";

/// The columns at which the share of busy lanes is stated: those of a small model (Qwen2.5-0.5B).
const COLUMNS: f64 = 896.0;

/// A hot loop's cost.
pub struct HotLoop {
    /// What the numbers are stated for: a weight, a multiply-add, a turn.
    pub unit: &'static str,
    /// Instructions and bytes for a unit, and loads.
    pub per_unit: Mix,
    /// Percent of the lanes' turns that do work at 896 columns.
    pub busy_lanes: Option<f64>,
}

/// Which compiler a listing is from: each unrolls other loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// Mesa's for AMD's GPUs.
    Aco,
    /// NVIDIA's.
    Nvrtc,
}

/// Finds a kernel's hot loop; none if the kernel has no loop.
///
/// # Errors
///
/// If the row for the kernel does not fit it: names of missing constants, another number of inner loops.
pub fn hot_loop(
    kernel: &str,
    constants: &BTreeMap<String, u32>,
    listing: &Listing,
    compiler: Compiler,
) -> Result<Option<HotLoop>, String> {
    let own = match compiler {
        Compiler::Aco => &[],
        Compiler::Nvrtc => NVIDIA,
    };
    let mut rows = own.iter().chain(WORK);
    let Some(work) = rows.find(|work| matches(work.pattern, kernel)) else {
        let turns = listing
            .loops
            .iter()
            .map(|one| one.iteration(&mut std::iter::empty()));
        let longest = turns.max_by(|a, b| a.instructions.total_cmp(&b.instructions));
        return Ok(longest.map(|per_unit| HotLoop {
            unit: TURN,
            per_unit,
            busy_lanes: None,
        }));
    };
    let number = |text: &str| product(text, constants);
    let multiplies = |one: &Loop| one.iteration(&mut std::iter::empty()).matrix_products > 0.0;
    let has_products = listing.loops.iter().any(multiplies);
    let list_for = |one: &Loop| {
        let mut lists = work.turns.iter();
        let list = lists.find(|list| list.len() == one.inner_loops())?;
        (!has_products || multiplies(one)).then_some(list)
    };
    let mut loops: Vec<&Loop> = listing.loops.iter().collect();
    while has_products && !loops.is_empty() && loops.iter().all(|one| list_for(one).is_none()) {
        loops = loops.into_iter().flat_map(|one| &one.inner).collect();
    }
    let mut turns = Vec::new();
    for one in loops {
        if let Some(inner) = list_for(one) {
            let inner: Vec<f64> = inner
                .iter()
                .map(|text| number(text))
                .collect::<Result<_, _>>()?;
            turns.push(one.iteration(&mut inner.into_iter()));
        }
    }
    let hottest = turns
        .into_iter()
        .max_by(|a, b| a.load_bytes.total_cmp(&b.load_bytes));
    let hottest = hottest.ok_or_else(|| {
        format!("no loop has as many inner loops as work.rs states; `gpu-statistics loops {kernel}` shows them")
    })?;
    let busy_lanes = match work.columns {
        "" => None,
        columns => {
            let columns = number(columns)?;
            Some(100.0 * COLUMNS / ((COLUMNS / columns).ceil() * columns))
        }
    };
    Ok(Some(HotLoop {
        unit: work.unit,
        per_unit: hottest.times(1.0 / number(work.units)?),
        busy_lanes,
    }))
}

/// Evaluates a product of numbers and constants, with at most one divisor.
fn product(text: &str, constants: &BTreeMap<String, u32>) -> Result<f64, String> {
    let factor = |text: &str| match text.parse() {
        Ok(number) => Ok(number),
        Err(_) => constants
            .get(text)
            .map(|value| f64::from(*value))
            .ok_or_else(|| format!("no constant `{text}`, which work.rs names")),
    };
    let (dividend, divisor) = text.split_once('/').unwrap_or((text, "1"));
    let dividend = dividend
        .split('*')
        .map(factor)
        .product::<Result<f64, _>>()?;
    Ok(dividend / factor(divisor)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constants() -> BTreeMap<String, u32> {
        [("ROWS", 4), ("WG", 64)]
            .map(|(name, value)| (name.into(), value))
            .into()
    }

    fn single_loop(instructions: f64, load_bytes: f64) -> Loop {
        Loop {
            own: Mix {
                instructions,
                load_bytes,
                ..Mix::default()
            },
            inner: Vec::new(),
        }
    }

    #[test]
    fn products_use_constants_and_a_divisor() {
        assert_eq!(product("32*ROWS", &constants()), Ok(128.0));
        assert_eq!(product("ROWS*32/WG", &constants()), Ok(2.0));
        assert!(
            product("TOKENS", &constants())
                .unwrap_err()
                .contains("TOKENS")
        );
    }

    #[test]
    fn the_loop_that_loads_most_is_stated_per_weight() {
        let listing = Listing {
            loops: vec![single_loop(900.0, 4.0), single_loop(320.0, 208.0)],
            ..Listing::default()
        };
        let hot = hot_loop("matmul.q4_0.matvec1", &constants(), &listing, Compiler::Aco)
            .unwrap()
            .unwrap();
        assert_eq!((hot.unit, hot.per_unit.instructions), ("weight", 5.0));
        assert_eq!(hot.busy_lanes, Some(87.5), "56 of 64 lanes have 16 columns");
    }

    /// Loops before it may load more, and it may be within another one.
    #[test]
    fn the_hot_loop_of_a_kernel_for_matrix_units_is_one_that_multiplies() {
        let mut products = single_loop(320.0, 44.0);
        products.own.matrix_products = 64.0;
        let around = Loop {
            own: Mix::default(),
            inner: vec![single_loop(192.0, 308.0), products],
        };
        let listing = Listing {
            loops: vec![single_loop(180.0, 400.0), around],
            ..Listing::default()
        };
        let constants = ["EDGE_ROWS", "EDGE_TOKENS", "BLOCKS", "WG"].map(|name| (name.into(), 32));
        let hot = hot_loop(
            "matmul.q4_0.mma_tile64x32",
            &constants.into(),
            &listing,
            Compiler::Nvrtc,
        );
        let per_unit = hot.unwrap().unwrap().per_unit;
        assert_eq!(per_unit.matrix_products, 64.0 / f64::from(32 << 10));
    }

    #[test]
    fn kernels_without_a_row_are_stated_by_their_longest_loop() {
        let listing = Listing {
            loops: vec![single_loop(9.0, 4.0), single_loop(6.0, 208.0)],
            ..Listing::default()
        };
        let hot = hot_loop("rope.baseline", &constants(), &listing, Compiler::Aco)
            .unwrap()
            .unwrap();
        assert_eq!((hot.unit, hot.per_unit.instructions), (TURN, 9.0));
        let none = hot_loop(
            "rope.baseline",
            &constants(),
            &Listing::default(),
            Compiler::Aco,
        );
        assert!(none.unwrap().is_none());
    }

    #[test]
    fn another_number_of_inner_loops_is_an_error() {
        let outer = Loop {
            inner: vec![single_loop(1.0, 0.0)],
            ..single_loop(9.0, 4.0)
        };
        let listing = Listing {
            loops: vec![outer],
            ..Listing::default()
        };
        let error = hot_loop("matmul.q4_0.matvec1", &constants(), &listing, Compiler::Aco)
            .err()
            .unwrap();
        assert!(error.contains("inner loops"), "{error}");
    }

    #[test]
    fn rows_of_a_compiler_come_before_the_others() {
        let listing = Listing {
            loops: vec![Loop {
                inner: vec![single_loop(10.0, 0.0), single_loop(20.0, 0.0)],
                ..single_loop(8.0, 64.0)
            }],
            ..Listing::default()
        };
        let constants = [("EDGE_ROWS", 64), ("EDGE_TOKENS", 64), ("WG", 128)];
        let constants = constants.map(|(name, value)| (name.into(), value)).into();
        let hot = |compiler| hot_loop("matmul.q4_0.tile64x64", &constants, &listing, compiler);
        let instructions = hot(Compiler::Nvrtc).unwrap().unwrap().per_unit.instructions;
        assert_eq!(instructions, (8.0 + 4.0 * 10.0 + 4.0 * 20.0) / 1024.0);
        assert!(hot(Compiler::Aco).is_err());
    }
}
