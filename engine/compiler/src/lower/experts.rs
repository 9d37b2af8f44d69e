//! Lowering of a mixture of experts: the router, the products, the sum.

use wisp_shaders::params::{CombineExpertsParams, MatmulExpertsParams, RouteParams};

use super::{CompileError, HEIGHT, Lowering, Memory, Node, Size, narrow, words};

impl Lowering<'_> {
    pub(super) fn route(
        &mut self,
        node: &Node,
        chosen: u32,
        normalise: bool,
    ) -> Result<(), CompileError> {
        let op = "route";
        let tokens = self.rows(node.inputs[0]);
        let mut memory = vec![self.operand(op, node.inputs[0])?];
        for output in &node.outputs {
            memory.push(self.plain_result(*output));
        }
        let params = RouteParams {
            tokens: 0,
            experts: self.cols(op, node.inputs[0])?,
            chosen,
            normalise: normalise.into(),
        };
        let params = words(&params, late!(RouteParams, tokens = tokens));
        self.call(op, op.into(), [tokens, Size::fixed(1)], params, memory)
    }

    /// A product for each chunk of the experts' rows that can be bound; each writes what is its.
    pub(super) fn linear_experts(&mut self, node: &Node) -> Result<(), CompileError> {
        let op = "linear_experts";
        let &[x, weight, ids] = node.inputs.as_slice() else {
            return Ok(());
        };
        let (encoding, _, cols) = self.matrix_shape(op, weight)?;
        let rows = self.cols(op, node.outputs[0])?;
        let pairs = self.rows(node.outputs[0]);
        let share = pairs.factor / self.rows(x).factor.max(1);
        let out = self.plain_result(node.outputs[0]);
        let operands = [self.operand(op, x)?, out, self.operand(op, ids)?];
        for (matrix, start) in self.matrices(op, &[weight])? {
            let params = MatmulExpertsParams {
                tokens: 0,
                rows,
                cols: narrow(op, "the weight's width", cols)?,
                blocks: narrow(op, "the weight's width", cols.div_ceil(32))?,
                share: narrow(op, "the number of experts", share)?,
                first_row: narrow(op, HEIGHT, start)?,
                chunk_rows: narrow(op, HEIGHT, self.matrices[matrix as usize].rows())?,
            };
            let params = words(&params, late!(MatmulExpertsParams, tokens = pairs));
            let memory: Vec<Memory> = operands.into_iter().chain(self.planes(matrix)).collect();
            let label = format!("{op} {}", self.graph.value(weight).name);
            self.call_over(
                &format!("matmul_experts.{}", encoding.name()),
                cols,
                label,
                [Size::fixed(rows.into()), pairs.clone()],
                params,
                memory,
            )?;
        }
        Ok(())
    }

    pub(super) fn combine_experts(&mut self, node: &Node) -> Result<(), CompileError> {
        let op = "combine_experts";
        let tokens = self.rows(node.outputs[0]);
        let memory = vec![
            self.operand(op, node.inputs[0])?,
            self.operand(op, node.inputs[1])?,
            self.plain_result(node.outputs[0]),
        ];
        let params = CombineExpertsParams {
            tokens: 0,
            chosen: self.cols(op, node.inputs[1])?,
            cols: self.cols(op, node.outputs[0])?,
        };
        let params = words(&params, late!(CombineExpertsParams, tokens = tokens));
        let grid = [self.elements(node.outputs[0]), Size::fixed(1)];
        self.call(op, op.into(), grid, params, memory)
    }
}
