"""A pass of the vector unit: its command, its operands from everywhere, and its results."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.stream.beat_chunks import BeatChunks
from seedbed.hw.stream.operand_reader import OPERANDS, OperandReader
from seedbed.hw.stream.result_writer import ResultWriter
from seedbed.hw.stream.row_output import constants_layout
from seedbed.hw.stream.stream_layouts import (
    element_layout,
    is_given,
    products_layout,
    record_layout,
    result_layout,
    unwritten_layout,
    values_layout,
)
from seedbed.hw.vectors.vector_unit import VectorUnit
from seedbed.spec import VECTOR_OPERATIONS, StreamEngineConfig
from seedbed.spec.engine_records import ADDENDS, FACTORS, NUMBERS, PLACE, RECORD, TARGETS

__all__ = ["VectorPass"]

#: Operations without results.
SILENT = ("sum", "square")


#: Where the elements of each operand are from.
SOURCES = {"numbers": NUMBERS, "factors": FACTORS, "addends": ADDENDS}


def _is_from(record, operand: str, *names: str) -> Value:
    """Return whether a record's operand is from one of these."""
    return Cat(record[operand] == SOURCES[operand].index(name) for name in names).any()


class VectorPass(wiring.Component):
    """Runs a record of the vector unit.

    The operands of a beat are given together: from the store, from memory, or sums of products.
    The next record of the vector unit begins when the last ones have been taken, and its results
    follow those of this one. What it reads of these is read when it has been written.

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
    input, input_valid, input_pop, input_last : In, In, Out, Out
        With ``inputs``: a beat of a vector that comes with the token; it is taken, as the last one
        of the pass.
    read, address, data, write, write_at, values : Out, Out, In, Out, Out, Out
        The store's ports.
    of_matrix : In
        As of :class:`~seedbed.hw.stream.operand_reader.OperandReader`.
    read_waits, write_waits : In(1)
        They are another part's.
    o : Out(stream)
        Results of records whose target is the output.
    unwritten : Out
        The beats of an earlier record's results that are not in the store yet.
    done : Out(1)
        All operands have been taken, and the results of earlier records have been written; if its
        results go out, they have gone.
    idle : Out(1)
        All results have been written.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        place = PLACE["place"]
        ports = {f"{name}_at": In(place) for name in ("number", "factor", "addend", "target")}
        inputs = {
            "input": In(values_layout(config)), "input_valid": In(1), "input_pop": Out(1),
            "input_last": Out(1),
        }  # fmt: skip
        ports |= inputs if config.inputs else {}
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
                **({"of_matrix": In(unwritten_layout())} if config.chains else {}),
                "read_waits": In(1),
                "write_waits": In(1),
                "read": Out(1),
                "address": Out(range(config.store)),
                "data": In(element_layout(config)),
                "write": Out(1),
                "write_at": Out(range(config.store)),
                "values": Out(element_layout(config)),
                "o": Out(stream.Signature(result_layout(config))),
                "unwritten": Out(unwritten_layout()),
                "done": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = VectorUnit(self.config.unit)
        m.submodules.operands = operands = OperandReader(self.config)
        m.submodules.chunks = chunks = BeatChunks(self.config)
        record = self.record
        # Registers: a record is there for a cycle before its start.
        sources = {
            operand: {
                name: delayed(m, _is_from(record, operand, name), 1, f"{operand}_{name}")
                for name in names
            }
            for operand, names in SOURCES.items()
        }
        # The command has not been taken.
        asking = Signal()
        command = unit.i_commands.payload
        m.d.comb += [
            unit.i_commands.valid.eq(asking),
            command.length.eq(self.length),
            command.constant.eq(self.constant),
            *(
                command[name].eq(record[name])
                for name in ("operation", "shift", "activation", "centred", "add", "wide")
            ),
        ]
        with m.If(self.start):
            m.d.sync += asking.eq(1)
        with m.Elif(unit.i_commands.ready):
            m.d.sync += asking.eq(0)
        self._operands(m, unit, operands, chunks, sources, asking)
        self._chunks(m, chunks, sources["numbers"])
        self._results(m, unit, asking)
        return m

    def _operands(self, m, unit, operands, chunks, sources, asking) -> None:
        """Give a beat of all operands that the record names."""
        config, record = self.config, self.record
        numbers, factors, addends = (sources[operand] for operand in OPERANDS)
        lanes = config.lanes
        m.d.comb += [
            operands.start.eq(self.start),
            operands.beats.eq(self.length + (lanes - 1) >> lanes.bit_length() - 1),
            operands.wrap.eq(record.head),
            operands.unwritten.eq(self.unwritten),
            *([operands.of_matrix.eq(self.of_matrix)] if config.chains else []),
            operands.waits.eq(self.read_waits),
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
        by_words = delayed(
            m,
            _is_from(record, "numbers", "words", "token", "position")
            | _is_from(record, "factors", "words")
            | _is_from(record, "addends", "words"),
            1,
            "by_words",
        )
        by_products = delayed(m, _is_from(record, "numbers", "scores", "mix"), 1, "by_products")
        valid = Signal()
        pop = Signal()
        there = operands.valid & (~by_words | chunks.o.valid)
        there &= ~by_products | self.products_valid
        if config.inputs:
            there &= ~numbers["input"] | self.input_valid
            m.d.comb += [
                self.input_pop.eq(pop & numbers["input"]),
                self.input_last.eq(unit.i_commands.ready),
            ]
        m.d.comb += [
            valid.eq(asking & there),
            pop.eq(valid & unit.i.ready),
            operands.pop.eq(pop),
            chunks.o.ready.eq(pop & by_words),
            self.products_pop.eq(pop & by_products),
            *(port.valid.eq(valid) for port in (unit.i, unit.i_factors, unit.i_addends)),
        ]
        for k in range(lanes):
            self._lane(m, k, unit, operands, chunks, sources)

    def _lane(self, m, k, unit, operands, chunks, sources) -> None:
        """Give an element, its factor and its addend."""
        config = self.config
        numbers, factors, addends = (sources[operand] for operand in OPERANDS)
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
        if config.inputs:
            with m.If(numbers["input"]):
                m.d.comb += number.eq(self.input[k])

    def _chunks(self, m, chunks, numbers) -> None:
        """Cut beats of memory."""
        wiring.connect(m, wiring.flipped(self.i), chunks.i)
        m.d.comb += [
            chunks.clear.eq(self.start),
            chunks.weights.eq(numbers["token"] | numbers["position"]),
        ]

    def _results(self, m, unit, asking) -> None:
        """Write results to the store, give them out, or discard them."""
        record, lanes = self.record, self.config.lanes
        m.submodules.results = results = ResultWriter(self.config)
        given = is_given(self.config, record)
        wiring.connect(m, unit.o, results.i)
        wiring.connect(m, results.o, wiring.flipped(self.o))
        silent = Cat(record.operation == VECTOR_OPERATIONS.index(name) for name in SILENT).any()
        m.d.comb += [
            results.start.eq(self.start),
            results.silent.eq(silent),
            results.waits.eq(self.write_waits),
            results.stored.eq(record.target == TARGETS.index("store")),
            results.gives.eq(given),
            results.at.eq(self.target_at),
            results.beats.eq(self.length + (lanes - 1) >> lanes.bit_length() - 1),
            self.write.eq(results.write),
            self.write_at.eq(results.write_at),
            self.values.eq(results.values),
            self.unwritten.eq(results.unwritten),
            self.idle.eq(~(results.waiting | results.draining)),
            self.done.eq(~(asking | results.waiting | (results.draining & given))),
        ]
