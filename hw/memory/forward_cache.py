"""Cache of 4-bit activations in external memory: an entry an image, stored once, fetched often."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.burst_monitor import BurstMonitor
from seedbed.hw.memory.bursts import Bursts
from seedbed.hw.memory.entry_converter import EntryConverter
from seedbed.hw.memory.forward_cache_layouts import (
    Part,
    answer_layout,
    codes_layout,
    request_layout,
)
from seedbed.hw.memory.memory_port import user_members
from seedbed.hw.parts.codes import codes
from seedbed.spec import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS, ForwardCacheConfig

__all__ = ["ForwardCache"]

_KINDS, _STATUS = codes(FORWARD_CACHE_KINDS), codes(FORWARD_CACHE_STATUS)


class _Job:
    """Signals of the request that is served, which its states share."""

    def __init__(self, hits: memory.Memory):
        self.hit, self.known = hits.read_port(), hits.write_port()
        self.index = Signal(16)
        self.kind = Signal(2, reset_less=True)
        self.status = Signal(3)
        self.stores = Signal()
        self.begins = Signal()
        # A request is being served; and nothing is served while memory settles.
        self.serving = Signal()
        self.settling = Signal()
        self.out_of_range = Signal(reset_less=True)
        # Whether its entry is stored.
        self.found = Signal(reset_less=True)
        # A beat or a response belongs to no burst: during this request, or before the next one.
        self.dirty = Signal()
        self.memory_error = Signal()


class ForwardCache(wiring.Component):
    """Keeps what a frozen network makes of each image, and knows of which images it does.

    An entry is the codes of an image's vectors and a peak for each of their blocks, laid out in
    memory as :class:`~seedbed.spec.ForwardCacheConfig` says. One request runs at a time. A fetch
    reads an entry from its first beat to its last, peaks first, so that each beat of codes leaves
    with its peak; a store writes the codes as they come, and the peaks, which are then known,
    after them. One bit an entry says whether it is a hit. The bits are cleared after reset, one a
    cycle, and requests wait for that.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ForwardCacheConfig`.

    Members
    -------
    i : In(stream of struct)
        requests
        index (16 bits) : cache entry. A clear does not look at it.
        kind : 0 fetch, 1 store, 2 clear. Index of :data:`~seedbed.spec.FORWARD_CACHE_KINDS`. A
            clear forgets all entries.
    i_codes : In(stream of struct)
        codes to store, one frame per store. A frame is taken whatever becomes of the store. Each
        vector is filled up to a whole beat of memory.
        codes (store_lanes x 4 bits) : codes to store
        peak (peak_width bits) : peak of the block; valid in the last beat of the block
        last : last beat of the frame
    o_codes : Out(stream of struct)
        fetched codes, one frame per hit
        codes (fetch_lanes x 4 bits) : stored codes
        peak : peak of the block
        last : last beat of the frame
    o : Out(stream of struct)
        responses, one per request, in order
        status : 0 done, 1 miss, 2 range error, 3 memory error, 4 frame error
    o_command : Out(stream of struct)
        memory burst command
        address : address of the first beat, in beats
        write : 1: write burst; 0: read burst
        length : beats of the burst, minus 1
    o_write : Out(stream of struct)
        write data. It is in the order of the commands, before or after their transfer.
        data (beat_bits bits) : write data of the beat
        last : last beat of the burst
    i_response : In(stream of struct)
        write responses, one per write burst
        error : 1: the burst failed
    i_read : In(stream of struct)
        read data. It is in the order of the commands.
        data : read data of the beat
        error : 1: the data is invalid
        last : last beat of the burst

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

    Latency: ``latency`` cycles from request to first memory command, ``miss_latency`` to the status
    of a miss. It takes 1 cycle from a beat of memory to codes and back.
    Throughput: 1 beat of codes per cycle, limited by the memory. The narrower of codes and memory
    counts.
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
                **user_members(config.address_bits, config.beat_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.converter = converter = EntryConverter(self.config)
        m.submodules.bursts = bursts = Bursts(self.config)
        m.submodules.monitor = monitor = BurstMonitor(self.config)
        # A memory of one row would have no address.
        m.submodules.hits = hits = memory.Memory(
            shape=1, depth=max(2, self.config.entries), init=[]
        )
        job = _Job(hits)
        self._connect(m, job, converter, bursts, monitor)
        self._judge(m, job, converter, monitor)
        with m.FSM() as control:
            self._mark(m, job, control, monitor)
            self._clear_states(m, job, monitor)
            self._request_states(m, job, converter, bursts)
            self._transfer_states(m, job, converter, bursts, monitor)
        return m

    def _connect(self, m, job, converter, bursts, monitor):
        """Connect the parts to the ports, and to one another."""
        read, response, flipped = self.i_read, self.i_response, wiring.flipped
        wiring.connect(m, flipped(self.i_codes), converter.i_codes)
        wiring.connect(m, flipped(self.i_read), converter.i_read)
        wiring.connect(m, converter.o_codes, flipped(self.o_codes))
        wiring.connect(m, converter.o_write, flipped(self.o_write))
        wiring.connect(m, bursts.o, flipped(self.o_command))
        command = bursts.o.valid & bursts.o.ready
        ports = bursts.busy | converter.o_write.valid | response.valid | read.valid
        m.d.comb += [
            job.stores.eq(job.kind == _KINDS["store"]),
            job.hit.addr.eq(self.i.payload.index),
            job.hit.en.eq(self.i.valid & self.i.ready),
            job.known.addr.eq(job.index),
            bursts.start.eq(job.begins),
            bursts.index.eq(job.index),
            bursts.write.eq(job.stores),
            converter.column.eq(bursts.column),
            converter.outstanding.eq(monitor.reads != 0),
            converter.abandon.eq(monitor.timed_out),
            response.ready.eq(1),
            monitor.write_command.eq(command & job.stores),
            monitor.read_command.eq(command & ~job.stores),
            monitor.response.eq(response.valid),
            monitor.read.eq(read.valid & read.ready),
            monitor.read_last.eq(read.payload.last),
            monitor.active.eq(ports | ~read.ready),
            self.o.payload.status.eq(job.status),
        ]

    def _judge(self, m, job, converter, monitor):
        """Say what went wrong with a request."""
        error = monitor.answered & self.i_response.payload.error
        failed = converter.fault | monitor.stray | monitor.timed_out | error
        # A broken frame counts for more: it is the sender's own fault.
        with m.If(converter.broken):
            m.d.sync += job.status.eq(_STATUS["frame"])
        with m.Elif(job.serving & failed & (job.status == _STATUS["done"])):
            m.d.sync += job.status.eq(_STATUS["memory"])
        with m.If(monitor.stray & job.serving):
            m.d.sync += job.dirty.eq(1)
        with m.If(monitor.stray & ~job.serving & ~job.settling):
            m.d.sync += job.memory_error.eq(1)

    def _mark(self, m, job, control, monitor):
        """Say what the states mean for memory."""
        outstanding = (monitor.reads != 0) | (monitor.writes != 0)
        settling = [control.ongoing(state) for state in ("RESET", "SETTLE", "DRAIN")]
        m.d.comb += [
            job.serving.eq(control.ongoing("CODES") | control.ongoing("LAST")),
            job.settling.eq(Cat(settling).any()),
            monitor.listen.eq(job.settling | (control.ongoing("LAST") & outstanding)),
        ]

    def _clear_states(self, m, job, monitor):
        """Forget all entries, after a reset or on request."""
        for state in ("RESET", "CLEAR"):
            with m.State(state):
                m.d.comb += job.known.en.eq(1)
                m.d.sync += job.index.eq(job.index + 1)
                with m.If(job.index == self.config.entries - 1):
                    m.next = "SETTLE" if state == "RESET" else "ANSWER"
        # What was under way before the reset comes to its end.
        with m.State("SETTLE"), m.If(monitor.silent):
            m.next = "IDLE"

    def _request_states(self, m, job, converter, bursts):
        """Take a request, look its entry up, and begin, or refuse."""
        config, request = self.config, self.i
        clears = request.payload.kind == _KINDS["clear"]
        stores, out_of_range, memory_error = job.stores, job.out_of_range, job.memory_error
        with m.State("IDLE"):
            m.d.comb += request.ready.eq(1)
            m.d.sync += [
                job.index.eq(Mux(clears, 0, request.payload.index)),
                job.kind.eq(request.payload.kind),
                job.status.eq(_STATUS["done"]),
            ]
            with m.If(request.valid):
                m.next = "SEEK"
                with m.If(clears):
                    m.d.sync += memory_error.eq(0)
                    m.next = "CLEAR"
        with m.State("SEEK"):
            # A block memory is slow to show what it holds: nothing is decided from it directly.
            m.d.sync += [
                job.found.eq(job.hit.data),
                out_of_range.eq((job.index >= config.entries) | (job.kind > _KINDS["clear"])),
            ]
            m.next = "LOOK"
        refused = Signal()
        m.d.comb += refused.eq(out_of_range | memory_error)
        with m.State("LOOK"):
            m.d.comb += job.begins.eq(~refused & (stores | job.found))
            with m.If(out_of_range):
                m.d.sync += job.status.eq(_STATUS["range"])
            with m.Elif(memory_error):
                m.d.sync += job.status.eq(_STATUS["memory"])
                m.d.sync += [memory_error.eq(0), job.dirty.eq(1)]
            with m.Elif(~job.begins):
                m.d.sync += job.status.eq(_STATUS["miss"])
            with m.If(stores):
                # Whatever was stored there is lost now.
                m.d.comb += [
                    job.known.en.eq(~out_of_range),
                    converter.start.eq(1),
                    converter.part.eq(Mux(refused, Part.DROP, Part.CODES)),
                    bursts.skip.eq(config.peak_beats),
                    bursts.rest.eq(config.code_beats - 1),
                ]
                m.next = "CODES"
                with m.If(refused):
                    m.next = "LAST"
            with m.Else():
                m.d.comb += [
                    converter.start.eq(job.begins),
                    converter.part.eq(Part.FETCH),
                    bursts.rest.eq(config.beats - 1),
                ]
                m.next = "ANSWER"
                with m.If(job.begins | (refused & ~out_of_range)):
                    m.next = "LAST"

    def _transfer_states(self, m, job, converter, bursts, monitor):
        """See a request to its end, and answer it."""
        config, timed_out, drained = self.config, monitor.timed_out, Signal()
        over = Signal()
        m.d.comb += [
            over.eq(converter.idle & ~bursts.busy & (monitor.writes == 0)),
            drained.eq(monitor.silent & ((monitor.reads == 0) | timed_out)),
        ]
        # The commands for codes may still wait, and those for peaks come after them.
        with m.State("CODES"), m.If(converter.idle & ~bursts.busy):
            m.next = "LAST"
            with m.If(job.status != _STATUS["frame"]):
                m.d.comb += [
                    job.begins.eq(1),
                    converter.start.eq(1),
                    converter.part.eq(Part.PEAKS),
                    bursts.rest.eq(config.peak_beats - 1),
                ]
        with m.State("LAST"):
            m.d.comb += monitor.clear_writes.eq(timed_out)
            with m.If(over & (~timed_out | (job.status != _STATUS["done"]))):
                m.d.comb += [
                    job.known.en.eq(job.stores & (job.status == _STATUS["done"])),
                    job.known.data.eq(1),
                ]
                m.next = "ANSWER"
                with m.If(job.dirty | converter.lost):
                    m.next = "DRAIN"
        with m.State("DRAIN"), m.If(drained):
            m.d.comb += monitor.clear_reads.eq(1)
            m.d.sync += job.dirty.eq(0)
            m.next = "ANSWER"
        with m.State("ANSWER"):
            m.d.comb += self.o.valid.eq(1)
            with m.If(self.o.ready):
                m.next = "IDLE"
