"""Connects the parts of the streamed engine that write to memory."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring

from seedbed.hw.stream.beat_writer import BeatWriter
from seedbed.hw.stream.cache_exchange import CacheExchange
from seedbed.hw.stream.weight_tuner import WeightTuner

__all__ = ["MemoryWrites"]


class MemoryWrites:
    """The part that writes beats, and those that give them: one of these does so at a time.

    Parameters
    ----------
    m
        The module of the engine.
    config
        :class:`~seedbed.spec.StreamEngineConfig`, of a core that writes to memory.
    """

    def __init__(self, m: Module, config):
        sources = []
        if config.external:
            m.submodules.exchange = self.exchange = CacheExchange(config)
            sources.append(self.exchange)
        m.submodules.writer = self.writer = BeatWriter(config)
        if config.tune:
            m.submodules.tuner = self.tuner = WeightTuner(config)
            sources.append(self.tuner)
        self.sources = sources
        wiring.connect(m, sources[0].o, self.writer.i)
        for part in sources[1:]:
            m.d.comb += part.o.ready.eq(self.writer.i.ready)
            with m.If(part.o.valid):
                m.d.comb += [
                    self.writer.i.valid.eq(1), self.writer.i.payload.eq(part.o.payload)
                ]  # fmt: skip

    def connect(self, m: Module, ports, is_, intake, program, walker, reader, products) -> None:
        """Connect them with the other parts of the engine, and with its ports of memory."""
        writer = self.writer
        wiring.connect(m, reader.o_command, writer.reads)
        if walker.config.external:
            self._exchange(m, is_, walker, products)
        else:
            m.d.comb += self.tuner.idle.eq(writer.idle)
        m.d.comb += [
            writer.clear.eq(intake.begins),
            *(to.first.eq(intake.first) for to in (program, writer)),
            *(to.end.eq(intake.end) for to in (program, writer)),
        ]
        for name in ("o_command", "o_write", "i_response"):
            wiring.connect(m, wiring.flipped(getattr(ports, name)), getattr(writer, name))

    def _exchange(self, m, is_, walker, products) -> None:
        """Connect what saves keys and values, and restores them."""
        exchange = self.exchange
        saves, either = is_["save"], is_["save"] | is_["restore"]
        m.d.comb += [
            exchange.start.eq(walker.begins & either),
            exchange.save.eq(saves),
            exchange.tokens.eq(Mux(saves, walker.count, walker.position)),
            exchange.length.eq(walker.length),
            exchange.at.eq(Mux(saves, walker.keep_at, 0)),
            exchange.first.eq(Mux(saves, walker.keep_bank, 0)),
            exchange.row.eq(walker.header.row),
            exchange.address.eq(walker.read_address),
            *(part.idle.eq(self.writer.idle) for part in self.sources),
            exchange.data.eq(products.words),
            products.exchange.eq(either),
            products.word_at.eq(exchange.place),
            products.word_bank.eq(exchange.bank),
            products.word_write.eq(exchange.write),
            products.word.eq(exchange.word),
        ]

    def tune(self, m: Module, intake, walker, reader, failed) -> None:
        """Connect what changes kept weights; it has the reader while it does so."""
        tuner = self.tuner
        m.d.comb += [
            tuner.start.eq(intake.tune),
            *(
                getattr(tuner, name).eq(intake.i.payload[name])
                for name in ("first", "end", "seed", "delta")
            ),
            tuner.left.eq(reader.left),
            tuner.failed.eq(failed),
            intake.tuned.eq(tuner.done),
            walker.left.eq(reader.left),
        ]
        with m.If(tuner.busy):
            m.d.comb += [
                reader.start.eq(tuner.read),
                reader.address.eq(tuner.read_address),
                reader.beats.eq(tuner.read_beats),
                tuner.i.valid.eq(reader.o.valid),
                tuner.i.payload.eq(reader.o.payload),
                reader.o.ready.eq(tuner.i.ready),
            ]
