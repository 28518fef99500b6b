"""Jobs of a core whose streams are those of the host link: RTL around the core, and the host."""

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from amaranth.hdl import Cat, ResetInserter, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from seedbed.boards.device import Device
from seedbed.boards.registers import Register
from seedbed.boards.sender import LinkFailure
from seedbed.boards.streams import (
    OUTPUT_BITS,
    Input,
    Output,
    WordMerger,
    WordSplitter,
    packet,
    payloads,
    tagged,
)
from seedbed.sim.harness import Mismatch
from seedbed.sim.job import Act, Result, check

__all__ = [
    "JOB_REGISTERS",
    "StreamJob",
    "act_packets",
    "add_job",
    "exchange",
    "feed",
    "give",
    "places",
    "require_job",
    "start",
]

#: Registers of every application of this kind.
JOB_REGISTERS = (
    Register("hold", "write", "1: the core is reset, and words from the host are discarded"),
    Register("origin_in", "write", "for the host: position of the job's first word to the board"),
    Register("origin_out", "write", "for the host: position of the job's first word to the host"),
    Register("digest", "write", "for the host: CRC-32 of the job's words"),
    Register("jobs", "read", "number of jobs that were started"),
    Register("cycles", "read", "cycles from the start of the job to its last word to the host"),
    Register("waits", "read", "cycles of them in which the board waited for a word from the host"),
)
#: Seconds between two readings of the board's words while words are sent.
INTERVAL = 0.05


def add_job(m, app, inputs: Sequence[Input], outputs: Sequence[Output]):
    """Add splitter, merger and counters to an application; return splitter and merger.

    The core is reset by ``control.hold``, too.
    """
    hold, before = app.control.hold[0], Signal()
    jobs, cycles, last, waits, waited = (Signal(32) for _ in range(5))
    splitter, merger = WordSplitter(inputs), WordMerger(outputs)
    m.submodules.splitter = ResetInserter(hold)(splitter)
    m.submodules.merger = ResetInserter(hold)(merger)
    m.d.comb += [
        splitter.i.valid.eq(app.i.valid & ~hold),
        splitter.i.payload.eq(app.i.payload),
        app.i.ready.eq(splitter.i.ready | hold),
        app.status.jobs.eq(jobs),
        app.status.cycles.eq(last),
        app.status.waits.eq(waited),
    ]
    connect(m, merger.o, flipped(app.o))
    m.d.sync += [before.eq(hold), cycles.eq(cycles + 1), waits.eq(waits + splitter.waits)]
    with m.If(merger.o.valid & merger.o.ready):
        m.d.sync += [last.eq(cycles), waited.eq(waits)]
    with m.If(before & ~hold):
        m.d.sync += [jobs.eq(jobs + 1), cycles.eq(0), waits.eq(0), last.eq(0), waited.eq(0)]
    return splitter, merger


def feed(m, out, port) -> None:
    """Connect an output of a splitter to a core: data, tag, and last are its payload's fields."""
    beat = out.payload
    m.d.comb += [
        port.valid.eq(out.valid),
        out.ready.eq(port.ready),
        Value.cast(port.payload).eq(Cat(beat.data, beat.tag, beat.last)),
    ]


def give(m, port, into) -> None:
    """Connect an output of a core to an input of a merger."""
    m.d.comb += [
        into.valid.eq(port.valid),
        port.ready.eq(into.ready),
        into.payload.eq(Value.cast(port.payload)),
    ]


