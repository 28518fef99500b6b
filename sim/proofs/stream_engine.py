"""Proofs of the streamed engine: of its sums, its results, the walk of its records, its memory."""

from seedbed.sim.proofs import (
    stream_engine_memory,
    stream_engine_results,
    stream_engine_sums,
    stream_engine_walk,
)

__all__ = ["PROOFS"]

PROOFS = (
    *stream_engine_memory.PROOFS,
    *stream_engine_sums.PROOFS,
    *stream_engine_results.PROOFS,
    *stream_engine_walk.PROOFS,
)
