//! The ops of a graph, and the rule that gives each its result's shape.

use serde::{Deserialize, Serialize};

use super::{CacheFormat, DType, Dim, Shape, TensorOp, Value, ValueKind};

/// The activation of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x * Phi(x)`, with the error function.
    Gelu,
    /// GELU's tanh approximation.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

/// Which norm, and its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormSpec {
    /// Which.
    pub kind: NormKind,
    /// Added under the root.
    pub eps: f32,
    /// Added to the weight (1 in Gemma).
    pub weight_offset: f32,
}

/// What a norm takes off and divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NormKind {
    /// Divides by the root of the mean square (Zhang and Sennrich 2019).
    Rms,
    /// Takes the mean off first (Ba et al. 2016).
    Layer,
}

/// A function of each element.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Map {
    /// An activation.
    Activation(Activation),
    /// `factor * x`.
    Scale(f32),
    /// `cap * tanh(x / cap)`.
    Softcap(f32),
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
    /// How many elements of each head rotate; 0: none, and the table is not read.
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
    /// How the cache stores its elements.
    pub format: CacheFormat,
    /// How many positions a token sees to a side, itself included; 0 is all.
    pub window: u32,
    /// Factor on the scores.
    pub scale: f32,
    /// Scores become `softcap * tanh(score / softcap)`; 0 leaves them.
    pub softcap: f32,
    /// A token sees nothing that follows it.
    pub causal: bool,
}

/// What a node computes. Operands are listed in the order in which [`super::Graph::add`] takes them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// `(ids u32 [tokens] or [.., n], table weight [vocab, cols]) -> [tokens, cols] or [.., cols]`: rows of
    /// a table, times `scale`. The last of a token's `n` numbers is its id.
    Embed {
        /// Factor on every value.
        scale: f32,
    },
    /// `(x [tokens, cols], weight [rows, cols], bias weight [rows]?) -> [tokens, rows]`.
    Linear,
    /// `(x [tokens, n * cols], weight [cols], bias weight [cols]?) -> same as x`: each of the `n` parts
    /// of a row by itself. Only a layer norm takes a bias.
    Norm(NormSpec),
    /// `(x [tokens, heads * head_dim], index u32 [tokens, 2], table weight [positions, rotary_dim]) -> same as x`.
    Rope(RopeSpec),
    /// `(k, v [tokens, kv_heads * head_dim], index u32 [tokens, 2], page_table u32 [batch, max_pages],
    /// k_cache, v_cache buffers [pages, page_size, kv_heads, the format's words of a head])`, writes
    /// the caches.
    KvWrite {
        /// The KV heads.
        heads: HeadSpec,
        /// Positions in a page of the cache.
        page_size: u32,
        /// How the cache stores its elements.
        format: CacheFormat,
    },
    /// `(q [tokens, heads * head_dim], k_cache, v_cache, index, page_table) -> same as q`. One that is
    /// not causal takes the sequences' lengths too, `u32 [batch]`.
    Attention(AttentionSpec),
    /// `(gate [tokens, cols], up [tokens, cols]) -> [tokens, cols]`: `activation(gate) * up`.
    Gated {
        /// The activation.
        activation: Activation,
    },
    /// `(x) -> same`: a function of each element.
    Map(Map),
    /// `(logits [tokens, experts]) -> u32 [tokens, chosen], [tokens, chosen]`: the likeliest experts
    /// and their weights.
    Route {
        /// Experts that a token goes to.
        chosen: u32,
        /// The weights sum to 1.
        normalise: bool,
    },
    /// `(x [tokens, cols] or [tokens, chosen, cols], weight [experts, rows, cols], ids u32 [tokens,
    /// chosen]) -> [tokens, chosen, rows]`.
    LinearExperts,
    /// `(x [tokens, chosen, cols], weights [tokens, chosen]) -> [tokens, cols]`: their weighted sum.
    CombineExperts,
    /// `(x [tokens, cols], index u32 [tokens, 2], adapters u32 [batch], a buffer [slots, n * rank, cols],
    /// b buffer [slots, rank, rows of all n], n products [tokens, rows] of x) -> the n products`, each
    /// with what the low-rank adapter of the token's sequence adds (Hu et al. 2021): of adapter `i`,
    /// counted from 1, `b[i - 1] a[i - 1] x`; of 0 nothing. Up to three products of the same `x`.
    Lora,
    /// `(a, b) -> same as a`: `a + scale * b`, `b` repeated over `a`'s outer dimensions.
    Add {
        /// Factor on `b`.
        scale: f32,
    },
    /// `(a, b) -> same as a`: `a * b`, `b` repeated over `a`'s outer dimensions.
    Mul,
    /// `(x [.., cols]) -> same`: over the last dimension.
    Softmax,
    /// `(x [.., cols]) -> u32 [..]`: of the last dimension.
    Argmax,
    /// One on tensors of any rank.
    Tensor(TensorOp),
    /// `(logits [rows, vocab], settings, counts [batch, vocab], tokens, index, out, biases [batch,
    /// max_biases, 4], scores [draws, words] buffers)`, writes the buffers; see `wisp_shaders::params::SampleParams`.
    Sample,
    /// A custom op, by the number of what the graph knows of it; added by [`super::Graph::custom`].
    Custom(u32),
    /// `(x) -> same`: shows it after every run; added by [`super::Graph::print`].
    Print(u32),
}

