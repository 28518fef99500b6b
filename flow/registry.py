"""The list of cores, used by the command line, the tests, the docs and the reports."""

from collections.abc import Mapping

from seedbed import spec
from seedbed.flow.core import Core, UnknownCore, Variant, suggestion
from seedbed.hw.bp_tail import BpTail
from seedbed.hw.conv_engine import ConvEngine
from seedbed.hw.forward_cache import ForwardCache
from seedbed.hw.forward_cache_axi import ForwardCacheAxi
from seedbed.hw.gemv import Gemv
from seedbed.hw.gemv_axi import GemvAxi
from seedbed.hw.host_link import HostLink
from seedbed.hw.instantft import InstantFt
from seedbed.hw.instantft_axi import InstantFtAxi
from seedbed.hw.lfsr import Lfsr
from seedbed.hw.lora import Lora
from seedbed.hw.loss_sign import LossSign
from seedbed.hw.lut_dequantize import LutDequantize
from seedbed.hw.lutopt import Lutopt
from seedbed.hw.mac_array import MacArray
from seedbed.hw.nf4 import Nf4
from seedbed.hw.perturbation import Perturbation
from seedbed.hw.prng_pool import PrngPool
from seedbed.hw.requantize import Requantize
from seedbed.hw.scale_lut import ScaleLut
from seedbed.hw.sdram import Sdram
from seedbed.hw.seedlm_decompress import SeedlmDecompress
from seedbed.hw.skid_buffer import SkidBuffer
from seedbed.hw.softmax_loss import SoftmaxLoss
from seedbed.hw.sparse_mac import SparseMac
from seedbed.hw.sparse_trainer import SparseTrainer
from seedbed.hw.sparse_trainer_axi import SparseTrainerAxi
from seedbed.hw.tree_grng import TreeGrng
from seedbed.hw.urng_array import UrngArray
from seedbed.hw.weight_perturb import WeightPerturb
from seedbed.hw.zo_trainer import ZoTrainer
from seedbed.hw.zo_trainer_axi import ZoTrainerAxi
from seedbed.sim.cases import (
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

__all__ = [
    "CORES",
    "WRAPPERS",
    "Core",
    "UnknownCore",
    "Variant",
    "find",
    "find_verilog",
    "suggestion",
]


#: Without the seconds of simulation for a chip's power-up and its retention time.
SHORT_TEST = {"retention": 0, "power_up_us": 1}
#: All targets, for one configuration of each core; and the checks of that configuration.
ALL_TARGETS = ("xcup", "ecp5", "ice40", "gowin")
CHECKED = ("simulation", "cocotb")
#: Measurements of ``make``, which takes minutes for all cores.
SIMULATED = ("simulation",)
SYNTHESIZED = (*SIMULATED, "synthesis", "statistics", "activity")
PLACED = (*SYNTHESIZED, "place", "speed")
#: Place and route with ready driven by a LUT, and without a floorplan.
PLACE_VARIANTS = ("place_ready", "place_free")
#: A decompressor and a matrix-vector product, small enough for simulation, and place and route.
SMALL_BLOCKS = {"block": 3, "latent": 2, "width": 8}
SMALL_GEMV = {"beat_bits": 64, "columns": 256, "row_width": 16}
#: The side path that is measured: 0.1 % of a matrix of 2048 x 2048, stored.
SIDE_PATH = {"entries": 4096, "row_width": 16}
#: A sparse part, small enough for simulation, and place and route.
SMALL_SPARSE = {
    "entries": 16,
    "columns": 20,
    "group": 4,
    "row_width": 6,
    "value_width": 8,
    "activation_width": 6,
    "most_shift": 5,
    "sum_width": 32,
    "number_width": 4,
}
#: A trainer of kept weights of that size.
SMALL_KEPT = {
    "block": 4,
    "latent": 1,
    "width": 8,
    "layers": 3,
    "columns": 20,
    "classes": 5,
    "entries": 16,
    "batch": 4,
    "beat_bits": 32,
    "activation_width": 12,
    "value_width": 12,
    "number_width": 6,
    "most_shift": 9,
    "address_bits": 12,
    "burst": 8,
    "drain_cycles": 16,
    "timeout_cycles": 400,
}
#: A network and adapters of that size.
SMALL_NETWORK = {"network": "tiny", "lanes": 8, "ways": 2}
SMALL_ADAPTERS = {"widths": (9, 6), "classes": 5, "lanes": 8, "ways": 2}
#: Layers of a tail, small enough for simulation, and place and route.
SMALL_TAIL = {"inputs": (9, 6), "classes": 5, "ways": 2, "row_lanes": 8}
#: The buffered rows of LeNet-5's convolutions, and a perturbing stage small enough to simulate.
LENET_ROWS = (25,) * 2 + (30,) * 20
SMALL_ROWS = {"lanes": 8, "ways": 2, "rows": 16, "used": (5, 8, 3)}
#: A zeroth-order trainer, and a fine-tuning core, small enough to simulate every command.
SMALL_TRAINING = {"network": "tiny", "lanes": 8, "ways": 2, "batch": 8}
SMALL_FINE_TUNING = {"network": "tiny", "rank": 2, "entries": 4, "lanes": 8, "ways": 2}

CORES: dict[str, Core] = {
    core.name: core
    for core in [
        Core(
            name="lfsr",
            title="Linear-feedback shift register with leap-forward",
            config=spec.LfsrConfig,
            component=Lfsr,
            case=lfsr.case,
            paper="SeedLM, section 3.1",
            variants={
                "14 bits": Variant(
                    params={"width": 14},
                    targets=ALL_TARGETS,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "place_ready", "mutation"),
                    main=PLACED,
                ),
                "14 bits, leap 14": Variant(params={"width": 14, "leap": 14}),
            },
        ),
        Core(
            name="urng_array",
            title="Array of LFSR uniform generators with rotation",
            config=spec.UrngConfig,
            component=UrngArray,
            case=urng_array.case,
            paper="PeZO, section 3.1",
            variants={
                "31 x 8": Variant(
                    targets=ALL_TARGETS,
                    placed=("ecp5", "ecp5-8"),
                    kinds=(
                        *CHECKED,
                        "mutation",
                        "statistics",
                        "dieharder",
                        "activity",
                        *PLACE_VARIANTS,
                    ),
                    main=PLACED,
                ),
                "31 x 14": Variant(
                    params={"width": 14},
                    placed=("ecp5", "ecp5-8"),
                    kinds=(
                        "simulation",
                        "statistics",
                        "dieharder",
                        "activity",
                        "speed",
                        *PLACE_VARIANTS,
                    ),
                    main=PLACED,
                ),
                "31 x 14, leap 3": Variant(
                    params={"width": 14, "leap": 3},
                    targets=("xcup",),
                    kinds=("simulation", "statistics", "dieharder"),
                ),
                "31 x 8, leap 8": Variant(
                    params={"leap": 8}, kinds=("simulation", "statistics"), main=SYNTHESIZED
                ),
                "31 x 14, leap 14": Variant(
                    params={"width": 14, "leap": 14},
                    placed=("ecp5", "ecp5-8"),
                    kinds=("simulation", "statistics", "dieharder", "place_ready"),
                    main=SYNTHESIZED,
                ),
                "31 x 8, grown": Variant(params={"seeding": "grown"}),
                "31 x 14, grown": Variant(params={"width": 14, "seeding": "grown"}),
                "31 x 8, repair": Variant(params={"repair": True}),
            },
        ),
        Core(
            name="lutopt",
            title="LUT-optimised linear generator: k bits per beat from k LUTs",
            config=spec.LutoptConfig,
            component=Lutopt,
            case=lutopt.case,
            paper="Thomas and Luk, FPT 2005",
            variants={
                "31 x 14": Variant(
                    targets=ALL_TARGETS,
                    placed=("ecp5", "ecp5-8"),
                    kinds=(
                        *CHECKED,
                        "statistics",
                        "dieharder",
                        "activity",
                        "speed",
                        "place_ready",
                    ),
                    main=PLACED,
                ),
                "31 x 8": Variant(
                    params={"width": 8},
                    placed=("ecp5",),
                    kinds=("simulation", "statistics", "dieharder", "activity"),
                    main=SYNTHESIZED,
                ),
                "8 x 5": Variant(
                    params={"lanes": 8, "width": 5}, targets=(), kinds=("simulation", "mutation")
                ),
                "32 x 5": Variant(params={"lanes": 32, "width": 5}),
                "128 x 5": Variant(params={"lanes": 128, "width": 5}, placed=("ecp5",)),
                "128 x 7": Variant(params={"lanes": 128, "width": 7}, placed=("ecp5",)),
                "31 x 14, word": Variant(
                    params={"seeding": "word"}, placed=("ecp5",), kinds=CHECKED
                ),
            },
        ),
        Core(
            name="scale_lut",
            title="Lookup table of power-of-two scaling exponents",
            config=spec.ScaleConfig,
            component=ScaleLut,
            case=scale_lut.case,
            paper="PeZO, section 3.2",
            variants={
                "31 x 8, value": Variant(
                    params={"rounding": "value"}, kinds=("simulation", "statistics")
                ),
                "31 x 8": Variant(kinds=("simulation", "mutation")),
                "31 x 14": Variant(
                    params={"width": 14},
                    targets=ALL_TARGETS,
                    kinds=(*CHECKED, "statistics"),
                    main=SYNTHESIZED,
                ),
                "31 x 14, value": Variant(
                    params={"width": 14, "rounding": "value"}, kinds=("simulation", "statistics")
                ),
            },
        ),
        Core(
            name="prng_pool",
            title="Circular buffer of pre-generated random numbers",
            config=spec.PoolConfig,
            component=PrngPool,
            case=prng_pool.case,
            paper="PeZO, section 3.1",
            variants={
                "8 lanes x 12": Variant(
                    targets=ALL_TARGETS, placed=("ecp5",), kinds=CHECKED, main=SYNTHESIZED
                ),
                "8 lanes x 12, no output register": Variant(params={"register": False}),
                "8 lanes x 12, 4 banks": Variant(params={"banks": 4}),
                "32 lanes x 12": Variant(params={"lanes": 32}),
                "8 lanes x 12, 255 numbers": Variant(
                    params={"size": 255}, targets=(), kinds=("mutation",)
                ),
            },
        ),
        Core(
            name="perturbation",
            title="Generator of perturbation streams k eps z from a seed",
            config=spec.PerturbationConfig,
            component=Perturbation,
            case=perturbation.case,
            paper="PeZO, section 3",
            variants={
                "31 x 8": Variant(
                    params={"width": 8},
                    placed=("ecp5",),
                    kinds=("simulation", "mutation"),
                    main=SYNTHESIZED,
                ),
                "31 x 14": Variant(
                    targets=ALL_TARGETS,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "place_ready"),
                    main=PLACED,
                ),
                "31 x 14, leap 14": Variant(params={"leap": 14}, targets=("xcup",)),
                "lutopt, 31 x 14": Variant(
                    params={"source": "lutopt"}, placed=("ecp5",), kinds=CHECKED
                ),
                "pool, 8 lanes x 12": Variant(
                    params={"source": "pool"}, kinds=CHECKED, main=SIMULATED
                ),
            },
        ),
        Core(
            name="tree_grng",
            title="Gaussian generator with a binary tree (baseline)",
            config=spec.TreeGrngConfig,
            component=TreeGrng,
            case=tree_grng.case,
            paper="TreeGRNG (DATE 2024); PeZO, Table 6",
            variants={
                "published": Variant(
                    targets=ALL_TARGETS,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "statistics", "activity", "place_ready", "mutation"),
                    main=SYNTHESIZED,
                ),
                "compact": Variant(
                    params={"tree": "compact"},
                    placed=("ecp5",),
                    kinds=("simulation", "statistics", "activity"),
                    main=SYNTHESIZED,
                ),
                "repaired, compact": Variant(
                    params={"lfsrs": "repaired", "tree": "compact"},
                    placed=("ecp5",),
                    kinds=("simulation", "statistics", "activity"),
                    main=("simulation", "statistics"),
                ),
                "compact x 1024": Variant(
                    params={"instances": 1024, "tree": "compact"}, targets=("xcup",), kinds=()
                ),
            },
        ),
        Core(
            name="skid_buffer",
            title="Register slice of a stream, without a combinational ready path",
            config=spec.SkidBufferConfig,
            component=SkidBuffer,
            case=skid_buffer.case,
            paper="-",
            variants={
                "248 bits": Variant(
                    params={"width": 248},
                    targets=ALL_TARGETS,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "place_ready", "mutation"),
                    main=PLACED,
                ),
            },
        ),
        Core(
            name="seedlm_decompress",
            title="Decompressor of weights stored as LFSR seeds",
            config=spec.SeedlmDecompressConfig,
            component=SeedlmDecompress,
            case=seedlm_decompress.case,
            paper="SeedLM, sections 3.2 and 4.2",
            small=SMALL_BLOCKS,
            variants={
                "4 bits x 16": Variant(
                    params={"blocks": 16}, targets=("xcup",), kinds=("statistics", "speed")
                ),
                "4 bits x 16, 8-bit words": Variant(
                    params={"blocks": 16, "word_bits": 8},
                    targets=("xcup",),
                    kinds=("statistics",),
                ),
                "4 bits x 2": Variant(
                    targets=ALL_TARGETS,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "place_ready"),
                    main=SYNTHESIZED,
                ),
                "4 bits x 16, one addition a stage": Variant(
                    params={"blocks": 16, "additions": 1}, targets=("xcup",), kinds=()
                ),
                "4 bits x 16, one addition a stage, queue": Variant(
                    params={"blocks": 16, "additions": 1, "queue": True},
                    targets=("xcup", "ecp5"),
                    placed=("ecp5",),
                    kinds=(),
                ),
                "4 bits x 2, queue": Variant(params={"queue": True}, kinds=CHECKED),
                "4 bits x 2, one addition a stage": Variant(
                    params={"additions": 1}, targets=("ecp5",), placed=("ecp5",)
                ),
                "4 bits x 2, 8-bit words": Variant(
                    params={"word_bits": 8}, targets=("ecp5",), placed=("ecp5",)
                ),
                "blocks of 3": Variant(params=SMALL_BLOCKS, targets=(), kinds=("mutation",)),
                "3 bits x 14": Variant(
                    params={"block": 12, "latent": 4, "blocks": 14},
                    targets=("xcup",),
                    kinds=("statistics", "speed"),
                ),
                "3 bits x 2": Variant(
                    params={"block": 12, "latent": 4},
                    targets=("ecp5",),
                    placed=("ecp5",),
                ),
            },
        ),
        Core(
            name="lut_dequantize",
            title="Dequantizer of 4-bit codes with a table of 16 levels a row",
            config=spec.LutDequantizeConfig,
            component=LutDequantize,
            case=lut_dequantize.case,
            paper="SqueezeLLM, section 4.1",
            small={"lanes": 2, "width": 5, "load": 4},
            variants={
                "16 lanes": Variant(
                    targets=ALL_TARGETS, placed=("ecp5",), kinds=CHECKED, main=PLACED
                ),
                "16 lanes, 4 levels a beat": Variant(params={"load": 4}),
                "128 lanes": Variant(params={"lanes": 128}, targets=("xcup",), kinds=()),
                "2 lanes, 4 levels a beat": Variant(
                    params={"lanes": 2, "width": 5, "load": 4}, targets=(), kinds=("mutation",)
                ),
            },
        ),
        Core(
            name="mac_array",
            title="Multiply-accumulate array with sums by block, beat and frame",
            config=spec.MacArrayConfig,
            component=MacArray,
            case=mac_array.case,
            paper="SeedLM, section 4.2",
            variants={
                "32 lanes": Variant(kinds=CHECKED, main=SYNTHESIZED),
                "128 lanes": Variant(
                    params={"lanes": 128, "blocks": 16, "weight_peak": 3 << 18},
                    kinds=(),
                ),
                "16 lanes x 8, no exponents": Variant(
                    params={
                        "lanes": 16,
                        "blocks": 1,
                        "weight_width": 8,
                        "activation_width": 8,
                        "exponent_width": 0,
                    },
                    targets=ALL_TARGETS,
                    placed=("ecp5",),
                    kinds=("simulation", "mutation"),
                ),
                "32 lanes x 4 ways, no exponents": Variant(
                    params={
                        "ways": 4,
                        "blocks": 1,
                        "weight_width": 18,
                        "activation_width": 18,
                        "exponent_width": 0,
                    },
                ),
            },
        ),
        Core(
            name="gemv",
            title="Matrix-vector product of compressed weights at memory bandwidth",
            config=spec.GemvConfig,
            component=Gemv,
            case=gemv.case,
            paper="SeedLM, section 4.2",
            variants={
                "4 bits, 64 bytes": Variant(targets=("xcup",), kinds=("cocotb", "cycles")),
                "3 bits, 64 bytes": Variant(
                    params={"block": 12, "latent": 4}, targets=("xcup",), kinds=()
                ),
                "4 bits, 8 bytes": Variant(
                    params=SMALL_GEMV,
                    placed=("ecp5",),
                    kinds=("simulation", "mutation"),
                    main=SIMULATED,
                ),
                "3 bits, 8 bytes": Variant(
                    params={"block": 12, "latent": 4, **SMALL_GEMV, "beat_bits": 72}, targets=()
                ),
                "lut4, 64 bytes": Variant(
                    params={"decode": "lut4"}, targets=("xcup",), kinds=("cycles",)
                ),
                "lut4, 8 bytes": Variant(
                    params={"decode": "lut4", "level_load": 4, **SMALL_GEMV}, kinds=("simulation",)
                ),
                "plain, 64 bytes": Variant(params={"decode": "plain"}, targets=("xcup",), kinds=()),
                "plain, 8 bytes": Variant(
                    params={"decode": "plain", **SMALL_GEMV}, targets=(), kinds=("simulation",)
                ),
                "4 bits, 64 bytes, 4 vectors": Variant(
                    params={"vectors": 4}, targets=("xcup",), kinds=("cycles",)
                ),
                "4 bits, 8 bytes, 4 vectors": Variant(
                    params={"vectors": 4, **SMALL_GEMV}, kinds=()
                ),
                "4 bits, 64 bytes, side path": Variant(
                    params=SIDE_PATH, targets=("xcup",), kinds=()
                ),
                "4 bits, 64 bytes, streamed side path": Variant(
                    params={**SIDE_PATH, "entries": 0}, targets=("xcup",), kinds=("cycles",)
                ),
                "4 bits, 8 bytes, side path": Variant(
                    params={**SMALL_GEMV, "entries": 256},
                    placed=("ecp5",),
                    kinds=("simulation",),
                ),
            },
            small=SMALL_GEMV,
        ),
        Core(
            name="sparse_mac",
            title="Sparse, trainable part of a matrix: products added to dense sums, updates",
            config=spec.SparseMacConfig,
            component=SparseMac,
            case=sparse_mac.case,
            paper="SensZOQ, sections 3 and 4",
            small=SMALL_SPARSE,
            variants={
                "4,096 entries": Variant(placed=("ecp5",), kinds=CHECKED, main=PLACED),
                "streamed entries": Variant(
                    params={"entries": 0}, placed=("ecp5",), kinds=CHECKED, main=SIMULATED
                ),
                "64 entries": Variant(params=SMALL_SPARSE, targets=(), kinds=("mutation",)),
            },
        ),
        Core(
            name="nf4",
            title="4-bit NormalFloat quantiser and dequantiser, block by block",
            config=spec.Nf4Config,
            component=Nf4,
            case=nf4.case,
            paper="InstantFT, section 3.2; QLoRA",
            small={"lanes": 8},
            variants={
                "32 lanes": Variant(placed=("ecp5",), kinds=CHECKED),
                "8 lanes": Variant(
                    params={"lanes": 8}, kinds=("simulation", "mutation"), main=SYNTHESIZED
                ),
            },
        ),
        Core(
            name="softmax_loss",
            title="Softmax, cross-entropy loss and its gradient by lookup tables",
            config=spec.SoftmaxLossConfig,
            component=SoftmaxLoss,
            case=softmax_loss.case,
            paper="InstantFT, section 4.1",
            variants={
                "10 classes": Variant(
                    placed=("ecp5",), kinds=(*CHECKED, "mutation"), main=SYNTHESIZED
                ),
            },
        ),
        Core(
            name="requantize",
            title="Requantizer of a layer's sums to int8, with a maximum search",
            config=spec.RequantizeConfig,
            component=Requantize,
            case=requantize.case,
            paper="ElasticZO, section 4.2; NITI",
            variants={
                "4 ways": Variant(
                    placed=("ecp5",),
                    kinds=(*CHECKED, "mutation"),
                    main=SYNTHESIZED,
                ),
                "4 ways, pseudo-stochastic": Variant(
                    params={"rounding": "pseudo-stochastic"},
                    placed=("ecp5",),
                    kinds=CHECKED,
                ),
            },
        ),
        Core(
            name="loss_sign",
            title="Sign of a batch's loss difference from integer logits",
            config=spec.LossSignConfig,
            component=LossSign,
            case=loss_sign.case,
            paper="ElasticZO, section 4.3",
            variants={
                "10 classes": Variant(
                    placed=("ecp5",), kinds=(*CHECKED, "mutation"), main=SYNTHESIZED
                ),
            },
        ),
        Core(
            name="weight_perturb",
            title="Weights perturbed and updated on their way to the multipliers, by seed",
            config=spec.WeightPerturbConfig,
            component=WeightPerturb,
            case=weight_perturb.case,
            paper="ElasticZO, Algorithm 2",
            small=SMALL_ROWS,
            variants={
                "32 x 4": Variant(kinds=CHECKED),
                "32 x 4, LeNet-5": Variant(
                    params={"used": LENET_ROWS},
                    placed=("ecp5",),
                    kinds=("simulation",),
                    main=SYNTHESIZED,
                ),
                "8 x 2": Variant(params=SMALL_ROWS, kinds=("simulation", "mutation")),
            },
        ),
        Core(
            name="forward_cache",
            title="Cache of 4-bit activations in external memory",
            config=spec.ForwardCacheConfig,
            component=ForwardCache,
            case=forward_cache.case,
            paper="InstantFT, sections 3.1 and 3.2",
            variants={
                "1024 images of LeNet-5": Variant(
                    placed=("ecp5",), kinds=(*CHECKED, "mutation"), main=SYNTHESIZED
                ),
            },
        ),
        Core(
            name="conv_engine",
            title="Inference engine for a frozen convolutional network in integers",
            config=spec.ConvEngineConfig,
            component=ConvEngine,
            case=conv_engine.case,
            paper="InstantFT, section 4.1",
            variants={
                "tiny, 8 lanes": Variant(
                    params=SMALL_NETWORK,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "mutation"),
                    main=SIMULATED,
                ),
                "LeNet-5, 32 lanes": Variant(kinds=()),
            },
            small=SMALL_NETWORK,
        ),
        Core(
            name="lora",
            title="Low-rank adapters on the logits, with training",
            config=spec.LoraConfig,
            component=Lora,
            case=lora.case,
            paper="InstantFT, sections 2.2 and 3.2",
            variants={
                "9 and 6, 8 lanes": Variant(
                    params=SMALL_ADAPTERS,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "mutation"),
                    main=SIMULATED,
                ),
                "LeNet-5, 32 lanes": Variant(kinds=()),
            },
            small=SMALL_ADAPTERS,
        ),
        Core(
            name="instantft",
            title="Fine-tuning of a frozen network by adapters, with an activation cache",
            config=spec.InstantFtConfig,
            component=InstantFt,
            case=instantft.case,
            paper="InstantFT, sections 3 and 4",
            variants={
                "tiny, 8 lanes": Variant(
                    params=SMALL_FINE_TUNING,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "mutation"),
                    main=SIMULATED,
                ),
                "LeNet-5, 32 lanes": Variant(placed=("ecp5",), kinds=("job",)),
                "LeNet-5, 16 lanes": Variant(
                    params={"lanes": 16}, targets=("ecp5",), kinds=("job",)
                ),
                "LeNet-5, 8 lanes": Variant(
                    params={"lanes": 8},
                    targets=("ecp5-45",),
                    placed=("ecp5-45",),
                    kinds=("job",),
                ),
            },
            small=SMALL_FINE_TUNING,
        ),
        Core(
            name="bp_tail",
            title="Backpropagation of the last one or two dense layers in 8-bit integers",
            config=spec.BpTailConfig,
            component=BpTail,
            case=bp_tail.case,
            paper="ElasticZO, section 4; NITI",
            variants={
                "9 and 6, 4 lanes": Variant(
                    params=SMALL_TAIL,
                    kinds=(*CHECKED, "mutation"),
                    main=SIMULATED,
                ),
                "120 and 84, 4 lanes": Variant(placed=("ecp5",), kinds=()),
                "84, 4 lanes": Variant(params={"inputs": (84,)}, placed=("ecp5",), kinds=()),
            },
            small=SMALL_TAIL,
        ),
        Core(
            name="zo_trainer",
            title="Zeroth-order training of a network in int8",
            config=spec.ZoTrainerConfig,
            component=ZoTrainer,
            case=zo_trainer.case,
            paper="ElasticZO, Algorithm 2",
            variants={
                "tiny, 8 lanes": Variant(
                    params=SMALL_TRAINING,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "mutation"),
                    main=SIMULATED,
                ),
                "LeNet-5, 32 lanes": Variant(placed=("ecp5",), kinds=("job",)),
            },
            small=SMALL_TRAINING,
        ),
        Core(
            name="sparse_trainer",
            title="Zeroth-order training of the kept weights of a compressed network",
            config=spec.SparseTrainerConfig,
            component=SparseTrainer,
            case=sparse_trainer.case,
            paper="SensZOQ, sections 3 and 4",
            variants={
                "3 layers of 20": Variant(
                    params=SMALL_KEPT,
                    placed=("ecp5",),
                    kinds=(*CHECKED, "mutation"),
                    main=SIMULATED,
                ),
                "4 bits x 2": Variant(placed=("ecp5",), kinds=("job",)),
            },
            small=SMALL_KEPT,
        ),
        Core(
            name="host_link",
            title="Host link: frames of bytes to registers and a stream of words",
            config=spec.HostLinkConfig,
            component=HostLink,
            case=host_link.case,
            paper="-",
            variants={
                "512 words": Variant(placed=("ecp5",), kinds=CHECKED, main=SYNTHESIZED),
                "16 words": Variant(
                    params={"depth": 16}, targets=(), kinds=("simulation", "mutation")
                ),
            },
        ),
        Core(
            name="sdram",
            title="Controller of an SDR SDRAM, with a port for bursts and a self-test",
            config=spec.SdramConfig,
            component=Sdram,
            case=sdram.case,
            paper="-",
            variants={
                "64 bits": Variant(placed=("ecp5",), kinds=(), main=SYNTHESIZED),
                "32 bits": Variant(params={"beat_bits": 32}, kinds=()),
                "128 bits": Variant(params={"beat_bits": 128}, kinds=()),
                "64 bits, short self-test": Variant(
                    params=SHORT_TEST, targets=(), kinds=(*CHECKED, "mutation"), main=SIMULATED
                ),
            },
            small=SHORT_TEST,
        ),
    ]
}


