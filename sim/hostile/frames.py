"""Parts of the scripts of hostile frames, and what names one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seedbed.sim.case import Phase
from seedbed.sim.memory_bench import PORTS
from seedbed.sim.verilog.script import step

__all__ = ["SILENT", "Hostile", "define", "steps_of", "stored"]

#: The script's memory gives a burst's first beat after up to 41 cycles: a core that has lost count
#: of the beats, as after a burst that was too long, must wait for longer until none can come.
SILENT = {"drain_cycles": 64}


@dataclass(frozen=True)
class Hostile:
    """Frames for one configuration of a core: its small one, with ``more`` in it."""

    config: str
    #: ``steps(config, frames=..., seed=...)`` yields the script.
    steps: Callable[..., Iterator[str]]
    more: Mapping[str, Any] = field(default_factory=dict)
    #: Set where all frames are listed: their module is the core's.
    core: str = ""


def define(name: str, steps: list[str]) -> list[str]:
    """Return steps that are called by a name."""
    return [f"define {name}", *steps, "end"]


def steps_of(phase: Phase) -> list[str]:
    """Return the steps of a phase, but for those of the memory."""
    both = (("send", phase.inputs), ("expect", phase.outputs))
    steps = [
        step(word, name, payloads)
        for word, ports in both
        for name, payloads in ports.items()
        if name not in PORTS
    ]
    return [*steps, "done"]


def stored(beats: Sequence[int]) -> str:
    """Return the step that puts beats into the memory from address 0 on."""
    return step("store", "0", beats)
