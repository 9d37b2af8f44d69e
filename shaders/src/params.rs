//! The typed parameters of every op: binding 0 of its kernels, a uniform buffer.
//!
//! Each field has its twin in the `.wgsl` file of the op; building this crate asserts that naga
//! gives it the same offset. Strides and offsets count elements (of 4 bytes).

use bytemuck::{Pod, Zeroable};

/// Declares parameter structs, all of them plain 4-byte words.
macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
        pub struct $name { $($(#[$field_doc])* pub $field: $ty,)* }
    )*};
}

params! {
    /// `embed.<encoding>`: `out[t, :] = scale * table[ids[t, id_offset], :]`.
    ///
    /// Bindings: 1 `ids: u32 [tokens, id_stride]`, 2 `out: f32 [tokens, cols]` (written), then the
    /// table's planes. Ids outside `[row_offset, row_offset + rows)` are left to the table's other chunks.
    /// Grid: `[blocks, tokens]`.
    EmbedParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Rows of this chunk of the table.
        rows: u32,
        /// First row of this chunk.
        row_offset: u32,
        /// Width of a row in weights.
        cols: u32,
        /// Blocks of 32 weights a row.
        blocks: u32,
        /// Factor on every value.
        scale: f32,
        /// Elements from one token's id to the next one's.
        id_stride: u32,
        /// Which of these is the id.
        id_offset: u32,
    }
    /// `matmul.<encoding>`: `out[t, out_offset + r] = dot(weight[r, :], x[t, :]) (+ bias[r])`.
    ///
    /// Bindings: 1 `x: f32 [tokens, cols]`, 2 `out: f32 [tokens, out_stride]` (written), 3 `bias:
    /// f32 [>= rows]` (anything when `has_bias` is 0), then the weight's planes.
    /// Grid: `[rows, tokens]`.
    MatmulParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Rows of this chunk of the weight.
        rows: u32,
        /// Width of a row: the reduced dimension.
        cols: u32,
        /// Blocks of 32 weights a row.
        blocks: u32,
        /// Elements from one token's output to the next one's.
        out_stride: u32,
        /// Where this chunk's rows begin within a token's output.
        out_offset: u32,
        /// Where this chunk's rows begin within `bias`.
        bias_offset: u32,
        /// 1 to add the bias.
        has_bias: u32,
    }
    /// `matmul_experts.<encoding>`: `out[t, r] = dot(weight[ids[t] * rows + r, :], x[t / share, :])`:
    /// a token is one of those that a mixture sends to an expert.
    ///
    /// Bindings: 1 `x: f32 [tokens / share, cols]`, 2 `out: f32 [tokens, rows]` (written), 3 `ids:
    /// u32 [tokens]`, then the weights' planes, all experts' rows `[experts * rows, cols]` one after
    /// the other. Rows outside `[first_row, first_row + chunk_rows)` of these are left to other
    /// chunks. Grid: `[rows, tokens]`.
    MatmulExpertsParams {
        /// Pairs of a token and an expert.
        tokens: u32,
        /// Rows of one expert's weight.
        rows: u32,
        /// Width of a row: the reduced dimension.
        cols: u32,
        /// Blocks of 32 weights a row.
        blocks: u32,
        /// How many neighbouring tokens share a row of x.
        share: u32,
        /// First row of this chunk among those of all experts.
        first_row: u32,
        /// Rows of this chunk.
        chunk_rows: u32,
    }
    /// `route`: the `chosen` likeliest of a token's experts, the lowest of equals first, and their
    /// weights: the softmax over all experts, made to sum to 1 by `normalise` (Shazeer et al. 2017).
    ///
    /// Bindings: 1 `logits: f32 [tokens, experts]`, 2 `ids: u32 [tokens, chosen]` (written), 3
    /// `weights: f32 [tokens, chosen]` (written). Grid: `[tokens]`.
    RouteParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Experts there are.
        experts: u32,
        /// Experts that a token goes to, at most `experts`.
        chosen: u32,
        /// 1 to divide the weights by their sum.
        normalise: u32,
    }
    /// `combine_experts`: `out[t, :] = sum over j of weights[t, j] * x[t, j, :]`. Bindings: 1 `x: f32
    /// [tokens, chosen, cols]`, 2 `weights: f32 [tokens, chosen]`, 3 `out: f32 [tokens, cols]`
    /// (written). Grid: `[tokens * cols]`.
    CombineExpertsParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Experts of a token.
        chosen: u32,
        /// Width of a row.
        cols: u32,
    }
    /// `lora_shrink`: `out[t, :] = a[adapter] * x[t, :]`, the first half of a low-rank adapter (Hu et al.
    /// 2021), where `adapter = adapters[sequence of t] - 1`. Tokens whose sequence has adapter 0 have
    /// none: what is written for them is not to be read.
    ///
    /// Bindings: 1 `x: f32 [tokens, cols]`, 2 `index: vec2<u32> [tokens]` (sequence, position), 3
    /// `adapters: u32 [batch]`, 4 `a: f32 [slots, rows, cols]`, 5 `out: f32 [tokens, rows]` (written).
    /// Grid: `[rows, tokens]`.
    LoraShrinkParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Rows of one adapter: its rank, times the projections that are computed together.
        rows: u32,
        /// Width of a row.
        cols: u32,
    }
    /// `lora_expand`: `y[t, r] += dot(b[adapter, :, first_row + r], low[t, part, :])`, the second half,
    /// where `part` counts which of up to three stacked projections the row belongs to. Tokens without
    /// an adapter are left as they are.
    ///
    /// Bindings: 1 `low: f32 [tokens, parts, rank]`, 2 `index`, 3 `adapters` (as in `lora_shrink`), 4
    /// `b: f32 [slots, rank, b_rows]`, 5 `y: f32 [tokens, rows]` (read and written). Grid: `[rows, tokens]`.
    LoraExpandParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Width of `y`.
        rows: u32,
        /// Rank that adapters are padded to.
        rank: u32,
        /// Projections in `low`.
        parts: u32,
        /// Which row of `b` is the first of `y`.
        first_row: u32,
        /// Rows of `b`, of all projections together.
        b_rows: u32,
        /// The row of `b` at which the second projection begins; `u32::MAX` if there is none.
        second: u32,
        /// The row of `b` at which the third begins.
        third: u32,
    }
    /// `rms_norm`: `out[t, :] = x[t, :] / sqrt(mean(x[t, :]^2) + eps) * (weight + weight_offset)`
    /// (Zhang and Sennrich 2019). Bindings: 1 `x: f32 [rows, cols]`, 2 `weight: f32 [cols]`, 3
    /// `out: f32 [rows, cols]` (written). Grid: `[rows]`.
    ///
    /// `layer_norm`: `(x - mean(x)) / sqrt(var(x) + eps) * (weight + weight_offset) + bias` over each
    /// row (Ba et al. 2016). One more binding: 4 `bias: f32 [cols]` (anything when `has_bias` is 0).
    ///
    /// `add_rms_norm`, `add_layer_norm`: first `x += y_scale * y`, in place. Bindings: 1 `x` (read and
    /// written), 2 `y: f32 [rows, cols]`, 3 `weight`, 4 `out` (written), 5 `bias` of a layer norm.
    NormParams {
        /// Rows (tokens).
        rows: u32,
        /// Width of a row.
        cols: u32,
        /// Added under the root.
        eps: f32,
        /// Added to the weight (1 in Gemma, else 0).
        weight_offset: f32,
        /// Factor on `y`.
        y_scale: f32,
        /// 1 if a layer norm adds its bias.
        has_bias: u32,
    }
    /// `rope`: rotates the first `rotary_dim` elements of each head of `x` in place (Su et al.
    /// 2021). Bindings: 1 `x: f32 [tokens, stride]` (read and written), 2 `index: vec2<u32>
    /// [tokens]` (sequence, position), 3 `table: vec2<f32> [positions, rotary_dim / 2]` (cosine,
    /// sine). Grid: `[rotary_dim / 2 * heads, tokens]`.
    RopeParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Heads to rotate.
        heads: u32,
        /// Width of a head.
        head_dim: u32,
        /// How many elements of a head rotate (even).
        rotary_dim: u32,
        /// Elements from one token to the next in `x`.
        stride: u32,
        /// Where the first head begins within a token.
        offset: u32,
        /// 0: pairs `(i, i + rotary_dim / 2)` (NeoX, Hugging Face); 1: pairs `(2i, 2i + 1)` (GGUF's llama).
        interleaved: u32,
    }
    /// `kv_write`: `k_cache[page, slot, h, :] = k[t, h, :]`, the same for `v`, where page and slot
    /// come from the token's position through the page table.
    ///
    /// Bindings: 1 `k: f32 [tokens, k_stride]`, 2 `v: f32 [tokens, v_stride]`, 3 `index: vec2<u32>
    /// [tokens]`, 4 `page_table: u32 [batch, max_pages]`, 5 `k_cache`, 6 `v_cache`: `[pages,
    /// page_size, kv_heads, head_words]` in the kernel's [`CacheFormat`](crate::CacheFormat) (written;
    /// the pad elements get zero). Grid: `[kv_heads * head_units, tokens]`.
    KvWriteParams {
        /// Tokens in the batch.
        tokens: u32,
        /// KV heads.
        kv_heads: u32,
        /// Width of a head.
        head_dim: u32,
        /// Elements from one token to the next in `k`.
        k_stride: u32,
        /// Where the first key head begins within a token.
        k_offset: u32,
        /// Elements from one token to the next in `v`.
        v_stride: u32,
        /// Where the first value head begins within a token.
        v_offset: u32,
        /// Positions a page.
        page_size: u32,
        /// Entries a sequence has in the page table.
        max_pages: u32,
    }
    /// `rope_kv_write`: `rope` of the queries and keys and `kv_write`, in one kernel.
    ///
    /// Bindings: 1 `qkv: f32 [tokens, (heads + 2 * kv_heads) * head_dim]`, 2 `q: f32 [tokens,
    /// heads * head_dim]` (written), 3 `index`, 4 `table`, 5 `page_table`, 6 `k_cache`, 7
    /// `v_cache` (written). Grid: `[(heads + 2 * kv_heads) * head_units, tokens]`.
    ///
    /// `norm_rope_kv_write`: `rms_norm` of each head's query and key before. One more binding: 8
    /// `norms: f32 [2, head_dim]`, the weights for queries, then those for keys.
    RopeKvWriteParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Query heads.
        heads: u32,
        /// KV heads.
        kv_heads: u32,
        /// Width of a head.
        head_dim: u32,
        /// How many elements of a head rotate (even).
        rotary_dim: u32,
        /// As in `rope`.
        interleaved: u32,
        /// Positions a page.
        page_size: u32,
        /// Entries a sequence has in the page table.
        max_pages: u32,
        /// Of the norm: added under the root.
        eps: f32,
        /// Of the norm: added to the weight.
        weight_offset: f32,
    }
    /// `attention`: causal attention of ragged queries over a paged cache, with grouped heads and
    /// an online softmax (FlashAttention, Dao et al. 2022): a token at position `p` sees the
    /// positions `max(0, p + 1 - window)..=p` of its own sequence.
    ///
    /// Bindings: 1 `q: f32 [tokens, heads, head_dim]`, 2 `k_cache`, 3 `v_cache` (as in
    /// `kv_write`), 4 `index: vec2<u32> [tokens]`, 5 `page_table: u32 [batch, max_pages]`, 6 `out:
    /// f32 [tokens, heads, head_dim]` (written). Grid: `[heads, tokens]`.
    ///
    /// `full_attention`: a token also sees what follows: the positions `max(0, p + 1 -
    /// window)..min(length, p + window)`. One more binding: 7 `lengths: u32 [batch]`, the positions
    /// of each sequence.
    AttentionParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Query heads, a multiple of `kv_heads`.
        heads: u32,
        /// KV heads.
        kv_heads: u32,
        /// Width of a head, at most 256.
        head_dim: u32,
        /// Positions a page.
        page_size: u32,
        /// Entries a sequence has in the page table.
        max_pages: u32,
        /// How many positions a token sees to a side, itself included; 0 is all.
        window: u32,
        /// Factor on the scores, usually `1 / sqrt(head_dim)`.
        scale: f32,
        /// Scores become `softcap * tanh(score / softcap)`; 0 leaves them.
        softcap: f32,
    }
    /// `gated`: `out[t, i] = act(gate[t, i]) * up[t, i]` (Shazeer 2020). Bindings: 1 `gate: f32
    /// [tokens, gate_stride]`, 2 `up: f32 [tokens, up_stride]`, 3 `out: f32 [tokens, cols]`
    /// (written). Grid: `[tokens * cols]`.
    GatedParams {
        /// Tokens in the batch.
        tokens: u32,
        /// Width of the product.
        cols: u32,
        /// Elements from one token to the next in `gate`.
        gate_stride: u32,
        /// Where the gate begins within a token.
        gate_offset: u32,
        /// Elements from one token to the next in `up`.
        up_stride: u32,
        /// Where `up` begins within a token.
        up_offset: u32,
        /// 0: SiLU, 1: GELU (erf), 2: GELU (tanh), 3: ReLU.
        activation: u32,
    }
    /// `elementwise`: `out[i] = a[i] op b[i % b_len]`. Bindings: 1 `a: f32 [len]`, 2 `b: f32
    /// [b_len]`, 3 `out: f32 [len]` (written). Grid: `[len]`.
    ElementwiseParams {
        /// Elements of `a` and `out`.
        len: u32,
        /// Elements of `b`, repeated over `a`.
        b_len: u32,
        /// 0: add, 1: multiply, 2: add `scale * b`.
        op: u32,
        /// Factor on `b` of op 2.
        scale: f32,
    }
    /// `map`: `out[i] = f(x[i])`. Bindings: 1 `x: f32 [len]`, 2 `out: f32 [len]` (written). Grid: `[len]`.
    MapParams {
        /// Elements.
        len: u32,
        /// 0 to 3: an activation as in `gated`; 8: `factor * x`; 9: `factor * tanh(x / factor)`; 16 -x,
        /// 17 |x|, 18 exp, 19 log, 20 sqrt, 21 1 / sqrt, 22 sin, 23 cos (both of any finite number), 24 tanh,
        /// 25 sigmoid, 26 erf, 27 floor, 28 ceil, 29 round (to even), 30 1 / x, 31 to `u32` (towards
        /// zero, within its range), 32 from `u32`, 33 `x == 0` of `u32` as `u32`.
        kind: u32,
        /// The factor or cap.
        factor: f32,
    }
    /// `softmax`: over each row of `x`, less its maximum. Bindings: 1 `x: f32 [rows, cols]`, 2
    /// `out: f32 [rows, cols]` (written). Grid: `[rows]`.
    ///
    /// `argmax`: the index of each row's greatest element, the lowest of equals. Bindings: 1 `x`,
    /// 2 `out: u32 [rows]` (written). Grid: `[rows]`.
    RowsParams {
        /// Rows.
        rows: u32,
        /// Width of a row.
        cols: u32,
    }
    /// `gather`: `out[o, j, i] = x[o, indices[j], i]`: parts of `x` along one dimension. An index that
    /// is too great stands for the last part (the host refuses it).
    ///
    /// Bindings: 1 `x: [outer, n, inner]` of 4-byte words, 2 `indices: u32 [count]`, 3 `out: [outer,
    /// count, inner]` (written). Grid: `[outer * count * inner]`.
    GatherParams {
        /// What is before the dimension, multiplied.
        outer: u32,
        /// Size of the dimension, at least 1.
        n: u32,
        /// What is after it, multiplied.
        inner: u32,
        /// Indices.
        count: u32,
    }
    /// `scatter`: `out = x`, but `out[o, indices[j], i] = updates[o, j, i]`, or that added. Of equal
    /// indices the last counts, or all are added in their order; one that is too great does nothing.
    ///
    /// Bindings: 1 `x: f32 [outer, n, inner]`, 2 `indices: u32 [count]`, 3 `updates: f32 [outer, count,
    /// inner]`, 4 `out: f32 [outer, n, inner]` (written). Grid: `[outer * n * inner]`.
    ScatterParams {
        /// What is before the dimension, multiplied.
        outer: u32,
        /// Size of the dimension.
        n: u32,
        /// What is after it, multiplied.
        inner: u32,
        /// Indices.
        count: u32,
        /// 1 to add the updates.
        adds: u32,
    }
    /// `copy`: `out[out_offset + at . out_strides] = x[x_offset + at . x_strides]` for every place `at`
    /// of `dims`. Bindings: 1 `x`, 2 `out` (written), both of 4-byte words. Grid: `[len]`.
    CopyParams {
        /// The product of `dims`.
        len: u32,
        /// How many of `dims` there are.
        rank: u32,
        /// Where the first element is in `x`.
        x_offset: u32,
        /// Where the first element is in `out`.
        out_offset: u32,
        /// Sizes, the outermost first.
        dims: [u32; 8],
        /// Elements of `x` from one place of a dimension to the next.
        x_strides: [u32; 8],
        /// Elements of `out` from one place of a dimension to the next.
        out_strides: [u32; 8],
    }
    /// `binary`: `out[at] = f(a[at . a_strides], b[at . b_strides])` for every place `at` of `dims`.
    /// Bindings: 1 `a`, 2 `b`, 3 `out` (written), of 4-byte words. Grid: `[len]`.
    BinaryParams {
        /// The product of `dims`.
        len: u32,
        /// How many of `dims` there are.
        rank: u32,
        /// 0 add, 1 subtract, 2 multiply, 3 divide (whole numbers by 0: by 1), 4 power (of `|a|`, with
        /// `a`'s sign where `b` is odd; of floats), 5 min, 6 max, 7 ==, 8 !=, 9 <, 10 <=, 11 >, 12 >=,
        /// 13 and, 14 or (of whole numbers). What is compared gives `u32` 0 or 1.
        kind: u32,
        /// 1: of `u32`, 0: of `f32`.
        whole: u32,
        /// Sizes, the outermost first.
        dims: [u32; 8],
        /// Elements of `a` from one place of a dimension to the next.
        a_strides: [u32; 8],
        /// Elements of `b` from one place of a dimension to the next.
        b_strides: [u32; 8],
    }
    /// `choose`: `out[at] = condition[at . c_strides] != 0 ? a[at . a_strides] : b[at . b_strides]` for
    /// every place `at` of `dims`. Bindings: 1 `condition: u32`, 2 `a`, 3 `b`, 4 `out` (written), of
    /// 4-byte words. Grid: `[len]`.
    ChooseParams {
        /// The product of `dims`.
        len: u32,
        /// How many of `dims` there are.
        rank: u32,
        /// Nothing.
        pad0: u32,
        /// Nothing.
        pad1: u32,
        /// Sizes, the outermost first.
        dims: [u32; 8],
        /// Elements of `condition` from one place of a dimension to the next.
        c_strides: [u32; 8],
        /// Elements of `a` from one place of a dimension to the next.
        a_strides: [u32; 8],
        /// Elements of `b` from one place of a dimension to the next.
        b_strides: [u32; 8],
    }
    /// `reduction`: `out[o, i] = f over j of x[o, j, i]`. Bindings: 1 `x: f32 [outer, n, inner]`, 2 `out:
    /// f32 [outer, inner]` (written). Grid: `[outer * inner]`.
    ReductionParams {
        /// What is before the dimension, multiplied.
        outer: u32,
        /// Size of the dimension, at least 1.
        n: u32,
        /// What is after it, multiplied.
        inner: u32,
        /// 0: sum, 1: mean, 2: max, 3: min.
        kind: u32,
    }
    /// `batch_matmul`: `out[batch, i, j] = sum over k of a[batch, i, k] * b[batch, k, j]`. Bindings: 1
    /// `a: f32`, 2 `b: f32`, 3 `out: f32 [dims.., m, n]` (written). Grid: `[len]`.
    BatchMatmulParams {
        /// Elements of the result.
        len: u32,
        /// How many of `dims` there are.
        rank: u32,
        /// Rows of `a` and of the result.
        m: u32,
        /// Columns of `b` and of the result.
        n: u32,
        /// The reduced dimension.
        k: u32,
        /// Elements of `a` from one row to the next.
        a_row: u32,
        /// Elements of `a` from one column to the next.
        a_col: u32,
        /// Elements of `b` from one row to the next.
        b_row: u32,
        /// Elements of `b` from one column to the next.
        b_col: u32,
        /// Nothing.
        pad0: u32,
        /// Nothing.
        pad1: u32,
        /// Nothing.
        pad2: u32,
        /// The batch's sizes, the outermost first.
        dims: [u32; 8],
        /// Elements of `a` from one place of a batch's dimension to the next.
        a_strides: [u32; 8],
        /// Elements of `b` from one place of a batch's dimension to the next.
        b_strides: [u32; 8],
    }
    /// `conv2d`: cross-correlation with strides, zero padding, dilation and groups. Bindings: 1 `image:
    /// f32 [n, in_channels, in_height, in_width]`, 2 `weight: f32 [out_channels, in_channels / groups,
    /// kernel_height, kernel_width]`, 3 `bias: f32 [out_channels]` (anything when `has_bias` is 0), 4
    /// `out: f32 [n, out_channels, out_height, out_width]` (written). Grid: `[len]`.
    Conv2dParams {
        /// Elements of the result.
        len: u32,
        /// Channels of an image, a multiple of `groups`.
        in_channels: u32,
        /// Rows of an image.
        in_height: u32,
        /// Columns of an image.
        in_width: u32,
        /// Channels of the result, a multiple of `groups`.
        out_channels: u32,
        /// Rows of the result.
        out_height: u32,
        /// Columns of the result.
        out_width: u32,
        /// Rows of a filter.
        kernel_height: u32,
        /// Columns of a filter.
        kernel_width: u32,
        /// Rows of the image for a row of the result.
        stride_y: u32,
        /// Columns of the image for a column of the result.
        stride_x: u32,
        /// Rows of zeros above and below.
        pad_y: u32,
        /// Columns of zeros left and right.
        pad_x: u32,
        /// Rows of the image for a row of the filter.
        dilation_y: u32,
        /// Columns of the image for a column of the filter.
        dilation_x: u32,
        /// Channels are split into so many groups that do not see each other.
        groups: u32,
        /// 1 to add the bias.
        has_bias: u32,
    }
    /// `top_k`: the `k` greatest elements of each row, the greatest first, the lowest index of equals
    /// first; NaN counts as the least. Bindings: 1 `x: f32 [rows, cols]`, 2 `values: f32 [rows, k]`
    /// (written), 3 `ids: u32 [rows, k]` (written). Grid: `[rows]`.
    TopKParams {
        /// Rows.
        rows: u32,
        /// Width of a row.
        cols: u32,
        /// How many, at most `cols`.
        k: u32,
    }
    /// `sample`: draws one token for each row of logits and prepares the inputs of the next step.
    ///
    /// Bindings: 1 `logits: f32 [rows, vocab]` (read and written, but left as they were), 2 `settings:
    /// SampleSettings [rows]` (read and written: `step` and `position` grow by one), 3 `counts: u32
    /// [batch, vocab]`: how often a sequence has drawn a token, and [`IN_PROMPT`] if it is in its
    /// prompt (read and written, for rows with a penalty only), 4 `tokens: u32 [rows]` (written: the
    /// token drawn, the next step's input), 5 `index: vec2<u32> [rows]` (written: `(sequence,
    /// position)` of the drawn token), 6 `out: u32 [max_steps, rows]` (written at `[step, row]`;
    /// `u32::MAX` if the logits are not finite), 7 `biases: Bias [batch, max_biases]`, 8 `scores: u32
    /// [max_steps, rows, score_words]` (written at `[step, row]` where `scored` is not 0: the
    /// logarithm of the token's probability, then the likeliest tokens and theirs, in pairs;
    /// `u32::MAX` where there are no more). Grid: `[rows]`, one workgroup each.
    SampleParams {
        /// Rows of logits.
        rows: u32,
        /// Width of a row, and of `counts`.
        vocab: u32,
        /// Width of `biases`.
        max_biases: u32,
        /// Width of `scores`: odd.
        score_words: u32,
    }
    /// What is added to one token's logit.
    Bias {
        /// The token.
        token: u32,
        /// Added to its logit.
        value: f32,
        /// Room for the kernel.
        scratch: f32,
        /// Nothing.
        pad: u32,
    }
    /// `measure_read`: reads `x` once. Bindings: 1 `x: vec4<f32> [len]`, 2 `out: f32 [invocations]`
    /// (written). `measure_fma`: 128 operations, `len` times in each invocation. Bindings: 1 `x:
    /// vec4<f32> [1]`, 2 `out`. Grid: `[invocations]`.
    MeasureParams {
        /// Elements of `x`, or rounds.
        len: u32,
        /// Invocations in all.
        invocations: u32,
    }
    /// One row's sampling settings, an element of a storage buffer. Order: biases, repetition penalty
    /// (Keskar et al. 2019), frequency and presence penalty (as OpenAI's), temperature, top-k, top-p
    /// (Holtzman et al. 2020) over what is left, min-p (Nguyen et al. 2024), then the Gumbel-max draw.
    SampleSettings {
        /// 0 is greedy.
        temperature: f32,
        /// Keep the k likeliest; 0 keeps all.
        top_k: u32,
        /// Keep the smallest set with at least this mass; 1 keeps all.
        top_p: f32,
        /// Keep what is at least this likely relative to the likeliest; 0 keeps all.
        min_p: f32,
        /// Divides positive and multiplies negative logits of tokens in the prompt or drawn; 1 leaves them.
        repetition_penalty: f32,
        /// Taken off the logits of tokens that were drawn.
        presence_penalty: f32,
        /// Taken off the logits of tokens for each time that they were drawn.
        frequency_penalty: f32,
        /// Seed of the draw.
        seed: u32,
        /// Counts the draws of a submission: the row of `out` to write.
        step: u32,
        /// The sequence's row in `counts`, `biases` and the page table.
        sequence: u32,
        /// Position in its sequence of the token that is drawn.
        position: u32,
        /// The token, if it is known and only scored; [`DRAWN`] draws one.
        forced: u32,
        /// Entries of `biases`.
        biases: u32,
        /// 0, or 1 more than the likeliest tokens to write to `scores`.
        scored: u32,
    }
}

/// The bit of a count that says that the token is in the prompt.
pub const IN_PROMPT: u32 = 1 << 31;

/// [`SampleSettings::forced`] where a token is to be drawn.
pub const DRAWN: u32 = u32::MAX;
