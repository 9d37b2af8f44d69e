//! What is made of several ops: softmax over any dimension, attention, pooling, and so on.

use super::{Binary, ConvSpec, Dim, Graph, GraphError, Map, Op, Reduction, Shape, Unary, ValueId};

/// The windows of a pooling: of rows, then of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// Pixels of a window.
    pub size: [u32; 2],
    /// Pixels from one window to the next.
    pub stride: [u32; 2],
    /// Pixels beyond both sides, at most half a window.
    pub padding: [u32; 2],
}

impl PoolSpec {
    /// Square windows side by side.
    ///
    /// ```
    /// use wisp_engine::graph::PoolSpec;
    ///
    /// let pool = PoolSpec { padding: [1, 1], ..PoolSpec::square(3) };
    /// assert_eq!((pool.size, pool.stride), ([3, 3], [3, 3]));
    /// ```
    pub fn square(size: u32) -> PoolSpec {
        PoolSpec {
            size: [size; 2],
            stride: [size; 2],
            padding: [0; 2],
        }
    }
}

impl Graph {
    /// Adds several ops that are one to the caller: an error names that one and its operands, and
    /// leaves the graph as it was.
    fn composed<T>(
        &mut self,
        op: &'static str,
        operands: &[ValueId],
        build: impl FnOnce(&mut Graph) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        let before = (self.values.len(), self.nodes.len(), self.constants.len());
        build(self).map_err(|error| {
            self.values.truncate(before.0);
            self.nodes.truncate(before.1);
            self.constants.truncate(before.2);
            let problem = match error.op == op {
                true => error.problem,
                false => format!("{}: {}", error.op, error.problem),
            };
            self.error(op, problem, operands)
        })
    }

    /// Refuses a dimension that a value does not have.
    fn expect_axis(&self, op: &'static str, x: ValueId, axis: u32) -> Result<(), GraphError> {
        let shape = &self.value(x).shape;
        match (axis as usize) < shape.0.len() {
            true => Ok(()),
            false => Err(self.error(op, format!("{shape} has no dimension {axis}"), &[x])),
        }
    }

    /// Exchanges a dimension with the last one.
    fn with_last(&mut self, x: ValueId, axis: u32) -> Result<ValueId, GraphError> {
        let rank = self.value(x).shape.0.len();
        let mut axes: Vec<usize> = (0..rank).collect();
        match axis as usize + 1 == rank {
            true => Ok(x),
            false => {
                axes.swap(axis as usize, rank - 1);
                self.permute(x, &axes)
            }
        }
    }

    /// The softmax over a dimension.
    ///
    /// # Errors
    ///
    /// If there is no such dimension, or the operand is not of `f32`.
    pub fn softmax(&mut self, x: ValueId, axis: u32) -> Result<ValueId, GraphError> {
        self.expect_axis("softmax", x, axis)?;
        self.composed("softmax", &[x], |graph| {
            let last = graph.with_last(x, axis)?;
            let out = graph.add(Op::Softmax, &[last])?;
            graph.with_last(out, axis)
        })
    }

    /// Where along a dimension the greatest element is, `u32`: the first of equals.
    ///
    /// # Errors
    ///
    /// If there is no such dimension, or the operand is not of `f32`.
    pub fn argmax(&mut self, x: ValueId, axis: u32) -> Result<ValueId, GraphError> {
        self.expect_axis("argmax", x, axis)?;
        let rank = self.value(x).shape.0.len();
        let mut axes: Vec<usize> = (0..rank).filter(|other| *other != axis as usize).collect();
        axes.push(axis as usize);
        self.composed("argmax", &[x], |graph| {
            let last = match axis as usize + 1 == rank {
                true => x,
                false => graph.permute(x, &axes)?,
            };
            graph.add(Op::Argmax, &[last])
        })
    }

