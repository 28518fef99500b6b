"""Formal proofs: one module a core, each proof with a reached cover and a failing mutant."""

from dataclasses import replace
from importlib import import_module

__all__ = ["PROOFS"]

#: Cores in the order of the list of cores.
CORES = (
    "lfsr", "urng_array", "lutopt", "scale_lut", "prng_pool", "perturbation", "tree_grng",
    "weight_perturb", "seedlm_decompress", "lut_dequantize", "trellis_decompress", "nf4",
    "mac_array", "gemv", "sparse_mac", "requantize", "conv_engine", "vector_unit", "stream_engine",
    "softmax_loss", "loss_sign", "lora", "instantft", "zo_trainer", "bp_tail", "sparse_trainer",
    "stream_trainer", "forward_cache", "sdram", "host_link", "skid_buffer",
)  # fmt: skip
PROOFS = tuple(
    replace(proof, core=core)
    for core in CORES
    for proof in import_module(f"{__name__}.{core}").PROOFS
)
