#!/usr/bin/env python3
"""Makes the tiny random checkpoints under tests/fixtures/goldens with reference outputs.

Usage: goldens.py [--out DIR] [NAME...]
Needs torch (CPU) and transformers 5. Every NAME (by default all) gets a directory with
  config.json, model.safetensors   a checkpoint in Hugging Face's layout, float32
  golden.json                      transformers' results, with eager attention:
    tokens              the token ids of the prompt or text
    logits              a decoder's logits of every position, [tokens][vocab]
    greedy              the 12 token ids that greedy decoding appends
    last_hidden_state   an encoder's hidden states instead of logits, [tokens][hidden]
    query, document     the parts of a reranker's text, without special tokens
    types, scores       its segment types, and its score instead of logits
    embedding           the embedding of a model that embeds texts, beside last_hidden_state

The seed of a checkpoint depends on its name alone, so adding one does not change the others. Sizes
are no multiples of 4, 32 or 64 where the architecture allows it, so that a kernel that assumes
alignment fails.
"""

import argparse
import json
import pathlib
import zlib

import safetensors.torch
import torch
import transformers as T

VOCAB = 67
BASE = dict(
    vocab_size=VOCAB,
    hidden_size=28,
    intermediate_size=44,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=10,
    max_position_embeddings=512,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
# For classes whose heads always share the hidden size.
NARROW = {
    **BASE,
    "hidden_size": 30,
    "intermediate_size": 46,
    "num_attention_heads": 5,
    "num_key_value_heads": 1,
    "head_dim": 6,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 128,
}

# Checkpoints that are drawn anew: with 0, a token of a test is near a tie of two experts, and half
# precision sends it to the other one.
SEEDS = {
    "qwen2-moe": 4, "glm4-moe": 1, "gpt-oss": 1, "gpt-oss-mxfp4": 10, "deepseek-v3": 3, "lfm2-moe": 3, "qwen3-next": 9,
    "qwen3-5": 10, "qwen3-5-moe": 11, "granite-hybrid": 7, "granite-hybrid-moe": 11, "phimoe": 394,
}

# Decoders whose experts are in MXFP4.
PACKED = {"gpt-oss-mxfp4"}

# Name -> configuration of a decoder.
DECODERS = {}
# Name -> configuration of a model that reads images as well, whose decoder is tested.
MULTIMODAL = {}
# Name -> configuration of an encoder.
ENCODERS = {}
# Name -> configuration of an encoder with a head that scores pairs of texts.
RERANKERS = {}
# Name -> configuration of a decoder with a head that scores texts.
CLASSIFIERS = {}
# Name -> configuration of a model that embeds texts, its pooling, and the widths of its dense layers.
EMBEDDERS = {}


def randomize(model):
    """Draws weights large enough that every block changes the result."""
    # The bias that only selects experts is a buffer in some classes, and so are factors of layers.
    buffers = [pair for pair in model.named_buffers() if pair[0].endswith(("_bias", "layer_scalar"))]
    with torch.no_grad():
        for name, p in [*model.named_parameters(), *buffers]:
            if p.dim() >= 2:
                p.normal_(0, 1.2 / p.shape[-1] ** 0.5)
            elif "norm" in name or name.endswith(("scale", "layer_scalar")):
                p.add_(torch.randn_like(p) * 0.2)
            else:
                p.normal_(0, 0.1)


# The values of FP4 E2M1 (OCP Microscaling Formats v1.0, table 5).
FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
FP4 = torch.cat([FP4, -FP4])


def pack_experts(model):
    """Draws the experts of gpt-oss as its checkpoints store them, in MXFP4. Returns the tensors."""
    packed = {}
    for name, p in model.named_parameters():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        experts, cols, rows_ = p.shape
        blocks = torch.randint(0, 256, (experts, rows_, cols // 32, 16), dtype=torch.uint8)
        scales = torch.randint(122, 125, (experts, rows_, cols // 32), dtype=torch.uint8)
        pairs = torch.stack([FP4[(blocks & 15).long()], FP4[(blocks >> 4).long()]], -1)
        values = pairs.flatten(-2) * torch.exp2(scales.float() - 127)[..., None]
        with torch.no_grad():
            p.copy_(values.flatten(-2).transpose(1, 2))
        packed |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    return packed


def save_packed(directory, packed):
    """Replaces the experts of a saved checkpoint."""
    file = directory / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    for name in packed:
        tensors.pop(name.removesuffix("_blocks").removesuffix("_scales"), None)
    safetensors.torch.save_file({**tensors, **packed}, file, {"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def rows(tensor):
    return [[round(float(value), 6) for value in row] for row in tensor[0].float()]


def decoder_golden(model, length):
    """Redraws the prompt until the greedy path passes no near tie."""
    gap = 0.0
    while gap < 0.01:
        tokens = torch.randint(3, VOCAB, (1, length))
        logits, current, gap = model(tokens).logits, tokens, 9.0
        for _ in range(12):
            top = model(current, use_cache=False).logits[0, -1].topk(2)
            gap = min(gap, float(top.values[0] - top.values[1]))
            current = torch.cat([current, top.indices[:1].view(1, 1)], 1)
    greedy = current[0, length:].tolist()
    return {"tokens": tokens[0].tolist(), "logits": rows(logits), "greedy": greedy}


def encoder_golden(model, length):
    tokens = torch.randint(3, VOCAB, (1, length))
    return {"tokens": tokens[0].tolist(), "last_hidden_state": rows(model(tokens).last_hidden_state)}


def reranker_golden(model, length):
    """Joins a query and a document as the tokenizers of the model's family do: token 1 begins the text
    and token 2 ends each part."""
    family = model.config.model_type
    query, document = torch.randint(3, VOCAB, (length,)).split([7, length - 7])
    between = [2, 2] if family == "xlm-roberta" else [2]
    first = [1, *query.tolist(), *between]
    second = [*document.tolist(), 2]
    tokens = torch.tensor([first + second])
    types = torch.tensor([[0] * len(first) + [int(family == "bert")] * len(second)])
    typed = {} if family == "modernbert" else {"token_type_ids": types}
    scores = model(tokens, **typed).logits
    return {
        "query": query.tolist(),
        "document": document.tolist(),
        "tokens": tokens[0].tolist(),
        "types": types[0].tolist(),
        "scores": scores[0].tolist(),
    }


def classifier_golden(model, length):
    tokens = torch.randint(3, VOCAB, (1, length))
    return {"tokens": tokens[0].tolist(), "scores": model(tokens).logits[0].tolist()}


def make_embedder(name, out):
    """Makes a checkpoint in the layout of sentence-transformers."""
    torch.manual_seed(zlib.crc32(name.encode()))
    config, pooling, widths = EMBEDDERS[name]
    model = T.AutoModel.from_config(config, attn_implementation="eager").eval().float()
    randomize(model)
    directory = out / name
    directory.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(directory, safe_serialization=True)

    def write(path, value):
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_text(json.dumps(value, indent=2) + "\n")

    modules = ["Transformer", "Pooling", *["Dense"] * len(widths), "Normalize"]
    write("modules.json", [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "",
         "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(modules)
    ])
    write("1_Pooling/config.json", {f"pooling_mode_{pooling}": True})
    tokens = torch.randint(3, VOCAB, (1, 23))
    with torch.no_grad():
        hidden = model(tokens).last_hidden_state
        embedding = hidden[0, -1] if pooling == "lasttoken" else hidden[0].mean(0)
        for i, width in enumerate(widths):
            linear = torch.nn.Linear(embedding.shape[0], width, bias=False)
            embedding = linear(embedding)
            write(f"{i + 2}_Dense/config.json", {
                "in_features": linear.in_features, "out_features": width, "bias": False,
                "activation_function": "torch.nn.modules.linear.Identity",
            })
            file = directory / f"{i + 2}_Dense/model.safetensors"
            safetensors.torch.save_file({"linear.weight": linear.weight.detach()}, file)
    saved = json.loads((directory / "config.json").read_text())
    if saved["architectures"] == ["Qwen3Model"]:
        # As the published checkpoints say, whose tensors have no prefix nevertheless.
        saved["architectures"] = ["Qwen3ForCausalLM"]
        write("config.json", saved)
    write("golden.json", {
        "tokens": tokens[0].tolist(), "last_hidden_state": rows(hidden),
        "embedding": torch.nn.functional.normalize(embedding, dim=0).tolist(),
    })


def make(name, out):
    if name in EMBEDDERS:
        return make_embedder(name, out)
    torch.manual_seed(zlib.crc32(name.encode()) + SEEDS.get(name, 0))
    kind, configs, golden_of = next(
        row for row in (
            (T.AutoModelForCausalLM, DECODERS, decoder_golden),
            (T.AutoModelForImageTextToText, MULTIMODAL, decoder_golden),
            (T.AutoModel, ENCODERS, encoder_golden),
            (T.AutoModelForSequenceClassification, RERANKERS, reranker_golden),
            (T.AutoModelForSequenceClassification, CLASSIFIERS, classifier_golden),
        ) if name in row[1]
    )
    eager = dict(attn_implementation="eager", experts_implementation="eager")
    model = kind.from_config(configs[name], **eager).eval().float()
    randomize(model)
    packed = pack_experts(model) if name in PACKED else {}
    with torch.no_grad():
        golden = golden_of(model, 23)
    directory = out / name
    directory.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(directory, safe_serialization=True)
    if packed:
        save_packed(directory, packed)
    (directory / "generation_config.json").unlink(missing_ok=True)
    (directory / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    size = sum(file.stat().st_size for file in directory.iterdir())
    print(f"{name}: {size} bytes")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=pathlib.Path, default=here.parent / "fixtures/goldens")
    args = parser.parse_args()
    for name in args.names or [*DECODERS, *MULTIMODAL, *ENCODERS, *RERANKERS, *CLASSIFIERS, *EMBEDDERS]:
        make(name, args.out)


DECODERS["olmo3"] = T.Olmo3Config(
    **{**NARROW, "num_hidden_layers": 4, "sliding_window": 5, "rope_parameters": {
        "full_attention": YARN,
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    }}
)
DECODERS["exaone4"] = T.Exaone4Config(
    **{**BASE, "num_hidden_layers": 4, "intermediate_size": 36, "sliding_window": 5,
       "sliding_window_pattern": 3}
)
DECODERS["glm4"] = T.Glm4Config(
    **{**BASE, "head_dim": 12, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
    }}
)
DECODERS["ministral3"] = T.Ministral3Config(
    # A short trained context, so that the prompt passes it and queries are scaled.
    **{**BASE, "rope_parameters": {
        **YARN, "original_max_position_embeddings": 8, "factor": 16.0, "mscale": 1.0,
        "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4,
    }}
)
DECODERS["cohere2"] = T.Cohere2Config(
    **{**NARROW, "num_hidden_layers": 4, "sliding_window": 5, "logit_scale": 0.25}
)
DECODERS["ernie4-5"] = T.Ernie4_5Config(**BASE, use_bias=True)
DECODERS["hunyuan-dense"] = T.HunYuanDenseV1Config(
    **{**BASE, "rope_parameters": {
        "rope_type": "dynamic", "rope_theta": 10000.0, "factor": 1.0, "alpha": 1000.0,
    }}
)
DECODERS["qwen2-moe"] = T.Qwen2MoeConfig(
    **{**NARROW, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 14,
       "shared_expert_intermediate_size": 26, "mlp_only_layers": [1]}
)
DECODERS["phi4-mini"] = T.Phi3Config(
    # A short trained context, so that the prompt passes it and the long factors apply.
    **{**NARROW, "hidden_size": 40, "head_dim": 8, "tie_word_embeddings": True,
       "max_position_embeddings": 256, "original_max_position_embeddings": 16, "rope_parameters": {
           "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
           "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.2, 2.0, 3.5],
           "original_max_position_embeddings": 16,
       }}
)
DECODERS["ernie4-5-moe"] = T.Ernie4_5_MoeConfig(
    **{**NARROW, "moe_num_experts": 5, "moe_k": 2, "moe_intermediate_size": 14,
       "moe_num_shared_experts": 2}
)
DECODERS["glm4-moe"] = T.Glm4MoeConfig(
    **{**BASE, "head_dim": 12, "num_attention_heads": 4, "n_routed_experts": 5, "num_experts_per_tok": 2,
       "moe_intermediate_size": 14, "n_shared_experts": 1, "routed_scaling_factor": 1.5,
       "attention_bias": True, "use_qk_norm": True}
)
# The prompt is longer than the convolution's window, which is no multiple of anything.
LFM2 = {**NARROW, "num_hidden_layers": 4, "conv_L_cache": 4,
        "layer_types": ["conv", "full_attention", "conv", "conv"]}
DECODERS["lfm2"] = T.Lfm2Config(
    **{**LFM2, "block_multiple_of": 7, "block_ffn_dim_multiplier": 1.1, "conv_bias": True}
)
DECODERS["lfm2-moe"] = T.Lfm2MoeConfig(
    **{**LFM2, "conv_L_cache": 3, "num_dense_layers": 1, "num_experts": 5, "num_experts_per_tok": 2,
       "moe_intermediate_size": 14, "routed_scaling_factor": 1.5}
)
GPT_OSS = {
    **BASE, "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 5, "rope_parameters": {
        **YARN, "rope_theta": 150000.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    },
}
DECODERS["gpt-oss"] = T.GptOssConfig(**GPT_OSS)
DECODERS["gpt-oss-mxfp4"] = T.GptOssConfig(**{**GPT_OSS, "hidden_size": 32, "intermediate_size": 64})
# Two heads of values share a head of keys.
DELTA_NET = {
    **NARROW, "num_hidden_layers": 4, "linear_conv_kernel_dim": 3, "linear_key_head_dim": 7,
    "linear_value_head_dim": 9, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
    "head_dim": 12, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
    },
}
SPARSE = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 14,
          "shared_expert_intermediate_size": 26}
DECODERS["qwen3-next"] = T.Qwen3NextConfig(**{**DELTA_NET, **SPARSE, "mlp_only_layers": [1]})
DECODERS["qwen3-5"] = T.Qwen3_5TextConfig(**DELTA_NET)
DECODERS["qwen3-5-moe"] = T.Qwen3_5MoeTextConfig(**{**DELTA_NET, **SPARSE})
MAMBA = {
    **NARROW, "num_hidden_layers": 4, "layer_types": ["mamba", "attention", "mamba", "mamba"],
    "embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.6,
    "attention_multiplier": 0.3, "shared_intermediate_size": 26, "mamba_n_heads": 6,
    "mamba_n_groups": 2, "mamba_d_state": 7, "mamba_d_head": 10, "mamba_d_conv": 3, "mamba_expand": 2,
}
DECODERS["granite-hybrid"] = T.GraniteMoeHybridConfig(**MAMBA, num_local_experts=0)
DECODERS["granite-hybrid-moe"] = T.GraniteMoeHybridConfig(
    **{**MAMBA, "intermediate_size": 14}, num_local_experts=5, num_experts_per_tok=2,
    position_embedding_type="rope",
)
MAMBA_SIZES = {"mamba_n_heads": 3, "mamba_d_head": 10, "mamba_n_groups": 1, "mamba_d_state": 7, "mamba_d_conv": 3}
DECODERS["falcon-h1"] = T.FalconH1Config(
    **{**NARROW, **MAMBA_SIZES, "num_hidden_layers": 2, "mamba_d_ssm": 30, "embedding_multiplier": 3.0,
       "lm_head_multiplier": 0.6, "key_multiplier": 0.7, "attention_in_multiplier": 1.3,
       "attention_out_multiplier": 0.8, "ssm_in_multiplier": 0.9, "ssm_out_multiplier": 1.2,
       "mlp_multipliers": [0.8, 1.4], "ssm_multipliers": [0.7, 1.3, 0.8, 1.2, 0.9]}
)
# The options that published models do not use: biases, groups, and a norm of Mamba's result.
DECODERS["falcon-h1-biases"] = T.FalconH1Config(
    **{**NARROW, **MAMBA_SIZES, "num_hidden_layers": 2, "mamba_n_heads": 4, "mamba_n_groups": 2,
       "mamba_d_ssm": 40, "attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True,
       "projectors_bias": True, "mamba_rms_norm": True, "mamba_norm_before_gate": True,
       "attention_in_multiplier": 1.3, "ssm_in_multiplier": 0.9, "time_step_limit": [0.7, 0.9]}
)
NEMOTRON = {
    **{key: value for key, value in NARROW.items() if key != "num_hidden_layers"},
    "mamba_num_heads": 6, "mamba_head_dim": 10, "n_groups": 2, "ssm_state_size": 7, "conv_kernel": 3,
}
DECODERS["nemotron-h"] = T.NemotronHConfig(
    **NEMOTRON, layers_block_type=["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"],
    use_bias=True, mlp_bias=True,
)
DECODERS["nemotron-h-moe"] = T.NemotronHConfig(
    **{**NEMOTRON, "mamba_num_heads": 4}, layers_block_type=["linear_attention", "moe", "full_attention", "moe"],
    n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=14, moe_latent_size=22, n_group=3,
    moe_shared_expert_intermediate_size=26, routed_scaling_factor=1.5, topk_group=2, time_step_min=0.7,
    # On CPUs, transformers takes the one above as the limit; this one is what GPUs take.
    time_step_limit=(0.7, float("inf")),
)
DECODERS["phimoe"] = T.PhimoeConfig(
    # A short trained context, which the prompt passes. Transformers takes the long context's factor on cosine and sine
    # then, but always the short one's divisors.
    **{**NARROW, "num_local_experts": 5, "intermediate_size": 14, "num_hidden_layers": 2,
       "attention_bias": True, "lm_head_bias": True, "router_jitter_noise": 0.1, "max_position_embeddings": 256,
       "rope_parameters": {
           "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3],
           "long_factor": [1.0, 1.1, 1.3], "original_max_position_embeddings": 16, "short_mscale": 1.1,
           "long_mscale": 1.2,
       }}
)
# Chunks and a scale of positions that the prompt passes.
DECODERS["llama4"] = T.Llama4TextConfig(
    **{**BASE, "intermediate_size": 14, "intermediate_size_mlp": 26, "interleave_moe_layer_step": 2,
       "num_local_experts": 4, "no_rope_layer_interval": 3, "attention_chunk_size": 5, "floor_scale": 4,
       "attn_scale": 0.3}
)
DECODERS["gemma3n"] = T.Gemma3nTextConfig(
    **{**NARROW, "num_hidden_layers": 5, "intermediate_size": [46, 34, 46, 34, 34], "sliding_window": 5,
       "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
                       "full_attention"],
       "num_kv_shared_layers": 2, "activation_sparsity_pattern": [0.7, 0.0, 0.5, 0.0, 0.0],
       "vocab_size_per_layer_input": 60, "hidden_size_per_layer_input": 7, "laurel_rank": 5,
       "altup_num_inputs": 3, "altup_active_idx": 1}
)
# Wider heads in layers without a window. Made with transformers 5.24.
GEMMA4 = {
    **NARROW, "num_hidden_layers": 5, "sliding_window": 5, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 6,
    "global_head_dim": 14, "layer_types": [
        "sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention",
    ],
    "final_logit_softcapping": 5.0,
}
DECODERS["gemma4"] = T.Gemma4TextConfig(
    **GEMMA4, num_kv_shared_layers=2, use_double_wide_mlp=True, vocab_size_per_layer_input=VOCAB,
    hidden_size_per_layer_input=7,
)
# Experts, and heads beyond 256 elements.
DECODERS["gemma4-moe"] = T.Gemma4TextConfig(
    **{**GEMMA4, "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "global_head_dim": 258,
       "hidden_size": 26, "num_attention_heads": 2}, num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0,
    enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=14,
)
LATENT = {
    **BASE, "num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 18, "qk_rope_head_dim": 6,
    "qk_nope_head_dim": 10, "v_head_dim": 9, "n_routed_experts": 6, "num_experts_per_tok": 2,
    "moe_intermediate_size": 14, "first_k_dense_replace": 1,
}
LATENT.pop("head_dim")
DECODERS["deepseek-v2"] = T.DeepseekV2Config(
    **{**LATENT, "q_lora_rank": None, "n_shared_experts": 2, "topk_method": "group_limited_greedy",
       "n_group": 3, "topk_group": 2}
)
DECODERS["deepseek-v3"] = T.DeepseekV3Config(
    **{**LATENT, "q_lora_rank": 13, "n_shared_experts": 1, "n_group": 2, "topk_group": 1,
       "routed_scaling_factor": 1.5, "num_nextn_predict_layers": 0,
       "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}
)
# Texts, for which sections of rotations are alike.
SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 1]}
MULTIMODAL["qwen2-5-vl"] = T.Qwen2_5_VLConfig(
    text_config={**NARROW, "rope_parameters": SECTIONS},
    vision_config={"depth": 1, "hidden_size": 8, "intermediate_size": 6, "num_heads": 2, "out_hidden_size": 30,
                   "patch_size": 2, "fullatt_block_indexes": [0]},
)
MULTIMODAL["qwen3-vl-moe"] = T.Qwen3VLMoeConfig(
    text_config={**NARROW, "rope_parameters": {**SECTIONS, "mrope_interleaved": True}, "num_hidden_layers": 2,
                 "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 14, "mlp_only_layers": [1]},
    vision_config={"depth": 1, "hidden_size": 8, "intermediate_size": 6, "num_heads": 2, "out_hidden_size": 30,
                   "patch_size": 2, "num_position_embeddings": 4, "deepstack_visual_indexes": []},
)
ENCODERS["jina-embeddings-v3"] = T.JinaEmbeddingsV3Config(
    **{key: NARROW[key] for key in (
        "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "max_position_embeddings", "pad_token_id",
    )}
)
ENCODERS["nomic-bert"] = T.NomicBertConfig(
    **{key: NARROW[key] for key in (
        "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "max_position_embeddings", "pad_token_id",
    )}
)

ENCODER = {key: NARROW[key] for key in (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "pad_token_id",
)}
RERANKERS["bert-reranker"] = T.BertConfig(**ENCODER, max_position_embeddings=64, num_labels=1)
RERANKERS["xlm-roberta-reranker"] = T.XLMRobertaConfig(
    **ENCODER, max_position_embeddings=66, type_vocab_size=1, num_labels=1
)
RERANKERS["modernbert-reranker"] = T.ModernBertConfig(
    **ENCODER, max_position_embeddings=64, local_attention=8, num_labels=1,
    bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, classifier_pooling="cls",
)

CLASSIFIERS["qwen3-classifier"] = T.Qwen3Config(**BASE, num_labels=3)
EMBEDDERS["qwen3-embedding"] = (T.Qwen3Config(**BASE, tie_word_embeddings=True), "lasttoken", [])
EMBEDDERS["embedding-gemma"] = (
    T.Gemma3TextConfig(
        **{**NARROW, "num_hidden_layers": 6, "sliding_window": 8, "query_pre_attn_scalar": 6,
           "use_bidirectional_attention": True}
    ),
    "mean_tokens", [44, 26],
)

if __name__ == "__main__":
    main()
