#!/usr/bin/env python3
"""Writes ggml's grids and reference values from the Python package gguf.

Usage: grids.py
Writes engine/weights/src/blocks/grids.bin, the grids of IQ2, IQ1 and IQ3 with two bytes for each entry, and
tests/fixtures/ggml_blocks.json, random blocks of encodings with the weights that the package computes.
"""

import json
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as Type, quants

ROOT = pathlib.Path(__file__).resolve().parents[2]
# In the order of grid_blocks.rs, with the bits of a weight.
GRIDS = [("IQ2_XXS", 2), ("IQ2_XS", 2), ("IQ2_S", 2), ("IQ1_S", 2), ("IQ3_XXS", 3), ("IQ3_S", 3)]
# The offset of the half-precision scale in a block; IQ1_M has it in nibbles.
SCALES = {
    "TQ1_0": 52, "TQ2_0": 64, "IQ2_XXS": 0, "IQ2_XS": 0, "IQ2_S": 0, "IQ3_XXS": 0, "IQ3_S": 0, "IQ1_S": 0,
    "IQ1_M": None,
}


def entries(name, bits):
    kind = getattr(quants, name)
    kind.init_grid()
    values = np.array(kind.grid_map)
    codes = np.abs(np.array(kind.grid).reshape(kind.grid_shape)[..., None] - values).argmin(-1)
    return (codes << (bits * np.arange(codes.shape[1]))).sum(-1).astype("<u2")


def blocks(name, random):
    size = quants.GGML_QUANT_SIZES[Type[name]][1]
    data = random.integers(0, 256, (2, size), dtype=np.uint8)
    at = SCALES[name]
    if at is None:
        # A scale of 1.xxx * 2^-4.
        for i, bits in enumerate([0x7, 0x3, 0xC, 0x2]):
            data[:, 49 + 2 * i] = data[:, 49 + 2 * i] & 15 | bits << 4
    else:
        data[:, at + 1] = 0x2C | data[:, at + 1] & 0x83
    values = quants.dequantize(data, Type[name]).astype("<f4")
    return {"blocks": data.tobytes().hex(), "weights": values.tobytes().hex()}


def nvfp4_blocks(random):
    """16 blocks whose scales are random bytes, special ones among them: 0, subnormal numbers, NaN, and with signs."""
    data = random.integers(0, 256, (16, 36), dtype=np.uint8)
    data[0, :4] = [0x00, 0x7F, 0xFF, 0x80]
    data[1, :4] = [0x01, 0x07, 0x7E, 0x08]
    values = quants.dequantize(data, Type.NVFP4).astype("<f4")
    return {"blocks": data.tobytes().hex(), "weights": values.tobytes().hex()}


def main():
    grids = np.concatenate([entries(*grid) for grid in GRIDS])
    (ROOT / "engine/weights/src/blocks/grids.bin").write_bytes(grids.tobytes())
    random = np.random.default_rng(7)
    vectors = {name: blocks(name, random) for name in SCALES}
    vectors["NVFP4"] = nvfp4_blocks(random)
    text = json.dumps(vectors, indent=1)
    (ROOT / "tests/fixtures/ggml_blocks.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
