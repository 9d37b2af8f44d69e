//! A kernel's assembly: how many instructions of each kind it has, in all and in its loops.

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
    /// Products of four signed bytes each; counted for NVIDIA only.
    pub dot_products: f64,
    /// Products of matrices; counted for NVIDIA only.
    pub matrix_products: f64,
    /// Conversions between integers and floats, and functions such as roots, for which a multiprocessor has few lanes;
    /// counted for NVIDIA only.
    pub slow: f64,
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
    /// Returns these counts taken `times` over.
    pub fn times(self, times: f64) -> Mix {
        Mix {
            instructions: self.instructions * times,
            valu: self.valu * times,
            loads: self.loads * times,
            load_bytes: self.load_bytes * times,
            barriers: self.barriers * times,
            dot_products: self.dot_products * times,
            matrix_products: self.matrix_products * times,
            slow: self.slow * times,
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
        self.dot_products += other.dot_products;
        self.matrix_products += other.matrix_products;
        self.slow += other.slow;
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
    /// Finds the loops among instructions, given the last instruction of each by the first.
    pub fn of(instructions: &[Mix], ends: HashMap<usize, usize>) -> Listing {
        let mut ranges: Vec<(usize, usize)> = ends.into_iter().collect();
        ranges.sort_unstable();
        let (total, loops) = within(instructions, 0, instructions.len(), &mut ranges.as_slice());
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
        )?;
        if self.dot_products + self.matrix_products > 0.0 {
            write!(
                f,
                ", {} dot products, {} matrix products",
                self.dot_products, self.matrix_products
            )?;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_loops_count_as_often_as_they_turn() {
        let leaf = |instructions| Loop {
            own: Mix {
                instructions,
                loads: 1.0,
                ..Mix::default()
            },
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
}
