"""Products of a query and keys, and of shares and values, which are kept on the chip."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.stream.product_sums import ProductSums
from seedbed.hw.stream.stream_layouts import (
    STORE_CYCLES,
    element_layout,
    is_unwritten,
    kept_layout,
    products_layout,
    unwritten_layout,
    values_layout,
    word_layout,
)
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import PLACE, RECORD
from seedbed.spec.stream_engine import QUERY

__all__ = ["AttendProducts"]


class AttendProducts(wiring.Component):
    """Keeps keys and values, and multiplies them: ``products`` elements of ``keys`` tokens a cycle.

    Scores: a sum for each token t of a query and its key, ``lanes`` tokens in a beat::

        sum over k of q_k key_tk

    Mixes: a sum for each element k of a head, ``lanes`` elements in a beat::

        sum over t of share_t value_tk 2^(shift of t)

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start : In(1)
        A pulse, and with it what follows, which is steady to the last beat:
    mix : In(1)
        Mixes, not scores.
    tokens, head : In
        Tokens, and beats of a head.
    at, cache_at, row : In
        Places of the query or the shares in the store, and of the first token's key or value in the
        cache; beats from a token to the next one there.
    unwritten, of_matrix : In
        As of :class:`~seedbed.hw.stream.operand_reader.OperandReader`.
    waits : In(1)
        The store's port is another part's.
    read, address, data : Out, Out, In
        The store's port; data comes ``STORE_CYCLES`` after its address.
    write, write_at, kept : In
        A beat of a key or a value is written to the cache.
    write_bank : In
        The bank of its token.
    valid, pop, o : Out, In, Out
        There is a beat of sums; it is taken; the sums and the shifts of the keys.
    exchange, word_at, word_write, word, words : In, In, In, In, Out
        With ``external``: the port is that of the part that saves and restores. The place of a
        word; it is written; what; the word that was there a cycle ago.
    word_bank : In
        The bank of that place.

    A word of the cache has the beats of ``products`` elements. Places in it are in beats, and those
    of a head begin with a word. Token t is in bank t mod ``keys``, and its place there is that of
    token t / ``keys``, rounded down.

    Throughput: ``products`` products of ``keys`` tokens a cycle. Before scores, the query is read
    in beats.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        cache, banks, word = range(config.cache), range(config.keys), word_layout(config)
        exchange = {
            "exchange": In(1),
            "word_at": In(cache),
            "word_write": In(1),
            "word": In(word),
            "words": Out(word),
            "word_bank": In(banks),
        }
        super().__init__(
            {
                "start": In(1),
                "mix": In(1),
                "tokens": In(range(config.context + 1)),
                "head": In(RECORD["head"]),
                "at": In(PLACE["place"]),
                "cache_at": In(cache),
                "row": In(cache),
                "unwritten": In(unwritten_layout()),
                **({"of_matrix": In(unwritten_layout())} if config.chains else {}),
                "waits": In(1),
                "read": Out(1),
                "address": Out(range(config.store)),
                "data": In(element_layout(config)),
                "write": In(1),
                "write_at": In(cache),
                "kept": In(kept_layout(config)),
                "write_bank": In(banks),
                "valid": Out(1),
                "pop": In(1),
                "o": Out(products_layout(config)),
                **(exchange if config.external else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lanes
        m.submodules.sums = sums = ProductSums(config)
        token = Signal.like(self.tokens)
        word = Signal.like(self.head)
        # The key or value of the next product, and that of the next loop.
        place = Signal.like(self.cache_at)
        base = Signal.like(self.cache_at)
        issue, first, last, running = (
            Signal(name=name) for name in ("issue", "first", "last", "running")
        )
        lane = token[: lanes.bit_length() - 1]
        left = self.tokens - token
        last_token = left <= config.keys
        full = (lane | config.keys - 1).all()
        # Registers: they are read in the cycle after the start at the earliest.
        last_beat, last_place = Signal.like(word), Signal.like(word)
        m.d.sync += [last_beat.eq(self.head - 1), last_place.eq((self.head >> self._bits) - 1)]
        last_word = word == last_place
        begins = first & (self.mix | (lane == 0))
        # The beat of the query or of the shares is there.
        there = Signal()
        loading, filled = self._query(m, there, last_beat, word, sums)
        m.d.comb += [
            first.eq(Mux(self.mix, token == 0, word == 0)),
            last.eq(Mux(self.mix, last_token, last_word)),
            there.eq(~is_unwritten(self, self.address) & ~self.waits),
            issue.eq(running & (sums.room | ~begins) & (there | ~self.mix)),
            self.read.eq(loading | issue),
            sums.comes.eq(issue),
            sums.first.eq(first),
            sums.last.eq(issue & last),
            sums.ends.eq(issue & last & (self.mix | last_token | full)),
            sums.starts.eq(issue & begins),
            sums.lane.eq(lane),
            sums.there.eq(Cat(left > k for k in range(1, config.keys))),
            sums.mix.eq(self.mix),
            sums.shares.eq(self.data),
            sums.pop.eq(self.pop),
            self.valid.eq(sums.valid),
            self.o.eq(sums.o),
        ]
        with m.If(~loading):
            m.d.comb += self.address.eq(self.at + (token >> len(lane)))
        self._loops(m, issue, last, token, word, place, base)
        with m.If((self.start & self.mix) | filled):
            m.d.sync += running.eq(1)
        with m.Elif(issue & last_token & last_word):
            m.d.sync += running.eq(0)
        self._cache(m, place, sums)
        return m

    @property
    def _bits(self) -> int:
        """Bits of the place of a beat in a word of the cache."""
        return (self.config.products // self.config.lanes).bit_length() - 1

    def _query(self, m, there, last_beat, word, sums) -> tuple[Signal, Signal]:
        """Read a query of scores; return whether it is being read, and whether it has been."""
        config, bits = self.config, self._bits
        loading = Signal()
        beat = Signal.like(self.head)
        ends = beat == last_beat
        reads = Signal()
        m.d.comb += reads.eq(loading & there)
        writes = delayed(m, reads, STORE_CYCLES, "loading", reset=True)
        filled = delayed(m, reads & ends, STORE_CYCLES, "filled", reset=True)
        place = delayed(m, beat, STORE_CYCLES, "beat")
        # The latency of keys: that of the memory, and its output register.
        word = delayed(m, word, STORE_CYCLES - 2, "word")
        with m.If(loading):
            m.d.comb += self.address.eq(self.at + beat)
        with m.If(reads):
            m.d.sync += [beat.eq(beat + 1), loading.eq(~ends)]
        with m.If(self.start):
            m.d.sync += [loading.eq(~self.mix), beat.eq(0)]
        for k in range(1 << bits):
            m.submodules[f"query_{k}"] = query = memory.Memory(
                shape=values_layout(config), depth=QUERY, init=[], attrs={"no_rw_check": True}
            )
            write, read = query.write_port(), query.read_port()
            m.d.comb += [
                write.addr.eq(place >> bits),
                write.en.eq(writes & (place[:bits] == k)),
                *(to.eq(each) for to, each in zip(write.data, self.data, strict=True)),
                read.addr.eq(word),
                *(
                    to.eq(each)
                    for to, each in zip(
                        sums.query[k], delayed(m, read.data, 1, f"query_{k}"), strict=True
                    )
                ),
            ]
        return loading, filled

    def _cache(self, m, place, sums) -> None:
        """Keep keys and values: a memory for each beat of a word, and for each bank."""
        # Keys and values come with the shares, which are read of the store.
        place = delayed(m, place, STORE_CYCLES - 2, "place")
        for bank in range(self.config.keys):
            self._bank(m, bank, place, sums)

    def _bank(self, m, bank: int, place, sums) -> None:
        """Keep the keys and values of a bank: a memory for each beat of a word."""
        config, bits = self.config, self._bits
        writes = self.write & (self.write_bank == bank)
        for k in range(1 << bits):
            m.submodules[f"cache_{bank}_{k}"] = cache = memory.Memory(
                shape=kept_layout(config),
                depth=max(2, -(-config.cache // config.keys >> bits)),
                init=[],
                attrs={"no_rw_check": True},
            )
            write, read = cache.write_port(), cache.read_port()
            m.d.comb += [
                write.addr.eq(self.write_at >> bits),
                write.en.eq(writes & (self.write_at[:bits] == k)),
                write.data.eq(self.kept),
                read.addr.eq(place >> bits),
                sums.kept[(bank << bits) + k].eq(delayed(m, read.data, 1, f"kept_{bank}_{k}")),
            ]
            if config.external:
                self._exchange(m, bank, k, write, read)

    def _exchange(self, m, bank: int, k: int, write, read) -> None:
        """Give the port of a beat of a word to the part that saves and restores."""
        bits, here = self._bits, self.word_bank == bank
        with m.If(here):
            m.d.comb += self.words[k].eq(read.data)
        with m.If(self.exchange & here):
            m.d.comb += [
                write.addr.eq(self.word_at >> bits),
                write.en.eq(self.word_write),
                write.data.eq(self.word[k]),
                read.addr.eq(self.word_at >> bits),
            ]

    def _loops(self, m, issue, last, token, word, place, base) -> None:
        """Count tokens within words for a mix, and words within tokens for scores."""
        step, keys = 1 << self._bits, self.config.keys
        with m.If(issue):
            with m.If(self.mix):
                m.d.sync += [token.eq(token + keys), place.eq(place + self.row)]
                with m.If(last):
                    m.d.sync += [token.eq(0), word.eq(word + 1)]
                    m.d.sync += [place.eq(base + step), base.eq(base + step)]
            with m.Else():
                m.d.sync += [word.eq(word + 1), place.eq(place + step)]
                with m.If(last):
                    m.d.sync += [word.eq(0), token.eq(token + keys)]
                    m.d.sync += [place.eq(base + self.row), base.eq(base + self.row)]
        with m.If(self.start):
            m.d.sync += [
                token.eq(0), word.eq(0), place.eq(self.cache_at), base.eq(self.cache_at),
            ]  # fmt: skip
