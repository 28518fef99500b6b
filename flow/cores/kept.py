"""Training of the kept weights of a compressed network."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.kept.sparse_trainer import SparseTrainer
from seedbed.hw.kept.stream_trainer import StreamTrainer
from seedbed.sim.cases import sparse_trainer, stream_trainer

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
    Core(
        name="stream_trainer",
        title="Zeroth-order training of the kept weights of a program, on samples in memory",
        config=spec.StreamTrainerConfig,
        component=StreamTrainer,
        case=stream_trainer.case,
        paper="MeZO, algorithm 1; SensZOQ, section 3",
    ),
]
