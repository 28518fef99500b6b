"""Validated configurations, tap tables and number formats, each with its source."""

from seedbed.spec.bp_tail import BP_TAIL_ERRORS, BpTailConfig
from seedbed.spec.conv_engine import CONV_ENGINE_STATUS, ConvEngineConfig
from seedbed.spec.forward_cache import (
    FORWARD_CACHE_KINDS,
    FORWARD_CACHE_STATUS,
    ForwardCacheConfig,
)
from seedbed.spec.gemv import GEMV_STATUS, GemvConfig
from seedbed.spec.host_link import HostLinkConfig
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS, InstantFtConfig
from seedbed.spec.lfsr import TAPS, LfsrConfig
from seedbed.spec.lora import LORA_KINDS, LORA_STATUS, LoraConfig
from seedbed.spec.loss_sign import LossSignConfig
from seedbed.spec.lut_dequantize import LutDequantizeConfig
from seedbed.spec.lutopt import LutoptConfig
from seedbed.spec.mac_array import MacArrayConfig
from seedbed.spec.nf4 import Nf4Config
from seedbed.spec.perturbation import PerturbationConfig
from seedbed.spec.prng_pool import PoolConfig
from seedbed.spec.requantize import RequantizeConfig
from seedbed.spec.scale_lut import ScaleConfig
from seedbed.spec.sdram import SDRAM_CHIPS, SdramChip, SdramConfig
from seedbed.spec.seedlm import RULES, SCALES, SEEDLM, SeedlmConfig
from seedbed.spec.seedlm_decompress import SeedlmDecompressConfig
from seedbed.spec.skid_buffer import SkidBufferConfig
from seedbed.spec.softmax_loss import SoftmaxLossConfig
from seedbed.spec.sparse_mac import SPARSE_MAC_KINDS, SPARSE_MAC_STATUS, SparseMacConfig
from seedbed.spec.sparse_trainer import (
    SPARSE_TRAINER_KINDS,
    SPARSE_TRAINER_STATUS,
    DenseLayer,
    SparseTrainerConfig,
)
from seedbed.spec.stream_engine import (
    STREAM_ENGINE_KINDS,
    STREAM_ENGINE_STATUS,
    StreamEngineConfig,
)
from seedbed.spec.stream_trainer import (
    STREAM_TRAINER_KINDS,
    STREAM_TRAINER_STATUS,
    StreamTrainerConfig,
)
from seedbed.spec.tree_grng import TreeGrngConfig
from seedbed.spec.trellis import TrellisConfig
from seedbed.spec.trellis_decompress import TrellisDecompressConfig
from seedbed.spec.urng_array import UrngConfig
from seedbed.spec.vector_unit import VECTOR_OPERATIONS, VectorUnitConfig
from seedbed.spec.weight_perturb import WeightPerturbConfig
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZO_TRAINER_STATUS, ZoTrainerConfig

__all__ = [
    "BP_TAIL_ERRORS",
    "CONV_ENGINE_STATUS",
    "FORWARD_CACHE_KINDS",
    "FORWARD_CACHE_STATUS",
    "GEMV_STATUS",
    "INSTANTFT_KINDS",
    "INSTANTFT_STATUS",
    "LORA_KINDS",
    "LORA_STATUS",
    "RULES",
    "SCALES",
    "SDRAM_CHIPS",
    "SEEDLM",
    "SPARSE_MAC_KINDS",
    "SPARSE_MAC_STATUS",
    "SPARSE_TRAINER_KINDS",
    "SPARSE_TRAINER_STATUS",
    "STREAM_ENGINE_KINDS",
    "STREAM_ENGINE_STATUS",
    "STREAM_TRAINER_KINDS",
    "STREAM_TRAINER_STATUS",
    "TAPS",
    "VECTOR_OPERATIONS",
    "ZO_TRAINER_KINDS",
    "ZO_TRAINER_STATUS",
    "BpTailConfig",
    "ConvEngineConfig",
    "DenseLayer",
    "ForwardCacheConfig",
    "GemvConfig",
    "HostLinkConfig",
    "InstantFtConfig",
    "LfsrConfig",
    "LoraConfig",
    "LossSignConfig",
    "LutDequantizeConfig",
    "LutoptConfig",
    "MacArrayConfig",
    "Nf4Config",
    "PerturbationConfig",
    "PoolConfig",
    "RequantizeConfig",
    "ScaleConfig",
    "SdramChip",
    "SdramConfig",
    "SeedlmConfig",
    "SeedlmDecompressConfig",
    "SkidBufferConfig",
    "SoftmaxLossConfig",
    "SparseMacConfig",
    "SparseTrainerConfig",
    "StreamEngineConfig",
    "StreamTrainerConfig",
    "TreeGrngConfig",
    "TrellisConfig",
    "TrellisDecompressConfig",
    "UrngConfig",
    "VectorUnitConfig",
    "WeightPerturbConfig",
    "ZoTrainerConfig",
]
