//! `attention` and `full_attention`: attention over a paged KV cache.

use serde::{Deserialize, Serialize};
use wisp_shaders::{CacheFormat, params::AttentionParams};
use wisp_types::DType;

use super::{
    Inferred, Op, OpRules,
    kv_write::{PagedCache, expect_page_size},
    operands::{expect, expect_width},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Attention of each token over its sequence's keys and values in a paged KV cache (Vaswani et al. 2017;
/// the paging is PagedAttention's, Kwon et al. 2023). Query head `h` reads KV head `h / (heads /
/// kv_heads)` (Ainslie et al. 2023).
///
/// Operands: `q f32 [tokens, heads * head_dim]`; `k_cache`, `v_cache`, buffers as [`KvWrite`] writes them;
/// `index u32 [tokens, 2]`, each token's sequence and position; `page_table u32 [batch, max_pages]`. If
/// the attention is not causal, also `lengths u32 [batch]`, the number of tokens of each sequence. Result:
/// as `q`.
///
/// The op is called `attention` where it is causal and `full_attention` where it is not. For attention
/// on plain tensors see [`Graph::attention`].
///
/// [`KvWrite`]: super::KvWrite
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttentionSpec {
    /// Query heads, a multiple of `kv_heads`.
    pub heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of one head.
    pub head_dim: u32,
    /// Positions in a page of the cache.
    pub page_size: u32,
    /// How the cache stores its elements.
    pub format: CacheFormat,
    /// How many positions a token attends to on each side, itself included; 0 is all.
    pub window: u32,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Scores become `softcap * tanh(score / softcap)` (Gemma 2); 0 leaves them unchanged.
    pub softcap: f32,
    /// Whether a token attends only to itself and to earlier positions.
    pub causal: bool,
}

impl From<AttentionSpec> for Op {
    fn from(op: AttentionSpec) -> Op {
        Op::Attention(op)
    }
}

impl OpRules for AttentionSpec {
    fn name(&self) -> &'static str {
        match self.causal {
            true => "attention",
            false => "full_attention",
        }
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let (q, k_cache, v_cache, index, page_table) = match (operands, self.causal) {
            (&[q, k, v, index, pages], true) | (&[q, k, v, index, pages, _], false) => {
                (q, k, v, index, pages)
            }
            _ => {
                let expected = match self.causal {
                    true => "q, k_cache, v_cache, index and page_table",
                    false => "q, k_cache, v_cache, index, page_table and lengths",
                };
                return Err(OpProblem::operand_count(expected, operands.len()));
            }
        };
        expect_page_size(self.page_size)?;
        expect(q, "q", DType::F32, 2)?;
        expect_width(q, "q", u64::from(self.heads) * u64::from(self.head_dim))?;
        for (cache, role) in [(k_cache, "the key cache"), (v_cache, "the value cache")] {
            expect_width(cache, role, self.format.head_words(self.head_dim))?;
        }
        expect(index, "the index", DType::U32, 2)?;
        expect(page_table, "the page table", DType::U32, 2)?;
        if let Some(lengths) = operands.get(5) {
            expect(lengths, "the lengths", DType::U32, 1)?;
        }
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(OpProblem::Settings(format!(
                "the number of heads ({}) must be a multiple of the number of KV heads ({})",
                self.heads, self.kv_heads
            )));
        }
        Ok(vec![TensorType::f32(q.shape.clone())])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let tokens = op.rows(node.inputs[0]);
        let max_pages = op.size(&op.dims(node.inputs[4])[1..]);
        let mut bindings = op.operands(node.inputs)?;
        // The sequences' lengths, if there are any, are bound after the result.
        bindings.insert(5, op.result(node.outputs[0]));
        let fixed = AttentionParams {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            page_size: self.page_size,
            window: self.window,
            scale: self.scale,
            softcap: self.softcap,
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(AttentionParams, tokens = tokens, max_pages = max_pages),
        );
        let grid = [Size::fixed(self.heads.into()), tokens];
        op.call(self.format.op(op.op()), grid, params, bindings)
    }
}

impl Graph {
    /// Attends from each query to its sequence's keys and values in a paged KV cache; see
    /// [`AttentionSpec`]. `lengths` are for attention that is not causal.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit the cache or each other.
    pub fn paged_attention(
        &mut self,
        q: ValueId,
        cache: PagedCache,
        lengths: Option<ValueId>,
        spec: AttentionSpec,
    ) -> Result<ValueId, GraphError> {
        let PagedCache {
            index,
            page_table,
            k,
            v,
        } = cache;
        let operands = [q, k, v, index, page_table].into_iter().chain(lengths);
        self.add(spec, &operands.collect::<Vec<_>>())
    }
}
