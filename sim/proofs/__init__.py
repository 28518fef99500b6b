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
        weight_perturb,
        seedlm_decompress,
        lut_dequantize,
        nf4,
        mac_array,
        gemv,
        sparse_mac,
        requantize,
        conv_engine,
        softmax_loss,
        loss_sign,
        lora,
        instantft,
        zo_trainer,
        bp_tail,
        sparse_trainer,
        forward_cache,
        sdram,
        host_link,
        skid_buffer,
    )
    for proof in core.PROOFS
)
