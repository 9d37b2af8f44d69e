//! Reads the assembly that RADV's compiler, ACO, prints.

use std::collections::HashMap;

use crate::assembly::{Listing, Mix};

/// Parses ACO's text.
pub fn parse(text: &str) -> Listing {
    let mut instructions = Vec::new();
    let mut labels = HashMap::new();
    // The last instruction of each loop by the first.
    let mut ends: HashMap<usize, usize> = HashMap::new();
    for line in text.lines() {
        if let Some((label, "")) = line.split_once(':') {
            labels.insert(label, instructions.len());
        }
        let code = line.split(';').next().unwrap_or_default();
        let mut words = code.split_whitespace();
        let (true, Some(opcode)) = (line.starts_with('\t'), words.next()) else {
            continue;
        };
        if opcode.starts_with('(') {
            continue;
        }
        let is_branch = opcode.starts_with("s_branch") || opcode.starts_with("s_cbranch");
        let target = words.last().filter(|_| is_branch);
        if let Some(first) = target.and_then(|label| labels.get(label)) {
            ends.insert(*first, instructions.len());
        }
        instructions.push(mix(opcode));
    }
    Listing::of(&instructions, ends)
}

fn mix(opcode: &str) -> Mix {
    if matches!(opcode, "s_delay_alu" | "s_nop" | "s_clause") {
        return Mix::default();
    }
    let is_load = is_load(opcode);
    let count = |counts: bool| f64::from(u8::from(counts));
    Mix {
        instructions: 1.0,
        valu: count(opcode.starts_with("v_")),
        loads: count(is_load),
        load_bytes: if is_load { loaded_bytes(opcode) } else { 0.0 },
        barriers: count(opcode.starts_with("s_barrier")),
        matrix_products: count(opcode.starts_with("v_wmma")),
        ..Mix::default()
    }
}

fn is_load(opcode: &str) -> bool {
    let from = ["buffer_load", "global_load", "flat_load", "scratch_load"];
    from.iter().any(|prefix| opcode.starts_with(prefix))
}

/// Bytes that a lane loads with an instruction, in GCN's spelling (`dwordx4`, `ubyte`) or RDNA 3's (`b128`, `u8`).
fn loaded_bytes(opcode: &str) -> f64 {
    const BYTES: [(&str, f64); 12] = [
        ("dwordx2", 8.0),
        ("dwordx3", 12.0),
        ("dwordx4", 16.0),
        ("b64", 8.0),
        ("b96", 12.0),
        ("b128", 16.0),
        ("byte", 1.0),
        ("u8", 1.0),
        ("i8", 1.0),
        ("short", 2.0),
        ("16", 2.0),
        ("dword", 4.0),
    ];
    let known = BYTES.iter().find(|(part, _)| opcode.contains(part));
    known.map_or(4.0, |(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembly::Loop;

    fn counts(instructions: f64, valu: f64, (loads, load_bytes): (f64, f64), barriers: f64) -> Mix {
        Mix {
            instructions,
            valu,
            loads,
            load_bytes,
            barriers,
            ..Mix::default()
        }
    }

    /// An excerpt of what RADV printed for a tile in workgroup memory: a loop over blocks, which loads x in a
    /// loop and multiplies in another.
    #[test]
    fn nested_loops_are_found_with_their_instructions() {
        let listing = parse(include_str!("fixtures/nested_loops.s"));
        let leaf = |own| Loop {
            own,
            inner: Vec::new(),
        };
        let outer = Loop {
            own: counts(24.0, 4.0, (4.0, 64.0), 2.0),
            inner: vec![
                leaf(counts(16.0, 5.0, (1.0, 16.0), 0.0)),
                leaf(counts(18.0, 11.0, (0.0, 0.0), 0.0)),
            ],
        };
        assert_eq!(listing.loops, [outer]);
        assert_eq!(listing.total, counts(64.0, 20.0, (5.0, 80.0), 2.0));
    }

    #[test]
    fn loads_have_the_width_of_their_names() {
        let rows = [
            ("buffer_load_dwordx4", 16.0),
            ("global_load_dwordx2", 8.0),
            ("buffer_load_dword", 4.0),
            ("buffer_load_ubyte", 1.0),
            ("buffer_load_short_d16_hi", 2.0),
            ("buffer_load_b128", 16.0),
            ("global_load_b64", 8.0),
            ("buffer_load_b32", 4.0),
            ("buffer_load_u16", 2.0),
            ("buffer_load_d16_hi_b16", 2.0),
            ("buffer_load_d16_u8", 1.0),
        ];
        for (opcode, bytes) in rows {
            assert_eq!(
                (mix(opcode).loads, loaded_bytes(opcode)),
                (1.0, bytes),
                "{opcode}"
            );
        }
        for opcode in ["s_load_b128", "ds_load_b128", "buffer_store_b32"] {
            assert_eq!(mix(opcode).loads, 0.0, "{opcode}");
        }
    }
}
