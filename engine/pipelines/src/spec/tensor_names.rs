//! The names of a decoder's tensors in a checkpoint.

use std::{borrow::Cow, sync::LazyLock};

/// The names of a decoder's tensors in a checkpoint, without `.weight` and `.bias`.
///
/// The first `{}` of a name stands for the layer, the second for the expert. A name that a model has
/// no use for is not looked up, and an empty one stands for a tensor that the architecture does not
/// have.
///
/// ```
/// use wisp_pipelines::spec::TensorNames;
///
/// let mut names = TensorNames::hugging_face();
/// assert_eq!(names.q, "layers.{}.self_attn.q_proj");
/// names.q = "layers.{}.attention.query".into();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorNames {
    /// Prefixes that all names but the output layer's may have. A checkpoint's is the first under
    /// which the embedding exists.
    pub prefixes: Vec<Cow<'static, str>>,
    /// Token embedding, `[vocab, hidden]`.
    pub embedding: Cow<'static, str>,
    /// Learned positions, `[positions, hidden]`.
    pub positions: Cow<'static, str>,
    /// Embedding of segment types, `[types, hidden]`.
    pub token_types: Cow<'static, str>,
    /// Norm of the embedding, which encoders have.
    pub embedding_norm: Cow<'static, str>,
    /// Norm before attention.
    pub attention_norm: Cow<'static, str>,
    /// Query projection, `[heads * head_dim, hidden]`.
    pub q: Cow<'static, str>,
    /// Key projection, `[kv_heads * head_dim, hidden]`.
    pub k: Cow<'static, str>,
    /// Value projection, `[kv_heads * head_dim, hidden]`.
    pub v: Cow<'static, str>,
    /// The fused projection of queries, keys and values, used where `q` does not exist.
    pub qkv: Cow<'static, str>,
    /// The order of the rows of `qkv`.
    pub qkv_layout: QkvLayout,
    /// Projection of queries to a low rank, `[q_rank, hidden]`.
    pub q_a: Cow<'static, str>,
    /// Norm of the queries' low rank.
    pub q_a_norm: Cow<'static, str>,
    /// Projection of queries from their low rank, `[heads * head_dim, q_rank]`.
    pub q_b: Cow<'static, str>,
    /// Projection of keys and values to a low rank and of the keys that rotate, `[kv_rank + rotary_dim, hidden]`.
    pub kv_a: Cow<'static, str>,
    /// Norm of the low rank of keys and values.
    pub kv_a_norm: Cow<'static, str>,
    /// Projection of keys and values from their low rank: of each head its key, then its value.
    pub kv_b: Cow<'static, str>,
    /// Projections of keys to their low rank, `[heads, kv_rank, unrotated]`, used where `kv_b` does not exist.
    pub k_b: Cow<'static, str>,
    /// Projections of values from their low rank, `[heads, value_dim, kv_rank]`, used where `kv_b` does not exist.
    pub v_b: Cow<'static, str>,
    /// Norm of queries.
    pub q_norm: Cow<'static, str>,
    /// Norm of keys.
    pub k_norm: Cow<'static, str>,
    /// The sinks of query heads, `[heads]`: the whole name, with its suffix.
    pub sinks: Cow<'static, str>,
    /// Attention's output projection, `[hidden, heads * head_dim]`.
    pub o: Cow<'static, str>,
    /// Input projection of a short convolution, `[3 * hidden, hidden]`.
    pub conv_in: Cow<'static, str>,
    /// Filters of a short convolution, `[hidden, width]`.
    pub conv: Cow<'static, str>,
    /// Output projection of a short convolution, `[hidden, hidden]`.
    pub conv_out: Cow<'static, str>,
    /// Projection of a delta net's queries, keys and values, `[2 * keys + values, hidden]`.
    pub delta_qkv: Cow<'static, str>,
    /// Projection of a delta net's output gates, `[values, hidden]`.
    pub delta_gate: Cow<'static, str>,
    /// The fused projection of queries, keys, values and output gates, for each head of keys the rows
    /// of its heads, used where `delta_qkv` does not exist.
    pub delta_fused: Cow<'static, str>,
    /// Projection of the logits of a delta net's corrections, `[v_heads, hidden]`.
    pub delta_beta: Cow<'static, str>,
    /// Projection of the steps of a delta net's decay, `[v_heads, hidden]`.
    pub delta_step: Cow<'static, str>,
    /// The fused projection of both, for each head of keys the rows of its heads, used where
    /// `delta_beta` does not exist.
    pub delta_fused_gates: Cow<'static, str>,
    /// Filters of a delta net, `[2 * keys + values, width]`.
    pub delta_conv: Cow<'static, str>,
    /// The logarithm of the decay's rate, `[v_heads]`: the whole name.
    pub delta_a_log: Cow<'static, str>,
    /// The bias of the decay's steps, `[v_heads]`: the whole name.
    pub delta_step_bias: Cow<'static, str>,
    /// Norm of each head of a delta net, `[v_dim]`.
    pub delta_norm: Cow<'static, str>,
    /// Output projection of a delta net, `[hidden, values]`.
    pub delta_out: Cow<'static, str>,
    /// Input projection of Mamba, `[2 * inner + 2 * groups * state + heads, hidden]`: gates, what is
    /// convolved, and steps.
    pub mamba_in: Cow<'static, str>,
    /// Filters of Mamba, `[inner + 2 * groups * state, width]`.
    pub mamba_conv: Cow<'static, str>,
    /// The logarithm of the decay's rate, `[heads]`: the whole name.
    pub mamba_a_log: Cow<'static, str>,
    /// The bias of the decay's steps, `[heads]`: the whole name.
    pub mamba_step_bias: Cow<'static, str>,
    /// The factor on inputs that are added to the result, `[heads]`: the whole name.
    pub mamba_d: Cow<'static, str>,
    /// Norm of Mamba's result, `[inner]`.
    pub mamba_norm: Cow<'static, str>,
    /// Output projection of Mamba, `[hidden, inner]`.
    pub mamba_out: Cow<'static, str>,
    /// Norm of attention's output, before the residual sum.
    pub attention_output_norm: Cow<'static, str>,
    /// Norm of the residual sum after attention.
    pub attention_residual_norm: Cow<'static, str>,
    /// Norm before the feed-forward network.
    pub mlp_norm: Cow<'static, str>,
    /// Gate projection of the feed-forward network, `[intermediate, hidden]`.
    pub gate: Cow<'static, str>,
    /// Up projection of the feed-forward network, `[intermediate, hidden]`.
    pub up: Cow<'static, str>,
    /// The fused gate and up projection, gate first, used where `gate` does not exist.
    pub gate_up: Cow<'static, str>,
    /// Down projection of the feed-forward network, `[hidden, intermediate]`.
    pub down: Cow<'static, str>,
    /// Norm of the feed-forward network's output, before the residual sum.
    pub mlp_output_norm: Cow<'static, str>,
    /// Norm of the residual sum after the feed-forward network.
    pub mlp_residual_norm: Cow<'static, str>,
    /// Router of the experts, `[experts, hidden]`.
    pub router: Cow<'static, str>,
    /// The bias by which experts are selected, `[experts]`: the whole name, with its suffix.
    pub selection_bias: Cow<'static, str>,
    /// Projection of what experts read, `[latent, hidden]`.
    pub expert_in: Cow<'static, str>,
    /// Projection of what experts write, `[hidden, latent]`.
    pub expert_out: Cow<'static, str>,
    /// Gate projections of the experts: one tensor `[experts, intermediate, hidden]`, or one for
    /// each expert if the name has a second `{}`.
    pub expert_gate: Cow<'static, str>,
    /// The fused gate and up projections of the experts, used where `expert_gate` is empty or does not exist;
    /// [`GateUpOrder`] tells their shape.
    pub expert_gate_up: Cow<'static, str>,
    /// The order of `expert_gate_up`.
    pub gate_up_order: GateUpOrder,
    /// Up projections of the experts, like `expert_gate`.
    pub expert_up: Cow<'static, str>,
    /// Down projections of the experts, like `expert_gate`, or transposed like `expert_gate_up` where that is.
    pub expert_down: Cow<'static, str>,
    /// Gate projection of the shared expert.
    pub shared_gate: Cow<'static, str>,
    /// Up projection of the shared expert.
    pub shared_up: Cow<'static, str>,
    /// The fused gate and up projection of the shared expert, used if `shared_gate` is empty.
    pub shared_gate_up: Cow<'static, str>,
    /// Down projection of the shared expert.
    pub shared_down: Cow<'static, str>,
    /// The linear layer `[1, hidden]` whose sigmoid is the factor on the shared expert's output.
    pub shared_router: Cow<'static, str>,
    /// Embeddings of tokens for each layer, `[vocab, layers * width]`.
    pub layer_embeddings: Cow<'static, str>,
    /// Projection that is added to them, `[layers * width, hidden]`.
    pub layer_embedding_projection: Cow<'static, str>,
    /// Norm of that projection, for each layer.
    pub layer_embedding_norm: Cow<'static, str>,
    /// Gate of a layer's embedding, `[width, hidden]`.
    pub layer_input_gate: Cow<'static, str>,
    /// Projection of a layer's gated embedding, `[hidden, width]`.
    pub layer_input_projection: Cow<'static, str>,
    /// Norm of that projection.
    pub layer_input_norm: Cow<'static, str>,
    /// Projections of further versions of the residual stream, `[hidden, hidden]`; `{}` stands for the version, counted
    /// from 0. A name without it is that of one tensor for all versions, `[versions - 1, hidden, hidden]`.
    pub alt_up_in: Cow<'static, str>,
    /// Projections of these versions after the last layer, like `alt_up_in`.
    pub alt_up_out: Cow<'static, str>,
    /// Norm of the input of AltUp's router.
    pub alt_up_norm: Cow<'static, str>,
    /// AltUp's router, `[versions, hidden]`.
    pub alt_up_router: Cow<'static, str>,
    /// Coefficients of AltUp's predictions, `[versions * versions, versions]`.
    pub alt_up_prediction: Cow<'static, str>,
    /// Coefficients of AltUp's corrections, `[versions, versions]`.
    pub alt_up_correction: Cow<'static, str>,
    /// Factor on the corrected version, `[hidden]`: the whole name.
    pub alt_up_scale: Cow<'static, str>,
    /// First projection of the branch beside attention, `[rank, hidden]`.
    pub laurel_left: Cow<'static, str>,
    /// Second projection of the branch beside attention, `[hidden, rank]`.
    pub laurel_right: Cow<'static, str>,
    /// Norm of the branch beside attention.
    pub laurel_norm: Cow<'static, str>,
    /// Factor on a layer's output, `[1]`: the whole name.
    pub layer_scalar: Cow<'static, str>,
    /// Norm of the output of a dense feed-forward network beside experts.
    pub dense_output_norm: Cow<'static, str>,
    /// Norm of what experts beside a dense feed-forward network read.
    pub expert_norm: Cow<'static, str>,
    /// Norm of the output of experts beside a dense feed-forward network.
    pub expert_output_norm: Cow<'static, str>,
    /// Weight of the norm of what a router reads, `[hidden]`: the whole name.
    pub router_norm: Cow<'static, str>,
    /// Factors on the routing weights of experts, `[experts]`: the whole name.
    pub expert_scales: Cow<'static, str>,
    /// Norm after the last block.
    pub final_norm: Cow<'static, str>,
    /// Output layer, `[vocab, hidden]`; not looked up where the embedding is the output layer.
    pub output: Cow<'static, str>,
    /// First linear layer of a score head, `[hidden, hidden]`: the whole name, without a prefix.
    pub score_dense: Cow<'static, str>,
    /// Norm of a score head: the whole name.
    pub score_norm: Cow<'static, str>,
    /// Last linear layer of a score head, `[labels, hidden]`: the whole name.
    pub score_output: Cow<'static, str>,
    /// True if the linear weights of the blocks are stored `[in, out]`.
    pub transposed: bool,
    /// True if the decays of delta nets and Mamba are stored as the negative exponentials of their logarithms.
    pub negative_decays: bool,
    /// True if the name of the norm before the feed-forward network has no `.weight`, as in GGUF files of Falcon-H1.
    pub bare_mlp_norm: bool,
}

