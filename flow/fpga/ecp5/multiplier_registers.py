"""Registers around the multipliers of an ECP5, moved into them.

The DSP blocks of the family have registers at their inputs and outputs, which yosys leaves empty:
72 flip-flops, and a line to each, around every multiplier of a large array.
"""

from collections import Counter
from typing import Any

__all__ = ["MULTIPLIER", "pack"]

MULTIPLIER = "MULT18X18D"
_REGISTER = "TRELLIS_FF"
_OPERANDS = {name: [f"{name}{i}" for i in range(18)] for name in "AB"}
_RESULT = [f"P{i}" for i in range(36)]
#: A register as one in a multiplier is: no reset, 0 at the start, clocked by the rising edge.
_PLAIN = {"REGSET": "RESET", "CLKMUX": "CLK", "LSRMUX": "LSR", "GSR": "DISABLED"}
#: A and not B, as a LUT4 has it.
_WITHOUT = 0x2222

Cell = dict[str, Any]


def pack(module: dict[str, Any]) -> int:
    """Move registers of a mapped core into its multipliers; return how many have some.

    Both operands are moved, where every bit of both comes from a register (or is 0), and the
    result, where every bit of it goes to one and nowhere else: without a reset, of one clock enable
    each. A register that only some bits of an operand have a reset for gets a LUT4 in front of it
    instead. What else reads an operand's register keeps it, so that several multipliers may have
    copies of one; where ``keep`` marks it, it stays, and so does the operand.

    ``module`` is yosys's JSON of the core, and is changed in place.
    """
    return _Packer(module).run()


