"""Commands of the matrix-vector engine with a side path, whose matrices are in the memory."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from seedbed.boards.matrix_store import rows_layout
from seedbed.hw.products import gemv_layouts
from seedbed.hw.products.gemv import Gemv
from seedbed.hw.products.gemv_layouts import scale_layout, vector_layout, weights_layout
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.spec import SPARSE_MAC_KINDS, GemvConfig, SdramConfig

__all__ = ["SUM_BITS", "MatrixCommands", "command_layout", "end_layout"]

#: Bits of a sum for the host: two words. A larger one is an error.
SUM_BITS = 56
#: Rows whose sums are stored until the host has them: with more rows, the engine waits for it.
RESULTS = 512
_PRODUCT = SPARSE_MAC_KINDS.index("product")


def command_layout(config: GemvConfig, memory: SdramConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`MatrixCommands`."""
    more = {"most": range(config.vectors + 1)}
    return data.StructLayout(
        dict(gemv_layouts.command_layout(config).members) | dict(rows_layout(memory).members) | more
    )


def end_layout() -> data.StructLayout:
    """Return the layout of a command's end, see :class:`MatrixCommands`."""
    return data.StructLayout({"status": 3, "overflow": 1, "error": 1})


class MatrixCommands(wiring.Component):
    """Runs commands of :class:`~seedbed.hw.products.gemv.Gemv`, one after the other.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`, with a side path whose entries are stored.
    memory
        That of the matrices, :class:`~seedbed.spec.SdramConfig`.

    Members
    -------
    i : In(stream of struct)
        A command of the engine, the matrix of a product as in
        :class:`~seedbed.boards.matrix_store.MatrixStore`, and ``most``: sums of how many vectors
        are sent.
    i_vector, i_entries, i_weights, i_scales : In(stream of struct)
        Those of the engine; scales with a trellis code only.
    o_matrix : Out(stream of struct)
        The matrix of a product.
    reading, memory_error : In(1)
        A matrix is read; an error of the memory.
    o_sum : Out(stream of signed(56))
        Sums of a product, row by row, the first ``most`` vectors of each.
    o_value : Out(stream of signed(value_width))
        New values of an update.
    o_end : Out(stream of struct)
        After the last of them: the engine's ``status``, and whether a sum had more than 56 bits
        (``overflow``) or the memory an ``error``.
    cycles : Out(32)
        Cycles of the products, after their vectors have come, in which no result waited for the
        host.
    """

    def __init__(self, config: GemvConfig, memory: SdramConfig):
        assert config.sparse
        self.config, self.memory = config, memory
        scales = {"i_scales": In(stream.Signature(scale_layout()))} if config.trellis else {}
        super().__init__(
            {
                "i": In(stream.Signature(command_layout(config, memory))),
                "i_vector": In(stream.Signature(vector_layout(config))),
                "i_entries": In(stream.Signature(entry_layout(config.sparse))),
                "i_weights": In(stream.Signature(weights_layout(config))),
                "o_matrix": Out(stream.Signature(rows_layout(memory))),
                "reading": In(1),
                "memory_error": In(1),
                "o_sum": Out(stream.Signature(SUM_BITS)),
                "o_value": Out(stream.Signature(config.value_width)),
                "o_end": Out(stream.Signature(end_layout())),
                "cycles": Out(32),
                **scales,
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = Gemv(self.config)
        scales = ["i_scales"] * (self.config.trellis is not None)
        for name in ("i_vector", "i_entries", "i_weights", *scales):
            connect(m, flipped(getattr(self, name)), getattr(core, name))
        command, result = self.i.payload, core.o.payload
        product, most = Signal(), Signal.like(command.most)
        running, fire, measures = Signal(), Signal(), Signal()
        room, empty, overflow = self._sums(m, core, most, fire & product)
        good = product & (result.status == 0)
        m.d.comb += [
            *(core.i.payload[name].eq(command[name]) for name in core.i.payload.shape().members),
            *(
                self.o_matrix.payload[name].eq(command[name])
                for name in self.o_matrix.payload.shape().members
            ),
            core.o.ready.eq(running & (room | ~good)),
            fire.eq(core.o.valid & core.o.ready),
            self.o_value.valid.eq(core.o_entries.valid),
            self.o_value.payload.eq(core.o_entries.payload.value),
            core.o_entries.ready.eq(self.o_value.ready),
        ]
        self._report(m, fire, result.status, good & overflow)
        with m.If(fire & result.last):
            m.d.sync += measures.eq(0)
        with m.Elif(self.i_vector.valid & self.i_vector.ready & self.i_vector.payload.last):
            m.d.sync += measures.eq(1)
        with m.If(measures & (~core.o.valid | core.o.ready)):
            m.d.sync += self.cycles.eq(self.cycles + 1)
        with m.FSM():
            with m.State("COMMAND"):
                # Beats that a command with an error has left are discarded before the next one.
                m.d.comb += core.i.valid.eq(self.i.valid & ~self.reading)
                m.d.sync += [product.eq(command.kind == _PRODUCT), most.eq(command.most)]
                with m.If(core.i.valid & core.i.ready):
                    m.next = "RUN"
                    with m.If(command.kind == _PRODUCT):
                        m.next = "MATRIX"
                    with m.Else():
                        m.d.comb += self.i.ready.eq(1)
            with m.State("MATRIX"):
                m.d.comb += [self.o_matrix.valid.eq(1), self.i.ready.eq(self.o_matrix.ready)]
                with m.If(self.o_matrix.ready):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                with m.If(fire & result.last):
                    m.next = "END"
            with m.State("END"):
                m.d.comb += self.o_end.valid.eq(empty & ~core.o_entries.valid)
                with m.If(self.o_end.valid & self.o_end.ready):
                    m.next = "COMMAND"
        return m

    def _sums(self, m, core, most, push):
        """Store and send sums; return room, whether all are sent, and whether one is too large."""
        vectors, result = self.config.vectors, core.o.payload
        sums = [result.sum] if vectors == 1 else list(result.sum)
        m.submodules.sums = sums_fifo = fifo.SyncFIFOBuffered(
            width=vectors * SUM_BITS, depth=RESULTS
        )
        # A memory's clock-to-output delay is long: a row is stored before its sums are sent.
        row, left = Signal(vectors * SUM_BITS), Signal.like(most)
        m.d.comb += [
            sums_fifo.w_data.eq(Cat(Value.cast(value)[:SUM_BITS] for value in sums)),
            sums_fifo.w_en.eq(push & (result.status == 0)),
            self.o_sum.valid.eq(left != 0),
            self.o_sum.payload.eq(row),
            sums_fifo.r_en.eq((left == 0) | ((left == 1) & self.o_sum.ready)),
        ]
        with m.If(sums_fifo.r_en):
            m.d.sync += [row.eq(sums_fifo.r_data), left.eq(Mux(sums_fifo.r_rdy, most, 0))]
        with m.Elif(self.o_sum.ready):
            m.d.sync += [row.eq(row >> SUM_BITS), left.eq(left - 1)]
        tops = [Value.cast(value)[SUM_BITS - 1 :] for value in sums]
        overflow = Cat(top.any() & ~top.all() for top in tops).any()
        return sums_fifo.w_rdy, (sums_fifo.level == 0) & (left == 0), overflow

    def _report(self, m, fire, status, overflow):
        """Collect what a command's end reports, from its results."""
        end = self.o_end.payload
        with m.If(self.o_end.valid & self.o_end.ready):
            m.d.sync += end.eq(0)
        with m.If(fire):
            m.d.sync += end.status.eq(status)
            with m.If(overflow):
                m.d.sync += end.overflow.eq(1)
        with m.If(self.memory_error):
            m.d.sync += end.error.eq(1)
