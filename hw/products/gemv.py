"""Matrix-vector product of packed or plain weights, with a sparse side path as an option."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.codes import codes
from seedbed.hw.products import gemv_engine
from seedbed.hw.products.gemv_engine import GemvEngine
from seedbed.hw.products.gemv_layouts import (
    command_layout,
    result_layout,
    scale_layout,
    vector_layout,
    weights_layout,
)
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.hw.products.sparse_mac import SparseMac
from seedbed.spec import SPARSE_MAC_KINDS, GemvConfig

__all__ = ["Gemv"]

_KINDS = codes(SPARSE_MAC_KINDS)


class Gemv(wiring.Component):
    """y = W x, exact in integers; W is streamed once, a beat per cycle, and x is stored.

    A job is a command, the vector, the rows of W one after the other, and a result per row. With
    packed weights, whose blocks b of C columns give sums S and an exponent e, or plain weights w::

        y_r = sum over b of 2^(e_rb + 8) sum over c of S_rbc x_(C b + c)        (packed)
        y_r = sum over c of w_rc x_c                                            (plain)

    or codes with a table of levels and an exponent e per row::

        y_r = 2^(e_r + 8) sum over c of level_r[code_rc] x_c                    (lut4)

    or symbols of a trellis code, whose weights are w, with a mantissa and an exponent per row::

        y_r = mantissa_r 2^(e_r + 8) sum over c of w_rc x_c                 (trellis)

    so that the value of a packed row is ``y_r 2^-8 / (2^(B - 1) - 1)`` times the scales of tensor
    and vector. Every row begins in a new beat; the unused part of its last beat counts as 0.

    With a side path the entries of a sparse matrix are added, which is trained, see
    :class:`~seedbed.hw.products.sparse_mac.SparseMac`: entries are stored or streamed, perturbed on
    their way to a multiplier, and updated in place.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`.

    Members
    -------
    i : In(stream of struct)
        command: one matrix-vector product. A command is accepted after the last result of the job
        before.
        columns : matrix columns. Range 1 to ``config.columns``.
        rows : matrix rows. 1 or more.
        plain : 1: uncompressed integer weights; 0: compressed blocks. With ``seedlm`` only.
        clear : 1: abort the current job; no job is started. The other fields are ignored.
        kind : 0 product, 1 update, 2 load of entries into the memory. With a side path, like the
            fields below. Index of ``SPARSE_MAC_KINDS``. Only a product has a vector and rows of W.
        first : address of the first entry in the memory. Not with streamed entries.
        count : entries of the matrix
        shift : left shift of an entry's product, or of gain x number
        perturb : 1: values of entries are perturbed in a product
        negative : 1: the perturbation is subtracted
        scale : left shift of the perturbation
        seed : seed of the numbers: any word
        gain : gain of an update, with 16 fraction bits
    i_vector : In(stream of struct)
        input vector
        lanes (group x signed(activation_width)) : next elements of the vector. With several
            vectors, a group of each.
        last : last beat of the vector. It has the last column.
    i_weights : In(stream of struct)
        matrix, row by row
        data (beat_bits bits) : compressed blocks or uncompressed weights, the first at bit 0. With
            ``trellis``, symbols. With ``lut4``, before the codes of each row the table of the next
            row, and before the first one its own: levels, the first one lowest, and in the 4
            highest bits the exponent.
        last : last beat of a row
    i_scales : In(stream of struct)
        scales, one per row. With ``trellis`` only. A scale is accepted with the last beat of its
        row.
        mantissa : mantissa of the scale, without a sign
        exponent (signed(4)) : exponent of the scale
    i_entries : In(stream of struct)
        entries, sorted by row, then by column. With a side path only. They are loaded or streamed.
        row : row of the entry
        column : column of the entry
        value : difference to the dense weight
    o : Out(stream of struct)
        results, one per row
        sum (signed(result_width)) : exact sum of the row. One of each vector.
        status : 0 ok, 1 shape error, 2 vector error, 3 row error, 4 cleared, 5 entries not sorted,
            6 entry repeated, 7 entry out of range. Index of :data:`~seedbed.spec.GEMV_STATUS`, see
            below.
        last : last result of the job
    o_entries : Out(stream of struct)
        entries after an update. With a side path only.
        row : row of the entry
        column : column of the entry
        value : new difference to the dense weight
        last : last entry of the update

    Errors: the ``status`` of a job's last result is an index of
    :data:`~seedbed.spec.GEMV_STATUS`. If it is not ``ok``, that result is an extra one, with
    ``sum`` 0, and the beats of vector, weights, scales and entries are discarded from the error on
    until the next command. The errors are ``shape`` (a field of the command out of range),
    ``vector`` or ``row`` (a ``last`` that is missing or too early), ``cleared``, and those of
    entries: ``order``, ``repeated`` and ``range``. An error of the side path is reported when all
    rows of W have come. The sources must have stopped before the next command. After an error, its
    data is sent after its transfer, because what comes with it is discarded. A command with
    ``clear`` ends the discarding and has no other effect.

    Latency: ``latency`` cycles from the last beat of a row to its result, ``plain_latency`` with
    uncompressed weights.
    Throughput: 1 beat of weights per cycle. This holds for rows of one beat too. A beat of the
    vector is accepted every cycle; of the side path, an entry or a row's sum.
    Source: SeedLM (arXiv:2410.10714), section 4.2 and Figure 4; QTIP (arXiv:2406.11235), section 3,
    for the trellis; SensZOQ (arXiv:2406.02913) for the side path.
    """

    interval = 1

    def __init__(self, config: GemvConfig):
        self.config = config
        members = {
            "i": In(stream.Signature(command_layout(config))),
            "i_vector": In(stream.Signature(vector_layout(config))),
            "i_weights": In(stream.Signature(weights_layout(config))),
            "o": Out(stream.Signature(result_layout(config))),
        }
        if config.sparse:
            members["i_entries"] = In(stream.Signature(entry_layout(config.sparse)))
            members["o_entries"] = Out(stream.Signature(entry_layout(config.sparse, last=1)))
        if config.trellis:
            members["i_scales"] = In(stream.Signature(scale_layout()))
        super().__init__(members)

    @property
    def plain_latency(self) -> int:
        """Cycles from the last beat of a row of plain weights to its result."""
        side = SparseMac.latency if self.config.sparse else 0
        return gemv_engine.plain_latency(self.config) + side

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row of packed weights to its result."""
        side = SparseMac.latency if self.config.sparse else 0
        return gemv_engine.latency(self.config) + side

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = GemvEngine(self.config)
        wiring.connect(m, wiring.flipped(self.i_weights), engine.i_weights)
        if self.config.trellis:
            wiring.connect(m, wiring.flipped(self.i_scales), engine.i_scales)
        if self.config.sparse:
            self._add_side_path(m, engine)
        else:
            for outer, inner in (
                (self.i, engine.i),
                (self.i_vector, engine.i_vector),
                (self.o, engine.o),
            ):
                wiring.connect(m, wiring.flipped(outer), inner)
        return m

    def _add_side_path(self, m, engine):
        """Give commands and vector to both, and the sums of the engine to the side path."""
        m.submodules.sparse = sparse = SparseMac(self.config.sparse)
        wiring.connect(m, wiring.flipped(self.i_entries), sparse.i_entries)
        wiring.connect(m, wiring.flipped(self.o), sparse.o)
        wiring.connect(m, wiring.flipped(self.o_entries), sparse.o_entries)
        self._command(m, engine, sparse)
        dense, sums = engine.o, sparse.i_sums
        m.d.comb += [
            self.i_vector.ready.eq(engine.i_vector.ready & sparse.i_vector.ready),
            engine.i_vector.payload.eq(self.i_vector.payload),
            sparse.i_vector.payload.eq(self.i_vector.payload),
            engine.i_vector.valid.eq(self.i_vector.valid & sparse.i_vector.ready),
            sparse.i_vector.valid.eq(self.i_vector.valid & engine.i_vector.ready),
            sums.valid.eq(dense.valid),
            sums.payload.status.eq(dense.payload.status),
            sums.payload.last.eq(dense.payload.last),
            dense.ready.eq(sums.ready),
        ]
        if self.config.vectors == 1:
            m.d.comb += sums.payload.sum.eq(dense.payload.sum)
        else:
            pairs = zip(sums.payload.sum, dense.payload.sum, strict=True)
            m.d.comb += [to.eq(value) for to, value in pairs]

    def _command(self, m, engine, sparse):
        """Give a command to both."""
        command, job, side = self.i.payload, engine.i.payload, sparse.i.payload
        # An engine that is not ready for a clear has no more to wait for.
        engine_ready = command.clear | engine.i.ready
        m.d.comb += [
            job.columns.eq(command.columns),
            job.rows.eq(command.rows),
            # A command without a product ends the discarding of the engine, too.
            job.clear.eq(command.clear | (command.kind != _KINDS["product"])),
            *(side[name].eq(command[name]) for name in side.shape().members),
            engine.i.valid.eq(self.i.valid & sparse.i.ready),
            sparse.i.valid.eq(self.i.valid & engine_ready),
            self.i.ready.eq(sparse.i.ready & engine_ready),
        ]
        if self.config.decode == "seedlm":
            m.d.comb += job.plain.eq(command.plain)
