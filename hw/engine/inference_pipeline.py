"""The inference pipeline: store, parameters, multipliers, requantisation, and back to the store."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.hw.engine.layer_sequencer import LayerSequencer
from seedbed.hw.engine.output_queue import outputs_layout, shift_members
from seedbed.hw.engine.parameter_loader import ParameterLoader, packet_layout
from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.engine.pipeline_ports import (
    direct_members,
    part_write_layout,
    row_address,
    store_address,
    word_write_layout,
)
from seedbed.hw.engine.pipeline_timing import writer
from seedbed.hw.engine.store_writes import StoreWrites, fill_layout, put_layout
from seedbed.hw.engine.weight_stage import WeightStage, mark_layout
from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.parts.read_arbiter import ReadArbiter, request_layout
from seedbed.hw.parts.replicate import replicate
from seedbed.hw.products import mac_array
from seedbed.spec.engine import EngineConfig

__all__ = ["InferencePipeline"]


class InferencePipeline(wiring.Component):
    """Runs a plan's steps on an array of ``ways`` times ``lanes`` multipliers.

    Activations and weights meet at the multipliers; sums are requantized, pooled, and written to
    the store. What else needs the memories or the multipliers has ports of its own here, and keeps
    to cycles in which no step uses them.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.
    store_readers, row_readers
        Names of other readers of the activation store, and of the parameter memory, highest
        priority first; all of them come before the steps.
    stage
        What is between the parameter memory and the multipliers; by default, it passes rows on.
    addend
        What adds to the array's sums (``RankOneSums``), or ``None``. With it, ``part_write`` writes
        parts of rows.
    puts, fill
        Streams that write to the store, see :class:`~seedbed.hw.engine.store_writes.StoreWrites`.

    Members
    -------
    start, first, stop, buffer_select : In
        A pulse, while not ``busy``: runs the steps from ``first`` to the one before ``stop``, of
        which there is one at least, in a buffer of the store.
    busy : Out(1)
        Until the last outputs are in the store, and can be read.
    page : In(1)
        The page of trainable rows that steps read, and that packets of them do not overwrite.
    i_parameters, accepts : In(stream of struct), In(1)
        A packet of rows, see :class:`~seedbed.hw.engine.parameter_loader.ParameterLoader`.
    load, loaded, length_error : Out(1)
        A word of a packet is transferred; the last one of a whole packet of trainable rows; the
        last one of a packet that is shorter or longer than its memory.
    row_write, row_values : In(struct), In(ways * lanes numbers)
        ``write``, ``page`` and ``row``, and later the numbers; or, after ``load``, a word: see
        :class:`~seedbed.hw.engine.parameter_memory.ParameterMemory`.
    PUT, i_fill : In(stream)
        Writes to the store.
    READER : In(struct)
        Of each name in ``store_readers`` and ``row_readers``: ``request`` and an address.
    activations, rows : Out
        What the readers get, the latencies of the two memories later.
    outer, factors : In(1), In(ways numbers)
        Only with ``config.mac.products``: in the cycle after ``outer``, a beat has the ``factors``
        as weights, one in all lanes of a way.
    scale, scale_by : In
        Only with ``config.mac.products``: in the cycle after ``scale``, a beat has ``scale_by`` as
        activation in all lanes.
    products : Out
        Only with ``config.mac.products``, see :class:`~seedbed.hw.products.mac_array.MacArray`.
        Beats of ``outer`` and ``scale`` give no sums.
    saturated : Out
        How many outputs did not fit their format, in that cycle.
    word_write : In(struct)
        Only with ``config.dynamic``: ``write`` of a word, its ``row`` and ``pair``; the word comes
        as with ``load``.
    part_write : In(struct)
        Only with ``addend``: ``write`` of eight numbers, their ``row``, ``part``; as with ``load``.
    beat : Out(struct)
        Only with ``addend``: the row and step of the beat that the array takes 2 cycles later.
    shift, shifted, o_tap : Out
        Only with ``config.dynamic``, see :class:`~seedbed.hw.engine.dynamic_writer.DynamicWriter`.
    o : Out(stream of struct)
        Outputs of the plan's step ``output``: ``values`` (ways), ``count`` of them, ``last``. They
        must be taken before the next program with that step.

    Latency: :func:`~seedbed.hw.engine.pipeline_timing.cycles`, and ``drain`` more until ``busy`` is
    0. Throughput: a beat a cycle within a step. A floorplan finds memories and multipliers by the
    names of submodules: ``store``, ``memory`` and ``mac``.
    """

    #: Cycles from the last outputs at ``o`` to the first one that is not ``busy``.
    drain = 1

    def __init__(
        self,
        config: EngineConfig,
        *,
        store_readers: Sequence[str] = (),
        row_readers: Sequence[str] = (),
        puts: Sequence[str] = ("i_put",),
        fill: bool = False,
        stage: wiring.Component | None = None,
        addend: wiring.Component | None = None,
    ):
        self.config = config
        self._stage, self._addend = stage, addend
        self._store_readers, self._row_readers = store_readers, row_readers
        self._puts, self._fill = puts, fill
        count = range(len(config.plan.steps) + 1)
        ports = {
            "start": In(1),
            "first": In(count),
            "stop": In(count),
            "buffer_select": In(1),
            "busy": Out(1),
            "page": In(1),
            "i_parameters": In(stream.Signature(packet_layout(config))),
            "accepts": In(1),
            "length_error": Out(1),
            "saturated": Out(range(config.plan.ways + 1)),
            "o": Out(stream.Signature(outputs_layout(config))),
        }
        if config.dynamic:
            ports |= shift_members(config) | {"word_write": In(word_write_layout(config))}
        if addend:
            ports["part_write"] = In(part_write_layout(config))
            ports["beat"] = Out(data.StructLayout(mark_layout(config)))
        ports |= direct_members(config)
        ports |= {name: In(stream.Signature(put_layout(config))) for name in puts}
        if fill:
            ports["i_fill"] = In(stream.Signature(fill_layout(config)))
        ports |= {name: In(request_layout(store_address(config))) for name in store_readers}
        ports |= {name: In(request_layout(row_address(config))) for name in row_readers}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.weight_stage = stage = self._stage or WeightStage(config)
        m.submodules.store = store = ActivationStore(config)
        m.submodules.memory = memory = ParameterMemory(config, parts=bool(self._addend))
        m.submodules.sequencer = sequencer = LayerSequencer(config)
        m.submodules.writer = outputs = writer(config)(config)
        m.submodules.mac = mac = mac_array.MacArray(config.mac)
        self._control(m, sequencer, outputs)
        self._write_store(m, store, outputs)
        self._write_rows(m, memory)
        marks = self._read(m, sequencer, store, memory, stage)
        self._multiply(m, marks, store, stage, mac)
        sums = self._added(m, marks, store, mac) if self._addend else mac.o
        m.d.comb += [
            outputs.i.payload.sums.eq(sums.payload.sums),
            outputs.i.valid.eq(sums.valid),
            sums.ready.eq(outputs.i.ready),
            sequencer.retired.eq(mac.o.valid & mac.o.ready),
            sequencer.written.eq(outputs.written),
            self.saturated.eq(outputs.saturated),
        ]
        if config.dynamic:
            m.d.comb += [
                self.shift.eq(outputs.shift),
                self.shifted.eq(outputs.shifted),
            ]
            wiring.connect(m, outputs.o_tap, wiring.flipped(self.o_tap))
        wiring.connect(m, outputs.o, wiring.flipped(self.o))
        return m

    def _added(self, m, marks, store, mac):
        """Return the array's sums with what is added to them."""
        m.submodules.addend = addend = self._addend
        m.d.comb += [
            *(addend.mark[name].eq(marks[name]) for name, _ in addend.mark.shape()),
            addend.activations.eq(store.lanes),
            addend.i_sums.valid.eq(mac.o.valid),
            addend.i_sums.payload.sums.eq(mac.o.payload.sums),
            mac.o.ready.eq(addend.i_sums.ready),
        ]
        return addend.o_sums

    def _control(self, m, sequencer, writer):
        """Start the walks over the steps, and be busy until the last outputs are written."""
        buffer_select = Signal()
        for walk in (sequencer, writer):
            m.d.comb += [
                walk.buffer_select.eq(buffer_select),
                walk.start.eq(self.start),
                walk.first.eq(self.first),
                walk.stop.eq(self.stop),
            ]
        draining = Cat(delay_line(m, writer.busy, writer.latency, "draining", reset=True)[1:]).any()
        with m.If(self.busy & ~sequencer.busy & ~writer.busy & ~draining):
            m.d.sync += self.busy.eq(0)
        with m.If(self.start):
            m.d.sync += [self.busy.eq(1), buffer_select.eq(self.buffer_select)]

    def _write_store(self, m, store, writer):
        """Write the writer's outputs, and what comes from outside."""
        m.submodules.writes = writes = StoreWrites(self.config, self._puts, fill=self._fill)
        for name in (*self._puts, *(["i_fill"] if self._fill else [])):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(writes, name))
        m.d.comb += [
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

    def _write_rows(self, m, memory):
        """Write packets of parameters, and rows."""
        m.submodules.loader = loader = ParameterLoader(self.config)
        wiring.connect(m, wiring.flipped(self.i_parameters), loader.i)
        word = loader.i.payload
        m.d.comb += [
            loader.accepts.eq(self.accepts),
            self.load.eq(loader.load),
            self.loaded.eq(loader.load & word.trainable & word.last & ~loader.length_error),
            self.length_error.eq(loader.length_error),
            memory.load.eq(loader.load),
            memory.load_trainable.eq(word.trainable),
            memory.load_page.eq(~self.page),
            memory.load_row.eq(loader.row),
            memory.pair.eq(loader.pair),
            memory.write.eq(self.row_write.write),
            memory.write_page.eq(self.row_write.page),
            memory.write_row.eq(self.row_write.row),
            memory.values.eq(self.row_values),
        ]
        if self.config.dynamic:
            with m.If(self.word_write.write):
                m.d.comb += [
                    memory.load.eq(1),
                    memory.load_row.eq(self.word_write.row),
                    memory.pair.eq(self.word_write.pair),
                ]
        if self._addend:
            with m.If(self.part_write.write):
                m.d.comb += [
                    memory.load.eq(1),
                    memory.wide.eq(1),
                    memory.load_row.eq(self.part_write.row),
                    memory.pair.eq(self.part_write.part << 2),
                ]

    def _read(self, m, sequencer, store, memory, stage):
        """Give the memories' addresses to their readers; return marks of the beat at the array."""
        config = self.config
        beats = delay_line(m, sequencer.beat, store.latency, "beat", reset=True)
        # A row is asked for later than activations, so that both are there at once.
        early = beats[store.latency - memory.latency - stage.latency]
        m.submodules.store_arbiter = activations = ReadArbiter(
            store_address(config), (*self._store_readers, "steps")
        )
        m.submodules.row_arbiter = rows = ReadArbiter(
            row_address(config), (*self._row_readers, "steps")
        )
        for arbiter, readers in ((activations, self._store_readers), (rows, self._row_readers)):
            m.d.comb += [getattr(arbiter, name).eq(getattr(self, name)) for name in readers]
        m.d.comb += [
            activations.steps.request.eq(beats[0].valid),
            activations.steps.address.eq(beats[0].address),
            activations.steps.skew.eq(beats[0].skew),
            store.address.eq(activations.o.address),
            store.skew.eq(activations.o.skew),
            self.activations.eq(store.lanes),
            rows.steps.request.eq(early.valid),
            rows.steps.trainable.eq(early.trainable),
            rows.steps.page.eq(self.page),
            rows.steps.row.eq(early.row),
            memory.trainable.eq(rows.o.trainable),
            memory.page.eq(rows.o.page),
            memory.row.eq(rows.o.row),
            memory.blank.eq(rows.o.blank),
            self.rows.eq(memory.o),
            stage.i.eq(memory.o),
            *(stage.mark[name].eq(beats[-1 - stage.latency][name]) for name in mark_layout(config)),
        ]
        if self._addend:
            ahead = beats[-1 - self._addend.ahead]
            m.d.comb += [self.beat[name].eq(ahead[name]) for name in mark_layout(config)]
        return beats[-1]

    def _multiply(self, m, marks, store, stage, mac):
        """Bring weights and activations to the multipliers."""
        config, beat = self.config, mac.i.payload
        lanes = list(store.lanes)
        lanes[-1] = Mux(marks.bias, config.values.one, lanes[-1])
        m.d.comb += [
            mac.i.valid.eq(marks.valid),
            beat.first.eq(marks.first),
            beat.last.eq(marks.last & marks.valid),
            beat.on.eq(1),
            beat.weights.eq(stage.o),
            *(to.eq(lane) for to, lane in zip(beat.activations, lanes, strict=True)),
        ]
        if not config.mac.products:
            return
        m.d.comb += self.products.eq(mac.products)
        outer = replicate(m, self.outer, len(beat.weights), "outer")
        for k, (weight, select) in enumerate(zip(beat.weights, outer, strict=True)):
            with m.If(select):
                m.d.comb += weight.eq(self.factors[k // config.plan.lanes])
        scale = replicate(m, self.scale, config.plan.lanes, "scale")
        for activation, select in zip(beat.activations, scale, strict=True):
            with m.If(select):
                m.d.comb += activation.eq(self.scale_by)
        with m.If(delayed(m, self.outer | self.scale, 1, "direct", reset=True)):
            # Without a last beat, there are no sums.
            m.d.comb += [mac.i.valid.eq(1), beat.first.eq(1), beat.last.eq(0)]
