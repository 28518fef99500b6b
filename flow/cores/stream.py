"""Programs in external memory."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.sim.cases import stream_engine

__all__ = ["CORES"]

CORES = [
    Core(
        name="stream_engine",
        title="Programs in external memory: transformers and dense networks",
        config=spec.StreamEngineConfig,
        component=StreamEngine,
        case=stream_engine.case,
        paper="",
    ),
]
