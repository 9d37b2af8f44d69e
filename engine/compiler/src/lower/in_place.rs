//! Checks of ops that overwrite an operand.

use wisp_graph::{Graph, ValueId, ValueKind};

use crate::{
    CompileError,
    fusion::{Step, read_after_run},
};

/// Refuses a node that overwrites a value which a later step, an output or a print still reads, or which is
/// not the result of a node.
pub(super) fn check(graph: &Graph, step: &Step, later: &[Step]) -> Result<(), CompileError> {
    let Step::Node(node, _) = step else {
        return Ok(());
    };
    for written in &node.inputs[node.op.overwrites(node.inputs.len())] {
        let is_written = |id: &ValueId| graph.storage(*id) == *written;
        let is_read = later
            .iter()
            .any(|step| step.operands().iter().any(is_written));
        let is_kept = read_after_run(graph).any(|id| is_written(&id));
        let value = graph.value(*written);
        if value.kind != ValueKind::Node || is_kept || is_read {
            return Err(CompileError::InPlace {
                op: node.op.name(),
                value: value.name.clone(),
            });
        }
    }
    Ok(())
}
