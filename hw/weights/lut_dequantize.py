"""Dequantizer of 4-bit codes: a table of 16 levels for each row of a matrix."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.parts.replicate import replicate
from seedbed.spec import LutDequantizeConfig
from seedbed.spec.lut_dequantize import LEVELS

__all__ = ["LutDequantize", "beat_layout", "codes_layout", "latency", "table_layout"]

#: Tables that are stored: one is read while the next is loaded.
TABLES = 2
#: Lanes that share a copy of a table's write data and of the bank that is read.
LANES_PER_COPY = 16


def codes_layout(config: LutDequantizeConfig) -> data.StructLayout:
    """Return the layout of a beat of codes, see :class:`LutDequantize`."""
    return data.StructLayout({"codes": data.ArrayLayout(4, config.lanes), "last": 1})


def table_layout(config: LutDequantizeConfig) -> data.StructLayout:
    """Return the layout of a beat of a table, see :class:`LutDequantize`."""
    levels = data.ArrayLayout(signed(config.width), config.load)
    return data.StructLayout({"levels": levels, "exponent": signed(4)})


def beat_layout(config: LutDequantizeConfig) -> data.StructLayout:
    """Return the layout of a beat of weights, see :class:`LutDequantize`."""
    return data.StructLayout(
        {
            "weights": data.ArrayLayout(signed(config.width), config.lanes),
            "exponents": data.ArrayLayout(signed(4), 1),
            "last": 1,
        }
    )


def latency(config: LutDequantizeConfig) -> int:
    """Return :attr:`LutDequantize.latency`."""
    return 2


class LutDequantize(wiring.Component):
    """Replaces each code by a level of its row's table, all codes of a beat in one cycle.

    With the table and the exponent of row r::

        weight_rc = levels_r[code_rc],   its value: weight_rc 2^exponent_r

    Every lane has a memory of two tables, in LUTRAM: the codes of a row are its read addresses,
    and the table of the next row is written meanwhile. Loads and reads share one clock enable: the
    output is empty or its beat is transferred.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.LutDequantizeConfig`.

    Members
    -------
    i_levels : In(stream of struct)
        tables, one per row. A table is 16 / load beats.
        levels (load x signed(width)) : next levels of the table, from code 0 on
        exponent (signed(4)) : exponent of the row; valid with the last beat of its table
    i : In(stream of struct)
        codes of a row. A row is accepted when its table is complete.
        codes (lanes x unsigned(4)) : 4-bit codes
        last : last beat of the row
    o : Out(stream of struct)
        weights of the row. The layout is that of
        :class:`~seedbed.hw.weights.seedlm_decompress.SeedlmDecompress`, with one exponent per beat.
        weights (lanes x signed(width)) : levels of the codes; weight = level x 2^exponent
        exponents (1 x signed(4)) : exponent of the row
        last : last flag of the input beat

    Latency: ``latency`` cycles.
    Throughput: 1 beat per cycle; a row takes as long as the load of a table at least. Rows of 16 /
    load beats or more take one cycle per beat.
    Source: SqueezeLLM (arXiv:2306.07629), section 4.1, for the tables.
    """

    interval = 1

    def __init__(self, config: LutDequantizeConfig):
        self.config = config
        super().__init__(
            {
                "i_levels": In(stream.Signature(table_layout(config))),
                "i": In(stream.Signature(codes_layout(config))),
                "o": Out(stream.Signature(beat_layout(config))),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from codes to their weights."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        enable = Signal()
        m.d.comb += enable.eq(~self.o.valid | self.o.ready)
        write, read, exponent = self._tables(m, enable)
        fire = Signal()
        m.d.comb += fire.eq(self.i.valid & self.i.ready)
        valid = delayed(m, fire, self.latency, "valid", enable=enable, reset=True)
        last = delayed(m, self.i.payload.last, self.latency, "last", enable=enable)
        m.d.comb += [
            self.o.valid.eq(valid),
            self.o.payload.last.eq(last),
            self.o.payload.exponents[0].eq(
                delayed(m, exponent, self.latency, "exponent", enable=enable)
            ),
        ]
        self._lanes(m, enable, write, read)
        return m

    def _tables(self, m, enable):
        """Count the tables; return the write of levels, the bank that is read and its exponent.

        A level is written two cycles after its transfer, and a code is read one cycle after its
        transfer, in cycles of ``enable``. A table may therefore be loaded from the cycle on that
        transfers the last codes of the table before in its bank.
        """
        beat = self.i_levels.payload
        count = Signal(range(TABLES + 1))
        part = Signal(range(self.config.beats))
        write_bank = Signal()
        read_bank = Signal()
        exponents = Signal(data.ArrayLayout(signed(4), TABLES), reset_less=True)
        exponent = Signal(signed(4))
        load = Signal()
        complete = Signal()
        released = Signal()
        m.d.comb += [
            self.i_levels.ready.eq(enable & (count != TABLES)),
            self.i.ready.eq(enable & (count != 0)),
            load.eq(self.i_levels.valid & self.i_levels.ready),
            complete.eq(load & (part == self.config.beats - 1)),
            released.eq(self.i.valid & self.i.ready & self.i.payload.last),
            exponent.eq(Mux(read_bank, exponents[1], exponents[0])),
        ]
        m.d.sync += count.eq(count + complete - released)
        with m.If(load):
            m.d.sync += part.eq(part + 1)
        with m.If(complete):
            m.d.sync += [write_bank.eq(~write_bank), exponents[write_bank].eq(beat.exponent)]
        with m.If(released):
            m.d.sync += read_bank.eq(~read_bank)
        return Cat(load, part, write_bank, beat.levels), read_bank, exponent

    def _lanes(self, m, enable, write, read_bank):
        """Write levels to, and read codes from, the memories of all lanes."""
        config = self.config
        # The bits of a code that select among the levels of a beat, and those of the address.
        select_bits = config.load.bit_length() - 1
        options = {"fanout": LANES_PER_COPY, "enable": enable}
        writes = replicate(m, write, config.lanes, "write", **options)
        banks = replicate(m, read_bank, config.lanes, "read_bank", **options)
        address_bits = 4 - select_bits + 1
        for lane, code in enumerate(self.i.payload.codes):
            code = delayed(m, code, 1, f"code_{lane}", enable=enable)
            found = []
            for part in range(config.load):
                m.submodules[f"lane_{lane}_{part}"] = table = Memory(
                    shape=signed(config.width), depth=TABLES * LEVELS // config.load, init=[]
                )
                put, get = table.write_port(), table.read_port(domain="comb")
                at = 1 + address_bits + part * config.width
                m.d.comb += [
                    put.en.eq(writes[lane][0] & enable),
                    put.addr.eq(writes[lane][1 : 1 + address_bits]),
                    put.data.eq(writes[lane][at : at + config.width]),
                    get.addr.eq(Cat(code[select_bits:], banks[lane])),
                ]
                found.append(get.data)
            level = Array(found)[code[:select_bits]] if select_bits else found[0]
            m.d.comb += self.o.payload.weights[lane].eq(
                delayed(m, level, 1, f"weight_{lane}", enable=enable)
            )