class _Packer:
    def __init__(self, module: dict[str, Any]):
        self.cells: dict[str, Cell] = module["cells"]
        self.drivers: dict[int, str] = {}
        #: How many pins read a bit, a core's outputs among them; and the last cell that does.
        self.reads: Counter[int] = Counter()
        self.readers: dict[int, str] = {}
        for name, cell in self.cells.items():
            for pin, bits in cell["connections"].items():
                for bit in bits:
                    if cell["port_directions"][pin] == "output":
                        self.drivers[bit] = name
                    else:
                        self.reads[bit] += 1
                        self.readers[bit] = name
        for port in module["ports"].values():
            if port["direction"] == "output":
                self.reads.update(bit for bit in port["bits"] if isinstance(bit, int))
        self.masked: dict[tuple[Any, Any], int] = {}
        nets = [net["bits"] for net in module["netnames"].values()]
        self.free = 1 + max(bit for bits in nets for bit in bits if isinstance(bit, int))

    def run(self) -> int:
        packed = 0
        for name in [n for n, cell in self.cells.items() if cell["type"] == MULTIPLIER]:
            cell = self.cells[name]
            operands = {k: self._operand(cell, pins) for k, pins in _OPERANDS.items()}
            result = self._result(cell)
            # One operand alone would have no timing in nextpnr.
            if all(operands.values()):
                for k, pins in _OPERANDS.items():
                    self._take_operand(name, k, pins, operands[k])
            if result:
                self._take_result(name, result)
            packed += bool(all(operands.values()) or result)
        return packed

    def _register(self, name: str | None) -> Cell | None:
        """Return the cell of that name if it is a register that a multiplier could have."""
        cell = self.cells.get(name or "")
        if cell is None or cell["type"] != _REGISTER or "keep" in cell["attributes"]:
            return None
        settings = cell["parameters"]
        plain = all(settings.get(k, v) == v for k, v in _PLAIN.items())
        return cell if plain and settings.get("CEMUX") != "INV" else None

    def _alike(self, registers: list[Cell]) -> bool:
        """Return whether registers have the same clock and clock enable."""
        return len({(_pin(r, "CLK"), _enable(r)) for r in registers}) == 1

    def _operand(self, cell: Cell, pins: list[str]) -> list[Cell | None]:
        """Return the registers of an operand's bits, or nothing."""
        bits = [_pin(cell, pin) for pin in pins]
        found = [None if bit == "0" else self._register(self.drivers.get(bit)) for bit in bits]
        registers = [r for r in found if r is not None]
        if not registers or len(registers) != sum(bit != "0" for bit in bits):
            return []
        # A reset goes before the enable, so that a LUT can stand for it only without one.
        resets = any(_reset(r) for r in registers)
        if not self._alike(registers) or (resets and _enable(registers[0]) != "1"):
            return []
        if any(_reset(r) and r["parameters"].get("SRMODE") != "LSR_OVER_CE" for r in registers):
            return []
        return found

    def _result(self, cell: Cell) -> list[tuple[str, str]]:
        """Return the registers of the result's bits, by pin and name, or nothing."""
        used = {pin: _pin(cell, pin) for pin in _RESULT if self.reads[_pin(cell, pin)]}
        if any(self.reads[bit] != 1 for bit in used.values()):
            return []
        names = {pin: self.readers.get(bit, "") for pin, bit in used.items()}
        registers = [self._register(name) for name in names.values()]
        plain = [r for r in registers if r is not None and not _reset(r)]
        if not names or len(plain) != len(names) or not self._alike(plain):
            return []
        return list(names.items())

    def _take_operand(self, name: str, k: str, pins: list[str], registers: list) -> None:
        cell = self.cells[name]
        for pin, register in zip(pins, registers, strict=True):
            if register is None:
                continue
            before, after = _pin(register, "DI"), _pin(cell, pin)
            if reset := _reset(register):
                before = self._without(before, reset)
            self._connect(name, pin, before)
            self.reads[after] -= 1
            if not self.reads[after]:
                self._delete(self.drivers[after])
        self._clocked(name, f"INPUT{k}", next(r for r in registers if r is not None))

    def _take_result(self, name: str, registers: list[tuple[str, str]]) -> None:
        cell = self.cells[name]
        for pin, register in registers:
            gone = self.cells[register]
            self._delete(register)
            cell["connections"][pin] = gone["connections"]["Q"]
            self.drivers[_pin(cell, pin)] = name
        self._clocked(name, "OUTPUT", gone)

    def _clocked(self, name: str, what: str, register: Cell) -> None:
        """Turn a multiplier's register on, with a clock enable of its own."""
        number = ("INPUTA", "INPUTB", "OUTPUT").index(what)
        pins = {"CLK0": _pin(register, "CLK"), f"CE{number}": _enable(register), "RST0": "0"}
        for pin, bit in pins.items():
            self._connect(name, pin, bit)
        settings = {"CLK": "CLK0", "CE": f"CE{number}", "RST": "RST0"}
        self.cells[name]["parameters"] |= {f"REG_{what}_{k}": v for k, v in settings.items()}
        self.cells[name]["parameters"]["GSR"] = "DISABLED"

    def _connect(self, name: str, pin: str, bit: Any) -> None:
        cell = self.cells[name]
        cell["connections"][pin] = [bit]
        cell["port_directions"][pin] = "input"
        self.reads[bit] += 1
        self.readers[bit] = name

    def _delete(self, name: str) -> None:
        cell = self.cells.pop(name)
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "input":
                self.reads.subtract(bits)

    def _without(self, bit: Any, reset: Any) -> int:
        """Return ``bit`` where ``reset`` is not, out of a LUT."""
        if (bit, reset) in self.masked:
            return self.masked[bit, reset]
        out = self.masked[bit, reset] = self.free
        self.free += 1
        lut = f"{MULTIPLIER}_{out}_LUT4"
        self.cells[lut] = {
            "hide_name": 0,
            "type": "LUT4",
            "parameters": {"INIT": f"{_WITHOUT:016b}"},
            "attributes": {},
            "port_directions": {"Z": "output"},
            "connections": {"Z": [out]},
        }
        for port, value in zip("ABCD", (bit, reset, "0", "0"), strict=True):
            self._connect(lut, port, value)
        self.drivers[out] = lut
        return out


def _pin(cell: Cell, pin: str) -> Any:
    """Return the bit at a pin, or nothing."""
    return next(iter(cell["connections"].get(pin, ())), None)


def _enable(register: Cell) -> Any:
    # A string of digits alone has a space behind it in yosys's JSON.
    muxed = register["parameters"].get("CEMUX", "CE").strip()
    return _pin(register, "CE") if muxed == "CE" else muxed


def _reset(register: Cell) -> Any:
    """Return the net that resets a register, or nothing."""
    bit = _pin(register, "LSR")
    return None if bit in ("0", "x") else bit
