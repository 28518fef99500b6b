"""Random numbers and perturbations, named by their seeds.

Cores: lfsr, urng_array, lutopt, scale_lut, prng_pool, perturbation, tree_grng, weight_perturb.
"""
