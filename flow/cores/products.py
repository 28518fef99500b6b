"""Products of matrices and vectors: dense, compressed and sparse."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.products.gemv import Gemv
from seedbed.hw.products.mac_array import MacArray
from seedbed.hw.products.sparse_mac import SparseMac
from seedbed.sim.cases import gemv, mac_array, sparse_mac

__all__ = ["CORES"]

CORES = [
    Core(
        name="mac_array",
        title="Multiply-accumulate array with sums by block, beat and frame",
        config=spec.MacArrayConfig,
        component=MacArray,
        case=mac_array.case,
        paper="SeedLM, section 4.2",
    ),
    Core(
        name="gemv",
        title="Matrix-vector product of compressed weights at memory bandwidth",
        config=spec.GemvConfig,
        component=Gemv,
        case=gemv.case,
        paper="SeedLM, section 4.2",
    ),
    Core(
        name="sparse_mac",
        title="Sparse, trainable part of a matrix: products added to dense sums, updates",
        config=spec.SparseMacConfig,
        component=SparseMac,
        case=sparse_mac.case,
        paper="SensZOQ, sections 3 and 4",
    ),
]
