"""Activations in banks, from which any neighbouring numbers are read at once."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line
from seedbed.hw.parts.replicate import replicate
from seedbed.spec.engine import EngineConfig

__all__ = ["ActivationStore"]


class ActivationStore(wiring.Component):
    """Two buffers of ``plan.store_rows`` rows of ``lanes`` numbers, a bank per lane.

    A read gives the numbers from ``address`` on, one per lane, whatever the address is:
    every bank has a separate row address, and the output is rotated. With ``skew``, lanes read
    whole rows further on, as the plan's ``skews`` say. A write puts up to ``ways``
    numbers at any address, or ``config.fill`` at a multiple of as many.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    address, skew : In
        What to read, each cycle, and by which of the plan's ``skews``.
    lanes : Out(lanes x signed(number))
        What was asked for ``latency`` cycles before.
    write, target, count, values : In
        Writes the first ``count`` of ``values``; seen by reads of the next cycle on. What is read
        in the cycle that writes it is undefined.
    fill, filling : In
        With ``write``: take ``filling`` instead, all of it.
    """

    #: Stages of the rotation.
    STAGES = 3
    #: Cycles from an address to its lanes: a register, rows of the banks, memory, a register, the
    #: rotation.
    latency = 4 + STAGES

    def __init__(self, config: EngineConfig):
        self.config = config
        plan = config.plan
        self.address_width = self.width(config)
        number = signed(config.number)
        super().__init__(
            {
                "address": In(self.address_width),
                "skew": In(range(max(2, len(plan.skews)))),
                "lanes": Out(data.ArrayLayout(number, plan.lanes)),
                "write": In(1),
                "target": In(self.address_width),
                "count": In(range(plan.ways + 1)),
                "values": In(data.ArrayLayout(number, plan.ways)),
                "fill": In(1),
                "filling": In(data.ArrayLayout(number, config.fill)),
            }
        )

    @staticmethod
    def width(config: EngineConfig) -> int:
        """Return the bits of an address."""
        return (2 * config.plan.store_rows * config.plan.lanes - 1).bit_length()

    def elaborate(self, platform):
        m = Module()
        lanes = self.config.plan.lanes
        # Without the attribute, yosys adds logic that defines what a read of a row shows while it
        # is written.
        banks = [
            Memory(
                shape=self.lanes[0].shape(),
                depth=2 * self.config.plan.store_rows,
                init=[],
                attrs={"no_rw_check": True},
            )
            for _ in range(lanes)
        ]
        low = (lanes - 1).bit_length()
        # Addresses have long routes.
        addresses = replicate(m, self.address, lanes, "address")
        skews = replicate(m, self.skew, lanes, "skew")
        rotation = delay_line(m, addresses[0][:low], self.latency - 2, "rotation")
        level = []
        for b, (bank, address, skew) in enumerate(zip(banks, addresses, skews, strict=True)):
            m.submodules[f"bank_{b}"] = bank
            read = bank.read_port()
            row = Signal.like(read.addr, name=f"row_{b}", reset_less=True)
            shown = Signal(read.data.shape(), name=f"shown_{b}", reset_less=True)
            further = self._further(m, b, address[:low], skew)
            m.d.sync += [
                row.eq(address[low:] + further + self._next(address[:low], b)),
                shown.eq(read.data),
            ]
            m.d.comb += read.addr.eq(row)
            level.append(shown)
        self._write(m, low, banks)
        # Lane k shows the bank (rotation + k) mod lanes: by the rotation's high bits first.
        high = low
        for stage in range(self.STAGES):
            down = high - -(-high // (self.STAGES - stage))
            amounts = replicate(m, rotation[2 + stage][down:high], lanes, f"stage_{stage}")
            rotated = []
            for k, by in enumerate(amounts):
                kept = Signal(level[0].shape(), name=f"rotated_{stage}_{k}", reset_less=True)
                some = [level[(k + (n << down)) % lanes] for n in range(1 << (high - down))]
                m.d.sync += kept.eq(Array(some)[by])
                rotated.append(kept)
            level, high = rotated, down
        m.d.comb += [lane.eq(kept) for lane, kept in zip(self.lanes, level, strict=True)]
        return m

    def _further(self, m, b: int, rotation, skew) -> Signal:
        """Return the rows that bank ``b`` reads further on: the skew of the lane it is for."""
        lanes, skews = self.config.plan.lanes, self.config.plan.skews
        most = max(max(rows) for rows in skews)
        found = Signal(range(max(2, most + 1)), name=f"further_{b}")
        with m.Switch(skew):
            for number, rows in enumerate(skews[1:], start=1):
                with m.Case(number):
                    m.d.comb += found.eq(
                        Array(rows[(b - k) % lanes] for k in range(lanes))[rotation]
                    )
        return found

    def _next(self, place, b: int) -> Value:
        """Return whether what begins at a ``place`` of a row is in bank ``b`` a row further on."""
        return place > b if b < self.config.plan.lanes - 1 else Const(0, 1)

    def _write(self, m, low: int, banks):
        """Write numbers to banks, a cycle later: which ones, by their places from the target."""
        lanes, ways, fill = len(banks), len(self.values), self.config.fill
        # Numbers have long routes, too: they are written a cycle later.
        kept = {}
        for name in ("target", "values", "fill", "filling"):
            value = getattr(self, name)
            kept[name] = Signal.like(value, name=f"{name}_kept", reset_less=True)
            m.d.sync += kept[name].eq(value)
        at = kept["target"][:low]
        # Every group of as many banks gets the same numbers: it is a multiple of the values.
        width = (ways - 1).bit_length()
        values = Array(kept["values"])
        given = []
        for k, filling in enumerate(kept["filling"]):
            given.append(Signal(filling.shape(), name=f"given_{k}", reset_less=True))
            m.d.sync += given[k].eq(Mux(kept["fill"], filling, values[(k - at)[:width]]))
        # A write that meets a reset may still happen: it goes to where it was to go.
        names = ("write", "fill", "count", "target")
        control = data.StructLayout({name: len(getattr(self, name)) for name in names})
        copies = replicate(m, Cat(getattr(self, name) for name in names), lanes, "control")
        for b, (bank, copy) in enumerate(zip(banks, copies, strict=True)):
            port, here = bank.write_port(), data.View(control, copy)
            row, at = here.target[low:], here.target[:low]
            place = Signal(low, name=f"place_{b}")
            filled = at[(fill - 1).bit_length() :] == b // fill
            m.d.comb += [place.eq(b - at), port.data.eq(given[b % fill])]
            m.d.sync += [
                port.en.eq(here.write & Mux(here.fill, filled, place < here.count)),
                port.addr.eq(row + (~here.fill & self._next(at, b))),
            ]