/// The order of the rows of a fused projection of queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkvLayout {
    /// All queries, then all keys, then all values.
    Stacked,
    /// For each head its query, its key and its value. There are as many KV heads as heads.
    PerHead,
}

/// The order of a fused gate and up projection of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateUpOrder {
    /// Rows `[experts, 2 * intermediate, hidden]`: those of the gate, then those of the up projection (Granite). Names
    /// are with or without `.weight`. The down projections then have one tensor for all experts too.
    Rows,
    /// Transposed, `[experts, hidden, 2 * intermediate]`: the gate, then the up projection (Llama 4). The name is the
    /// whole name, to which MXFP4 checkpoints add `_blocks` and `_scales`, and biases `_bias`.
    Stacked,
    /// Transposed and named likewise, in neighbours: a column of the gate, then one of the up projection (gpt-oss).
    Interleaved,
}

/// GGUF's names, made once.
static GGUF: LazyLock<TensorNames> = LazyLock::new(gguf);

/// GGUF's names with a tensor for each expert, made once.
static GGUF_WITH_SPLIT_EXPERTS: LazyLock<TensorNames> = LazyLock::new(|| TensorNames {
    expert_gate: "blk.{}.ffn_gate.{}".into(),
    expert_up: "blk.{}.ffn_up.{}".into(),
    expert_down: "blk.{}.ffn_down.{}".into(),
    ..gguf()
});

