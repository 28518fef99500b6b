"""The engine that layers run on: one array for a frozen network, its adapters and their training."""

from enum import IntEnum

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.activation_store import FILL, ActivationStore
from seedbed.hw.adapter_learning import AdapterLearning
from seedbed.hw.adapter_runs import AdapterRows, AdapterRuns
from seedbed.hw.layer_sequencer import LayerSequencer
from seedbed.hw.layer_writer import LayerWriter, shown_layout
from seedbed.hw.mac_array import MacArray
from seedbed.hw.parameter_memory import ACCUMULATORS, ParameterMemory
from seedbed.spec.engine import ALIGN, EngineConfig

__all__ = ["LayerEngine", "Program"]

#: Cycles from a run's beat until its products are in the accumulators, at least.
TAIL = 10
#: Cycles from a beat of the array to its products.
PRODUCTS = 2


class Program(IntEnum):
    """What the engine can be told to do."""

    BASE = 0
    FORWARD = 1
    BACKWARD = 2
    LEARN = 3
    UPDATE = 4
    CLEAR = 5
    READ = 6
    SCAN = 7


class LayerEngine(wiring.Component):
    """Runs programs, one after the other, on an array of ``ways`` times ``lanes`` multipliers.

    ``BASE`` is the frozen network, ``FORWARD`` the adapters up to the logits, ``BACKWARD`` dh,
    ``LEARN`` the accumulation of a sample's gradients, ``UPDATE`` the step of all adapters, ``CLEAR``
    makes every B 0, ``READ`` gives the adapters out, and ``SCAN`` what a forward cache keeps.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    i : In(stream of struct)
        ``program``, ``half`` of the store, and ``anew``: accumulators begin at 0 with this sample. The
        next is taken when the one before is over.
    rate : In
        M, steady during ``UPDATE``.
    i_parameters : In(stream of struct)
        ``word`` (two numbers), ``learned`` (which memory) and ``last``: rows from the first on, in
        order. Not during a program.
    i_put : In(stream of struct)
        ``address`` in the store, ``values`` (ways) and ``count`` of them.
    i_fill : In(stream of struct)
        ``address``, a multiple of 8, and 8 ``values``.
    i_gradient : In(stream of struct)
        ``gradient`` and ``last``: of the logits, one by one, for ``half`` of the last program.
    o : Out(stream of struct)
        Logits of ``FORWARD``, or of ``BASE`` where there are no adapters.
    o_parameters : Out(stream of struct)
        ``word`` and ``last``, of ``READ``: rows of adapters as ``i_parameters`` took them.
    o_rows : Out(stream of struct)
        ``values`` (lanes) and ``last`` (of a vector), of ``SCAN``.
    saturated : Out
        How many numbers were beyond their format, in that cycle.
    misfit : Out(1)
        A packet of parameters is shorter or longer than its memory, in that cycle.

    Errors: none but ``misfit``. A reset leaves all memories as they are; adapters are those behind
    the last whole ``UPDATE``.
    Throughput: a beat of the array a cycle; see :class:`~seedbed.spec.engine.Step` for beats.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        plan = config.plan
        self._store = ActivationStore(config)
        width = self._store.address_width
        self._sequencer = LayerSequencer(config, self._store.spreads, width)
        self._writer = LayerWriter(config, width)
        self._memory = ParameterMemory(config)
        self._mac = MacArray(config.mac)
        self._learning = AdapterLearning(config) if config.lora else None
        self._runs = AdapterRuns(config, width) if config.lora else None
        self._rows = AdapterRows(config) if config.lora else None
        number = signed(config.values.width)
        pair = {"word": data.ArrayLayout(signed(config.word), 2), "last": 1}
        several = data.ArrayLayout(number, plan.ways)
        count = range(plan.ways + 1)
        ports = {
            "i": In(_stream(program=3, half=1, anew=1)),
            "i_parameters": In(_stream(**pair, learned=1)),
            "i_put": In(_stream(address=width, values=several, count=count)),
            "o": Out(stream.Signature(shown_layout(config))),
            "saturated": Out(range(plan.ways * (plan.lanes + 1) + 1)),
            "misfit": Out(1),
        }
        if config.lora:
            rows = {"values": data.ArrayLayout(number, plan.lanes), "last": 1}
            gradient = signed(config.lora.gradients.width)
            ports |= {
                "rate": In(config.lora.rate_width),
                "i_fill": In(_stream(address=width, values=data.ArrayLayout(number, FILL))),
                "i_gradient": In(_stream(gradient=gradient, last=1)),
                "o_parameters": Out(_stream(**pair)),
                "o_rows": Out(_stream(**rows)),
            }
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = self._store
        m.submodules.sequencer = self._sequencer
        m.submodules.writer = self._writer
        m.submodules.memory = self._memory
        m.submodules.mac = self._mac
        # What is at work, one of these: steps, runs, rows that move, rows that are given out.
        self._half = Signal()
        self._anew = Signal()
        self._page = Signal(reset_less=True)
        self._steps = Signal()
        if self._learning:
            m.submodules.learning = self._learning
            m.submodules.runs = self._runs
            m.submodules.rows = self._rows
            self._clears = Signal()
            self._moves = Signal()
            self._reads = Signal()
            self._scans = Signal()
        self._commands(m)
        self._loads(m)
        self._writes(m)
        self._operands(m)
        if self._learning:
            self._learns(m)
            self._reads_out(m)
            self._scans_out(m)
        return m

    def _commands(self, m):
        plan, command = self.config.plan, self.i.payload
        works = [self._steps]
        start = Signal()
        if self._learning:
            # Products on their way to the accumulators are in the way of all but new activations.
            tail = Signal(TAIL)
            m.d.sync += tail.eq(Cat(self._runs.busy, tail))
            waits = tail.any() & (command.program > Program.FORWARD)
            works += [self._runs.busy, self._moves, self._reads, self._scans, waits]
            m.d.comb += self._runs.half.eq(self._half)
        m.d.comb += [
            self.i.ready.eq(~Cat(*works).any()),
            start.eq(self.i.valid & self.i.ready),
        ]
        steps = {Program.BASE: plan.base}
        if self._learning:
            steps |= {Program.FORWARD: plan.forward, Program.BACKWARD: plan.backward}
        for part in (self._sequencer, self._writer):
            m.d.comb += [
                part.half.eq(self._half),
                part.start.eq(0),
                part.first.eq(0),
                part.behind.eq(0),
            ]
        with m.If(start):
            m.d.sync += self._half.eq(command.half)
            with m.Switch(command.program):
                for program, (first, behind) in steps.items():
                    if first == behind:
                        continue
                    with m.Case(program):
                        m.d.sync += self._steps.eq(1)
                        for part in (self._sequencer, self._writer):
                            m.d.comb += [
                                part.start.eq(1),
                                part.first.eq(first),
                                part.behind.eq(behind),
                            ]
                if self._learning:
                    with m.Case(Program.LEARN):
                        m.d.comb += self._runs.start.eq(1)
                        m.d.sync += self._anew.eq(command.anew)
                    with m.Case(Program.UPDATE, Program.CLEAR):
                        m.d.comb += self._rows.start.eq(1)
                        m.d.sync += [
                            self._moves.eq(1),
                            self._clears.eq(command.program == Program.CLEAR),
                        ]
                    with m.Case(Program.READ):
                        m.d.sync += self._reads.eq(1)
                    with m.Case(Program.SCAN):
                        m.d.sync += self._scans.eq(1)
        # The last write is in the store when what comes next may read it.
        with m.If(self._steps & ~self._sequencer.busy & ~self._writer.busy & ~self._drains(m)):
            m.d.sync += self._steps.eq(0)

    def _drains(self, m):
        """Return whether a sum is still on its way through the writer."""
        line = Signal(self._writer.LATENCY)
        m.d.sync += line.eq(Cat(self._writer.busy, line))
        return line.any()

    def _loads(self, m):
        """Count through a packet of parameters."""
        plan, memory, given = self.config.plan, self._memory, self.i_parameters
        pairs = plan.ways * plan.lanes // 2
        pair = Signal.like(memory.pair)
        row = Signal.like(memory.load_row)
        beyond = Signal()
        rows = Mux(given.payload.learned, plan.learned_rows, plan.frozen_rows)
        ends = Signal()
        m.d.comb += [
            given.ready.eq(self.i.ready),
            ends.eq((pair == pairs - 1) & (row == rows - 1)),
            memory.load.eq(given.valid & given.ready & ~beyond),
            memory.load_learned.eq(given.payload.learned),
            memory.load_page.eq(self._page),
            memory.load_row.eq(row),
            memory.pair.eq(pair),
            memory.word.eq(given.payload.word),
        ]
        with m.If(given.valid & given.ready):
            with m.If(~beyond):
                m.d.sync += pair.eq(Mux(pair == pairs - 1, 0, pair + 1))
                with m.If(pair == pairs - 1):
                    m.d.sync += row.eq(row + 1)
                with m.If(ends & ~given.payload.last):
                    m.d.sync += beyond.eq(1)
            with m.If(given.payload.last):
                m.d.comb += self.misfit.eq(beyond | ~ends)
                m.d.sync += [pair.eq(0), row.eq(0), beyond.eq(0)]

    def _writes(self, m):
        """Give the store's one write to the writer, then to gradients, puts and fills."""
        plan, store, writer, put = self.config.plan, self._store, self._writer, self.i_put
        free = Signal()
        m.d.comb += [
            free.eq(~writer.write),
            store.write.eq(writer.write),
            store.target.eq(writer.target),
            store.count.eq(writer.count),
            store.values.eq(writer.values),
        ]
        if self._learning:
            slope, fill = self.i_gradient, self.i_fill
            number = Signal(range(plan.regions["dz"].shape[2] + 1))
            half = self._half << (len(store.target) - 1)
            address = plan.regions["dz"].first + number + half
            m.d.comb += slope.ready.eq(free)
            with m.If(free & slope.valid):
                m.d.comb += [
                    store.write.eq(1),
                    store.target.eq(address),
                    store.count.eq(1),
                    store.values[0].eq(slope.payload.gradient),
                ]
                m.d.sync += number.eq(Mux(slope.payload.last, 0, number + 1))
            free = free & ~slope.valid
        m.d.comb += put.ready.eq(free)
        with m.If(free & put.valid):
            m.d.comb += [
                store.write.eq(1),
                store.target.eq(put.payload.address),
                store.count.eq(put.payload.count),
                store.values.eq(put.payload.values),
            ]
        if self._learning:
            m.d.comb += [
                fill.ready.eq(free & ~put.valid),
                store.fill.eq(fill.ready & fill.valid),
                store.filling.eq(fill.payload.values),
            ]
            with m.If(store.fill):
                m.d.comb += [store.write.eq(1), store.target.eq(fill.payload.address)]

    def _operands(self, m):
        """Bring activations and weights to the array at once, and its sums to the writer."""
        config, store, memory, mac = self.config, self._store, self._memory, self._mac
        late = _line(m, self._sequencer.beat, store.LATENCY, "beat")
        now, ahead = late[-1], late[-1 - memory.LATENCY]
        lanes = list(store.lanes)
        lanes[-1] = Mux(now.bias, config.values.one, lanes[-1])
        m.d.comb += [
            store.address.eq(late[0].address),
            store.spread.eq(late[0].spread),
            memory.learned.eq(ahead.learned),
            memory.page.eq(self._page),
            memory.row.eq(ahead.row),
            mac.i.valid.eq(now.valid),
            mac.i.payload.first.eq(now.begins),
            mac.i.payload.last.eq(now.last & now.valid),
            mac.i.payload.on.eq(1),
            mac.i.payload.weights.eq(memory.o),
            *(to.eq(lane) for to, lane in zip(mac.i.payload.activations, lanes, strict=True)),
            self._writer.i.payload.sums.eq(mac.o.payload.sums),
            self._writer.i.valid.eq(mac.o.valid),
            mac.o.ready.eq(self._writer.i.ready),
            self._sequencer.retired.eq(mac.o.valid & mac.o.ready),
            self._sequencer.written.eq(self._writer.written),
            self.saturated.eq(self._writer.saturated),
            self.o.payload.eq(self._writer.o.payload),
            self.o.valid.eq(self._writer.o.valid),
            self._writer.o.ready.eq(self.o.ready),
        ]

    def _learns(self, m):
        """Multiply what belongs to the ways with lanes, or accumulators with the rate."""
        plan, store, memory, mac = self.config.plan, self._store, self._memory, self._mac
        learning, mul = self._learning, PRODUCTS
        runs = _line(m, self._runs.beat, TAIL, "run")
        rows = _line(m, self._rows.beat, TAIL, "moved")
        # In cycles behind a beat: its activations, or its accumulators, are at the array; then its
        # products, and a cycle later what they are added to; the sums; all have been counted.
        at, to = store.LATENCY, memory.LATENCY
        outer, moved = runs[at], rows[to]
        left = Signal(data.ArrayLayout(store.lanes.shape().elem_shape, plan.ways), reset_less=True)
        with m.If(outer.left):
            m.d.sync += [kept.eq(lane) for kept, lane in zip(left, store.lanes, strict=False)]
        with m.If(runs[0].left | runs[0].right):
            m.d.comb += [store.address.eq(runs[0].address), store.spread.eq(0)]
        with m.If(outer.right):
            for w in range(plan.ways):
                lanes = mac.i.payload.weights[w * plan.lanes : (w + 1) * plan.lanes]
                m.d.comb += [weight.eq(left[w]) for weight in lanes]
        with m.If(moved.valid):
            rate = Mux(self._clears, 0, self.rate)
            m.d.comb += [lane.eq(rate) for lane in mac.i.payload.activations]
        with m.If(outer.right | moved.valid):
            m.d.comb += [mac.i.valid.eq(1), mac.i.payload.first.eq(1), mac.i.payload.last.eq(0)]
        outer, moved = runs[at + mul], rows[to + mul]
        m.d.comb += [
            learning.products.eq(mac.products),
            learning.update.eq(moved.valid),
            learning.anew.eq(Mux(moved.valid, self._clears & moved.blank, self._anew)),
            learning.counts.eq((outer.right & outer.counts) | (moved.valid & moved.counts)),
            learning.row.eq(memory.o),
            self.saturated.eq(self._writer.saturated + learning.saturated),
        ]
        # What is added to is asked for, so that it comes a cycle behind the products.
        ask = mul + 1 - to
        for beat, page in [
            (runs[at + ask], ACCUMULATORS),
            (rows[0], ACCUMULATORS),
            (rows[to + ask], self._page),
        ]:
            with m.If(beat.right if beat is runs[at + ask] else beat.valid):
                m.d.comb += [memory.learned.eq(1), memory.page.eq(page), memory.row.eq(beat.row)]
        outer, moved = runs[at + mul + 2], rows[to + mul + 2]
        m.d.comb += [
            memory.write.eq(outer.right | moved.valid),
            memory.write_page.eq(Mux(moved.valid, ~self._page, ACCUMULATORS)),
            memory.write_row.eq(Mux(moved.valid, moved.row, outer.row)),
            memory.values.eq(learning.values),
        ]
        # The last row is written: from now on, the new page is the one.
        with m.If(moved.valid & (moved.row == plan.learned_rows - 1)):
            m.d.sync += [self._page.eq(~self._page), self._moves.eq(0)]

    def _reads_out(self, m):
        """Give the adapters out, two numbers at a time; a row stands while its words go."""
        plan, memory, out = self.config.plan, self._memory, self.o_parameters
        pairs = plan.ways * plan.lanes // 2
        row = Signal(range(plan.learned_rows))
        pair = Signal(range(pairs))
        wait = Signal(range(memory.LATENCY + 1), init=memory.LATENCY)
        shown = Signal(out.payload.word.shape(), reset_less=True)
        given = Array(Cat(*memory.o[2 * k : 2 * k + 2]) for k in range(pairs))
        width, word = memory.width, self.config.word
        two = Signal(2 * width)
        m.d.comb += [
            two.eq(given[pair]),
            out.payload.word.eq(shown),
            out.payload.last.eq(row == plan.learned_rows - 1),
        ]
        moved = Signal()
        m.d.comb += moved.eq(out.valid & out.ready)
        with m.If(self._reads):
            m.d.comb += [memory.learned.eq(1), memory.page.eq(self._page), memory.row.eq(row)]
            with m.If(wait != 0):
                m.d.sync += wait.eq(wait - 1)
            with m.Elif(~out.valid):
                m.d.sync += [
                    shown[0].eq(two[:word]),
                    shown[1].eq(two[width : width + word]),
                    out.valid.eq(1),
                ]
            with m.If(moved):
                m.d.sync += [out.valid.eq(0), pair.eq(pair + 1)]
                with m.If(pair == pairs - 1):
                    m.d.sync += [pair.eq(0), row.eq(row + 1), wait.eq(memory.LATENCY)]
                    with m.If(row == plan.learned_rows - 1):
                        m.d.sync += [row.eq(0), self._reads.eq(0)]
        m.d.comb += out.payload.last.eq((row == plan.learned_rows - 1) & (pair == pairs - 1))

    def _scans_out(self, m):
        """Give the cached vectors out, a row of lanes at a time; an address stands while it does."""
        plan, store, out = self.config.plan, self._store, self.o_rows
        unit = max(plan.lanes, ALIGN) // plan.lanes
        # Vectors in whole beats of the cache.
        parts = [(r.first // plan.lanes, -(-r.rows // unit) * unit) for r in plan.cached]
        number = Signal(range(len(parts) + 1))
        row = Signal(range(2 * plan.store_rows))
        left = Signal(range(max(count for _, count in parts) + 1))
        wait = Signal(range(store.LATENCY + 1))
        begins = Signal()
        with m.If(~self._scans):
            m.d.sync += [number.eq(0), begins.eq(1), wait.eq(store.LATENCY)]
        with m.Else():
            m.d.comb += [
                store.address.eq(
                    (row << (plan.lanes - 1).bit_length())
                    + (self._half << (len(store.address) - 1))
                ),
                store.spread.eq(0),
                out.valid.eq(~begins & (wait == 0)),
            ]
            with m.If(begins):
                with m.Switch(number):
                    for k, (first, count) in enumerate(parts):
                        with m.Case(k):
                            m.d.sync += [row.eq(first), left.eq(count - 1)]
                m.d.sync += [begins.eq(0), wait.eq(store.LATENCY)]
            with m.Elif(wait != 0):
                m.d.sync += wait.eq(wait - 1)
            with m.Elif(out.ready):
                m.d.sync += [wait.eq(store.LATENCY), row.eq(row + 1), left.eq(left - 1)]
                with m.If(left == 0):
                    m.d.sync += [number.eq(number + 1), begins.eq(1)]
                    with m.If(number == len(parts) - 1):
                        m.d.sync += self._scans.eq(0)
        m.d.comb += [out.payload.values.eq(store.lanes), out.payload.last.eq(left == 0)]


def _line(m, beat, cycles: int, name: str) -> list:
    """Return ``beat`` and the registers that it goes through, so many of them."""
    late = [beat]
    for k in range(cycles):
        late.append(Signal(beat.shape(), name=f"{name}_{k + 1}"))
        m.d.sync += late[-1].eq(late[-2])
    return late


def _stream(**fields) -> stream.Signature:
    return stream.Signature(data.StructLayout(fields))
