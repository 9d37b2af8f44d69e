//! Ops on tensors of any rank: what a graph of one's own is made of beside the decoder's parts.

use serde::{Deserialize, Serialize};

use super::{DType, Dim, Shape, Value, ValueKind, op::Inferred};

/// Dimensions that a tensor may have at most.
pub const MAX_RANK: usize = 8;

/// A function of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum Unary {
    /// `-x`.
    Neg = 16,
    /// `|x|`.
    Abs = 17,
    /// `e^x`.
    Exp = 18,
    /// The natural logarithm.
    Log = 19,
    /// The square root.
    Sqrt = 20,
    /// `1 / sqrt(x)`.
    Rsqrt = 21,
    /// The sine, of radians.
    Sin = 22,
    /// The cosine, of radians.
    Cos = 23,
    /// The hyperbolic tangent.
    Tanh = 24,
    /// `1 / (1 + e^-x)`.
    Sigmoid = 25,
    /// The error function.
    Erf = 26,
    /// The greatest whole number that is not greater.
    Floor = 27,
    /// The least whole number that is not less.
    Ceil = 28,
    /// The nearest whole number, the even one of two.
    Round = 29,
    /// `1 / x`.
    Recip = 30,
    /// 1 where `x` is 0, else 0; of `u32`.
    Not = 33,
}

impl Unary {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Abs => "abs",
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Sqrt => "sqrt",
            Unary::Rsqrt => "rsqrt",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
            Unary::Tanh => "tanh",
            Unary::Sigmoid => "sigmoid",
            Unary::Erf => "erf",
            Unary::Floor => "floor",
            Unary::Ceil => "ceil",
            Unary::Round => "round",
            Unary::Recip => "recip",
            Unary::Not => "not",
        }
    }

    fn takes(self) -> DType {
        match self {
            Unary::Not => DType::U32,
            _ => DType::F32,
        }
    }
}

/// A function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum Binary {
    /// `a + b`.
    Add = 0,
    /// `a - b`.
    Sub = 1,
    /// `a * b`.
    Mul = 2,
    /// `a / b`; of `u32`, division by 0 gives `a`.
    Div = 3,
    /// `|a|^b`, with the sign of `a` where `b` is odd; of `f32`.
    Pow = 4,
    /// The lesser.
    Min = 5,
    /// The greater.
    Max = 6,
    /// `a == b`: like every comparison, 1 or 0 as `u32`.
    Equal = 7,
    /// `a != b`.
    NotEqual = 8,
    /// `a < b`.
    Less = 9,
    /// `a <= b`.
    LessEqual = 10,
    /// `a > b`.
    Greater = 11,
    /// `a >= b`.
    GreaterEqual = 12,
    /// Both are not 0; of `u32`.
    And = 13,
    /// One is not 0; of `u32`.
    Or = 14,
}

impl Binary {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Pow => "pow",
            Binary::Min => "min",
            Binary::Max => "max",
            Binary::Equal => "equal",
            Binary::NotEqual => "not_equal",
            Binary::Less => "less",
            Binary::LessEqual => "less_equal",
            Binary::Greater => "greater",
            Binary::GreaterEqual => "greater_equal",
            Binary::And => "and",
            Binary::Or => "or",
        }
    }

    fn takes(self, dtype: DType) -> bool {
        match self {
            Binary::Pow => dtype == DType::F32,
            Binary::And | Binary::Or => dtype == DType::U32,
            _ => true,
        }
    }

    fn gives(self, dtype: DType) -> DType {
        match (self as u32) < Binary::Equal as u32 {
            true => dtype,
            false => DType::U32,
        }
    }
}

/// What a dimension is reduced to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum Reduction {
    /// The sum.
    Sum = 0,
    /// The mean.
    Mean = 1,
    /// The greatest.
    Max = 2,
    /// The least.
    Min = 3,
}

impl Reduction {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "reduce_sum",
            Reduction::Mean => "reduce_mean",
            Reduction::Max => "reduce_max",
            Reduction::Min => "reduce_min",
        }
    }
}

