"""The network as the trainer sees it: a Llama decoder in JAX, and its sizes.

Matrices are stored as GGUF stores them, `[rows, cols]` = `[outputs, inputs]`, and rope turns
neighbouring pairs (2i, 2i + 1), which is what GGUF's `llama` architecture means by rope, so that
export.py has nothing to permute.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Config:
    """Sizes. Every `cols` below is a multiple of 256, so that blocks of K-quants fit each row."""

    vocab: int = 1024
    hidden: int = 256
    ffn: int = 512
    layers: int = 3
    heads: int = 8
    kv_heads: int = 2
    context: int = 512
    rope_theta: float = 10000.0
    rms_eps: float = 1e-5

    @property
    def head_dim(self):
        return self.hidden // self.heads


def init(key, c):
    """Parameters by their GGUF names; the output matrix is the embedding (tied)."""
    shapes = {"token_embd": (c.vocab, c.hidden)}
    kv = c.kv_heads * c.head_dim
    for i in range(c.layers):
        shapes |= {
            f"blk.{i}.attn_q": (c.hidden, c.hidden),
            f"blk.{i}.attn_k": (kv, c.hidden),
            f"blk.{i}.attn_v": (kv, c.hidden),
            f"blk.{i}.attn_output": (c.hidden, c.hidden),
            f"blk.{i}.ffn_gate": (c.ffn, c.hidden),
            f"blk.{i}.ffn_up": (c.ffn, c.hidden),
            f"blk.{i}.ffn_down": (c.hidden, c.ffn),
        }
    params = {}
    for name, shape in shapes.items():
        key, sub = jax.random.split(key)
        std = 0.02 if name == "token_embd" else shape[1] ** -0.5
        if name.endswith(("attn_output", "ffn_down")):
            std *= (2 * c.layers) ** -0.5
        params[name] = std * jax.random.normal(sub, shape, jnp.float32)
    for i in range(c.layers):
        params[f"blk.{i}.attn_norm"] = jnp.ones(c.hidden)
        params[f"blk.{i}.ffn_norm"] = jnp.ones(c.hidden)
    params["output_norm"] = jnp.ones(c.hidden)
    return params


def rms_norm(x, weight, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rope(x, theta):
    """`x` `[batch, heads, tokens, head_dim]`, rotated by its position in pairs (2i, 2i + 1)."""
    tokens, dim = x.shape[-2:]
    frequency = theta ** (-jnp.arange(0, dim, 2) / dim)
    angle = jnp.arange(tokens)[:, None] * frequency[None, :]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return turned.reshape(x.shape)


def attention(p, prefix, x, mask, c):
    """Grouped-query attention; `mask` `[batch, 1, tokens, tokens]` is true where seen."""
    batch, tokens, _ = x.shape

    def heads(name, n):
        y = x @ p[prefix + name].T
        return y.reshape(batch, tokens, n, c.head_dim).transpose(0, 2, 1, 3)

    q = rope(heads("attn_q", c.heads), c.rope_theta)
    k = rope(heads("attn_k", c.kv_heads), c.rope_theta)
    v = heads("attn_v", c.kv_heads)
    group = c.heads // c.kv_heads
    q = q.reshape(batch, c.kv_heads, group * tokens, c.head_dim)
    scores = (q @ k.swapaxes(-1, -2)) * c.head_dim**-0.5
    scores = scores.reshape(batch, c.heads, tokens, tokens)
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
    out = weights.reshape(batch, c.kv_heads, group * tokens, tokens) @ v
    out = out.reshape(batch, c.heads, tokens, c.head_dim).transpose(0, 2, 1, 3)
    return out.reshape(batch, tokens, c.hidden) @ p[prefix + "attn_output"].T


def forward(p, ids, segments, c):
    """Logits `[batch, tokens, vocab]`. A token sees earlier ones of its own document only."""
    tokens = ids.shape[1]
    causal = jnp.tril(jnp.ones((tokens, tokens), bool))
    mask = (causal & (segments[:, :, None] == segments[:, None, :]))[:, None]
    x = p["token_embd"][ids]
    for i in range(c.layers):
        b = f"blk.{i}."
        x = x + attention(p, b, rms_norm(x, p[b + "attn_norm"], c.rms_eps), mask, c)
        h = rms_norm(x, p[b + "ffn_norm"], c.rms_eps)
        h = jax.nn.silu(h @ p[b + "ffn_gate"].T) * (h @ p[b + "ffn_up"].T)
        x = x + h @ p[b + "ffn_down"].T
    return rms_norm(x, p["output_norm"], c.rms_eps) @ p["token_embd"].T


def loss(p, ids, segments, weights, c):
    """Mean cross-entropy of the next token; `weights[b, t]` is that of token t as a target."""
    logits = forward(p, ids[:, :-1], segments[:, :-1], c)
    target = ids[:, 1:]
    picked = jnp.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    nll = jax.nn.logsumexp(logits, axis=-1) - picked
    weight = weights[:, 1:] * (segments[:, 1:] == segments[:, :-1])
    return jnp.sum(nll * weight) / jnp.maximum(jnp.sum(weight), 1.0)