#: AXI wrappers of cores.
WRAPPERS: dict[str, Core] = {
    core.name: core
    for core in [
        Core(
            name="gemv_axi",
            title="gemv with AXI4-Stream and AXI4-Lite ports",
            config=spec.GemvConfig,
            component=GemvAxi,
            case=gemv.case,
            paper="SeedLM, section 4.2",
            variants={},
            small={
                "block": 4,
                "latent": 2,
                "width": 8,
                "beat_bits": 48,
                "columns": 64,
                "row_width": 8,
            },
            inside="gemv",
            bench="seedbed.sim.gemv_axi_bench",
        ),
        Core(
            name="forward_cache_axi",
            title="forward_cache with AXI4 and AXI4-Stream ports",
            config=spec.ForwardCacheConfig,
            component=ForwardCacheAxi,
            case=forward_cache.case,
            paper="InstantFT, sections 3.1 and 4.1",
            variants={},
            small={"lengths": (200, 70, 9), "entries": 64, "store_lanes": 16, "fetch_lanes": 8},
            inside="forward_cache",
            bench="seedbed.sim.forward_cache_axi_bench",
        ),
        Core(
            name="instantft_axi",
            title="instantft with AXI4, AXI4-Stream and AXI4-Lite ports",
            config=spec.InstantFtConfig,
            component=InstantFtAxi,
            case=instantft.case,
            paper="InstantFT, sections 3 and 4",
            variants={},
            small=SMALL_FINE_TUNING,
            inside="instantft",
            bench="seedbed.sim.instantft_axi_bench",
        ),
        Core(
            name="zo_trainer_axi",
            title="zo_trainer with AXI4-Stream and AXI4-Lite ports",
            config=spec.ZoTrainerConfig,
            component=ZoTrainerAxi,
            case=zo_trainer.case,
            paper="ElasticZO, Algorithm 2",
            variants={},
            small=SMALL_TRAINING,
            inside="zo_trainer",
            bench="seedbed.sim.zo_trainer_axi_bench",
        ),
        Core(
            name="sparse_trainer_axi",
            title="sparse_trainer with AXI4, AXI4-Stream and AXI4-Lite ports",
            config=spec.SparseTrainerConfig,
            component=SparseTrainerAxi,
            case=sparse_trainer.case,
            paper="SensZOQ, sections 3 and 4",
            variants={},
            small=SMALL_KEPT,
            inside="sparse_trainer",
            bench="seedbed.sim.sparse_trainer_axi_bench",
        ),
    ]
}


def find(name: str, cores: Mapping[str, Core] = CORES) -> Core:
    """Return the core ``name`` of ``cores``, or raise :class:`UnknownCore`."""
    if name in WRAPPERS and name not in cores:
        raise UnknownCore(
            f"{name} is an AXI wrapper, for 'verilog', 'ports', 'cocotb' and 'synth'; this "
            f"command takes the core inside, {WRAPPERS[name].inside!r}"
        )
    if name not in cores:
        raise UnknownCore(
            f"no core is called {name!r}{suggestion(name, cores)}; there are {', '.join(cores)}"
        )
    return cores[name]


def find_verilog(name: str) -> Core:
    """Return the core or wrapper ``name``, or raise :class:`UnknownCore`."""
    return find(name, CORES | WRAPPERS)
