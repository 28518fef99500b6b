"""Streams of a core over the words of the host link: packets to the core, tagged words back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = [
    "Input",
    "Output",
    "WordMerger",
    "WordSplitter",
    "beat_layout",
    "packet",
    "payloads",
    "tagged",
]

Words = npt.NDArray[np.uint32]
#: Bits of a word that are of a payload; the others are the place of its port.
OUTPUT_BITS = 28


@dataclass(frozen=True)
class Input:
    """A port for packets from the host: its name, bits of a beat, and bits of a packet's tag."""

    name: str
    bits: int
    tag: int = 0

    @property
    def unit(self) -> int:
        """Bits that a beat has in the words: 8, 16, or a multiple of 32."""
        return next((unit for unit in (8, 16) if self.bits <= unit), -(-self.bits // 32) * 32)

    @property
    def words(self) -> int:
        """Words of a beat, at least one."""
        return max(1, self.unit // 32)


@dataclass(frozen=True)
class Output:
    """A port for words to the host: its name and the bits of a payload."""

    name: str
    bits: int

    @property
    def words(self) -> int:
        """Words of a payload."""
        return -(-self.bits // OUTPUT_BITS)


class WordSplitter(wiring.Component):
    """Distributes packets of words to ports.

    A packet is a word with its port's place (bits 0..7) and its number of beats (from 1, bits
    8..31), a word with its tag, and the beats, from the least significant bits on. A packet to a
    port that does not exist is discarded.

    Parameters
    ----------
    ports
        The ports, in order.

    Members
    -------
    i : In(stream of unsigned(32))
        Words.
    o_* : Out(stream of struct)
        For each port ``data``, ``tag`` and ``last``, with a packet's last beat.
    waits : Out(1)
        No word is there, and one is needed.
    """

    def __init__(self, ports: Sequence[Input]):
        self.ports = ports
        found = {f"o_{port.name}": Out(stream.Signature(beat_layout(port))) for port in ports}
        super().__init__({"i": In(stream.Signature(32)), "waits": Out(1), **found})

    def elaborate(self, platform):
        m = Module()
        place, beats, tag = Signal(8), Signal(24), Signal(32)
        # The words of a beat; how many are missing, and how many beats of a word are left.
        deepest = max(port.words for port in self.ports)
        shift = Signal(32 * deepest)
        missing, left = Signal(range(deepest + 1)), Signal(range(5))
        unknown = Signal(init=1)
        fire = Signal()
        m.d.comb += self.waits.eq(self.i.ready & ~self.i.valid)
        with m.Switch(place):
            for k, port in enumerate(self.ports):
                with m.Case(k):
                    out = getattr(self, f"o_{port.name}")
                    m.d.comb += [fire.eq(out.valid & out.ready), unknown.eq(0)]
            with m.Default():
                m.d.comb += fire.eq(1)
        with m.FSM():
            with m.State("HEADER"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [place.eq(self.i.payload[:8]), beats.eq(self.i.payload[8:])]
                with m.If(self.i.valid & (self.i.payload[8:] != 0)):
                    m.next = "TAG"
            with m.State("TAG"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += tag.eq(self.i.payload)
                self._begin(m, place, missing, left)
                with m.If(self.i.valid):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += [shift.eq(self._loaded(place, shift)), missing.eq(missing - 1)]
                    with m.If(missing == 1):
                        m.next = "BEATS"
            with m.State("BEATS"):
                for k, port in enumerate(self.ports):
                    m.d.comb += getattr(self, f"o_{port.name}").valid.eq(place == k)
                with m.If(fire):
                    m.d.sync += [beats.eq(beats - 1), left.eq(left - 1)]
                    m.d.sync += shift.eq(self._used(place, shift))
                    with m.If(beats == 1):
                        m.next = "HEADER"
                    with m.Elif(left == 1):
                        self._begin(m, place, missing, left)
                        m.next = "LOAD"
        for port in self.ports:
            out = getattr(self, f"o_{port.name}").payload
            m.d.comb += [out.data.eq(shift), out.tag.eq(tag), out.last.eq(beats == 1)]
        return m

    def _begin(self, m, place, missing, left):
        """Set how many words come next, and how many beats they have."""
        m.d.sync += [missing.eq(1), left.eq(1)]
        with m.Switch(place):
            for k, port in enumerate(self.ports):
                with m.Case(k):
                    m.d.sync += [missing.eq(port.words), left.eq(max(1, 32 // port.unit))]

    def _loaded(self, place, shift):
        """Return the words with the next one after those of the beat."""
        loaded = self.i.payload
        for k, port in enumerate(self.ports):
            if port.words > 1:
                upper = shift[32 : 32 * port.words] | self.i.payload << 32 * (port.words - 1)
                loaded = Mux(place == k, upper, loaded)
        return loaded

    def _used(self, place, shift):
        """Return the word without its first beat."""
        used = shift
        for k, port in enumerate(self.ports):
            if port.unit < 32:
                used = Mux(place == k, shift >> port.unit, used)
        return used


class WordMerger(wiring.Component):
    """Sends payloads of ports as words, each with its port's place in the upper 4 bits.

    The ports before another one have precedence.

    Parameters
    ----------
    ports
        The ports, at most 16, in order.

    Members
    -------
    i_* : In(stream of unsigned)
        Payloads, for each port.
    o : Out(stream of unsigned(32))
        Words, from a payload's least significant bits on.
    """

    def __init__(self, ports: Sequence[Output]):
        self.ports = ports
        found = {f"i_{port.name}": In(stream.Signature(port.bits)) for port in ports}
        super().__init__({"o": Out(stream.Signature(32)), **found})

    def elaborate(self, platform):
        m = Module()
        place = Signal(4)
        shift = Signal(max(port.bits for port in self.ports))
        left = Signal(range(max(port.words for port in self.ports) + 1))
        m.d.comb += [
            self.o.valid.eq(left != 0),
            self.o.payload.eq(shift[:OUTPUT_BITS] | place << OUTPUT_BITS),
        ]
        with m.If(left != 0), m.If(self.o.ready):
            m.d.sync += [left.eq(left - 1), shift.eq(shift >> OUTPUT_BITS)]
        with m.Else():
            taken = Const(0)
            for k, port in enumerate(self.ports):
                given = getattr(self, f"i_{port.name}")
                m.d.comb += given.ready.eq(~taken)
                with m.If(given.valid & ~taken):
                    m.d.sync += [place.eq(k), shift.eq(given.payload), left.eq(port.words)]
                taken = taken | given.valid
        return m


def packet(
    ports: Sequence[Input], name: str, beats: Sequence[int] | bytes | np.ndarray, tag: int = 0
) -> Words:
    """Return the words of a packet, from its beats, or from their bytes of :attr:`Input.unit`.

    An array, uint32 (count, words), is payloads of a core, whose first bits are those of the beats.
    """
    place = next(k for k, port in enumerate(ports) if port.name == name)
    size = ports[place].unit // 8
    if isinstance(beats, np.ndarray):
        bits = np.unpackbits(beats.view(np.uint8), axis=1, bitorder="little")
        bits = np.pad(bits, ((0, 0), (0, 32)))[:, : 8 * size]
        bits[:, ports[place].bits :] = 0
        beats = np.packbits(bits, axis=1, bitorder="little").tobytes()
    elif not isinstance(beats, bytes):
        beats = b"".join(int(beat).to_bytes(size, "little") for beat in beats)
    head = np.array([place | len(beats) // size << 8, tag], np.int64).astype("<u4")
    return np.concatenate([head, np.frombuffer(beats + bytes(-len(beats) % 4), "<u4")])


def payloads(ports: Sequence[Output], words: np.ndarray) -> Mapping[str, np.ndarray]:
    """Return the payloads of each port that are whole in words: int64, of at most 56 bits."""
    words = np.asarray(words, np.int64)
    places, numbers = words >> OUTPUT_BITS, words & (1 << OUTPUT_BITS) - 1
    found = {}
    for k, port in enumerate(ports):
        own = numbers[places == k]
        own = own[: len(own) // port.words * port.words].reshape(-1, port.words)
        found[port.name] = (own << OUTPUT_BITS * np.arange(port.words)).sum(axis=1)
    return found


def tagged(place: int, port: Output, numbers: np.ndarray) -> Words:
    """Return the words to the host of a port's payloads, uint32 (count, words)."""
    whole = (numbers.astype(np.int64) << 32 * np.arange(numbers.shape[1])).sum(axis=1)
    parts = whole[:, None] >> OUTPUT_BITS * np.arange(port.words) & (1 << OUTPUT_BITS) - 1
    return (parts | place << OUTPUT_BITS).astype("<u4").ravel()


def beat_layout(port: Input) -> data.StructLayout:
    """Return the layout of a beat of a packet."""
    return data.StructLayout({"data": port.bits, "tag": port.tag, "last": 1})
