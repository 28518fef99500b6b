"""A dense engine and a sparse part, with the same vector, as one component."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.seedlm_gemv import SeedlmGemv, weights_layout
from seedbed.hw.sparse_layouts import command_layout, entry_layout, result_layout, vector_layout
from seedbed.hw.sparse_mac import SparseMac
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.sparse_mac import SPARSE_MAC_KINDS

__all__ = ["SparseEngine", "engine_layout"]


def engine_layout(config: SparseTrainerConfig) -> data.StructLayout:
    """Return the layout of a command: that of the sparse part, and ``plain``."""
    fields = {name: field.shape for name, field in command_layout(config.sparse)}
    return data.StructLayout(fields | {"plain": 1})


class SparseEngine(wiring.Component):
    """:class:`SeedlmGemv` and :class:`SparseMac`; the latter alone has updates and loads."""

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        sparse = config.sparse
        super().__init__(
            {
                "i": In(stream.Signature(engine_layout(config))),
                "i_vector": In(stream.Signature(vector_layout(sparse))),
                "i_weights": In(stream.Signature(weights_layout(config.gemv))),
                "i_entries": In(stream.Signature(entry_layout(sparse))),
                "o": Out(stream.Signature(result_layout(sparse))),
                "o_entries": Out(stream.Signature(entry_layout(sparse, last=1))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.dense = dense = SeedlmGemv(self.config.gemv)
        m.submodules.sparse = sparse = SparseMac(self.config.sparse)
        command = self.i.payload
        product = Signal()
        m.d.comb += product.eq(command.kind == SPARSE_MAC_KINDS.index("product"))
        dense_done, sparse_done = Signal(), Signal()
        dense_sent, sparse_sent = Signal(), Signal()
        m.d.comb += [
            dense.i.valid.eq(self.i.valid & product & ~dense_done),
            dense.i.payload.columns.eq(command.columns),
            dense.i.payload.rows.eq(command.rows),
            dense.i.payload.plain.eq(command.plain),
            sparse.i.valid.eq(self.i.valid & ~sparse_done),
            *(sparse.i.payload[n].eq(command[n]) for n, _ in sparse.i.payload.shape()),
            dense_sent.eq(dense_done | dense.i.ready | ~product),
            sparse_sent.eq(sparse_done | sparse.i.ready),
            self.i.ready.eq(dense_sent & sparse_sent),
        ]
        with m.If(self.i.valid):
            m.d.sync += [
                dense_done.eq(dense_sent & ~self.i.ready),
                sparse_done.eq(sparse_sent & ~self.i.ready),
            ]
        v_dense, v_sparse = Signal(), Signal()
        m.d.comb += [
            dense.i_vector.valid.eq(self.i_vector.valid & ~v_dense),
            sparse.i_vector.valid.eq(self.i_vector.valid & ~v_sparse),
            dense.i_vector.payload.eq(self.i_vector.payload),
            sparse.i_vector.payload.eq(self.i_vector.payload),
            self.i_vector.ready.eq(
                (v_dense | dense.i_vector.ready) & (v_sparse | sparse.i_vector.ready)
            ),
        ]
        with m.If(self.i_vector.valid):
            m.d.sync += [
                v_dense.eq(~self.i_vector.ready & (v_dense | dense.i_vector.ready)),
                v_sparse.eq(~self.i_vector.ready & (v_sparse | sparse.i_vector.ready)),
            ]
        m.d.comb += [
            sparse.i_sums.valid.eq(dense.o.valid),
            sparse.i_sums.payload.sum.eq(dense.o.payload.sum),
            sparse.i_sums.payload.status.eq(dense.o.payload.status),
            sparse.i_sums.payload.last.eq(dense.o.payload.last),
            dense.o.ready.eq(sparse.i_sums.ready),
        ]
        wiring.connect(m, wiring.flipped(self.i_weights), dense.i_weights)
        wiring.connect(m, wiring.flipped(self.i_entries), sparse.i_entries)
        wiring.connect(m, sparse.o, wiring.flipped(self.o))
        wiring.connect(m, sparse.o_entries, wiring.flipped(self.o_entries))
        return m
