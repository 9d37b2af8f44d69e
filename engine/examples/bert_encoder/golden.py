#!/usr/bin/env python3
"""Writes golden.json beside it: what transformers' BertModel makes of a few texts.

The weights are numbers of their names, by the same formula as in seeded.rs, so that they need no file.

    pip install torch transformers numpy
    python golden.py
"""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertModel

HERE = Path(__file__).parent
SIZES = {
    "small": dict(layers=3, hidden=60, heads=4, feed_forward=92, vocabulary=71, positions=40),
    "base": dict(layers=12, hidden=768, heads=12, feed_forward=3072, vocabulary=30522, positions=512),
}
LENGTHS = {"small": [13, 1, 8], "base": [7, 5]}


def mixed(h):
    """The last step of MurmurHash3 (Appleby 2011)."""
    h = (h ^ (h >> 16)) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * np.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def numbers(name, shape):
    """Numbers between -1 and 1."""
    seed = 0x811C9DC5
    for byte in name.encode():
        seed = (seed ^ byte) * 0x01000193 & 0xFFFFFFFF
    h = mixed(mixed(np.arange(np.prod(shape), dtype=np.uint32)) ^ np.uint32(seed))
    return ((h >> 8).astype(np.float32) * np.float32(2**-23) - np.float32(1)).reshape(shape)


def weight(name, shape):
    values = numbers(name, shape)
    if len(shape) == 2:
        return values * (np.float32(1.5) / np.sqrt(np.float32(shape[1])))
    return values / np.float32(8) + np.float32(1.0 if name.endswith("LayerNorm.weight") else 0.0)


def golden(name):
    size, lengths = SIZES[name], LENGTHS[name]
    config = BertConfig(
        vocab_size=size["vocabulary"],
        hidden_size=size["hidden"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        intermediate_size=size["feed_forward"],
        max_position_embeddings=size["positions"],
    )
    model = BertModel(config).eval()
    state = {n: torch.from_numpy(weight(n, t.shape)) for n, t in model.named_parameters()}
    model.load_state_dict(state, strict=False)
    tokens = max(lengths)
    ids = [[(i * 7919 + row * 104729 + 11) % size["vocabulary"] for i in range(tokens)] for row in range(len(lengths))]
    kinds = [[int(i > length // 2) for i in range(tokens)] for length in lengths]
    mask = [[int(i < length) for i in range(tokens)] for length in lengths]
    with torch.no_grad():
        out = model(torch.tensor(ids), torch.tensor(mask), torch.tensor(kinds))
    # Of a large one only the first few of each row are kept.
    width = min(size["hidden"], 64)
    kept = lambda x: [round(v, 7) for v in x[..., :width].flatten().tolist()]
    return dict(
        size,
        texts=len(lengths),
        tokens=tokens,
        width=width,
        ids=sum(ids, []),
        kinds=sum(kinds, []),
        mask=sum(mask, []),
        hidden_states=kept(out.last_hidden_state),
        pooled=kept(out.pooler_output),
    )


def main():
    torch.set_num_threads(1)
    text = json.dumps({name: golden(name) for name in SIZES}, separators=(",", ":"))
    (HERE / "golden.json").write_text(text.replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
