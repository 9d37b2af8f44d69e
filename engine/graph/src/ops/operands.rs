//! Checks that several ops make of their operands.

use wisp_types::{DType, Dim, Shape};

use crate::{
    error::OpProblem,
    value::{MAX_RANK, Value, ValueKind},
};

/// More bytes than any memory has. Below this limit sums of a few sizes do not overflow 64 bits.
const MAX_WEIGHT_BYTES: u64 = 1 << 60;

type Checked = Result<(), OpProblem>;

fn dimensions(rank: usize) -> String {
    match rank {
        1 => "1 dimension".into(),
        rank => format!("{rank} dimensions"),
    }
}

/// Checks an operand's element type and its number of dimensions.
pub(super) fn expect(operand: &Value, role: &'static str, dtype: DType, rank: usize) -> Checked {
    if operand.dtype == dtype && operand.rank() == rank {
        return Ok(());
    }
    let expected = format!("{dtype} with {}", dimensions(rank));
    let actual = operand.tensor_type().to_string();
    Err(OpProblem::operand(role, operand, expected, actual))
}

/// Checks an operand's element type, and that it has a last dimension, which ops on rows need.
pub(super) fn expect_rows(operand: &Value, role: &'static str, dtype: DType) -> Checked {
    if operand.dtype == dtype && operand.rank() >= 1 {
        return Ok(());
    }
    let expected = format!("{dtype} with at least 1 dimension");
    let actual = operand.tensor_type().to_string();
    Err(OpProblem::operand(role, operand, expected, actual))
}

/// Checks an operand's element type; its shape may be any.
pub(super) fn expect_dtype(operand: &Value, role: &'static str, dtype: DType) -> Checked {
    match operand.dtype == dtype {
        true => Ok(()),
        false => Err(OpProblem::dtype(role, operand, dtype)),
    }
}

/// Checks that an operand's last dimension has this size.
pub(super) fn expect_width(operand: &Value, role: &'static str, width: u64) -> Checked {
    if operand.shape.cols() == Some(width) {
        return Ok(());
    }
    let expected = format!("[.., {width}]");
    let actual = operand.shape.to_string();
    Err(OpProblem::operand(role, operand, expected, actual))
}

/// Checks that an operand is memory that the op may write.
pub(super) fn expect_buffer(operand: &Value, role: &'static str) -> Checked {
    match operand.kind {
        ValueKind::Buffer => Ok(()),
        _ => {
            let actual = operand.kind.description();
            Err(OpProblem::operand(role, operand, "a buffer", actual))
        }
    }
}

/// Checks that an operand is a weight, which the op reads from the checkpoint by its name.
pub(super) fn expect_stored(operand: &Value, role: &'static str) -> Checked {
    match operand.kind {
        ValueKind::Weight(_) => Ok(()),
        _ => {
            let actual = operand.kind.description();
            let expected = "a weight (use add with other values)";
            Err(OpProblem::operand(role, operand, expected, actual))
        }
    }
}

/// Checks that a value, if it is a weight, has a size that is known when the graph is built.
pub(crate) fn expect_known_size(value: &Value) -> Checked {
    let is_known = value.shape.0.iter().all(|dim| dim.fixed().is_some());
    if is_known || !matches!(value.kind, ValueKind::Weight(_)) {
        return Ok(());
    }
    let actual = value.shape.to_string();
    Err(OpProblem::operand(
        "a weight",
        value,
        "of fixed size",
        actual,
    ))
}

/// Checks that no value is given twice among the operands that an op overwrites.
pub(super) fn expect_distinct(operands: &[&Value]) -> Checked {
    for (i, operand) in operands.iter().enumerate() {
        if operands[..i]
            .iter()
            .any(|other| std::ptr::eq(*other, *operand))
        {
            return Err(OpProblem::Mismatch(format!(
                "{} is overwritten and must be given only once",
                operand.name
            )));
        }
    }
    Ok(())
}

