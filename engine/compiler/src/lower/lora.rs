//! Lowering of low-rank adapters: one product with the first halves, then one with the second halves
//! for each result, or one for all where these are stacked.

use wisp_shaders::params::{LoraExpandParams, LoraShrinkParams};

use super::{CompileError, Lowering, Memory, Node, Size, ValueId, narrow, words};
use wisp_types::Dim;

impl Lowering<'_> {
    /// A known dimension of an adapter's buffer.
    fn fixed(&self, op: &'static str, id: ValueId, dim: usize) -> Result<u32, CompileError> {
        let size = self.graph.value(id).shape.0.get(dim).and_then(Dim::fixed);
        narrow(op, "an adapter's size", size.unwrap_or(0))
    }

    /// Adds to the products in place; they are stacked in the first one's memory, or each has its own.
    pub(super) fn lora(&mut self, node: &Node, stacked: bool) -> Result<(), CompileError> {
        let op = "lora";
        let &[x, index, adapters, a, b, ref products @ ..] = node.inputs.as_slice() else {
            return Ok(());
        };
        let (rows, b_rows) = (self.fixed(op, a, 1)?, self.fixed(op, b, 2)?);
        let tokens = self.rows(x);
        let label = format!("{op} {}", self.graph.value(a).name);
        let x_memory = self.operand(op, x)?;
        let chosen = [self.operand(op, index)?, self.operand(op, adapters)?];
        let low = self.scratch(Size {
            factor: tokens.factor.saturating_mul(rows.into()),
            dims: tokens.dims.clone(),
        });
        let params = LoraShrinkParams {
            tokens: 0,
            rows,
            cols: self.cols(op, x)?,
        };
        let params = words(&params, late!(LoraShrinkParams, tokens = tokens));
        let grid = [Size::fixed(rows.into()), tokens.clone()];
        let a = self.operand(op, a)?;
        let memory = vec![x_memory, chosen[0], chosen[1], a, low];
        self.call("lora_shrink", label.clone(), grid, params, memory)?;

        let widths = products.iter().map(|product| self.cols(op, *product));
        let widths = widths.collect::<Result<Vec<u32>, _>>()?;
        let start = |part: usize| widths[..part].iter().sum::<u32>();
        let bound = |part: usize| match part < widths.len() {
            true => start(part),
            false => u32::MAX,
        };
        // The rows of each call, from the first on.
        let spans: Vec<(u32, u32)> = match stacked {
            true => vec![(0, b_rows)],
            false => (0..widths.len())
                .map(|part| (start(part), widths[part]))
                .collect(),
        };
        let rank = self.fixed(op, b, 1)?;
        let b = self.operand(op, b)?;
        for (part, (first_row, rows)) in spans.into_iter().enumerate() {
            let params = LoraExpandParams {
                tokens: 0,
                rows,
                rank,
                parts: widths.len() as u32,
                first_row,
                b_rows,
                second: bound(1),
                third: bound(2),
            };
            let params = words(&params, late!(LoraExpandParams, tokens = tokens));
            let y: Memory = self.operand(op, products[part])?;
            self.alias(node.outputs[part], y);
            let grid = [Size::fixed(rows.into()), tokens.clone()];
            let memory = vec![low, chosen[0], chosen[1], b, y];
            self.call("lora_expand", label.clone(), grid, params, memory)?;
        }
        Ok(())
    }
}
