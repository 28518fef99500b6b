"""Layouts of the streams of commands of the trainer of programs."""

from amaranth.hdl import signed
from amaranth.lib import data

from seedbed.hw.kept.sample_reader import HEAD_BITS, VECTORS_BITS
from seedbed.hw.stream import stream_layouts
from seedbed.spec.engine_records import KEPT
from seedbed.spec.sparse_trainer import BATCH_BITS, RATE_BITS, RATE_SHIFT_BITS
from seedbed.spec.stream_trainer import (
    STREAM_TRAINER_KINDS,
    STREAM_TRAINER_STATUS,
    StreamTrainerConfig,
)

__all__ = ["CHANGE_BITS", "job_layout", "log_layout", "status_layout"]

#: Bits of what a value changes in a step, signed.
CHANGE_BITS = KEPT["difference"]


def job_layout(config: StreamTrainerConfig) -> data.StructLayout:
    """Return the layout of a command of :class:`~seedbed.hw.kept.stream_trainer.StreamTrainer`."""
    engine = stream_layouts.job_layout(config).members
    vectors = {"vectors": VECTORS_BITS} if config.inputs else {}
    counts = {"samples": 32, "epochs": 16, "batch": BATCH_BITS, "head": HEAD_BITS, **vectors}
    gains = {"rate": RATE_BITS, "decay": RATE_BITS, "shift": RATE_SHIFT_BITS}
    return data.StructLayout({**engine, **counts, **gains, "most": CHANGE_BITS - 1})


def log_layout(config: StreamTrainerConfig) -> data.StructLayout:
    """Return the layout of a step in the log: ``seed``, ``change``."""
    return data.StructLayout({"seed": config.seeds.width, "change": signed(CHANGE_BITS)})


def status_layout() -> data.StructLayout:
    """Return the layout of how a command ended: ``kind``, ``status``, ``steps`` of training."""
    kinds, codes = range(len(STREAM_TRAINER_KINDS)), range(len(STREAM_TRAINER_STATUS))
    return data.StructLayout({"kind": kinds, "status": codes, "steps": 32})
