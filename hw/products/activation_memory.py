"""Memory of vectors of activations, written in small groups and read a beat at a time."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.products.gemv_layouts import totals_layout, vector_layout
from seedbed.spec import GemvConfig

__all__ = ["ActivationMemory"]


class ActivationMemory(wiring.Component):
    """Keeps each x so that row t holds the activations of beat t of a matrix's row.

    A vector is stored for beats of ``lanes`` activations or, if ``plain``, of ``plain_lanes``. The
    lanes of the latter so need no multiplexer, but a memory that is as many times deeper. What is
    not given of the last row is written as 0. With ``ahead``, there are two such memories: one is
    written while the other is read.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`.

    Members
    -------
    start, columns, plain : In
        A pulse, and with it how many activations will come and which beats they are for.
    reads, writes : In(1)
        With ``ahead``, the half that is read, and that which is written.
    i : In(stream of struct)
        ``lanes`` (group x signed(activation_width); of several vectors, a group of each), with the
        decode ``groups`` their ``totals``, and ``last``. Activations beyond the columns are not
        read. Taken after ``start`` until all have come.
    done, fault : Out(1)
        Pulses: all is written, and ``o`` shows what was; ``last`` was missing or came early. One
        of them ends the load.
    last_row : Out
        The row that holds the last activation.
    row : In
        Which row ``o`` shows in the next cycle. Nothing is read in a cycle that writes the same
        half.
    o : Out(array of vectors * lanes x signed(activation_width))
        The row, vector by vector.
    totals : Out(array)
        With the decode ``groups``: sums of each 32 activations of the row, as they were given,
        vector by vector. They are undefined beyond the group that has the last activation.
    """

    def __init__(self, config: GemvConfig):
        self.config = config
        shape = signed(config.activation_width)
        groups = config.lanes // config.group
        few = config.plain_lanes if config.mixed else config.lanes
        self._few_groups = few // config.group
        # By group. A memory of one row would have no address.
        self._depths = [
            max(2, -(-config.columns // (few if g < self._few_groups else config.lanes)))
            for g in range(groups)
        ]
        row = range(self._depths[0])
        super().__init__(
            {
                "start": In(1),
                "columns": In(range(config.columns + 1)),
                "plain": In(1),
                "i": In(stream.Signature(vector_layout(config))),
                "done": Out(1),
                "fault": Out(1),
                "last_row": Out(row),
                "row": In(row),
                "o": Out(data.ArrayLayout(shape, config.vectors * config.lanes)),
            }
            | ({"reads": In(1), "writes": In(1)} if config.ahead else {})
            | (
                {"totals": Out(totals_layout(config, config.lanes))}
                if config.decode == "groups"
                else {}
            )
        )

    def elaborate(self, platform):
        m = Module()
        config, groups = self.config, len(self._depths)
        loading = Signal()
        padding = Signal()
        left = Signal.like(self.columns)
        # The group that is written next, one bit each, and its row.
        place = Signal(groups, init=1)
        row = Signal.like(self.last_row)
        fire = Signal()
        ends = Signal()
        full = Signal()
        whole = Signal()
        m.d.comb += [
            self.i.ready.eq(loading),
            fire.eq(self.i.valid & loading),
            ends.eq(left <= config.group),
            full.eq(Mux(self.plain, place[self._few_groups - 1], place[-1])),
            self.fault.eq(fire & (self.i.payload.last != ends)),
            whole.eq((padding | (fire & ends & self.i.payload.last)) & full),
        ]
        m.d.sync += self.done.eq(whole & ~self.start)
        write = Signal(groups)
        at = Signal.like(row)
        shape = data.ArrayLayout(signed(config.activation_width), config.vectors * config.group)
        given, lanes = data.View(shape, self.i.payload.lanes), Signal(shape, reset_less=True)
        m.d.sync += [write.eq(Mux(fire | padding, place, 0)), at.eq(row)]
        m.d.sync += lanes.eq(given)
        for j, lane in enumerate(lanes):
            with m.If(padding | (left <= j % config.group)):
                m.d.sync += lane.eq(0)
        with m.If(fire | padding):
            m.d.sync += [
                left.eq(left - config.group),
                place.eq(Mux(full, 1, place << 1)),
                row.eq(row + full),
            ]
        with m.If(whole):
            m.d.sync += self.last_row.eq(row)
        with m.If(self.start):
            m.d.sync += [left.eq(self.columns), place.eq(1), row.eq(0)]
        with m.If(self.start | whole | self.fault):
            m.d.sync += [loading.eq(self.start), padding.eq(0)]
        with m.Elif(fire & ends):
            m.d.sync += [loading.eq(0), padding.eq(1)]
        self._banks(m, write, at, "bank", lanes, self.o)
        if config.decode == "groups":
            totals = Signal.like(self.i.payload.totals, name="given_totals", reset_less=True)
            m.d.sync += totals.eq(self.i.payload.totals)
            self._banks(m, write, at, "totals", totals, self.totals)
        return m

    def _banks(self, m, write: Signal, at: Signal, name: str, lanes: data.View, to) -> None:
        """A memory for each group, read by all at once."""
        written, read_row, keeps = at, self.row, write.any()
        if self.config.ahead:
            written, read_row = Cat(at, self.writes), Cat(self.row, self.reads)
            keeps &= self.writes == self.reads
        for g, depth in enumerate(self._depths):
            if self.config.ahead:
                depth = 2 << len(at)
            m.submodules[f"{name}_{g}"] = bank = memory.Memory(
                shape=lanes.shape(), depth=depth, init=[], attrs={"no_rw_check": True}
            )
            port, read = bank.write_port(), bank.read_port()
            m.d.comb += [
                port.addr.eq(written),
                port.en.eq(write[g]),
                port.data.eq(lanes),
                read.addr.eq(read_row),
                # Never together with a write: what a memory shows then differs by family.
                read.en.eq(~keeps),
            ]
            count, all_lanes = (len(each) // self.config.vectors for each in (lanes, to))
            for j, value in enumerate(read.data):
                vector, lane = divmod(j, count)
                m.d.comb += to[vector * all_lanes + g * count + lane].eq(value)
