//! What checkpoints call a decoder's tensors.

/// What a checkpoint calls the decoder's tensors, without `.weight` and `.bias`. The first `{}`
/// stands for the layer, a second one for the expert. Names that a model has no use for are not
/// looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TensorNames {
    /// What all names but the output's begin with: the first with which the embedding is there.
    pub roots: &'static [&'static str],
    pub embedding: &'static str,
    pub positions: &'static str,
    pub token_types: &'static str,
    pub embedding_norm: &'static str,
    pub attention_norm: &'static str,
    pub q: &'static str,
    pub k: &'static str,
    pub v: &'static str,
    /// Queries, keys and values in one, where `q` is not there.
    pub qkv: &'static str,
    pub qkv_layout: QkvLayout,
    pub q_norm: &'static str,
    pub k_norm: &'static str,
    pub o: &'static str,
    pub attention_post_norm: &'static str,
    pub attention_sum_norm: &'static str,
    pub mlp_norm: &'static str,
    pub gate: &'static str,
    pub up: &'static str,
    /// Gate and up in one, gate first, where `gate` is not there.
    pub gate_up: &'static str,
    pub down: &'static str,
    pub mlp_post_norm: &'static str,
    pub mlp_sum_norm: &'static str,
    pub router: &'static str,
    pub expert_gate: &'static str,
    pub expert_up: &'static str,
    pub expert_down: &'static str,
    pub final_norm: &'static str,
    /// Absent when the output layer is the embedding.
    pub output: &'static str,
    /// The blocks' weights are stored `[in, out]`.
    pub transposed: bool,
}

/// The order of rows in a fused projection of queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkvLayout {
    /// All queries, all keys, all values.
    Stacked,
    /// Each head's query, key and value; there are as many KV heads as heads.
    PerHead,
}

/// Hugging Face's names: Llama's, which most architectures share.
pub const HUGGING_FACE: TensorNames = TensorNames {
    roots: &["model."],
    embedding: "embed_tokens",
    positions: "",
    token_types: "",
    embedding_norm: "",
    attention_norm: "layers.{}.input_layernorm",
    q: "layers.{}.self_attn.q_proj",
    k: "layers.{}.self_attn.k_proj",
    v: "layers.{}.self_attn.v_proj",
    qkv: "layers.{}.self_attn.qkv_proj",
    qkv_layout: QkvLayout::Stacked,
    q_norm: "layers.{}.self_attn.q_norm",
    k_norm: "layers.{}.self_attn.k_norm",
    o: "layers.{}.self_attn.o_proj",
    attention_post_norm: "layers.{}.post_attention_layernorm",
    attention_sum_norm: "",
    mlp_norm: "layers.{}.post_attention_layernorm",
    gate: "layers.{}.mlp.gate_proj",
    up: "layers.{}.mlp.up_proj",
    gate_up: "layers.{}.mlp.gate_up_proj",
    down: "layers.{}.mlp.down_proj",
    mlp_post_norm: "layers.{}.post_feedforward_layernorm",
    mlp_sum_norm: "",
    router: "layers.{}.mlp.gate",
    expert_gate: "layers.{}.mlp.experts.{}.gate_proj",
    expert_up: "layers.{}.mlp.experts.{}.up_proj",
    expert_down: "layers.{}.mlp.experts.{}.down_proj",
    final_norm: "norm",
    output: "lm_head",
    transposed: false,
};

/// Hugging Face's names where norms stand before and after (Gemma 2 and 3).
pub const HUGGING_FACE_BOTH_NORMS: TensorNames = TensorNames {
    mlp_norm: "layers.{}.pre_feedforward_layernorm",
    ..HUGGING_FACE
};

/// GGUF's names, which all architectures share.
pub const GGUF: TensorNames = TensorNames {
    roots: &[""],
    embedding: "token_embd",
    positions: "position_embd",
    token_types: "token_types",
    embedding_norm: "token_embd_norm",
    attention_norm: "blk.{}.attn_norm",
    q: "blk.{}.attn_q",
    k: "blk.{}.attn_k",
    v: "blk.{}.attn_v",
    qkv: "blk.{}.attn_qkv",
    qkv_layout: QkvLayout::Stacked,
    q_norm: "blk.{}.attn_q_norm",
    k_norm: "blk.{}.attn_k_norm",
    o: "blk.{}.attn_output",
    attention_post_norm: "blk.{}.post_attention_norm",
    attention_sum_norm: "blk.{}.attn_output_norm",
    mlp_norm: "blk.{}.ffn_norm",
    gate: "blk.{}.ffn_gate",
    up: "blk.{}.ffn_up",
    gate_up: "blk.{}.ffn_up",
    down: "blk.{}.ffn_down",
    mlp_post_norm: "blk.{}.post_ffw_norm",
    mlp_sum_norm: "blk.{}.layer_output_norm",
    router: "blk.{}.ffn_gate_inp",
    expert_gate: "blk.{}.ffn_gate_exps",
    expert_up: "blk.{}.ffn_up_exps",
    expert_down: "blk.{}.ffn_down_exps",
    final_norm: "output_norm",
    output: "output",
    transposed: false,
};