/// An order of dimensions: the result's dimension `i` is the operand's `axes[i]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axes {
    axes: [u8; MAX_RANK],
    rank: u8,
}

impl Axes {
    /// An order of at most [`MAX_RANK`] dimensions.
    pub fn new(axes: &[usize]) -> Option<Axes> {
        let mut order = [0; MAX_RANK];
        for (place, axis) in order.get_mut(..axes.len())?.iter_mut().zip(axes) {
            *place = u8::try_from(*axis).ok()?;
        }
        Some(Axes {
            axes: order,
            rank: axes.len() as u8,
        })
    }

    /// Where each dimension of the result comes from.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let axes = self.axes.iter().take(self.rank.into());
        axes.map(|axis| usize::from(*axis))
    }
}

/// A convolution's numbers: of rows, then of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConvSpec {
    /// Pixels of the image for one of the result.
    pub stride: [u32; 2],
    /// Zeros on both sides.
    pub padding: [u32; 2],
    /// Pixels of the image for one of the filter.
    pub dilation: [u32; 2],
    /// Channels are split into so many groups that do not see each other.
    pub groups: u32,
}

impl Default for ConvSpec {
    fn default() -> ConvSpec {
        ConvSpec {
            stride: [1, 1],
            padding: [0, 0],
            dilation: [1, 1],
            groups: 1,
        }
    }
}

/// What is computed. Operands are listed in the order in which [`super::Graph::add`] takes them; shapes
/// that differ are repeated as in NumPy: dimensions of size 1, and those that are missing in front.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum TensorOp {
    /// `(x) -> same`.
    Unary(Unary),
    /// `(x) -> same shape`: to `u32` towards zero and within its range.
    Cast(DType),
    /// `(a, b) -> their common shape`.
    Binary(Binary),
    /// `(condition u32, a, b) -> their common shape`: `a` where the condition is not 0, else `b`.
    Select,
    /// `(x [.., n, ..]) -> [.., ..]`.
    Reduce {
        /// To what.
        kind: Reduction,
        /// Which dimension.
        axis: u32,
    },
    /// `(x) -> x with its dimensions in another order`.
    Permute(Axes),
    /// `(x [.., n, ..]) -> [.., len, ..]`: every `step`th from `start` on.
    Slice {
        /// Which dimension.
        axis: u32,
        /// The first.
        start: u64,
        /// How many.
        len: u64,
        /// From one to the next.
        step: u64,
    },
    /// `(x [.., n, ..], like [.., m, ..]) -> [.., m, ..]`: the first of `x`, as many as `like` has.
    SliceLike {
        /// Which dimension of `x`.
        axis: u32,
        /// Which dimension of `like`.
        of: u32,
    },
    /// `(x [.., n, ..], y [.., m, ..], ..) -> [.., n + m + .., ..]`.
    Concat {
        /// Which dimension.
        axis: u32,
    },
    /// `(a [.., m, k], b [.., k, n]) -> [.., m, n]`, the outer dimensions repeated.
    MatMul {
        /// `a` is `[.., k, m]`.
        transpose_a: bool,
        /// `b` is `[.., n, k]`.
        transpose_b: bool,
    },
    /// `(image [n, channels, height, width], weight [out, channels / groups, rows, cols], bias [out]?)
    /// -> [n, out, height, width]`: cross-correlation.
    Conv2d(ConvSpec),
    /// `(x [.., n, ..], indices u32 [..i]) -> [.., ..i, ..]`.
    Gather {
        /// Which dimension.
        axis: u32,
    },
    /// `(x [.., n, ..], indices u32 [count], updates [.., count, ..]) -> same as x`: with the updates
    /// in place of the parts that the indices name; of equal indices the last counts.
    Scatter {
        /// Which dimension.
        axis: u32,
        /// The updates are added instead.
        adds: bool,
    },
    /// `(x [.., n]) -> [.., k], u32 [.., k]`: the greatest elements and where they are.
    TopK {
        /// How many.
        k: u32,
    },
}

