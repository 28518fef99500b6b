"""Trains the kept weights of a program in external memory, on samples there, without a host."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.projected_gradient import ProjectedGradient
from seedbed.hw.kept.sample_reader import SampleReader
from seedbed.hw.kept.stream_trainer_layouts import (
    CHANGE_BITS,
    job_layout,
    log_layout,
    status_layout,
)
from seedbed.hw.kept.training_steps import TrainingSteps
from seedbed.hw.memory.memory_port import (
    command_layout,
    read_layout,
    response_layout,
    write_layout,
)
from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.hw.stream.stream_layouts import input_layout, result_layout, token_layout
from seedbed.spec.stream_trainer import StreamTrainerConfig

__all__ = ["StreamTrainer"]


class StreamTrainer(wiring.Component):
    """Zeroth-order training of a program's kept weights, by two passes over each batch.

    A streamed engine, and what it is asked for. With L+ and L- the sums of the losses of a batch
    with +eps z and -eps z added to all kept weights, z the signs of a seed, a step is::

        change = clamp(floor((L+ - L-) rate / 2^shift + 1/2), -most, most)
        v      = v - change z

    Samples are in memory, too: a job of several epochs is one command. The seed of a step is the
    one before it, 23 steps on in an LFSR of 23 bits.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamTrainerConfig`.

    Members
    -------
    i : In(stream of struct)
        command. While a training runs, only an abort is accepted.
        kind : 0 load, 1 run, 2 tune, 3 train, 4 abort. Index of
            :data:`~seedbed.spec.STREAM_TRAINER_KINDS`.
        address : where the program is, or the first sample, in beats; valid with load and train
        start : 1: the block's first token is the first of all; valid with run
        first : first address that is written, in beats; valid with load, tune and train
        end : address after the last one that is written; valid with load, tune and train
        seed : seed of the signs, nonzero, or of the first step, with 23 bits; valid with tune and
            train
        delta : what is added to values of kept weights, times their signs, or eps, 1..16384; valid
            with tune and train
        samples : samples of an epoch
        epochs : epochs
        batch : samples between two changes
        head : beats of a sample's tokens
        vectors : beats of a sample's vectors, as they come to the engine. With ``inputs`` only.
        rate : factor of the difference of the losses
        decay : decrease of the rate per epoch
        shift : right shift of the product
        most : the most that a value changes in a step. With eps, below 32768.
    i_tokens : In(stream of struct)
        tokens of a block, after a command to run
        token : number of the token
        label : its class; another number than those of classes has the greatest loss
        last : last token of the block
    i_vectors : In(stream of struct)
        vectors of a block, one for each token. With ``inputs`` only.
        values (lanes x signed(16)) : elements of the vector. Those beyond its length are ignored.
        last : last beat of the block
    o_command : Out(stream of struct)
        bursts of memory
        address : address of the first beat, in beats
        write : 1: write burst; 0: read burst
        length : beats of the burst, minus 1
    i_read : In(stream of struct)
        beats that are read, in the order of the commands
        data : read data of the beat
        error : 1: the data is invalid
        last : last beat of its burst
    o_write : Out(stream of struct)
        beats that are written
        data : write data of the beat
        last : 1: a burst has one beat
    i_response : In(stream of struct)
        answers, one per write burst
        error : 1: the burst was not written
    o : Out(stream of struct)
        results: of a block, and of each sample of a training in its second pass
        values (lanes x signed(24)) : the token's loss and its class
        last : last beat of the result
    o_log : Out(stream of struct)
        steps of a training. The change waits for its transfer.
        seed : seed of the step's signs
        change : what was subtracted, times the signs
    o_status : Out(stream of struct)
        status, one per command. An abort of a running training has none of its own.
        kind : kind of the command
        status : 0 ok, 1 memory error, 2 damaged program, 3 program too large, 4 no program, 5 block
            too long, unknown token, or other vectors, 6 command, 7 aborted. Index of
            :data:`~seedbed.spec.STREAM_TRAINER_STATUS`.
        steps : steps of a training

    Errors: as of :class:`~seedbed.hw.stream.stream_engine.StreamEngine`. A training that cannot be
    run, with no or too many samples, or numbers that do not fit, is refused. One that is aborted,
    or ends with an error, takes the perturbation back first: but for values that it saturated, they
    are those after the last step. An error of the memory while weights are changed, and a memory
    that takes no command, leave them as they are then.

    Latency: that of the program.
    Throughput: 1 sample per two blocks, each of which reads the program and the sample once.
    Source: MeZO (arXiv:2305.17333), algorithm 1; SensZOQ (arXiv:2406.02913), section 3.
    """

    interval = 1

    def __init__(self, config: StreamTrainerConfig):
        self.config = config
        vectors = {"i_vectors": In(stream.Signature(input_layout(config)))}
        super().__init__(
            {
                "i": In(stream.Signature(job_layout(config))),
                "i_tokens": In(stream.Signature(token_layout(config))),
                **(vectors if config.inputs else {}),
                "o_command": Out(stream.Signature(command_layout(config.address_bits))),
                "i_read": In(stream.Signature(read_layout(config.beat_bits))),
                "o_write": Out(stream.Signature(write_layout(config.beat_bits))),
                "i_response": In(stream.Signature(response_layout())),
                "o": Out(stream.Signature(result_layout(config))),
                "o_log": Out(stream.Signature(log_layout(config))),
                "o_status": Out(stream.Signature(status_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = StreamEngine(self.config.engine)
        m.submodules.steps = steps = TrainingSteps(self.config)
        m.submodules.sample = sample = SampleReader(self.config)
        wiring.connect(m, wiring.flipped(self.i), steps.i)
        wiring.connect(m, steps.o_log, wiring.flipped(self.o_log))
        wiring.connect(m, steps.o_status, wiring.flipped(self.o_status))
        wiring.connect(m, steps.o_call, engine.i)
        wiring.connect(m, engine.o_status, steps.i_done)
        wiring.connect(m, engine.o_write, wiring.flipped(self.o_write))
        wiring.connect(m, wiring.flipped(self.i_response), engine.i_response)
        m.d.comb += [
            sample.start.eq(steps.fetch),
            sample.address.eq(steps.address),
            sample.head.eq(steps.job.head),
            sample.give.eq(steps.give),
            *(getattr(steps, name).eq(getattr(sample, name)) for name in (
                "beats", "fetched", "failed", "settled", "stuck",
            )),
        ]  # fmt: skip
        given = [(self.i_tokens, sample.o_tokens, engine.i_tokens)]
        if self.config.inputs:
            m.d.comb += sample.vectors.eq(steps.job.vectors)
            given.append((self.i_vectors, sample.o_vectors, engine.i_vectors))
        for host, own, to in given:
            _chosen(m, steps.trains, own, host, to)
        self._memory(m, engine, sample, steps.fetching)
        self._results(m, engine, steps)
        return m

    def _memory(self, m, engine, sample, fetching) -> None:
        """Give the memory to the engine, or to the reader of samples."""
        _chosen(m, fetching, sample.o_command, engine.o_command, self.o_command)
        for part, on in ((sample, fetching), (engine, ~fetching)):
            m.d.comb += [
                part.i_read.valid.eq(self.i_read.valid & on),
                part.i_read.payload.eq(self.i_read.payload),
            ]
        m.d.comb += self.i_read.ready.eq(Mux(fetching, sample.i_read.ready, engine.i_read.ready))

    def _results(self, m, engine, steps) -> None:
        """Give results to the host, and the loss of each, its first element, to the step.

        A loss and its class are one beat.
        """
        gradient = ProjectedGradient(
            loss_width=self.config.unit.residual_width, sum_width=self.config.sum_width,
            gain_width=CHANGE_BITS,
        )  # fmt: skip
        # Losses of a batch that was broken off are dropped.
        m.submodules.gradient = ResetInserter(steps.clear)(gradient)
        given = Signal()
        m.d.comb += [
            given.eq(engine.o.valid & engine.o.ready & steps.trains),
            self.o.valid.eq(engine.o.valid & ~steps.silent),
            self.o.payload.eq(engine.o.payload),
            engine.o.ready.eq(self.o.ready | steps.silent),
            gradient.add.eq(given & steps.silent),
            gradient.subtract.eq(given & ~steps.silent),
            gradient.loss.eq(engine.o.payload.values[0]),
            gradient.start.eq(steps.differentiate),
            gradient.rate.eq(steps.rate),
            gradient.shift.eq(steps.job.shift),
            steps.differentiated.eq(gradient.done),
            steps.gain.eq(gradient.gain),
        ]


def _chosen(m, first, one, other, to) -> None:
    """Connect one of two streams."""
    m.d.comb += [
        to.valid.eq(Mux(first, one.valid, other.valid)),
        to.payload.eq(Mux(first, one.payload, other.payload)),
        one.ready.eq(to.ready & first),
        other.ready.eq(to.ready & ~first),
    ]
