"""Weights that are stored in few bits, and their way back to numbers."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.weights.lut_dequantize import LutDequantize
from seedbed.hw.weights.nf4 import Nf4
from seedbed.hw.weights.seedlm_decompress import SeedlmDecompress
from seedbed.hw.weights.trellis_decompress import TrellisDecompress
from seedbed.sim.cases import lut_dequantize, nf4, seedlm_decompress, trellis_decompress

__all__ = ["CORES"]

CORES = [
    Core(
        name="seedlm_decompress",
        title="Decompressor of weights stored as LFSR seeds",
        config=spec.SeedlmDecompressConfig,
        component=SeedlmDecompress,
        case=seedlm_decompress.case,
        paper="SeedLM, sections 3.2 and 4.2",
    ),
    Core(
        name="lut_dequantize",
        title="Dequantizer of 4-bit codes with a table of 16 levels a row",
        config=spec.LutDequantizeConfig,
        component=LutDequantize,
        case=lut_dequantize.case,
        paper="SqueezeLLM, section 4.1",
    ),
    Core(
        name="trellis_decompress",
        title="Decompressor of weights stored as a path through a trellis",
        config=spec.TrellisDecompressConfig,
        component=TrellisDecompress,
        case=trellis_decompress.case,
        paper="QTIP, section 3",
    ),
    Core(
        name="nf4",
        title="4-bit NormalFloat quantiser and dequantiser, block by block",
        config=spec.Nf4Config,
        component=Nf4,
        case=nf4.case,
        paper="InstantFT, section 3.2; QLoRA",
    ),
]
