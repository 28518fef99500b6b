"""A network in int8 that is trained by forward passes, from samples to trained weights."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.inference_pipeline import InferencePipeline
from seedbed.hw.engine.layer_readouts import RowReadout
from seedbed.hw.engine.parameter_loader import take_packets, words_layout
from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.engine.sample_intake import sample_layout
from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.parts.fixed_requantize import saturate
from seedbed.hw.tail.train_tail import TrainTail
from seedbed.hw.zeroth_order.perturb_stage import PerturbStage
from seedbed.hw.zeroth_order.zero_order_update import ZeroOrderUpdate
from seedbed.hw.zeroth_order.zo_control import ZoControl, job_layout, status_layout
from seedbed.hw.zeroth_order.zo_schedule import entry_layout
from seedbed.hw.zeroth_order.zo_steps import ZoSteps, class_layout, log_layout
from seedbed.spec.fixed import Fixed
from seedbed.spec.loss_sign import EXPONENT_BITS
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["ZoTrainer"]


class ZoTrainer(wiring.Component):
    """Trains a network in int8 by zeroth order: Algorithm 2 of ElasticZO, without a host.

    For each sample of a batch, the network runs with the weights theta + z and theta - z. The
    perturbation z is the batch's, named by a seed, and is added on the way to the multipliers. With
    g the sign of the difference of the batch's losses, the update is theta - g z, z rounded to one
    bit: each weight is read and written once a step.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`.

    Members
    -------
    i_parameters : In(stream of struct)
        ``word`` (2 x signed(8)) and ``last``: the rows that
        :meth:`seedbed.golden.zo_trainer.ZoTrainer.words` packs, whole. They are taken between
        commands, and stay over a reset. After a reset in an update, they must come again.
    i_schedule : In(stream of struct)
        1 to 8 entries: ``epoch`` from which it holds, ascending, the first 0; ``phase``, of
        ``magnitude`` (c: r_max is 2^c - 1) and ``zeros`` (n: p_zero is n/16); ``last``. Taken
        between commands.
    i : In(stream of struct)
        A command: ``kind``, by its place in :data:`~seedbed.spec.ZO_TRAINER_KINDS`; ``samples`` of
        an epoch, ``epochs``, samples of a ``batch``; ``seed`` of the first batch, the following
        have the following numbers; ``exponent``, the sum of the exponents of all layers' weights.
    i_samples : In(stream of struct)
        ``pixels`` (ways bytes, of which the upper 7 bits count), ``label``, ``last`` with an
        image's last beat. Every row begins in a new beat.
    o : Out(stream of struct)
        ``best``, the class of each sample; while it is trained on, that of the second pass.
        ``error``: its label is no class, or an exponent is too large: the sample does not count.
    o_log : Out(stream of struct)
        For each batch ``seed``, ``phase`` and ``sign`` (-1, 0, 1): with it, the first weights can
        be trained again elsewhere. The update waits for its transfer.
    o_parameters : Out(stream of struct)
        ``word`` and ``last``, after a command to read: rows as ``i_parameters`` takes them. Lanes
        without a weight have any number.
    o_status : Out(stream of struct)
        ``kind``, ``status`` by its place in :data:`~seedbed.spec.ZO_TRAINER_STATUS`, and the
        ``steps`` of the command. One for each command.

    Errors: a command that cannot be run, or a sample of the wrong length, ends the command with a
    status; samples are discarded until the next one: those that come with it, or after it, are
    that command's. A batch that is broken off does not change the
    weights. An epoch's last batch may have fewer samples.

    Throughput: a sample every two passes, see :func:`seedbed.hw.engine.pipeline_timing.cycles`.
    Source: ElasticZO, Algorithm 2 and section 4.
    """

    def __init__(self, config: ZoTrainerConfig):
        self.config = config
        words = words_layout(config.engine)
        super().__init__(
            {
                "i_parameters": In(stream.Signature(words)),
                "i_schedule": In(stream.Signature(entry_layout(config))),
                "i": In(stream.Signature(job_layout(config))),
                "i_samples": In(stream.Signature(sample_layout(config))),
                "o": Out(stream.Signature(class_layout(config))),
                "o_log": Out(stream.Signature(log_layout(config))),
                "o_parameters": Out(stream.Signature(words)),
                "o_status": Out(stream.Signature(status_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.control = control = ZoControl(config)
        m.submodules.steps = steps = ZoSteps(config)
        # Not a submodule of this module: the pipeline has it.
        stage = PerturbStage(config)
        m.submodules.pipeline = pipeline = InferencePipeline(
            config.engine, row_readers=("readout_reads", "update_reads"), stage=stage
        )
        for name in ("i", "i_schedule", "i_samples"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(control, name))
        wiring.connect(m, control.o_status, wiring.flipped(self.o_status))
        wiring.connect(m, control.o_put, pipeline.i_put)
        wiring.connect(m, control.o_sample, steps.i)
        for name in ("o", "o_log"):
            wiring.connect(m, getattr(steps, name), wiring.flipped(getattr(self, name)))
        wiring.connect(m, steps.o_command, stage.i_command)
        wiring.connect(m, pipeline.o, steps.i_logits)
        m.d.comb += [
            control.steps.eq(steps.steps),
            pipeline.start.eq(steps.start),
            pipeline.first.eq(config.engine.plan.base[0]),
            pipeline.stop.eq(config.engine.plan.base[1]),
            pipeline.buffer_select.eq(steps.buffer_select),
            steps.busy.eq(pipeline.busy),
            steps.shift.eq(pipeline.shift),
            steps.shifted.eq(pipeline.shifted),
            stage.perturb.eq(steps.perturb),
            stage.subtract.eq(steps.subtract),
        ]
        m.submodules.readout = readout = RowReadout(config.engine)
        # A reset must not make rows valid that are of two packets, or of both sides of an update.
        whole = Signal(reset_less=True)
        self._parameters(m, control, pipeline, readout, whole)
        self._update(m, steps, pipeline, stage, whole)
        load, word = self._row_values(m, pipeline, stage)
        if config.tail:
            self._tail(m, control, steps, pipeline, readout, load, word)
        else:
            m.d.comb += pipeline.o_tap.ready.eq(1)
        return m

    def _row_values(self, m, pipeline, stage):
        """Write rows of an update, or words; return signals: a word is loaded, and which one."""
        words = self.i_parameters
        load, word = Signal(), Signal(words.payload.word.shape())
        loaded = delayed(m, load, ParameterMemory.load_latency, "loaded", reset=True)
        value = delayed(m, word, ParameterMemory.load_latency, "word")
        m.d.comb += [
            load.eq(words.valid & words.ready),
            word.eq(words.payload.word),
            pipeline.row_values.eq(stage.o),
        ]
        with m.If(loaded):
            m.d.comb += [to.eq(value[k % 2]) for k, to in enumerate(pipeline.row_values)]
        return load, word

    def _update(self, m, steps, pipeline, stage, whole):
        """Read rows, and write what the stage makes of them."""
        m.submodules.update = update = ZeroOrderUpdate(self.config)
        reads = pipeline.update_reads
        m.d.comb += [
            update.start.eq(steps.update),
            steps.updating.eq(update.busy | steps.update),
            reads.request.eq(update.read.valid),
            reads.row.eq(update.read.row),
            stage.update.eq(update.read),
            pipeline.row_write.write.eq(update.write.valid),
            pipeline.row_write.row.eq(update.write.row),
        ]
        with m.If(steps.update | steps.backpropagate):
            m.d.sync += whole.eq(0)
        # The last word is written as many cycles later.
        with m.If(delayed(m, steps.updated, ParameterMemory.load_latency, "updated", reset=True)):
            m.d.sync += whole.eq(1)

    def _tail(self, m, control, steps, pipeline, readout, load, word):
        """Train the last layers by backpropagation: words of their rows go through the tail."""
        m.submodules.tail = tail = TrainTail(self.config)
        wiring.connect(m, pipeline.o_tap, tail.i_tap)
        exponent, _ = saturate(
            m, steps.exponent + pipeline.o_tap.payload.shift, Fixed(EXPONENT_BITS, 0), "exponent"
        )
        m.d.comb += [
            tail.clear.eq(steps.clear),
            tail.prepare.eq(steps.prepare),
            tail.update.eq(steps.backpropagate),
            tail.bits.eq(steps.update_bits),
            steps.tail_busy.eq(tail.busy),
            tail.taken.eq(steps.second),
            tail.exponent.eq(exponent),
            tail.label.eq(steps.label),
            readout.start.eq(control.read | tail.read),
            readout.first.eq(tail.first),
            tail.row.eq(readout.row),
            tail.pair.eq(readout.pair),
            tail.i_words.payload.eq(readout.o.payload),
            pipeline.word_write.eq(tail.write),
        ]
        # While the tail is busy, words are its.
        with m.If(tail.busy):
            m.d.comb += [
                tail.i_words.valid.eq(readout.o.valid),
                readout.o.ready.eq(tail.i_words.ready),
                self.o_parameters.valid.eq(0),
                load.eq(tail.write.write),
                word.eq(tail.word),
            ]

    def _parameters(self, m, control, pipeline, readout, whole):
        """Take packets of parameters between commands, and read rows out."""
        idle = take_packets(m, self.i_parameters, pipeline, accepts=control.idle, whole=whole)
        m.d.comb += [control.hold.eq(~idle), control.whole.eq(whole)]
        wiring.connect(m, readout.o, wiring.flipped(self.o_parameters))
        m.d.comb += [
            readout.start.eq(control.read),
            control.reading.eq(readout.busy),
            readout.given.eq(pipeline.rows),
            pipeline.readout_reads.request.eq(readout.busy),
            pipeline.readout_reads.row.eq(readout.row),
        ]
