//! `embed`: rows of a table, by their indices.

use serde::{Deserialize, Serialize};
use wisp_shaders::params::EmbedParams;
use wisp_types::{DType, Dim, Shape};

use super::{
    Inferred, Op, OpRules,
    operands::{expect, expect_rows, expect_weight},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{KernelCall, LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Rows of a table, times a factor. The table may have any encoding.
///
/// Operands: `ids u32 [tokens]` or `[.., n]`, `table`, a weight `[vocab, cols]`. Result: `f32 [tokens, cols]`
/// or `[.., cols]`. Where `ids` have a last dimension of `n` numbers, the last of them is the id: a decoder
/// embeds the positions of its index `[tokens, 2]` this way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Embed {
    /// Factor on every element.
    pub scale: f32,
}

impl From<Embed> for Op {
    fn from(op: Embed) -> Op {
        Op::Embed(op)
    }
}

impl OpRules for Embed {
    fn name(&self) -> &'static str {
        "embed"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let [ids, table] = operands else {
            return Err(OpProblem::operand_count("ids and table", operands.len()));
        };
        expect_rows(ids, "ids", DType::U32)?;
        expect(table, "the table", DType::F32, 2)?;
        expect_weight(table, "the table")?;
        let (outer, numbers) = split_ids(&ids.shape);
        if numbers
            .iter()
            .any(|dim| dim.fixed().is_none_or(|size| size == 0))
        {
            let expected = "u32 [tokens], or [.., n] with a fixed n of at least 1";
            let actual = ids.shape.to_string();
            return Err(OpProblem::operand("ids", ids, expected, actual));
        }
        let dims = [outer, &table.shape.0[1..]].concat();
        Ok(vec![TensorType::f32(Shape(dims))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let [ids, table] = [node.inputs[0], node.inputs[1]];
        let (outer, numbers) = split_ids(&op.value(ids).shape);
        let (tokens, stride) = (op.size(outer), op.size(numbers).factor);
        let (ids, out) = (op.operand(ids)?, op.result(node.outputs[0]));
        let table_rows = op.fixed_dim(table, 0, "the table's number of rows")?;
        for part in op.matrix_parts(&[table])? {
            let blocks = part.cols.div_ceil(32);
            let fixed = EmbedParams {
                tokens: 0,
                table_rows,
                rows: op.count("the table's number of rows", part.rows)?,
                row_offset: op.count("the table's number of rows", part.first_row)?,
                cols: op.count("the table's width", part.cols)?,
                blocks: op.count("the table's width", blocks)?,
                scale: self.scale,
                id_stride: op.count("the ids' width", stride)?,
                id_offset: op.count("the ids' width", stride.saturating_sub(1))?,
            };
            op.add_call(KernelCall {
                kernel: format!("embed.{}", part.encoding.name()),
                cols: 0,
                label: format!("{} {}", op.op(), op.value(table).name),
                grid: [Size::fixed(blocks), tokens.clone()],
                params: params(&fixed, runtime_fields!(EmbedParams, tokens = tokens)),
                bindings: [&[ids, out], &part.planes[..]].concat(),
                conditions: Vec::new(),
            })?;
        }
        Ok(())
    }
}

/// Splits the shape of the ids into the dimensions of the result and that of the numbers of one id, which
/// is absent where the ids have only one dimension.
fn split_ids(ids: &Shape) -> (&[Dim], &[Dim]) {
    ids.0.split_at((ids.0.len() - 1).max(1))
}

impl Graph {
    /// Returns the rows of a table `[rows, cols]` that the ids `[..]` name: `[.., cols]`. An id beyond the
    /// table is an error on the host; other devices return zeros or another row for it.
    ///
    /// # Errors
    ///
    /// If the ids are not `u32`, or the table is no weight of two dimensions.
    pub fn embed(&mut self, table: ValueId, ids: ValueId) -> Result<ValueId, GraphError> {
        self.composed("embed", &[table, ids], |graph| {
            let mut shape = graph.value(ids).shape.clone();
            let mut ids = ids;
            if shape.0.len() > 1 {
                // Every element is an id, not only the last of a row.
                shape.0.push(Dim::Fixed(1));
                ids = graph.reshape(ids, shape)?;
            }
            graph.add(Embed { scale: 1.0 }, &[ids, table])
        })
    }
}
