//! `norm(a + b)`: one kernel, which adds in the memory of `a` and normalises the sum.

use wisp_graph::{
    Binary, NormKind, NormSpec, Op, ValueId,
    lowering::{LoweringError, OpLowering},
    ops::{
        ScaledAdd,
        lowerings::{NormOperands, lower_norm},
    },
};

use super::step::{FusedStep, Fusion, Miss, Step};

/// `sum = a + scale * b` in the memory of `a`, then `out = norm(sum)`.
struct AddNorm {
    a: ValueId,
    b: ValueId,
    scale: f32,
    sum: ValueId,
    norm: NormSpec,
    weight: ValueId,
    bias: Option<ValueId>,
    out: ValueId,
}

impl FusedStep for AddNorm {
    fn name(&self) -> &'static str {
        match self.norm.kind {
            NormKind::Rms => "add_rms_norm",
            NormKind::Layer => "add_layer_norm",
        }
    }

    fn operands(&self) -> Vec<ValueId> {
        let weights = [self.weight].into_iter().chain(self.bias);
        [self.a, self.b].into_iter().chain(weights).collect()
    }

    fn lower(&self, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let a = op.operand(self.a)?;
        op.alias(self.sum, a);
        let operands = NormOperands {
            x: self.sum,
            addend: Some((self.b, self.scale)),
            weight: self.weight,
            bias: self.bias,
        };
        lower_norm(self.norm, operands, self.out, op)
    }
}

/// Fuses the norm at a node with the sum that it normalises.
pub(super) fn fuse(fusion: &mut Fusion<'_>, at: usize) -> Result<(), Miss> {
    let (graph, nodes, uses) = (fusion.graph, fusion.nodes, &fusion.uses);
    let Op::Norm(norm) = nodes[at].op else {
        return Err(Miss::Absent);
    };
    let &[sum, weight, ref bias @ ..] = nodes[at].inputs.as_slice() else {
        return Err(Miss::Absent);
    };
    let add = uses.producer(sum).ok_or(Miss::Absent)?;
    let scale = match nodes[add].op {
        Op::ScaledAdd(ScaledAdd { scale }) => scale,
        Op::Binary(Binary::Add) => 1.0,
        _ => return Err(Miss::Absent),
    };
    let &[a, b] = nodes[add].inputs.as_slice() else {
        return Err(Miss::Absent);
    };
    let is_whole_row = graph.value(sum).shape.cols() == graph.value(weight).shape.cols();
    let same_shapes = graph.value(a).shape == graph.value(b).shape;
    let different = graph.storage(a) != graph.storage(b);
    let is_first = uses.readers(sum).iter().min() == Some(&at) && fusion.replaced[add].is_none();
    let mut weights = nodes[at].inputs[1..].iter();
    let conditions = [
        (is_whole_row, "it normalises parts of the sum's rows"),
        (same_shapes, "the operands of the sum have different shapes"),
        (different, "the operands of the sum share memory"),
        (is_first, "something else reads the sum before it"),
        (
            uses.ends_at(graph, a, add),
            "something reads the first operand of the sum later",
        ),
        (
            // The step runs where the sum was, and reads the weights there.
            weights.all(|id| fusion.is_same(*id, add, at)),
            "its weights are calculated or written after the sum",
        ),
    ];
    for (holds, reason) in conditions {
        Miss::unless(holds, reason)?;
    }
    let step = AddNorm {
        a,
        b,
        scale,
        sum,
        norm,
        weight,
        bias: bias.first().copied(),
        out: nodes[at].outputs[0],
    };
    fusion.replace(add, vec![Step::Fused(Box::new(step))], [at]);
    Ok(())
}
