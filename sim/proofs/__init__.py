"""Formal proofs: one module a core, each proof with a reached cover and a failing mutant."""

from seedbed.sim.proofs import lfsr, perturbation, prng_pool, scale_lut, tree_grng, urng_array

__all__ = ["PROOFS"]

PROOFS = tuple(
    proof
    for core in (lfsr, urng_array, scale_lut, prng_pool, perturbation, tree_grng)
    for proof in core.PROOFS
)