/// The shape that two are repeated to.
pub(super) fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, String> {
    let rank = a.0.len().max(b.0.len());
    let one = Dim::Fixed(1);
    let of = |shape: &Shape, i: usize| match (i + shape.0.len()).checked_sub(rank) {
        Some(i) => shape.0[i].clone(),
        None => one.clone(),
    };
    let common = |i| match (of(a, i), of(b, i)) {
        (x, y) if x == y || y == one => Ok(x),
        (x, y) if x == one => Ok(y),
        (x, y) => Err(format!("{a} and {b} have no common shape: {x} is not {y}")),
    };
    Ok(Shape((0..rank).map(common).collect::<Result<_, _>>()?))
}

fn dtype_is(operand: &Value, what: &str, dtype: DType) -> Result<(), String> {
    match operand.dtype == dtype {
        true => Ok(()),
        false => Err(format!("{what} must be {dtype}, but is {}", operand.dtype)),
    }
}

fn axis_of(operand: &Value, axis: u32) -> Result<usize, String> {
    match (axis as usize) < operand.shape.0.len() {
        true => Ok(axis as usize),
        false => Err(format!("{} has no dimension {axis}", operand.shape)),
    }
}

fn fixed(dim: &Dim, what: &str) -> Result<u64, String> {
    dim.fixed()
        .ok_or_else(|| format!("{what} must be known, but is {dim}"))
}

fn replaced(shape: &Shape, axis: usize, dims: &[Dim]) -> Shape {
    let (before, after) = (&shape.0[..axis], &shape.0[axis + 1..]);
    Shape([before, dims, after].concat())
}