impl TensorNames {
    /// Returns the names of Llama in Hugging Face's layout, which most architectures share.
    pub fn hugging_face() -> TensorNames {
        TensorNames {
            // Models without a head are saved without the prefix.
            prefixes: vec!["model.".into(), "".into()],
            embedding: "embed_tokens".into(),
            positions: "".into(),
            token_types: "".into(),
            embedding_norm: "".into(),
            attention_norm: "layers.{}.input_layernorm".into(),
            q: "layers.{}.self_attn.q_proj".into(),
            k: "layers.{}.self_attn.k_proj".into(),
            v: "layers.{}.self_attn.v_proj".into(),
            qkv: "layers.{}.self_attn.qkv_proj".into(),
            qkv_layout: QkvLayout::Stacked,
            q_a: "layers.{}.self_attn.q_a_proj".into(),
            q_a_norm: "layers.{}.self_attn.q_a_layernorm".into(),
            q_b: "layers.{}.self_attn.q_b_proj".into(),
            kv_a: "layers.{}.self_attn.kv_a_proj_with_mqa".into(),
            kv_a_norm: "layers.{}.self_attn.kv_a_layernorm".into(),
            kv_b: "layers.{}.self_attn.kv_b_proj".into(),
            k_b: "".into(),
            v_b: "".into(),
            q_norm: "layers.{}.self_attn.q_norm".into(),
            k_norm: "layers.{}.self_attn.k_norm".into(),
            sinks: "layers.{}.self_attn.sinks".into(),
            o: "layers.{}.self_attn.o_proj".into(),
            conv_in: "layers.{}.conv.in_proj".into(),
            conv: "layers.{}.conv.conv".into(),
            conv_out: "layers.{}.conv.out_proj".into(),
            delta_qkv: "layers.{}.linear_attn.in_proj_qkv".into(),
            delta_gate: "layers.{}.linear_attn.in_proj_z".into(),
            delta_fused: "layers.{}.linear_attn.in_proj_qkvz".into(),
            delta_beta: "layers.{}.linear_attn.in_proj_b".into(),
            delta_step: "layers.{}.linear_attn.in_proj_a".into(),
            delta_fused_gates: "layers.{}.linear_attn.in_proj_ba".into(),
            delta_conv: "layers.{}.linear_attn.conv1d".into(),
            delta_a_log: "layers.{}.linear_attn.A_log".into(),
            delta_step_bias: "layers.{}.linear_attn.dt_bias".into(),
            delta_norm: "layers.{}.linear_attn.norm".into(),
            delta_out: "layers.{}.linear_attn.out_proj".into(),
            mamba_in: "layers.{}.mamba.in_proj".into(),
            mamba_conv: "layers.{}.mamba.conv1d".into(),
            mamba_a_log: "layers.{}.mamba.A_log".into(),
            mamba_step_bias: "layers.{}.mamba.dt_bias".into(),
            mamba_d: "layers.{}.mamba.D".into(),
            mamba_norm: "layers.{}.mamba.norm".into(),
            mamba_out: "layers.{}.mamba.out_proj".into(),
            // One name stands for the norm after attention or for the one before the feed-forward
            // network, as the norms are placed.
            attention_output_norm: "layers.{}.post_attention_layernorm".into(),
            attention_residual_norm: "".into(),
            mlp_norm: "layers.{}.post_attention_layernorm".into(),
            gate: "layers.{}.mlp.gate_proj".into(),
            up: "layers.{}.mlp.up_proj".into(),
            gate_up: "layers.{}.mlp.gate_up_proj".into(),
            down: "layers.{}.mlp.down_proj".into(),
            mlp_output_norm: "layers.{}.post_feedforward_layernorm".into(),
            mlp_residual_norm: "".into(),
            router: "layers.{}.mlp.gate".into(),
            selection_bias: "layers.{}.mlp.gate.e_score_correction_bias".into(),
            expert_in: "".into(),
            expert_out: "".into(),
            expert_gate: "layers.{}.mlp.experts.{}.gate_proj".into(),
            expert_gate_up: "layers.{}.mlp.experts.gate_up_proj".into(),
            gate_up_order: GateUpOrder::Rows,
            expert_up: "layers.{}.mlp.experts.{}.up_proj".into(),
            expert_down: "layers.{}.mlp.experts.{}.down_proj".into(),
            shared_gate: "layers.{}.mlp.shared_experts.gate_proj".into(),
            shared_up: "layers.{}.mlp.shared_experts.up_proj".into(),
            shared_gate_up: "".into(),
            shared_down: "layers.{}.mlp.shared_experts.down_proj".into(),
            shared_router: "".into(),
            layer_embeddings: "embed_tokens_per_layer".into(),
            layer_embedding_projection: "per_layer_model_projection".into(),
            layer_embedding_norm: "per_layer_projection_norm".into(),
            layer_input_gate: "layers.{}.per_layer_input_gate".into(),
            layer_input_projection: "layers.{}.per_layer_projection".into(),
            layer_input_norm: "layers.{}.post_per_layer_input_norm".into(),
            alt_up_in: "altup_projections.{}".into(),
            alt_up_out: "altup_unembed_projections.{}".into(),
            alt_up_norm: "layers.{}.altup.router_norm".into(),
            alt_up_router: "layers.{}.altup.modality_router".into(),
            alt_up_prediction: "layers.{}.altup.prediction_coefs".into(),
            alt_up_correction: "layers.{}.altup.correction_coefs".into(),
            alt_up_scale: "layers.{}.altup.correct_output_scale".into(),
            laurel_left: "layers.{}.laurel.linear_left".into(),
            laurel_right: "layers.{}.laurel.linear_right".into(),
            laurel_norm: "layers.{}.laurel.post_laurel_norm".into(),
            layer_scalar: "".into(),
            dense_output_norm: "".into(),
            expert_norm: "".into(),
            expert_output_norm: "".into(),
            router_norm: "".into(),
            expert_scales: "".into(),
            final_norm: "norm".into(),
            output: "lm_head".into(),
            score_dense: "".into(),
            score_norm: "".into(),
            score_output: "score".into(),
            transposed: false,
            negative_decays: false,
            bare_mlp_norm: false,
        }
    }

