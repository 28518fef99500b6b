"""The engine that networks with adapters run on: inference, training, and read-outs."""

from enum import IntEnum

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.gradient_writer import GradientWriter, gradient_layout
from seedbed.hw.adapters.outer_products import OuterProducts
from seedbed.hw.adapters.train_adapters import ROW_READS, STORE_READS, TrainAdapters
from seedbed.hw.engine.inference_pipeline import InferencePipeline
from seedbed.hw.engine.layer_readouts import CacheReadout, RowReadout, rows_layout
from seedbed.hw.engine.output_queue import outputs_layout
from seedbed.hw.engine.parameter_loader import packet_layout, words_layout
from seedbed.hw.engine.pipeline_ports import direct_members
from seedbed.hw.engine.pipeline_timing import cycles
from seedbed.hw.engine.store_writes import fill_layout, put_layout
from seedbed.spec.engine import EngineConfig

__all__ = ["LayerEngine", "Program", "program_cycles", "program_layout"]

#: Who reads the memories, highest priority first, all of them before the steps.
STORE_READERS = ("cache_reads", *STORE_READS)
ROW_READERS = ("adapter_reads", *ROW_READS)


class Program(IntEnum):
    """What the engine runs."""

    BASE = 0
    FORWARD = 1
    BACKWARD = 2
    ACCUMULATE = 3
    UPDATE = 4
    CLEAR = 5
    READ = 6
    SCAN = 7


def program_layout() -> data.StructLayout:
    """Return the layout of a program to run, see :class:`LayerEngine`."""
    return data.StructLayout({"program": 3, "buffer_select": 1, "clear": 1})


def steps(config: EngineConfig) -> dict[Program, tuple[int, int]]:
    """Return the steps of each program that has any: the first one, and the one after the last."""
    plan = config.plan
    found = {
        Program.BASE: plan.base,
        Program.FORWARD: plan.schedule.forward,
        Program.BACKWARD: plan.schedule.backward,
    }
    return {program: (first, stop) for program, (first, stop) in found.items() if first != stop}


def program_cycles(config: EngineConfig, program: Program) -> int:
    """Return the cycles from the transfer of a program to the first one in which one is taken.

    It is one of steps, or ``ACCUMULATE``; after this one, ``FORWARD`` can be taken.
    """
    if program is Program.ACCUMULATE:
        products = config.plan.schedule.outer_products
        return sum(product.cycles for product in products) + OuterProducts.latency
    return cycles(config, *steps(config)[program]) + InferencePipeline.drain


