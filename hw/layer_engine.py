"""The engine that layers run on: an array for a frozen network, its adapters, their training."""

from enum import IntEnum

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.activation_store import ActivationStore
from seedbed.hw.adapter_learning import AdapterLearning
from seedbed.hw.adapter_runs import AdapterRows, AdapterRuns
from seedbed.hw.delay_line import delay_line, delayed
from seedbed.hw.layer_readouts import AdapterReadout, CacheReadout
from seedbed.hw.layer_sequencer import LayerSequencer
from seedbed.hw.layer_writer import LayerWriter, outputs_layout
from seedbed.hw.mac_array import MacArray
from seedbed.hw.parameter_loader import ParameterLoader
from seedbed.hw.parameter_memory import ACCUMULATORS, ParameterMemory
from seedbed.hw.replicate import replicate
from seedbed.hw.store_writes import StoreWrites
from seedbed.spec.engine import EngineConfig

__all__ = ["LayerEngine", "Program"]

#: Cycles from a run's beat until its products are in the accumulators, at least.
TAIL = 13
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
    ``LEARN`` the accumulation of a sample's gradients, ``UPDATE`` the step of all adapters,
    ``CLEAR`` makes every B 0, ``READ`` gives the adapters out, and ``SCAN`` what a forward cache
    keeps.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    i : In(stream of struct)
        ``program``, ``buffer_select`` of the store, and ``anew``: accumulators begin at 0 with this
        sample. The next is taken when the one before is over.
    rate : In
        M, steady during ``UPDATE``.
    i_parameters : In(stream of struct)
        ``word`` (two numbers), ``trainable`` (which memory) and ``last``: rows from the first on,
        in order. Not during a program.
    i_put : In(stream of struct)
        ``address`` in the store, ``values`` (ways) and ``count`` of them.
    i_fill : In(stream of struct)
        ``address`` and ``config.fill`` ``values``, of which it is a multiple.
    i_gradient : In(stream of struct)
        ``gradient`` and ``last``: of the logits, one by one, for the buffer of the last program.
    o : Out(stream of struct)
        Logits of ``FORWARD``, or of ``BASE`` where there are no adapters: ``values`` (ways),
        ``count`` of them, ``last``. They must have been taken before the next of such programs.
    o_parameters : Out(stream of struct)
        ``word`` and ``last``, of ``READ``: rows of adapters as ``i_parameters`` took them.
    o_rows : Out(stream of struct)
        ``values`` (lanes) and ``last`` (of a vector), of ``SCAN``.
    saturated : Out
        How many numbers were beyond their format, in that cycle.
    length_error : Out(1)
        A packet of parameters is shorter or longer than its memory, in that cycle.

    Errors: none but ``length_error``, after which the adapters are the old ones. A reset leaves all
    memories as they are; adapters are those behind the last whole ``UPDATE`` or packet.
    Throughput: a beat of the array a cycle; see :class:`~seedbed.spec.plan.Step` for beats.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        plan = config.plan
        self._store = ActivationStore(config)
        width = self._store.address_width
        self._sequencer = LayerSequencer(config)
        self._writer = LayerWriter(config)
        self._memory = ParameterMemory(config)
        self._loader = ParameterLoader(config)
        self._writes = StoreWrites(config, width)
        self._mac = MacArray(config.mac)
        self._learning = AdapterLearning(config) if config.lora else None
        self._runs = AdapterRuns(config) if config.lora else None
        self._rows = AdapterRows(config) if config.lora else None
        self._readout = AdapterReadout(config) if config.lora else None
        self._scan = CacheReadout(config, width) if config.lora else None
        command = data.StructLayout({"program": 3, "buffer_select": 1, "anew": 1})
        ports = {
            "i": In(stream.Signature(command)),
            "i_parameters": In(self._loader.i.signature.flip()),
            "i_put": In(self._writes.i_put.signature.flip()),
            "o": Out(stream.Signature(outputs_layout(config))),
            "saturated": Out(range(plan.ways * (plan.lanes + 1) + 1)),
            "length_error": Out(1),
        }
        if config.lora:
            ports |= {
                "rate": In(config.lora.rate_width),
                "i_fill": In(self._writes.i_fill.signature.flip()),
                "i_gradient": In(self._writes.i_gradient.signature.flip()),
                "o_parameters": Out(self._readout.o.signature),
                "o_rows": Out(self._scan.o.signature),
            }
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = self._store
        m.submodules.sequencer = self._sequencer
        m.submodules.writer = self._writer
        m.submodules.memory = self._memory
        m.submodules.loader = self._loader
        m.submodules.writes = self._writes
        m.submodules.mac = self._mac
        # What is at work, one of these: steps, runs, rows that move, what is given out.
        self._buffer_select = Signal()
        self._anew = Signal()
        self._page = Signal(reset_less=True)
        self._steps = Signal()
        self._fits = Signal()
        if self._learning:
            m.submodules.learning = self._learning
            m.submodules.runs = self._runs
            m.submodules.rows = self._rows
            m.submodules.readout = self._readout
            m.submodules.scan = self._scan
            self._clears = Signal()
            self._moves = Signal()
        self._commands(m)
        self._stores(m)
        self._operands(m)
        if self._learning:
            self._learns(m)
            self._shows(m)
        return m

    def _commands(self, m):
        plan, command = self.config.plan, self.i.payload
        works = [self._steps]
        start = Signal()
        tail = Signal(TAIL)
        if self._learning:
            # Products on their way to the accumulators are in the way of all but new activations.
            m.d.sync += tail.eq(Cat(self._runs.busy, tail))
            waits = tail.any() & (command.program > Program.FORWARD)
            works += [self._runs.busy, self._moves, self._readout.busy, self._scan.busy, waits]
            m.d.comb += self._runs.buffer_select.eq(self._buffer_select)
        m.d.comb += [
            self.i.ready.eq(~Cat(*works).any()),
            self._loader.accepts.eq(self.i.ready & ~tail.any() & ~self._fits),
            start.eq(self.i.valid & self.i.ready),
        ]
        steps = {Program.BASE: plan.base}
        if self._learning:
            steps |= {Program.FORWARD: plan.forward, Program.BACKWARD: plan.backward}
        for part in (self._sequencer, self._writer):
            m.d.comb += [
                part.buffer_select.eq(self._buffer_select),
                part.start.eq(0),
                part.first.eq(0),
                part.stop.eq(0),
            ]
        with m.If(start):
            m.d.sync += self._buffer_select.eq(command.buffer_select)
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
                                part.stop.eq(behind),
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
                        m.d.comb += self._readout.start.eq(1)
                    with m.Case(Program.SCAN):
                        m.d.comb += self._scan.start.eq(1)
        # The last write is in the store when what comes next may read it.
        with m.If(self._steps & ~self._sequencer.busy & ~self._writer.busy & ~self._drains(m)):
            m.d.sync += self._steps.eq(0)

    def _drains(self, m):
        """Return whether a sum is still on its way through the writer."""
        line = Signal(self._writer.latency)
        m.d.sync += line.eq(Cat(self._writer.busy, line))
        return line.any()

    def _stores(self, m):
        """Write to the memories what comes from outside, and to the store the writer's outputs."""
        store, writes, writer = self._store, self._writes, self._writer
        memory, loader = self._memory, self._loader
        wiring.connect(m, wiring.flipped(self.i_parameters), loader.i)
        wiring.connect(m, wiring.flipped(self.i_put), writes.i_put)
        if self._learning:
            wiring.connect(m, wiring.flipped(self.i_gradient), writes.i_gradient)
            wiring.connect(m, wiring.flipped(self.i_fill), writes.i_fill)
        m.d.comb += [
            memory.load.eq(loader.load),
            memory.load_trainable.eq(loader.i.payload.trainable),
            memory.load_page.eq(~self._page),
            memory.load_row.eq(loader.row),
            memory.pair.eq(loader.pair),
            self.length_error.eq(loader.length_error),
            writes.buffer_select.eq(self._buffer_select),
            writes.write.eq(writer.write),
            writes.target.eq(writer.target),
            writes.count.eq(writer.count),
            writes.values.eq(writer.values),
            store.write.eq(writes.o_write),
            store.target.eq(writes.o_target),
            store.count.eq(writes.o_count),
            store.values.eq(writes.o_values),
            store.fill.eq(writes.o_fill),
            store.filling.eq(writes.o_filling),
        ]
        if self._learning:
            m.d.comb += [
                self._learning.load.eq(loader.load),
                self._learning.word.eq(loader.i.payload.word),
            ]
            # As with an update: adapters are loaded beside the old ones, which go with the last.
            given = loader.i.payload
            m.d.sync += self._fits.eq(
                loader.load & given.trainable & given.last & ~loader.length_error
            )
            with m.If(self._fits):
                m.d.sync += self._page.eq(~self._page)
        else:
            word = delayed(m, loader.i.payload.word, memory.LOADED, "word")
            m.d.comb += [value.eq(word[k % 2]) for k, value in enumerate(memory.values)]

    def _operands(self, m):
        """Bring activations and weights to the array at once, and its sums to the writer."""
        config, store, memory, mac = self.config, self._store, self._memory, self._mac
        late = delay_line(m, self._sequencer.beat, store.LATENCY, "beat", reset=True)
        now, ahead = late[-1], late[-1 - memory.LATENCY]
        lanes = list(store.lanes)
        lanes[-1] = Mux(now.bias, config.values.one, lanes[-1])
        m.d.comb += [
            store.address.eq(late[0].address),
            store.skew.eq(late[0].skew),
            memory.trainable.eq(ahead.trainable),
            memory.page.eq(self._page),
            memory.row.eq(ahead.row),
            mac.i.valid.eq(now.valid),
            mac.i.payload.first.eq(now.first),
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
        runs = delay_line(m, self._runs.beat, TAIL, "run", reset=True)
        rows = delay_line(m, self._rows.beat, TAIL, "moved", reset=True)
        # In cycles behind a beat: its activations, or its accumulators, are at the array; then its
        # products, and a cycle later what they are added to; the sums; all have been counted.
        at, to = store.LATENCY, memory.LATENCY
        outer, moved = runs[at], rows[to]
        left = Signal(data.ArrayLayout(store.lanes.shape().elem_shape, plan.ways), reset_less=True)
        with m.If(outer.left):
            m.d.sync += [kept.eq(lane) for kept, lane in zip(left, store.lanes, strict=False)]
        with m.If(runs[0].left | runs[0].right):
            m.d.comb += [store.address.eq(runs[0].address), store.skew.eq(0)]
        weights, activations = mac.i.payload.weights, mac.i.payload.activations
        for k, right in enumerate(replicate(m, runs[at - 1].right, len(weights), "right")):
            with m.If(right):
                m.d.comb += weights[k].eq(left[k // plan.lanes])
        rate = Signal.like(self.rate, reset_less=True)
        m.d.sync += rate.eq(Mux(self._clears, 0, self.rate))
        for k, moves in enumerate(replicate(m, rows[to - 1].valid, plan.lanes, "moves")):
            with m.If(moves):
                m.d.comb += activations[k].eq(rate)
        with m.If(outer.right | moved.valid):
            m.d.comb += [mac.i.valid.eq(1), mac.i.payload.first.eq(1), mac.i.payload.last.eq(0)]
        outer, moved = runs[at + mul - 1], rows[to + mul - 1]
        m.d.comb += [
            learning.update.eq(moved.valid),
            learning.counts.eq((outer.right & outer.counts) | (moved.valid & moved.counts)),
            learning.products.eq(mac.products),
            learning.row.eq(memory.o),
            self.saturated.eq(self._writer.saturated + learning.saturated),
        ]
        # What is added to is asked for, so that it comes a cycle behind the products.
        ask = mul + 1 - to
        moved = rows[to + ask]
        for beat, asks, page, blank in [
            (runs[at + ask], runs[at + ask].right, ACCUMULATORS, self._anew),
            (rows[0], rows[0].valid, ACCUMULATORS, 0),
            (moved, moved.valid, self._page, self._clears & moved.blank),
        ]:
            with m.If(asks):
                m.d.comb += [
                    memory.trainable.eq(1),
                    memory.page.eq(page),
                    memory.row.eq(beat.row),
                    memory.blank.eq(blank),
                ]
        # Values come three cycles behind the products, and are announced.
        write = mul + 3 - memory.WRITTEN
        outer, moved = runs[at + write], rows[to + write]
        m.d.comb += [
            memory.write.eq(outer.right | moved.valid),
            memory.write_page.eq(Mux(moved.valid, ~self._page, ACCUMULATORS)),
            memory.write_row.eq(Mux(moved.valid, moved.row, outer.row)),
            memory.values.eq(learning.values),
        ]
        # The last row is written: from now on, the new page is the one.
        with m.If(moved.valid & (moved.row == plan.trainable_rows - 1)):
            m.d.sync += [self._page.eq(~self._page), self._moves.eq(0)]

    def _shows(self, m):
        """Let read-outs address the memories while they are busy."""
        store, memory, readout, scan = self._store, self._memory, self._readout, self._scan
        wiring.connect(m, readout.o, wiring.flipped(self.o_parameters))
        wiring.connect(m, scan.o, wiring.flipped(self.o_rows))
        m.d.comb += [
            readout.given.eq(memory.o),
            scan.buffer_select.eq(self._buffer_select),
            scan.lanes.eq(store.lanes),
        ]
        with m.If(readout.busy):
            m.d.comb += [
                memory.trainable.eq(1),
                memory.page.eq(self._page),
                memory.row.eq(readout.row),
            ]
        with m.If(scan.busy):
            m.d.comb += [store.address.eq(scan.address), store.skew.eq(0)]
