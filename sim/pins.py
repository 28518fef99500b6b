"""What a testbench drives, set all at once."""

from collections.abc import Iterable, Mapping

from amaranth.hdl import Cat, Value

__all__ = ["Pins"]


class Pins:
    """Valid and payload of a component's input streams, and ready of its outputs.

    The simulator lets the whole design settle after each value that is set. What is put here is
    set at once, by :meth:`settle`, which a large core takes a fifth less time for.

    Parameters
    ----------
    inputs, outputs
        The component's streams by name.
    """

    def __init__(self, inputs: Mapping, outputs: Mapping):
        parts = {
            (name, part): Value.cast(getattr(port, part))
            for name, port in inputs.items()
            for part in ("valid", "payload")
        }
        parts |= {(name, "ready"): port.ready for name, port in outputs.items()}
        self._all = Cat(parts.values())
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        offset = 0
        for key, part in parts.items():
            self._places[key] = offset, (1 << len(part)) - 1
            offset += len(part)
        self._wanted = self._shown = 0
        self._inputs, self._outputs = list(inputs), list(outputs)
        #: What a testbench samples at each tick: all else at the ports is driven here.
        self.sampled = [Value.cast(port.ready) for port in inputs.values()]
        for port in outputs.values():
            self.sampled += [Value.cast(port.valid), Value.cast(port.payload)]

    def put(self, name: str, part: str, value: int) -> None:
        """Have the bits of ``value`` there from the next :meth:`settle` on."""
        offset, mask = self._places[name, part]
        self._wanted = self._wanted & ~(mask << offset) | (value & mask) << offset

    def get(self, name: str, part: str) -> int:
        """Return what was put there last; 0 at first."""
        offset, mask = self._places[name, part]
        return self._wanted >> offset & mask

    def settle(self, ctx) -> None:
        """Set what was put."""
        if self._wanted != self._shown:
            ctx.set(self._all, self._wanted)
            self._shown = self._wanted

    def ports(self, seen: Iterable[int]) -> dict[str, tuple[int, int, int]]:
        """Return valid, ready and payload of each port, inputs first, where ``sampled`` was so."""
        values = iter(seen)
        found = {
            name: (self.get(name, "valid"), next(values), self.get(name, "payload"))
            for name in self._inputs
        }
        for name in self._outputs:
            valid, payload = next(values), next(values)
            found[name] = valid, self.get(name, "ready"), payload
        return found
