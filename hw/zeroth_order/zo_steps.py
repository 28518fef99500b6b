"""Takes samples of a batch through both forward passes, and a batch through its update."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.output_queue import outputs_layout, shift_members
from seedbed.hw.engine.sample_intake import label_shape
from seedbed.hw.generators.perturbation_rows import Kind, command_layout
from seedbed.hw.loss.loss_sign import LossSign
from seedbed.hw.loss.step_levels import StepLevels
from seedbed.hw.parts.fixed_requantize import saturate
from seedbed.spec.fixed import Fixed
from seedbed.spec.loss_sign import EXPONENT_BITS
from seedbed.spec.step_levels import LEVELS, ONE
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["EXPONENT", "ZoSteps", "class_layout", "handover_layout", "log_layout"]

#: Of the sum of all weights' exponents.
EXPONENT = signed(9)
#: Exponent of an image.
IMAGE_EXPONENT = -7


def phase_layout(config: ZoTrainerConfig) -> data.StructLayout:
    """Return the layout of what a schedule says.

    ``magnitude``, as bits of r_max, ``zeros``, and with a tail ``update_bits`` of its updates.
    """
    tail = {"update_bits": 3} if config.tail else {}
    return data.StructLayout({"magnitude": range(config.magnitude_bits + 1), "zeros": 4} | tail)


def handover_layout(config: ZoTrainerConfig) -> data.StructLayout:
    """Return the layout of a sample whose image is in the store.

    ``train``; ``first`` and ``last`` of its batch, the batch's ``seed`` and ``phase``; ``label``;
    ``buffer_select``, and the ``exponent`` of all weights together. With levels, ``fresh``: its
    batch is the first one of a job.
    """
    marks = dict.fromkeys(("train", "first", "last", "buffer_select"), 1)
    if config.levels > 1:
        marks["fresh"] = 1
    phase = phase_layout(config)
    return data.StructLayout(
        marks | {"label": label_shape(config), "seed": 32, "phase": phase, "exponent": EXPONENT}
    )


def log_layout(config: ZoTrainerConfig) -> data.StructLayout:
    """Return the layout of a step in the log: all that its update depends on."""
    level = {"level": range(len(LEVELS))} if config.levels > 1 else {}
    return data.StructLayout({"seed": 32, "phase": phase_layout(config), "sign": signed(2)} | level)


def class_layout(config: ZoTrainerConfig) -> data.StructLayout:
    """Return the layout of a sample's result: ``best`` and ``error``, as the loss gives them."""
    return data.StructLayout({"best": label_shape(config), "error": 1})