/// Checks that an operand is a weight of fixed size whose rows are whole blocks of its encoding:
/// products read weights block by block, as they are stored.
pub(super) fn expect_weight(operand: &Value, role: &'static str) -> Checked {
    let dims: Option<Vec<u64>> = operand.shape.0.iter().map(Dim::fixed).collect();
    let (ValueKind::Weight(encoding), Some([outer @ .., cols])) = (&operand.kind, dims.as_deref())
    else {
        let expected = "a weight of fixed size (use matmul or gather with other values)";
        let kind = operand.kind.description();
        let actual = format!("{kind} of shape {}", operand.shape);
        return Err(OpProblem::operand(role, operand, expected, actual));
    };
    if *cols == 0 || outer.contains(&0) {
        let expected = "at least 1 element large in each dimension";
        let actual = format!("of shape {}", operand.shape);
        return Err(OpProblem::operand(role, operand, expected, actual));
    }
    let block = encoding.file_block_weights() as u64;
    if !cols.is_multiple_of(block) {
        let expected = format!("made of rows of whole blocks of {block} elements ({encoding})");
        let actual = format!("{cols} elements wide");
        return Err(OpProblem::operand(role, operand, expected, actual));
    }
    let row_bytes = encoding.plane_row_bytes(*cols).into_iter();
    let row_bytes = row_bytes.fold(0, u64::saturating_add);
    let bytes = outer
        .iter()
        .try_fold(row_bytes, |bytes, size| bytes.checked_mul(*size));
    match bytes {
        Some(bytes) if bytes <= MAX_WEIGHT_BYTES => Ok(()),
        _ => {
            let expected = format!("at most {MAX_WEIGHT_BYTES} bytes large");
            let actual = format!("of shape {}", operand.shape);
            Err(OpProblem::operand(role, operand, expected, actual))
        }
    }
}

/// Checks that two operands have the same dimensions but for the last.
pub(super) fn expect_same_rows(a: &Value, b: &Value) -> Checked {
    match (a.shape.0.split_last(), b.shape.0.split_last()) {
        (Some((_, x)), Some((_, y))) if x == y => Ok(()),
        _ => Err(OpProblem::Mismatch(format!(
            "{} {} and {} {} must have the same outer dimensions",
            a.name, a.shape, b.name, b.shape
        ))),
    }
}

/// Checks the operand that holds the sequence and the position of each row of `x`.
pub(super) fn expect_index(index: &Value, x: &Value) -> Checked {
    expect(index, "the index", DType::U32, 2)?;
    expect_width(index, "the index", 2)?;
    expect_same_rows(x, index)
}

/// Checks the operand that says which tokens of a batch belong to which sequence, and which rows of a state
/// a sequence reads and writes.
pub(super) fn expect_spans(spans: &Value) -> Checked {
    expect(spans, "the spans", DType::U32, 2)?;
    expect_width(spans, "the spans", 4)
}

/// Checks what every op on tensors of any rank requires: no buffers, and at most [`MAX_RANK`] dimensions.
pub(super) fn expect_tensors(operands: &[&Value]) -> Checked {
    for operand in operands {
        expect_rank_limit(&operand.shape)?;
        if operand.kind == ValueKind::Buffer {
            let expected = "an input, a weight, a constant or a result";
            let actual = operand.kind.description();
            return Err(OpProblem::operand("an operand", operand, expected, actual));
        }
    }
    Ok(())
}

/// Checks that a tensor has no more dimensions than kernels handle.
pub(super) fn expect_rank_limit(shape: &Shape) -> Checked {
    match shape.0.len() <= MAX_RANK {
        true => Ok(()),
        false => Err(OpProblem::Rank {
            shape: shape.clone(),
            most: MAX_RANK,
        }),
    }
}

/// Returns an axis as an index of the operand's dimensions.
pub(super) fn expect_axis(operand: &Value, axis: u32) -> Result<usize, OpProblem> {
    match (axis as usize) < operand.rank() {
        true => Ok(axis as usize),
        false => Err(OpProblem::NoAxis {
            shape: operand.shape.clone(),
            axis,
        }),
    }
}

/// Returns a dimension's size, which must be fixed.
pub(super) fn expect_fixed(dim: &Dim, what: &'static str) -> Result<u64, OpProblem> {
    dim.fixed().ok_or_else(|| OpProblem::SymbolicSize {
        what,
        dim: dim.to_string(),
    })
}

/// Returns the shape that two shapes are broadcast to, as in NumPy: dimensions are aligned at the last
/// one, and those that are missing or of size 1 repeat.
pub(crate) fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, OpProblem> {
    let rank = a.0.len().max(b.0.len());
    let one = Dim::Fixed(1);
    let aligned = |shape: &Shape, i: usize| match (i + shape.0.len()).checked_sub(rank) {
        Some(i) => shape.0[i].clone(),
        None => one.clone(),
    };
    let common = |i| match (aligned(a, i), aligned(b, i)) {
        (x, y) if x == y || y == one => Ok(x),
        (x, y) if x == one => Ok(y),
        (x, y) => Err(OpProblem::Broadcast {
            a: a.clone(),
            b: b.clone(),
            dims: (x.to_string(), y.to_string()),
        }),
    };
    Ok(Shape((0..rank).map(common).collect::<Result<_, _>>()?))
}

/// Returns a shape with one dimension replaced by others.
pub(super) fn replace_axis(shape: &Shape, axis: usize, dims: &[Dim]) -> Shape {
    let (before, after) = (&shape.0[..axis], &shape.0[axis + 1..]);
    Shape([before, dims, after].concat())
}