    /// Rows of a table `[rows, cols]`, of any encoding: `ids [..]` become `[.., cols]`. An id that is too
    /// great is an error on the host, and elsewhere gives zeros or another row.
    ///
    /// # Errors
    ///
    /// If the ids are not `u32`, or the table has other than two dimensions.
    pub fn embedding(&mut self, table: ValueId, ids: ValueId) -> Result<ValueId, GraphError> {
        self.composed("embedding", &[table, ids], |graph| {
            let mut shape = graph.value(ids).shape.clone();
            let mut each = ids;
            if shape.0.len() > 1 {
                // An id is the last of a row of numbers.
                shape.0.push(Dim::Fixed(1));
                each = graph.reshape(ids, shape)?;
            }
            graph.add(Op::Embed { scale: 1.0 }, &[each, table])
        })
    }

    /// Batch norm as a trained model applies it (Ioffe and Szegedy 2015): `x [n, channels, ..]`; weight,
    /// bias, mean and variance `[channels]`.
    ///
    /// # Errors
    ///
    /// If they do not fit.
    pub fn batch_norm(
        &mut self,
        x: ValueId,
        [weight, bias, mean, variance]: [ValueId; 4],
        eps: f32,
    ) -> Result<ValueId, GraphError> {
        let operands = [x, weight, bias, mean, variance];
        self.composed("batch_norm", &operands, |graph| {
            let shape = &graph.value(x).shape.0;
            let Some(channels) = shape.get(1).cloned() else {
                return Err(graph.error("batch_norm", "x has no channels".into(), &[]));
            };
            let inner = shape.len() - 2;
            if let Some(other) = operands[1..].iter().find(|id| {
                let shape = &graph.value(**id).shape.0;
                shape.as_slice() != std::slice::from_ref(&channels)
            }) {
                let other = graph.value(*other);
                let problem = format!(
                    "x has {channels} channels, {} is {}",
                    other.name, other.shape
                );
                return Err(graph.error("batch_norm", problem, &[]));
            }
            let eps = graph.scalar(eps);
            let spread = graph.binary(Binary::Add, variance, eps)?;
            let factor = graph.unary(Unary::Rsqrt, spread)?;
            let factor = graph.binary(Binary::Mul, factor, weight)?;
            let shift = graph.binary(Binary::Mul, mean, factor)?;
            let shift = graph.binary(Binary::Sub, bias, shift)?;
            let dims = std::iter::once(channels).chain(vec![Dim::Fixed(1); inner]);
            let dims = Shape(dims.collect());
            let [factor, shift] = [factor, shift].map(|x| graph.reshape(x, dims.clone()));
            let scaled = graph.binary(Binary::Mul, x, factor?)?;
            graph.binary(Binary::Add, scaled, shift?)
        })
    }

    /// Cross-correlation of signals `[n, channels, length]` with filters `[out, channels / groups,
    /// taps]`; of the spec count the second numbers.
    ///
    /// # Errors
    ///
    /// If they do not fit.
    pub fn conv1d(
        &mut self,
        signal: ValueId,
        weight: ValueId,
        bias: Option<ValueId>,
        spec: ConvSpec,
    ) -> Result<ValueId, GraphError> {
        let operands: Vec<ValueId> = [signal, weight].into_iter().chain(bias).collect();
        self.composed("conv1d", &operands, |graph| {
            let [signal, weight] = [signal, weight].map(|x| {
                let mut shape = graph.value(x).shape.clone();
                if shape.0.len() != 3 {
                    let problem = format!("{shape} must have 3 dimensions");
                    return Err(graph.error("conv1d", problem, &[]));
                }
                shape.0.insert(2, Dim::Fixed(1));
                graph.reshape(x, shape)
            });
            let spec = ConvSpec {
                stride: [1, spec.stride[1]],
                padding: [0, spec.padding[1]],
                dilation: [1, spec.dilation[1]],
                groups: spec.groups,
            };
            let out = graph.conv2d(signal?, weight?, bias, spec)?;
            let mut shape = graph.value(out).shape.clone();
            shape.0.remove(2);
            graph.reshape(out, shape)
        })
    }

