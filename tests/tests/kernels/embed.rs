//! `embed.<encoding>`.

use wisp_engine::weights::Encoding;
use wisp_shaders::params::EmbedParams;
use wisp_tests::guarded::{Hostile, check_hostile, spoiled};
use wisp_tests::kernels::{Case, case, check, exact, noise, weight};

use crate::matmul::SIZES;

/// A chunk of a table from row 2 on; `table_rows` counts those of the whole table.
fn embed(encoding: Encoding, ids: &[u32], [rows, table_rows, cols]: [usize; 3]) -> Case {
    let tokens = ids.len();
    let cols = cols.next_multiple_of(encoding.file_block_weights());
    // With an odd number of tokens, a token's id is the second of two numbers.
    let stride = 1 + tokens % 2;
    let params = EmbedParams {
        tokens: tokens as u32,
        rows: rows as u32,
        row_offset: 2,
        table_rows: table_rows as u32,
        cols: cols as u32,
        blocks: cols.div_ceil(32) as u32,
        scale: 1.5,
        id_stride: stride as u32,
        id_offset: stride as u32 - 1,
    };
    let numbers = ids.iter().flat_map(|id| match stride {
        1 => vec![*id],
        _ => vec![u32::MAX, *id],
    });
    let numbers: Vec<u32> = numbers.collect();
    let mut memory = vec![exact(&numbers), exact(&noise(3, tokens * cols))];
    memory.extend(weight(encoding, rows, cols));
    case(params, memory, &[cols.div_ceil(32), tokens], cols)
}

#[test]
fn kernels_match_the_twin() {
    for encoding in Encoding::device_encodings() {
        let cases = SIZES.iter().map(|&[tokens, rows, cols]| {
            let ids: Vec<u32> = (0..tokens).map(|t| (t * 7 % (rows + 4)) as u32).collect();
            embed(encoding, &ids, [rows, rows + 4, cols])
        });
        let op = format!("embed.{}", encoding.name());
        check(&op, &cases.collect::<Vec<_>>());
    }
}

#[test]
fn invalid_ids_select_the_last_row() {
    let (rows, cols) = (5usize, 96);
    for encoding in Encoding::device_encodings() {
        // The chunk ends with the table, or before it: then the last row is another chunk's.
        let cases = [rows + 2, rows + 4].map(|table_rows| {
            let last = table_rows as u32 - 1;
            let valid: Vec<u32> = (0..17).map(|t| t * 3 % table_rows as u32).collect();
            let ids = spoiled(&valid, table_rows as u32);
            let clamped: Vec<u32> = ids.iter().map(|id| (*id).min(last)).collect();
            let [hostile, reference] =
                [&ids, &clamped].map(|ids| embed(encoding, ids, [rows, table_rows, cols]));
            Hostile::refused(hostile, reference)
        });
        check_hostile(&format!("embed.{}", encoding.name()), &cases);
    }
}
