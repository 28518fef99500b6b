"""Case of the forward cache: entries stored, fetched and lost again, and every status."""

from dataclasses import dataclass, field
from random import Random

import numpy as np

from seedbed.golden.forward_cache import ForwardCache
from seedbed.hw.memory import forward_cache_layouts, memory_port
from seedbed.sim.case import TIMEOUT_CYCLES, Case, Phase
from seedbed.spec import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS, ForwardCacheConfig

__all__ = ["Session", "case", "codes_payloads"]

INPUTS = ("i", "i_codes", "i_response", "i_read")
OUTPUTS = ("o", "o_codes", "o_command", "o_write")


def codes_payloads(
    config: ForwardCacheConfig, lanes: int, codes: np.ndarray, peaks: np.ndarray, last: int
) -> list[int]:
    """Return beats of codes (beats, lanes) with their peaks; ``last`` is set in that beat."""
    layout = forward_cache_layouts.codes_layout(config, lanes)
    return [
        layout.const({"codes": row.tolist(), "peak": int(peak), "last": k == last}).as_bits()
        for k, (row, peak) in enumerate(zip(codes, peaks, strict=True))
    ]


@dataclass(frozen=True)
class Shape:
    """A burst that is read with ``extra`` beats more than were commanded, or fewer.

    ``burst`` is its number in the fetch. Its ``last`` is with its final beat, however many it has;
    with ``endless``, it has none.
    """

    burst: int
    extra: int = 0
    endless: bool = False


