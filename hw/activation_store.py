"""Activations in banks, from which any neighbouring numbers are read at once."""

from itertools import pairwise

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.spec.engine import EngineConfig

__all__ = ["ActivationStore"]


class ActivationStore(wiring.Component):
    """Two halves of ``plan.store_rows`` rows of ``lanes`` numbers, a bank a lane.

    A read gives the numbers at ``address`` and behind it, one a lane, wherever the address is:
    every bank has a row of its own, and what comes out is rotated. With ``spread``, lanes read
    whole rows further on, as the plan's step of that number says. A write puts up to ``ways``
    numbers at any address, or ``config.fill`` at a multiple of as many.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    address, spread : In
        What to read, each cycle, and by which of the plan's ``spreads``.
    lanes : Out(lanes x signed(number))
        What was asked for ``LATENCY`` cycles before.
    write, target, count, values : In
        Writes the first ``count`` of ``values``; seen by reads of the next cycle on.
    fill, filling : In
        With ``write``: take ``filling`` instead, all of it.
    """

    #: Cycles from an address to its lanes: rows of the banks, memory, a register, two of rotation.
    LATENCY = 5

    def __init__(self, config: EngineConfig):
        self.config = config
        plan = config.plan
        self.address_width = self.width(config)
        number = signed(config.number)
        super().__init__(
            {
                "address": In(self.address_width),
                "spread": In(range(max(2, len(plan.spreads)))),
                "lanes": Out(data.ArrayLayout(number, plan.lanes)),
                "write": In(1),
                "target": In(self.address_width),
                "count": In(range(plan.ways + 1)),
                "values": In(data.ArrayLayout(number, plan.ways)),
                "fill": In(1),
                "filling": In(data.ArrayLayout(number, config.fill)),
            }
        )
        depth = 2 * plan.store_rows
        self._banks = [Memory(shape=number, depth=depth, init=[]) for _ in range(plan.lanes)]

    @staticmethod
    def width(config: EngineConfig) -> int:
        """Return the bits of an address."""
        return (2 * config.plan.store_rows * config.plan.lanes - 1).bit_length()

    def elaborate(self, platform):
        m = Module()
        lanes = self.config.plan.lanes
        low = (lanes - 1).bit_length()
        turn = [Signal(low, name=f"turn_{k}", reset_less=True) for k in range(self.LATENCY)]
        m.d.comb += turn[0].eq(self.address[:low])
        m.d.sync += [after.eq(before) for before, after in pairwise(turn)]
        out, further = [], self._further(m)
        for b, bank in enumerate(self._banks):
            m.submodules[f"bank_{b}"] = bank
            read, write = bank.read_port(), bank.write_port()
            row = Signal.like(read.addr, name=f"row_{b}", reset_less=True)
            shown = Signal(read.data.shape(), name=f"shown_{b}", reset_less=True)
            m.d.sync += [
                row.eq(self.address[low:] + further[b] + self._next(turn[0], b)),
                shown.eq(read.data),
            ]
            m.d.comb += read.addr.eq(row)
            out.append(shown)
            self._write(m, b, write, low)
        # Lane k shows the bank (turn + k) mod lanes: by the turn's high bits, then by its low ones.
        half = low // 2
        coarse = []
        for b in range(lanes):
            turned = Array(out[(b + (k << half)) % lanes] for k in range(1 << (low - half)))
            kept = Signal(out[0].shape(), name=f"coarse_{b}", reset_less=True)
            m.d.sync += kept.eq(turned[turn[3][half:]])
            coarse.append(kept)
        for k, lane in enumerate(self.lanes):
            turned = Array(coarse[(k + n) % lanes] for n in range(1 << half))
            kept = Signal(out[0].shape(), name=f"lane_{k}", reset_less=True)
            m.d.sync += kept.eq(turned[turn[4][:half]])
            m.d.comb += lane.eq(kept)
        return m

    def _further(self, m):
        """Return the rows that each bank reads further on: the spread of the lane it is for."""
        lanes, spreads = self.config.plan.lanes, self.config.plan.spreads
        most = max(max(spread) for spread in spreads)
        found = [Signal(range(max(2, most + 1)), name=f"further_{b}") for b in range(lanes)]
        turn = self.address[: (lanes - 1).bit_length()]
        with m.Switch(self.spread):
            for number, spread in enumerate(spreads[1:], start=1):
                with m.Case(number), m.Switch(turn):
                    for k in range(lanes):
                        with m.Case(k):
                            m.d.comb += [f.eq(spread[(b - k) % lanes]) for b, f in enumerate(found)]
        return found

    def _next(self, place, b: int) -> Value:
        """Return whether what begins at a ``place`` of a row is in bank ``b`` a row further on."""
        return place > b if b < self.config.plan.lanes - 1 else Const(0, 1)

    def _write(self, m, b: int, port, low: int):
        """Write a number to a bank, a cycle later: which one, by its place from the target."""
        ways = len(self.values)
        place = Signal(low, name=f"place_{b}")
        row, at = self.target[low:], self.target[:low]
        fill = self.config.fill
        filled = at[(fill - 1).bit_length() :] == b // fill
        given = Array([*self.values, *[self.values[0]] * ((1 << (ways - 1).bit_length()) - ways)])
        m.d.comb += place.eq(b - at)
        picked = given[place[: (ways - 1).bit_length()]]
        m.d.sync += [
            port.en.eq(self.write & Mux(self.fill, filled, place < self.count)),
            port.addr.eq(row + (~self.fill & self._next(at, b))),
            port.data.eq(Mux(self.fill, self.filling[b % fill], picked)),
        ]
