"""Cache of 4-bit activations in external memory: an entry an image, stored once, fetched often."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.bursts import Bursts, command_layout
from seedbed.hw.entry_mover import EntryMover, Part, codes_layout, read_layout, write_layout
from seedbed.spec import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS, ForwardCacheConfig

__all__ = ["ForwardCache", "answer_layout", "request_layout", "response_layout"]

_FETCH, _STORE, _CLEAR = range(len(FORWARD_CACHE_KINDS))
_DONE, _MISS, _RANGE, _MEMORY, _FRAME = range(len(FORWARD_CACHE_STATUS))


def request_layout() -> data.StructLayout:
    """Return the layout of a request, see :class:`ForwardCache`."""
    return data.StructLayout({"index": 16, "kind": 2})


def answer_layout() -> data.StructLayout:
    """Return the layout of an answer, see :class:`ForwardCache`."""
    return data.StructLayout({"status": 3})


def response_layout() -> data.StructLayout:
    """Return the layout of an answer to a burst that was written, see :class:`ForwardCache`."""
    return data.StructLayout({"error": 1})


class ForwardCache(wiring.Component):
    """Keeps what a frozen network makes of each image, and knows of which images it does.

    An entry is the codes of an image's vectors and a peak for each of their blocks, laid out in
    memory as :class:`~seedbed.spec.ForwardCacheConfig` says. One request runs at a time. A fetch
    reads an entry from its first beat to its last, peaks first, so that each beat of codes leaves
    with its peak; a store writes the codes as they come, and the peaks, which are then known,
    behind them. One bit an entry says whether it is a hit. The bits are cleared after reset, one a
    cycle, and requests wait for that.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ForwardCacheConfig`.

    Members
    -------
    i : In(stream of struct)
        ``index`` (16 bits) and ``kind`` (by its place in
        :data:`~seedbed.spec.FORWARD_CACHE_KINDS`: fetch, store, or clear, which forgets all
        entries and does not look at the index).
    i_codes : In(stream of struct)
        A frame a store, whatever becomes of it: ``codes`` (store_lanes x 4 bits), ``peak`` of their
        block (peak_width bits; that of the block's last beat counts), ``last`` with the entry's
        final beat. Each vector is filled up to a whole beat of memory.
    o_codes : Out(stream of struct)
        A frame a fetch that hits: ``codes`` (fetch_lanes x 4 bits), ``peak``, ``last``.
    o : Out(stream of struct)
        ``status``, one a request, once it is over.
    o_command : Out(stream of struct)
        A burst: ``address`` (of its first beat, in beats), ``write``, ``length`` (beats - 1).
    o_write : Out(stream of struct)
        ``data`` (beat_bits bits) and ``last`` (of a burst), in the order of the commands, be it
        before or behind their transfer.
    i_response : In(stream of struct)
        ``error``, one a burst that was written.
    i_read : In(stream of struct)
        ``data``, ``error`` and ``last`` (of a burst), in the order of the commands.

    Errors: ``status`` says how a request ended, by its place in
    :data:`~seedbed.spec.FORWARD_CACHE_STATUS`; after each of them the next request is taken.
    ``miss``: the entry was not stored since the last clear or reset; nothing is read. ``range``:
    there is no such index or kind; a store's frame is dropped. ``frame``: a store's ``last`` came
    too early, and its burst was filled up with zeros, or was missing, and beats were dropped until
    it came. ``memory``: it answered an error, a burst of another length, nothing for
    ``timeout_cycles``, or more than it was asked for since the last request or ``clear``; a
    fetch's beats have all been given, but mean nothing. A store that does not end with ``done``
    leaves no hit.

    After a burst of another length, and after a reset, which may cut a burst that is read, what
    memory still gives is discarded until nothing has come for ``drain_cycles``. A burst that is
    written must not be cut: memory is to be reset together with the core, or while no store runs.

    Latency: ``latency`` cycles from a request to its first command, ``miss_latency`` to the answer
    of a miss, 1 from a beat of memory to codes and back. Throughput: a beat of codes every cycle,
    or of memory, whichever is narrower.
    Source: InstantFT, sections 3.1 and 4.1.
    """

    interval = 1
    latency = 4
    miss_latency = 3

    def __init__(self, config: ForwardCacheConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(request_layout())),
                "i_codes": In(stream.Signature(codes_layout(config, config.store_lanes))),
                "o_codes": Out(stream.Signature(codes_layout(config, config.fetch_lanes))),
                "o": Out(stream.Signature(answer_layout())),
                "o_command": Out(stream.Signature(command_layout(config))),
                "o_write": Out(stream.Signature(write_layout(config))),
                "i_response": In(stream.Signature(response_layout())),
                "i_read": In(stream.Signature(read_layout(config))),
            }
        )
        self._mover = EntryMover(config)
        self._bursts = Bursts(config)
        # A memory of one row would have no address.
        self._hits = memory.Memory(shape=1, depth=max(2, config.entries), init=[])

    def elaborate(self, platform):
        m = Module()
        m.submodules.mover = mover = self._mover
        m.submodules.bursts = bursts = self._bursts
        m.submodules.hits = self._hits
        config, request = self.config, self.i
        response, read = self.i_response, self.i_read
        known, hit = self._hits.write_port(), self._hits.read_port()
        index = Signal(16)
        kind = Signal(2, reset_less=True)
        status = Signal(3)
        stores = Signal()
        waits = Signal()
        recovers = Signal()
        listens = Signal()
        beyond = Signal(reset_less=True)
        refused = Signal()
        found = Signal(reset_less=True)
        begins = Signal()
        over = Signal()
        # Bursts of a store that have no answer yet.
        most = config.most_bursts(config.code_beats) + config.most_bursts(config.peak_beats)
        awaited = Signal(range(most + 1))
        asked = Signal()
        answered = Signal()
        # Bursts of a fetch whose last beat has not come.
        reads = Signal(range(config.most_bursts(config.beats) + 1))
        commanded = Signal()
        read_last = Signal()
        # A beat or an answer that nothing was asked for: of this request, or before the next one.
        stray = Signal()
        dirty = Signal()
        distrusts = Signal()
        # Cycles since the memory's ports were last active, while it is waited for.
        silence = Signal(range(config.timeout_cycles + 1))
        active = Signal()
        silent = Signal()
        timed_out = Signal()
        wiring.connect(m, wiring.flipped(self.i_codes), mover.i_codes)
        wiring.connect(m, wiring.flipped(self.i_read), mover.i_read)
        wiring.connect(m, mover.o_codes, wiring.flipped(self.o_codes))
        wiring.connect(m, mover.o_write, wiring.flipped(self.o_write))
        wiring.connect(m, bursts.o, wiring.flipped(self.o_command))
        m.d.comb += [
            stores.eq(kind == _STORE),
            hit.addr.eq(request.payload.index),
            hit.en.eq(request.valid & request.ready),
            known.addr.eq(index),
            bursts.start.eq(begins),
            bursts.index.eq(index),
            bursts.write.eq(stores),
            mover.column.eq(bursts.column),
            asked.eq(bursts.o.valid & bursts.o.ready & stores),
            commanded.eq(bursts.o.valid & bursts.o.ready & ~stores),
            response.ready.eq(1),
            answered.eq(response.valid & (awaited != 0)),
            read_last.eq(read.valid & read.ready & read.payload.last & (reads != 0)),
            mover.outstanding.eq(reads != 0),
            stray.eq((response.valid & (awaited == 0)) | (read.valid & read.ready & (reads == 0))),
            over.eq(mover.idle & ~bursts.busy & (awaited == 0)),
            self.o.payload.status.eq(status),
            active.eq(bursts.busy | mover.o_write.valid | response.valid | read.valid),
            silent.eq(silence >= config.drain_cycles),
            timed_out.eq(silence == config.timeout_cycles),
            mover.abandon.eq(timed_out),
        ]
        m.d.sync += [
            awaited.eq(awaited + asked - answered),
            reads.eq(reads + commanded - read_last),
        ]
        with m.If(active | ~read.ready | ~listens):
            m.d.sync += silence.eq(0)
        with m.Elif(~timed_out):
            m.d.sync += silence.eq(silence + 1)
        failed = mover.fault | stray | timed_out | (answered & response.payload.error)
        # A broken frame counts for more: it is the sender's own fault.
        with m.If(mover.broken):
            m.d.sync += status.eq(_FRAME)
        with m.Elif(waits & failed & (status == _DONE)):
            m.d.sync += status.eq(_MEMORY)
        with m.If(stray & waits):
            m.d.sync += dirty.eq(1)
        with m.If(stray & ~waits & ~recovers):
            m.d.sync += distrusts.eq(1)
        with m.FSM() as control:
            m.d.comb += [
                waits.eq(control.ongoing("CODES") | control.ongoing("LAST")),
                recovers.eq(
                    Cat(control.ongoing(state) for state in ("RESET", "SETTLE", "DRAIN")).any()
                ),
                listens.eq(recovers | (control.ongoing("LAST") & ((reads != 0) | (awaited != 0)))),
            ]
            for state in ("RESET", "CLEAR"):
                with m.State(state):
                    m.d.comb += known.en.eq(1)
                    m.d.sync += index.eq(index + 1)
                    with m.If(index == config.entries - 1):
                        m.next = "SETTLE" if state == "RESET" else "ANSWER"
            # What was under way before the reset comes to its end.
            with m.State("SETTLE"), m.If(silent):
                m.next = "IDLE"
            with m.State("IDLE"):
                m.d.comb += request.ready.eq(1)
                m.d.sync += [
                    index.eq(Mux(request.payload.kind == _CLEAR, 0, request.payload.index)),
                    kind.eq(request.payload.kind),
                    status.eq(_DONE),
                ]
                with m.If(request.valid):
                    m.next = "SEEK"
                    with m.If(request.payload.kind == _CLEAR):
                        m.d.sync += distrusts.eq(0)
                        m.next = "CLEAR"
            with m.State("SEEK"):
                # A block memory is slow to show what it holds: nothing is decided from it directly.
                m.d.sync += [
                    found.eq(hit.data),
                    beyond.eq((index >= config.entries) | (kind > _CLEAR)),
                ]
                m.next = "LOOK"
            with m.State("LOOK"):
                m.d.comb += [
                    refused.eq(beyond | distrusts),
                    begins.eq(~refused & (stores | found)),
                ]
                with m.If(beyond):
                    m.d.sync += status.eq(_RANGE)
                with m.Elif(distrusts):
                    m.d.sync += [status.eq(_MEMORY), distrusts.eq(0), dirty.eq(1)]
                with m.Elif(~begins):
                    m.d.sync += status.eq(_MISS)
                with m.If(stores):
                    # Whatever was stored there is lost now.
                    m.d.comb += [
                        known.en.eq(~beyond),
                        mover.start.eq(1),
                        mover.part.eq(Mux(refused, Part.DROP, Part.CODES)),
                        bursts.skip.eq(config.peak_beats),
                        bursts.rest.eq(config.code_beats - 1),
                    ]
                    m.next = "CODES"
                    with m.If(refused):
                        m.next = "LAST"
                with m.Else():
                    m.d.comb += [
                        mover.start.eq(begins),
                        mover.part.eq(Part.FETCH),
                        bursts.rest.eq(config.beats - 1),
                    ]
                    m.next = "ANSWER"
                    with m.If(begins | (refused & ~beyond)):
                        m.next = "LAST"
            # The commands for codes may still wait, and those for peaks come behind them.
            with m.State("CODES"), m.If(mover.idle & ~bursts.busy):
                m.next = "LAST"
                with m.If(status != _FRAME):
                    m.d.comb += [
                        begins.eq(1),
                        mover.start.eq(1),
                        mover.part.eq(Part.PEAKS),
                        bursts.rest.eq(config.peak_beats - 1),
                    ]
            with m.State("LAST"):
                with m.If(timed_out):
                    m.d.sync += awaited.eq(0)
                with m.If(over & (~timed_out | (status != _DONE))):
                    m.d.comb += [known.en.eq(stores & (status == _DONE)), known.data.eq(1)]
                    m.next = "ANSWER"
                    with m.If(dirty | mover.lost):
                        m.next = "DRAIN"
            with m.State("DRAIN"), m.If(silent & ((reads == 0) | timed_out)):
                m.d.sync += [dirty.eq(0), reads.eq(0)]
                m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m
