//! `attention` and `full_attention`: attention over a paged KV cache.

use serde::{Deserialize, Serialize};
use wisp_shaders::{
    CacheFormat,
    params::{
        AttentionParams, CHUNK_STEP, MAX_HEAD_DIM, MAX_PARTS, MAX_VALUE_DIM, WIDE_SPLIT_HEADS,
    },
};
use wisp_types::{DType, Shape};

use super::{
    Inferred, LOOP_TURNS, Op, OpRules,
    kv_write::{PagedCache, expect_page_size},
    operands::{expect, expect_index, expect_width},
};
use crate::{
    error::{GraphError, OpProblem},
    graph::Graph,
    lowering::{
        KernelCall, LoweringError, Memory, NodeValues, OpLowering, ParamWord, RunCondition, Size,
        params,
    },
    runtime_fields,
    value::{TensorType, Value, ValueId},
};

/// Attention of each token over its sequence's keys and values in a paged KV cache (Vaswani et al. 2017;
/// the paging is PagedAttention's, Kwon et al. 2023). Query head `h` reads KV head `h / (heads /
/// kv_heads)` (Ainslie et al. 2023).
///
/// Operands: `q f32 [tokens, heads * head_dim]`; `k_cache`, `v_cache`, buffers as [`KvWrite`] writes them, perhaps one and
/// the same; `index u32 [tokens, 2]`, each token's sequence and position; `page_table u32 [batch, max_pages]`. If
/// the attention is not causal, also `lengths u32 [batch]`, the number of tokens of each sequence. Optionally
/// `sinks f32 [heads]`, a score of each head that joins its softmax but has no value (Xiao et al. 2023, "Efficient
/// Streaming Language Models with Attention Sinks"; learned in gpt-oss). Result: `f32 [tokens, heads * value_dim]`.
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
    /// Elements of one head of queries and of the cache, at most 576.
    pub head_dim: u32,
    /// Leading elements of a cached head that are a value, at most `head_dim` and 512.
    pub value_dim: u32,
    /// Positions in a page of the cache.
    pub page_size: u32,
    /// How the cache stores its elements.
    pub format: CacheFormat,
    /// How many positions a token attends to on each side, itself included; 0 is all.
    pub window: u32,
    /// True if the window is a chunk: a token attends to no positions before the last multiple of `window`.
    pub chunked: bool,
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
        let wrong_count = || {
            let expected = match self.causal {
                true => "q, k_cache, v_cache, index, page_table and optionally sinks",
                false => "q, k_cache, v_cache, index, page_table, lengths and optionally sinks",
            };
            OpProblem::operand_count(expected, operands.len())
        };
        let (required, others) = operands.split_first_chunk().ok_or_else(wrong_count)?;
        let [q, k_cache, v_cache, index, page_table] = *required;
        let (lengths, sinks) = match (others, self.causal) {
            ([], true) => (None, None),
            ([sinks], true) => (None, Some(sinks)),
            ([lengths], false) => (Some(lengths), None),
            ([lengths, sinks], false) => (Some(lengths), Some(sinks)),
            _ => return Err(wrong_count()),
        };
        expect_page_size(self.page_size)?;
        expect(q, "q", DType::F32, 2)?;
        expect_width(q, "q", u64::from(self.heads) * u64::from(self.head_dim))?;
        for (cache, role) in [(k_cache, "the key cache"), (v_cache, "the value cache")] {
            expect_width(cache, role, self.format.head_words(self.head_dim))?;
        }
        expect_index(index, q)?;
        expect(page_table, "the page table", DType::U32, 2)?;
        if let Some(lengths) = lengths {
            expect(lengths, "the lengths", DType::U32, 1)?;
        }
        if let Some(sinks) = sinks {
            expect(sinks, "the sinks", DType::F32, 1)?;
            expect_width(sinks, "the sinks", self.heads.into())?;
        }
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(OpProblem::Settings(format!(
                "the number of heads ({}) must be a multiple of the number of KV heads ({})",
                self.heads, self.kv_heads
            )));
        }
        let (head_dim, value_dim) = (self.head_dim, self.value_dim);
        if value_dim == 0 || value_dim > head_dim.min(MAX_VALUE_DIM) || head_dim > MAX_HEAD_DIM {
            return Err(OpProblem::Settings(format!(
                "heads of {head_dim} elements with values of {value_dim}; the most are {MAX_HEAD_DIM} and \
                 {MAX_VALUE_DIM}, and a value is a part of a head"
            )));
        }
        let width = u64::from(self.heads) * u64::from(value_dim);
        let dims = [&q.shape.0[..1], &[width.into()]].concat();
        Ok(vec![TensorType::f32(Shape(dims))])
    }

    fn lower(&self, node: NodeValues<'_>, op: &mut OpLowering<'_>) -> Result<(), LoweringError> {
        let tokens = op.rows(node.inputs[0]);
        let [batch, max_pages] = [0, 1].map(|i| op.size(&op.dims(node.inputs[4])[i..=i]));
        let mut bindings = op.operands(node.inputs)?;
        let others = bindings.split_off(5);
        let (lengths, sinks) = others.split_at(usize::from(!self.causal));
        bindings.push(op.result(node.outputs[0]));
        // Kernels bind sinks in any case; without any, they do not read the queries as sinks.
        bindings.push(sinks.first().copied().unwrap_or(bindings[0]));
        bindings.extend(lengths);
        let fixed = AttentionParams {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            value_dim: self.value_dim,
            page_size: self.page_size,
            window: self.window,
            chunked: (self.chunked && self.window > 0).into(),
            scale: self.scale,
            softcap: self.softcap,
            has_sinks: (!sinks.is_empty()).into(),
            ..Default::default()
        };
        let params = params(
            &fixed,
            runtime_fields!(AttentionParams, tokens = tokens, max_pages = max_pages),
        );
        let reach = match self.window {
            0 => max_pages.times(&Size::fixed(self.page_size.into())),
            window if self.causal => Size::fixed(window.into()),
            // The window reaches as far to both sides.
            window => Size::fixed(2 * u64::from(window) - 1),
        };
        let run = RunSizes {
            tokens,
            batch,
            reach,
        };
        if !op.target().software_kernels {
            return self.lower_for_gpus(op, &run, &[], params, bindings);
        }
        let serial = RunCondition::all([[run.reach.clone(), Size::fixed(self.serial_reach())]]);
        op.add_call(KernelCall {
            kernel: self.format.op(op.op()),
            cols: self.head_dim.into(),
            label: op.op().into(),
            grid: [Size::fixed(self.heads.into()), run.tokens.clone()],
            params: params.clone(),
            bindings: bindings.clone(),
            conditions: vec![serial.clone()],
        })?;
        self.lower_for_gpus(op, &run, &[serial.negated()], params, bindings)
    }
}