impl TensorOp {
    /// The op's name.
    pub fn name(&self) -> &'static str {
        match self {
            TensorOp::Unary(unary) => unary.name(),
            TensorOp::Cast(_) => "cast",
            TensorOp::Binary(binary) => binary.name(),
            TensorOp::Select => "select",
            TensorOp::Reduce { kind, .. } => kind.name(),
            TensorOp::Permute(_) => "permute",
            TensorOp::Slice { .. } => "slice",
            TensorOp::SliceLike { .. } => "slice_like",
            TensorOp::Concat { .. } => "concat",
            TensorOp::MatMul { .. } => "matmul",
            TensorOp::Conv2d(_) => "conv2d",
            TensorOp::Gather { .. } => "gather",
            TensorOp::Scatter { .. } => "scatter",
            TensorOp::TopK { .. } => "top_k",
        }
    }

    /// The results' types and shapes, or what is wrong with the operands.
    pub(super) fn infer(&self, operands: &[&Value]) -> Inferred {
        for operand in operands {
            if operand.shape.0.len() > MAX_RANK {
                return Err(format!(
                    "{} has more than {MAX_RANK} dimensions",
                    operand.shape
                ));
            }
            if matches!(operand.kind, ValueKind::Buffer) {
                return Err(format!("{} is a buffer", operand.name));
            }
        }
        let (dtype, shape) = match (self, operands) {
            (TensorOp::Unary(unary), [x]) => {
                dtype_is(x, "x", unary.takes())?;
                (x.dtype, x.shape.clone())
            }
            (TensorOp::Cast(dtype), [x]) => {
                if x.dtype == *dtype {
                    return Err(format!("x is {dtype} already"));
                }
                (*dtype, x.shape.clone())
            }
            (TensorOp::Binary(binary), [a, b]) => {
                dtype_is(b, "b", a.dtype)?;
                if !binary.takes(a.dtype) {
                    return Err(format!("it does not take {}", a.dtype));
                }
                (binary.gives(a.dtype), broadcast(&a.shape, &b.shape)?)
            }
            (TensorOp::Select, [condition, a, b]) => {
                dtype_is(condition, "the condition", DType::U32)?;
                dtype_is(b, "b", a.dtype)?;
                let shape = broadcast(&a.shape, &b.shape)?;
                (a.dtype, broadcast(&condition.shape, &shape)?)
            }
            (TensorOp::Reduce { axis, .. }, [x]) => {
                dtype_is(x, "x", DType::F32)?;
                let axis = axis_of(x, *axis)?;
                if x.shape.0[axis] == Dim::Fixed(0) {
                    return Err("there is nothing to reduce".into());
                }
                (DType::F32, replaced(&x.shape, axis, &[]))
            }
            (TensorOp::Permute(axes), [x]) => {
                let mut seen: Vec<usize> = axes.iter().collect();
                seen.sort_unstable();
                if !seen.into_iter().eq(0..x.shape.0.len()) {
                    let axes: Vec<usize> = axes.iter().collect();
                    return Err(format!(
                        "{axes:?} is no order of the dimensions of {}",
                        x.shape
                    ));
                }
                let dims = axes.iter().map(|axis| x.shape.0[axis].clone());
                (x.dtype, Shape(dims.collect()))
            }
            (
                &TensorOp::Slice {
                    axis,
                    start,
                    len,
                    step,
                },
                [x],
            ) => {
                let axis = axis_of(x, axis)?;
                let size = &x.shape.0[axis];
                let last = len.checked_sub(1).and_then(|steps| steps.checked_mul(step));
                let end = last.and_then(|last| last.checked_add(start));
                let most = size.fixed().unwrap_or(u64::from(u32::MAX));
                if step == 0 || end.is_none_or(|end| end >= most) {
                    return Err(format!(
                        "{len} from {start} by steps of {step} are not within {size}"
                    ));
                }
                (x.dtype, replaced(&x.shape, axis, &[len.into()]))
            }
            (&TensorOp::SliceLike { axis, of }, [x, like]) => {
                let (axis, of) = (axis_of(x, axis)?, axis_of(like, of)?);
                let (size, len) = (&x.shape.0[axis], &like.shape.0[of]);
                if let (Some(size), Some(len)) = (size.fixed(), len.fixed())
                    && len > size
                {
                    return Err(format!("{len} from 0 by steps of 1 are not within {size}"));
                }
                (x.dtype, replaced(&x.shape, axis, std::slice::from_ref(len)))
            }
            (TensorOp::Concat { axis }, [first, rest @ ..]) => {
                let axis = axis_of(first, *axis)?;
                let mut size = first.shape.0[axis].clone();
                for next in rest {
                    dtype_is(next, "each", first.dtype)?;
                    let same = next.shape.0.len() == first.shape.0.len()
                        && replaced(&next.shape, axis, &[]) == replaced(&first.shape, axis, &[]);
                    if !same {
                        return Err(format!(
                            "{} and {} differ in more than dimension {axis}",
                            first.shape, next.shape
                        ));
                    }
                    let sum = size.checked_add(&next.shape.0[axis]);
                    size = sum.ok_or("the result is too large")?;
                }
                (first.dtype, replaced(&first.shape, axis, &[size]))
            }
            (
                &TensorOp::MatMul {
                    transpose_a,
                    transpose_b,
                },
                [a, b],
            ) => {
                dtype_is(a, "a", DType::F32)?;
                dtype_is(b, "b", DType::F32)?;
                let (Some((a_outer, a_last)), Some((b_outer, b_last))) = (
                    a.shape.0.split_last_chunk::<2>(),
                    b.shape.0.split_last_chunk::<2>(),
                ) else {
                    return Err("a matrix has two dimensions".into());
                };
                let (m, k) = (
                    &a_last[usize::from(transpose_a)],
                    &a_last[usize::from(!transpose_a)],
                );
                let (inner, n) = (
                    &b_last[usize::from(transpose_b)],
                    &b_last[usize::from(!transpose_b)],
                );
                if k != inner {
                    return Err(format!("a has {k} columns, b {inner} rows"));
                }
                let mut shape = broadcast(&Shape(a_outer.to_vec()), &Shape(b_outer.to_vec()))?;
                shape.0.extend([m.clone(), n.clone()]);
                (DType::F32, shape)
            }
            (TensorOp::Conv2d(spec), [image, weight, bias @ ..]) if bias.len() <= 1 => (
                DType::F32,
                spec.infer(image, weight, bias.first().copied())?,
            ),
            (TensorOp::Gather { axis }, [x, indices]) => {
                dtype_is(indices, "the indices", DType::U32)?;
                let axis = axis_of(x, *axis)?;
                if x.shape.0[axis] == Dim::Fixed(0) {
                    return Err("there is nothing to gather".into());
                }
                let shape = replaced(&x.shape, axis, &indices.shape.0);
                if shape.0.len() > MAX_RANK {
                    return Err(format!("{shape} has more than {MAX_RANK} dimensions"));
                }
                (x.dtype, shape)
            }
            (TensorOp::Scatter { axis, .. }, [x, indices, updates]) => {
                dtype_is(x, "x", DType::F32)?;
                dtype_is(updates, "the updates", DType::F32)?;
                dtype_is(indices, "the indices", DType::U32)?;
                let axis = axis_of(x, *axis)?;
                let wanted = replaced(&x.shape, axis, &indices.shape.0);
                if indices.shape.0.len() != 1 || updates.shape != wanted {
                    return Err(format!(
                        "the updates must be {wanted}, but are {}",
                        updates.shape
                    ));
                }
                (DType::F32, x.shape.clone())
            }
            (TensorOp::TopK { k }, [x]) => {
                dtype_is(x, "x", DType::F32)?;
                let Some((last, outer)) = x.shape.0.split_last() else {
                    return Err("a single number has no greatest".into());
                };
                let cols = fixed(last, "the width")?;
                if *k == 0 || u64::from(*k) > cols {
                    return Err(format!("{k} of {cols} cannot be taken"));
                }
                let shape = Shape([outer, &[u64::from(*k).into()]].concat());
                return Ok(vec![(DType::F32, shape.clone()), (DType::U32, shape)]);
            }
            _ => return Err(format!("it does not take {} operands", operands.len())),
        };
        Ok(vec![(dtype, shape)])
    }
}

