//! A graph's ops as methods.

use super::{
    Axes, Binary, ConvSpec, DType, Graph, GraphError, Map, NormKind, NormSpec, Op, Reduction,
    Shape, TensorOp, Unary, ValueId, ValueKind,
};

/// Shapes by which a value's elements can be counted: the same product is the same number.
pub(super) fn count(shape: &Shape) -> (u64, Vec<String>) {
    let mut factor = 1u64;
    let mut symbols = Vec::new();
    for dim in &shape.0 {
        let (known, rest) = dim.factored();
        factor = factor.saturating_mul(known);
        symbols.extend(rest.map(|dim| dim.to_string()));
    }
    symbols.sort_unstable();
    (factor, symbols)
}

impl Graph {
    pub(super) fn error(
        &self,
        op: impl Into<std::borrow::Cow<'static, str>>,
        problem: String,
        operands: &[ValueId],
    ) -> GraphError {
        let operand = |id: &ValueId| {
            let value = self.value(*id);
            format!("{}: {}{}", value.name, value.dtype, value.shape)
        };
        GraphError {
            op: op.into(),
            problem,
            operands: operands.iter().map(operand).collect::<Vec<_>>().join(", "),
        }
    }

    fn constant_words(
        &mut self,
        dtype: DType,
        words: Vec<u32>,
        shape: Shape,
    ) -> Result<ValueId, GraphError> {
        let name = format!("constant.{}", self.constants.len());
        if count(&shape) != (words.len() as u64, Vec::new()) {
            let problem = format!("{} values do not make {shape}", words.len());
            return Err(self.error("constant", problem, &[]));
        }
        let kind = ValueKind::Constant(self.constants.len() as u32);
        self.constants.push(words);
        Ok(self.add_value(name, dtype, shape, kind))
    }

    /// Numbers that are part of the graph.
    ///
    /// # Errors
    ///
    /// If they are not as many as the shape has.
    pub fn constant(&mut self, values: &[f32], shape: Shape) -> Result<ValueId, GraphError> {
        let words = values.iter().map(|value| value.to_bits()).collect();
        self.constant_words(DType::F32, words, shape)
    }

    /// Whole numbers that are part of the graph.
    ///
    /// # Errors
    ///
    /// As [`Self::constant`].
    pub fn constant_u32(&mut self, values: &[u32], shape: Shape) -> Result<ValueId, GraphError> {
        self.constant_words(DType::U32, values.to_vec(), shape)
    }

    /// One number, of shape `[]`.
    pub fn scalar(&mut self, value: f32) -> ValueId {
        let kind = ValueKind::Constant(self.constants.len() as u32);
        let name = format!("constant.{}", self.constants.len());
        self.constants.push(vec![value.to_bits()]);
        self.add_value(name, DType::F32, Shape(Vec::new()), kind)
    }

    /// The same elements in the same order, in another shape. Nothing is computed.
    ///
    /// # Errors
    ///
    /// If the shape has another number of elements.
    pub fn reshape(&mut self, x: ValueId, shape: Shape) -> Result<ValueId, GraphError> {
        let value = self.value(x);
        if count(&value.shape) != count(&shape) {
            let problem = format!("{shape} has not the elements of {}", value.shape);
            return Err(self.error("reshape", problem, &[x]));
        }
        // What is a buffer's would change with it.
        if value.kind == ValueKind::Buffer {
            return Err(self.error("reshape", "a buffer has one shape".into(), &[x]));
        }
        let name = format!("reshape.{}", self.values.len());
        let (dtype, kind) = (value.dtype, ValueKind::View(self.storage(x)));
        Ok(self.add_value(name, dtype, shape, kind))
    }

    /// The value whose memory a value is in.
    pub fn storage(&self, id: ValueId) -> ValueId {
        match self.value(id).kind {
            ValueKind::View(of) => of,
            _ => id,
        }
    }

    /// A function of each element.
    ///
    /// # Errors
    ///
    /// If the operand is of another type.
    pub fn unary(&mut self, function: Unary, x: ValueId) -> Result<ValueId, GraphError> {
        self.add(Op::Tensor(TensorOp::Unary(function)), &[x])
    }

