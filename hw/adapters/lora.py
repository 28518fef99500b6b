"""Low-rank adapters into the last layer: forward pass, backward pass and update of a batch."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.gradient_writer import gradient_layout
from seedbed.hw.adapters.layer_engine import LayerEngine, Program, program_cycles
from seedbed.hw.adapters.train_adapters import TrainAdapters
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.engine.pipeline_timing import cycles
from seedbed.hw.engine.vector_loader import VectorLoader, vectors_layout
from seedbed.hw.parts.codes import codes
from seedbed.spec import LORA_KINDS, LORA_STATUS, LoraConfig

__all__ = ["Lora", "command_layout", "result_layout"]

_KINDS, _STATUS = codes(LORA_KINDS), codes(LORA_STATUS)
#: Cycles from a sample's last beat to its first program.
START = 1
#: Cycles from the end of a program to its answer.
SETTLE = TrainAdapters.latency - 1


def command_layout(config: LoraConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`Lora`."""
    return data.StructLayout({"kind": 3, "rate": config.rate_width})


def result_layout(config: LoraConfig) -> data.StructLayout:
    """Return the layout of a result, see :class:`Lora`."""
    values = data.ArrayLayout(signed(config.values.width), config.ways)
    fields = {"values": values, "count": range(config.ways + 1), "status": 3, "last": 1}
    return data.StructLayout(fields)


