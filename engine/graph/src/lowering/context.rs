//! What an op's lowering works with.

use wisp_types::{Capabilities, Dim, DimSum, Encoding};

use super::{
    CustomCall, GraphTables, KernelCall, Lowering, LoweringError, MatrixPart, Memory, NodeValues,
    ParamWord, Size, Strides, merge_dimensions,
};
use crate::value::{MAX_RANK, Value, ValueId};

/// An op that is being lowered: its graph, its name for messages, and the compiler that takes its calls.
pub struct OpLowering<'a> {
    graph: &'a dyn GraphTables,
    op: &'static str,
    pub(super) compiler: &'a mut dyn Lowering,
}

impl<'a> OpLowering<'a> {
    /// Returns the lowering of an op or fused step of this name.
    pub fn new(
        graph: &'a dyn GraphTables,
        op: &'static str,
        compiler: &'a mut dyn Lowering,
    ) -> Self {
        OpLowering {
            graph,
            op,
            compiler,
        }
    }

    /// Returns the op's name.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// Returns the capabilities of the target that kernels are chosen for.
    pub fn target(&self) -> &Capabilities {
        self.compiler.target()
    }

    /// Returns the tables of the graph that the op is in.
    pub fn graph(&self) -> &'a dyn GraphTables {
        self.graph
    }

    /// Returns a value of the graph.
    pub fn value(&self, id: ValueId) -> &'a Value {
        self.graph.value(id)
    }

    /// Returns a value's dimensions.
    pub fn dims(&self, id: ValueId) -> &'a [Dim] {
        &self.graph.value(id).shape.0
    }

    /// Refuses runs in which `needed` exceeds `available`, which are slices of an operand.
    pub fn require(&mut self, operand: ValueId, needed: &DimSum, available: &DimSum) {
        let label = format!("{} {}", self.op, self.value(operand).name);
        self.compiler.require(label, needed, available);
    }

    /// Shows a value after each run, under a label.
    pub fn print(&mut self, label: &str, value: ValueId) {
        self.compiler.print(label, value);
    }
}

/// Sizes.
impl OpLowering<'_> {
    /// Returns the product of some dimensions.
    pub fn size(&mut self, dims: &[Dim]) -> Size {
        self.compiler.size(dims)
    }

    /// Returns the sizes of some dimensions.
    pub(crate) fn sizes(&mut self, dims: &[Dim]) -> Vec<Size> {
        let each = dims.iter().map(std::slice::from_ref);
        each.map(|dim| self.compiler.size(dim)).collect()
    }

    /// Returns the number of a value's elements.
    pub fn elements(&mut self, id: ValueId) -> Size {
        self.size(self.dims(id))
    }

    /// Returns the number of a value's rows: the product of all dimensions but the last.
    pub fn rows(&mut self, id: ValueId) -> Size {
        let dims = self.dims(id);
        self.size(&dims[..dims.len().saturating_sub(1)])
    }

    /// Returns the size of a value's last dimension, 1 if it has none.
    pub(crate) fn last_dim(&mut self, id: ValueId) -> Size {
        let dims = self.dims(id);
        self.size(&dims[dims.len().saturating_sub(1)..])
    }

    /// Returns the product of the dimensions before an axis, the size of the axis, and the product of the
    /// dimensions after it.
    pub(crate) fn around_axis(&mut self, id: ValueId, axis: u32) -> [Size; 3] {
        let (dims, axis) = (self.dims(id), axis as usize);
        [&dims[..axis], &dims[axis..=axis], &dims[axis + 1..]].map(|dims| self.size(dims))
    }

    /// Returns the size of a value's last dimension, which must be fixed.
    ///
    /// # Errors
    ///
    /// If it is symbolic, or does not fit 32 bits.
    pub fn cols(&self, id: ValueId) -> Result<u32, LoweringError> {
        let value = self.value(id);
        match value.shape.cols() {
            Some(cols) => self.count("the number of columns", cols),
            None => Err(LoweringError::Symbolic {
                op: self.op,
                value: value.name.clone(),
                shape: value.shape.to_string(),
            }),
        }
    }

    /// Returns the fixed size of one of a value's dimensions; 0 if it has no such fixed dimension.
    ///
    /// # Errors
    ///
    /// If it does not fit 32 bits.
    pub(crate) fn fixed_dim(
        &self,
        id: ValueId,
        axis: usize,
        what: &'static str,
    ) -> Result<u32, LoweringError> {
        let size = self.dims(id).get(axis).and_then(Dim::fixed);
        self.count(what, size.unwrap_or(0))
    }

    /// Returns a number as kernels take it, of 32 bits.
    ///
    /// # Errors
    ///
    /// If it does not fit.
    pub(crate) fn count(&self, what: &'static str, value: u64) -> Result<u32, LoweringError> {
        u32::try_from(value).map_err(|_| LoweringError::TooLarge {
            op: self.op,
            what,
            value,
        })
    }

    /// Returns the strides of a value, whose elements are in memory without gaps.
    pub(crate) fn strides(&mut self, id: ValueId) -> Strides {
        let dims = self.dims(id);
        (1..=dims.len()).map(|i| self.size(&dims[i..])).collect()
    }

    /// Returns a value's strides over the dimensions that it is broadcast to: 0 where it repeats.
    pub(crate) fn broadcast_strides(&mut self, id: ValueId, dims: &[Dim]) -> Strides {
        let (own, strides) = (self.dims(id), self.strides(id));
        let missing = dims.len() - own.len();
        let aligned = own.iter().zip(&dims[missing..]).zip(strides);
        let aligned = aligned.map(|((own, dim), stride)| match own == dim {
            true => stride,
            false => Size::fixed(0),
        });
        let repeated = std::iter::repeat_n(Size::fixed(0), missing);
        repeated.chain(aligned).collect()
    }

    /// Merges dimensions as far as their strides allow.
    ///
    /// # Errors
    ///
    /// If more remain than kernels take.
    pub(crate) fn merge(
        &self,
        dims: Vec<Size>,
        strides: Vec<Strides>,
    ) -> Result<(Vec<Size>, Vec<Strides>), LoweringError> {
        let (dims, strides) = merge_dimensions(dims, strides);
        match dims.len() <= MAX_RANK {
            true => Ok((dims, strides)),
            false => Err(LoweringError::Dimensions {
                op: self.op,
                dims: dims.len(),
                most: MAX_RANK,
            }),
        }
    }
}

