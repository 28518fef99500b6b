"""A LUT-optimised linear generator: k bits a cycle from k LUTs."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import LutoptConfig
from seedbed.spec.lutopt import SEED_BITS, WARM_UP, expansion

__all__ = ["Lutopt", "LutoptSeeder", "latency", "state_layout"]

#: State bits per copy of `valid` and per clock-enable LUT, approximately.
BITS_PER_ENABLE = 64


def latency(config: LutoptConfig) -> int:
    """Return :attr:`Lutopt.latency`."""
    return 1 if config.seeding == "serial" else WARM_UP + config.width + 1


def state_layout(config: LutoptConfig) -> data.StructLayout:
    """Return the layout of a beat of a state: one bit per lane, and the end."""
    return data.StructLayout({"bits": data.ArrayLayout(1, config.lanes), "last": 1})


def _step(rows, state):
    """Return the XOR of the taps of each row."""
    return [reduce(xor, (state[tap] for tap in taps)) for taps in rows]


class LutoptSeeder(wiring.Component):
    """Expands a seed word to the beats that load a state of :class:`Lutopt`.

    A linear generator of 33 bits starts with the word in bits 0..31 and 1 in bit 32, so that it is
    never zero. Its beats have one bit for each lane: bit l mod 33, from lane 33 on XORed with
    bit (l + 3 (l div 33)) mod 33. The last ``width`` of ``WARM_UP + width`` beats are the state.
    They are a one-to-one function of the word: the state is not zero either.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.LutoptConfig`.

    Members
    -------
    i : In(stream of unsigned(32))
        A seed word, any value.
    o : Out(stream of struct)
        The beats: see port ``i_state`` of :class:`Lutopt`.

    Latency: 1 cycle. Throughput: a beat every cycle; the next word is accepted after the last beat.
    """

    latency = 1

    def __init__(self, config: LutoptConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(SEED_BITS)),
                "o": Out(stream.Signature(state_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        state = Signal(SEED_BITS + 1)
        final = WARM_UP + self.config.width - 1
        count = Signal(range(final + 1))
        bits = (reduce(xor, (state[tap] for tap in taps)) for taps in self.config.serial_taps)
        m.d.comb += [
            self.i.ready.eq(~self.o.valid),
            Cat(self.o.payload.bits).eq(Cat(bits)),
            self.o.payload.last.eq(count == final),
        ]
        with m.If(~self.o.valid):
            m.d.sync += [state.eq(Cat(self.i.payload, 1)), self.o.valid.eq(self.i.valid)]
        with m.Elif(self.o.ready):
            m.d.sync += [
                state.eq(Cat(_step(expansion(), state))),
                count.eq(Mux(self.o.payload.last, 0, count + 1)),
                self.o.valid.eq(~self.o.payload.last),
            ]
        return m


class Lutopt(wiring.Component):
    """A linear generator over GF(2) of k = n b state bits, all of them its output.

    The next value of a state bit is the XOR of a few state bits::

        state'[r] = XOR of state[t] for t in rows[r];   lane l shows state[l b .. l b + b - 1]

    That is one LUT a bit: the taps of bit i of a lane are bit i - 1 of the same lane and two more,
    and a load, which passes bit i - 1 only, is the fourth input. Bit 0 has two taps, and the serial
    bit of the load. The matrix is one of a proven table: the state passes through all 2^k - 1
    non-zero values. Every bit is linear in the state, so the bits necessarily fail matrix-rank and
    linear-complexity tests that see k bits or more.

    Seeding ``serial`` takes b beats of one bit per lane, the most significant bits first. The bits
    of the previous state leave the lanes at the same time, at ``saved``, in the order in which they
    restore it. The state that is saved is that of the beat that is transferred last, so that it is
    the first beat again when it is restored. ``saved`` connected to ``i_state`` keeps the state.

    Seeding ``word`` has a :class:`LutoptSeeder` instead.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.LutoptConfig`.

    Members
    -------
    i_state : In(stream of struct)
        next state. ``serial`` only: b beats per frame, not all zero (the all-zero state is
        absorbing; the source must not send it). Of a longer frame, the last b count. The stream is
        accepted from the cycle after the transfer of the pending output beat on: a valid beat is
        stable, and to load a state the sink must accept that beat.
        bits (n x 1 bit) : one bit per lane, shifted in at the least significant end
        last : last bits of the state
    saved : Out(ArrayLayout(1, n))
        most significant bit of each lane; the previous state during a load. ``serial`` only.
    i_seed : In(stream of unsigned(32))
        seed: any word; determines the next state. ``word`` only. It is accepted in the cycle that
        transfers the pending output beat.
    o : Out(stream of ArrayLayout(unsigned(b), n))
        uniform random numbers, one per lane: the state. Valid from reset on, with the state of seed
        word 0, but not during a load.

    Latency: ``latency`` cycles from the end of the seed to the first beat. ``serial``: 1 cycle from
    the ``last`` beat of a state; ``word``: b + 17 cycles from the word.
    Throughput: 1 beat per cycle. Period: 2^k - 1 beats.
    Source: Thomas and Luk (FPT 2005); the load by a chain as in their LUT-SR (TVLSI 2013).
    """

    interval = 1

    def __init__(self, config: LutoptConfig):
        self.config = config
        members = {"o": Out(stream.Signature(data.ArrayLayout(config.width, config.lanes)))}
        if config.seeding == "serial":
            members = {
                "i_state": In(stream.Signature(state_layout(config))),
                "saved": Out(data.ArrayLayout(1, config.lanes)),
            } | members
        else:
            members = {"i_seed": In(stream.Signature(SEED_BITS))} | members
        super().__init__(members)

    @property
    def latency(self) -> int:
        """Cycles from the end of the seed to the first beat."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # Outside a load, so that no LUT selects between more than a step and a shift.
        valid = Signal(init=1)
        m.d.comb += self.o.valid.eq(valid)
        if config.seeding == "serial":
            load = self.i_state
            m.d.comb += Cat(self.saved).eq(Cat(word[-1] for word in self.o.payload))
            ends = load.valid
        else:
            m.submodules.seeder = seeder = LutoptSeeder(config)
            load = seeder.o
            m.d.comb += [
                seeder.i.payload.eq(self.i_seed.payload),
                seeder.i.valid.eq(self.i_seed.valid & valid & self.o.ready),
                self.i_seed.ready.eq(valid & self.o.ready),
            ]
            ends = self.i_seed.valid
        m.d.comb += load.ready.eq(~valid)
        self._lanes(m, load, valid, ends)
        return m

    def _lanes(self, m, load, valid, ends):
        """Step the state with each transfer, shift it with each beat of a load."""
        config = self.config
        lanes = [
            Signal(config.width, init=word, name=f"state_{lane}", attrs={"keep": True})
            for lane, word in enumerate(config.reset_state)
        ]
        m.d.comb += Cat(self.o.payload).eq(Cat(lanes))
        stepped = _step(config.rows, [bit for state in lanes for bit in state])
        # The clock enable is one LUT after `ready`, and `valid` is an input of every LUT: both are
        # duplicated to limit their fan-out.
        groups = -(-config.bits // BITS_PER_ENABLE)
        valids = [Signal(init=1, name=f"valid_{k}", attrs={"keep": True}) for k in range(groups)]
        for lane, state in enumerate(lanes):
            shows = valids[lane * groups // config.lanes]
            step = Cat(stepped[lane * config.width : (lane + 1) * config.width])
            with m.If(Mux(shows, self.o.ready & ~ends, load.valid)):
                m.d.sync += state.eq(Mux(shows, step, Cat(load.payload.bits[lane], state[:-1])))
        with m.If(Mux(valid, self.o.ready & ends, load.valid)):
            m.d.sync += [copy.eq(~valid & load.payload.last) for copy in (valid, *valids)]
