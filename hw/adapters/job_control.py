"""Takes commands, and a job's samples one by one; looks each up, and hands it over."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.layer_engine import Program, program_layout
from seedbed.hw.engine.sample_intake import SampleIntake, label_shape, sample_layout
from seedbed.hw.engine.store_writes import put_layout
from seedbed.hw.memory.forward_cache_layouts import answer_layout, request_layout
from seedbed.spec.forward_cache import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS, InstantFtConfig

__all__ = ["JobControl", "command_layout", "handover_layout"]

_TRAIN, _INFER, _CLEAR, _READ, _FORGET = range(len(INSTANTFT_KINDS))
_OK, _COMMAND, _SAMPLE, _INDEX, _MEMORY, _PARAMETERS = range(len(INSTANTFT_STATUS))
_FETCH, _STORE, _EMPTY = range(len(FORWARD_CACHE_KINDS))
_DONE, _MISS, _RANGE = range(len(FORWARD_CACHE_STATUS) - 2)


def command_layout(config: InstantFtConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`~seedbed.hw.adapters.instantft.InstantFt`."""
    fields = {"kind": 3, "samples": 16, "epochs": 16, "batch": 9}
    return data.StructLayout(fields | {"rate": config.lora.rate_width})


def handover_layout(config: InstantFtConfig) -> data.StructLayout:
    """Return the layout of a sample whose activations are in the store.

    ``train`` (or classify), ``label``, ``hit``, the ``first`` and the ``last`` of its batch, and
    ``buffer_select`` of the store.
    """
    marks = dict.fromkeys(("train", "hit", "first", "last", "buffer_select"), 1)
    return data.StructLayout({"label": label_shape(config), **marks})


