//! Linear layers of the same operand, as one product with stacked weights.

use wisp_graph::{
    Node, Op, ValueId,
    lowering::{LoweringError, OpLowering},
    ops::{
        Lora,
        lowerings::{LinearPart, LoraProducts, lower_linear_stack, lower_lora},
    },
};

use super::step::{FusedStep, Fusion, Miss, Step};

/// A linear layer that only one node reads, perhaps through low-rank adapters.
#[derive(Clone, Copy)]
pub(super) struct Projection {
    /// The layer's node.
    pub linear: usize,
    /// The adapters' node, and which of its results this is.
    lora: Option<(usize, usize)>,
}

impl Projection {
    /// Returns the layer's weight and bias, if no adapters add to its result.
    pub fn part(&self, nodes: &[Node]) -> Option<LinearPart> {
        self.lora
            .is_none()
            .then(|| linear_part(&nodes[self.linear]))
    }
}

/// The weight and bias of a linear layer's node.
fn linear_part(node: &Node) -> LinearPart {
    LinearPart {
        weight: node.inputs[1],
        bias: node.inputs.get(2).copied(),
    }
}

/// Returns the linear layer that makes a value, perhaps with what adapters add, if `reader` is the only node
/// that reads it.
pub(super) fn private_projection(
    fusion: &Fusion<'_>,
    id: ValueId,
    reader: usize,
) -> Result<Projection, Miss> {
    let (nodes, uses) = (fusion.nodes, &fusion.uses);
    let producer = uses.producer(id).ok_or(Miss::Absent)?;
    let projection = match nodes[producer].op {
        Op::Linear(_) => Projection {
            linear: producer,
            lora: None,
        },
        Op::Lora(_) => adapted_projection(fusion, id, producer).ok_or(Miss::Unfit(
            "low-rank adapters add to a product that something else reads",
        ))?,
        _ => return Err(Miss::Absent),
    };
    let is_private = uses.only_reader(id) == Some(reader);
    Miss::unless(
        is_private,
        "something else reads the product of a linear layer",
    )?;
    Ok(projection)
}

/// Requires that the operand of linear layers, which is the same value, is the same where each of them is: the
/// first reads it for all.
pub(super) fn require_same_operand(fusion: &Fusion<'_>, parts: &[Projection]) -> Result<(), Miss> {
    let first = first_linear(parts).ok_or(Miss::Absent)?;
    let x = fusion.nodes[first].inputs[0];
    let is_same = |part: &Projection| fusion.is_same(x, first, part.linear);
    Miss::unless(
        parts.iter().all(is_same),
        "something may write the operand of its linear layers between them",
    )
}

fn first_linear(parts: &[Projection]) -> Option<usize> {
    parts.iter().map(|part| part.linear).min()
}

/// Requires that what adapters read besides products is the same at the first of some linear layers.
fn require_same_adapters(fusion: &Fusion<'_>, first: usize, lora: usize) -> Result<(), Miss> {
    let mut operands = fusion.nodes[lora].inputs.iter().take(Lora::FIRST_PRODUCT);
    Miss::unless(
        operands.all(|id| fusion.is_same(*id, first, lora)),
        "its low-rank adapters are calculated or written after its first linear layer",
    )
}

/// Returns the linear layer to whose product adapters add to make a value.
fn adapted_projection(fusion: &Fusion<'_>, id: ValueId, lora: usize) -> Option<Projection> {
    let (nodes, uses) = (fusion.nodes, &fusion.uses);
    let x = nodes[lora].inputs.first()?;
    let products = nodes[lora].inputs.get(Lora::FIRST_PRODUCT..)?;
    let part = nodes[lora].outputs.iter().position(|out| *out == id)?;
    let product = *products.get(part)?;
    let linear = uses.producer(product)?;
    let fits = matches!(nodes[linear].op, Op::Linear(_))
        && nodes[linear].inputs[0] == *x
        && uses.only_reader(product)? == lora;
    let lora = Some((lora, part));
    fits.then_some(Projection { linear, lora })
}

/// The product of `x` with the stacked rows of several weights. The result stands in the memory of `out`,
/// the first layer's result.
struct StackedLinear {
    x: ValueId,
    parts: Vec<LinearPart>,
    out: ValueId,
}

impl FusedStep for StackedLinear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn operands(&self) -> Vec<ValueId> {
        vec![self.x]
    }

    fn lower(&self, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_linear_stack(self.x, &self.parts, self.out, op)
    }
}

/// What low-rank adapters add to a stacked product, in place.
struct StackedLora {
    node: Node,
}

impl FusedStep for StackedLora {
    fn name(&self) -> &'static str {
        "lora"
    }

    fn operands(&self) -> Vec<ValueId> {
        self.node.inputs.clone()
    }

    fn lower(&self, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        lower_lora(self.node.values(), LoraProducts::Stacked, op)
    }
}

/// Returns the steps of one product with the stacked weights of several layers and of their adapters, if
/// they have any, with the nodes that the steps replace.
///
/// The adapters must be one node's, of these layers in this order and of no others.
pub(super) fn stack(
    fusion: &Fusion<'_>,
    parts: &[Projection],
) -> Result<(Vec<Step>, Vec<usize>), Miss> {
    let nodes = fusion.nodes;
    let first = parts.first().and_then(|first| nodes.get(first.linear));
    let first = first.ok_or(Miss::Absent)?;
    let mut replaced: Vec<usize> = parts.iter().map(|part| part.linear).collect();
    let mut steps = vec![Step::Fused(Box::new(StackedLinear {
        x: first.inputs[0],
        parts: parts
            .iter()
            .map(|part| linear_part(&nodes[part.linear]))
            .collect(),
        out: first.outputs[0],
    }))];
    let fits = match parts[0].lora {
        None => parts.iter().all(|part| part.lora.is_none()),
        Some((lora, _)) => {
            let node = nodes[lora].clone();
            let in_order = parts
                .iter()
                .enumerate()
                .all(|(i, part)| part.lora == Some((lora, i)));
            let fits = in_order && node.outputs.len() == parts.len();
            replaced.push(lora);
            steps.push(Step::Fused(Box::new(StackedLora { node })));
            fits
        }
    };
    Miss::unless(
        fits,
        "only some of its linear layers have low-rank adapters",
    )?;
    if let (Some(first), Some((lora, _))) = (first_linear(parts), parts[0].lora) {
        require_same_adapters(fusion, first, lora)?;
    }
    Ok((steps, replaced))
}
