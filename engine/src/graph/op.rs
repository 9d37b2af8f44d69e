//! The ops of a graph, and the rule that gives each its result's shape.

use serde::{Deserialize, Serialize};

use super::{DType, Dim, Shape, Value, ValueKind};

/// The activation of a gated product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x * Phi(x)`, with the error function.
    Gelu,
    /// GELU's tanh approximation.
    GeluTanh,
}

/// Heads of one kind in a projection's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadSpec {
    /// How many heads.
    pub heads: u32,
    /// Width of one.
    pub head_dim: u32,
}

impl HeadSpec {
    /// Elements of all heads together.
    pub fn width(self) -> u64 {
        u64::from(self.heads) * u64::from(self.head_dim)
    }
}

/// Rotary position embedding of one projection's heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RopeSpec {
    /// The heads to rotate.
    pub heads: HeadSpec,
    /// How many elements of each head rotate.
    pub rotary_dim: u32,
    /// Pairs `(2i, 2i + 1)` rather than `(i, i + rotary_dim / 2)`.
    pub interleaved: bool,
}

/// Attention over a paged KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Width of one.
    pub head_dim: u32,
    /// Positions in a page of the cache.
    pub page_size: u32,
    /// How many positions a token sees, itself included; 0 is all.
    pub window: u32,
    /// Factor on the scores.
    pub scale: f32,
    /// Scores become `softcap * tanh(score / softcap)`; 0 leaves them.
    pub softcap: f32,
}

/// What a node computes. Operands are listed in the order in which [`super::Graph::add`] takes them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// `(ids u32 [tokens], table weight [vocab, cols]) -> [tokens, cols]`: rows of a table, times `scale`.
    Embed {
        /// Factor on every value.
        scale: f32,
    },
    /// `(x [tokens, cols], weight [rows, cols], bias weight [rows]?) -> [tokens, rows]`.
    Linear,
    /// `(x [tokens, cols], weight [cols]) -> [tokens, cols]`.
    RmsNorm {
        /// Added under the root.
        eps: f32,
        /// Added to the weight.
        weight_offset: f32,
    },
    /// `(x [tokens, heads * head_dim], index u32 [tokens, 2], table weight [positions, rotary_dim]) -> same as x`.
    Rope(RopeSpec),
    /// `(k, v [tokens, kv_heads * head_dim], index u32 [tokens, 2], page_table u32 [batch, max_pages],
    /// k_cache, v_cache buffers [pages, page_size, kv_heads, padded head_dim])`, writes the caches.
    KvWrite {
        /// The KV heads.
        heads: HeadSpec,
        /// Positions in a page of the cache.
        page_size: u32,
    },
    /// `(q [tokens, heads * head_dim], k_cache, v_cache, index, page_table) -> same as q`.
    Attention(AttentionSpec),
    /// `(gate [tokens, cols], up [tokens, cols]) -> [tokens, cols]`: `activation(gate) * up`.
    Gated {
        /// The activation.
        activation: Activation,
    },
    /// `(a, b) -> same as a`: `a + b`, `b` repeated over `a`'s outer dimensions.
    Add,
    /// `(a, b) -> same as a`: `a * b`, `b` repeated over `a`'s outer dimensions.
    Mul,
    /// `(x [rows, cols]) -> same`: over the last dimension.
    Softmax,
    /// `(x [rows, cols]) -> u32 [rows]`.
    Argmax,
    /// `(x [any, cols], indices u32 [rows]) -> [rows, cols]`.
    GatherRows,
    /// `(logits [rows, vocab], settings, seen, tokens, index, out buffers)`, writes the buffers;
    /// see `wisp_shaders::params::SampleParams`.
    Sample,
}

type Inferred = Result<Vec<(DType, Shape)>, String>;

