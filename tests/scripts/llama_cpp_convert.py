#!/usr/bin/env python3
"""Compares what Wisp reads of GGUF files that llama.cpp's own converter wrote with the goldens: logits or hidden states
within 2e-3.

    llama_cpp_convert.py LLAMA_CPP [NAME or FOLDER...]

LLAMA_CPP is its source folder. Needs the Python packages of its converter, and `wisp` from the target folder. The tiny
checkpoints have no tokenizer: the converter is told to write none, and finds a file whose tokens it can count.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from llama_cpp import WISP, find_goldens, run

WITHIN = 2e-3
# Fields that published checkpoints have and transformers leaves out.
FIELDS = {
    "DeepseekV3ForCausalLM": {"scoring_func": "sigmoid"},
    "DeepseekV2ForCausalLM": {"scoring_func": "softmax"},
    "NomicBertModel": {
        "n_positions": 8192, "activation_function": "swiglu", "causal": False, "qkv_proj_bias": False,
        "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False, "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
    },
}
# Names of fields in published checkpoints, and those that transformers 5 saves instead.
RENAMED = {
    "NomicBertModel": {
        "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
        "n_inner": "intermediate_size", "layer_norm_epsilon": "layer_norm_eps",
    },
}
# The kinds of layers in published checkpoints of Granite 4 and Nemotron-H.
GRANITE_LAYERS = {"linear_attention": "mamba", "full_attention": "attention"}
NEMOTRON_LAYERS = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
# Classes that predict further tokens in published checkpoints, but not in these.
PREDICTING = {"Qwen3NextForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"}
# Classes whose fields transformers 5 would rename and complete again.
AS_SAVED = {"NomicBertModel", "GraniteMoeHybridForCausalLM", "NemotronHForCausalLM"}
# Runs the converter without a tokenizer. The classes may replace the function, so all of them are changed.
CONVERT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import conversion, convert_hf_to_gguf
from conversion import base
from conversion.base import ModelBase, TextModel
if sys.argv.pop(1) == "as saved":
    base.AutoConfig = None
def without(model):
    model._set_vocab_none()
def change(kind):
    if "set_vocab" in vars(kind):
        kind.set_vocab = without
    for one in kind.__subclasses__():
        change(one)
get = convert_hf_to_gguf.get_model_class
def changed(*args, **kwargs):
    kind = get(*args, **kwargs)
    change(TextModel)
    return kind
convert_hf_to_gguf.get_model_class = changed
convert_hf_to_gguf.main()
"""


def published(config):
    """A configuration with the fields of published checkpoints."""
    kind = config["architectures"][0]
    config = {**config, **FIELDS.get(kind, {})}
    for old, new in RENAMED.get(kind, {}).items():
        config[old] = config.pop(new)
    if kind == "NomicBertModel":
        config["rotary_emb_base"] = config["rope_parameters"]["rope_theta"]
    if kind == "GraniteMoeHybridForCausalLM":
        config["layer_types"] = [GRANITE_LAYERS[layer] for layer in config["layer_types"]]
    if kind == "NemotronHForCausalLM":
        layers = config.pop("layers_block_type")
        config["hybrid_override_pattern"] = "".join(NEMOTRON_LAYERS[layer] for layer in layers)
        config["num_hidden_layers"] = len(layers)
        # The converter demands a multiple of it, and else of 64.
        config["mamba_d_head"] = config["mamba_head_dim"]
        if "moe" not in layers:
            for field in ["num_experts_per_tok", "n_routed_experts"]:
                del config[field]
    return config


def compare(source, directory, folder):
    """The result of a golden: "equal", or what is different."""
    golden = json.loads((directory / "golden.json").read_text())
    out = folder / f"{directory.name}.gguf"
    copy = folder / directory.name
    shutil.copytree(directory, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(published(config)))
    size = config.get("text_config", config)["vocab_size"]
    tokens = {"model": {"type": "WordPiece", "vocab": {str(id): id for id in range(size)}}, "added_tokens": []}
    (copy / "tokenizer.json").write_text(json.dumps(tokens))
    kind = config["architectures"][0]
    reading = "as saved" if kind in AS_SAVED else "by transformers"
    more = ["--no-mtp"] if kind in PREDICTING else []
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, source, reading, copy, "--outfile", out, "--outtype", "f32", *more],
        capture_output=True, text=True)
    if done.returncode:
        return f"not converted: {done.stderr.strip().splitlines()[-1]}"
    ids = ",".join(map(str, golden["tokens"]))
    if "logits" in golden:
        file = folder / "logits.safetensors"
        file.unlink(missing_ok=True)
        done, problem = run(WISP, "logits", "--device", "host", "--model", out, "--tokens", ids, "--out", file)
        if done is None:
            return f"not read: {problem}"
        data = file.read_bytes()
        found = memoryview(data[8 + int.from_bytes(data[:8], "little"):]).cast("f").tolist()
        expected = [value for row in golden["logits"] for value in row]
    elif "last_hidden_state" in golden:
        args = ["--pooling", "none", "--no-normalize", "--json", "--tokens", ids]
        done, problem = run(WISP, "encode", "--device", "host", "--model", out, *args)
        if done is None:
            return f"not read: {problem}"
        found = [value for row in json.loads(done)["hidden"][0] for value in row]
        expected = [value for row in golden["last_hidden_state"] for value in row]
    else:
        return "skipped: scores of pairs"
    if len(found) != len(expected):
        return f"{len(found)} values differ from {len(expected)}"
    off = max(abs(a - b) for a, b in zip(found, expected))
    return f"{'equal' if off <= WITHIN else 'differs'} ({off:.0e})"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    goldens = find_goldens()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or goldens:
            result = compare(sys.argv[1], goldens.get(name, Path(name)), Path(folder))
            failed |= not result.startswith(("equal", "skipped"))
            print(f"{Path(name).name:24} {result}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
