"""A job of a core as arrays: what is sent and what must come back, act by act."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from amaranth.hdl import Shape, ShapeLike

from seedbed.sim.harness import Mismatch
from seedbed.sim.payloads import unpack

__all__ = ["Act", "Difference", "Memory", "Result", "check", "words"]


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
        Of each output, how many payloads come, or the payloads. Without: none.
    ends
        The output whose ``last`` ends the act, however many payloads were sent and came. A packet
        that was begun is sent whole. Without: the act ends when all payloads are transferred.
    tells
        Of each output with expected payloads, the sentence for a difference.
    """

    name: str
    inputs: Mapping[str, np.ndarray | tuple[int, int]] = field(default_factory=dict)
    outputs: Mapping[str, np.ndarray | int] = field(default_factory=dict)
    ends: str = ""
    tells: Mapping[str, Callable[[Difference], str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of an act.

    Parameters
    ----------
    cycles, beats
        Cycles of the act, and beats that were read from the memory.
    first
        The cycle of the first transfer of each input, from the act's first cycle; 0 without one.
    when, payloads
        By output: the cycles of its transfers, and their payloads.
    layouts
        By output: the shape of a payload.
    values
        At the act's end, outputs that are no streams.
    counts
        Of each probe, by row.
    """

    cycles: int
    beats: int
    first: Mapping[str, int]
    when: Mapping[str, np.ndarray]
    payloads: Mapping[str, np.ndarray]
    layouts: Mapping[str, ShapeLike]
    values: Mapping[str, np.ndarray]
    counts: np.ndarray

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


def words(payloads: Sequence[int], shape: ShapeLike) -> np.ndarray:
    """Return payloads, integers of their bits, as words: uint32 (count, words)."""
    size = -(-Shape.cast(shape).width // 32) * 4
    raw = b"".join(payload.to_bytes(size, "little") for payload in payloads)
    return np.frombuffer(raw, "<u4").reshape(len(payloads), -1)


def check(act: Act, result: Result) -> None:
    """Raise :class:`Mismatch` where what came of an act is not what is expected."""
    for port, wanted in act.outputs.items():
        if isinstance(wanted, int):
            continue
        found = result.payloads[port]
        count = min(len(found), len(wanted))
        different = np.flatnonzero((found[:count] != wanted[:count]).any(axis=1))
        if len(different):
            layout = result.layouts[port]
            raise Mismatch(
                act.tells[port](
                    Difference(
                        int(different[0]),
                        lambda name, layout=layout, found=found: unpack(layout, found, name),
                        lambda name, layout=layout, wanted=wanted: unpack(layout, wanted, name),
                    )
                )
            )
        if len(found) != len(wanted):
            raise Mismatch(f"{act.name}: {port} gave {len(found)} payloads, not {len(wanted)}")
