"""Streams of random commands, packets, samples and memory faults, each followed by a good job.

A module a core. A frame is what one sender might do wrong: it runs to its end, or until a reset.
The good job after it must give what the model says, whatever the frame was.
"""

from dataclasses import replace
from importlib import import_module

__all__ = ["HOSTILE"]

#: Cores in the order of the list of cores.
CORES = ("instantft", "gemv", "stream_engine", "stream_trainer", "sparse_trainer")
HOSTILE = tuple(
    replace(frames, core=core)
    for core in CORES
    for frames in import_module(f"{__name__}.{core}_frames").HOSTILE
)