class StreamJob:
    """A job: words to the board, and the acts of a core whose outputs come back.

    Parameters
    ----------
    words
        All words of the job, uint32.
    acts
        The acts.
    outputs
        The ports of words to the host.
    layouts
        The core's outputs, in their order, with the layouts of their payloads.
    """

    def __init__(
        self, words: np.ndarray, acts: Sequence[Act] = (), outputs: Sequence[Output] = (),
        layouts: Mapping[str, data.StructLayout] = MappingProxyType({}),
    ):  # fmt: skip
        self.words, self.acts, self.layouts = words, acts, layouts
        self.outputs = dict(zip(layouts, outputs, strict=True))
        self.digest = zlib.crc32(words.astype("<u4").tobytes())
        self._wanted = {
            port: tagged(place, output, _joined(port, acts))
            for place, (port, output) in enumerate(self.outputs.items())
        }
        self.expected = sum(map(len, self._wanted.values()))

    def require_same(self, words: np.ndarray) -> None:
        """Raise :class:`Mismatch` where words are not those of the acts.

        The first ones, which another host has read, may be missing.
        """
        for place, (port, wanted) in enumerate(self._wanted.items()):
            came = words[words >> OUTPUT_BITS == place]
            missing = len(wanted) - len(came)
            first = missing if len(words) < self.expected else 0
            if not np.array_equal(came, wanted[first:]):
                name, where = (
                    self.outputs[port].name,
                    "" if missing else self._difference(port, came),
                )
                raise Mismatch(f"{name}: what the board sent differs from the model{where}")

    def _difference(self, port: str, words: np.ndarray) -> str:
        """Return the sentence of the act whose payloads differ."""
        (numbers,) = payloads([self.outputs[port]], words & (1 << OUTPUT_BITS) - 1).values()
        found = np.stack([numbers, numbers >> 32], axis=1).astype("<u4")
        for act in self.acts:
            wanted = act.outputs.get(port, found[:0])
            own, found = np.split(found, [len(wanted)])
            own = np.ascontiguousarray(own[:, : wanted.shape[1]])
            try:
                result = Result(payloads={port: own}, layouts=self.layouts)
                check([replace(act, outputs={port: wanted})], {act.name: result})
            except Mismatch as mismatch:
                return f": {mismatch}"
        return ""

    def start(self, device: Device) -> None:
        """End an earlier job, discard what is left of it, and start this one."""
        start(device, self.digest)

    def run(
        self,
        device: Device,
        *,
        resume: bool = False,
        progress: Callable[[np.ndarray], object] = lambda words: None,
        patience: float = 60,
    ) -> tuple[int, np.ndarray]:
        """Run the job; return the place of the first word that this host has read, and the words.

        Parameters
        ----------
        device
            The board.
        resume
            Whether to continue a job that another host started.
        progress
            Called with all words so far, whenever some were read.
        patience
            Seconds without a word in either direction.

        Raises ``ValueError`` if there is no job to continue, or another one.
        """
        if resume:
            require_job(device, self.digest)
        else:
            self.start(device)
        sent, first = places(device)
        if sent > len(self.words) or first > self.expected:
            raise ValueError("the board has words of another job: start this one without --resume")
        received = exchange(
            device, self.words[sent:], device.position(), self.expected - first,
            progress=progress, patience=patience,
        )  # fmt: skip
        # It discards the last ones.
        device.words((device.read("origin_out") + self.expected) % 2**32, 1)
        return first, received


def act_packets(
    act: Act, inputs: Sequence[Input], names: Mapping[str, str], tag: int = 0
) -> list[np.ndarray]:
    """Return what an act sends as packets, with ``tag`` for those whose port has tags.

    ``names`` has the ports by the core's inputs.
    """
    return [packet(inputs, names[port], payloads, tag) for port, payloads in act.inputs.items()]


def _joined(port: str, acts: Sequence[Act]) -> np.ndarray:
    """Return the payloads that acts expect of an output."""
    return np.concatenate([act.outputs[port] for act in acts if port in act.outputs])


def start(device: Device, digest: int) -> None:
    """End an earlier job, discard what is left of it, and start one with a digest of its words."""
    device.write("hold", 1)
    position = device.position()
    while left := device.words(position, 128):
        position = (position + len(left)) % 2**32
    origins = {"origin_in": device.accepted(), "origin_out": position}
    for name, value in (origins | {"digest": digest}).items():
        device.write(name, value)
    device.write("hold", 0)


def require_job(device: Device, digest: int) -> None:
    """Raise ``ValueError`` if the board has no job to continue, or another one."""
    if not device.read("jobs"):
        raise ValueError("there is no job to continue: the board was reset")
    if device.read("digest") != digest:
        raise ValueError("the board runs another job: its options must be given again")


def places(device: Device) -> tuple[int, int]:
    """Return how many words of the job were sent, and how many were read and are not stored."""
    sent = (device.accepted() - device.read("origin_in")) % 2**32
    return sent, (device.position() - device.read("origin_out")) % 2**32


def exchange(
    device: Device,
    words: np.ndarray,
    position: int,
    expected: int,
    *,
    progress: Callable[[np.ndarray], object] | None = None,
    patience: float = 60,
) -> np.ndarray:
    """Send words, and read what comes back meanwhile and then; return it.

    Parameters
    ----------
    device
        The board.
    words
        What is sent.
    position, expected
        The position of the first word that comes back, and how many come.
    progress
        Called with all words so far, whenever some were read.
    patience
        Seconds without a word in either direction.

    Raises :class:`LinkFailure` if more words come.
    """
    received: list[int] = []
    later = time.monotonic() + INTERVAL

    def take(part: list[int]) -> None:
        received.extend(part)
        if progress:
            progress(np.array(received, np.uint32))

    def read() -> None:
        nonlocal later
        if time.monotonic() < later:
            return
        while part := device.words((position + len(received)) % 2**32, 128):
            take(part)
        later = time.monotonic() + INTERVAL

    device.send(words.tolist(), meanwhile=read, patience=patience)
    missing = expected - len(received)
    if missing < 0:
        raise LinkFailure(f"{device.port} sent more words than the job has")
    at = (position + len(received)) % 2**32
    for part in device.stream(at, missing, patience=patience):
        take(part)
        if len(received) == expected:
            # The last ones are discarded with the next request for words.
            break
    return np.array(received, np.uint32)