class JobControl(wiring.Component):
    """Walks through a command's samples, one ahead of the one that is trained on.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.

    Members
    -------
    i : In(stream of :func:`command_layout`)
    i_samples : In(stream of :func:`~seedbed.hw.engine.sample_intake.sample_layout`)
    o_put : Out(stream of :func:`~seedbed.hw.engine.store_writes.put_layout`)
        An image, to the engine.
    o_program : Out(stream of :func:`~seedbed.hw.adapters.layer_engine.program_layout`)
        To the engine, which is ready when the program before is over.
    o_request, i_answer : Out, In(stream)
        To and from the cache.
    o_sample : Out(stream of :func:`handover_layout`)
        Taken when the sample before is done with.
    o_status : Out(stream of struct)
        ``status``, which ends a command.
    hold : In(1)
        Commands wait: parameters come.
    length_error : In(1)
        A packet of them was too short or too long: the next command fails.
    idle : Out(1)
        No command runs.
    buffer_select : Out(1)
        Of the store, where a fetch is to be put.
    rate : Out
        Of the command that runs.
    """

    def __init__(self, config: InstantFtConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(command_layout(config))),
                "i_samples": In(stream.Signature(sample_layout(config))),
                "o_put": Out(stream.Signature(put_layout(config.engine))),
                "o_program": Out(stream.Signature(program_layout())),
                "o_request": Out(stream.Signature(request_layout())),
                "i_answer": In(stream.Signature(answer_layout())),
                "o_sample": Out(stream.Signature(handover_layout(config))),
                "o_status": Out(stream.Signature(data.StructLayout({"status": 3}))),
                "hold": In(1),
                "length_error": In(1),
                "idle": Out(1),
                "buffer_select": Out(1),
                "rate": Out(config.lora.rate_width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.intake = intake = SampleIntake(self.config)
        wiring.connect(m, wiring.flipped(self.i_samples), intake.i)
        wiring.connect(m, intake.o, wiring.flipped(self.o_put))
        self._job = Signal(command_layout(self.config), reset_less=True)
        # Reset, because the kind without a command is seen outside.
        self._kind = Signal(3)
        self._status = Signal(3)
        self._trains = Signal()
        # Samples left in the epoch, epochs left, and samples of the batch so far.
        self._left = Signal(16)
        self._epochs = Signal(16)
        self._batch = Signal(9)
        self._hit = Signal()
        self._discard = Signal()
        self._parameters_bad = Signal()
        m.d.comb += [
            self._trains.eq(self._kind == _TRAIN),
            self.rate.eq(self._job.rate),
            intake.buffer_select.eq(self.buffer_select),
            intake.discard.eq(self._discard),
            self.o_program.payload.buffer_select.eq(self.buffer_select),
            self.o_request.payload.index.eq(intake.index),
            self.o_status.payload.status.eq(self._status),
        ]
        with m.If(self.length_error):
            m.d.sync += self._parameters_bad.eq(1)
        self._lookup(m, intake)
        with m.FSM() as machine:
            m.d.comb += self.idle.eq(machine.ongoing("COMMAND"))
            self._command_states(m)
            self._sample_states(m, intake)
            self._network_states(m)
            self._end_states(m, intake)
        return m

    def _fail(self, m, status):
        """End the command; samples are discarded until the next one."""
        m.d.sync += [self._status.eq(status), self._discard.eq(1)]
        m.next = "DRAIN"

    def _ask(self, m, program, then: str):
        """Ask the engine for a program in this state."""
        m.d.comb += [self.o_program.valid.eq(1), self.o_program.payload.program.eq(program)]
        with m.If(self.o_program.ready):
            m.next = then

    def _fetch(self, m):
        m.d.sync += [self._wanted.eq(1), self._requested.eq(0), self._answered.eq(0)]

    def _lookup(self, m, intake):
        """Fetch a sample's activations while the rest of its image comes."""
        request, answer = self.o_request, self.i_answer
        self._wanted = Signal()
        self._requested = Signal()
        self._answered = Signal()
        self._answer = Signal.like(answer.payload.status)
        with m.If(intake.begins):
            m.d.sync += self._hit.eq(self._trains)
            with m.If(self._trains):
                self._fetch(m)
        with m.If(self._wanted):
            m.d.comb += [
                request.valid.eq(~self._requested),
                request.payload.kind.eq(_FETCH),
                answer.ready.eq(1),
            ]
            with m.If(request.ready):
                m.d.sync += self._requested.eq(1)
            with m.If(answer.valid):
                m.d.sync += [
                    self._wanted.eq(0),
                    self._answered.eq(1),
                    self._answer.eq(answer.payload.status),
                ]

    def _command_states(self, m):
        """Take a command, check it, and begin."""
        job, request = self._job, self.o_request
        with m.State("COMMAND"):
            m.d.comb += self.i.ready.eq(~self.hold)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [
                    job.eq(self.i.payload),
                    self._kind.eq(self.i.payload.kind),
                    self._status.eq(_OK),
                    self._left.eq(self.i.payload.samples),
                    self._epochs.eq(self.i.payload.epochs),
                    self._batch.eq(0),
                    self._discard.eq(0),
                    self._parameters_bad.eq(0),
                ]
                m.next = "BEGIN"
                with m.If(self._parameters_bad):
                    self._fail(m, _PARAMETERS)
        with m.State("BEGIN"), m.Switch(self._kind):
            with m.Case(_TRAIN, _INFER):
                m.next = "IMAGE"
                no_samples = (job.samples == 0) | (job.epochs == 0)
                bad_batch = (job.batch == 0) | (job.batch > 256)
                with m.If(no_samples | (self._trains & bad_batch)):
                    self._fail(m, _COMMAND)
            with m.Case(_CLEAR):
                self._ask(m, Program.CLEAR, "ENGINE")
            with m.Case(_READ):
                self._ask(m, Program.READ, "ENGINE")
            with m.Case(_FORGET):
                m.d.comb += [request.valid.eq(1), request.payload.kind.eq(_EMPTY)]
                with m.If(request.ready):
                    m.next = "FORGET"
            with m.Default():
                self._fail(m, _COMMAND)
        with m.State("FORGET"):
            m.d.comb += self.i_answer.ready.eq(1)
            with m.If(self.i_answer.valid):
                m.next = "DRAIN"
        with m.State("ENGINE"), m.If(self.o_program.ready):
            m.next = "DRAIN"

    def _sample_states(self, m, intake):
        """Take an image, and wait for what the cache says of it."""
        with m.State("IMAGE"):
            m.d.comb += intake.enable.eq(1)
            with m.If(intake.length_error):
                m.next = "LENGTH_ERROR"
            with m.If(intake.done):
                m.next = "LOOKUP"
                with m.If(self._kind == _INFER):
                    m.next = "BASE"
        with m.State("LENGTH_ERROR"), m.If(~self._wanted):
            self._fail(m, _SAMPLE)
        with m.State("LOOKUP"), m.If(self._answered), m.Switch(self._answer):
            with m.Case(_DONE):
                m.next = "HANDOVER"
            with m.Case(_MISS):
                m.d.sync += self._hit.eq(0)
                m.next = "BASE"
            with m.Case(_RANGE):
                self._fail(m, _INDEX)
            with m.Default():
                self._fail(m, _MEMORY)

    def _request_store(self, m):
        """Request that the cache stores an entry, if it is not requested yet."""
        request = self.o_request
        m.d.comb += [request.valid.eq(~self._requested), request.payload.kind.eq(_STORE)]
        with m.If(request.ready):
            m.d.sync += self._requested.eq(1)

    def _network_states(self, m):
        """Run the frozen network, and store its activations; they are then fetched."""
        answer = self.i_answer
        with m.State("BASE"), m.If(self.o_sample.ready):
            self._ask(m, Program.BASE, "RUN")
        with m.State("RUN"), m.If(self.o_program.ready):
            m.d.sync += self._requested.eq(0)
            m.next = "HANDOVER"
            with m.If(self._trains):
                m.next = "SCAN"
        with m.State("SCAN"):
            # The cache waits for codes, and codes for the cache.
            self._request_store(m)
            self._ask(m, Program.SCAN, "STORE")
        with m.State("STORE"):
            self._request_store(m)
            m.d.comb += answer.ready.eq(1)
            with m.If(answer.valid), m.Switch(answer.payload.status):
                with m.Case(_DONE):
                    self._fetch(m)
                    m.next = "LOOKUP"
                with m.Case(_RANGE):
                    self._fail(m, _INDEX)
                with m.Default():
                    self._fail(m, _MEMORY)

    def _end_states(self, m, intake):
        """Hand a sample over; after the last one, end the command."""
        job, sample = self._job, self.o_sample
        last = (self._batch == job.batch - 1) | (self._left == 1)
        m.d.comb += [
            sample.payload.train.eq(self._trains),
            sample.payload.label.eq(intake.label),
            sample.payload.hit.eq(self._hit),
            sample.payload.first.eq(self._batch == 0),
            sample.payload.last.eq(last),
            sample.payload.buffer_select.eq(self.buffer_select),
        ]
        with m.State("HANDOVER"):
            m.d.comb += sample.valid.eq(1)
            with m.If(sample.ready):
                m.d.sync += [
                    self.buffer_select.eq(~self.buffer_select),
                    self._left.eq(self._left - 1),
                    self._batch.eq(Mux(last, 0, self._batch + 1)),
                ]
                m.next = "IMAGE"
                with m.If(self._left == 1):
                    m.d.sync += [self._left.eq(job.samples), self._epochs.eq(self._epochs - 1)]
                    with m.If(self._epochs == 1):
                        m.next = "DRAIN"
        with m.State("DRAIN"), m.If(sample.ready):
            m.next = "END"
        with m.State("END"):
            m.d.comb += self.o_status.valid.eq(1)
            with m.If(self.o_status.ready):
                m.next = "COMMAND"
