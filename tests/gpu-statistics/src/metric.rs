//! The metrics: what is recorded of a kernel on a family of GPUs, and in which direction it is better.

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Invocations of a subgroup, which the compiler chooses.
    Subgroup,
    /// Vector registers of a lane.
    Registers,
    /// Subgroups that a SIMD unit, or NVIDIA's multiprocessor, holds at once, by registers and workgroup memory.
    Waves,
    /// Registers that are kept in memory for want of room; for NVIDIA the bytes that are stored and loaded for it.
    Spills,
    /// Bytes of memory for a lane's own arrays.
    Scratch,
    /// Bytes of workgroup memory.
    Shared,
    /// Barriers in the code, each counted once.
    Barriers,
    /// Those of them that are in loops, and so may be met more than once.
    LoopBarriers,
    /// Instructions of the whole kernel.
    Instructions,
    /// Instructions for a unit of the hot loop's work.
    LoopInstructions,
    /// Those of them on the vector ALUs.
    LoopValu,
    /// Bytes that are loaded from memory for a unit of the hot loop's work.
    LoopBytes,
    /// Bytes that a lane loads at once, on average over the hot loop.
    LoadBytes,
    /// Percent of the lanes' turns that do work at 896 columns.
    BusyLanes,
    /// Instructions for a unit of the hot loop's work that multiply four signed bytes by four others.
    LoopDots,
    /// Instructions for a unit of the hot loop's work that multiply matrices.
    LoopMatrices,
    /// Instructions for a unit of the hot loop's work that run at an eighth of the issue rate.
    LoopSlow,
}

/// Which of two values of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The smaller one.
    Less,
    /// The greater one.
    More,
    /// Neither in itself.
    Neither,
}

impl Metric {
    /// All.
    pub const ALL: [Metric; 17] = [
        Metric::Subgroup,
        Metric::Registers,
        Metric::Waves,
        Metric::Spills,
        Metric::Scratch,
        Metric::Shared,
        Metric::Barriers,
        Metric::LoopBarriers,
        Metric::Instructions,
        Metric::LoopInstructions,
        Metric::LoopValu,
        Metric::LoopBytes,
        Metric::LoadBytes,
        Metric::BusyLanes,
        Metric::LoopDots,
        Metric::LoopMatrices,
        Metric::LoopSlow,
    ];

    /// The columns of AMD's table, in their order.
    pub const AMD: [Metric; 14] = [
        Metric::Subgroup,
        Metric::Registers,
        Metric::Waves,
        Metric::Spills,
        Metric::Scratch,
        Metric::Shared,
        Metric::Barriers,
        Metric::LoopBarriers,
        Metric::Instructions,
        Metric::LoopInstructions,
        Metric::LoopValu,
        Metric::LoopBytes,
        Metric::LoadBytes,
        Metric::BusyLanes,
    ];

    /// The columns of NVIDIA's table, in their order. Warps are of 32 lanes, and all instructions are issued by the same
    /// schedulers, so that those of the vector ALUs need no count.
    pub const NVIDIA: [Metric; 14] = [
        Metric::Registers,
        Metric::Waves,
        Metric::Spills,
        Metric::Scratch,
        Metric::Shared,
        Metric::Barriers,
        Metric::LoopBarriers,
        Metric::Instructions,
        Metric::LoopInstructions,
        Metric::LoopSlow,
        Metric::LoopDots,
        Metric::LoopMatrices,
        Metric::LoopBytes,
        Metric::LoadBytes,
    ];

    /// Returns the column's name.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Subgroup => "subgroup",
            Metric::Registers => "registers",
            Metric::Waves => "waves",
            Metric::Spills => "spills",
            Metric::Scratch => "scratch",
            Metric::Shared => "shared",
            Metric::Barriers => "barriers",
            Metric::LoopBarriers => "loop_barriers",
            Metric::Instructions => "instructions",
            Metric::LoopInstructions => "loop_instructions",
            Metric::LoopValu => "loop_valu",
            Metric::LoopBytes => "loop_bytes",
            Metric::LoadBytes => "load_bytes",
            Metric::BusyLanes => "busy_lanes",
            Metric::LoopDots => "loop_dots",
            Metric::LoopMatrices => "loop_matrices",
            Metric::LoopSlow => "loop_slow",
        }
    }

    /// Returns which of two values is better.
    pub fn better(self) -> Better {
        match self {
            Metric::Waves
            | Metric::LoadBytes
            | Metric::BusyLanes
            | Metric::LoopDots
            | Metric::LoopMatrices => Better::More,
            Metric::Subgroup => Better::Neither,
            _ => Better::Less,
        }
    }

    /// True if a value is better than another by more than a share of it.
    pub fn is_better(self, value: f64, other: f64, share: f64) -> bool {
        match self.better() {
            Better::Less => value < other * (1.0 - share),
            Better::More => value > other * (1.0 + share),
            Better::Neither => false,
        }
    }

    /// True if a value is worse than another by more than a share of it.
    pub fn is_worse(self, value: f64, other: f64, share: f64) -> bool {
        match self.better() {
            Better::Less => value > other * (1.0 + share),
            Better::More => value < other * (1.0 - share),
            Better::Neither => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_ordered_as_their_columns() {
        for (i, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, i, "{metric:?}");
        }
    }

    #[test]
    fn worse_is_more_registers_and_fewer_waves() {
        assert!(Metric::Registers.is_worse(68.0, 64.0, 0.05));
        assert!(!Metric::Registers.is_worse(66.0, 64.0, 0.05));
        assert!(Metric::Waves.is_worse(14.0, 16.0, 0.05));
        assert!(Metric::Waves.is_better(18.0, 16.0, 0.05));
        assert!(Metric::Spills.is_worse(1.0, 0.0, 0.05));
        assert!(!Metric::Subgroup.is_worse(64.0, 32.0, 0.05));
    }
}
