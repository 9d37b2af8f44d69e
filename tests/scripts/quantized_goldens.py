#!/usr/bin/env python3
"""Makes the tiny checkpoints with quantised weights under tests/fixtures/goldens.

Usage: quantized_goldens.py [--out DIR] [NAME...]
Needs torch (CPU) and transformers 5, like goldens.py, whose files each NAME gets. The weights of all linear
layers of the blocks are quantised and stored as the method's own package stores them; transformers computes
the golden with the weights that the package's formula gives for them, in float32:
  fp8     transformers' FP8Linear and compressed-tensors: scale * q
  gptq    AutoGPTQ's QuantLinear: scales[g_idx] * (q - (zeros + 1) % 2^bits)
  awq     AutoAWQ's dequantize_gemm: scales * (q - zeros)
  packed  compressed-tensors' dequantize: scale * (q - zero_point)
  nvfp4   compressed-tensors' dequantize: q * (scale / global_scale), and ModelOpt's: q * (scale * scale_2)
  nf4     bitsandbytes' dequantize_4bit: map[q] * (nested_map[absmax] * nested_absmax + nested_offset)
"""

import argparse
import json
import pathlib
import zlib

import safetensors.torch
import torch
import transformers as T

import goldens as G

SIZES = {**G.BASE, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
# Rows that are no multiple of a word's 8 integers.
UNEVEN = {**SIZES, "num_attention_heads": 16, "head_dim": 10, "intermediate_size": 160}
# Rows of whole blocks of 64.
BLOCKS = {**SIZES, "intermediate_size": 128}
# Weights of experts that sum to one, as in all checkpoints of the architecture, which GGUF implies.
EXPERTS = {
    **BLOCKS, "moe_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True,
}
# Several blocks of 128 each way, the last ones partial.
WIDE = {**SIZES, "hidden_size": 160, "intermediate_size": 288, "num_hidden_layers": 1}
LATENT = {
    **G.LATENT, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "kv_lora_rank": 32,
    "q_lora_rank": 32, "v_head_dim": 8, "moe_intermediate_size": 32, "n_shared_experts": 1, "n_group": 2,
    "topk_group": 1, "num_nextn_predict_layers": 0,
}
NF4 = torch.tensor([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
])
# The values of E2M1 without sign.
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
# The nibble of a word that holds each of AWQ's 8 integers.
AWQ_NIBBLES = [0, 4, 1, 5, 2, 6, 3, 7]


def pack(values, bits, dim, nibbles=None):
    """Packs integers along a dimension into words of 32 bits, the first in the lowest bits."""
    per_word = 32 // bits
    values = values.movedim(dim, -1).long()
    values = torch.nn.functional.pad(values, (0, -values.shape[-1] % per_word))
    values = values.unflatten(-1, (-1, per_word))
    shifts = bits * torch.tensor(nibbles or range(per_word))
    words = (values << shifts).sum(-1)
    words = torch.where(words >= 2**31, words - 2**32, words)
    return words.to(torch.int32).movedim(-1, dim).contiguous()


def integers(weight, bits, group, dtype, symmetric=False, order=None):
    """Rounds a matrix [rows, cols] to integers with a scale and zero point for each group of columns. Returns
    the integers, scales and zero points [rows, groups], and the weights that they stand for."""
    rows, cols = weight.shape
    order = torch.arange(cols) if order is None else order
    groups = weight[:, order].view(rows, -1, group)
    most = 2**bits - 1
    if symmetric:
        scale = (groups.abs().amax(-1) / (most // 2)).to(dtype).float()
        zero = torch.full_like(scale, 2 ** (bits - 1))
    else:
        low, high = groups.amin(-1), groups.amax(-1)
        scale = ((high - low) / most).to(dtype).float()
        zero = (-low / scale).round().clamp(1, most)
    q = (groups / scale[..., None] + zero[..., None]).round().clamp(0, most)
    values = (scale[..., None] * (q - zero[..., None])).view(rows, cols)
    back = torch.empty_like(order)
    back[order] = torch.arange(cols)
    return q.view(rows, cols)[:, back].int(), scale.to(dtype), zero.int(), values[:, back]


def fp8(weight, block, dtype, name):
    """8-bit floats with a scale for each block, row or matrix."""
    rows, cols = weight.shape
    height, width = block or (rows, cols)
    padded = torch.nn.functional.pad(weight, (0, -cols % width, 0, -rows % height))
    blocks = padded.unflatten(0, (-1, height)).unflatten(2, (-1, width))
    scale = (blocks.abs().amax((1, 3)) / 448).to(dtype)
    whole = scale.float().repeat_interleave(height, 0).repeat_interleave(width, 1)[:rows, :cols]
    q = (weight / whole).clamp(-448, 448).to(torch.float8_e4m3fn)
    return {"weight": q, name: scale if block else scale.view(())}, q.float() * whole


def quantize_fp8(block=None, dtype=torch.float32, name="weight_scale_inv"):
    def quantize(weight, _):
        size = (1, weight.shape[1]) if block == "row" else block
        return fp8(weight, size, dtype, name)
    return quantize


def quantize_gptq(bits, act_order=False, group=32):
    def quantize(weight, seed):
        cols = weight.shape[1]
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(cols, generator=generator) if act_order else torch.arange(cols)
        q, scale, zero, values = integers(weight, bits, group, torch.float16, order=order)
        g_idx = torch.empty(cols, dtype=torch.int32)
        g_idx[order] = (torch.arange(cols) // group).int()
        return {
            "qweight": pack(q.T, bits, 0),
            "qzeros": pack(zero.T - 1, bits, 1),
            "scales": scale.T.contiguous(),
            "g_idx": g_idx,
        }, values
    return quantize


def quantize_awq(weight, _):
    q, scale, zero, values = integers(weight, 4, 32, torch.float16)
    return {
        "qweight": pack(q.T, 4, 1, AWQ_NIBBLES),
        "qzeros": pack(zero.T, 4, 1, AWQ_NIBBLES),
        "scales": scale.T.contiguous(),
    }, values


def quantize_packed(bits, act_order=False, symmetric=False):
    def quantize(weight, seed):
        cols = weight.shape[1]
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(cols, generator=generator) if act_order else torch.arange(cols)
        found = integers(weight, bits, 32, torch.bfloat16, symmetric, order)
        q, scale, zero, values = found
        parts = {
            "weight_packed": pack(q, bits, 1),
            "weight_scale": scale,
            "weight_shape": torch.tensor(weight.shape),
        }
        if not symmetric:
            parts["weight_zero_point"] = pack(zero, bits, 0)
        if act_order:
            parts["weight_g_idx"] = torch.empty(cols, dtype=torch.int32)
            parts["weight_g_idx"][order] = (torch.arange(cols) // 32).int()
        return parts, values
    return quantize


def quantize_int8(weight, _):
    q, scale, zero, values = integers(weight, 8, weight.shape[1], torch.bfloat16, symmetric=True)
    return {"weight": (q - zero).to(torch.int8), "weight_scale": scale}, values


def quantize_nvfp4(modelopt):
    def quantize(weight, _):
        rows, cols = weight.shape
        groups = weight.view(rows, -1, 16)
        of_tensor = weight.abs().max() / (6 * 448)
        scale = (groups.abs().amax(-1) / (6 * of_tensor)).clamp(2**-9, 448).to(torch.float8_e4m3fn)
        global_scale = 1 / of_tensor
        whole = scale.float() * of_tensor if modelopt else scale.float() / global_scale
        scaled = groups / whole[..., None]
        codes = (scaled.abs()[..., None] - E2M1).abs().argmin(-1)
        values = (E2M1[codes] * scaled.sign() * whole[..., None]).view(rows, cols)
        codes = (codes + 8 * (scaled < 0)).view(rows, cols).to(torch.uint8)
        packed = codes[:, ::2] | codes[:, 1::2] << 4
        if modelopt:
            parts = {"weight": packed, "weight_scale_2": of_tensor, "input_scale": torch.tensor(0.5)}
        else:
            parts = {
                "weight_packed": packed, "weight_global_scale": global_scale[None],
                "input_global_scale": torch.tensor([2.0]),
            }
        return {**parts, "weight_scale": scale}, values
    return quantize


def quantize_nf4(nested):
    def quantize(weight, _):
        rows, cols = weight.shape
        blocks = weight.reshape(-1, 64)
        absmax = blocks.abs().amax(1)
        state = {"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [rows, cols]}
        parts = {"weight.quant_map": NF4.clone()}
        if nested:
            offset = absmax.mean()
            code_map = torch.linspace(-1, 1, 256) ** 3
            outer = torch.nn.functional.pad(absmax - offset, (0, -len(absmax) % 256)).view(-1, 256)
            outer_absmax = outer.abs().amax(1)
            scaled = (outer / outer_absmax[:, None]).flatten()[: len(absmax)]
            codes = (scaled[:, None] - code_map).abs().argmin(1).to(torch.uint8)
            of_block = outer_absmax.repeat_interleave(256)[: len(absmax)]
            absmax = code_map[codes.long()] * of_block + offset
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset.item()}
            parts |= {
                "weight.absmax": codes, "weight.nested_quant_map": code_map,
                "weight.nested_absmax": outer_absmax,
            }
        else:
            parts["weight.absmax"] = absmax
        codes = (blocks[..., None] / absmax[:, None, None] - NF4).abs().argmin(-1)
        values = (NF4[codes] * absmax[:, None]).view(rows, cols)
        codes = codes.flatten()
        parts["weight"] = (codes[::2] << 4 | codes[1::2]).to(torch.uint8)[:, None]
        state = json.dumps(state).encode()
        parts["weight.quant_state.bitsandbytes__nf4"] = torch.tensor(list(state), dtype=torch.uint8)
        return parts, values
    return quantize


def compressed(format, num_bits, kind="int", **weights):
    weights = {"num_bits": num_bits, "type": kind, "symmetric": True, **weights}
    return {
        "quant_method": "compressed-tensors", "format": format, "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }


FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False, "desc_act": False}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
# In a file of its own.
MODELOPT = {
    "producer": {"name": "modelopt", "version": "0.47.0"},
    "quantization": {
        "quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16, "exclude_modules": ["lm_head"],
    },
}
# Name -> the model's configuration, that of its quantisation, and the function that quantises a matrix.
CHECKPOINTS = {
    "fp8-block": (
        T.Qwen3Config(**WIDE), {**FP8, "weight_block_size": [128, 128]},
        quantize_fp8((128, 128), torch.bfloat16),
    ),
    "fp8-tensor": (T.LlamaConfig(**SIZES), FP8, quantize_fp8()),
    "fp8-deepseek-v3": (
        T.DeepseekV3Config(**LATENT), {**FP8, "weight_block_size": [128, 128]}, quantize_fp8((128, 128)),
    ),
    "fp8-compressed": (
        T.Qwen3Config(**SIZES), compressed("float-quantized", 8, "float", strategy="channel"),
        quantize_fp8("row", torch.bfloat16, "weight_scale"),
    ),
    "gptq": (T.Qwen2Config(**SIZES), GPTQ, quantize_gptq(4)),
    "gptq-act-order": (T.LlamaConfig(**SIZES), {**GPTQ, "desc_act": True}, quantize_gptq(4, True)),
    "gptq-8bit": (
        T.LlamaConfig(**SIZES), {**GPTQ, "bits": 8, "desc_act": True}, quantize_gptq(8, True),
    ),
    "awq": (
        T.Qwen2Config(**SIZES),
        {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True},
        quantize_awq,
    ),
    "w4a16": (
        T.Qwen3Config(**UNEVEN),
        compressed("pack-quantized", 4, symmetric=False, strategy="group", group_size=32),
        quantize_packed(4),
    ),
    "w4a16-act-order": (
        T.LlamaConfig(**SIZES),
        compressed("pack-quantized", 4, strategy="group", group_size=32, actorder="group"),
        quantize_packed(4, True, True),
    ),
    "w8a16": (
        T.LlamaConfig(**UNEVEN), compressed("int-quantized", 8, strategy="channel"), quantize_int8,
    ),
    "nvfp4": (
        T.Qwen3Config(**BLOCKS),
        compressed("nvfp4-pack-quantized", 4, "float", strategy="tensor_group", group_size=16),
        quantize_nvfp4(False),
    ),
    "nvfp4-modelopt": (T.Qwen3MoeConfig(**EXPERTS), MODELOPT, quantize_nvfp4(True)),
    "nf4": (T.LlamaConfig(**SIZES), BNB, quantize_nf4(False)),
    "nf4-nested": (
        T.Qwen3Config(**SIZES), {**BNB, "bnb_4bit_use_double_quant": True}, quantize_nf4(True),
    ),
}


def quantize_layers(model, quantize):
    """Replaces the weights of the blocks' linear layers by quantised ones. Returns the tensors of all layers."""
    parts = {}
    for name, layer in model.named_modules():
        if not isinstance(layer, torch.nn.Linear) or ".layers." not in name:
            continue
        stored, values = quantize(layer.weight.data, zlib.crc32(name.encode()))
        layer.weight.data.copy_(values)
        parts |= {f"{name}.{part}": tensor for part, tensor in stored.items()}
    for name, weight in model.named_parameters():
        # transformers fuses experts, which checkpoints store one by one.
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        prefix, projection = name.rsplit(".", 1)
        for expert, matrix in enumerate(weight.data):
            halves = matrix.chunk(2) if projection == "gate_up_proj" else [matrix]
            names = ["gate_proj", "up_proj"] if projection == "gate_up_proj" else ["down_proj"]
            for one, half in zip(names, halves):
                stored, values = quantize(half, expert)
                half.copy_(values)
                parts |= {f"{prefix}.{expert}.{one}.{part}": t for part, t in stored.items()}
    return parts


def make(name, out):
    torch.manual_seed(zlib.crc32(name.encode()))
    config, quantization, quantize = CHECKPOINTS[name]
    eager = dict(attn_implementation="eager", experts_implementation="eager")
    model = T.AutoModelForCausalLM.from_config(config, **eager).eval().float()
    G.randomize(model)
    parts = quantize_layers(model, quantize)
    with torch.no_grad():
        golden = G.decoder_golden(model, 23)
    directory = out / name
    directory.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(directory, safe_serialization=True)
    file = directory / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    layers = {part.split(".weight")[0] for part in parts} | {part.rsplit(".", 1)[0] for part in parts}
    tensors = {
        name: tensor for name, tensor in tensors.items() if name.removesuffix(".weight") not in layers
    }
    safetensors.torch.save_file({**tensors, **parts}, file, {"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    if "producer" in quantization:
        (directory / "hf_quant_config.json").write_text(json.dumps(quantization, indent=2) + "\n")
    else:
        config["quantization_config"] = quantization
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
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
    for name in args.names or CHECKPOINTS:
        make(name, args.out)


if __name__ == "__main__":
    main()
