#!/usr/bin/env python3
"""Converts tokenizers of published models with `wisp convert` and compares the tokens that llama.cpp makes of texts.

    llama_cpp_vocabulary.py RUNNER [NAME...]

RUNNER is llama_cpp.cpp, linked as llama_cpp.py does. The tokenizer.json is made from the vocabularies of the shared
data and the models' own expressions; the texts and their tokens are llama.cpp's. Needs `gguf` and `numpy`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("WISP_SHARED", ROOT.parent / "shared"))
WISP = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "wisp"

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern):
    first = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [first, BYTES]}


# The pre-tokeniser of each byte-level vocabulary, and the name that it must get.
BYTE_LEVEL = {
    "llama-bpe": (split(WORDS % "{1,3}"), True, None, "llama-bpe"),
    "qwen2": (split(WORDS % ""), False, {"type": "NFC"}, "qwen2"),
    "gpt-2": ({**BYTES, "use_regex": True}, False, None, "gpt-2"),
}


def merges_of(tokens, scores):
    """Every pair of tokens that makes a token, by its score, as Hugging Face's converter has them."""
    ids = {token: id for id, token in enumerate(tokens)}
    merges = []
    for id, token in enumerate(tokens):
        halves = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ids and token[i:] in ids]
        halves.sort(key=lambda half: (ids[half[0]], ids[half[1]]))
        merges += [(scores[id], left, right) for left, right in halves]
    merges.sort(key=lambda merge: -merge[0])
    return [[left, right] for _, left, right in merges]


def tokenizer_json(name, field):
    tokens, types = field("tokens"), field("token_type")
    added = [{"id": id, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": kind == 3}
             for id, (token, kind) in enumerate(zip(tokens, types)) if kind in (3, 4)]
    own = {token: id for id, (token, kind) in enumerate(zip(tokens, types)) if kind not in (3, 4)}
    model = {"type": "BPE", "vocab": own, "merges": field("merges"), "ignore_merges": False}
    result = {"version": "1.0", "added_tokens": added, "model": model}
    if name in BYTE_LEVEL:
        result["pre_tokenizer"], model["ignore_merges"], result["normalizer"], _ = BYTE_LEVEL[name]
        return result
    if name == "bert-bge":
        mark = lambda token: token[1:] if token.startswith("▁") else "##" + token
        model.update(type="WordPiece", unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100)
        model["vocab"] = {mark(token): id for token, id in own.items()}
        result["normalizer"] = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                                "strip_accents": None, "lowercase": True}
        result["pre_tokenizer"] = {"type": "BertPreTokenizer"}
        return result
    plain = [token if types[id] == 1 else "" for id, token in enumerate(tokens)]
    model.update(merges=merges_of(plain, field("scores")), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    model["vocab"] = {token: id for id, token in enumerate(tokens) if types[id] != 4}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    result["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]}
    return result


def write_model(folder, vocab_size):
    """A model of nothing but an embedding."""
    config = {"architectures": ["LlamaForCausalLM"], "vocab_size": vocab_size, "hidden_size": 4, "intermediate_size": 4,
              "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    size = vocab_size * 8
    head = json.dumps({"model.embed_tokens.weight": {"dtype": "F16", "shape": [vocab_size, 4], "data_offsets": [0, size]}})
    data = numpy.zeros(size, dtype=numpy.uint8).tobytes()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head.encode() + data)


def check(runner, name):
    path = SHARED / "data" / "vocab" / f"ggml-vocab-{name}.gguf"
    reader = gguf.GGUFReader(path)

    def field(key):
        found = reader.fields.get(f"tokenizer.ggml.{key}")
        return found.contents() if found else None

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(name, field)))
        texts = lambda key: field("tokens")[field(key)] if field(key) is not None else None
        names = {"bos_token": texts("bos_token_id"), "eos_token": texts("eos_token_id"), "unk_token": texts("unknown_token_id"),
                 "sep_token": texts("seperator_token_id"), "cls_token": texts("cls_token_id")}
        (folder / "tokenizer_config.json").write_text(json.dumps({key: value for key, value in names.items() if value}))
        write_model(folder, len(field("tokens")))
        out = folder / "new.gguf"
        done = subprocess.run([WISP, "convert", "--model", folder, "--out", out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        notes = [line for line in done.stderr.splitlines() if line.startswith("note")]
        written = gguf.GGUFReader(out).fields
        kind = written["tokenizer.ggml.model"].contents()
        pre = written["tokenizer.ggml.pre"].contents() if "tokenizer.ggml.pre" in written else None
        inputs = Path(f"{path}.inp").read_text().split("\n__ggml_vocab_test__\n")
        expected = Path(f"{path}.out").read_text().splitlines()
        texts = "".join(text + "\0" for text in inputs[:len(expected)])
        got = subprocess.run([runner, "tokenize", out], input=texts.encode(), capture_output=True, check=True)
        got = got.stdout.decode().splitlines()
        assert len(got) == len(expected)
        wrong = sum(a.split() != b.split() for a, b in zip(got, expected))
    print(f"{name:12} {kind} {pre}: {len(expected) - wrong} of {len(expected)} texts {notes}", flush=True)
    return wrong == 0 and (name not in BYTE_LEVEL or pre == BYTE_LEVEL[name][3])


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    names = sys.argv[2:] or [*BYTE_LEVEL, "llama-spm", "phi-3", "bert-bge"]
    sys.exit(not all([check(sys.argv[1], name) for name in names]))


if __name__ == "__main__":
    main()
