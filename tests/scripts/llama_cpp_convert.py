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
}
# Runs the converter without a tokenizer. The classes may replace the function, so all of them are changed.
CONVERT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import conversion, convert_hf_to_gguf
from conversion.base import ModelBase, TextModel
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


def compare(source, directory, folder):
    """The result of a golden: "equal", or what is different."""
    golden = json.loads((directory / "golden.json").read_text())
    out = folder / f"{directory.name}.gguf"
    copy = folder / directory.name
    shutil.copytree(directory, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, **FIELDS.get(config["architectures"][0], {})}))
    size = config.get("text_config", config)["vocab_size"]
    tokens = {"model": {"vocab": {str(id): id for id in range(size)}}, "added_tokens": []}
    (copy / "tokenizer.json").write_text(json.dumps(tokens))
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, source, copy, "--outfile", out, "--outtype", "f32"],
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