impl ConvSpec {
    fn infer(&self, image: &Value, weight: &Value, bias: Option<&Value>) -> Result<Shape, String> {
        for (operand, what) in [(image, "the image"), (weight, "the weight")] {
            dtype_is(operand, what, DType::F32)?;
            if operand.shape.0.len() != 4 {
                return Err(format!(
                    "{what} must have 4 dimensions, but is {}",
                    operand.shape
                ));
            }
        }
        let known = |value: &Value, i: usize, what| fixed(&value.shape.0[i], what);
        let channels = known(image, 1, "the image's channels")?;
        let out = known(weight, 0, "the weight's filters")?;
        let groups = u64::from(self.groups);
        let fits = groups > 0
            && channels.is_multiple_of(groups)
            && out.is_multiple_of(groups)
            && known(weight, 1, "the weight's channels")? == channels / groups;
        if !fits || channels == 0 || out == 0 {
            return Err(format!(
                "an image of {channels} channels in {groups} groups does not fit the weight {}",
                weight.shape
            ));
        }
        if bias.is_some_and(|bias| bias.shape.0 != [Dim::Fixed(out)] || bias.dtype != DType::F32) {
            return Err(format!("the bias must be f32[{out}]"));
        }
        let mut dims = vec![image.shape.0[0].clone(), out.into()];
        for side in 0..2 {
            let size = known(image, 2 + side, "the image's size")?;
            let filter = known(weight, 2 + side, "the filter's size")?;
            let [stride, padding, dilation] =
                [self.stride, self.padding, self.dilation].map(|both| u64::from(both[side]));
            let reach = filter
                .checked_sub(1)
                .and_then(|taps| taps.checked_mul(dilation));
            let room = reach.and_then(|reach| {
                size.checked_add(2 * padding)?
                    .checked_sub(reach.checked_add(1)?)
            });
            let steps = room.and_then(|room| room.checked_div(stride));
            match steps {
                Some(steps) if dilation > 0 => dims.push((steps + 1).into()),
                _ => {
                    return Err(format!(
                        "a filter of {filter} (stride {stride}, dilation {dilation}) does not fit \
                         {size} with {padding} on both sides"
                    ));
                }
            }
        }
        Ok(Shape(dims))
    }
}
