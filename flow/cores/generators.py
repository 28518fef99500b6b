"""Random numbers and perturbations, named by their seeds."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.generators.lfsr import Lfsr
from seedbed.hw.generators.lutopt import Lutopt
from seedbed.hw.generators.perturbation import Perturbation
from seedbed.hw.generators.prng_pool import PrngPool
from seedbed.hw.generators.scale_lut import ScaleLut
from seedbed.hw.generators.tree_grng import TreeGrng
from seedbed.hw.generators.urng_array import UrngArray
from seedbed.hw.generators.weight_perturb import WeightPerturb
from seedbed.sim.cases import (
    lfsr,
    lutopt,
    perturbation,
    prng_pool,
    scale_lut,
    tree_grng,
    urng_array,
    weight_perturb,
)

__all__ = ["CORES"]

CORES = [
    Core(
        name="lfsr",
        title="Linear-feedback shift register with leap-forward",
        config=spec.LfsrConfig,
        component=Lfsr,
        case=lfsr.case,
        paper="SeedLM, section 3.1",
    ),
    Core(
        name="urng_array",
        title="Array of LFSR uniform generators with rotation",
        config=spec.UrngConfig,
        component=UrngArray,
        case=urng_array.case,
        paper="PeZO, section 3.1",
    ),
    Core(
        name="lutopt",
        title="LUT-optimised linear generator: k bits per beat from k LUTs",
        config=spec.LutoptConfig,
        component=Lutopt,
        case=lutopt.case,
        paper="Thomas and Luk, FPT 2005",
    ),
    Core(
        name="scale_lut",
        title="Lookup table of power-of-two scaling exponents",
        config=spec.ScaleConfig,
        component=ScaleLut,
        case=scale_lut.case,
        paper="PeZO, section 3.2",
    ),
    Core(
        name="prng_pool",
        title="Circular buffer of pre-generated random numbers",
        config=spec.PoolConfig,
        component=PrngPool,
        case=prng_pool.case,
        paper="PeZO, section 3.1",
    ),
    Core(
        name="perturbation",
        title="Generator of perturbation streams k eps z from a seed",
        config=spec.PerturbationConfig,
        component=Perturbation,
        case=perturbation.case,
        paper="PeZO, section 3",
    ),
    Core(
        name="tree_grng",
        title="Gaussian generator with a binary tree (baseline)",
        config=spec.TreeGrngConfig,
        component=TreeGrng,
        case=tree_grng.case,
        paper="TreeGRNG (DATE 2024); PeZO, Table 6",
    ),
    Core(
        name="weight_perturb",
        title="Weights perturbed and updated on their way to the multipliers, by seed",
        config=spec.WeightPerturbConfig,
        component=WeightPerturb,
        case=weight_perturb.case,
        paper="ElasticZO, Algorithm 2",
    ),
]
