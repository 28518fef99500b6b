"""Operations on vectors of integers: what a transformer computes beside its matrices."""

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.beat_fifo import BeatFifo
from seedbed.hw.vectors.vector_layouts import (
    ACTIVATION_CODES,
    OPERATION_CODES,
    addends_layout,
    command_layout,
    control_layout,
    factors_layout,
    numbers_layout,
    results_layout,
)
from seedbed.hw.vectors.vector_pipeline import (
    BETWEEN,
    BOUND,
    LOW,
    RESULTS,
    SOURCES,
    TABLES,
    VectorPipeline,
)
from seedbed.hw.vectors.vector_statistics import FINISH, VectorStatistics
from seedbed.spec import VectorUnitConfig

__all__ = ["VectorUnit"]

#: Results that are in the pipeline and in the queue at most: more than the cycles through both.
DEPTH = 16


class VectorUnit(wiring.Component):
    """Operations on vectors of integers, element by element, and their sums and reciprocals.

    A command is a pass over a vector. Statistics of a pass (the mean, the reciprocal r / 2^(15 + p)
    or its root, the greatest element) stay in the core for the commands that follow. With the
    elements x, factors f and addends a of the vector, and k the constant::

        scale      y = a + round(x k / 2^shift)
        multiply   y = a + round(x f / 2^shift)
        activate   y = max(x, 0) - round(correction at |x|), ``shift`` fraction bits
        sum        mean = round(sum of x k / 2^shift)
        square     r, p: reciprocal root of (sum of (x - mean)^2 + k)
        normalise  y = round((x - mean) r / 2^(p - 2))
        score      y = round(x k / 2^(shift - f)); the greatest y
        power      y = round(2^(15 - (greatest - x) / 2^12)); r, p: reciprocal of the sum of y
        mix        y = round(x r / 2^(15 + p))
        angle      y = round((x k mod 2^32) / 2^10), plus a quarter turn in even elements
        sine       y = sine of x / 2^22 of a turn, 15 fraction bits
        rotate     y = (x0 f0 - x1 f1, x1 f0 + x0 f1) / 2^15 of each pair, rounded

    A mean over tokens is ``scale`` with ``add``, token by token, and ``scale`` by a reciprocal.
    Roundings are half up. Results saturate at the width of a vector, or at that of the residual:
    with ``wide``, and where the operation needs it. See :class:`~seedbed.spec.VectorUnitConfig`
    for the tables.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.VectorUnitConfig`.

    Members
    -------
    i_commands : In(stream of struct)
        commands, one per pass over a vector. A command is accepted with its last beat.
        operation : code of the operation: 0 scale, 1 multiply, 2 activate, 3 sum, 4 square, 5
            normalise, 6 score, 7 power, 8 mix, 9 angle, 10 sine, 11 rotate. A command of another
            code is discarded.
        length : elements of the vector. A command of 0 elements is discarded.
        constant : constant of the operation. A factor has 17 bits; that of ``square`` has 48.
        shift : shift to the right. Of ``activate``, the fraction bits of x and y, 5 to 17.
        activation : 0 ReLU, 1 SiLU, 2 GELU; valid with activate
        centred : 1: the mean is subtracted; valid with square and normalise
        add : 1: addends are added; valid with scale and multiply
        wide : 1: results have the width of the residual; valid with scale and multiply
    i : In(stream of array of signed(40))
        elements of a vector. Every vector begins in a new beat.
    i_factors : In(stream of array of signed(16))
        factors of the elements. Those of ``score`` are the lowest 4 bits, 0 to 8; those of
        ``rotate`` are cosine and sine; other operations than these and ``multiply`` take none.
    i_addends : In(stream of array of signed(24))
        addends of the elements. They are taken with ``add``.
    o : Out(stream of struct)
        results. ``sum`` and ``square`` have none.
        values (lanes x signed(24)) : results of the elements. Those beyond the length are 0.
        last : last beat of the vector

    A command after one with statistics (``sum``, ``square``, ``score``, ``power``) begins when
    these are complete: at most ``statistics_latency`` cycles after the last beat. ``score`` does
    not wait for sums, and only ``score`` and ``power`` wait for the greatest element.

    Latency: ``latency`` cycles from a beat to its result.
    Throughput: 1 beat per cycle. Commands may follow each other without a gap.
    """

    interval = 1

    def __init__(self, config: VectorUnitConfig):
        self.config = config
        layouts = {
            "i_commands": command_layout(config),
            "i": numbers_layout(config),
            "i_factors": factors_layout(config),
            "i_addends": addends_layout(config),
        }
        ports = {name: In(stream.Signature(layout)) for name, layout in layouts.items()}
        super().__init__(ports | {"o": Out(stream.Signature(results_layout(config)))})

    @property
    def latency(self) -> int:
        """Cycles from the transfer of a beat to its result."""
        return RESULTS + 3

    @property
    def statistics_latency(self) -> int:
        """Cycles from the last beat of a vector with statistics to the next command, at most."""
        return self.latency + self.config.lanes.bit_length() + FINISH

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.pipeline = pipeline = VectorPipeline(config)
        m.submodules.statistics = statistics = VectorStatistics(config)
        m.submodules.queue = queue = BeatFifo(results_layout(config).size, DEPTH)
        is_ = {
            name: self.i_commands.payload.operation == code
            for name, code in OPERATION_CODES.items()
        }
        fire, first, last, outside = self._issue(m, is_, statistics, queue.valid)
        control = self._control(is_, last, outside, statistics)
        now = Signal(control_layout(config))
        m.d.comb += [now[name].eq(value) for name, value in control.items()]
        m.d.sync += [
            pipeline.valid.eq(fire),
            pipeline.numbers.eq(self.i.payload),
            pipeline.factors.eq(self.i_factors.payload),
            pipeline.addends.eq(self.i_addends.payload),
            pipeline.control.eq(now),
        ]
        self._statistics(m, is_, fire & first, pipeline, statistics)
        given = pipeline.given & pipeline.value_control.output
        written = results_layout(config)(queue.data)
        m.d.comb += [
            # The queue's registers have no reset of their own.
            queue.reset.eq(ResetSignal(allow_reset_less=True)),
            queue.write.eq(given),
            written.values.eq(pipeline.values),
            written.last.eq(pipeline.value_control.last),
            Value.cast(self.o.payload).eq(queue.o),
            self.o.valid.eq(queue.valid),
            queue.ready.eq(self.o.ready),
        ]
        return m

    def _issue(self, m, is_, statistics, valid):
        """Take a beat of each stream that the command needs; return it, and its place.

        A result has a place in the queue before its beat is taken.
        """
        config, command = self.config, self.i_commands
        count = Signal(config.length_bits)
        outstanding = Signal(range(DEPTH + 1))
        # A sum, or the greatest element, is not complete.
        summing, comparing, waits = (Signal(name=n) for n in ("summing", "comparing", "waits"))
        fire, first, last, known, popped = (
            Signal(name=name) for name in ("fire", "first", "last", "known", "popped")
        )
        factors = is_["multiply"] | is_["score"] | is_["rotate"]
        addends = command.payload.add & (is_["scale"] | is_["multiply"])
        reads = {self.i: True, self.i_factors: factors, self.i_addends: addends}
        left = Signal(config.length_bits)
        lanes = config.lanes
        m.d.comb += [
            left.eq(command.payload.length - count),
            first.eq(count == 0),
            last.eq(left <= lanes),
            known.eq((command.payload.length != 0) & sum(is_.values(), 0).bool()),
            popped.eq(valid & self.o.ready),
            waits.eq((summing & ~is_["score"]) | (comparing & (is_["score"] | is_["power"]))),
        ]
        ready = command.valid & known & ~waits & (outstanding != DEPTH)
        for port, needed in reads.items():
            others = [p.valid | ~Value.cast(n) for p, n in reads.items() if p is not port]
            m.d.comb += port.ready.eq(ready & needed & others[0] & others[1])
        m.d.comb += [
            fire.eq(self.i.valid & self.i.ready),
            command.ready.eq(Mux(known, fire & last, 1)),
        ]
        with m.If(fire):
            m.d.sync += count.eq(Mux(last, 0, count + lanes))
        sums = is_["sum"] | is_["square"] | is_["power"]
        for of, takes, done in (
            (summing, sums, statistics.done),
            (comparing, is_["score"], statistics.peaked),
        ):
            with m.If(done):
                m.d.sync += of.eq(0)
            with m.Elif(fire & last & takes):
                m.d.sync += of.eq(1)
        out = fire & ~(is_["sum"] | is_["square"])
        m.d.sync += outstanding.eq(outstanding + out - popped)
        outside = Cat(left <= k for k in range(lanes))
        return fire, first, last, outside

    def _control(self, is_, last, outside, statistics) -> dict[str, Value]:
        """Return what the stages of the pipeline do with a beat of the command."""
        config, command = self.config, self.i_commands.payload
        fraction = command.shift[: config.activated_fractions[1].bit_length()]
        centred = command.centred & (is_["square"] | is_["normalise"])
        by_reciprocal = is_["normalise"] | is_["mix"]
        places = config.score_fraction - config.index_bits
        end = config.activation_end.bit_length() - 1
        beyond = Cat(fraction <= BOUND + n - end for n in range(8))
        left = Mux(is_["activate"], config.activation_fraction - fraction, 0)
        shifts = {
            "activate": LOW + config.activation_fraction - fraction,
            "sine": LOW,
            "rotate": LOW + config.table_fraction,
            "angle": config.angle_bits - config.sine_angle_bits,
        }
        shift = Mux(by_reciprocal, statistics.places, command.shift)
        for name, value in shifts.items():
            shift = Mux(is_[name], value, shift)
        takes_wide = is_["normalise"] | is_["score"] | is_["power"] | is_["sine"]
        adds = is_["scale"] | is_["multiply"]
        tabulated = is_["activate"] | is_["power"] | is_["sine"]
        return {
            "last": last,
            "outside": outside,
            "complement": is_["power"],
            "magnitude": is_["activate"],
            "offset": Mux(is_["power"], statistics.greatest, Mux(centred, ~statistics.centre, 0)),
            "carry": is_["power"] | centred,
            "add": command.add & adds,
            "angle": is_["angle"],
            "by_factors": is_["multiply"] | is_["rotate"],
            "common": Mux(by_reciprocal, statistics.reciprocal, command.constant),
            "source": Mux(
                is_["square"],
                SOURCES["square"],
                Mux(is_["rotate"], SOURCES["rotate"], Mux(tabulated, SOURCES["table"], 0)),
            ),
            "table": Mux(is_["activate"], command.activation, Mux(is_["sine"], TABLES["sine"], 0)),
            "left": Mux(is_["power"], BETWEEN - places, left),
            "linear": is_["activate"] & (command.activation == ACTIVATION_CODES["relu"]),
            "beyond": Mux(is_["activate"], beyond, 0),
            "sine": is_["sine"],
            "shift": shift,
            "by_key": is_["score"],
            "power": is_["power"],
            "subtract": is_["activate"],
            "wide": takes_wide | (adds & command.wide),
            "output": ~(is_["sum"] | is_["square"]),
            "sums": is_["sum"] | is_["square"],
            "peaks": is_["score"],
        }

    def _statistics(self, m, is_, start, pipeline, statistics) -> None:
        """Connect the statistics to the command and to both ends of the pipeline."""
        command = self.i_commands.payload
        product_control, value_control = pipeline.product_control, pipeline.value_control
        m.d.comb += [
            statistics.start_sum.eq(start & (is_["sum"] | is_["square"] | is_["power"])),
            statistics.start_peak.eq(start & is_["score"]),
            statistics.mean.eq(is_["sum"]),
            statistics.root.eq(is_["square"]),
            statistics.constant.eq(Mux(is_["square"], command.constant, 0)),
            statistics.shift.eq(command.shift),
            *(
                to.eq(product)
                for to, product in zip(statistics.products, pipeline.products, strict=True)
            ),
            statistics.add_products.eq(pipeline.summable & product_control.sums),
            statistics.products_last.eq(product_control.last),
            statistics.values.eq(pipeline.values),
            statistics.outside.eq(value_control.outside),
            statistics.add_values.eq(pipeline.given & value_control.power),
            statistics.compare.eq(pipeline.given & value_control.peaks),
            statistics.values_last.eq(value_control.last),
        ]
