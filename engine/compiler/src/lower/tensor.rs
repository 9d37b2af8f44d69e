//! Lowering of ops on tensors of any rank.

use wisp_shaders::params::*;

use super::{
    Bound, CompileError, DType, Dim, Lowering, Memory, Node, ParamWord, Size, ValueId, narrow,
    words,
};
use wisp_graph::{
    Binary, ConvSpec, MAX_RANK, Op,
    ops::{Axes, Cast, Concat, Gather, MatMul, Permute, Reduce, Scatter, Slice, SliceLike, TopK},
};

/// Elements from one place of each dimension to the next, in one operand.
type Strides = Vec<Size>;

/// Dimensions and the operands' strides over them, as few as possible: neighbours that every operand
/// goes over in one stride are one.
fn merged(dims: Vec<Size>, strides: Vec<Strides>) -> (Vec<Size>, Vec<Strides>) {
    let one = Size::fixed(1);
    let mut kept: Vec<Size> = Vec::new();
    let mut kept_strides: Vec<Strides> = vec![Vec::new(); strides.len()];
    for (i, dim) in dims.iter().enumerate().filter(|(_, dim)| **dim != one) {
        let joins = !kept.is_empty()
            && strides
                .iter()
                .zip(&kept_strides)
                .all(|(own, kept)| kept.last().is_some_and(|outer| *outer == own[i].times(dim)));
        if let (true, Some(last)) = (joins, kept.last_mut()) {
            *last = last.times(dim);
        } else {
            kept.push(dim.clone());
        }
        for (own, kept) in strides.iter().zip(&mut kept_strides) {
            if joins {
                kept.pop();
            }
            kept.push(own[i].clone());
        }
    }
    (kept, kept_strides)
}

/// `(word, size)` for the sizes of an array that begins at this byte.
fn array(offset: usize, sizes: &[Size]) -> impl Iterator<Item = (usize, Size)> + '_ {
    let places = sizes.iter().enumerate();
    places.map(move |(i, size)| (offset + 4 * i, size.clone()))
}

macro_rules! late_arrays {
    ($params:ty, $($field:ident = $sizes:expr),*) => {{
        let mut all: Vec<(usize, Size)> = Vec::new();
        $(all.extend(array(std::mem::offset_of!($params, $field), $sizes));)*
        all
    }};
}

/// The code of a sum or product of floats where `b` is `a`'s last dimensions, which kernel `elementwise`
/// computes without strides.
fn contiguous(graph: &wisp_graph::Graph, node: &Node, binary: Binary) -> Option<u32> {
    let [a, b] = [node.inputs[0], node.inputs[1]].map(|id| graph.value(id));
    let op_code = match binary {
        Binary::Add => 0,
        Binary::Mul => 1,
        _ => return None,
    };
    (a.dtype == DType::F32 && a.shape.0.ends_with(&b.shape.0)).then_some(op_code)
}

