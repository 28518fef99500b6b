"""Takes commands and blocks of tokens, and says how a command ended."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.codes import codes
from seedbed.hw.stream.stream_layouts import (
    LABEL_BITS,
    POSITION_BITS,
    STATUS,
    TOKEN_BITS,
    header_layout,
    job_layout,
    status_layout,
    token_layout,
)
from seedbed.spec import STREAM_ENGINE_KINDS, StreamEngineConfig

__all__ = ["JobIntake"]

_KINDS = codes(STREAM_ENGINE_KINDS)


class JobIntake(wiring.Component):
    """Takes a command, has a program loaded, or has it walked for a block of tokens.

    Tokens are taken up to the last one. Then their number and each of them are compared with what
    the program allows, before anything is done.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    i, i_tokens, o_status : In(stream), In(stream), Out(stream)
        As of :class:`~seedbed.hw.stream.stream_engine.StreamEngine`.
    begins : Out(1)
        A pulse: a command is taken.
    load, address : Out
        A pulse: the program at this place is to be loaded.
    first, end : Out
        Where memory is written: the addresses that may be, from the first to that before the end.
    load_done, load_status, loaded, header : In
        A pulse: it was; how; whether there is a program; its header.
    run, ends : Out(1)
        With ``inputs``, a pulse: a command to run is taken; it ends when its vectors have come.
    walk, walked : Out(1), In(1)
        A pulse: the program is to be walked; it was.
    tune, tuned : Out(1), In(1)
        With ``tune``, a pulse with ``i``: kept weights are to be changed; they were.
    failed : In(1)
        The memory had an error since the command began.
    input_ended, input_wrong : In(1)
        With ``inputs``: the packet of vectors of the block has come whole; it had another number
        of beats.
    index, token, label : In, Out, Out
        A place in the block; the token there and, with ``classes``, its class, a cycle later.
    count, position : Out
        Tokens of the block; tokens before it.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        limits = {"first": Out(config.address_bits), "end": Out(config.address_bits + 1)}
        inputs = {"run": Out(1), "ends": Out(1), "input_ended": In(1), "input_wrong": In(1)}
        super().__init__(
            {
                "i": In(stream.Signature(job_layout(config))),
                "i_tokens": In(stream.Signature(token_layout(config))),
                "o_status": Out(stream.Signature(status_layout(config))),
                "begins": Out(1),
                "load": Out(1),
                "address": Out(config.address_bits),
                "load_done": In(1),
                "load_status": In(range(len(STATUS))),
                "loaded": In(1),
                "header": In(header_layout()),
                "walk": Out(1),
                "walked": In(1),
                "failed": In(1),
                "index": In(range(config.block)),
                "token": Out(TOKEN_BITS),
                "count": Out(range(config.block + 1)),
                "position": Out(POSITION_BITS),
                **(limits if config.writes else {}),
                **({"tune": Out(1), "tuned": In(1)} if config.tune else {}),
                **({"label": Out(LABEL_BITS)} if config.classes else {}),
                **(inputs if config.inputs else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, header = self.config, self.header
        m.submodules.tokens = tokens = memory.Memory(
            shape=TOKEN_BITS + LABEL_BITS * (config.classes > 0),
            depth=max(2, config.block),
            init=[],
        )
        write, read = tokens.write_port(), tokens.read_port()
        given = self.i_tokens
        fire = Signal()
        wrong = Signal()
        start = Signal()
        m.d.comb += [
            fire.eq(given.valid & given.ready),
            write.addr.eq(self.count),
            write.data.eq(
                Cat(given.payload.token, given.payload.label)
                if config.classes
                else given.payload.token
            ),
            write.en.eq(fire & (self.count != config.block)),
            read.addr.eq(self.index),
            self.token.eq(read.data),
            self.address.eq(self.i.payload.address),
        ]
        if config.classes:
            m.d.comb += self.label.eq(read.data[TOKEN_BITS:])
        with m.If(self.begins):
            m.d.sync += [self.count.eq(0), wrong.eq(0), start.eq(self.i.payload.start)]
        with m.Elif(fire):
            excess = self.count == header.block
            # The first token of all has no others before it.
            place = Mux(start, 0, self.position) + self.count
            with m.If(~excess):
                m.d.sync += self.count.eq(self.count + 1)
            with m.If(excess | (place >= header.context) | (given.payload.token >= header.tokens)):
                m.d.sync += wrong.eq(1)
        self._sequence(m, wrong, start)
        return m

    def _sequence(self, m, wrong, start) -> None:
        """Take a command and its tokens, have it done, and give its status."""
        config, out = self.config, self.o_status

        def end(status):
            m.d.sync += [out.valid.eq(1), out.payload.status.eq(status)]
            m.next = "STATUS"

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.i.ready.eq(1), self.begins.eq(self.i.valid)]
                with m.If(self.i.valid):
                    m.d.sync += out.payload.kind.eq(self.i.payload.kind)
                    m.next = "TOKENS"
                    with m.If(self.i.payload.kind == _KINDS["load"]):
                        m.d.comb += self.load.eq(1)
                        m.d.sync += self.position.eq(0)
                        if config.writes:
                            m.d.sync += [
                                self.first.eq(self.i.payload.first), self.end.eq(self.i.payload.end)
                            ]  # fmt: skip
                        m.next = "LOAD"
                    if config.tune:
                        self._tune(m, end)
                    if config.inputs:
                        m.d.comb += self.run.eq(self.i.payload.kind == _KINDS["run"])
            if config.tune:
                with m.State("TUNE"), m.If(self.tuned):
                    end(Mux(self.failed, STATUS["memory"], STATUS["ok"]))
            with m.State("LOAD"), m.If(self.load_done):
                end(Mux(self.failed, STATUS["memory"], self.load_status))
            self._block(m, end, wrong, start)
            with m.State("STATUS"), m.If(out.ready):
                m.d.sync += out.valid.eq(0)
                m.next = "IDLE"

    def _block(self, m, end, wrong, start) -> None:
        """Take the tokens of a block, and have the program walked, unless they are wrong."""
        config = self.config

        def end_block(status):
            """End a block, when its packet of vectors has come."""
            end(status)
            if config.inputs:
                m.d.sync += self.o_status.valid.eq(0)
                m.next = "INPUT"

        with m.State("TOKENS"):
            m.d.comb += self.i_tokens.ready.eq(1)
            with m.If(start):
                m.d.sync += self.position.eq(0)
            with m.If(self.i_tokens.valid & self.i_tokens.payload.last):
                m.next = "CHECK"
        with m.State("CHECK"):
            with m.If(~self.loaded):
                end_block(STATUS["missing"])
            with m.Elif(wrong):
                end_block(STATUS["tokens"])
            with m.Else():
                m.d.comb += self.walk.eq(1)
                m.next = "WALK"
        with m.State("WALK"), m.If(self.walked):
            failed, status = self.failed, STATUS["ok"]
            if config.inputs:
                failed = self.failed | self.input_wrong
                status = Mux(self.input_wrong, STATUS["tokens"], STATUS["ok"])
            end_block(Mux(self.failed, STATUS["memory"], status))
            with m.If(~failed):
                m.d.sync += self.position.eq(self.position + self.count)
        if config.inputs:
            with m.State("INPUT"):
                m.d.comb += self.ends.eq(1)
                with m.If(self.input_ended):
                    m.d.sync += self.o_status.valid.eq(1)
                    m.next = "STATUS"

    def _tune(self, m, end) -> None:
        """Have kept weights changed, where they may be written."""
        given = self.i.payload
        inside = (given.first >= self.first) & (given.end <= self.end)
        with m.If(given.kind == _KINDS["tune"]):
            with m.If(self.loaded & inside):
                m.d.comb += self.tune.eq(1)
                m.next = "TUNE"
            with m.Else():
                end(Mux(self.loaded, STATUS["damaged"], STATUS["missing"]))