pub(super) type Inferred = Result<Vec<(DType, Shape)>, String>;

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

/// More bytes than any memory has: beyond them sizes would not fit 64 bits.
const MOST_BYTES: u64 = 1 << 60;

/// Products read weights in their encoding, piece by piece.
fn expect_weight(operand: &Value, what: &str) -> Result<(), String> {
    let name = &operand.name;
    let dims: Option<Vec<u64>> = operand.shape.0.iter().map(Dim::fixed).collect();
    let (ValueKind::Weight(encoding), Some([outer @ .., cols])) = (&operand.kind, dims.as_deref())
    else {
        return Err(format!(
            "{what} must be a weight of known size, but {name} is none (matmul and gather take any value)"
        ));
    };
    let block = encoding.file_block_weights() as u64;
    if !cols.is_multiple_of(block) {
        return Err(format!(
            "{what} {name} has rows of {cols} elements, but {encoding} stores blocks of {block}"
        ));
    }
    let row = encoding.plane_row_bytes(*cols).into_iter();
    let row = row.fold(0, u64::saturating_add);
    let bytes = outer.iter().try_fold(row, |all, n| all.checked_mul(*n));
    match bytes {
        Some(bytes) if bytes <= MOST_BYTES => Ok(()),
        _ => Err(format!(
            "{what} {name} has more elements than any memory: {}",
            operand.shape
        )),
    }
}