impl Lowering<'_> {
    /// A dimension's size.
    fn dim_size(&mut self, dim: &Dim) -> Size {
        self.size(std::slice::from_ref(dim))
    }

    /// The strides of a value that lies in memory without gaps.
    fn strides(&mut self, id: ValueId) -> Strides {
        let graph = self.graph;
        let dims = &graph.value(id).shape.0;
        (1..=dims.len()).map(|i| self.size(&dims[i..])).collect()
    }

    /// A value's strides over dimensions that it is repeated to: 0 where it is.
    fn repeated(&mut self, id: ValueId, dims: &[Dim]) -> Strides {
        let graph = self.graph;
        let (own, strides) = (&graph.value(id).shape.0, self.strides(id));
        let missing = dims.len() - own.len();
        let repeats = |i: usize| own[i] != dims[missing + i];
        let own = strides
            .into_iter()
            .enumerate()
            .map(|(i, stride)| match repeats(i) {
                true => Size::fixed(0),
                false => stride,
            });
        vec![Size::fixed(0); missing]
            .into_iter()
            .chain(own)
            .collect()
    }

    fn shape(&self, id: ValueId) -> Vec<Dim> {
        self.graph.value(id).shape.0.clone()
    }

    fn sizes(&mut self, dims: &[Dim]) -> Vec<Size> {
        dims.iter().map(|dim| self.dim_size(dim)).collect()
    }

    /// What is before a dimension, it, and what is after it.
    fn around(&mut self, id: ValueId, axis: u32) -> [Size; 3] {
        let graph = self.graph;
        let dims = &graph.value(id).shape.0;
        let axis = axis as usize;
        [&dims[..axis], &dims[axis..=axis], &dims[axis + 1..]].map(|dims| self.size(dims))
    }

    /// A kernel over the elements of a node's first result.
    fn over_elements(
        &mut self,
        op: &'static str,
        node: &Node,
        params: Vec<ParamWord>,
    ) -> Result<(), CompileError> {
        let mut memory = self.operands(node.op.name(), &node.inputs)?;
        memory.push(self.plain_result(node.outputs[0]));
        let grid = [self.elements(node.outputs[0]), Size::fixed(1)];
        self.call(op, node.op.name().into(), grid, params, memory)
    }

    fn operands(&mut self, op: &'static str, ids: &[ValueId]) -> Result<Vec<Memory>, CompileError> {
        ids.iter().map(|id| self.operand(op, *id)).collect()
    }

    pub(super) fn tensor(&mut self, node: &Node, op: Op) -> Result<(), CompileError> {
        match op {
            Op::Unary(unary) => self.function(node, unary as u32),
            Op::Cast(Cast { to: DType::U32 }) => self.function(node, 31),
            Op::Cast(Cast { to: DType::F32 }) => self.function(node, 32),
            Op::Binary(binary) => match contiguous(self.graph, node, binary) {
                Some(op_code) => self.elementwise(node, op_code, 1.0),
                None => {
                    let whole = self.graph.value(node.inputs[0]).dtype == DType::U32;
                    self.binary(node, binary as u32, whole.into())
                }
            },
            Op::Select(_) => self.choose(node),
            Op::Reduce(Reduce { kind, axis }) => {
                let [outer, n, inner] = self.around(node.inputs[0], axis);
                let params = ReductionParams {
                    kind: kind as u32,
                    ..Default::default()
                };
                let late = late!(ReductionParams, outer = outer, n = n, inner = inner);
                self.over_elements("reduction", node, words(&params, late))
            }
            Op::Permute(Permute { axes }) => self.permute(node, axes),
            Op::Slice(Slice {
                axis, start, step, ..
            }) => self.slice(node, axis as usize, start, step),
            Op::SliceLike(SliceLike { axis, .. }) => self.slice(node, axis as usize, 0, 1),
            Op::Concat(Concat { axis }) => self.concat(node, axis as usize),
            Op::MatMul(MatMul {
                transpose_a,
                transpose_b,
            }) => self.batch_matmul(node, transpose_a, transpose_b),
            Op::Conv2d(spec) => self.conv2d(node, spec),
            Op::Gather(Gather { axis }) => {
                let [outer, n, inner] = self.around(node.inputs[0], axis);
                let count = self.elements(node.inputs[1]);
                let late = late!(
                    GatherParams,
                    outer = outer,
                    n = n,
                    inner = inner,
                    count = count
                );
                self.over_elements("gather", node, words(&GatherParams::default(), late))
            }
            Op::Scatter(Scatter { axis, add: adds }) => {
                let [outer, n, inner] = self.around(node.inputs[0], axis);
                let count = self.elements(node.inputs[1]);
                let params = ScatterParams {
                    adds: adds.into(),
                    ..Default::default()
                };
                let late = late!(
                    ScatterParams,
                    outer = outer,
                    n = n,
                    inner = inner,
                    count = count
                );
                self.over_elements("scatter", node, words(&params, late))
            }
            Op::TopK(TopK { k }) => self.top_k(node, k),
            _ => Ok(()),
        }
    }

    fn function(&mut self, node: &Node, kind: u32) -> Result<(), CompileError> {
        let len = self.elements(node.inputs[0]);
        let params = MapParams {
            kind,
            ..Default::default()
        };
        self.over_elements("map", node, words(&params, late!(MapParams, len = len)))
    }

    /// Dimensions and strides that a kernel can take.
    fn places(
        &self,
        node: &Node,
        dims: Vec<Size>,
        strides: Vec<Strides>,
    ) -> Result<(Vec<Size>, Vec<Strides>), CompileError> {
        let (dims, strides) = merged(dims, strides);
        match dims.len() <= MAX_RANK {
            true => Ok((dims, strides)),
            false => Err(CompileError::TooLarge {
                op: node.op.name(),
                what: "the number of dimensions",
                value: dims.len() as u64,
            }),
        }
    }

    fn binary(&mut self, node: &Node, kind: u32, whole: u32) -> Result<(), CompileError> {
        let out = self.shape(node.outputs[0]);
        let strides = node
            .inputs
            .iter()
            .map(|id| self.repeated(*id, &out))
            .collect();
        let sizes = self.sizes(&out);
        let (dims, strides) = self.places(node, sizes, strides)?;
        let params = BinaryParams {
            rank: dims.len() as u32,
            kind,
            whole,
            ..Default::default()
        };
        let mut late = late_arrays!(
            BinaryParams,
            dims = &dims,
            a_strides = &strides[0],
            b_strides = &strides[1]
        );
        late.push((0, self.size(&out)));
        self.over_elements("binary", node, words(&params, &late))
    }

    fn choose(&mut self, node: &Node) -> Result<(), CompileError> {
        let out = self.shape(node.outputs[0]);
        let strides = node
            .inputs
            .iter()
            .map(|id| self.repeated(*id, &out))
            .collect();
        let sizes = self.sizes(&out);
        let (dims, strides) = self.places(node, sizes, strides)?;
        let params = ChooseParams {
            rank: dims.len() as u32,
            ..Default::default()
        };
        let mut late = late_arrays!(
            ChooseParams,
            dims = &dims,
            c_strides = &strides[0],
            a_strides = &strides[1],
            b_strides = &strides[2]
        );
        late.push((0, self.size(&out)));
        self.over_elements("choose", node, words(&params, &late))
    }

    /// Copies what strides over some dimensions lead to.
    fn copy(
        &mut self,
        node: &Node,
        dims: &[Dim],
        (x, x_offset, x_strides): (Memory, Size, Strides),
        (out, out_offset, out_strides): (Memory, Size, Strides),
    ) -> Result<(), CompileError> {
        let len = self.size(dims);
        let sizes = self.sizes(dims);
        let (dims, strides) = self.places(node, sizes, vec![x_strides, out_strides])?;
        let params = CopyParams {
            rank: dims.len() as u32,
            ..Default::default()
        };
        let mut late = late_arrays!(
            CopyParams,
            dims = &dims,
            x_strides = &strides[0],
            out_strides = &strides[1]
        );
        late.extend_from_slice(late!(
            CopyParams,
            len = len,
            x_offset = x_offset,
            out_offset = out_offset
        ));
        let (params, grid) = (words(&params, &late), [len, Size::fixed(1)]);
        self.call("copy", node.op.name().into(), grid, params, vec![x, out])
    }

    /// Copies a value as it is.
    pub(super) fn copy_whole(&mut self, node: &Node) -> Result<(), CompileError> {
        let x = self.operand(node.op.name(), node.inputs[0])?;
        let (strides, none) = (self.strides(node.inputs[0]), Size::fixed(0));
        let out = self.plain_result(node.outputs[0]);
        let dims = self.shape(node.outputs[0]);
        let (from, to) = ((x, none.clone(), strides.clone()), (out, none, strides));
        self.copy(node, &dims, from, to)
    }

    fn permute(&mut self, node: &Node, axes: Axes) -> Result<(), CompileError> {
        let x = self.operand(node.op.name(), node.inputs[0])?;
        let (own, none) = (self.strides(node.inputs[0]), Size::fixed(0));
        let strides = axes.iter().map(|axis| own[axis].clone()).collect();
        let out = self.plain_result(node.outputs[0]);
        let out_strides = self.strides(node.outputs[0]);
        let dims = self.shape(node.outputs[0]);
        self.copy(
            node,
            &dims,
            (x, none.clone(), strides),
            (out, none, out_strides),
        )
    }

    fn slice(
        &mut self,
        node: &Node,
        axis: usize,
        start: u64,
        step: u64,
    ) -> Result<(), CompileError> {
        self.bound_slice(node, axis, start, step);
        let x = self.operand(node.op.name(), node.inputs[0])?;
        let mut strides = self.strides(node.inputs[0]);
        let offset = strides[axis].times(&Size::fixed(start));
        strides[axis] = strides[axis].times(&Size::fixed(step));
        let out = self.plain_result(node.outputs[0]);
        let out_strides = self.strides(node.outputs[0]);
        let dims = self.shape(node.outputs[0]);
        self.copy(
            node,
            &dims,
            (x, offset, strides),
            (out, Size::fixed(0), out_strides),
        )
    }

    /// Where sizes are known only in a run, it must find the parts within `x`: `start + (len - 1) * step
    /// + 1` is at most the size.
    fn bound_slice(&mut self, node: &Node, axis: usize, start: u64, step: u64) {
        let x = self.graph.value(node.inputs[0]);
        let size = &x.shape.0[axis];
        let len = &self.graph.value(node.outputs[0]).shape.0[axis];
        if size == len || (size.fixed().is_some() && len.fixed().is_some()) {
            return;
        }
        let (mut needed, mut available) = (len.to_sum(), size.to_sum());
        for (_, times) in &mut needed.terms {
            *times = times.saturating_mul(step);
        }
        let steps = needed.constant.saturating_mul(step);
        needed.constant = steps.saturating_add(start).saturating_add(1);
        available.constant = available.constant.saturating_add(step);
        // Both in terms of what there is: less of the same on both sides.
        let same = needed.constant.min(available.constant).min(step);
        needed.constant -= same;
        available.constant -= same;
        let label = format!("{} {}", node.op.name(), x.name);
        let (needed, available) = (self.sum(&needed), self.sum(&available));
        self.bounds.push(Bound {
            label,
            needed,
            available,
        });
    }

    fn concat(&mut self, node: &Node, axis: usize) -> Result<(), CompileError> {
        let parts = self.operands(node.op.name(), &node.inputs)?;
        let out = self.plain_result(node.outputs[0]);
        let out_strides = self.strides(node.outputs[0]);
        let mut start = Dim::Fixed(0);
        for (id, x) in node.inputs.iter().zip(parts) {
            let dims = self.shape(*id);
            let offset = self.dim_size(&start).times(&out_strides[axis]);
            let strides = self.strides(*id);
            let from = (x, Size::fixed(0), strides);
            self.copy(node, &dims, from, (out, offset, out_strides.clone()))?;
            // The result's size was found without an overflow, and this is less.
            start = start.checked_add(&dims[axis]).unwrap_or(start);
        }
        Ok(())
    }

    fn batch_matmul(
        &mut self,
        node: &Node,
        transpose_a: bool,
        transpose_b: bool,
    ) -> Result<(), CompileError> {
        let out = self.shape(node.outputs[0]);
        let (batch, [m, n]) = match out.split_last_chunk::<2>() {
            Some((batch, last)) => (batch.to_vec(), last.clone()),
            None => return Ok(()),
        };
        // Each operand's strides: over the batch, from row to row, from column to column.
        let mut over_batch = Vec::new();
        let mut over_matrix = Vec::new();
        for (id, transposed) in node.inputs.iter().zip([transpose_a, transpose_b]) {
            let own = self.shape(*id);
            let rank = own.len();
            let dims = [&batch[..], &own[rank - 2..]].concat();
            let mut strides = self.repeated(*id, &dims);
            let mut last = strides.split_off(batch.len());
            if transposed {
                last.reverse();
            }
            over_batch.push(strides);
            over_matrix.push(last);
        }
        let sizes = self.sizes(&batch);
        let (dims, strides) = self.places(node, sizes, over_batch)?;
        let a_shape = self.shape(node.inputs[0]);
        let k = &a_shape[a_shape.len() - 1 - usize::from(transpose_a)];
        let (m, n, k) = (self.dim_size(&m), self.dim_size(&n), self.dim_size(k));
        let params = BatchMatmulParams {
            rank: dims.len() as u32,
            ..Default::default()
        };
        let mut late = late_arrays!(
            BatchMatmulParams,
            dims = &dims,
            a_strides = &strides[0],
            b_strides = &strides[1]
        );
        let len = self.elements(node.outputs[0]);
        late.extend_from_slice(late!(
            BatchMatmulParams,
            len = len,
            m = m,
            n = n,
            k = k,
            a_row = over_matrix[0][0],
            a_col = over_matrix[0][1],
            b_row = over_matrix[1][0],
            b_col = over_matrix[1][1]
        ));
        self.over_elements("batch_matmul", node, words(&params, &late))
    }

    fn conv2d(&mut self, node: &Node, spec: ConvSpec) -> Result<(), CompileError> {
        let op = node.op.name();
        let known = |lowering: &Self, id: ValueId, i: usize| {
            let size = lowering.graph.value(id).shape.0[i].fixed();
            narrow(op, "a size", size.unwrap_or(u64::MAX))
        };
        let (image, weight, out) = (node.inputs[0], node.inputs[1], node.outputs[0]);
        let params = Conv2dParams {
            len: 0,
            in_channels: known(self, image, 1)?,
            in_height: known(self, image, 2)?,
            in_width: known(self, image, 3)?,
            out_channels: known(self, out, 1)?,
            out_height: known(self, out, 2)?,
            out_width: known(self, out, 3)?,
            kernel_height: known(self, weight, 2)?,
            kernel_width: known(self, weight, 3)?,
            stride_y: spec.stride[0],
            stride_x: spec.stride[1],
            pad_y: spec.padding[0],
            pad_x: spec.padding[1],
            dilation_y: spec.dilation[0],
            dilation_x: spec.dilation[1],
            groups: spec.groups,
            has_bias: (node.inputs.len() > 2).into(),
        };
        let mut memory = self.operands(op, &node.inputs)?;
        if node.inputs.len() == 2 {
            memory.push(memory[1]);
        }
        memory.push(self.plain_result(out));
        let len = self.elements(out);
        let params = words(&params, late!(Conv2dParams, len = len));
        self.call("conv2d", op.into(), [len, Size::fixed(1)], params, memory)
    }

    fn top_k(&mut self, node: &Node, k: u32) -> Result<(), CompileError> {
        let op = node.op.name();
        let rows = self.rows(node.inputs[0]);
        let params = TopKParams {
            rows: 0,
            cols: self.cols(op, node.inputs[0])?,
            k,
        };
        let mut memory = self.operands(op, &node.inputs)?;
        for out in &node.outputs {
            memory.push(self.plain_result(*out));
        }
        let params = words(&params, late!(TopKParams, rows = rows));
        self.call("top_k", op.into(), [rows, Size::fixed(1)], params, memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_merged_where_all_go_over_them_in_one_stride() {
        let fixed = |sizes: &[u64]| {
            sizes
                .iter()
                .map(|size| Size::fixed(*size))
                .collect::<Vec<_>>()
        };
        let symbol = Size {
            factor: 1,
            dims: vec![0],
        };
        // [n, 1, 4, 5], the second operand repeated over the 5.
        let dims = [vec![symbol], fixed(&[1, 4, 5])].concat();
        let strides = vec![fixed(&[20, 20, 5, 1]), fixed(&[4, 4, 1, 0])];
        let (dims, strides) = merged(dims, strides);
        assert_eq!(
            dims,
            [
                Size {
                    factor: 4,
                    dims: vec![0]
                },
                Size::fixed(5)
            ]
        );
        assert_eq!(strides, [fixed(&[5, 1]), fixed(&[1, 0])]);
    }
}