    /// A function of each pair of elements; shapes are repeated as in NumPy.
    ///
    /// # Errors
    ///
    /// If the types differ, or the shapes have no common one.
    pub fn binary(&mut self, f: Binary, a: ValueId, b: ValueId) -> Result<ValueId, GraphError> {
        self.add(Op::Tensor(TensorOp::Binary(f)), &[a, b])
    }

    /// `a` where the condition is not 0, else `b`.
    ///
    /// # Errors
    ///
    /// If the types or shapes do not fit.
    pub fn select(
        &mut self,
        condition: ValueId,
        a: ValueId,
        b: ValueId,
    ) -> Result<ValueId, GraphError> {
        self.add(Op::Tensor(TensorOp::Select), &[condition, a, b])
    }

    /// Elements of another type: to `u32` towards zero and within its range.
    ///
    /// # Errors
    ///
    /// If the operand is a buffer.
    pub fn cast(&mut self, x: ValueId, dtype: DType) -> Result<ValueId, GraphError> {
        match self.value(x).dtype == dtype {
            true => Ok(x),
            false => self.add(Op::Tensor(TensorOp::Cast(dtype)), &[x]),
        }
    }

    /// One dimension less: its sum, mean, maximum or minimum.
    ///
    /// # Errors
    ///
    /// If there is no such dimension.
    pub fn reduce(
        &mut self,
        kind: Reduction,
        x: ValueId,
        axis: u32,
    ) -> Result<ValueId, GraphError> {
        self.add(Op::Tensor(TensorOp::Reduce { kind, axis }), &[x])
    }

    /// The dimensions in another order: dimension `i` of the result is `axes[i]` of `x`.
    ///
    /// # Errors
    ///
    /// If that is no order of its dimensions.
    pub fn permute(&mut self, x: ValueId, axes: &[usize]) -> Result<ValueId, GraphError> {
        match Axes::new(axes) {
            Some(axes) => self.add(Op::Tensor(TensorOp::Permute(axes)), &[x]),
            None => Err(self.error("permute", format!("{axes:?} are too many"), &[x])),
        }
    }

    /// Every `step`th part along a dimension, `len` of them from `start` on.
    ///
    /// # Errors
    ///
    /// If there is no such dimension, or they are not within it. Where its size is known only in a run, it
    /// is the run that is refused.
    pub fn slice(
        &mut self,
        x: ValueId,
        axis: u32,
        start: u64,
        len: u64,
        step: u64,
    ) -> Result<ValueId, GraphError> {
        let slice = TensorOp::Slice {
            axis,
            start,
            len,
            step,
        };
        self.add(Op::Tensor(slice), &[x])
    }

    /// The first parts of `x` along a dimension, as many as another value has there: the positions of a
    /// table that a text of any length needs. A run is refused if `x` has fewer.
    ///
    /// # Errors
    ///
    /// If there is no such dimension, or `x` is known to have fewer.
    pub fn slice_like(
        &mut self,
        x: ValueId,
        axis: u32,
        like: ValueId,
        of: u32,
    ) -> Result<ValueId, GraphError> {
        self.add(Op::Tensor(TensorOp::SliceLike { axis, of }), &[x, like])
    }

    /// Values one after the other along a dimension, whose size becomes the [sum](super::Dim::plus) of theirs.
    ///
    /// # Errors
    ///
    /// If they differ in type or in another dimension.
    pub fn concat(&mut self, parts: &[ValueId], axis: u32) -> Result<ValueId, GraphError> {
        self.add(Op::Tensor(TensorOp::Concat { axis }), parts)
    }

    /// `[.., m, k]` times `[.., k, n]`; outer dimensions are repeated.
    ///
    /// # Errors
    ///
    /// If the matrices do not fit.
    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, GraphError> {
        self.matmul_transposed(a, b, [false, false])
    }