fn same_outer(a: &Value, b: &Value) -> Result<(), String> {
    match (a.shape.0.split_last(), b.shape.0.split_last()) {
        (Some((_, x)), Some((_, y))) if x == y => Ok(()),
        _ => Err(format!(
            "outer dimensions differ: {} and {}",
            a.shape, b.shape
        )),
    }
}

fn expect(operand: &Value, what: &str, dtype: DType, rank: usize) -> Result<(), String> {
    if operand.dtype == dtype && operand.shape.0.len() == rank {
        return Ok(());
    }
    Err(format!(
        "{what} must be {dtype} with {rank} dimensions, but {} is {}{}",
        operand.name, operand.dtype, operand.shape
    ))
}

fn expect_cols(operand: &Value, what: &str, cols: u64) -> Result<(), String> {
    if operand.shape.cols() == Some(cols) {
        return Ok(());
    }
    Err(format!(
        "{what} must be {cols} wide, but {} is {}",
        operand.name, operand.shape
    ))
}

fn expect_buffer(operand: &Value, what: &str) -> Result<(), String> {
    match operand.kind {
        ValueKind::Buffer => Ok(()),
        _ => Err(format!(
            "{what} must be a buffer, but {} is none",
            operand.name
        )),
    }
}

impl Op {
    /// The op's name.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Embed { .. } => "embed",
            Op::Linear => "linear",
            Op::RmsNorm { .. } => "rms_norm",
            Op::Rope(_) => "rope",
            Op::KvWrite { .. } => "kv_write",
            Op::Attention(_) => "attention",
            Op::Gated { .. } => "gated",
            Op::Add => "add",
            Op::Mul => "mul",
            Op::Softmax => "softmax",
            Op::Argmax => "argmax",
            Op::GatherRows => "gather_rows",
            Op::Sample => "sample",
        }
    }

    /// The results' types and shapes, or what is wrong with the operands.
    pub(super) fn infer(&self, operands: &[&Value]) -> Inferred {
        match (self, operands) {
            (Op::Embed { .. }, [ids, table]) => {
                expect(ids, "ids", DType::U32, 1)?;
                expect(table, "the table", DType::F32, 2)?;
                Ok(vec![(
                    DType::F32,
                    Shape(vec![ids.shape.0[0].clone(), table.shape.0[1].clone()]),
                )])
            }
            (Op::Linear, [x, weight, bias @ ..]) if bias.len() <= 1 => {
                expect(x, "x", DType::F32, 2)?;
                expect(weight, "the weight", DType::F32, 2)?;
                if x.shape.0[1] != weight.shape.0[1] {
                    return Err(format!(
                        "x is {} wide, the weight takes {}",
                        x.shape.0[1], weight.shape.0[1]
                    ));
                }
                for bias in bias {
                    expect(bias, "the bias", DType::F32, 1)?;
                    if bias.shape.0[0] != weight.shape.0[0] {
                        return Err(format!(
                            "the weight has {} rows, the bias {}",
                            weight.shape.0[0], bias.shape.0[0]
                        ));
                    }
                }
                Ok(vec![(
                    DType::F32,
                    Shape(vec![x.shape.0[0].clone(), weight.shape.0[0].clone()]),
                )])
            }
            (Op::RmsNorm { .. }, [x, weight]) => {
                expect(x, "x", DType::F32, 2)?;
                expect(weight, "the weight", DType::F32, 1)?;
                if x.shape.0[1] != weight.shape.0[0] {
                    return Err(format!(
                        "x is {} wide, the weight {}",
                        x.shape.0[1], weight.shape.0[0]
                    ));
                }
                Ok(vec![(DType::F32, x.shape.clone())])
            }
            (Op::Rope(spec), [x, index, table]) => {
                expect(x, "x", DType::F32, 2)?;
                expect_cols(x, "x", spec.heads.width())?;
                expect(index, "the index", DType::U32, 2)?;
                expect_cols(table, "the table", spec.rotary_dim.into())?;
                if spec.rotary_dim % 2 != 0 || spec.rotary_dim > spec.heads.head_dim {
                    return Err(format!(
                        "cannot rotate {} of {} elements",
                        spec.rotary_dim, spec.heads.head_dim
                    ));
                }
                Ok(vec![(DType::F32, x.shape.clone())])
            }
            (Op::KvWrite { heads, .. }, [k, v, index, page_table, k_cache, v_cache]) => {
                for (x, what) in [(k, "k"), (v, "v")] {
                    expect(x, what, DType::F32, 2)?;
                    expect_cols(x, what, heads.width())?;
                }
                same_outer(k, v)?;
                expect(index, "the index", DType::U32, 2)?;
                expect(page_table, "the page table", DType::U32, 2)?;
                expect_buffer(k_cache, "the key cache")?;
                expect_buffer(v_cache, "the value cache")?;
                Ok(Vec::new())
            }
            (Op::Attention(spec), [q, _k_cache, _v_cache, index, page_table]) => {
                expect(q, "q", DType::F32, 2)?;
                expect_cols(q, "q", u64::from(spec.heads) * u64::from(spec.head_dim))?;
                expect(index, "the index", DType::U32, 2)?;
                expect(page_table, "the page table", DType::U32, 2)?;
                if spec.kv_heads == 0 || spec.heads % spec.kv_heads != 0 {
                    return Err(format!(
                        "{} heads cannot share {} KV heads",
                        spec.heads, spec.kv_heads
                    ));
                }
                Ok(vec![(DType::F32, q.shape.clone())])
            }
            (Op::Gated { .. }, [gate, up]) if gate.shape == up.shape => {
                Ok(vec![(DType::F32, gate.shape.clone())])
            }
            (Op::Gated { .. }, [gate, up]) => {
                Err(format!("shapes differ: {} and {}", gate.shape, up.shape))
            }
            (Op::Add | Op::Mul, [a, b]) => {
                let (a_dims, b_dims) = (&a.shape.0, &b.shape.0);
                if b_dims.len() > a_dims.len() || !a_dims.ends_with(b_dims) {
                    return Err(format!("{} cannot be repeated over {}", b.shape, a.shape));
                }
                Ok(vec![(DType::F32, a.shape.clone())])
            }
            (Op::Softmax, [x]) => {
                expect(x, "x", DType::F32, 2)?;
                Ok(vec![(DType::F32, x.shape.clone())])
            }
            (Op::Argmax, [x]) => {
                expect(x, "x", DType::F32, 2)?;
                Ok(vec![(DType::U32, Shape(vec![x.shape.0[0].clone()]))])
            }
            (Op::GatherRows, [x, indices]) => {
                expect(x, "x", DType::F32, 2)?;
                expect(indices, "the indices", DType::U32, 1)?;
                Ok(vec![(
                    DType::F32,
                    Shape(vec![indices.shape.0[0].clone(), x.shape.0[1].clone()]),
                )])
            }
            (Op::Sample, [logits, settings, seen, tokens, index, out]) => {
                expect(logits, "logits", DType::F32, 2)?;
                for (buffer, what) in [
                    (settings, "settings"),
                    (seen, "seen"),
                    (tokens, "tokens"),
                    (index, "index"),
                    (out, "out"),
                ] {
                    expect_buffer(buffer, what)?;
                }
                Ok(Vec::new())
            }
            _ => Err(format!("it does not take {} operands", operands.len())),
        }
    }
}

/// The padded width of a head in the KV cache: whole groups of four elements.
pub(crate) fn padded_head_dim(head_dim: u32) -> u64 {
    u64::from(head_dim).next_multiple_of(4)
}

impl Dim {
    /// The size, if it is known.
    pub fn fixed(&self) -> Option<u64> {
        match self {
            Dim::Fixed(size) => Some(*size),
            Dim::Symbol(_) => None,
        }
    }
}
