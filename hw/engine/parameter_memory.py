"""Weights of the frozen network, adapters in two pages, and the accumulators of their gradients."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.parts.replicate import replicate
from seedbed.spec.engine import EngineConfig

__all__ = ["ACCUMULATORS", "ParameterMemory"]

#: The third page of the adapters' memory.
ACCUMULATORS = 2
#: Rows of a block RAM that is as wide as two numbers.
BLOCK = 512
#: Memories that share a copy of their address: with fewer, there were more nets than routes.
FANOUT = 16


class ParameterMemory(wiring.Component):
    """Rows of ``ways`` times ``lanes`` numbers, one read and one written a cycle.

    Adapters have two pages: an update reads one and writes the other, so that the old ones are
    whole until the new ones are. Accumulators are the third page. The frozen network's rows come
    before them in the same memories: none of the four is ever read together with another, and one
    output a lane is one line to the array. Two neighbouring lanes share a memory.

    Members
    -------
    trainable, page, row, blank : In
        What to read, each cycle: the frozen network's rows, or a page of the adapters'; ``blank``
        gives 0 instead.
    o : Out(ways * lanes numbers)
        The row that was asked for ``latency`` cycles before.
    write, write_page, write_row : In
        Writes a row of a page.
    load, load_trainable, load_page, load_row, pair : In
        Writes the ``pair``-th two numbers of a row.
    wide : In
        Only with ``parts``: with ``load``, writes all four pairs of which ``pair`` is one.
    values : In
        A row, ``write_latency`` cycle after ``write``; or, ``load_latency`` cycles after a
        ``load``, two numbers in their places. Never both at once.

    A row is not to be read in the cycle that writes it: its content is then undefined.
    """

    #: Cycles from an address to its row: a register on both sides of the memories.
    latency = 3
    write_latency = 1
    load_latency = 2

    def __init__(self, config: EngineConfig, *, parts: bool = False):
        self.config, self._parts = config, parts
        plan = config.plan
        count = plan.ways * plan.lanes
        self.width = config.mac.weight_width
        wide = data.ArrayLayout(signed(self.width), count)
        most = max(plan.frozen_rows, plan.trainable_rows, 2)
        super().__init__(
            {
                "trainable": In(1),
                "page": In(2),
                "row": In(range(most)),
                "blank": In(1),
                "o": Out(wide),
                "write": In(1),
                "write_page": In(2),
                "write_row": In(range(max(config.written_rows, 2))),
                "load": In(1),
                "load_trainable": In(1),
                "load_page": In(2),
                "load_row": In(range(most)),
                "pair": In(range(count // 2)),
                "values": In(wide),
            }
            | ({"wide": In(1)} if parts else {})
        )
        self.depth = self._pages() if config.pages else plan.frozen_rows

    def _pages(self) -> int:
        """Lay out the pages, and return how many rows there are.

        They begin at multiples of a power of two, as large a one as takes no block RAM more than
        pages without gaps: what is above it is all that is added for an address.
        """
        plan, pages = self.config.plan, self.config.pages
        trainable = max(plan.trainable_rows, 2)
        self._bits = (trainable - 1).bit_length()
        fewest = -(-(plan.frozen_rows + pages * trainable) // BLOCK)
        for low in range(self._bits, -1, -1):
            first, size = (-(-rows >> low) for rows in (plan.frozen_rows, trainable))
            depth = (first + pages * size) << low
            if depth <= fewest * BLOCK:
                break
        self._low = low
        self._firsts = range(first, first + pages * size, size)
        return depth

    def _address(self, trainable, page, row):
        """Return a row's address in the memories."""
        if not self.config.pages:
            return row
        low, high = row[: self._low], row[self._low : self._bits]
        # A page of one power of two has its number above its rows'.
        first = Array(self._firsts)[page] + high if len(high) else page + self._firsts[0]
        return Mux(trainable, Cat(low, first), row)

    def elaborate(self, platform):
        m = Module()
        # Writes have long routes: addresses and enables are registered.
        loads = {
            name: delayed(m, getattr(self, name), 1, name, reset=name == "load")
            for name in ("load", "load_trainable", "load_page", "load_row", "pair")
        }
        wide = delayed(m, self.wide, 1, "wide") if self._parts else 0
        depth = (self.depth - 1).bit_length()
        read_row = Signal(depth)
        write_row = Signal(depth, reset_less=True)
        loaded = [loads[f"load_{name}"] for name in ("trainable", "page", "row")]
        written = self._address(1, self.write_page, self.write_row)
        m.d.comb += read_row.eq(self._address(self.trainable, self.page, self.row))
        m.d.sync += write_row.eq(Mux(self.write, written, self._address(*loaded)))
        # One address for a hundred memories.
        count = len(self.o) // 2
        read_rows = replicate(m, read_row, count, "read_row", fanout=FANOUT)
        blank = delayed(m, self.blank, 1, "blank")
        blanks = replicate(m, blank, count, "blank") if self.config.pages else []
        for k in range(count):
            # Without the attribute, yosys adds logic that defines what a read of a row shows while
            # it is written.
            m.submodules[f"pair_{k}"] = memory = Memory(
                shape=data.ArrayLayout(signed(self.width), 2),
                depth=self.depth,
                init=[],
                attrs={"no_rw_check": True},
            )
            read, write = memory.read_port(), memory.write_port()
            lanes = slice(2 * k, 2 * k + 2)
            writes = Signal(name=f"writes_{k}")
            given = Signal(read.data.shape(), name=f"given_{k}", reset_less=True)
            match = loads["pair"] == k
            if self._parts:
                match = (loads["pair"][2:] == k >> 2) & (wide | (loads["pair"][:2] == k & 3))
            m.d.sync += writes.eq(self.write | (loads["load"] & match))
            m.d.comb += [
                read.addr.eq(read_rows[k]),
                write.addr.eq(write_row),
                write.en.eq(writes),
                *(d.eq(v) for d, v in zip(write.data, self.values[lanes], strict=True)),
                *(o.eq(g) for o, g in zip(self.o[lanes], given, strict=True)),
            ]
            m.d.sync += given.eq(read.data)
            if blanks:
                with m.If(blanks[k]):
                    m.d.sync += Value.cast(given).eq(0)
        return m