@dataclass(kw_only=True)
class Session:
    """Requests, and what every port carries for them; it knows what is in the cache.

    ``phase`` returns what was asked since the last call, and starts the next phase.
    """

    config: ForwardCacheConfig
    rng: np.random.Generator
    entries: dict[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model = ForwardCache(self.config)
        self.payloads: dict[str, list[int]] = {name: [] for name in (*INPUTS, *OUTPUTS)}
        self.after: dict[str, dict[str, list[int]]] = self._no_conditions()

    @staticmethod
    def _no_conditions() -> dict[str, dict[str, list[int]]]:
        return {"i_read": {"o_command": []}, "i_response": {"o_command": [], "o_write": []}}

    def phase(self) -> Phase:
        """Return the phase of all requests since the last call."""
        found, after = self.payloads, self.after
        self.payloads, self.after = {name: [] for name in found}, self._no_conditions()
        return Phase(
            inputs={name: found[name] for name in INPUTS},
            outputs={name: found[name] for name in OUTPUTS},
            after=after,
        )

    def drawn(self) -> np.ndarray:
        """Return the bytes of a random entry."""
        config = self.config
        codes = self.rng.integers(0, 16, sum(config.lengths), np.uint8)
        return self.model.pack(codes, self.rng.integers(0, 1 << config.peak_width, config.blocks))

    def frame(self, entry: np.ndarray, last: int | None = None) -> list[int]:
        """Return a store's frame of ``entry``, whose ``last`` is set in that beat.

        The peak of a block's last beat counts alone, so others' are random.
        """
        config, rng = self.config, self.rng
        codes, peaks = self.model.beats(entry, config.store_lanes)
        counts = np.repeat(config.block_ends, config.store_pieces)
        counts &= np.arange(1, len(counts) + 1) % config.store_pieces == 0
        peaks = np.where(counts, peaks, rng.integers(0, 1 << config.peak_width, len(peaks)))
        beats = len(codes) if last is None else last + 1
        take = np.arange(beats) % len(codes)
        return codes_payloads(config, config.store_lanes, codes[take], peaks[take], beats - 1)

    def _ask(self, kind: str, index: int, status: str) -> None:
        fields = {"index": index, "kind": FORWARD_CACHE_KINDS.index(kind)}
        self.payloads["i"].append(forward_cache_layouts.request_layout().const(fields).as_bits())
        self.payloads["o"].append(FORWARD_CACHE_STATUS.index(status))

    def _command(self, bursts: list[tuple[int, int]], *, write: bool) -> None:
        layout = memory_port.command_layout(self.config.address_bits)
        self.payloads["o_command"] += [
            layout.const({"address": first, "write": write, "length": beats - 1}).as_bits()
            for first, beats in bursts
        ]

    def _ends(self, bursts: list[tuple[int, int]]) -> list[bool]:
        return [k == beats - 1 for _, beats in bursts for k in range(beats)]

    def unknown(self, index: int) -> None:
        """Request a kind that does not exist."""
        fields = {"index": index, "kind": len(FORWARD_CACHE_KINDS)}
        self.payloads["i"].append(forward_cache_layouts.request_layout().const(fields).as_bits())
        self.payloads["o"].append(FORWARD_CACHE_STATUS.index("range"))

    def clear(self) -> None:
        """Forget all entries."""
        self._ask("clear", int(self.rng.integers(0, 1 << 16)), "done")
        self.entries.clear()

    def store(self, index: int, *, last: int | None = None, bad_burst: int | None = None) -> None:
        """Store a random entry; its frame ends at beat ``last``, that burst is answered wrongly."""
        config, entry = self.config, self.drawn()
        self.payloads["i_codes"] += self.frame(entry, last)
        if index >= config.entries:
            self._ask("store", index, "range")
            return
        whole = config.code_beats * config.store_pieces
        good = last in (None, whole - 1)
        codes, peaks = self.model.store_bursts(index)
        words, heads = self.model.words(entry), config.peak_beats
        body, bursts = words[heads:], codes
        if last is not None and not good:
            kept = (last + 1) // config.store_pieces
            body = [word if t < kept else 0 for t, word in enumerate(body)]
        if good:
            body, bursts = body + words[:heads], codes + peaks
        self._command(bursts, write=True)
        layout = memory_port.write_layout(config.beat_bits)
        self.payloads["o_write"] += [
            layout.const({"data": word, "last": end}).as_bits()
            for word, end in zip(body, self._ends(bursts), strict=True)
        ]
        bad = bad_burst is not None and bad_burst < len(bursts)
        commands = len(self.payloads["o_command"]) - len(bursts)
        beats = len(self.payloads["o_write"]) - len(body)
        for k, (_, length) in enumerate(bursts):
            beats += length
            self.payloads["i_response"].append(int(k == bad_burst))
            self.after["i_response"]["o_command"].append(commands + k + 1)
            self.after["i_response"]["o_write"].append(beats)
        status = "frame" if not good else "memory" if bad else "done"
        self._ask("store", index, status)
        self.entries.pop(index, None)
        if status == "done":
            self.entries[index] = entry

    def stray(self, beats: int) -> None:
        """Have memory give beats, or with 0 a response, that nobody asked for.

        They are a phase of their own, before the request that they are to be seen by.
        """
        assert not any(self.payloads.values())
        for k in range(beats):
            self._read_beat(self._random_word(), after=0, last=k == beats - 1)
        if not beats:
            self.payloads["i_response"].append(0)
            for counts in self.after["i_response"].values():
                counts.append(0)

    def distrusted(self, kind: str, index: int) -> None:
        """Ask for an entry after :meth:`stray`: the core does not trust what memory will give."""
        if kind == "store":
            self.payloads["i_codes"] += self.frame(self.drawn())
            self.entries.pop(index, None)
        self._ask(kind, index, "memory")

    def _random_word(self) -> int:
        return int.from_bytes(self.rng.bytes(self.config.beat_bytes), "little")

    def _read_beat(self, word: int, *, after: int, last: bool, error: bool = False) -> None:
        layout = memory_port.read_layout(self.config.beat_bits)
        fields = {"data": word, "error": error, "last": last}
        self.payloads["i_read"].append(layout.const(fields).as_bits())
        self.after["i_read"]["o_command"].append(after)

    def fetch(
        self,
        index: int,
        *,
        bad_beat: int | None = None,
        bad_last: int | None = None,
        shape: Shape | None = None,
    ) -> None:
        """Fetch an entry; with a fault, if there is one.

        An error at one beat of memory, which then has random data; ``last`` wrong at one; or a
        burst of another shape.
        """
        config = self.config
        if index >= config.entries:
            self._ask("fetch", index, "range")
            return
        if index not in self.entries:
            self._ask("fetch", index, "miss")
            return
        entry = self.entries[index]
        bursts = self.model.fetch_bursts(index)
        self._command(bursts, write=False)
        commanded = len(self.payloads["o_command"]) - len(bursts)
        words, ends = self.model.words(entry), self._ends(bursts)
        given: list[int] = []
        intact = True
        for number, (_, beats) in enumerate(bursts):
            found = words[:beats]
            del words[:beats]
            if shape and shape.burst == number:
                found = found[: max(1, beats + shape.extra)]
                found += [self._random_word() for _ in range(shape.extra)]
            for k, word in enumerate(found):
                place = len(given)
                error = place == bad_beat
                last = k == len(found) - 1 and not (shape and shape.endless)
                last ^= place == bad_last
                self._read_beat(
                    word := self._random_word() if error else word,
                    after=commanded + number + 1,
                    last=last,
                    error=error,
                )
                if intact:
                    given.append(word)
                    intact = last == ends[place]
        failed = bad_beat is not None or not intact or len(given) < config.beats
        self._fetched(given)
        self._ask("fetch", index, "memory" if failed else "done")

    def _fetched(self, given: list[int]) -> None:
        """Expect the codes of the beats that memory gave, and of 0 for those that are missing."""
        config, lanes = self.config, self.config.fetch_lanes
        size, missing = config.beat_bytes, config.beats - len(given)
        octets = b"".join(word.to_bytes(size, "little") for word in given) + bytes(size * missing)
        codes, peaks = self.model.beats(np.frombuffer(octets, np.uint8), lanes)
        lost = min(missing, config.code_beats) * config.fetch_pieces
        peaks = np.where(np.arange(len(peaks)) < len(peaks) - lost, peaks, 0)
        self.payloads["o_codes"] += codes_payloads(config, lanes, codes, peaks, len(codes) - 1)


def _places(session: Session) -> list[int]:
    """Return an entry for each way in which bursts may be split, the first and the last one."""
    config = session.config
    found: dict[tuple, int] = {}
    for index in range(config.entries):
        codes, peaks = session.model.store_bursts(index)
        found.setdefault((len(codes), len(peaks)), index)
    return sorted({0, config.entries - 1, *found.values()})


def case(config: ForwardCacheConfig, random: Random) -> Case:
    """Return requests back to back, then every fault, followed by good requests."""
    session = Session(config=config, rng=np.random.default_rng(random.getrandbits(32)))
    places = _places(session)
    for index in places:
        session.fetch(index)
        session.store(index)
        session.fetch(index)
    for index in random.sample(places, len(places)):
        session.fetch(index)
    session.store(places[0])
    session.fetch(places[0])
    phases = [session.phase()]
    whole, index = config.code_beats * config.store_pieces, places[-1]
    beats = [0, config.peak_beats - 1, config.peak_beats, config.beats - 1]
    for beat in beats:
        session.fetch(index, bad_beat=beat)
        # At the very end it would be missing: see below.
        if beat < config.beats - 1:
            session.fetch(index, bad_last=beat)
    session.fetch(index)
    bursts = len(session.model.fetch_bursts(index))
    for burst in {0, bursts - 1}:
        for extra in (-1000, -1, 1, 7):
            session.fetch(index, shape=Shape(burst, extra))
            session.fetch(index)
    # Nothing says that such a burst is over: the core waits for a long time.
    for extra in (-1, 0) if config.timeout_cycles < TIMEOUT_CYCLES else ():
        session.fetch(index, shape=Shape(bursts - 1, extra, endless=True))
        session.fetch(index)
    wrong = {0, config.store_pieces, whole - 2, whole, whole + 5} - {whole - 1, -1}
    for last in sorted(wrong):
        session.store(index, last=last)
        session.fetch(index)
        session.store(index)
        session.fetch(index)
    for burst in (0, 1):
        session.store(index, bad_burst=burst)
        session.fetch(index)
        session.store(index, last=whole, bad_burst=burst)
        session.store(index)
    phases.append(session.phase())
    for stray, kind in ((1, "fetch"), (2, "store"), (0, "fetch"), (0, "store")):
        session.store(index)
        phases.append(session.phase())
        session.stray(stray)
        phases.append(session.phase())
        session.distrusted(kind, index)
        session.fetch(index)
    for outside in sorted({config.entries, (1 << 16) - 1} - {1 << 16}):
        session.fetch(outside)
        session.store(outside)
        session.store(outside, last=0)
    session.unknown(index)
    session.fetch(index)
    session.clear()
    session.fetch(index)
    session.store(index)
    session.fetch(index)
    return Case(phases=[*phases, session.phase()], quiet=True)
