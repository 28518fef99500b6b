"""Proofs of the dequantizer with tables: every row reads its own table, which nothing changes."""

from amaranth.hdl import Assert, Module, Signal

from seedbed.hw.weights.lut_dequantize import TABLES, LutDequantize
from seedbed.sim.proofs.bench import cover, free_inputs, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import LutDequantizeConfig

__all__ = ["PROOFS"]

#: Bits of the numbers of tables and rows, which wrap around.
NUMBER_BITS = 4


def tables(dut: LutDequantize) -> Module:
    """Number the tables and the rows; compare the numbers of what is read and what is written."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    enable, beats = inside["enable"], dut.config.beats

    def number() -> Signal:
        return Signal(NUMBER_BITS)

    table, row, part = number(), number(), Signal(range(beats))
    with m.If(transfer(dut.i_levels)):
        m.d.sync += part.eq(part + 1)
        with m.If(part == beats - 1):
            m.d.sync += table.eq(table + 1)
    with m.If(transfer(dut.i) & dut.i.payload.last):
        m.d.sync += row.eq(row + 1)
    # Of the code that is read, and of the level that is written.
    read_row, write_table, write_part = number(), number(), Signal.like(part)
    codes = Signal(4)
    with m.If(enable):
        m.d.sync += [
            read_row.eq(row),
            write_table.eq(table),
            write_part.eq(part),
            codes.eq(dut.i.payload.codes[0]),
        ]
    write = inside["write_copy_0"]
    bits = len(part)
    reading = inside["valid_d1"]
    written, bank = write[0], write[1 + bits]
    loaded = (table - row)[:NUMBER_BITS]
    m.d.comb += [
        Assert(loaded == inside["count"]),
        Assert(loaded <= TABLES),
        Assert(part == inside["part"]),
        Assert(inside["write_bank"] == table[0]),
        Assert(inside["read_bank"] == row[0]),
        # What is written is the level of a table that is not read.
        Assert(~written | (write[1 : 1 + bits] == write_part)),
        Assert(~written | (bank == write_table[0])),
        Assert(~written | ((write_table + (write_part == beats - 1))[:NUMBER_BITS] == table)),
        Assert(~reading | (inside["read_bank_copy_0"] == read_row[0])),
        Assert(~(reading & written) | (write_table == (read_row + 1)[:NUMBER_BITS])),
        # What is read is complete: the table's number is less than that of the next one.
        Assert(~reading | ((table - read_row)[:NUMBER_BITS] - 1 < TABLES)),
        Assert(~reading | ((row - read_row)[:NUMBER_BITS] <= 1)),
        Assert(~reading | (inside["code_0_d1"] == codes)),
    ]
    cover(m, reading & written & (write_table != 0), ~dut.i_levels.ready & transfer(dut.o))
    return m


TOO_MANY = Mutant(
    "a table is loaded over the one that is read", "enable & (count != TABLES)", "enable"
)
NO_TABLE = Mutant("a row does not wait for its table", "enable & (count != 0)", "enable")
EVERY_BEAT = Mutant(
    "every beat of a row has a table",
    "released.eq(self.i.valid & self.i.ready & self.i.payload.last)",
    "released.eq(self.i.valid & self.i.ready)",
)
EARLY = Mutant(
    "the table is complete without its last levels",
    "complete.eq(load & (part == self.config.beats - 1))",
    "complete.eq(load & (part == self.config.beats - 2))",
)

PROOFS = (
    Proof(
        name="lut_dequantize_tables",
        says="A row is read from its own table, which is complete and is not written meanwhile; a "
        "valid beat is stable until its transfer.",
        component=LutDequantize,
        config=LutDequantizeConfig(lanes=1, width=2, load=4),
        harness=tables,
        depth=2,
        reach=16,
        mutants=(TOO_MANY, NO_TABLE, EVERY_BEAT, EARLY),
    ),
)
