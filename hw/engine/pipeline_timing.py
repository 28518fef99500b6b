"""Cycles of programs on the inference pipeline, from the latencies of its parts."""

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.hw.engine.dynamic_writer import DynamicWriter
from seedbed.hw.engine.layer_sequencer import LayerSequencer
from seedbed.hw.engine.layer_writer import LayerWriter
from seedbed.hw.engine.output_queue import OutputQueue
from seedbed.hw.products import mac_array
from seedbed.spec.engine import EngineConfig
from seedbed.spec.plan import Step

__all__ = ["cycles", "latency", "writer"]


def writer(config: EngineConfig) -> type[LayerWriter] | type[DynamicWriter]:
    """Return what makes activations of sums."""
    return DynamicWriter if config.dynamic else LayerWriter


def latency(config: EngineConfig, step: Step) -> int:
    """Return the cycles from a step's last beat to its last outputs in the store."""
    sums = ActivationStore.latency + mac_array.latency(config.mac)
    return sums + writer(config).step_latency(config, step)


def cycles(config: EngineConfig, first: int, stop: int) -> int:
    """Return the cycles of a plan's steps from ``start`` to the last outputs at port ``o``.

    A step that waits begins when the outputs of the one before it have been written.
    """
    total, steps = LayerSequencer.latency, config.plan.steps[first:stop]
    for k, step in enumerate(steps):
        last = k == len(steps) - 1
        waits = last or steps[k + 1].waits
        total += step.cycles(config.plan.ways)
        total += latency(config, step) if waits else LayerSequencer.interval - 1
    # From the last beat, and not from the cycle after it.
    return total - 1 + OutputQueue.latency
