//! Reads the assembly of NVIDIA's GPUs, SASS, as nvdisasm prints it.

use std::collections::HashMap;

use crate::assembly::{Listing, Mix};

/// An instruction with its operands.
struct Instruction<'a> {
    opcode: &'a str,
    operands: &'a str,
}

/// Parses what `nvdisasm --print-code` prints.
///
/// What follows the last exit is left out: the paths of shuffles in diverged warps, which no warp takes, and padding.
pub fn parse(text: &str) -> Listing {
    let mut instructions = Vec::new();
    let mut labels = HashMap::new();
    for line in text.lines() {
        match line.trim_end().strip_suffix(':') {
            Some(label) if label.starts_with('.') => {
                labels.insert(label, instructions.len());
            }
            _ => instructions.extend(instruction(line)),
        }
    }
    let is_exit = |one: &Instruction| one.opcode == "EXIT";
    let length = instructions
        .iter()
        .rposition(is_exit)
        .map_or(0, |at| at + 1);
    instructions.truncate(length);
    // The last instruction of each loop by the first.
    let mut ends = HashMap::new();
    for (at, one) in instructions.iter().enumerate() {
        let label = one.operands.split_once("`(").and_then(|(_, rest)| {
            let (label, _) = rest.split_once(')')?;
            labels.get(label)
        });
        match label {
            Some(first) if one.opcode.starts_with("BRA") && *first <= at => {
                ends.insert(*first, at);
            }
            _ => {}
        }
    }
    let mixes: Vec<Mix> = instructions.iter().map(|one| mix(one.opcode)).collect();
    Listing::of(&mixes, ends)
}

/// Reads a line such as `        /*0040*/              @!P0 LDG.E.128 R4, [R2.64] ;`.
fn instruction(line: &str) -> Option<Instruction<'_>> {
    let (_, code) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let code = code.split(';').next()?.trim();
    let code = match code.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace)?.1.trim_start(),
        None => code,
    };
    let (opcode, operands) = code.split_once(char::is_whitespace).unwrap_or((code, ""));
    let is_opcode = opcode.starts_with(|c: char| c.is_ascii_uppercase());
    is_opcode.then_some(Instruction { opcode, operands })
}

fn mix(opcode: &str) -> Mix {
    if opcode == "NOP" {
        return Mix::default();
    }
    let mut parts = opcode.split('.');
    let name = parts.next().unwrap_or_default();
    let is_load = matches!(name, "LDG" | "LD" | "LDGSTS");
    let count = |counts: bool| f64::from(u8::from(counts));
    let width = || {
        let widths = parts.filter_map(|part| WIDTHS.iter().find(|(name, _)| *name == part));
        widths.map(|(_, bytes)| *bytes).next().unwrap_or(4.0)
    };
    Mix {
        instructions: 1.0,
        valu: 0.0,
        loads: count(is_load),
        load_bytes: if is_load { width() } else { 0.0 },
        barriers: count(name == "BAR"),
        dot_products: count(name == "IDP"),
        matrix_products: count(matches!(name, "HMMA" | "IMMA" | "HGMMA")),
        slow: count(SLOW.contains(&name)),
    }
}

/// What runs for 16 lanes a clock, while a multiprocessor issues instructions for 128 (CUDA C++ Programming Guide,
/// "Throughput of Native Arithmetic Instructions").
const SLOW: [&str; 8] = ["I2F", "F2I", "F2F", "FRND", "MUFU", "POPC", "FLO", "BREV"];

/// The bytes that a lane loads with an instruction, by the part of its name that is not 32 bits.
const WIDTHS: [(&str, f64); 6] = [
    ("128", 16.0),
    ("64", 8.0),
    ("U8", 1.0),
    ("S8", 1.0),
    ("U16", 2.0),
    ("S16", 2.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// In the form of what nvdisasm prints: a loop with a loop in it, an early exit, and the path of a shuffle in a
    /// diverged warp behind the last exit, which returns into the loop.
    const LISTING: &str = "\t.headerflags\t@\"EF_CUDA_SM80\"
.text.main_main:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/              @P0  EXIT ;
.L_x_0:
        /*0020*/                   LDG.E.128.CONSTANT R4, [R2.64] ;
        /*0030*/                   LDG.E.U16.CONSTANT R8, [R2.64+0x10] ;
        /*0040*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_1:
        /*0050*/                   LDS.128 R12, [R9] ;
        /*0060*/                   IDP.4A.S8.S8 R10, R4, R12, R10 ;
        /*0070*/                   HMMA.16816.F32 R20, R4, R12, R20 ;
        /*0078*/                   I2F.U8 R21, R20.B3 ;
        /*0080*/             @!P1  BRA `(.L_x_1) ;
        /*0090*/              @P2  BRA `(.L_x_0) ;
        /*00a0*/                   BRA.DIV ~URZ, `(.L_x_2) ;
        /*00b0*/                   EXIT ;
.L_x_2:
        /*00c0*/                   WARPSYNC.COLLECTIVE R2, `(.L_x_3) ;
        /*00d0*/                   BRA `(.L_x_1) ;
.L_x_3:
        /*00e0*/                   BRA `(.L_x_3);
        /*00f0*/                   NOP;
";

    #[test]
    fn loops_are_found_up_to_the_last_exit() {
        let listing = parse(LISTING);
        let [outer] = &listing.loops[..] else {
            panic!("{listing}");
        };
        let own = Mix {
            instructions: 4.0,
            loads: 2.0,
            load_bytes: 18.0,
            barriers: 1.0,
            ..Mix::default()
        };
        assert_eq!(outer.own, own);
        let [inner] = &outer.inner[..] else {
            panic!("{listing}");
        };
        let own = Mix {
            instructions: 5.0,
            dot_products: 1.0,
            matrix_products: 1.0,
            slow: 1.0,
            ..Mix::default()
        };
        assert_eq!(inner.own, own);
        assert_eq!(listing.total.instructions, 13.0);
    }

    #[test]
    fn loads_have_the_width_of_their_names() {
        let rows = [
            ("LDG.E.128.CONSTANT", 16.0),
            ("LDG.E.64", 8.0),
            ("LDG.E", 4.0),
            ("LDG.E.U8", 1.0),
            ("LDG.E.S16", 2.0),
            ("LDGSTS.E.BYPASS.128", 16.0),
        ];
        for (opcode, bytes) in rows {
            let mix = mix(opcode);
            assert_eq!((mix.loads, mix.load_bytes), (1.0, bytes), "{opcode}");
        }
        for opcode in ["LDS.128", "LDL.64", "LDC", "STG.E.128"] {
            assert_eq!(mix(opcode).loads, 0.0, "{opcode}");
        }
    }
}
