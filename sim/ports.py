"""Names of the ports of emitted Verilog, and a wrapper with packed payloads."""

from collections.abc import Iterator
from dataclasses import dataclass

from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

__all__ = ["Port", "packed", "ports"]


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port of the emitted Verilog: a signal, or a field of a payload.

    Parameters
    ----------
    name
        Its name in Verilog.
    is_input
        Whether it is an input.
    shape
        Its shape in Amaranth.
    member
        The Amaranth signal that contains it: the path, joined by two underscores.
    offset
        Its lowest bit in that signal.
    whole
        The width of that signal.
    """

    name: str
    is_input: bool
    shape: ShapeLike
    member: str
    offset: int
    whole: int

    @property
    def path(self) -> str:
        """Return its path in Amaranth, such as ``o.payload.last``."""
        signal = self.member.replace("__", ".")
        stem = self.signal.removesuffix("_payload") if signal.endswith(".payload") else self.signal
        field = self.name.removeprefix(stem).removeprefix("_")
        return signal if self.name == self.signal else f"{signal}.{field}"

    @property
    def width(self) -> int:
        """Return the number of its bits."""
        return Shape.cast(self.shape).width

    @property
    def signed(self) -> bool:
        """Return whether it is a signed number. An array is not, whatever its elements are."""
        return Shape.cast(self.shape).signed

    @property
    def part(self) -> str:
        """Return the range of its bits in the whole signal in Verilog, or nothing for all."""
        return f"[{self.offset + self.width - 1}:{self.offset}]" if self.width < self.whole else ""

    @property
    def signal(self) -> str:
        """Return the name of the whole signal, as :func:`packed` has it for a port."""
        return self.member.replace("__", "_")


def ports(signature: wiring.Signature) -> list[Port]:
    """Return the ports of a component, in the order of its signature, without clock and reset.

    The fields of a struct are separate ports: ``values`` and ``last`` of the stream ``o`` are
    ``o_values`` and ``o_last``, next to ``o_valid`` and ``o_ready``. Any other payload is one port,
    ``o_payload``. Arrays are vectors with element 0 lowest.
    """
    found = []
    for path, member in signature.members.flatten():
        if member.is_signature:
            continue
        whole = Shape.cast(member.shape).width
        names = [str(part) for part in path]
        if isinstance(member.shape, data.StructLayout) and names[-1] == "payload":
            stem = names[:-1]
        else:
            stem = names
        for field, shape, offset in _fields(member.shape):
            port = Port(
                name="_".join([*stem, *field]), is_input=member.flow is In, shape=shape,
                member="__".join(names), offset=offset, whole=whole,
            )  # fmt: skip
            found += [port] if port.width else []
    return found


def _fields(shape: ShapeLike, offset: int = 0) -> Iterator[tuple[list[str], ShapeLike, int]]:
    """Yield path, shape and lowest bit of each field of a struct, recursively.

    Another shape is one field without a name.
    """
    if not isinstance(shape, data.StructLayout):
        yield [], shape, offset
        return
    for name, field in shape:
        for path, inner, at in _fields(field.shape, offset + field.offset):
            yield [str(name), *path], inner, at


def packed(top: str, signature: wiring.Signature) -> str:
    """Return a Verilog module ``TOP_packed`` around a core: each payload is one vector again.

    Testbenches that are the same for all cores drive this module. It has no logic.
    """
    found = ports(signature)
    signals = {port.signal: port for port in found}
    plain = [name for name in ("clk", "rst") if name not in signals]
    head = [f"  input {name}" for name in plain]
    for name, port in signals.items():
        high = f"[{port.whole - 1}:0] " if port.whole > 1 else ""
        head.append(f"  {'input' if port.is_input else 'output'} {high}{name}")
    pins = [f"    .{name}({name})" for name in plain]
    pins += [f"    .{port.name}({port.signal}{port.part})" for port in found]
    lines = [f"module {top}_packed(", ",\n".join(head), ");", f"  {top} core("]
    return "\n".join([*lines, ",\n".join(pins), "  );", "endmodule", ""])
