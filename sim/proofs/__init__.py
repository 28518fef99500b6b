"""Formal proofs: one module a core, each proof with a reached cover and a failing mutant."""

from seedbed.sim.proofs import (
    bp_tail,
    conv_engine,
    forward_cache,
    gemv,
    host_link,
    instantft,
    lfsr,
    lora,
    loss_sign,
    lut_dequantize,
    lutopt,
    mac_array,
    nf4,
    perturbation,
    prng_pool,
    requantize,
    scale_lut,
    sdram,
    seedlm_decompress,
    skid_buffer,
    softmax_loss,
    sparse_mac,
    sparse_trainer,
    tree_grng,
    urng_array,
    weight_perturb,
    zo_trainer,
)

__all__ = ["PROOFS"]

PROOFS = tuple(
    proof
    for core in (
        lfsr,
        urng_array,
        lutopt,
        scale_lut,
        prng_pool,
        perturbation,
        tree_grng,
        skid_buffer,
        seedlm_decompress,
        lut_dequantize,
        mac_array,
        gemv,
        sparse_mac,
        nf4,
        softmax_loss,
        requantize,
        loss_sign,
        weight_perturb,
        forward_cache,
        conv_engine,
        lora,
        instantft,
        bp_tail,
        zo_trainer,
        sparse_trainer,
        host_link,
        sdram,
    )
    for proof in core.PROOFS
)