class ZoSteps(wiring.Component):
    """Runs the passes of a sample, the sign of a batch, and its update, one after the other.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`.

    Members
    -------
    i : In(stream of :func:`handover_layout`)
        A sample; the next is taken when its buffer of the store is free.
    o : Out(stream of :func:`class_layout`)
        Its class: of the unperturbed pass or, while it is trained on, of the second one.
    o_log : Out(stream of :func:`log_layout`)
        One for a batch, before the update.
    o_command : Out(stream of :func:`~seedbed.hw.generators.perturbation_rows.command_layout`)
        To the perturbing stage.
    perturb, subtract : Out(1)
        To the stage: whether steps are perturbed, and what is subtracted.
    start, buffer_select, busy
        Of the inference pipeline: all of its steps.
    shift, shifted, i_logits : In
        What it says of its outputs, and gives out.
    update, updating
        Of the update pass: a pulse, and whether it is busy.
    steps : Out(32)
        Updates, of sign 0 as well, since reset.
    prepare, backpropagate, clear : Out(1), tail_busy : In(1)
        Pulses before a batch and after its update, for the tail; what was broken off is dropped.
    updated : Out(1)
        A pulse: the update of the batch, and that of the tail, are over.
    second : Out(1)
        The second of a sample's two passes runs.
    label, update_bits, exponent : Out
        Of the sample and its batch; that of the outputs before those that come.
    level : Out
        Of the batch's update; one step without levels.
    """

    def __init__(self, config: ZoTrainerConfig):
        self.config = config
        members = shift_members(config.engine)
        shifts = {name: members[name].flip() for name in ("shift", "shifted")}
        super().__init__(
            {
                "i": In(stream.Signature(handover_layout(config))),
                "o": Out(stream.Signature(class_layout(config))),
                "o_log": Out(stream.Signature(log_layout(config))),
                "o_command": Out(
                    stream.Signature(command_layout(config.rank_one or config.perturb))
                ),
                "perturb": Out(1),
                "subtract": Out(1),
                "start": Out(1),
                "buffer_select": Out(1),
                "busy": In(1),
                "i_logits": In(stream.Signature(outputs_layout(config.engine))),
                "update": Out(1),
                "updating": In(1),
                "steps": Out(32),
                "prepare": Out(1),
                "backpropagate": Out(1),
                "clear": Out(1),
                "tail_busy": In(1),
                "updated": Out(1),
                "second": Out(1),
                "label": Out(label_shape(config)),
                "update_bits": Out(3),
                "exponent": Out(signed(EXPONENT.width + 2)),
                "level": Out(range(len(LEVELS)), init=ONE),
            }
            | shifts
        )

    def elaborate(self, platform):
        m = Module()
        sample = Signal(self.i.payload.shape(), reset_less=True)
        second, negative, clear = Signal(), Signal(), self.clear
        command, log = self.o_command, self.o_log
        loss, draining = self._loss(m, sample, second, clear)
        m.d.comb += [
            self.buffer_select.eq(sample.buffer_select),
            self.perturb.eq(sample.train),
            self.second.eq(second & sample.train),
            self.label.eq(sample.label),
            # theta + z, then theta - z; and g z, subtracted if g is 1.
            self.subtract.eq(Mux(self.updating, negative, second)),
            command.payload.seed.eq(sample.seed),
            command.payload.magnitude.eq(sample.phase.magnitude),
            command.payload.zeros.eq(sample.phase.zeros),
            log.payload.seed.eq(sample.seed),
            log.payload.phase.eq(sample.phase),
            log.payload.sign.eq(loss.o.payload.sign),
        ]
        if self.config.tail:
            m.d.comb += self.update_bits.eq(sample.phase.update_bits)
        levels = self._levels(m, loss) if self.config.levels > 1 else None
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += second.eq(0)
                with m.If(self.i.valid):
                    m.d.sync += sample.eq(self.i.payload)
                    m.next = "SEED"
            self._passes(m, sample, second, clear, draining)
            self._update(m, loss, negative, levels)
            found = loss.o_classes
            # The class of the first of two passes is dropped.
            dropped = sample.train & ~found.payload.minus
            m.d.comb += [
                self.o.payload.best.eq(found.payload.best),
                self.o.payload.error.eq(found.payload.error),
                found.ready.eq(dropped),
            ]
            with m.State("CLASS"), m.If(found.valid & ~dropped):
                m.d.comb += [self.o.valid.eq(1), found.ready.eq(self.o.ready)]
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m

    def _command(self, m, kind: Kind, then: str):
        """Give the stage a command in this state."""
        m.d.comb += [self.o_command.valid.eq(1), self.o_command.payload.kind.eq(kind)]
        with m.If(self.o_command.ready):
            m.next = then

    def _levels(self, m, loss):
        """Find the level of a batch from the magnitude of its loss difference; return what does."""
        size = loss.o.payload.size
        m.submodules.levels = levels = StepLevels(len(size))
        m.d.sync += levels.size.eq(size)
        m.d.comb += [
            levels.begin.eq(self.i.valid & self.i.ready & self.i.payload.fresh),
            self.o_log.payload.level.eq(levels.level),
        ]
        with m.If(levels.take):
            m.d.sync += self.level.eq(levels.level)
        return levels

    def _update(self, m, loss, negative, levels):
        """Log the sign, update the weights against it, and then the tail."""
        command, log = self.o_command, self.o_log
        idle = log.payload.sign == 0
        if levels is not None:
            idle |= levels.level == LEVELS.index("none")
            # The magnitude is registered before it is compared.
            with m.State("LEVEL"), m.If(loss.o.valid):
                m.next = "SIGN"
        with m.State("SIGN"):
            m.d.comb += [log.valid.eq(loss.o.valid), loss.o.ready.eq(log.ready)]
            with m.If(log.valid & log.ready):
                m.d.sync += [
                    self.steps.eq(self.steps + 1),
                    negative.eq(log.payload.sign > 0),
                ]
                if levels is not None:
                    m.d.comb += levels.take.eq(1)
                m.next = "RESTART"
                with m.If(idle):
                    m.next = "UPDATE"
        with m.State("RESTART"):
            self._command(m, Kind.RESTART, "RESTARTED")
        with m.State("RESTARTED"), m.If(command.ready):
            m.d.comb += self.update.eq(1)
            m.next = "UPDATE"
        with m.State("UPDATE"), m.If(~self.updating):
            m.d.comb += self.backpropagate.eq(1)
            m.next = "TAIL"
        with m.State("TAIL"), m.If(~self.tail_busy):
            m.d.comb += self.updated.eq(1)
            m.next = "CLASS"

    def _passes(self, m, sample, second, clear, draining):
        """Run a pass, or two, and hand over the logits."""
        with m.State("SEED"):
            # Whatever was broken off before.
            m.d.comb += clear.eq(~sample.train | sample.first)
            with m.If(~sample.train):
                m.next = "START"
            with m.Elif(sample.first):
                self._command(m, Kind.SEED, "PREPARE")
            with m.Else():
                m.next = "REWIND"
        with m.State("PREPARE"):
            m.d.comb += self.prepare.eq(1)
            m.next = "PREPARED"
        with m.State("PREPARED"), m.If(~self.tail_busy):
            m.next = "REWIND"
        with m.State("REWIND"):
            self._command(m, Kind.REWIND, "REWOUND")
        # The stage is ready for a command when it is done with the last one.
        with m.State("REWOUND"), m.If(self.o_command.ready):
            m.next = "START"
        with m.State("START"):
            m.d.comb += self.start.eq(1)
            m.next = "RUN"
        with m.State("RUN"), m.If(~self.busy):
            m.next = "LOGITS"
        with m.State("LOGITS"):
            m.d.comb += draining.eq(1)
            with m.If(self.i_logits.valid & self.i_logits.ready & self.i_logits.payload.last):
                m.d.sync += second.eq(1)
                m.next = "REWIND"
                with m.If(~sample.train):
                    m.next = "CLASS"
                with m.Elif(second):
                    m.next = "CLASS"
                    with m.If(sample.last):
                        m.next = "LEVEL" if self.config.levels > 1 else "SIGN"

    def _loss(self, m, sample, second, clear):
        """Give the logits to the loss; return it, and what enables that."""
        logits = self.i_logits
        m.submodules.loss_sign = loss = ResetInserter(clear)(LossSign(self.config.loss_sign))
        draining = Signal()
        exponent = Signal.like(self.exponent, reset_less=True)
        m.d.comb += self.exponent.eq(exponent)
        form = Fixed(EXPONENT_BITS, 0)
        fit, _ = saturate(m, exponent, form, "exponent")
        with m.If(self.start):
            m.d.sync += exponent.eq(sample.exponent + IMAGE_EXPONENT)
        with m.If(self.shifted):
            m.d.sync += exponent.eq(exponent + self.shift)
        m.d.comb += [
            logits.ready.eq(draining & loss.i.ready),
            loss.i.valid.eq(logits.valid & draining),
            loss.i.payload.logits.eq(logits.payload.values),
            loss.i.payload.count.eq(logits.payload.count),
            loss.i.payload.exponent.eq(fit),
            loss.i.payload.label.eq(sample.label),
            loss.i.payload.last.eq(logits.payload.last),
            loss.i.payload.batch_last.eq(sample.last & second),
        ]
        return loss, draining
