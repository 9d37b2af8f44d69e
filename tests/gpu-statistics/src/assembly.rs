//! Reads the assembly that RADV's compiler, ACO, prints: the kinds of its instructions, and its loops.

use std::{collections::HashMap, fmt, ops::AddAssign};

/// Counts of instructions. They are whole numbers until they are weighted by how often loops turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mix {
    /// All instructions but hints to the scheduler.
    pub instructions: f64,
    /// Those of the vector ALUs: arithmetic of every lane, dot products and matrix products.
    pub valu: f64,
    /// Loads of lanes from memory, without workgroup memory.
    pub loads: f64,
    /// Bytes that a lane loads with them.
    pub load_bytes: f64,
    /// Barriers of the workgroup.
    pub barriers: f64,
}

/// A loop: the instructions from a label to the last branch back to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loop {
    /// The instructions that are in no inner loop.
    pub own: Mix,
    /// The inner loops in order of appearance.
    pub inner: Vec<Loop>,
}

/// A kernel's assembly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// All instructions, each counted once.
    pub total: Mix,
    /// The outermost loops in order of appearance.
    pub loops: Vec<Loop>,
}

impl Mix {
    fn of(opcode: &str) -> Mix {
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
        }
    }

    /// Returns these counts taken `times` over.
    pub fn times(self, times: f64) -> Mix {
        Mix {
            instructions: self.instructions * times,
            valu: self.valu * times,
            loads: self.loads * times,
            load_bytes: self.load_bytes * times,
            barriers: self.barriers * times,
        }
    }
}

impl AddAssign for Mix {
    fn add_assign(&mut self, other: Mix) {
        self.instructions += other.instructions;
        self.valu += other.valu;
        self.loads += other.loads;
        self.load_bytes += other.load_bytes;
        self.barriers += other.barriers;
    }
}

impl Loop {
    /// Returns an iteration's instructions, given how often each inner loop turns, in order of appearance; a
    /// loop in a loop follows it. Inner loops beyond those given are counted once.
    pub fn iteration(&self, turns: &mut impl Iterator<Item = f64>) -> Mix {
        let mut mix = self.own;
        for inner in &self.inner {
            let times = turns.next().unwrap_or(1.0);
            mix += inner.iteration(turns).times(times);
        }
        mix
    }

    fn fmt_indented(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        writeln!(f, "{:indent$}loop: {}", "", self.own, indent = 2 * depth)?;
        let mut inner = self.inner.iter();
        inner.try_for_each(|one| one.fmt_indented(f, depth + 1))
    }

    /// Returns the number of loops within this one.
    pub fn inner_loops(&self) -> usize {
        self.inner.iter().map(|inner| 1 + inner.inner_loops()).sum()
    }
}

impl Listing {
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
            instructions.push(Mix::of(opcode));
        }
        let mut ranges: Vec<(usize, usize)> = ends.into_iter().collect();
        ranges.sort_unstable();
        let (total, loops) = within(&instructions, 0, instructions.len(), &mut ranges.as_slice());
        Listing {
            total: loops.iter().fold(total, |mut total, one| {
                total += one.iteration(&mut std::iter::empty());
                total
            }),
            loops,
        }
    }
}

/// One line for the whole kernel and one for each loop, without its inner loops, which follow indented.
impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "all: {}", self.total)?;
        self.loops.iter().try_for_each(|one| one.fmt_indented(f, 1))
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} instructions, {} VALU, {} loads of {} bytes, {} barriers",
            self.instructions, self.valu, self.loads, self.load_bytes, self.barriers
        )
    }
}

/// Sums the instructions from `first` to before `end` that are in no loop, and returns them with the loops there.
/// The ranges that follow are sorted by their beginnings; those there are taken off.
fn within(
    instructions: &[Mix],
    first: usize,
    end: usize,
    ranges: &mut &[(usize, usize)],
) -> (Mix, Vec<Loop>) {
    let mut own = Mix::default();
    let mut loops = Vec::new();
    let mut next = first;
    while next < end {
        match ranges.split_first() {
            Some((&(begin, last), rest)) if begin == next => {
                *ranges = rest;
                // Loops nest in code that a compiler has structured.
                let after = (last + 1).min(end);
                let (own, inner) = within(instructions, begin, after, ranges);
                loops.push(Loop { own, inner });
                next = after;
            }
            _ => {
                own += instructions[next];
                next += 1;
            }
        }
    }
    (own, loops)
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

    fn mix(instructions: f64, valu: f64, (loads, load_bytes): (f64, f64), barriers: f64) -> Mix {
        Mix {
            instructions,
            valu,
            loads,
            load_bytes,
            barriers,
        }
    }

    /// An excerpt of what RADV printed for a tile in workgroup memory: a loop over blocks, which loads x in a
    /// loop and multiplies in another.
    #[test]
    fn nested_loops_are_found_with_their_instructions() {
        let listing = Listing::parse(include_str!("fixtures/nested_loops.s"));
        let leaf = |own| Loop {
            own,
            inner: Vec::new(),
        };
        let outer = Loop {
            own: mix(24.0, 4.0, (4.0, 64.0), 2.0),
            inner: vec![
                leaf(mix(16.0, 5.0, (1.0, 16.0), 0.0)),
                leaf(mix(18.0, 11.0, (0.0, 0.0), 0.0)),
            ],
        };
        assert_eq!(listing.loops, [outer]);
        assert_eq!(listing.total, mix(64.0, 20.0, (5.0, 80.0), 2.0));
    }

    #[test]
    fn inner_loops_count_as_often_as_they_turn() {
        let leaf = |instructions| Loop {
            own: mix(instructions, 0.0, (1.0, 4.0), 0.0),
            inner: Vec::new(),
        };
        let middle = Loop {
            inner: vec![leaf(5.0)],
            ..leaf(3.0)
        };
        let outer = Loop {
            inner: vec![middle, leaf(7.0)],
            ..leaf(100.0)
        };
        assert_eq!(outer.inner_loops(), 3);
        // The middle loop turns twice, the one in it 4 times each, the last 10 times.
        let iteration = outer.iteration(&mut [2.0, 4.0, 10.0].into_iter());
        assert_eq!(
            iteration.instructions,
            100.0 + 2.0 * (3.0 + 4.0 * 5.0) + 10.0 * 7.0
        );
        assert_eq!(iteration.loads, 1.0 + 2.0 * 5.0 + 10.0);
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
                (Mix::of(opcode).loads, loaded_bytes(opcode)),
                (1.0, bytes),
                "{opcode}"
            );
        }
        for opcode in ["s_load_b128", "ds_load_b128", "buffer_store_b32"] {
            assert_eq!(Mix::of(opcode).loads, 0.0, "{opcode}");
        }
    }
}