class LayerEngine(wiring.Component):
    """Runs programs, one after the other, on an array of ``ways`` times ``lanes`` multipliers.

    ``BASE`` is the frozen network, ``FORWARD`` the adapters up to the logits, ``BACKWARD`` dh,
    ``ACCUMULATE`` a sample's gradients, ``UPDATE`` the step of all adapters, ``CLEAR`` makes every
    B 0, ``READ`` gives the adapters out, and ``SCAN`` what a forward cache keeps.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`, with adapters.

    Members
    -------
    i : In(stream of struct)
        ``program``, ``buffer_select`` of the store, and ``clear``: accumulators begin at 0 with
        this sample. The next is taken when the one before is over.
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
        Logits of ``FORWARD``: ``values`` (ways), ``count`` of them, ``last``. They must have been
        taken before the next of such programs.
    o_parameters : Out(stream of struct)
        ``word`` and ``last``, of ``READ``: rows of adapters as ``i_parameters`` took them.
    o_rows : Out(stream of struct)
        ``values`` (lanes) and ``last`` (of a vector), of ``SCAN``.
    saturated : Out
        How many numbers did not fit their format, in that cycle.
    length_error : Out(1)
        A packet of parameters is shorter or longer than its memory, in that cycle.

    Errors: none but ``length_error``, after which the adapters are the old ones. A reset leaves all
    memories unchanged; adapters are those after the last whole ``UPDATE`` or packet.
    Throughput: a beat of the array a cycle; see :func:`program_cycles` and
    :class:`~seedbed.spec.plan.Step`.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        plan = config.plan
        super().__init__(
            {
                "i": In(stream.Signature(program_layout())),
                "rate": In(config.lora.rate_width),
                "i_parameters": In(stream.Signature(packet_layout(config))),
                "i_put": In(stream.Signature(put_layout(config))),
                "i_fill": In(stream.Signature(fill_layout(config))),
                "i_gradient": In(stream.Signature(gradient_layout(config))),
                "o": Out(stream.Signature(outputs_layout(config))),
                "o_parameters": Out(stream.Signature(words_layout(config))),
                "o_rows": Out(stream.Signature(rows_layout(config))),
                "saturated": Out(range(plan.ways * (plan.lanes + 1) + 1)),
                "length_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.pipeline = pipeline = InferencePipeline(
            config,
            store_readers=STORE_READERS,
            row_readers=ROW_READERS,
            puts=("i_gradient", "i_put"),
            fill=True,
        )
        m.submodules.trainer = trainer = TrainAdapters(config)
        m.submodules.gradients = gradients = GradientWriter(config)
        m.submodules.readout = readout = RowReadout(config)
        m.submodules.scan = scan = CacheReadout(config)
        buffer_select = Signal()
        m.d.comb += [
            trainer.rate.eq(self.rate),
            trainer.word.eq(self.i_parameters.payload.word),
            pipeline.page.eq(trainer.page),
            self.saturated.eq(pipeline.saturated + trainer.saturated),
            self.length_error.eq(pipeline.length_error),
            *(part.buffer_select.eq(buffer_select) for part in (trainer, gradients, scan)),
        ]
        self._command(m, pipeline, trainer, readout, scan, buffer_select)
        self._connect(m, pipeline, trainer, gradients)
        self._read_out(m, pipeline, trainer, readout, scan)
        return m

    def _command(self, m, pipeline, trainer, readout, scan, buffer_select):
        """Take a program when the one before is over, and start what runs it."""
        command = self.i.payload
        start, accepts = Signal(), Signal(init=1)
        # What is on its way to the accumulators does not touch new activations.
        settling = trainer.settling & (command.program > Program.FORWARD)
        working = Cat(pipeline.busy, trainer.busy, readout.busy, scan.busy, settling)
        m.d.comb += [
            self.i.ready.eq(~working.any()),
            start.eq(self.i.valid & self.i.ready),
            pipeline.accepts.eq(accepts & trainer.accepts),
            pipeline.buffer_select.eq(command.buffer_select),
            trainer.clear_accumulators.eq(command.clear),
        ]
        # From the second cycle after a program's end: no path from its parts to the words' source.
        m.d.sync += accepts.eq(self.i.ready & ~start)
        pulses = {
            Program.ACCUMULATE: trainer.accumulate,
            Program.UPDATE: trainer.update,
            Program.CLEAR: trainer.clear,
            Program.READ: readout.start,
            Program.SCAN: scan.start,
        }
        with m.If(start):
            m.d.sync += buffer_select.eq(command.buffer_select)
            with m.Switch(command.program):
                for program, (first, stop) in steps(self.config).items():
                    with m.Case(program):
                        m.d.comb += [
                            pipeline.start.eq(1),
                            pipeline.first.eq(first),
                            pipeline.stop.eq(stop),
                        ]
                for program, pulse in pulses.items():
                    with m.Case(program):
                        m.d.comb += pulse.eq(1)

    def _connect(self, m, pipeline, trainer, gradients):
        """Connect the pipeline to the ports, and to the trainer."""
        wiring.connect(m, gradients.o, pipeline.i_gradient)
        wiring.connect(m, wiring.flipped(self.i_gradient), gradients.i)
        for name in ("i_parameters", "i_put", "i_fill"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(pipeline, name))
        wiring.connect(m, pipeline.o, wiring.flipped(self.o))
        for name, member in direct_members(self.config).items():
            ends = getattr(pipeline, name), getattr(trainer, name)
            to, of = ends if member.flow is In else ends[::-1]
            m.d.comb += to.eq(of)
        reads = (*STORE_READS, *ROW_READS)
        m.d.comb += [getattr(pipeline, name).eq(getattr(trainer, name)) for name in reads]

    def _read_out(self, m, pipeline, trainer, readout, scan):
        """Let read-outs address the memories while they are busy."""
        wiring.connect(m, readout.o, wiring.flipped(self.o_parameters))
        wiring.connect(m, scan.o, wiring.flipped(self.o_rows))
        m.d.comb += [
            readout.given.eq(pipeline.rows),
            pipeline.adapter_reads.request.eq(readout.busy),
            pipeline.adapter_reads.trainable.eq(1),
            pipeline.adapter_reads.page.eq(trainer.page),
            pipeline.adapter_reads.row.eq(readout.row),
            scan.lanes.eq(pipeline.activations),
            pipeline.cache_reads.request.eq(scan.busy),
            pipeline.cache_reads.address.eq(scan.address),
        ]
