"""Takes commands, and a job's samples one by one; looks each up, and hands it over."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.layer_engine import Program, program_layout
from seedbed.hw.engine.sample_intake import SampleIntake, label_shape, sample_layout
from seedbed.hw.engine.store_writes import put_layout
from seedbed.hw.memory.forward_cache_layouts import answer_layout, request_layout
from seedbed.hw.parts.codes import codes
from seedbed.hw.parts.job_counter import JobCounter
from seedbed.spec.forward_cache import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS, InstantFtConfig

__all__ = ["JobControl", "command_layout", "handover_layout"]

_KINDS, _STATUS = codes(INSTANTFT_KINDS), codes(INSTANTFT_STATUS)
_REQUESTS, _ANSWERS = codes(FORWARD_CACHE_KINDS), codes(FORWARD_CACHE_STATUS)


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


class _Job:
    """Signals of the command that runs, which its states share."""

    def __init__(self, config: InstantFtConfig):
        self.command = Signal(command_layout(config), reset_less=True)
        # Reset, because the kind without a command is seen outside.
        self.kind = Signal(3)
        self.status = Signal(3)
        self.trains = Signal()
        self.counter = JobCounter(self.command)
        self.hit = Signal()
        self.discard = Signal()
        self.parameter_error = Signal()
        # The request for the activations of a sample: it is wanted, taken, and answered.
        self.wanted = Signal()
        self.requested = Signal()
        self.answered = Signal()
        self.answer = Signal(answer_layout()["status"].shape)


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
        job = _Job(self.config)
        m.d.comb += [
            job.trains.eq(job.kind == _KINDS["train"]),
            self.rate.eq(job.command.rate),
            intake.buffer_select.eq(self.buffer_select),
            intake.discard.eq(job.discard),
            self.o_program.payload.buffer_select.eq(self.buffer_select),
            self.o_request.payload.index.eq(intake.index),
            self.o_status.payload.status.eq(job.status),
        ]
        with m.If(self.length_error):
            m.d.sync += job.parameter_error.eq(1)
        self._lookup(m, job, intake)
        with m.FSM() as machine:
            m.d.comb += self.idle.eq(machine.ongoing("COMMAND"))
            self._command_states(m, job)
            self._sample_states(m, job, intake)
            self._network_states(m, job)
            self._end_states(m, job, intake)
        return m

    def _fail(self, m, job, status: str):
        """End the command; samples are discarded until the next one."""
        m.d.sync += [job.status.eq(_STATUS[status]), job.discard.eq(1)]
        m.next = "DRAIN"

    def _ask(self, m, program, then: str):
        """Ask the engine for a program in this state."""
        m.d.comb += [self.o_program.valid.eq(1), self.o_program.payload.program.eq(program)]
        with m.If(self.o_program.ready):
            m.next = then

    def _fetch(self, m, job):
        m.d.sync += [job.wanted.eq(1), job.requested.eq(0), job.answered.eq(0)]

    def _lookup(self, m, job, intake):
        """Fetch a sample's activations while the rest of its image comes."""
        request, answer = self.o_request, self.i_answer
        with m.If(intake.begins):
            m.d.sync += job.hit.eq(job.trains)
            with m.If(job.trains):
                self._fetch(m, job)
        with m.If(job.wanted):
            m.d.comb += [
                request.valid.eq(~job.requested),
                request.payload.kind.eq(_REQUESTS["fetch"]),
                answer.ready.eq(1),
            ]
            with m.If(request.ready):
                m.d.sync += job.requested.eq(1)
            with m.If(answer.valid):
                m.d.sync += [
                    job.wanted.eq(0),
                    job.answered.eq(1),
                    job.answer.eq(answer.payload.status),
                ]

    def _command_states(self, m, job):
        """Take a command, check it, and begin."""
        command, request = self.i.payload, self.o_request
        with m.State("COMMAND"):
            m.d.comb += self.i.ready.eq(~self.hold)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [
                    job.command.eq(command),
                    job.kind.eq(command.kind),
                    job.status.eq(_STATUS["ok"]),
                ]
                job.counter.begin(m, command)
                m.d.sync += [job.discard.eq(0), job.parameter_error.eq(0)]
                m.next = "BEGIN"
                with m.If(job.parameter_error):
                    self._fail(m, job, "parameters")
        with m.State("BEGIN"), m.Switch(job.kind):
            with m.Case(_KINDS["train"], _KINDS["infer"]):
                m.next = "IMAGE"
                with m.If(job.counter.refused(job.trains, 256)):
                    self._fail(m, job, "command")
            with m.Case(_KINDS["clear"]):
                self._ask(m, Program.CLEAR, "ENGINE")
            with m.Case(_KINDS["read"]):
                self._ask(m, Program.READ, "ENGINE")
            with m.Case(_KINDS["forget"]):
                m.d.comb += [request.valid.eq(1), request.payload.kind.eq(_REQUESTS["clear"])]
                with m.If(request.ready):
                    m.next = "FORGET"
            with m.Default():
                self._fail(m, job, "command")
        with m.State("FORGET"):
            m.d.comb += self.i_answer.ready.eq(1)
            with m.If(self.i_answer.valid):
                m.next = "DRAIN"
        with m.State("ENGINE"), m.If(self.o_program.ready):
            m.next = "DRAIN"

    def _sample_states(self, m, job, intake):
        """Take an image, and wait for what the cache says of it."""
        with m.State("IMAGE"):
            m.d.comb += intake.enable.eq(1)
            with m.If(intake.length_error):
                m.next = "LENGTH_ERROR"
            with m.If(intake.done):
                m.next = "LOOKUP"
                with m.If(job.kind == _KINDS["infer"]):
                    m.next = "BASE"
        with m.State("LENGTH_ERROR"), m.If(~job.wanted):
            self._fail(m, job, "sample")
        with m.State("LOOKUP"), m.If(job.answered), m.Switch(job.answer):
            with m.Case(_ANSWERS["done"]):
                m.next = "HANDOVER"
            with m.Case(_ANSWERS["miss"]):
                m.d.sync += job.hit.eq(0)
                m.next = "BASE"
            with m.Case(_ANSWERS["range"]):
                self._fail(m, job, "index")
            with m.Default():
                self._fail(m, job, "memory")

    def _request_store(self, m, job):
        """Request that the cache stores an entry, if it is not requested yet."""
        request = self.o_request
        m.d.comb += [request.valid.eq(~job.requested), request.payload.kind.eq(_REQUESTS["store"])]
        with m.If(request.ready):
            m.d.sync += job.requested.eq(1)

    def _network_states(self, m, job):
        """Run the frozen network, and store its activations; they are then fetched."""
        answer = self.i_answer
        with m.State("BASE"), m.If(self.o_sample.ready):
            self._ask(m, Program.BASE, "RUN")
        with m.State("RUN"), m.If(self.o_program.ready):
            m.d.sync += job.requested.eq(0)
            m.next = "HANDOVER"
            with m.If(job.trains):
                m.next = "SCAN"
        with m.State("SCAN"):
            # The cache waits for codes, and codes for the cache.
            self._request_store(m, job)
            self._ask(m, Program.SCAN, "STORE")
        with m.State("STORE"):
            self._request_store(m, job)
            m.d.comb += answer.ready.eq(1)
            with m.If(answer.valid), m.Switch(answer.payload.status):
                with m.Case(_ANSWERS["done"]):
                    self._fetch(m, job)
                    m.next = "LOOKUP"
                with m.Case(_ANSWERS["range"]):
                    self._fail(m, job, "index")
                with m.Default():
                    self._fail(m, job, "memory")

    def _end_states(self, m, job, intake):
        """Hand a sample over; after the last one, end the command."""
        sample, counter = self.o_sample, job.counter
        m.d.comb += [
            sample.payload.train.eq(job.trains),
            sample.payload.label.eq(intake.label),
            sample.payload.hit.eq(job.hit),
            sample.payload.first.eq(counter.batch_begins),
            sample.payload.last.eq(counter.batch_ends),
            sample.payload.buffer_select.eq(self.buffer_select),
        ]
        with m.State("HANDOVER"):
            m.d.comb += sample.valid.eq(1)
            with m.If(sample.ready):
                m.d.sync += self.buffer_select.eq(~self.buffer_select)
                m.next = "IMAGE"
                with counter.step(m), m.If(counter.last_epoch):
                    m.next = "DRAIN"
        with m.State("DRAIN"), m.If(sample.ready):
            m.next = "END"
        with m.State("END"):
            m.d.comb += self.o_status.valid.eq(1)
            with m.If(self.o_status.ready):
                m.next = "COMMAND"