/// The sizes of a run on which the best algorithm depends.
struct RunSizes {
    tokens: Size,
    /// Sequences for which the page table has room.
    batch: Size,
    /// The most positions that a token can see.
    reach: Size,
}

impl RunSizes {
    /// Many tokens of each sequence: tiles of queries against tiles of keys.
    fn many_tokens(&self) -> RunCondition {
        RunCondition::all([
            [self.batch.times(&Size::fixed(4)), self.tokens.clone()],
            [Size::fixed(16), self.tokens.clone()],
        ])
    }

    /// Long sequences and few tokens: what a token sees is computed in several chunks.
    fn long_sequences(&self) -> RunCondition {
        RunCondition::all([
            [Size::fixed(2 * u64::from(CHUNK_STEP)), self.reach.clone()],
            [
                self.tokens.times(&Size::fixed(2)),
                Size::fixed(MAX_PARTS.into()),
            ],
        ])
    }
}

/// The elements of a head beyond which `attention_split_wide` computes what `attention_split` does for others.
const WIDE: u32 = 256;

/// The most query heads of a KV head that `attention_split` computes in one workgroup, which reads the keys and
/// values once.
pub const SPLIT_HEADS: u32 = 8;

impl AttentionSpec {
    /// The most positions for which software adapters compute a token in one invocation, `attention_serial`, in
    /// [`LOOP_TURNS`]. A turn is four vec4s of a key or of a value, or one of those that remain; the end of a loop counts as
    /// one as well.
    fn serial_reach(&self) -> u64 {
        let turns = |elements: u32| {
            let vec4s = elements.div_ceil(4);
            u64::from(vec4s / 4 + vec4s % 4)
        };
        // Of a position: its own turn, at most two of its page, and the ends of four loops.
        LOOP_TURNS / (7 + turns(self.head_dim) + turns(self.value_dim))
    }

