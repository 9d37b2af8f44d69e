//! `kv_write`: stores keys and values in a paged KV cache.

use serde::{Deserialize, Serialize};
use wisp_shaders::{CacheFormat, params::KvWriteParams};
use wisp_types::DType;

use super::{
    HeadSpec, Inferred, Op, OpRules,
    operands::{expect, expect_buffer, expect_index, expect_same_rows, expect_width},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{LoweringError, NodeValues, OpLowering, Size, params},
    runtime_fields,
    value::{Value, ValueId},
};

/// Writes each token's key and value into its sequence's pages of a KV cache, or its key alone for attention that reads
/// values as the first elements of keys.
///
/// Operands: `k`, `v f32 [tokens, kv_heads * head_dim]`; `index u32 [tokens, 2]`, each token's sequence
/// and position; `page_table u32 [batch, max_pages]`, the pages of each sequence; `k_cache`, `v_cache`,
/// buffers `[pages, page_size, kv_heads, words]`, where `words` is
/// [`CacheFormat::head_words`] of `head_dim`. Without values: `k`, `index`, `page_table` and `k_cache`. No results: it
/// writes the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvWrite {
    /// The KV heads.
    pub heads: HeadSpec,
    /// Positions in a page of the cache.
    pub page_size: u32,
    /// How the cache stores its elements.
    pub format: CacheFormat,
}

/// The operands that ops on a paged KV cache share; see [`KvWrite`] for their shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedCache {
    /// The sequence and the position of each token.
    pub index: ValueId,
    /// The pages of each sequence.
    pub page_table: ValueId,
    /// The buffer of keys.
    pub k: ValueId,
    /// The buffer of values.
    pub v: ValueId,
}

impl From<KvWrite> for Op {
    fn from(op: KvWrite) -> Op {
        Op::KvWrite(op)
    }
}

pub(super) fn expect_page_size(page_size: u32) -> Result<(), OpProblem> {
    match page_size {
        0 => Err(OpProblem::Settings(
            "the page size must be at least 1 position".into(),
        )),
        _ => Ok(()),
    }
}

impl OpRules for KvWrite {
    fn name(&self) -> &'static str {
        "kv_write"
    }

    fn infer(&self, operands: &[&Value]) -> Inferred {
        let (k, v, index, page_table, k_cache, v_cache) = match *operands {
            [k, v, index, page_table, k_cache, v_cache] => {
                (k, Some(v), index, page_table, k_cache, Some(v_cache))
            }
            [k, index, page_table, k_cache] => (k, None, index, page_table, k_cache, None),
            _ => {
                let expected =
                    "k, v, index, page_table, k_cache and v_cache, or those without v and v_cache";
                return Err(OpProblem::operand_count(expected, operands.len()));
            }
        };
        expect_page_size(self.page_size)?;
        for (x, role) in [(Some(k), "k"), (v, "v")] {
            let Some(x) = x else { continue };
            expect(x, role, DType::F32, 2)?;
            expect_width(x, role, self.heads.width())?;
            expect_same_rows(k, x)?;
        }
        expect_index(index, k)?;
        expect(page_table, "the page table", DType::U32, 2)?;
        for (cache, role) in [
            (Some(k_cache), "the key cache"),
            (v_cache, "the value cache"),
        ] {
            let Some(cache) = cache else { continue };
            expect_buffer(cache, role)?;
            expect_width(cache, role, self.format.head_words(self.heads.head_dim))?;
        }
        Ok(Vec::new())
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let tokens = op.rows(node.inputs[0]);
        let has_values = node.inputs.len() == 6;
        let (page_table, kernel) = match has_values {
            true => (node.inputs[3], "kv_write"),
            false => (node.inputs[2], "key_write"),
        };
        let max_pages = op.size(&op.dims(page_table)[1..]);
        let bindings = op.operands(node.inputs)?;
        let fixed = KvWriteParams {
            kv_heads: self.heads.heads,
            head_dim: self.heads.head_dim,
            k_stride: op.cols(node.inputs[0])?,
            v_stride: match has_values {
                true => op.cols(node.inputs[1])?,
                false => 0,
            },
            page_size: self.page_size,
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(KvWriteParams, tokens = tokens, max_pages = max_pages),
        );
        let units = u64::from(self.heads.heads) * self.format.head_units(self.heads.head_dim);
        let grid = [Size::fixed(units), tokens];
        op.call(self.format.op(kernel), grid, params, bindings)
    }
}

impl Graph {
    /// Writes each token's key and value into a paged KV cache; see [`KvWrite`].
    ///
    /// # Errors
    ///
    /// If the shapes do not fit the cache or each other.
    pub fn kv_write(
        &mut self,
        [k, v]: [ValueId; 2],
        cache: PagedCache,
        spec: KvWrite,
    ) -> Result<(), GraphError> {
        let PagedCache {
            index,
            page_table,
            k: k_cache,
            v: v_cache,
        } = cache;
        self.add(spec, &[k, v, index, page_table, k_cache, v_cache])?;
        Ok(())
    }
}
