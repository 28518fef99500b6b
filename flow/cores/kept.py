"""Training of the kept weights of a compressed network."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.kept.sparse_trainer import SparseTrainer
from seedbed.sim.cases import sparse_trainer

__all__ = ["CORES"]

CORES = [
    Core(
        name="sparse_trainer",
        title="Zeroth-order training of the kept weights of a compressed network",
        config=spec.SparseTrainerConfig,
        component=SparseTrainer,
        case=sparse_trainer.case,
        paper="SensZOQ, sections 3 and 4",
    ),
]
