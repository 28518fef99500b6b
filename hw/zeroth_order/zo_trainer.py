"""A network in int8 that is trained by forward passes, from samples to trained weights."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.inference_pipeline import InferencePipeline
from seedbed.hw.engine.layer_readouts import PartReadout, RowParts, RowReadout
from seedbed.hw.engine.parameter_loader import take_packets, words_layout
from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.engine.sample_intake import sample_layout
from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.parts.fixed_requantize import saturate
from seedbed.hw.tail.train_tail import TrainTail
from seedbed.hw.zeroth_order.perturb_stage import PerturbStage
from seedbed.hw.zeroth_order.rank_one import connect_rank_one
from seedbed.hw.zeroth_order.rank_one_sums import RankOneSums
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
        packet of network rows. Its rows are those that
        :meth:`seedbed.golden.zo_trainer.ZoTrainer.words` packs, whole. They are taken between
        commands, and stay over a reset. After a reset in an update, they must come again.
        word (2 x signed(8)) : two weights
        last : last word of the packet
    i_schedule : In(stream of struct)
        schedule: 1 to 8 entries. They are taken between commands.
        epoch : first epoch of the entry. Epochs are ascending, the first is 0.
        phase_magnitude : c: the range of a perturbation is 2^c - 1
        phase_zeros : n: n of 16 numbers of a perturbation are 0
        phase_update_bits : bits of the magnitude of an update of the tail
        last : last entry
    i : In(stream of struct)
        jobs
        kind : 0 train, 1 infer, 2 read. Index of :data:`~seedbed.spec.ZO_TRAINER_KINDS`.
        samples : samples per epoch
        epochs : number of epochs
        batch : samples per batch
        seed : seed of the first batch; each next batch has the next number
        exponent : sum of the exponents of all layers' weights
    i_samples : In(stream of struct)
        images. Every row begins in a new beat.
        pixels (ways bytes) : next pixels. The upper 7 bits of each count.
        label : class label; valid in the first beat
        last : last beat of the image
    o : Out(stream of struct)
        one beat per sample
        best : class with the largest logit. While the sample is trained on, that of the second
            pass.
        error : 1: the sample does not count (label or exponent out of range)
    o_log : Out(stream of struct)
        one beat per batch, before its update. With the log, the first weights can be trained again
        elsewhere. The update waits for its transfer.
        seed : seed of the batch's perturbation
        phase_magnitude : c of the batch
        phase_zeros : n of the batch
        phase_update_bits : update bits of the batch
        sign : sign of the loss difference: -1, 0, 1
        level : 0 none, 1 half a step, 2 one step, 3 two steps. The field exists only with levels.
    o_parameters : Out(stream of struct)
        one packet per read job. It has rows as ``i_parameters`` takes them. Lanes without a weight
        have any number.
        word (2 x signed(8)) : two weights
        last : last word of the packet
    o_status : Out(stream of struct)
        one beat per job
        kind : kind of the job
        status : 0 ok, 1 command error, 2 sample error, 3 parameter error, 4 schedule error. Index
            of :data:`~seedbed.spec.ZO_TRAINER_STATUS`.
        steps : batches trained in the job

    Errors: a command that cannot be run, or a sample of the wrong length, ends the command with a
    status; samples are discarded until the next one: those that come with it, or after it, are
    that command's. A batch that is broken off does not change the
    weights. An epoch's last batch may have fewer samples.

    Latency: of a job: see docs/cores/zo_trainer.md.
    Throughput: 1 sample at a time. Training takes two passes per sample, see
    :func:`seedbed.hw.engine.pipeline_timing.cycles`.
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
        rank_one = config.rank_one is not None
        # Not a submodule of this module: the pipeline has it.
        stage = RankOneSums(config) if rank_one else PerturbStage(config)
        m.submodules.pipeline = pipeline = InferencePipeline(
            config.engine,
            row_readers=("readout_reads", "update_reads"),
            **{"addend" if rank_one else "stage": stage},
        )
        for name in ("i", "i_schedule", "i_samples"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(control, name))
        wiring.connect(m, control.o_status, wiring.flipped(self.o_status))
        wiring.connect(m, control.o_put, pipeline.i_put)
        wiring.connect(m, control.o_sample, steps.i)
        for name in ("o", "o_log"):
            wiring.connect(m, getattr(steps, name), wiring.flipped(getattr(self, name)))
        if not rank_one:
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
        readout = (PartReadout if rank_one else RowReadout)(config.engine)
        m.submodules.readout = readout
        # A reset must not make rows valid that are of two packets, or of both sides of an update.
        whole = Signal(reset_less=True)
        if rank_one:
            m.submodules.parts = RowParts(config.engine)
        self._parameters(m, control, pipeline, readout, whole)
        if rank_one:
            connect_rank_one(m, config, steps, pipeline, stage, readout)
        else:
            self._update(m, steps, pipeline, stage)
        self._whole(m, steps, whole)
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
        ]
        if not self.config.rank_one:
            m.d.comb += pipeline.row_values.eq(stage.o)
        with m.If(loaded):
            m.d.comb += [to.eq(value[k % 2]) for k, to in enumerate(pipeline.row_values)]
        return load, word

    def _update(self, m, steps, pipeline, stage):
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

    def _whole(self, m, steps, whole):
        """Hold that the rows are of one update."""
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
            readout.given.eq(m.submodules.parts.o if self.config.rank_one else pipeline.rows),
            pipeline.readout_reads.request.eq(readout.busy),
            pipeline.readout_reads.row.eq(readout.row),
        ]
