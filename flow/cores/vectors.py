"""Operations on vectors beside the products of matrices."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.vectors.vector_unit import VectorUnit
from seedbed.sim.cases import vector_unit

__all__ = ["CORES"]

CORES = [
    Core(
        name="vector_unit",
        title="Norms, softmax, rotations, products and activations of vectors",
        config=spec.VectorUnitConfig,
        component=VectorUnit,
        case=vector_unit.case,
        paper="",
    ),
]
