"""A pass of the vector unit: its command, its operands from everywhere, and its results."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.stream.beat_chunks import BeatChunks
from seedbed.hw.stream.operand_reader import OperandReader
from seedbed.hw.stream.row_output import constants_layout
from seedbed.hw.stream.stream_layouts import (
    element_layout,
    is_given,
    products_layout,
    record_layout,
    result_layout,
)
from seedbed.hw.vectors.vector_unit import VectorUnit
from seedbed.spec import VECTOR_OPERATIONS, StreamEngineConfig
from seedbed.spec.engine_records import ADDENDS, FACTORS, NUMBERS, PLACE, RECORD, TARGETS

__all__ = ["VectorPass"]

#: Operations without results.
SILENT = ("sum", "square")


class VectorPass(wiring.Component):
    """Runs a record of the vector unit.

    The operands of a beat are given together: from the store, from memory, or sums of products.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start : In(1)
        A pulse, and with it what follows, which is steady to the end:
    record, length, constant, number_at, factor_at, addend_at, target_at : In
        The record, and what it is for this token and head.
    i : In(stream)
        Beats of memory.
    products, products_valid, products_pop : In, In, Out
        Sums of products; they are taken.
    read, address, data, write, write_at, values : Out, Out, In, Out, Out, Out
        The store's ports.
    o : Out(stream)
        Results of records whose target is the output.
    done : Out(1)
        The record is done.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        place = PLACE["place"]
        ports = {f"{name}_at": In(place) for name in ("number", "factor", "addend", "target")}
        super().__init__(
            ports
            | {
                "start": In(1),
                "record": In(record_layout()),
                "length": In(RECORD["length"]),
                "constant": In(config.unit.constant_bits),
                "i": In(stream.Signature(config.beat_bits)),
                "products": In(products_layout(config)),
                "products_valid": In(1),
                "products_pop": Out(1),
                "read": Out(1),
                "address": Out(range(config.store)),
                "data": In(element_layout(config)),
                "write": Out(1),
                "write_at": Out(range(config.store)),
                "values": Out(element_layout(config)),
                "o": Out(stream.Signature(result_layout(config))),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = VectorUnit(self.config.unit)
        m.submodules.operands = operands = OperandReader(self.config)
        m.submodules.chunks = chunks = BeatChunks(self.config)
        record = self.record
        numbers = {name: record.numbers == k for k, name in enumerate(NUMBERS)}
        # The command has not been taken; the last result has not come.
        asking = Signal()
        awaiting = Signal()
        silent = Cat(record.operation == VECTOR_OPERATIONS.index(name) for name in SILENT).any()
        command = unit.i_commands.payload
        m.d.comb += [
            unit.i_commands.valid.eq(asking),
            command.length.eq(self.length),
            command.constant.eq(self.constant),
            *(
                command[name].eq(record[name])
                for name in ("operation", "shift", "activation", "centred", "add", "wide")
            ),
            self.done.eq(~(asking | awaiting | self.start)),
        ]
        with m.If(self.start):
            m.d.sync += [asking.eq(1), awaiting.eq(~silent)]
        with m.Else():
            with m.If(unit.i_commands.ready):
                m.d.sync += asking.eq(0)
            with m.If(unit.o.valid & unit.o.ready & unit.o.payload.last):
                m.d.sync += awaiting.eq(0)
        self._operands(m, unit, operands, chunks, numbers, asking)
        self._chunks(m, chunks, numbers)
        self._results(m, unit)
        return m

    def _operands(self, m, unit, operands, chunks, numbers, asking) -> None:
        """Give a beat of all operands that the record names."""
        config, record = self.config, self.record
        factors, addends = (
            {name: value == k for k, name in enumerate(names)}
            for names, value in ((FACTORS, record.factors), (ADDENDS, record.addends))
        )
        lanes = config.lanes
        m.d.comb += [
            operands.start.eq(self.start),
            operands.beats.eq(self.length + (lanes - 1) >> lanes.bit_length() - 1),
            operands.wrap.eq(record.head),
            operands.numbers_on.eq(numbers["store"]),
            operands.factors_on.eq(factors["store"]),
            operands.addends_on.eq(addends["store"]),
            operands.numbers_at.eq(self.number_at),
            operands.factors_at.eq(self.factor_at),
            operands.addends_at.eq(self.addend_at),
            operands.data.eq(self.data),
            self.read.eq(operands.read),
            self.address.eq(operands.address),
        ]
        weighs = numbers["token"] | numbers["position"]
        by_words = numbers["words"] | factors["words"] | addends["words"] | weighs
        by_products = numbers["scores"] | numbers["mix"]
        valid = Signal()
        pop = Signal()
        m.d.comb += [
            valid.eq(
                asking
                & operands.valid
                & (~by_words | chunks.o.valid)
                & (~by_products | self.products_valid)
            ),
            pop.eq(valid & unit.i.ready),
            operands.pop.eq(pop),
            chunks.o.ready.eq(pop & by_words),
            self.products_pop.eq(pop & by_products),
            *(port.valid.eq(valid) for port in (unit.i, unit.i_factors, unit.i_addends)),
        ]
        for k in range(lanes):
            self._lane(m, k, unit, operands, chunks, numbers, factors, addends)

    def _lane(self, m, k, unit, operands, chunks, numbers, factors, addends) -> None:
        """Give an element, its factor and its addend."""
        config = self.config
        entry = data.ArrayLayout(constants_layout(), config.lanes)(chunks.o.payload)[k]
        weight = chunks.o.payload.word_select(k, config.weight_width).as_signed()
        number = unit.i.payload[k]
        m.d.comb += [
            number.eq(operands.numbers[k]),
            unit.i_factors.payload[k].eq(
                Mux(
                    factors["words"],
                    entry.multiplier,
                    Mux(factors["shifts"], self.products.shifts[k], operands.factors[k]),
                )
            ),
            unit.i_addends.payload[k].eq(Mux(addends["words"], entry.bias, operands.addends[k])),
        ]
        with m.If(numbers["words"]):
            m.d.comb += number.eq(entry.bias.as_unsigned())
        with m.If(numbers["token"] | numbers["position"]):
            m.d.comb += number.eq(weight)
        with m.If(numbers["scores"] | numbers["mix"]):
            m.d.comb += number.eq(self.products.sums[k])

    def _chunks(self, m, chunks, numbers) -> None:
        """Cut beats of memory."""
        wiring.connect(m, wiring.flipped(self.i), chunks.i)
        m.d.comb += [
            chunks.clear.eq(self.start),
            chunks.weights.eq(numbers["token"] | numbers["position"]),
        ]

    def _results(self, m, unit) -> None:
        """Write results to the store, give them out, or discard them."""
        record, out = self.record, unit.o
        stored = record.target == TARGETS.index("store")
        given = is_given(self.config, record)
        place = Signal.like(self.write_at)
        m.d.comb += [
            out.ready.eq(~given | self.o.ready),
            self.o.valid.eq(out.valid & given),
            Value.cast(self.o.payload).eq(Value.cast(out.payload)),
            self.write.eq(out.valid & stored),
            self.write_at.eq(place),
            self.values.eq(out.payload.values),
        ]
        with m.If(self.start):
            m.d.sync += place.eq(self.target_at)
        with m.Elif(self.write):
            m.d.sync += place.eq(place + 1)
