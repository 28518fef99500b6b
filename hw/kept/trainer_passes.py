"""Forward passes of samples, their losses, and passes over the entries."""

from amaranth.hdl import Cat, Module, Shape, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.layer_table import layer_layout
from seedbed.hw.kept.layer_walk import LayerWalk
from seedbed.hw.kept.output_stage import OutputStage
from seedbed.hw.kept.projected_gradient import ProjectedGradient
from seedbed.hw.kept.vector_store import HIDDEN, VectorStore, put_layout
from seedbed.hw.loss.softmax_loss import SoftmaxLoss
from seedbed.hw.parts.codes import codes
from seedbed.hw.products.gemv import Gemv
from seedbed.hw.products.gemv_layouts import scale_layout, weights_layout
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.lutopt import SEED_BITS
from seedbed.spec.sparse_mac import SPARSE_MAC_KINDS
from seedbed.spec.sparse_trainer import BATCH_BITS, BIAS_BITS, RATE_BITS, RATE_SHIFT_BITS

__all__ = ["TrainerPasses", "class_layout"]

_KINDS = codes(SPARSE_MAC_KINDS)
#: Of a sample whose loss is computed: the signs of its perturbation, and whether its label is none.
_TAG = data.StructLayout({"perturb": 1, "negative": 1, "error": 1})
#: Samples in the computation of the loss: one in its third pass, one in its first or second.
LOSSES = 2


def class_layout(config: SparseTrainerConfig) -> data.StructLayout:
    """Return the layout of a sample's result: ``best``, ``loss``, ``error`` of its label."""
    best = Shape.cast(range(config.classes))
    return data.StructLayout({"best": best, "loss": signed(config.logits.width), "error": 1})


