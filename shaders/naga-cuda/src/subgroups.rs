//! Subgroup operations, which are those of warps.

use crate::Error;
use crate::function::FunctionWriter;
use crate::prelude::Section;
use naga::{
    CollectiveOperation, Expression, GatherMode, Handle, Scalar, SubgroupOperation, TypeInner,
};

/// The invocations of a subgroup: the threads of a warp.
pub const SUBGROUP_SIZE: u32 = 32;

impl FunctionWriter<'_> {
    /// Writes a ballot.
    pub(crate) fn ballot(
        &mut self,
        result: Handle<Expression>,
        predicate: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        self.cx.include(Section::Subgroup);
        let predicate = predicate.map_or(Ok("true".to_owned()), |predicate| {
            self.expression(predicate)
        })?;
        self.name(result, &format!("w_ballot({predicate})"))
    }

    /// Writes an operation that takes the value of another invocation.
    pub(crate) fn gather(
        &mut self,
        mode: GatherMode,
        argument: Handle<Expression>,
        result: Handle<Expression>,
    ) -> Result<(), Error> {
        self.cx.include(Section::Subgroup);
        let value = self.expression(argument)?;
        let (name, index) = match mode {
            GatherMode::BroadcastFirst => ("w_broadcast_first", None),
            GatherMode::Broadcast(index) | GatherMode::Shuffle(index) => {
                ("w_shuffle", Some(self.expression(index)?))
            }
            GatherMode::ShuffleDown(index) => ("w_shuffle_down", Some(self.expression(index)?)),
            GatherMode::ShuffleUp(index) => ("w_shuffle_up", Some(self.expression(index)?)),
            GatherMode::ShuffleXor(index) => ("w_shuffle_xor", Some(self.expression(index)?)),
            GatherMode::QuadBroadcast(index) => ("w_quad_broadcast", Some(self.expression(index)?)),
            // The invocations of a quad are two rows of two.
            GatherMode::QuadSwap(direction) => {
                ("w_shuffle_xor", Some(format!("{}u", direction as u32 + 1)))
            }
        };
        let index = index.map_or(String::new(), |index| format!(", {index}"));
        self.name(result, &format!("{name}({value}{index})"))
    }

    /// Writes a reduction or scan.
    pub(crate) fn collective(
        &mut self,
        op: SubgroupOperation,
        collective: CollectiveOperation,
        argument: Handle<Expression>,
        result: Handle<Expression>,
    ) -> Result<(), Error> {
        self.cx.include(Section::Subgroup);
        let value = self.expression(argument)?;
        let name = match op {
            SubgroupOperation::All => {
                return self.name(result, &format!("w_subgroup_all({value})"));
            }
            SubgroupOperation::Any => {
                return self.name(result, &format!("w_subgroup_any({value})"));
            }
            SubgroupOperation::Add => "add",
            SubgroupOperation::Mul => "mul",
            SubgroupOperation::Min => "min",
            SubgroupOperation::Max => "max",
            SubgroupOperation::And => "and",
            SubgroupOperation::Or => "or",
            SubgroupOperation::Xor => "xor",
        };
        let call = match collective {
            CollectiveOperation::Reduce => format!("w_reduce_{name}({value})"),
            CollectiveOperation::InclusiveScan => format!("w_inclusive_{name}({value})"),
            CollectiveOperation::ExclusiveScan => format!(
                "w_exclusive_{name}({value}, {})",
                self.identity(op, argument)?
            ),
        };
        self.name(result, &call)
    }

    /// Returns what the first invocation of a scan gets that leaves out its own value.
    fn identity(
        &self,
        op: SubgroupOperation,
        argument: Handle<Expression>,
    ) -> Result<String, Error> {
        match op {
            SubgroupOperation::Add => Ok(format!("{}{{}}", self.type_of(argument)?)),
            SubgroupOperation::Mul => {
                let (scalar, size) = match *self.inner(argument) {
                    TypeInner::Scalar(scalar) => (scalar, None),
                    TypeInner::Vector { size, scalar } => (scalar, Some(size as u8)),
                    ref other => {
                        return Err(Error::unsupported(format!(
                            "a subgroup operation on {other:?}"
                        )));
                    }
                };
                let one = match scalar {
                    Scalar::F32 => "1.0f",
                    Scalar::U32 => "1u",
                    Scalar::I32 => "1",
                    Scalar::F16 => "w_half{0x3c00}",
                    other => {
                        return Err(Error::unsupported(format!(
                            "a subgroup operation on {other:?}"
                        )));
                    }
                };
                Ok(size.map_or(one.to_owned(), |size| format!("w_splat<{size}>({one})")))
            }
            other => Err(Error::unsupported(format!("the exclusive scan {other:?}"))),
        }
    }
}
