"""Products of vectors and rows of a matrix, int8 or of a trellis code."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.products.gemv_engine import GemvEngine
from seedbed.hw.products.gemv_layouts import job_layout, sums_layout, vector_layout, weights_layout
from seedbed.hw.weights.trellis_decompress import TrellisDecompress
from seedbed.spec import StreamEngineConfig, TrellisDecompressConfig

__all__ = ["RowProducts", "WaySums"]

#: Ports of the multipliers for vectors that are taken ahead.
AHEAD = {"load": In, "swap": In, "loading": Out, "free": Out}


class WaySums(wiring.Component):
    """Gives the sums of ways in turn, one for each row of a matrix, and discards all others.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`, with a trellis code.

    Members
    -------
    start, rows : In
        A pulse before the first sum, and how many rows there are.
    turns : In(1)
        Ways are taken in turn; else the first one has all rows. It is steady after ``start``.
    i_0, i_1, .. : In(stream)
        Sums of each way.
    o : Out(stream)
        Sums in the order of rows.
    """

    def __init__(self, config: StreamEngineConfig):
        sums = stream.Signature(sums_layout(config.gemv))
        self._names = [f"i_{way}" for way in range(config.ways)]
        super().__init__(
            {name: In(sums) for name in self._names}
            | {"start": In(1), "rows": In(config.gemv.row_width), "turns": In(1), "o": Out(sums)}
        )

    @property
    def i(self) -> list:
        """The sums of each way."""
        return [getattr(self, name) for name in self._names]

    def elaborate(self, platform):
        m = Module()
        way = Signal(range(len(self.i)))
        left = Signal.like(self.rows)
        valid, payload = (
            Array(Value.cast(getattr(each, name)) for each in self.i)[way]
            for name in ("valid", "payload")
        )
        m.d.comb += [
            self.o.valid.eq(valid & (left != 0)),
            Value.cast(self.o.payload).eq(payload),
        ]
        for k, each in enumerate(self.i):
            m.d.comb += each.ready.eq((left == 0) | (self.o.ready & (way == k)))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [left.eq(left - 1), way.eq(Mux(self.turns, way + 1, 0))]
        with m.If(self.start):
            m.d.sync += [left.eq(self.rows), way.eq(0)]
        return m


class RowProducts(wiring.Component):
    """Multiplies rows of int8 one after another, or some rows of a trellis code at once.

    A beat has the weights of one row, or those of the same columns of ``ways`` rows, which are
    packed in as many parts of it. Each way has a decompressor and multipliers. Rows of int8 have
    the multipliers of the first way.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`, with a trellis code.

    Members
    -------
    trellis : In(1)
        Rows are those of the trellis code. It is steady from a command to the last sum.
    i, i_vector, i_weights : In(stream of struct)
        As of :class:`~seedbed.hw.products.gemv_engine.GemvEngine`. The rows of a command are those
        of the matrix; ``last`` is that of a row, or of rows that are read together.
    load, loading, free, swap : In(1), Out(1), Out(1), In(1)
        As there, with ``ahead``.
    o : Out(stream of struct)
        Sums of a row, in the order of rows; the other fields are those of the way.

    All ways have the same beats in the same cycles. The sums of ways that have no row are
    discarded.

    Throughput: a beat of weights every cycle.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        gemv = config.gemv
        super().__init__(
            {
                "trellis": In(1),
                "i": In(stream.Signature(job_layout(gemv))),
                "i_vector": In(stream.Signature(vector_layout(gemv))),
                "i_weights": In(stream.Signature(weights_layout(gemv))),
                "o": Out(stream.Signature(sums_layout(gemv))),
            }
            | ({n: of(1) for n, of in AHEAD.items()} if gemv.ahead else {})
        )

    def elaborate(self, platform):
        m = Module()
        config, job = self.config, self.i.payload
        engines = []
        for way in range(config.ways):
            m.submodules[f"way_{way}"] = engine = GemvEngine(config.gemv)
            engines.append(engine)
        begins = Signal()
        m.d.comb += [
            self.i.ready.eq(Cat(engine.i.ready for engine in engines).all()),
            begins.eq(self.i.valid & self.i.ready),
            self.i_vector.ready.eq(engines[0].i_vector.ready),
        ]
        bits = config.ways.bit_length() - 1
        for way, engine in enumerate(engines):
            used = self.trellis if way else 1
            m.d.comb += [
                engine.i.valid.eq(begins & used),
                engine.i.payload.columns.eq(job.columns),
                engine.i.payload.rows.eq(
                    Mux(self.trellis, (job.rows + (config.ways - 1)) >> bits, job.rows)
                ),
                engine.i_vector.valid.eq(self.i_vector.valid & used),
                engine.i_vector.payload.eq(self.i_vector.payload),
            ]
            if config.ahead:
                # What runs can have one way, and what comes next all of them.
                m.d.comb += [
                    engine.i_vector.valid.eq(self.i_vector.valid),
                    engine.load.eq(self.load),
                    engine.swap.eq(self.swap),
                ]
        if config.ahead:
            free = Cat(engine.free for engine in engines).all()
            m.d.comb += [self.loading.eq(engines[0].loading), self.free.eq(free)]
        self._weights(m, engines)
        m.submodules.sums = sums = WaySums(config)
        m.d.comb += [sums.start.eq(begins), sums.rows.eq(job.rows), sums.turns.eq(self.trellis)]
        for engine, to in zip(engines, sums.i, strict=True):
            wiring.connect(m, engine.o, to)
        wiring.connect(m, sums.o, wiring.flipped(self.o))
        return m

    def _weights(self, m, engines) -> None:
        """Give a beat to the first way, or a part of it to each decompressor."""
        config, given = self.config, self.i_weights
        code = TrellisDecompressConfig(bits=config.trellis, lanes=config.weights)
        size = config.beat_bits // config.ways
        # All ways take the weights of a beat, or none.
        all_ready = Signal()
        m.d.comb += all_ready.eq(Cat(engine.i_weights.ready for engine in engines).all())
        for way, engine in enumerate(engines):
            m.submodules[f"decompress_{way}"] = decompress = TrellisDecompress(code)
            to, found = engine.i_weights, decompress.o
            m.d.comb += [
                decompress.i.valid.eq(given.valid & self.trellis),
                decompress.i.payload.last.eq(given.payload.last),
                decompress.i.payload.symbols.eq(given.payload.data[way * size :][:size]),
                found.ready.eq(all_ready),
                to.valid.eq(found.valid & all_ready),
                to.payload.last.eq(found.payload.last),
                to.payload.data.eq(Value.cast(found.payload.weights)),
            ]
            if not way:
                m.d.comb += given.ready.eq(Mux(self.trellis, decompress.i.ready, to.ready))
                with m.If(~self.trellis):
                    m.d.comb += [to.valid.eq(given.valid), to.payload.eq(given.payload)]
