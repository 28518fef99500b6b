"""Registers at an AXI4-Lite port, from a map of :mod:`seedbed.spec.axi_registers`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member

from seedbed.hw.axi.axi import AxiLite, lite_members
from seedbed.spec.axi_registers import STATUS_BIT
from seedbed.spec.registers import Register, addresses

__all__ = ["RegisterBlock", "register_members", "status_word"]

PORT = "s_axi_control"


def _address_bits(registers: Sequence[Register]) -> int:
    return (4 * len(registers) - 1).bit_length()


def register_members(registers: Sequence[Register]) -> dict[str, Member]:
    """Return the members of the AXI4-Lite port ``s_axi_control`` of a map."""
    return lite_members(PORT, _address_bits(registers))


def status_word(busy: Value, done: Value, status: Value) -> Value:
    """Return the value of the register ``status``."""
    return Cat(busy, done, Const(0, STATUS_BIT - 2), status)


class RegisterBlock:
    """The registers of a map, at the port ``s_axi_control`` of a component.

    Parameters
    ----------
    m, component
        Module, and the component with :func:`register_members`.
    registers
        The map.
    """

    def __init__(self, m: Module, component: wiring.Component, registers: Sequence[Register]):
        self.m, self.registers, self.words = m, registers, addresses(registers)
        m.submodules.lite = self.lite = lite = AxiLite(_address_bits(registers))
        for member, port in lite.signature.members.items():
            if member.startswith("bus_"):
                inner, outer = getattr(lite, member), getattr(component, PORT + member[3:])
                m.d.comb += inner.eq(outer) if port.flow is In else outer.eq(inner)

    def command(self, command, valid: Value) -> dict[str, Signal]:
        """Return a register for each field of a stream's payload, which has their values."""
        fields = command.payload.shape()
        kept = {name: Signal(field.shape, name=name) for name, field in fields}
        self.m.d.comb += command.valid.eq(valid)
        self.m.d.comb += [command.payload[name].eq(register) for name, register in kept.items()]
        return kept

    @contextmanager
    def writes(self) -> Iterator[None]:
        """Give the context of :meth:`write` and :meth:`hold`; all other writes are refused."""
        self.m.d.comb += [self.lite.write_refused.eq(1), self.lite.read_refused.eq(1)]
        with self.m.Switch(self.lite.write_word):
            yield

    def write(self, name: str):
        """Return the context of what a write to a register does."""
        return self.m.Case(self.words[name])

    def strobed(self, old: Value) -> Value:
        """Return the word that is written; bytes without a strobe are those of ``old``."""
        lite, parts = self.lite, [slice(k, k + 8) for k in range(0, 32, 8)]
        return Cat(
            Mux(strobe, lite.write_data[part], old[part])
            for strobe, part in zip(lite.write_strobe, parts, strict=True)
        )

    def hold(self, values: Mapping[str, Signal], busy: Value) -> None:
        """Write those registers of ``values`` that have access ``write``.

        A signed register is sign-extended to 32 bits. A write is refused while ``busy``, if the
        register does not hold the value, and if the low ``zeros`` bits are not 0.
        """
        m, lite = self.m, self.lite
        for name, value in values.items():
            register = self.registers[self.words[name]]
            if register.access != "write":
                continue
            with self.write(name):
                old = Signal(32, name=f"old_{name}")
                m.d.comb += old.eq(value)
                new = self.strobed(old)
                if value.shape().signed:
                    high = new[len(value) - 1 :]
                    overflow = high.any() & ~high.all()
                else:
                    overflow = new[len(value) :].any()
                m.d.comb += lite.write_refused.eq(busy | overflow | new[: register.zeros].any())
                with m.If(lite.write & ~lite.write_refused):
                    m.d.sync += value.eq(new)

    def show(self, values: Mapping[str, Value]) -> None:
        """Answer reads with ``values``; a signed one is sign-extended. All others are refused."""
        m, lite = self.m, self.lite
        with m.Switch(lite.read_word):
            for name, value in values.items():
                with m.Case(self.words[name]):
                    m.d.comb += [lite.read_refused.eq(0), lite.read_data.eq(value)]