class Lora(wiring.Component):
    """Adapters A_i and B_i of a network that is elsewhere, and their training.

    It executes one command after the other; :class:`~seedbed.spec.LoraConfig` defines the results.
    A sample's vectors are accepted while the previous sample is computed. The adapters are stored
    in the core, in a ping-pong buffer: an update writes the new ones to the inactive buffer, and
    the buffers are swapped at its end.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.LoraConfig`.

    Members
    -------
    i : In(stream of struct)
        commands. ``train`` and ``infer`` read a packet of ``i_x``, ``train`` also one of
        ``i_gradient``. ``update`` ends a batch, which is all ``train`` commands since the previous
        ``update``.
        kind : 0 train, 1 infer, 2 update, 3 clear, 4 read. Index of
            :data:`~seedbed.spec.LORA_KINDS`.
        rate : learning rate of an update: multiplier M
    i_parameters : In(stream of struct)
        packet of adapter rows. Its rows are those that :func:`seedbed.golden.engine.adapter_rows`
        packs. They are accepted between commands, and take effect with ``last``.
        word (2 x signed(parameters.width)) : two parameters
        last : last word of the packet
    i_x : In(stream of struct)
        one packet per sample: activations, then frozen logits. x_0, x_1 and so on come before the
        logits. Each begins in a new beat; the unused part of its last beat is ignored.
        values (ways x signed(values.width)) : next values
        last : last beat of the packet
    i_gradient : In(stream of struct)
        one packet per training sample, one gradient per class. They are in the order of the
        classes.
        gradient (signed(gradients.width)) : loss gradient with respect to the logit of the class
        last : last beat of the packet
    o : Out(stream of struct)
        logits; one beat for other commands. The response to ``train`` and ``infer`` is the logits.
        values (ways x signed(values.width)) : next logits
        count : number of valid logits. 0 for other commands.
        status : 0 ok, 1 command error, 2 sample error, 3 gradient error, 4 parameter error. Index
            of :data:`~seedbed.spec.LORA_STATUS`.
        last : last beat of the command
    o_parameters : Out(stream of struct)
        one packet per read command. It is in the format of ``i_parameters``.
        word : two parameters
        last : last word of the packet
    saturations : Out(32)
        count of saturated numbers since reset. It is modulo 2^32. At the response to an ``update``
        it includes the whole batch.

    Errors: ``status`` is an index of :data:`~seedbed.spec.LORA_STATUS`. ``command``: an undefined
    kind. ``sample``: the packet of ``i_x`` was too short or too long, and is discarded; the
    response is one beat without logits, and no gradients are read. ``gradients``: response to an
    ``update``; a packet of ``i_gradient`` in its batch was too short or too long, and the batch is
    discarded.
    ``parameters``: a packet of ``i_parameters`` before the command was too short or too long, and
    was discarded; the command was executed with the old parameters. An update without samples
    changes nothing. After a reset, the adapters are those of the last complete update or packet,
    and a new batch begins.

    Latency: ``latency`` cycles from the last beat of a sample to its last logits. This holds while
    the core is idle.
    Throughput: 1 sample per ``interval`` cycles. This holds if gradients follow the logits at once
    and the sample's vectors have been accepted.
    Source: InstantFT, sections 2.2, 3.2 and 4.1, Eq. 1 and 3.
    """

    def __init__(self, config: LoraConfig):
        self.config = config
        engine = config.engine
        super().__init__(
            {
                "i": In(stream.Signature(command_layout(config))),
                "i_parameters": In(stream.Signature(words_layout(engine))),
                "i_x": In(stream.Signature(vectors_layout(engine))),
                "i_gradient": In(stream.Signature(gradient_layout(engine))),
                "o": Out(stream.Signature(result_layout(config))),
                "o_parameters": Out(stream.Signature(words_layout(engine))),
                "saturations": Out(32),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a sample's last beat to its last logits."""
        engine = self.config.engine
        return START + cycles(engine, *engine.plan.schedule.forward)

    @property
    def interval(self) -> int:
        """Cycles from a sample that is trained on to the next one."""
        programs = (Program.FORWARD, Program.BACKWARD, Program.ACCUMULATE)
        works = sum(program_cycles(self.config.engine, program) for program in programs)
        return max(works, self.config.sample_beats + 1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = LayerEngine(self.config.engine)
        # A sample's vectors are in this buffer of the store, or their packet had another length.
        self._buffer_select = Signal()
        self._full = Signal()
        self._bad = Signal()
        self._kind = Signal(3, name="kind", reset_less=True)
        self._status = Signal(3, name="status", reset_less=True)
        # Logits that have not left; an answer without logits.
        self._pending = Signal(name="pending")
        self._answering = Signal(name="answering")
        # The batch has no sample yet; it is not to be used.
        self._empty = Signal(name="batch_empty", init=1)
        self._failed = Signal(name="batch_failed")
        self._length_error = Signal(name="length_error")
        rate = Signal(self.config.rate_width, reset_less=True)
        m.d.comb += [
            engine.rate.eq(rate),
            # The buffer that is filled is the one of the next sample.
            engine.i.payload.buffer_select.eq(~self._buffer_select),
            engine.i.payload.clear.eq(self._empty),
        ]
        m.d.sync += self.saturations.eq(self.saturations + engine.saturated)
        wiring.connect(m, engine.o_parameters, wiring.flipped(self.o_parameters))
        self._samples(m, engine)
        self._answers(m, engine)
        resting = Signal()
        held = self._parameters(m, engine, resting)
        with m.FSM() as fsm:
            m.d.comb += resting.eq(fsm.ongoing("IDLE") & ~self._pending & ~self._answering)
            self._command_state(m, resting & ~held, rate)
            self._sample_states(m, engine)
            self._program_states(m, engine)
        return m

    def _ask(self, m, engine, program) -> Signal:
        """Ask the engine for a program in this state; return whether it has taken it."""
        m.d.comb += [engine.i.payload.program.eq(program), engine.i.valid.eq(1)]
        return engine.i.ready

    def _answers(self, m, engine):
        """Give out logits, or the one beat of an answer without."""
        out, answering = self.o, self._answering
        m.d.comb += [
            engine.o.ready.eq(out.ready),
            out.valid.eq(engine.o.valid | answering),
            out.payload.values.eq(Mux(answering, 0, engine.o.payload.values.as_value())),
            out.payload.count.eq(Mux(answering, 0, engine.o.payload.count)),
            out.payload.last.eq(answering | engine.o.payload.last),
            out.payload.status.eq(self._status),
        ]
        with m.If(out.valid & out.ready & out.payload.last):
            m.d.sync += [self._pending.eq(0), answering.eq(0)]

    def _parameters(self, m, engine, resting):
        """Take packets between commands whose answers have left; return whether one comes."""
        words, within = self.i_parameters, Signal()
        m.d.comb += [
            engine.i_parameters.valid.eq(words.valid & resting),
            engine.i_parameters.payload.word.eq(words.payload.word),
            engine.i_parameters.payload.last.eq(words.payload.last),
            engine.i_parameters.payload.trainable.eq(1),
            words.ready.eq(engine.i_parameters.ready & resting),
        ]
        with m.If(words.valid & words.ready):
            m.d.sync += within.eq(~words.payload.last)
        with m.If(engine.length_error):
            m.d.sync += self._length_error.eq(1)
        return within | words.valid

    def _command_state(self, m, ready, rate):
        """Take a command."""
        command, failed = self.i.payload, self._failed
        with m.State("IDLE"):
            m.d.comb += self.i.ready.eq(ready)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [
                    self._kind.eq(command.kind),
                    rate.eq(command.rate),
                    self._status.eq(Mux(self._length_error, _STATUS["parameters"], _STATUS["ok"])),
                    self._length_error.eq(0),
                ]
                with m.Switch(command.kind):
                    with m.Case(_KINDS["train"], _KINDS["infer"]):
                        m.next = "SAMPLE"
                    with m.Case(_KINDS["update"]):
                        m.d.sync += [self._empty.eq(1), failed.eq(0)]
                        with m.If(failed):
                            m.d.sync += self._status.eq(_STATUS["gradients"])
                        m.next = "PROGRAM"
                        with m.If(self._empty | failed):
                            m.next = "ANSWER"
                    with m.Case(_KINDS["clear"], _KINDS["read"]):
                        m.next = "PROGRAM"
                    with m.Default():
                        m.d.sync += self._status.eq(_STATUS["command"])
                        m.next = "ANSWER"

    def _sample_states(self, m, engine):
        """Run a sample forward; then, in training, back, and accumulate its gradients."""
        with m.State("SAMPLE"), m.If(self._full):
            with m.If(self._bad):
                m.d.sync += [self._status.eq(_STATUS["sample"]), self._full.eq(0)]
                m.next = "ANSWER"
            with m.Else():
                m.d.comb += engine.i.payload.buffer_select.eq(self._buffer_select)
                with m.If(self._ask(m, engine, Program.FORWARD)):
                    m.d.sync += [
                        self._full.eq(0),
                        self._buffer_select.eq(~self._buffer_select),
                        self._pending.eq(1),
                    ]
                    m.next = "GRADIENTS"
                    with m.If(self._kind == _KINDS["infer"]):
                        m.next = "IDLE"
        with m.State("GRADIENTS"):
            done, fits = self._gradients(m, engine)
            with m.If(done):
                m.next = "BACKWARD"
                with m.If(~fits):
                    m.d.sync += self._failed.eq(1)
                    m.next = "IDLE"
        with m.State("BACKWARD"), m.If(self._ask(m, engine, Program.BACKWARD)):
            m.next = "ACCUMULATE"
        with m.State("ACCUMULATE"), m.If(self._ask(m, engine, Program.ACCUMULATE)):
            m.d.sync += self._empty.eq(0)
            m.next = "IDLE"

    def _program_states(self, m, engine):
        """Run the program of a command without a sample, and answer."""
        wait = Signal(range(SETTLE + 1))
        with m.State("PROGRAM"), m.Switch(self._kind):
            for name in ("update", "clear", "read"):
                with m.Case(_KINDS[name]), m.If(self._ask(m, engine, Program[name.upper()])):
                    m.next = "ANSWER"
        with m.State("ANSWER"):
            # Not before the program is over, and what saturated counted.
            with m.If(~engine.i.ready):
                m.d.sync += wait.eq(SETTLE)
            with m.Elif(wait != 0):
                m.d.sync += wait.eq(wait - 1)
            with m.Else():
                m.d.sync += self._answering.eq(1)
                m.next = "IDLE"

    def _samples(self, m, engine):
        """Take the next sample's vectors while there is room for them."""
        given = self.i_x
        m.submodules.loader = loader = VectorLoader(self.config.engine)
        wiring.connect(m, loader.o, engine.i_put)
        m.d.comb += [
            loader.buffer_select.eq(self._buffer_select),
            loader.i.payload.eq(given.payload),
            loader.i.valid.eq(given.valid & ~self._full),
            given.ready.eq(loader.i.ready & ~self._full),
        ]
        with m.If(loader.done | loader.length_error):
            m.d.sync += [self._full.eq(1), self._bad.eq(loader.length_error)]

    def _gradients(self, m, engine):
        """Take a sample's gradients; return when they are over, and whether they were right."""
        given, to, classes = self.i_gradient, engine.i_gradient, self.config.classes
        number = Signal(range(classes + 1))
        ends, complete, fire = number == classes - 1, number == classes, Signal()
        m.d.comb += [
            to.valid.eq(given.valid & ~complete),
            to.payload.gradient.eq(given.payload.gradient),
            to.payload.last.eq(given.payload.last | ends),
            given.ready.eq(to.ready | complete),
            fire.eq(given.valid & given.ready),
        ]
        with m.If(fire & ~complete):
            m.d.sync += number.eq(number + 1)
        with m.If(fire & given.payload.last):
            m.d.sync += number.eq(0)
        return fire & given.payload.last, ends