    /// `x` with so many parts before and after it along a dimension, all of one value.
    ///
    /// # Errors
    ///
    /// If there is no such dimension or its size is 0 or not known, or the operand is not of `f32`.
    pub fn pad(
        &mut self,
        x: ValueId,
        axis: u32,
        [before, after]: [u64; 2],
        value: f32,
    ) -> Result<ValueId, GraphError> {
        self.expect_axis("pad", x, axis)?;
        if before.max(after) > u64::from(u16::MAX) {
            return Err(self.error(
                "pad",
                format!(
                    "{before} and {after} are more than the {} that are possible",
                    u16::MAX
                ),
                &[x],
            ));
        }
        self.composed("pad", &[x], |graph| {
            let inner = graph.value(x).shape.0.len() - 1 - axis as usize;
            let border = |graph: &mut Graph, len: u64| {
                // One part of `x` has the other dimensions' sizes; nothing of it is chosen.
                let part = graph.slice(x, axis, 0, 1, 1)?;
                let dims = std::iter::once(Dim::Fixed(len)).chain(vec![Dim::Fixed(1); inner]);
                let none = graph.constant_u32(&vec![0; len as usize], Shape(dims.collect()))?;
                let value = graph.scalar(value);
                graph.select(none, part, value)
            };
            let mut parts = Vec::new();
            if before > 0 {
                parts.push(border(graph, before)?);
            }
            parts.push(x);
            if after > 0 {
                parts.push(border(graph, after)?);
            }
            match parts.len() {
                1 => Ok(x),
                _ => graph.concat(&parts, axis),
            }
        })
    }

    /// The greatest pixel of each window of images `[n, channels, height, width]`; there is nothing
    /// beyond their sides.
    ///
    /// # Errors
    ///
    /// If the windows do not fit.
    pub fn max_pool2d(&mut self, x: ValueId, spec: PoolSpec) -> Result<ValueId, GraphError> {
        self.pool2d("max_pool2d", x, spec, f32::MIN, Binary::Max)
    }

    /// The mean of each window of images `[n, channels, height, width]`; zeros beyond their sides count.
    ///
    /// # Errors
    ///
    /// If the windows do not fit.
    pub fn avg_pool2d(&mut self, x: ValueId, spec: PoolSpec) -> Result<ValueId, GraphError> {
        let sum = self.pool2d("avg_pool2d", x, spec, 0.0, Binary::Add)?;
        let pixels = spec.size[0] as f32 * spec.size[1] as f32;
        self.map(sum, Map::Scale(1.0 / pixels))
    }

    fn pool2d(
        &mut self,
        op: &'static str,
        x: ValueId,
        spec: PoolSpec,
        beyond: f32,
        join: Binary,
    ) -> Result<ValueId, GraphError> {
        self.composed(op, &[x], |graph| {
            let value = graph.value(x);
            if value.shape.0.len() != 4 {
                let problem = format!("an image must have 4 dimensions, but is {}", value.shape);
                return Err(graph.error(op, problem, &[]));
            }
            let mut out = x;
            // First along the columns, which shortens what is read along the rows.
            for side in [1, 0] {
                let [size, stride, padding] =
                    [spec.size, spec.stride, spec.padding].map(|both| u64::from(both[side]));
                let axis = side as u32 + 2;
                let dim = graph.value(out).shape.0[axis as usize].clone();
                let room = dim.fixed().and_then(|own| own.checked_add(2 * padding)?.checked_sub(size));
                let steps = room.and_then(|room| room.checked_div(stride));
                let steps = steps.filter(|_| size > 0 && padding <= size / 2).ok_or_else(|| {
                    let problem = format!(
                        "a window of {size} (stride {stride}) does not fit {dim} with {padding} on both sides"
                    );
                    graph.error(op, problem, &[])
                })?;
                let padded = graph.pad(out, axis, [padding; 2], beyond)?;
                out = graph.slice(padded, axis, 0, steps + 1, stride)?;
                for offset in 1..size {
                    let next = graph.slice(padded, axis, offset, steps + 1, stride)?;
                    out = graph.binary(join, out, next)?;
                }
            }
            Ok(out)
        })
    }