/// Memory.
impl OpLowering<'_> {
    /// Returns the memory of an operand; a weight becomes plain `f32`.
    ///
    /// # Errors
    ///
    /// If it is a result that no earlier call makes.
    pub fn operand(&mut self, id: ValueId) -> Result<Memory, LoweringError> {
        self.compiler.operand(self.op, id)
    }

    /// Returns the memory of several operands.
    ///
    /// # Errors
    ///
    /// As [`Self::operand`].
    pub fn operands(&mut self, ids: &[ValueId]) -> Result<Vec<Memory>, LoweringError> {
        ids.iter().map(|id| self.operand(*id)).collect()
    }

    /// Returns new memory for a result.
    pub fn result(&mut self, id: ValueId) -> Memory {
        let elements = self.elements(id);
        self.compiler.result(id, elements)
    }

    /// Returns new memory of another size for a result: of several stacked results the first one's.
    pub(crate) fn result_of_size(&mut self, id: ValueId, elements: Size) -> Memory {
        self.compiler.result(id, elements)
    }

    /// Places a result in the memory of an operand that the op overwrites.
    pub fn alias(&mut self, id: ValueId, memory: Memory) {
        self.compiler.alias(id, memory);
    }

    /// Returns new memory for something between the op's calls.
    pub(crate) fn scratch(&mut self, elements: Size) -> Memory {
        self.compiler.scratch(elements)
    }

    /// Returns the memory of some weights as plain `f32`, one after the other.
    pub fn vector(&mut self, weights: &[ValueId]) -> Memory {
        self.compiler.vector(weights)
    }

    /// Returns the encoding, rows and columns of a weight in device memory.
    ///
    /// # Errors
    ///
    /// If the value is not a weight with two or three fixed dimensions.
    pub(crate) fn matrix_shape(
        &self,
        weight: ValueId,
    ) -> Result<(Encoding, u64, u64), LoweringError> {
        self.compiler.matrix_shape(self.op, weight)
    }

    /// Stacks the rows of weights of one encoding, in parts that the target can bind.
    ///
    /// # Errors
    ///
    /// If a value is not a weight of fixed size, or a single row exceeds the target's limits.
    pub(crate) fn matrix_parts(
        &mut self,
        weights: &[ValueId],
    ) -> Result<Vec<MatrixPart>, LoweringError> {
        self.compiler.matrix_parts(self.op, weights)
    }
}

/// Calls.
impl OpLowering<'_> {
    /// Returns whether the target runs a kernel op on rows of `cols` elements.
    pub(crate) fn runs(&self, kernel: &str, cols: u64) -> bool {
        self.compiler.runs(kernel, cols)
    }

    /// Adds a call of an op's kernel, labelled by this op.
    ///
    /// # Errors
    ///
    /// If the target runs none of the kernels.
    pub fn call(
        &mut self,
        kernel: impl Into<String>,
        grid: [Size; 2],
        params: Vec<ParamWord>,
        bindings: Vec<Memory>,
    ) -> Result<(), LoweringError> {
        self.call_over_rows(kernel, 0, grid, params, bindings)
    }

    /// Adds a kernel call whose kernels depend on the width of the rows that they read, `cols` elements.
    ///
    /// # Errors
    ///
    /// If the target runs none of the op's kernels.
    pub(crate) fn call_over_rows(
        &mut self,
        kernel: impl Into<String>,
        cols: u32,
        grid: [Size; 2],
        params: Vec<ParamWord>,
        bindings: Vec<Memory>,
    ) -> Result<(), LoweringError> {
        self.add_call(KernelCall {
            kernel: kernel.into(),
            cols: cols.into(),
            label: self.op.into(),
            grid,
            params,
            bindings,
            conditions: Vec::new(),
        })
    }

    /// Adds a kernel call.
    ///
    /// # Errors
    ///
    /// If the target runs none of the op's kernels.
    pub(crate) fn add_call(&mut self, call: KernelCall) -> Result<(), LoweringError> {
        self.compiler.call(call)
    }

    /// Adds a call of a custom op's kernel.
    ///
    /// # Errors
    ///
    /// If the kernel is invalid, or exceeds the target's limits.
    pub(crate) fn custom_call(&mut self, call: CustomCall) -> Result<(), LoweringError> {
        self.compiler.custom_call(call)
    }

    /// Adds a call over the elements of a node's only result: it binds the operands, then the result.
    ///
    /// # Errors
    ///
    /// If an operand does not exist, or the target runs none of the kernels.
    pub(crate) fn call_over_elements(
        &mut self,
        kernel: &str,
        node: NodeValues<'_>,
        params: Vec<ParamWord>,
    ) -> Result<(), LoweringError> {
        let mut bindings = self.operands(node.inputs)?;
        bindings.push(self.result(node.outputs[0]));
        let grid = [self.elements(node.outputs[0]), Size::fixed(1)];
        self.call(kernel, grid, params, bindings)
    }
}
