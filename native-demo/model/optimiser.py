"""Muon for the layers' matrices, AdamW for the embedding and the norms.

Muon (Keller Jordan, 2024) replaces a matrix's momentum by the nearest orthogonal matrix, found with
five Newton-Schulz steps; at this size it needs clearly fewer tokens than AdamW alone.
"""

import jax
import jax.numpy as jnp

MUON_LR, ADAM_LR = 0.02, 3e-3
WEIGHT_DECAY = 0.1


def is_matrix(name):
    return name.startswith("blk.") and not name.endswith("_norm")


def init(params):
    zeros = {name: jnp.zeros_like(p) for name, p in params.items()}
    second = {name: jnp.zeros_like(p) for name, p in params.items() if not is_matrix(name)}
    return {"first": zeros, "second": second, "step": jnp.zeros((), jnp.int32)}


def orthogonalise(g):
    """The quintic Newton-Schulz iteration, with Muon's published coefficients."""
    tall = g.shape[0] > g.shape[1]
    x = g.T if tall else g
    x = x / (jnp.linalg.norm(x) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


def update(params, grads, state, scale):
    """One step with both learning rates multiplied by `scale`; gradients are clipped to norm 1."""
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in grads.values()))
    clip = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
    step = state["step"] + 1
    first, second, new = {}, {}, {}
    for name, p in params.items():
        g = grads[name] * clip
        if is_matrix(name):
            first[name] = 0.95 * state["first"][name] + g
            direction = orthogonalise(g + 0.95 * first[name])
            lr = MUON_LR * scale
            direction *= max(1.0, p.shape[0] / p.shape[1]) ** 0.5
            new[name] = p * (1 - lr * WEIGHT_DECAY) - lr * direction
        else:
            first[name] = 0.9 * state["first"][name] + 0.1 * g
            second[name] = 0.98 * state["second"][name] + 0.02 * g * g
            m = first[name] / (1 - 0.9**step)
            v = second[name] / (1 - 0.98**step)
            lr = ADAM_LR * scale
            new[name] = p - lr * m / (jnp.sqrt(v) + 1e-8)
    return new, {"first": first, "second": second, "step": step}, norm
