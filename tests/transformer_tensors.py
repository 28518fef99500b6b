"""Tensors of small random transformers, and their weights as integers."""

from dataclasses import replace

import numpy as np

from seedbed.flow.importer.packed_rows import rows_as_integers

WORDS, SIZE, MIDDLE, LAYERS = 50, 24, 40, 2


def random(rng, *shape):
    return rng.standard_normal(shape) * 1.5 / np.sqrt(shape[-1])


def encoder_tensors(rng):
    found = {
        "embeddings.word_embeddings.weight": rng.standard_normal((WORDS, SIZE)),
        "embeddings.position_embeddings.weight": rng.standard_normal((64, SIZE)),
        "embeddings.token_type_embeddings.weight": rng.standard_normal((2, SIZE)),
    }
    norms = ["embeddings.LayerNorm"]
    for k in range(LAYERS):
        at = f"encoder.layer.{k}"
        norms += [f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"]
        shapes = {f"{at}.attention.self.{n}": (SIZE, SIZE) for n in ("query", "key", "value")}
        shapes[f"{at}.attention.output.dense"] = SIZE, SIZE
        shapes |= {f"{at}.intermediate.dense": (MIDDLE, SIZE), f"{at}.output.dense": (SIZE, MIDDLE)}
        for name, shape in shapes.items():
            found[f"{name}.weight"] = random(rng, *shape)
            found[f"{name}.bias"] = rng.standard_normal(shape[0])
    for name in norms:
        found[f"{name}.weight"] = rng.uniform(0.5, 2, SIZE)
        found[f"{name}.bias"] = rng.standard_normal(SIZE)
    return found


def decoder_tensors(rng, shared):
    found = {"model.embed_tokens.weight": rng.standard_normal((WORDS, SIZE))}
    kept = SIZE * shared // 4
    for k in range(LAYERS):
        at = f"model.layers.{k}"
        shapes = {
            "self_attn.q_proj": (SIZE, SIZE), "self_attn.k_proj": (kept, SIZE),
            "self_attn.v_proj": (kept, SIZE), "self_attn.o_proj": (SIZE, SIZE),
            "mlp.gate_proj": (MIDDLE, SIZE), "mlp.up_proj": (MIDDLE, SIZE),
            "mlp.down_proj": (SIZE, MIDDLE),
        }  # fmt: skip
        for name, shape in shapes.items():
            found[f"{at}.{name}.weight"] = random(rng, *shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{at}.{name}.weight"] = rng.uniform(0.5, 2, SIZE)
    found["model.norm.weight"] = rng.uniform(0.5, 2, SIZE)
    return found


def rounded_weights(parameters, bits=8):
    """Return the matrices and tables as integers, and the parameters that these represent."""
    found, reals = {}, {}
    for name, of in parameters.items():
        reals[name] = of
        if of.weights.ndim == 2:
            found[name] = rows_as_integers(of.weights, bits)
            weights = found[name].weights * found[name].multipliers[:, None]
            reals[name] = replace(of, weights=weights * 2.0 ** -found[name].fraction)
    return found, reals