    /// Returns GGUF's names, which all architectures share.
    pub fn gguf() -> &'static TensorNames {
        &GGUF
    }

    /// Returns the names in the first GGUF files of models with experts (Mixtral), which have a tensor for each expert.
    pub fn gguf_with_split_experts() -> &'static TensorNames {
        &GGUF_WITH_SPLIT_EXPERTS
    }

    /// Returns the prefix that a checkpoint's names have: the first under which the embedding
    /// `exists`.
    pub(crate) fn prefix(&self, exists: impl Fn(&str) -> bool) -> &str {
        let embedding =
            |prefix: &&Cow<'static, str>| exists(&format!("{prefix}{}.weight", self.embedding));
        let found = self.prefixes.iter().find(embedding);
        found.or(self.prefixes.first()).map_or("", |prefix| prefix)
    }
}

/// Fills in the layer of a tensor's name.
pub(crate) fn in_layer(template: &str, layer: usize) -> String {
    template.replacen("{}", &layer.to_string(), 1)
}

fn gguf() -> TensorNames {
    TensorNames {
        prefixes: vec!["".into()],
        embedding: "token_embd".into(),
        positions: "position_embd".into(),
        token_types: "token_types".into(),
        embedding_norm: "token_embd_norm".into(),
        attention_norm: "blk.{}.attn_norm".into(),
        q: "blk.{}.attn_q".into(),
        k: "blk.{}.attn_k".into(),
        v: "blk.{}.attn_v".into(),
        qkv: "blk.{}.attn_qkv".into(),
        qkv_layout: QkvLayout::Stacked,
        q_a: "blk.{}.attn_q_a".into(),
        q_a_norm: "blk.{}.attn_q_a_norm".into(),
        q_b: "blk.{}.attn_q_b".into(),
        kv_a: "blk.{}.attn_kv_a_mqa".into(),
        kv_a_norm: "blk.{}.attn_kv_a_norm".into(),
        kv_b: "blk.{}.attn_kv_b".into(),
        k_b: "blk.{}.attn_k_b".into(),
        v_b: "blk.{}.attn_v_b".into(),
        q_norm: "blk.{}.attn_q_norm".into(),
        k_norm: "blk.{}.attn_k_norm".into(),
        sinks: "blk.{}.attn_sinks.weight".into(),
        o: "blk.{}.attn_output".into(),
        conv_in: "blk.{}.shortconv.in_proj".into(),
        conv: "blk.{}.shortconv.conv".into(),
        conv_out: "blk.{}.shortconv.out_proj".into(),
        delta_qkv: "blk.{}.attn_qkv".into(),
        delta_gate: "blk.{}.attn_gate".into(),
        delta_fused: "blk.{}.ssm_in".into(),
        delta_beta: "blk.{}.ssm_beta".into(),
        delta_step: "blk.{}.ssm_alpha".into(),
        delta_fused_gates: "blk.{}.ssm_ba".into(),
        delta_conv: "blk.{}.ssm_conv1d".into(),
        delta_a_log: "blk.{}.ssm_a".into(),
        delta_step_bias: "blk.{}.ssm_dt.bias".into(),
        delta_norm: "blk.{}.ssm_norm".into(),
        delta_out: "blk.{}.ssm_out".into(),
        mamba_in: "blk.{}.ssm_in".into(),
        mamba_conv: "blk.{}.ssm_conv1d".into(),
        mamba_a_log: "blk.{}.ssm_a".into(),
        mamba_step_bias: "blk.{}.ssm_dt.bias".into(),
        mamba_d: "blk.{}.ssm_d".into(),
        mamba_norm: "blk.{}.ssm_norm".into(),
        mamba_out: "blk.{}.ssm_out".into(),
        attention_output_norm: "blk.{}.post_attention_norm".into(),
        attention_residual_norm: "blk.{}.attn_output_norm".into(),
        mlp_norm: "blk.{}.ffn_norm".into(),
        gate: "blk.{}.ffn_gate".into(),
        up: "blk.{}.ffn_up".into(),
        // GGUF gives the fused projection the name of the single one.
        gate_up: "blk.{}.ffn_up".into(),
        down: "blk.{}.ffn_down".into(),
        mlp_output_norm: "blk.{}.post_ffw_norm".into(),
        mlp_residual_norm: "blk.{}.layer_output_norm".into(),
        router: "blk.{}.ffn_gate_inp".into(),
        selection_bias: "blk.{}.exp_probs_b.bias".into(),
        expert_in: "blk.{}.ffn_latent_down".into(),
        expert_out: "blk.{}.ffn_latent_up".into(),
        expert_gate: "blk.{}.ffn_gate_exps".into(),
        expert_gate_up: "blk.{}.ffn_gate_up_exps".into(),
        gate_up_order: GateUpOrder::Rows,
        expert_up: "blk.{}.ffn_up_exps".into(),
        expert_down: "blk.{}.ffn_down_exps".into(),
        shared_gate: "blk.{}.ffn_gate_shexp".into(),
        shared_up: "blk.{}.ffn_up_shexp".into(),
        shared_gate_up: "".into(),
        shared_down: "blk.{}.ffn_down_shexp".into(),
        shared_router: "blk.{}.ffn_gate_inp_shexp".into(),
        layer_embeddings: "per_layer_token_embd".into(),
        layer_embedding_projection: "per_layer_model_proj".into(),
        layer_embedding_norm: "per_layer_proj_norm".into(),
        layer_input_gate: "blk.{}.inp_gate".into(),
        layer_input_projection: "blk.{}.proj".into(),
        layer_input_norm: "blk.{}.post_norm".into(),
        alt_up_in: "altup_proj".into(),
        alt_up_out: "altup_unembd_proj".into(),
        alt_up_norm: "blk.{}.altup_router_norm".into(),
        alt_up_router: "blk.{}.altup_router".into(),
        alt_up_prediction: "blk.{}.altup_predict_coef".into(),
        alt_up_correction: "blk.{}.altup_correct_coef".into(),
        alt_up_scale: "blk.{}.altup_correct_scale.weight".into(),
        laurel_left: "blk.{}.laurel_l".into(),
        laurel_right: "blk.{}.laurel_r".into(),
        laurel_norm: "blk.{}.laurel_post_norm".into(),
        layer_scalar: "blk.{}.layer_output_scale.weight".into(),
        dense_output_norm: "blk.{}.post_ffw_norm_1".into(),
        expert_norm: "blk.{}.pre_ffw_norm_2".into(),
        expert_output_norm: "blk.{}.post_ffw_norm_2".into(),
        router_norm: "blk.{}.ffn_gate_inp.scale".into(),
        expert_scales: "blk.{}.ffn_down_exps.scale".into(),
        final_norm: "output_norm".into(),
        output: "output".into(),
        score_dense: "cls".into(),
        score_norm: "cls.norm".into(),
        score_output: "cls.output".into(),
        transposed: false,
        negative_decays: true,
        bare_mlp_norm: false,
    }
}
