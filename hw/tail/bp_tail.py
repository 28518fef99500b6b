"""Backpropagation of a network's last one or two dense layers in int8, during forward passes."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.tail.inner_error import InnerError
from seedbed.hw.tail.logit_error import LogitError
from seedbed.hw.tail.row_walk import RowWalk
from seedbed.hw.tail.tail_intake import TailIntake, vector_layout, vector_words
from seedbed.hw.tail.tail_products import LATENCY, TailProducts
from seedbed.hw.tail.tail_update import TailUpdate, response_layout
from seedbed.hw.tail.tail_weights import TailWeights, weights_layout
from seedbed.spec import BpTailConfig

__all__ = ["BpTail", "command_layout", "response_layout", "vector_layout", "weights_layout"]


def command_layout() -> data.StructLayout:
    """Return the layout of a beat at the port ``i_update``."""
    return data.StructLayout({"bits": 3})


def _short(config: BpTailConfig, lane: int) -> list[int]:
    """Return the layers whose last word of inputs has none in a lane."""
    rests = [inputs % config.lanes or config.lanes for inputs in config.inputs]
    return [n for n, rest in enumerate(rests) if lane >= rest]


class BpTail(wiring.Component):
    """Error, gradient and update of the last dense layers, sample by sample, gradients summed wide.

    With d_L the error of the logits, in units of 2^-7, by integer softmax; of layer l and sample n,
    x the inputs and s their exponent; r the exponent range; and b the update bits::

        u = clamp(s_n - s_0, -r, r) + r,   G_l += (d_l << u) x_l'
        d_l-1 = W_l' d_l / 2^8, rounded half away from zero, in -127..127; 0 where x_l <= 0
        shift = max(bits(max |G_l|) - b, 0)
        update_l = G_l / 2^shift, rounded pseudo-stochastically, in -(2^b - 1) .. 2^b - 1

    A sample takes four steps: the error of the logits, the last layer's gradient, and, with two
    layers, the error of the first one's outputs and its gradient. ``lanes`` multipliers are for one
    error and as many inputs. After a batch, each layer's gradients are walked twice, for the
    greatest and for the updates.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.BpTailConfig`.

    Members
    -------
    i : In(stream of struct)
        samples: a packet for the inputs of each layer, one for the logits. The inputs of the last
        layer come last, before the logits.
        values (ways x signed(8)) : next values of the vector. Those after the vector's last one are
            ignored.
        exponent (signed(8)) : exponent of the vector; valid with last
        label : class label; valid with the last beat of the logits
        last : last beat of the packet
    i_weights : In(stream of struct)
        weights of the last layer, row by row. With two layers only. They hold until the next
        packet.
        values (2 x signed(8)) : two weights
        last : last word of the packet
    i_update : In(stream of struct)
        command after a batch: give the updates
        bits : bits of the magnitude of an update; 0 discards the gradients. b: 1 to 7.
    o : Out(stream of struct)
        updates of all layers, row by row. They come after ``i_update``. The errors are the same in
        all beats: what was wrong since the update before.
        values (2 x signed(8)) : two updates, to be subtracted from the weights. Padding is 0.
        last : last updates of the batch
        label_error : a sample was ignored: its label is no class
        length_error : a sample was ignored, or weights are incomplete: a packet had another length
        batch_error : a sample was ignored: the batch was full

    A sample is ignored if its label is no class (``label_error``), a packet of it has another
    length (``length_error``), or the batch is full (``batch_error``). A packet of weights of
    another length is stored as far as it goes. A command in the middle of a sample drops it
    (``length_error`` as well).

    Latency: ``latency`` cycles, at most, from the last beat of a sample to the first of the next;
    ``update_latency`` from a command to the first updates.
    Throughput: 1 beat per cycle; 2 updates per cycle. This holds for a sample that is not wider
    than ``lanes``. All updates take ``update_cycles`` cycles. A command goes before a sample that
    has not begun.
    Source: ElasticZO, Algorithm 2; NITI. The alignment of samples is this project's.
    """

    def __init__(self, config: BpTailConfig):
        self.config = config
        self._two = len(config.inputs) > 1
        weights = {"i_weights": In(stream.Signature(weights_layout(config)))}
        super().__init__(
            {
                "i": In(stream.Signature(vector_layout(config))),
                **(weights if self._two else {}),
                "i_update": In(stream.Signature(command_layout())),
                "o": Out(stream.Signature(response_layout())),
            }
        )

    @property
    def latency(self) -> int:
        """The most cycles from the last beat of a sample to the first of the next."""
        config = self.config
        logits = LogitError.latency_of(config)
        steps = sum(TailUpdate.pairs_of(config)) * 2 // config.lanes
        walks = steps + len(config.inputs) * (LATENCY + 2)
        products = config.classes * config.layers[-1].words
        inner = products + LATENCY + config.lanes + 2 if self._two else 0
        return logits + walks + inner + 2

    @property
    def update_latency(self) -> int:
        """Cycles from a command to the first updates."""
        return TailUpdate.latency_of(self.config)

    @property
    def update_cycles(self) -> int:
        """Cycles from a command to the last updates, if they are accepted at once."""
        return TailUpdate.cycles_of(self.config)

    def elaborate(self, platform):
        m = Module()
        config, layers = self.config, len(self.config.inputs)
        m.submodules.intake = intake = TailIntake(config)
        m.submodules.logits = logits = LogitError(config)
        m.submodules.products = products = TailProducts(config)
        m.submodules.update = update = TailUpdate(config)
        m.submodules.walk = walk = RowWalk(config)
        if self._two:
            m.submodules.inner = InnerError(config)
            m.submodules.last_weights = weights = TailWeights(config)
            wiring.connect(m, wiring.flipped(self.i_weights), weights.i)
        wiring.connect(m, wiring.flipped(self.i), intake.i)
        wiring.connect(m, wiring.flipped(self.o), update.o)
        layer = Signal.like(walk.layer, name="layer")
        # The next sample is a batch's first; a walk adds to gradients.
        first = Signal(init=1)
        walking = Signal()
        self._sequence(m, layer, first, walking)
        m.d.comb += [
            walk.layer.eq(Mux(update.busy, update.layer, layer)),
            walk.advance.eq(walking | update.advance),
            products.clear.eq(first),
            products.shift.eq(Mux(layer == 0, intake.shifts[0], intake.shifts[layers - 1])),
            intake.first.eq(first),
            products.read.enable.eq(update.read),
            products.read.ce.eq(update.ce),
            products.read.address.eq(walk.address),
            update.update_bits.eq(self.i_update.payload.bits),
            update.empty.eq(first),
            update.padding.eq(walk.padding),
            update.last.eq(walk.last),
            update.gradients.eq(products.gradients),
            logits.exponent.eq(intake.exponents[layers]),
            logits.label.eq(intake.label),
        ]
        self._operands(m, layer, walking)
        self._errors(m, walking)
        return m

    def _sequence(self, m, layer, first, walking):
        """Control: the steps of a sample, or the updates of a batch."""
        intake, logits, update = m.submodules.intake, m.submodules.logits, m.submodules.update
        walk, products, layers = m.submodules.walk, m.submodules.products, len(self.config.inputs)
        count = Signal(range(self.config.batch + 1))
        full = Signal()
        load = Signal()
        m.d.comb += [
            full.eq(count == self.config.batch),
            walk.load.eq(load | update.load),
            intake.discard.eq(update.start),
        ]
        self._report(m, full)
        with m.FSM():
            with m.State("INTAKE"):
                m.d.sync += layer.eq(layers - 1)
                m.d.comb += [
                    self.i_update.ready.eq(1),
                    update.start.eq(self.i_update.valid),
                    intake.accept.eq(~self.i_update.valid),
                ]
                with m.If(update.start):
                    m.next = "UPDATE"
                with m.Elif(intake.complete & ~(intake.length_error | intake.label_error | full)):
                    m.next = "START"
            with m.State("START"):
                m.d.comb += logits.start.eq(1)
                m.next = "LOGITS"
            with m.State("LOGITS"), m.If(logits.done):
                m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += load.eq(1)
                m.next = "WALK"
            with m.State("WALK"):
                m.d.comb += walking.eq(1)
                with m.If(walk.last):
                    m.next = "DRAIN"
            with m.State("DRAIN"), m.If(~products.busy):
                with m.If(layer == 0):
                    m.d.sync += [first.eq(0), count.eq(count + 1)]
                    m.next = "INTAKE"
                if self._two:
                    with m.Else():
                        m.next = "INNER_START"
            if self._two:
                self._inner_states(m, layer)
            with m.State("UPDATE"), m.If(~update.busy):
                m.d.sync += [first.eq(1), count.eq(0)]
                m.next = "INTAKE"

    def _inner_states(self, m, layer):
        """States of the error of the layer before; a packet of weights is complete before it."""
        inner, weights = m.submodules.inner, m.submodules.last_weights
        m.d.comb += weights.accept.eq(1)
        with m.State("INNER_START"), m.If(~weights.begun):
            m.d.comb += [inner.start.eq(1), weights.accept.eq(0)]
            m.next = "INNER"
        with m.State("INNER"):
            m.d.comb += weights.accept.eq(0)
            with m.If(~(inner.busy | m.submodules.products.busy)):
                m.d.sync += layer.eq(0)
                m.next = "LOAD"

    def _report(self, m, full):
        """Collect errors; those since the command before are given with the updates."""
        intake, update = m.submodules.intake, m.submodules.update
        length_error = intake.complete & intake.length_error
        if self._two:
            length_error = length_error | m.submodules.last_weights.length_error
        found = Cat(
            intake.complete & intake.label_error,
            length_error | (update.start & intake.begun),
            intake.complete & full,
        )
        errors = Signal(len(found))
        m.d.comb += update.errors.eq(errors | found)
        m.d.sync += errors.eq(Mux(update.start, 0, errors | found))

    def _operands(self, m, layer, walking):
        """Connect the memories of vectors and weights to the multipliers."""
        config, bases = self.config, vector_words(self.config)
        intake, logits, walk = m.submodules.intake, m.submodules.logits, m.submodules.walk
        products, step = m.submodules.products, m.submodules.products.step
        lane_bits = (config.lanes - 1).bit_length()
        valid, index = walking, logits.index
        place = bases[-2] + (index >> lane_bits)
        lane = delayed(m, index[:lane_bits], 1, "lane")
        m.d.sync += logits.logit.eq(Array(intake.word)[lane])
        # The last lanes of an output's last word may have no input.
        partial = delayed(m, walk.partial, 1, "partial")
        numbers = Cat(
            Mux(partial & Cat(layer == n for n in _short(config, k)).any(), 0, number)
            for k, number in enumerate(intake.word)
        )
        if self._two:
            inner, weights = m.submodules.inner, m.submodules.last_weights
            walking_d1 = delayed(m, walking, 1, "walking")
            place = Mux(inner.valid, bases[-3] + inner.word, place)
            numbers = Mux(walking_d1, numbers, weights.weights.as_value())
            valid = valid | inner.valid
            positive = Cat(~each[-1] & each.any() for each in intake.word)
            m.d.comb += [
                step.first.eq(inner.first),
                step.last.eq(inner.last),
                weights.word.eq(inner.word),
                weights.output.eq(inner.output),
                inner.captured.eq(products.captured),
                inner.positive.eq(delayed(m, positive, LATENCY - 1, "positive")),
                *(a.eq(b) for a, b in zip(inner.sums, products.sums, strict=True)),
            ]
        m.d.comb += [
            intake.address.eq(Mux(walking, walk.word, place)),
            step.valid.eq(valid),
            step.gradient.eq(walking),
            step.padding.eq(walk.padding),
            step.address.eq(walk.address),
            products.numbers.as_value().eq(numbers),
        ]

    def _errors(self, m, walking):
        """The memory of errors: the logits', then those of the layer before."""
        config, logits = self.config, m.submodules.logits
        # What is read while it is written is not used.
        depth = config.classes + config.layers[-1].words * config.lanes * self._two
        m.submodules.errors = errors = memory.Memory(
            shape=signed(8), depth=depth, init=[], attrs={"no_rw_check": True}
        )
        write, read = errors.write_port(), errors.read_port()
        output = m.submodules.walk.output
        m.d.comb += [
            write.en.eq(logits.write.enable),
            write.addr.eq(logits.write.address),
            write.data.eq(logits.write.error),
            m.submodules.products.error.eq(read.data),
        ]
        if self._two:
            inner = m.submodules.inner
            output = Mux(walking, output, inner.output)
            with m.If(inner.write.enable):
                m.d.comb += [
                    write.en.eq(1),
                    write.addr.eq(config.classes + inner.write.address),
                    write.data.eq(inner.write.error),
                ]
        m.d.comb += read.addr.eq(output)
