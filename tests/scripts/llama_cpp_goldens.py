#!/usr/bin/env python3
"""Makes goldens of sizes and options that llama.cpp supports, where those of goldens.py have others.

    llama_cpp_goldens.py OUT [NAME...]

llama_cpp.py and llama_cpp_convert.py take their folders as names.
"""

import pathlib
import sys

import safetensors.torch
import transformers as T

import goldens
from goldens import BASE, DECODERS, DELTA_NET, LATENT, NARROW, SPARSE

# Experts in every layer.
DECODERS["fit-qwen2-moe"] = T.Qwen2MoeConfig(**{**NARROW, **SPARSE})
# The heads of delta nets have keys and values of one size.
NET = {**DELTA_NET, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
DECODERS["fit-qwen3-next"] = T.Qwen3NextConfig(**{**NET, **SPARSE})
DECODERS["fit-qwen3-5"] = T.Qwen3_5TextConfig(**NET)
DECODERS["fit-qwen3-5-moe"] = T.Qwen3_5MoeTextConfig(**{**NET, **SPARSE})
# Windows only in models of 64 layers, and heads that together have the model's width.
DECODERS["fit-exaone4"] = T.Exaone4Config(
    **{**NARROW, "sliding_window": None, "layer_types": ["full_attention"] * 3}
)
# No biases of feed-forward networks.
DECODERS["fit-ernie4-5"] = T.Ernie4_5Config(**BASE)
# YaRN without fractions of dimensions, which gpt-oss has.
DECODERS["fit-gpt-oss"] = T.GptOssConfig(**{
    **goldens.GPT_OSS, "rope_parameters": {"rope_type": "default", "rope_theta": 150000.0},
})
# Chunks, layers without rotation and the growth of queries are those of the published models.
DECODERS["fit-llama4"] = T.Llama4TextConfig(
    **{**BASE, "num_hidden_layers": 5, "intermediate_size": 14, "intermediate_size_mlp": 26,
       "interleave_moe_layer_step": 2, "num_local_experts": 4, "no_rope_layer_interval": 4,
       "attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1}
)
# Queries have a low rank.
DECODERS["fit-deepseek-v2"] = T.DeepseekV2Config(**{**LATENT, "q_lora_rank": 13, "n_shared_experts": 2})
# No biases of projections and filters, and no factor on experts.
DECODERS["fit-lfm2"] = T.Lfm2Config(**{**goldens.LFM2, "block_auto_adjust_ff_dim": False})
DECODERS["fit-lfm2-moe"] = T.Lfm2MoeConfig(
    **{**goldens.LFM2, "conv_L_cache": 3, "num_dense_layers": 1, "num_experts": 5, "num_experts_per_tok": 2,
       "moe_intermediate_size": 14}
)
# The sizes of the published models where llama.cpp assumes them: the layers that share keys and values, those whose
# activations are sparse, the versions of the residual stream, and the ranks. A deviation is divided by one element less
# there, which a wide layer hides.
TYPES = (["sliding_attention"] * 4 + ["full_attention"]) * 5
DECODERS["fit-gemma3n"] = T.Gemma3nTextConfig(
    **{**NARROW, "num_hidden_layers": 25, "intermediate_size": 1024, "sliding_window": 5, "layer_types": TYPES,
       "num_kv_shared_layers": 5, "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 15,
       "vocab_size_per_layer_input": goldens.VOCAB, "hidden_size_per_layer_input": 256, "laurel_rank": 64}
)
# The last layers with keys of their own are one of each kind.
DECODERS["fit-gemma4"] = T.Gemma4TextConfig(
    **{**goldens.GEMMA4, "num_hidden_layers": 6, "layer_types": ["sliding_attention"] * 2 + [
        "sliding_attention", "full_attention", "sliding_attention", "full_attention"]},
    num_kv_shared_layers=2, use_double_wide_mlp=True, vocab_size_per_layer_input=goldens.VOCAB,
    hidden_size_per_layer_input=7,
)
# No rotation, as in all models with Mamba.
DECODERS["fit-granite-hybrid-moe"] = T.GraniteMoeHybridConfig(
    **{**goldens.MAMBA, "intermediate_size": 14}, num_local_experts=5, num_experts_per_tok=2
)
# Every fourth layer does not rotate.
DECODERS["fit-smollm3"] = T.SmolLM3Config(**{**NARROW, "num_hidden_layers": 5, "no_rope_layer_interval": 4})
# Experts in every layer.
VISION = goldens.MULTIMODAL["qwen3-vl-moe"].to_dict()
VISION["text_config"]["mlp_only_layers"] = []
goldens.MULTIMODAL["fit-qwen3-vl-moe"] = T.Qwen3VLMoeConfig(
    text_config=VISION["text_config"], vision_config=VISION["vision_config"]
)
# No biases, and no limit of steps that a step of the prompt passes.
KINDS = ["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"]
DECODERS["fit-nemotron-h"] = T.NemotronHConfig(**goldens.NEMOTRON, layers_block_type=KINDS)
DECODERS["fit-nemotron-h-moe"] = T.NemotronHConfig(
    **goldens.NEMOTRON, layers_block_type=["moe" if kind == "mlp" else kind for kind in KINDS],
    n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=14, moe_latent_size=22, n_group=3,
    moe_shared_expert_intermediate_size=26, routed_scaling_factor=1.5, topk_group=2,
)


def add_unused(tensors):
    """Adds keys and values of layers that read those of earlier ones, as the published checkpoints of Gemma 3n have."""
    for name in [name for name in tensors if name.endswith("q_proj.weight")]:
        for kind in ["k_proj", "v_proj", "k_norm"]:
            other = f"model.layers.0.self_attn.{kind}.weight"
            tensors.setdefault(name.replace("q_proj", kind), tensors[other].clone())


def transpose_experts(tensors):
    """Transposes the matrices of experts, as the published checkpoints of Qwen 3 VL have them."""
    for name in tensors:
        if ".experts." in name:
            tensors[name] = tensors[name].transpose(1, 2).contiguous()


# What changes checkpoints to those that are published.
CHANGES = {"fit-gemma3n": add_unused, "fit-qwen3-vl-moe": transpose_experts}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    all = [*DECODERS, *goldens.MULTIMODAL]
    for name in sys.argv[2:] or [name for name in all if name.startswith("fit-")]:
        goldens.make(name, out)
        if name in CHANGES:
            file = out / name / "model.safetensors"
            tensors = safetensors.torch.load_file(file)
            CHANGES[name](tensors)
            safetensors.torch.save_file(tensors, file, {"format": "pt"})


if __name__ == "__main__":
    main()