class TrainerPasses(wiring.Component):
    """The datapath: engine, store of vectors, outputs, loss and gradient.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    start : In(1)
        A pulse: a pass over all layers.
    kind, perturb, negative, seed : In
        Of its commands for the engine; see :class:`~seedbed.hw.kept.layer_walk.LayerWalk`.
    frozen : In(1)
        An update does not change values.
    bank, label : In
        Of the sample.
    done, failed : Out(1)
        A pulse at the end of the pass, or at an error of the engine.
    status : Out(3)
        With ``failed``, see :data:`~seedbed.spec.SPARSE_MAC_STATUS`.
    settled : Out(1)
        No loss is being computed.
    index, given : Out, In
        A layer of the table, and what the table shows.
    fetch, layer : Out
        A pulse: the weights of this layer are needed.
    row, bias : Out, In
        A row of the layer, and its bias.
    i : In(stream of :func:`~seedbed.hw.kept.vector_store.put_layout`)
        Groups of samples.
    i_weights : In(stream of :func:`~seedbed.hw.products.gemv_layouts.weights_layout`)
    i_scales : In(stream of :func:`~seedbed.hw.products.gemv_layouts.scale_layout`)
        Rows of weights, and their scales. Scales with a trellis code only.
    i_entries, o_entries : In(stream), Out(stream)
        Those of a load; and of an update.
    o : Out(stream of :func:`class_layout`)
        Of each sample, of its last pass.
    differentiate, rate, shift : In
        A pulse: compute the gain of a batch; see
        :class:`~seedbed.hw.kept.projected_gradient.ProjectedGradient`.
    differentiated, gain, saturated : Out
        Its answer.
    """

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        layer = layer_layout(config)
        entry = entry_layout(config.sparse)
        scales = {"i_scales": In(stream.Signature(scale_layout()))} if config.gemv.trellis else {}
        super().__init__(
            {
                "start": In(1),
                "kind": In(2),
                "perturb": In(1),
                "negative": In(1),
                "seed": In(SEED_BITS),
                "frozen": In(1),
                "bank": In(1),
                "label": In(range(config.classes)),
                "done": Out(1),
                "failed": Out(1),
                "status": Out(3),
                "settled": Out(1),
                "index": Out(range(max(2, config.layers))),
                "given": In(layer),
                "fetch": Out(1),
                "layer": Out(layer),
                "row": Out(config.row_width),
                "bias": In(signed(BIAS_BITS)),
                "i": In(stream.Signature(put_layout(config))),
                "i_weights": In(stream.Signature(weights_layout(config.gemv))),
                "i_entries": In(stream.Signature(entry)),
                "o_entries": Out(stream.Signature(entry_layout(config.sparse, last=1))),
                "o": Out(stream.Signature(class_layout(config))),
                "differentiate": In(1),
                "rate": In(RATE_BITS),
                "shift": In(RATE_SHIFT_BITS),
                "differentiated": Out(1),
                "gain": Out(signed(config.gain_width)),
                "saturated": Out(1),
                **scales,
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.engine = engine = Gemv(config.gemv)
        m.submodules.walk = walk = LayerWalk(config)
        m.submodules.store = store = VectorStore(config)
        m.submodules.outputs = outputs = OutputStage(config)
        m.submodules.loss = loss = SoftmaxLoss(config.loss)
        m.submodules.gradient = gradient = ProjectedGradient(
            loss_width=config.logits.width, sum_width=config.logits.width + BATCH_BITS,
            gain_width=config.gain_width,
        )  # fmt: skip
        for ours, theirs in (
            (self.i, store.i),
            (self.i_weights, engine.i_weights),
            (self.i_entries, engine.i_entries),
        ):
            wiring.connect(m, wiring.flipped(ours), theirs)
        if config.gemv.trellis:
            wiring.connect(m, wiring.flipped(self.i_scales), engine.i_scales)
        wiring.connect(m, walk.o, engine.i)
        wiring.connect(m, store.o, engine.i_vector)
        wiring.connect(m, engine.o_entries, wiring.flipped(self.o_entries))
        self._walk(m, walk, engine, store, outputs)
        self._loss(m, loss, gradient, store, outputs, walk.layer.last)
        m.d.comb += walk.hold.eq(~loss.i.ready)
        return m

    def _walk(self, m, walk, engine, store, outputs):
        """Pass over the layers; give the engine's sums to the outputs."""
        product, result = Signal(), engine.o
        ends = Signal()
        last = walk.layer.last
        m.d.comb += [
            walk.start.eq(self.start),
            walk.kind.eq(self.kind),
            walk.perturb.eq(self.perturb),
            walk.negative.eq(self.negative),
            walk.seed.eq(self.seed),
            product.eq(self.kind == _KINDS["product"]),
            walk.given.eq(self.given),
            self.index.eq(walk.index),
            self.layer.eq(walk.layer),
            self.fetch.eq(walk.fetch),
            self.done.eq(walk.done),
            store.start.eq(walk.fetch),
            store.bank.eq(self.bank),
            store.columns.eq(walk.layer.columns),
            result.ready.eq(1),
            ends.eq(result.valid & result.payload.last),
            self.failed.eq(ends & (result.payload.status != 0)),
            self.status.eq(result.payload.status),
            outputs.layer.eq(walk.layer),
            outputs.start.eq(walk.fetch),
            outputs.valid.eq(result.valid & product),
            outputs.sum.eq(result.payload.sum),
            outputs.last.eq(result.payload.last),
            self.row.eq(outputs.row),
            outputs.bias.eq(self.bias),
            store.valid.eq(outputs.o_valid & ~last),
            store.value.eq(outputs.o),
            store.last.eq(outputs.o_last),
            # A layer's outputs are whole before the next layer begins.
            walk.ended.eq(
                (product & (store.stored | (outputs.o_last & last)))
                | (~product & ends & ~self.failed)
            ),
        ]
        with m.If(walk.index != 0):
            m.d.comb += store.bank.eq(HIDDEN)
        with m.If(~self.frozen):
            m.d.comb += walk.gain.eq(self.gain)

    def _loss(self, m, loss, gradient, store, outputs, last):
        """Compute each sample's loss; add it to the batch's, and give the result of a last pass."""
        m.submodules.tags = tags = SyncFIFO(width=_TAG.size, depth=LOSSES)
        tag, found = data.View(_TAG, tags.r_data), loss.o
        given = Signal(_TAG)
        fire = Signal()
        emits = Signal()
        m.d.comb += [
            loss.i.valid.eq(outputs.o_valid & last),
            loss.i.payload.logit.eq(outputs.o),
            loss.i.payload.label.eq(self.label),
            loss.i.payload.last.eq(outputs.o_last),
            given.perturb.eq(self.perturb),
            given.negative.eq(self.negative),
            given.error.eq(self.label > self.config.classes - 1),
            tags.w_data.eq(Cat(*(given[name] for name, _ in _TAG))),
            tags.w_en.eq(loss.i.valid & outputs.o_last),
            self.settled.eq(~tags.r_rdy),
            emits.eq(~tag.perturb | tag.negative),
            found.ready.eq(~found.payload.last | ~self.o.valid | self.o.ready),
            fire.eq(found.valid & found.ready & found.payload.last),
            tags.r_en.eq(fire),
            gradient.loss.eq(found.payload.loss),
            gradient.add.eq(fire & tag.perturb & ~tag.negative),
            gradient.subtract.eq(fire & tag.perturb & tag.negative),
            gradient.start.eq(self.differentiate),
            gradient.rate.eq(self.rate),
            gradient.shift.eq(self.shift),
            self.differentiated.eq(gradient.done),
            self.gain.eq(gradient.gain),
            self.saturated.eq(gradient.saturated),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(fire & emits):
            m.d.sync += [
                self.o.valid.eq(1),
                self.o.payload.best.eq(found.payload.best),
                self.o.payload.loss.eq(found.payload.loss),
                self.o.payload.error.eq(tag.error),
            ]