    /// As [`Self::matmul`], with the last two dimensions of the one, the other or both exchanged.
    ///
    /// # Errors
    ///
    /// If the matrices do not fit.
    pub fn matmul_transposed(
        &mut self,
        a: ValueId,
        b: ValueId,
        [transpose_a, transpose_b]: [bool; 2],
    ) -> Result<ValueId, GraphError> {
        let matmul = TensorOp::MatMul {
            transpose_a,
            transpose_b,
        };
        self.add(Op::Tensor(matmul), &[a, b])
    }

    /// `x [.., cols]` times the transposed weight `[rows, cols]`, whatever its encoding, and the bias
    /// `[rows]`, if there is one: `[.., rows]`.
    ///
    /// # Errors
    ///
    /// If they do not fit.
    pub fn linear(
        &mut self,
        x: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, GraphError> {
        let operands: Vec<ValueId> = [x, weight].into_iter().chain(bias).collect();
        self.add(Op::Linear, &operands)
    }

    /// Layer norm over the last dimension (Ba et al. 2016).
    ///
    /// # Errors
    ///
    /// If weight and bias are not as wide as that.
    pub fn layer_norm(
        &mut self,
        x: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
        eps: f32,
    ) -> Result<ValueId, GraphError> {
        let norm = NormSpec {
            kind: NormKind::Layer,
            eps,
            weight_offset: 0.0,
        };
        let operands: Vec<ValueId> = [x, weight].into_iter().chain(bias).collect();
        self.add(Op::Norm(norm), &operands)
    }

    /// RMS norm over the last dimension (Zhang and Sennrich 2019).
    ///
    /// # Errors
    ///
    /// If the weight is not as wide as that.
    pub fn rms_norm(
        &mut self,
        x: ValueId,
        weight: ValueId,
        eps: f32,
    ) -> Result<ValueId, GraphError> {
        let norm = NormSpec {
            kind: NormKind::Rms,
            eps,
            weight_offset: 0.0,
        };
        self.add(Op::Norm(norm), &[x, weight])
    }

    /// An activation or another function with a number.
    ///
    /// # Errors
    ///
    /// If the operand is not of `f32`.
    pub fn map(&mut self, x: ValueId, map: Map) -> Result<ValueId, GraphError> {
        self.add(Op::Map(map), &[x])
    }

    /// Cross-correlation of images `[n, channels, height, width]` with filters `[out, channels /
    /// groups, rows, cols]`.
    ///
    /// # Errors
    ///
    /// If they do not fit.
    pub fn conv2d(
        &mut self,
        image: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
        spec: ConvSpec,
    ) -> Result<ValueId, GraphError> {
        let operands: Vec<ValueId> = [image, weight].into_iter().chain(bias).collect();
        self.add(Op::Tensor(TensorOp::Conv2d(spec)), &operands)
    }

    /// The parts along a dimension that the indices name. An index that is too great is an error on
    /// the host, and elsewhere stands for the last part.
    ///
    /// # Errors
    ///
    /// If there is no such dimension, or the indices are not `u32`.
    pub fn gather(
        &mut self,
        x: ValueId,
        indices: ValueId,
        axis: u32,
    ) -> Result<ValueId, GraphError> {
        self.add(Op::Tensor(TensorOp::Gather { axis }), &[x, indices])
    }

    /// `x` with updates in place of the parts along a dimension that the indices name, or added to
    /// them. An index that is too great does nothing.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn scatter(
        &mut self,
        x: ValueId,
        indices: ValueId,
        updates: ValueId,
        axis: u32,
        adds: bool,
    ) -> Result<ValueId, GraphError> {
        let scatter = TensorOp::Scatter { axis, adds };
        self.add(Op::Tensor(scatter), &[x, indices, updates])
    }

    /// The `k` greatest elements of each row, the greatest first, and where they are.
    ///
    /// # Errors
    ///
    /// If a row has fewer.
    pub fn top_k(&mut self, x: ValueId, k: u32) -> Result<[ValueId; 2], GraphError> {
        let results = self.add_all(Op::Tensor(TensorOp::TopK { k }), &[x])?;
        match results[..] {
            [values, ids] => Ok([values, ids]),
            _ => Err(self.error("top_k", "it has two results".into(), &[x])),
        }
    }
}
