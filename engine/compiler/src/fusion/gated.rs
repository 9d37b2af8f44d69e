//! `activation(linear(x)) * linear(x)`: one product with both weights, which also applies the gate; or one
//! product and then the gate, if low-rank adapters add to the product.

use wisp_graph::{
    Op, ValueId,
    lowering::{LoweringError, OpLowering},
    ops::{
        Gated,
        lowerings::{GatedOperands, GatedProduct, lower_gated, lower_product_gate},
    },
};

use super::{
    stacked::{private_projection, require_same_operand, stack},
    step::{FusedStep, Fusion, Miss, Step},
};

/// A gate whose operands are the columns of one stacked product.
struct StackedGate {
    gated: Gated,
    stacked: ValueId,
    out: ValueId,
}

impl FusedStep for StackedGate {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn operands(&self) -> Vec<ValueId> {
        vec![self.stacked]
    }

    fn lower(&self, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let operands = GatedOperands::Stacked(self.stacked);
        lower_gated(self.gated, operands, self.out, op)
    }
}

/// A gate together with the linear layers that make its operands.
struct ProductGate {
    product: GatedProduct,
    out: ValueId,
}

impl FusedStep for ProductGate {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn operands(&self) -> Vec<ValueId> {
        vec![self.product.x]
    }

    fn lower(&self, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_product_gate(self.product, self.out, op)
    }
}

/// Fuses the gate at a node with the two linear layers before it.
pub(super) fn fuse(fusion: &mut Fusion<'_>, at: usize) -> Result<(), Miss> {
    let nodes = fusion.nodes;
    let Op::Gated(gated) = nodes[at].op else {
        return Err(Miss::Absent);
    };
    let &[gate, up] = nodes[at].inputs.as_slice() else {
        return Err(Miss::Absent);
    };
    let gate = private_projection(fusion, gate, at)?;
    let up = private_projection(fusion, up, at)?;
    let [x, up_x] = [gate, up].map(|layer| nodes[layer.linear].inputs[0]);
    let fits = up_x == x && gate.linear != up.linear;
    Miss::unless(fits, "its two linear layers read different values")?;
    require_same_operand(fusion, &[gate, up])?;
    if let (Some(gate_part), Some(up_part)) = (gate.part(nodes), up.part(nodes)) {
        let product = GatedProduct {
            x,
            parts: [gate_part, up_part],
            stacked: nodes[gate.linear].outputs[0],
            gated,
        };
        let out = nodes[at].outputs[0];
        let step = Step::Fused(Box::new(ProductGate { product, out }));
        fusion.replace_first(vec![step], vec![gate.linear, up.linear, at]);
        return Ok(());
    }
    let (steps, replaced) = stack(fusion, &[gate, up])?;
    let step = StackedGate {
        gated,
        stacked: nodes[gate.linear].outputs[0],
        out: nodes[at].outputs[0],
    };
    fusion.replace_first(steps, replaced);
    fusion.replace(at, vec![Step::Fused(Box::new(step))], []);
    Ok(())
}
