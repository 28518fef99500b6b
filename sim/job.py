"""A job of a core as arrays: what is sent and what must come back, act by act."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from amaranth.hdl import ShapeLike

from seedbed.sim.harness import Mismatch
from seedbed.sim.payloads import unpack

__all__ = ["Act", "Difference", "Epoch", "Memory", "Result", "check", "every_epoch"]

#: Returns what an epoch of a model's training gives, by name: it calls the function, which trains,
#: or has the result of an earlier call. The epoch's number is counted from 0.
Epoch = Callable[[int, Callable[[], dict[str, np.ndarray]]], Mapping[str, np.ndarray]]


def every_epoch(
    number: int, train: Callable[[], dict[str, np.ndarray]]
) -> Mapping[str, np.ndarray]:
    """Train in each epoch: an :data:`Epoch` that keeps nothing."""
    return train()


@dataclass(frozen=True)
class Difference:
    """Where an output differs from what is expected: the first payload that does.

    Parameters
    ----------
    at
        Its place.
    found, wanted
        A field of all payloads that came, and that are expected: a function of its name.
    """

    at: int
    found: Callable[[str], np.ndarray]
    wanted: Callable[[str], np.ndarray]

    def fields(self, *names: str) -> tuple[list[int], list[int]]:
        """Return fields of the payload that came, and of the one that is expected."""
        both = self.found, self.wanted
        found, wanted = ([int(of(name)[self.at, 0]) for name in names] for of in both)
        return found, wanted


@dataclass(frozen=True, kw_only=True)
class Act:
    """A part of a job, which begins when the one before has ended.

    Payloads are uint32 (count, words), the low word first.

    Parameters
    ----------
    name
        What its results are called.
    inputs
        Of each input, its payloads; or payloads that the bench has stored, by their number and how
        many are sent, the first one again after the last one. Without: none.
    outputs
        Of each output, the payloads that must come. Without: none.
    counts
        Of outputs that are not compared, how many payloads come.
    ends
        The output whose ``last`` ends the act, however many payloads were sent and came. A packet
        that was begun is sent whole. Without: the act ends when all payloads are transferred.
    messages
        Of each output, the sentence for a difference.
    """

    name: str
    inputs: Mapping[str, np.ndarray | tuple[int, int]] = field(default_factory=dict)
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    ends: str = ""
    messages: Mapping[str, Callable[[Difference], str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of an act.

    Parameters
    ----------
    payloads, layouts
        By output: the payloads that came, and the shape of a payload.
    cycles, beats
        Cycles of the act, and beats that were read from the memory.
    first
        The cycle of the first transfer of each input, from the act's first cycle; 0 without one.
    when
        By output: the cycles of its transfers.
    values
        At the act's end, outputs that are no streams.
    counts
        Of each probe, by row.
    """

    payloads: Mapping[str, np.ndarray]
    layouts: Mapping[str, ShapeLike]
    cycles: int = 0
    beats: int = 0
    first: Mapping[str, int] = field(default_factory=dict)
    when: Mapping[str, np.ndarray] = field(default_factory=dict)
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    counts: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), np.uint32))

    def field(self, port: str, name: str) -> np.ndarray:
        """Return a field of all payloads of an output."""
        return unpack(self.layouts[port], self.payloads[port], name)[:, 0]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """How a core's memory behaves.

    Parameters
    ----------
    latency
        The least and the most cycles to the first beat of a burst, or to the answer of one that was
        written; drawn for each.
    gaps
        Of 16 cycles, in so many it neither gives nor takes a beat, at random.
    fault
        The burst, counted from 0, that is answered with an error.
    """

    latency: tuple[int, int] = (20, 60)
    gaps: int = 0
    fault: int | None = None


def check(acts: Iterable[Act], results: Mapping[str, Result]) -> None:
    """Raise :class:`Mismatch` where what came of acts, by their names, is not what is expected."""
    for act in acts:
        for port, wanted in act.outputs.items():
            _compare(act, port, wanted, results[act.name])


def _compare(act: Act, port: str, wanted: np.ndarray, result: Result) -> None:
    found = result.payloads[port]
    count = min(len(found), len(wanted))
    different = np.flatnonzero((found[:count] != wanted[:count]).any(axis=1))
    if len(different):
        of = partial(unpack, result.layouts[port])
        place = Difference(int(different[0]), partial(of, found), partial(of, wanted))
        raise Mismatch(act.messages[port](place))
    if len(found) != len(wanted):
        raise Mismatch(f"{act.name}: {port} gave {len(found)} payloads, not {len(wanted)}")