fn expect_pages(page_size: u32) -> Result<(), String> {
    match page_size {
        0 => Err("a page of the cache must have room for a position".into()),
        _ => Ok(()),
    }
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
            Op::Norm(spec) => match spec.kind {
                NormKind::Rms => "rms_norm",
                NormKind::Layer => "layer_norm",
            },
            Op::Rope(_) => "rope",
            Op::KvWrite { .. } => "kv_write",
            Op::Attention(spec) => match spec.causal {
                true => "attention",
                false => "full_attention",
            },
            Op::Gated { .. } => "gated",
            Op::Map(_) => "map",
            Op::Route { .. } => "route",
            Op::LinearExperts => "linear_experts",
            Op::CombineExperts => "combine_experts",
            Op::Lora => "lora",
            Op::Add { .. } => "add",
            Op::Mul => "mul",
            Op::Softmax => "softmax",
            Op::Argmax => "argmax",
            Op::Tensor(op) => op.name(),
            Op::Sample => "sample",
            Op::Custom(_) => "custom",
            Op::Print(_) => "print",
        }
    }

    /// Which of so many operands it overwrites, besides buffers.
    pub fn overwrites(&self, operands: usize) -> std::ops::Range<usize> {
        match self {
            Op::Rope(_) => 0..operands.min(1),
            Op::Lora => operands.min(5)..operands,
            _ => 0..0,
        }
    }

    /// The results' types and shapes, or what is wrong with the operands.
    pub(super) fn infer(&self, operands: &[&Value]) -> Inferred {
        match (self, operands) {
            (Op::Embed { .. }, [ids, table]) => {
                expect(ids, "ids", DType::U32, ids.shape.0.len().max(1))?;
                expect(table, "the table", DType::F32, 2)?;
                expect_weight(table, "the table")?;
                let (outer, last) = ids.shape.0.split_at((ids.shape.0.len() - 1).max(1));
                if last.iter().any(|dim| dim.fixed().is_none_or(|n| n == 0)) {
                    return Err(format!(
                        "how many numbers make an id must be known in {}",
                        ids.shape
                    ));
                }
                let dims = [outer, &table.shape.0[1..]].concat();
                Ok(vec![(DType::F32, Shape(dims))])
            }
            (Op::Linear, [x, weight, bias @ ..]) if bias.len() <= 1 => {
                expect(x, "x", DType::F32, x.shape.0.len().max(1))?;
                expect(weight, "the weight", DType::F32, 2)?;
                expect_weight(weight, "the weight")?;
                let (outer, cols) = x.shape.0.split_at(x.shape.0.len() - 1);
                if cols != &weight.shape.0[1..] {
                    return Err(format!(
                        "x is {} wide, the weight takes {}",
                        cols[0], weight.shape.0[1]
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
                let dims = [outer, &weight.shape.0[..1]].concat();
                Ok(vec![(DType::F32, Shape(dims))])
            }
            (Op::Norm(spec), [x, weight, bias @ ..]) if bias.len() <= 1 => {
                expect(x, "x", DType::F32, x.shape.0.len().max(1))?;
                let last = &x.shape.0[x.shape.0.len() - 1];
                for operand in std::iter::once(weight).chain(bias) {
                    expect(operand, "the weight", DType::F32, 1)?;
                    let fits = match (x.shape.cols(), operand.shape.cols()) {
                        (Some(width), Some(cols)) => cols > 0 && width % cols == 0,
                        _ => return Err(format!("the width must be known, but is {last}")),
                    };
                    if !fits || operand.shape != weight.shape {
                        return Err(format!(
                            "x is {} wide, {} {}",
                            last, operand.name, operand.shape.0[0]
                        ));
                    }
                }
                if spec.kind == NormKind::Rms && !bias.is_empty() {
                    return Err("only a layer norm has a bias".into());
                }
                Ok(vec![(DType::F32, x.shape.clone())])
            }
            (Op::Rope(spec), [x, index, table]) => {
                expect(x, "x", DType::F32, 2)?;
                expect_cols(x, "x", spec.heads.width())?;
                expect(index, "the index", DType::U32, 2)?;
                if spec.rotary_dim > 0 {
                    expect_cols(table, "the table", spec.rotary_dim.into())?;
                }
                if spec.rotary_dim % 2 != 0 || spec.rotary_dim > spec.heads.head_dim {
                    return Err(format!(
                        "cannot rotate {} of {} elements",
                        spec.rotary_dim, spec.heads.head_dim
                    ));
                }
                Ok(vec![(DType::F32, x.shape.clone())])
            }
            (
                Op::KvWrite {
                    heads,
                    format,
                    page_size,
                },
                [k, v, index, page_table, k_cache, v_cache],
            ) => {
                expect_pages(*page_size)?;
                for (x, what) in [(k, "k"), (v, "v")] {
                    expect(x, what, DType::F32, 2)?;
                    expect_cols(x, what, heads.width())?;
                }
                same_outer(k, v)?;
                expect(index, "the index", DType::U32, 2)?;
                expect(page_table, "the page table", DType::U32, 2)?;
                for (cache, what) in [(k_cache, "the key cache"), (v_cache, "the value cache")] {
                    expect_buffer(cache, what)?;
                    expect_cols(cache, what, format.head_words(heads.head_dim))?;
                }
                Ok(Vec::new())
            }
            (Op::Attention(spec), [q, k_cache, v_cache, index, page_table, lengths @ ..])
                if lengths.len() == usize::from(!spec.causal) =>
            {
                expect_pages(spec.page_size)?;
                expect(q, "q", DType::F32, 2)?;
                expect_cols(q, "q", u64::from(spec.heads) * u64::from(spec.head_dim))?;
                for (cache, what) in [(k_cache, "the key cache"), (v_cache, "the value cache")] {
                    expect_cols(cache, what, spec.format.head_words(spec.head_dim))?;
                }
                expect(index, "the index", DType::U32, 2)?;
                expect(page_table, "the page table", DType::U32, 2)?;
                for lengths in lengths {
                    expect(lengths, "the lengths", DType::U32, 1)?;
                }
                if spec.kv_heads == 0 || spec.heads % spec.kv_heads != 0 {
                    return Err(format!(
                        "{} heads cannot share {} KV heads",
                        spec.heads, spec.kv_heads
                    ));
                }
                Ok(vec![(DType::F32, q.shape.clone())])
            }
            (Op::Gated { .. }, [gate, up]) if gate.shape == up.shape => {
                expect(gate, "the gate", DType::F32, gate.shape.0.len())?;
                expect(up, "up", DType::F32, gate.shape.0.len())?;
                Ok(vec![(DType::F32, gate.shape.clone())])
            }
            (Op::Gated { .. }, [gate, up]) => {
                Err(format!("shapes differ: {} and {}", gate.shape, up.shape))
            }
            (Op::Map(_), [x]) => {
                expect(x, "x", DType::F32, x.shape.0.len())?;
                Ok(vec![(x.dtype, x.shape.clone())])
            }
            (Op::Route { chosen, .. }, [logits]) => {
                expect(logits, "logits", DType::F32, 2)?;
                if *chosen == 0 || logits.shape.cols().is_none_or(|n| u64::from(*chosen) > n) {
                    return Err(format!(
                        "{chosen} of {} experts cannot be chosen",
                        logits.shape.0[1]
                    ));
                }
                let shape = Shape(vec![logits.shape.0[0].clone(), u64::from(*chosen).into()]);
                Ok(vec![(DType::U32, shape.clone()), (DType::F32, shape)])
            }
            (Op::LinearExperts, [x, weight, ids]) => {
                expect(x, "x", DType::F32, x.shape.0.len().clamp(2, 3))?;
                expect(weight, "the weight", DType::F32, 3)?;
                expect_weight(weight, "the weight")?;
                expect(ids, "ids", DType::U32, 2)?;
                let (outer, cols) = x.shape.0.split_at(x.shape.0.len() - 1);
                if cols != &weight.shape.0[2..] || !ids.shape.0.starts_with(outer) {
                    return Err(format!(
                        "x {} does not fit the weight {} and the ids {}",
                        x.shape, weight.shape, ids.shape
                    ));
                }
                let dims = [&ids.shape.0[..], &weight.shape.0[1..2]].concat();
                Ok(vec![(DType::F32, Shape(dims))])
            }
            (Op::CombineExperts, [x, weights]) => {
                expect(x, "x", DType::F32, 3)?;
                expect(weights, "the weights", DType::F32, 2)?;
                if x.shape.0[..2] != weights.shape.0[..] {
                    return Err(format!("{} does not fit {}", weights.shape, x.shape));
                }
                let dims = vec![x.shape.0[0].clone(), x.shape.0[2].clone()];
                Ok(vec![(DType::F32, Shape(dims))])
            }
            (Op::Lora, [x, index, adapters, a, b, products @ ..])
                if (1..=3).contains(&products.len()) =>
            {
                expect(x, "x", DType::F32, 2)?;
                expect(index, "the index", DType::U32, 2)?;
                expect(adapters, "the adapters", DType::U32, 1)?;
                for (buffer, what) in [(a, "a"), (b, "b")] {
                    expect(buffer, what, DType::F32, 3)?;
                    expect_buffer(buffer, what)?;
                }
                for product in products {
                    expect(product, "a product", DType::F32, 2)?;
                    same_outer(x, product)?;
                }
                let mut rows = products.iter().map(|product| product.shape.cols());
                let rows = rows.try_fold(0u64, |all, rows| all.checked_add(rows?));
                let dims = |buffer: &Value| -> Option<Vec<u64>> {
                    buffer.shape.0.iter().map(Dim::fixed).collect()
                };
                match (dims(a).as_deref(), dims(b).as_deref()) {
                    (Some([slots, low, cols]), Some([same, rank, all]))
                        if slots == same
                            && Some(*low) == rank.checked_mul(products.len() as u64)
                            && x.shape.cols() == Some(*cols)
                            && rows == Some(*all) =>
                    {
                        let result = |product: &&Value| (DType::F32, product.shape.clone());
                        Ok(products.iter().map(result).collect())
                    }
                    _ => Err(format!(
                        "{} and {} do not fit the products",
                        a.shape, b.shape
                    )),
                }
            }
            (Op::Add { .. } | Op::Mul, [a, b]) => {
                for (operand, what) in [(a, "a"), (b, "b")] {
                    expect(operand, what, DType::F32, operand.shape.0.len())?;
                }
                let (a_dims, b_dims) = (&a.shape.0, &b.shape.0);
                if b_dims.len() > a_dims.len() || !a_dims.ends_with(b_dims) {
                    return Err(format!("{} cannot be repeated over {}", b.shape, a.shape));
                }
                Ok(vec![(DType::F32, a.shape.clone())])
            }
            (Op::Softmax, [x]) => {
                expect(x, "x", DType::F32, x.shape.0.len().max(1))?;
                Ok(vec![(DType::F32, x.shape.clone())])
            }
            (Op::Argmax, [x]) => {
                expect(x, "x", DType::F32, x.shape.0.len().max(1))?;
                let outer = x.shape.0[..x.shape.0.len() - 1].to_vec();
                Ok(vec![(DType::U32, Shape(outer))])
            }
            (Op::Tensor(op), operands) => op.infer(operands),
            (Op::Sample, [logits, settings, counts, tokens, index, out, biases, scores]) => {
                expect(logits, "logits", DType::F32, 2)?;
                for (buffer, what) in [
                    (settings, "settings"),
                    (counts, "counts"),
                    (tokens, "tokens"),
                    (index, "index"),
                    (out, "out"),
                    (biases, "biases"),
                    (scores, "scores"),
                ] {
                    expect_buffer(buffer, what)?;
                }
                expect(biases, "biases", DType::U32, 3)?;
                expect(scores, "scores", DType::U32, 2)?;
                Ok(Vec::new())
            }
            (Op::Print(_), [x]) => Ok(vec![(x.dtype, x.shape.clone())]),
            (Op::Custom(_), _) => Err("custom ops are added by Graph::custom".into()),
            _ => Err(format!("it does not take {} operands", operands.len())),
        }
    }
}
