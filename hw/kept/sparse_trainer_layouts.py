"""Layouts of the streams of commands of the trainer of kept weights."""

from amaranth.hdl import signed
from amaranth.lib import data

from seedbed.spec import SparseTrainerConfig
from seedbed.spec.lutopt import SEED_BITS
from seedbed.spec.sparse_trainer import BATCH_BITS, RATE_BITS, RATE_SHIFT_BITS

__all__ = ["job_layout", "log_layout", "status_layout"]


def job_layout(config: SparseTrainerConfig) -> data.StructLayout:
    """Return the layout of a command of :class:`~seedbed.hw.kept.sparse_trainer.SparseTrainer`."""
    fields = {"kind": 3, "samples": 32, "epochs": 16, "batch": BATCH_BITS, "seed": SEED_BITS}
    fields |= {"rate": RATE_BITS, "decay": RATE_BITS, "shift": RATE_SHIFT_BITS}
    return data.StructLayout(fields)


def log_layout(config: SparseTrainerConfig) -> data.StructLayout:
    """Return the layout of a step in the log: ``seed``, ``gain``."""
    return data.StructLayout({"seed": SEED_BITS, "gain": signed(config.gain_width)})


def status_layout() -> data.StructLayout:
    """Return the layout of how a command ended.

    ``kind``, ``status``, ``steps`` of training, and how many of their gains ``saturated``.
    """
    return data.StructLayout({"kind": 3, "status": 4, "steps": 32, "saturated": 32})
