"""Trains a network's last layers by backpropagation: what the zeroth-order trainer leaves."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.output_queue import shift_members
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.engine.pipeline_ports import word_write_layout
from seedbed.hw.engine.sample_intake import label_shape
from seedbed.hw.tail.bp_tail import BpTail
from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.loss_sign import EXPONENT_BITS
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["TrainTail"]


class TrainTail(wiring.Component):
    """Takes what a pass outputs, and updates the tail's rows after a batch.

    A word of the memory is read, changed and written. Before a batch, the last layer's weights are
    read, where the error of the layer before needs them.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`, with a tail.

    Members
    -------
    clear : In(1)
        What there is of a batch is dropped.
    prepare, update : In(1)
        Pulses, before a batch and after it; ``bits`` are those of an update.
    busy : Out(1)
        Until that is done.
    i_tap : In(stream of struct)
        Outputs of the inference pipeline. Those that are not taken are ignored: the stream waits
        only while the sample before is worked on.
    taken, exponent, label : In
        Whether the outputs are of a pass to train on; their exponent; the sample's label.
    i_words : In(stream of struct)
        From the read-out of rows.
    read, first : Out
        To the read-out: a pulse, and the first row.
    row, pair : In
        Of it: where the word is from.
    write, word : Out
        A word is written, see ``word_write`` of the inference pipeline; the word, with it.
    """

    def __init__(self, config: ZoTrainerConfig):
        self.config = config
        engine = config.engine
        write = word_write_layout(engine)
        super().__init__(
            {
                "clear": In(1),
                "prepare": In(1),
                "update": In(1),
                "bits": In(3),
                "busy": Out(1),
                "i_tap": In(shift_members(engine)["o_tap"].signature),
                "taken": In(1),
                "exponent": In(signed(EXPONENT_BITS)),
                "label": In(label_shape(config)),
                "i_words": In(stream.Signature(words_layout(engine))),
                "read": Out(1),
                "first": Out(write["row"].shape),
                "row": In(write["row"].shape),
                "pair": In(write["pair"].shape),
                "write": Out(write),
                "word": Out(data.ArrayLayout(signed(8), 2)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, words = self.config, self.i_words
        m.submodules.tail = tail = ResetInserter(self.clear)(BpTail(config.bp_tail))
        self._take(m, tail)
        changed = [
            self._changed(m, word, update, k)
            for k, (word, update) in enumerate(
                zip(words.payload.word, tail.o.payload.values, strict=True)
            )
        ]
        m.d.comb += [
            tail.i_update.payload.bits.eq(self.bits),
            self.write.row.eq(self.row),
            self.write.pair.eq(self.pair),
            *(to.eq(value) for to, value in zip(self.word, changed, strict=True)),
        ]
        with m.FSM() as machine:
            m.d.comb += self.busy.eq(~machine.ongoing("IDLE"))
            with m.State("IDLE"):
                if config.tail > 1:
                    with m.If(self.prepare):
                        self._read(m, config.last_row, "WEIGHTS")
                with m.If(self.update):
                    m.next = "COMMAND"
            with m.State("COMMAND"):
                m.d.comb += tail.i_update.valid.eq(1)
                with m.If(tail.i_update.ready):
                    self._read(m, config.tail_rows.start, "UPDATE")
            with m.State("UPDATE"):
                # One word a transfer, of both: each waits for the other.
                m.d.comb += [
                    words.ready.eq(tail.o.valid),
                    tail.o.ready.eq(words.valid),
                    self.write.write.eq(words.valid & tail.o.valid),
                ]
                with m.If(words.valid & words.ready & words.payload.last):
                    m.next = "IDLE"
            if config.tail > 1:
                with m.State("WEIGHTS"):
                    m.d.comb += [
                        words.ready.eq(tail.i_weights.ready),
                        tail.i_weights.valid.eq(words.valid),
                        tail.i_weights.payload.last.eq(words.payload.last),
                        *(
                            to.eq(word)
                            for to, word in zip(
                                tail.i_weights.payload.values, words.payload.word, strict=True
                            )
                        ),
                    ]
                    with m.If(words.valid & words.ready & words.payload.last):
                        m.next = "IDLE"
        return m

    def _read(self, m, first: int, then: str):
        """Begin to read rows out, in this state."""
        m.d.comb += [self.read.eq(1), self.first.eq(first)]
        m.next = then

    def _take(self, m, tail):
        """Take the outputs of the layer before the tail, and of the tail."""
        tap, given = self.i_tap, tail.i
        taken = self.taken & (tap.payload.step >= self.config.partition - 1)
        m.d.comb += [
            tap.ready.eq(given.ready | ~taken),
            given.valid.eq(tap.valid & taken),
            given.payload.values.eq(tap.payload.values),
            given.payload.exponent.eq(self.exponent),
            given.payload.label.eq(self.label),
            given.payload.last.eq(tap.payload.last),
        ]

    def _changed(self, m, word, update, k: int) -> Signal:
        """Return a weight less its update, saturated."""
        total = Signal(signed(9), name=f"total_{k}")
        value = Signal(signed(8), name=f"value_{k}")
        m.d.comb += [
            total.eq(word - update),
            value.eq(Mux(total > LIMIT, LIMIT, Mux(total < -LIMIT, -LIMIT, total))),
        ]
        return value
