"""Takes the samples of a job, one ahead of the one that is used."""

from amaranth.hdl import Array, Module, Mux, Shape, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.vector_store import put_layout
from seedbed.spec import SparseTrainerConfig

__all__ = ["SampleBanks", "sample_layout"]


def sample_layout(config: SparseTrainerConfig) -> data.StructLayout:
    """Return the layout of a beat of a sample, see :class:`SampleBanks`."""
    lanes = data.ArrayLayout(signed(config.activation_width), config.gemv.group)
    label = Shape.cast(range(config.classes))
    return data.StructLayout({"lanes": lanes, "label": label, "last": 1})


class SampleBanks(wiring.Component):
    """Writes samples to two banks alternately; keeps their labels.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    i : In(stream of struct)
        ``lanes`` (group x signed(activation_width)), ``label``, ``last``: the label of the last
        beat counts.
    inputs : In
        Elements of a sample.
    start : In(1)
        A pulse before a job: both banks are free.
    want, discard : In(1)
        A sample may begin; beats are discarded.
    o : Out(stream of :func:`~seedbed.hw.kept.vector_store.put_layout`)
        Groups for the store.
    full, bad, bank, label : Out
        Of the sample that is used next: it has come; it had another length; its bank; its label.
    release : In(1)
        A pulse: it is not needed any more.

    No latency. Throughput: a beat every cycle.
    """

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        sample = sample_layout(config)
        super().__init__(
            {
                "i": In(stream.Signature(sample)),
                "inputs": In(config.row_width),
                "start": In(1),
                "want": In(1),
                "discard": In(1),
                "o": Out(stream.Signature(put_layout(config))),
                "full": Out(1),
                "bad": Out(1),
                "bank": Out(1),
                "label": Out(sample["label"].shape),
                "release": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beat, put = self.i, self.o
        bits = self.config.gemv.group.bit_length() - 1
        full, bad = (
            Array(Signal(name=f"{name}_{k}") for k in range(2)) for name in ("full", "bad")
        )
        labels = [Signal.like(self.label, name=f"label_{k}", reset_less=True) for k in range(2)]
        filled = Signal()
        row = Signal.like(put.payload.row)
        inside = Signal()
        takes = Signal()
        fire = Signal()
        ends = Signal()
        over = Signal()
        m.d.comb += [
            takes.eq(~full[filled] & (inside | self.want) & ~self.discard),
            put.valid.eq(beat.valid & takes),
            put.payload.bank.eq(filled),
            put.payload.row.eq(row),
            put.payload.lanes.eq(beat.payload.lanes),
            beat.ready.eq(self.discard | (takes & put.ready)),
            fire.eq(put.valid & put.ready),
            ends.eq(row == (self.inputs - 1) >> bits),
            over.eq(fire & (ends | beat.payload.last)),
            self.full.eq(full[self.bank]),
            self.bad.eq(bad[self.bank]),
            self.label.eq(Array(labels)[self.bank]),
        ]
        with m.If(fire):
            m.d.sync += [inside.eq(~over), row.eq(Mux(over, 0, row + 1))]
        with m.If(over):
            m.d.sync += [
                full[filled].eq(1),
                bad[filled].eq(ends != beat.payload.last),
                Array(labels)[filled].eq(beat.payload.label),
                filled.eq(~filled),
            ]
        with m.If(self.discard):
            m.d.sync += [row.eq(0), inside.eq(0)]
        with m.If(self.release):
            m.d.sync += [full[self.bank].eq(0), self.bank.eq(~self.bank)]
        with m.If(self.start):
            m.d.sync += [
                *(flag.eq(0) for flag in full),
                filled.eq(0),
                self.bank.eq(0),
                row.eq(0),
                inside.eq(0),
            ]
        return m