    /// Adds the calls for GPUs, of which each run in which `conditions` hold makes those for its sizes.
    fn lower_for_gpus(
        &self,
        op: &mut OpLowering<'_>,
        run: &RunSizes,
        conditions: &[RunCondition],
        params: Vec<ParamWord>,
        mut bindings: Vec<Memory>,
    ) -> Result<(), LoweringError> {
        let [heads, kv_heads, value_dim] =
            [self.heads, self.kv_heads, self.value_dim].map(u64::from);
        let group = heads / kv_heads;
        let label = op.op();
        let call =
            |kernel: String, cols, grid, bindings: &[Memory], own: &[&RunCondition]| KernelCall {
                kernel,
                cols,
                label: label.into(),
                grid,
                params: params.clone(),
                bindings: bindings.to_vec(),
                conditions: conditions
                    .iter()
                    .chain(own.iter().copied())
                    .cloned()
                    .collect(),
            };
        let tiled = self.format.op(&format!("{label}_tiled"));
        let rows = run.tokens.times(&Size::fixed(group));
        let tiles = [Size::fixed(kv_heads), rows];
        // Kernels keep whole sums of values, or queries, in registers.
        let tiled_cols = self.head_dim.into();
        if !self.causal {
            return op.add_call(call(tiled, tiled_cols, tiles, &bindings, &[]));
        }
        let [many, long] = [run.many_tokens(), run.long_sequences()];
        let [few, short] = [many.clone(), long.clone()].map(RunCondition::negated);
        op.add_call(call(tiled, tiled_cols, tiles, &bindings, &[&many]))?;

        let part = value_dim.next_multiple_of(4) + 4;
        let parts = op.scratch(Size::fixed(u64::from(MAX_PARTS) * heads * part));
        let [out, sinks] = [bindings[5], bindings[6]];
        bindings.push(parts);
        let (split, at_once) = match self.head_dim > WIDE {
            true => ("attention_split_wide", WIDE_SPLIT_HEADS),
            false => ("attention_split", SPLIT_HEADS),
        };
        let split = self.format.op(split);
        let blocks = Size::fixed(kv_heads * group.div_ceil(at_once.into()));
        let step = Size::fixed(CHUNK_STEP.into());
        for (reach, length) in [(&step, &short), (&run.reach, &long)] {
            let grid = [blocks.times(reach), run.tokens.clone()];
            op.add_call(call(split.clone(), group, grid, &bindings, &[&few, length]))?;
        }
        let grid = [Size::fixed(heads), run.tokens.clone()];
        let combine = "attention_combine".to_string();
        op.add_call(call(combine, 0, grid, &[parts, out, sinks], &[&few, &long]))
    }
}

impl Graph {
    /// Attends from each query to its sequence's keys and values in a paged KV cache; see
    /// [`AttentionSpec`]. `lengths` are for attention that is not causal; heads may have `sinks`.
    ///
    /// # Errors
    ///
    /// If the shapes do not fit the cache or each other.
    pub fn paged_attention(
        &mut self,
        q: ValueId,
        cache: PagedCache,
        lengths: Option<ValueId>,
        sinks: Option<ValueId>,
        spec: AttentionSpec,
    ) -> Result<ValueId, GraphError> {
        let PagedCache {
            index,
            page_table,
            k,
            v,
        } = cache;
        let operands = [q, k, v, index, page_table]
            .into_iter()
            .chain(lengths)
            .chain(sinks);
        self.add(spec, &operands.collect::<Vec<_>>())
    }
}
