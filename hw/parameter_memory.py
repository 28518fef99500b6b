"""Weights of the frozen network, adapters in two pages, and the accumulators of their gradients."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.spec.engine import EngineConfig

__all__ = ["ACCUMULATORS", "ParameterMemory"]

#: The third page of the adapters' memory.
ACCUMULATORS = 2


class ParameterMemory(wiring.Component):
    """Rows of ``ways`` times ``lanes`` numbers, one read and one written a cycle.

    Adapters have two pages: an update reads one and writes the other, so that the old ones are
    whole until the new ones are. Accumulators are the third page, for they are never read together
    with adapters, and a block RAM is deeper than a page. Two neighbouring lanes share a memory.

    Members
    -------
    learned, page, row : In
        What to read, each cycle: the frozen network's rows, or a page of the adapters'.
    o : Out(ways * lanes numbers)
        The row that was asked for ``LATENCY`` cycles before.
    write, write_page, write_row, values : In
        Writes a row of the adapters' memory.
    load, load_learned, load_page, load_row, pair, word : In
        Writes two numbers, the ``pair``-th ones, of a row; not together with ``write``.
    """

    #: Cycles from an address to its row: a register on both sides of the memories.
    LATENCY = 3

    def __init__(self, config: EngineConfig):
        self.config = config
        plan = config.plan
        count = plan.ways * plan.lanes
        self.width = config.mac.weight_width
        wide = data.ArrayLayout(signed(self.width), count)
        most = max(plan.frozen_rows, plan.learned_rows, 2)
        super().__init__(
            {
                "learned": In(1),
                "page": In(2),
                "row": In(range(most)),
                "o": Out(wide),
                "write": In(1),
                "write_page": In(2),
                "write_row": In(range(max(plan.learned_rows, 2))),
                "values": In(wide),
                "load": In(1),
                "load_learned": In(1),
                "load_page": In(1),
                "load_row": In(range(most)),
                "pair": In(range(count // 2)),
                "word": In(data.ArrayLayout(signed(config.word), 2)),
            }
        )
        self._page = 1 << (max(plan.learned_rows, 2) - 1).bit_length()
        self._frozen = self._memories(config.weights.width, plan.frozen_rows)
        self._learned = []
        if config.lora:
            width = max(config.lora.accumulators.width, config.lora.parameters.width)
            self._learned = self._memories(width, (ACCUMULATORS + 1) * self._page)

    def _memories(self, width: int, depth: int) -> list[Memory]:
        count = len(self.o) // 2 if depth else 0
        shape = data.ArrayLayout(signed(width), 2)
        return [Memory(shape=shape, depth=depth, init=[]) for _ in range(count)]

    def elaborate(self, platform):
        m = Module()
        bits = (self._page - 1).bit_length()
        # Loads come from far: a cycle later, so that their lines are short.
        load = Signal()
        kept = [
            Signal.like(s, name=f"late_{k}", reset_less=True)
            for k, s in enumerate(
                [self.load_learned, self.load_page, self.load_row, self.pair, self.word]
            )
        ]
        late_learned, late_page, late_row, late_pair, late_word = kept
        m.d.sync += [
            load.eq(self.load),
            late_learned.eq(self.load_learned),
            late_page.eq(self.load_page),
            late_row.eq(self.load_row),
            late_pair.eq(self.pair),
            late_word.eq(self.word),
        ]
        # One address for a hundred memories, and which of them is shown.
        row = Signal.like(self.row, reset_less=True)
        page = Signal.like(self.page, reset_less=True)
        learned = [Signal(name=f"learned_for_{k}", reset_less=True) for k in range(2)]
        m.d.sync += [row.eq(self.row), page.eq(self.page)]
        m.d.sync += [learned[0].eq(self.learned), learned[1].eq(learned[0])]
        for k in range(len(self.o) // 2):
            lanes = slice(2 * k, 2 * k + 2)
            two = data.ArrayLayout(signed(self.width), 2)
            given = Signal(two, name=f"given_{k}", reset_less=True)
            m.d.comb += [o.eq(g) for o, g in zip(self.o[lanes], given, strict=True)]
            found = []
            here = late_pair == k
            if self._frozen:
                m.submodules[f"frozen_{k}"] = memory = self._frozen[k]
                read, write = memory.read_port(), memory.write_port()
                m.d.comb += [
                    read.addr.eq(row),
                    write.addr.eq(late_row),
                    write.en.eq(load & ~late_learned & here),
                    *(d.eq(w) for d, w in zip(write.data, late_word, strict=True)),
                ]
                found.append(read.data)
            if self._learned:
                m.submodules[f"learned_{k}"] = memory = self._learned[k]
                read, write = memory.read_port(), memory.write_port()
                loads = load & late_learned & here
                m.d.comb += [
                    read.addr.eq(Cat(row[:bits], page)),
                    write.en.eq(self.write | loads),
                    write.addr.eq(
                        Mux(
                            self.write,
                            Cat(self.write_row[:bits], self.write_page),
                            Cat(late_row[:bits], late_page),
                        )
                    ),
                ]
                for d, v, w in zip(write.data, self.values[lanes], late_word, strict=True):
                    m.d.comb += d.eq(Mux(self.write, v, w))
                found.append(read.data)
            for to, values in zip(given, zip(*found, strict=True), strict=True):
                m.d.sync += to.eq(values[0] if len(values) == 1 else Mux(learned[1], *values[::-1]))
        return m