    /// The mean over all but the first two dimensions: `[n, channels, ..]` becomes `[n, channels]`.
    ///
    /// # Errors
    ///
    /// If there are fewer dimensions, or the operand is not of `f32`.
    pub fn global_avg_pool(&mut self, x: ValueId) -> Result<ValueId, GraphError> {
        self.composed("global_avg_pool", &[x], |graph| {
            let rank = graph.value(x).shape.0.len();
            if rank < 3 {
                let problem = format!("{} has no image", graph.value(x).shape);
                return Err(graph.error("global_avg_pool", problem, &[]));
            }
            (2..rank)
                .rev()
                .try_fold(x, |x, axis| graph.reduce(Reduction::Mean, x, axis as u32))
        })
    }

    /// Rotary position embedding (Su et al. 2021): of `x [.., n, dim]` the pairs `(i, i + dim / 2)` are
    /// turned by angles with these cosines and sines, `[n, dim / 2]` or what repeats to it.
    ///
    /// # Errors
    ///
    /// If the last dimension is odd or not known, or the shapes do not fit.
    pub fn rope(&mut self, x: ValueId, cos: ValueId, sin: ValueId) -> Result<ValueId, GraphError> {
        self.composed("rope", &[x, cos, sin], |graph| {
            let shape = graph.value(x).shape.clone();
            let Some(dim) = shape.cols().filter(|dim| dim % 2 == 0) else {
                let problem = format!("{shape} has no even width that is known");
                return Err(graph.error("rope", problem, &[]));
            };
            let (axis, half) = (shape.0.len() as u32 - 1, dim / 2);
            let a = graph.slice(x, axis, 0, half, 1)?;
            let b = graph.slice(x, axis, half, half, 1)?;
            let turned = |graph: &mut Graph, f, [x, y]: [ValueId; 2]| {
                let x = graph.binary(Binary::Mul, x, cos)?;
                let y = graph.binary(Binary::Mul, y, sin)?;
                graph.binary(f, x, y)
            };
            let first = turned(graph, Binary::Sub, [a, b])?;
            let second = turned(graph, Binary::Add, [b, a])?;
            let out = graph.concat(&[first, second], axis)?;
            match graph.value(out).shape == shape {
                true => Ok(out),
                false => {
                    Err(graph.error("rope", format!("the angles do not repeat to {shape}"), &[]))
                }
            }
        })
    }

    /// `softmax(q k^T * scale + mask) v` (Vaswani et al. 2017): `q [.., heads, n, dim]`, `k [.., heads,
    /// m, dim]`, `v [.., heads, m, dim]`, the mask of any shape that repeats to `[.., heads, n, m]`.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit.
    pub fn attention(
        &mut self,
        [q, k, v]: [ValueId; 3],
        mask: Option<ValueId>,
        scale: f32,
    ) -> Result<ValueId, GraphError> {
        let operands: Vec<ValueId> = [q, k, v].into_iter().chain(mask).collect();
        self.composed("attention", &operands, |graph| {
            let scores = graph.matmul_transposed(q, k, [false, true])?;
            let shape = graph.value(scores).shape.clone();
            let mut scores = graph.map(scores, Map::Scale(scale))?;
            if let Some(mask) = mask {
                scores = graph.binary(Binary::Add, scores, mask)?;
                if graph.value(scores).shape != shape {
                    let problem = format!("the mask does not repeat to {shape}");
                    return Err(graph.error("attention", problem, &[]));
                }
            }
            let weights = graph.softmax(scores, shape.0.len() as u32 - 1)?;
            graph.matmul(weights, v)
        })
    }
}
