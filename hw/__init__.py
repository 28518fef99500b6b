"""RTL in Amaranth, in rooms: one component a module. A core's module has the core's name."""

from seedbed.hw.adapters.instantft import InstantFt
from seedbed.hw.adapters.lora import Lora
from seedbed.hw.axi.forward_cache_axi import ForwardCacheAxi
from seedbed.hw.axi.gemv_axi import GemvAxi
from seedbed.hw.axi.instantft_axi import InstantFtAxi
from seedbed.hw.axi.sparse_trainer_axi import SparseTrainerAxi
from seedbed.hw.axi.stream_engine_axi import StreamEngineAxi
from seedbed.hw.axi.stream_trainer_axi import StreamTrainerAxi
from seedbed.hw.axi.zo_trainer_axi import ZoTrainerAxi
from seedbed.hw.engine.conv_engine import ConvEngine
from seedbed.hw.engine.requantize import Requantize
from seedbed.hw.generators.lfsr import Lfsr
from seedbed.hw.generators.lutopt import Lutopt
from seedbed.hw.generators.perturbation import Perturbation
from seedbed.hw.generators.prng_pool import PrngPool
from seedbed.hw.generators.scale_lut import ScaleLut
from seedbed.hw.generators.tree_grng import TreeGrng
from seedbed.hw.generators.urng_array import UrngArray
from seedbed.hw.generators.weight_perturb import WeightPerturb
from seedbed.hw.host.host_link import HostLink
from seedbed.hw.kept.sparse_trainer import SparseTrainer
from seedbed.hw.kept.stream_trainer import StreamTrainer
from seedbed.hw.loss.loss_sign import LossSign
from seedbed.hw.loss.softmax_loss import SoftmaxLoss
from seedbed.hw.memory.forward_cache import ForwardCache
from seedbed.hw.memory.sdram import Sdram
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.hw.products.gemv import Gemv
from seedbed.hw.products.mac_array import MacArray
from seedbed.hw.products.sparse_mac import SparseMac
from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.hw.tail.bp_tail import BpTail
from seedbed.hw.vectors.vector_unit import VectorUnit
from seedbed.hw.weights.lut_dequantize import LutDequantize
from seedbed.hw.weights.nf4 import Nf4
from seedbed.hw.weights.seedlm_decompress import SeedlmDecompress
from seedbed.hw.weights.trellis_decompress import TrellisDecompress
from seedbed.hw.zeroth_order.zo_trainer import ZoTrainer

__all__ = [
    "BpTail",
    "ConvEngine",
    "ForwardCache",
    "ForwardCacheAxi",
    "Gemv",
    "GemvAxi",
    "HostLink",
    "InstantFt",
    "InstantFtAxi",
    "Lfsr",
    "Lora",
    "LossSign",
    "LutDequantize",
    "Lutopt",
    "MacArray",
    "Nf4",
    "Perturbation",
    "PrngPool",
    "Requantize",
    "ScaleLut",
    "Sdram",
    "SeedlmDecompress",
    "SkidBuffer",
    "SoftmaxLoss",
    "SparseMac",
    "SparseTrainer",
    "SparseTrainerAxi",
    "StreamEngine",
    "StreamEngineAxi",
    "StreamTrainer",
    "StreamTrainerAxi",
    "TreeGrng",
    "TrellisDecompress",
    "UrngArray",
    "VectorUnit",
    "WeightPerturb",
    "ZoTrainer",
    "ZoTrainerAxi",
]
