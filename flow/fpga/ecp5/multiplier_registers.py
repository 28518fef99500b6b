"""Packing of registers into the multipliers of an ECP5.

The DSP blocks of the family have input and output registers, which yosys leaves unused. Packing
saves 72 flip-flops and their nets per multiplier of a large array.
"""

from collections import Counter
from typing import Any

__all__ = ["MULTIPLIER", "pack"]

MULTIPLIER = "MULT18X18D"
_REGISTER = "TRELLIS_FF"
_OPERANDS = {name: [f"{name}{i}" for i in range(18)] for name in "AB"}
_RESULT = [f"P{i}" for i in range(36)]
#: Settings of a register that can be packed: initial value 0, rising edge, no global reset.
_PACKABLE = {"REGSET": "RESET", "CLKMUX": "CLK", "LSRMUX": "LSR", "GSR": "DISABLED"}
#: LUT4 contents of A and not B.
_AND_NOT = 0x2222

Cell = dict[str, Any]


def pack(module: dict[str, Any]) -> int:
    """Pack registers of a mapped core into its multipliers; return how many multipliers have some.

    The operand registers are packed if every bit of both operands is driven by a register or is 0.
    The result register is packed if every bit drives a register and nothing else. The registers of
    an operand or result must have no reset and the same clock and clock enable. If some bits of an
    operand have a reset, a LUT4 before the packed register replaces it. A register with other
    loads is copied, so that several multipliers may pack it. A register with the attribute
    ``keep`` is not packed, and neither is its operand.

    ``module`` is yosys's JSON of the core; it is modified in place.
    """
    return _Packer(module).run()


class _Packer:
    def __init__(self, module: dict[str, Any]):
        self.cells: dict[str, Cell] = module["cells"]
        self.drivers: dict[int, str] = {}
        #: Number of loads of a bit, the core's outputs included; and its last load.
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
            # nextpnr has no timing for a multiplier with one registered operand.
            if all(operands.values()):
                for k, pins in _OPERANDS.items():
                    self._take_operand(name, k, pins, operands[k])
            if result:
                self._take_result(name, result)
            packed += bool(all(operands.values()) or result)
        return packed

    def _register(self, name: str | None) -> Cell | None:
        """Return the cell of that name if it is a register that can be packed."""
        cell = self.cells.get(name or "")
        if cell is None or cell["type"] != _REGISTER or "keep" in cell["attributes"]:
            return None
        settings = cell["parameters"]
        packable = all(settings.get(k, v) == v for k, v in _PACKABLE.items())
        return cell if packable and settings.get("CEMUX") != "INV" else None

    def _same_control_set(self, registers: list[Cell]) -> bool:
        """Return whether registers have the same clock and clock enable."""
        return len({(_pin(r, "CLK"), _enable(r)) for r in registers}) == 1

    def _operand(self, cell: Cell, pins: list[str]) -> list[Cell | None]:
        """Return the registers of an operand's bits, or [] if they cannot be packed."""
        bits = [_pin(cell, pin) for pin in pins]
        found = [None if bit == "0" else self._register(self.drivers.get(bit)) for bit in bits]
        registers = [r for r in found if r is not None]
        if not registers or len(registers) != sum(bit != "0" for bit in bits):
            return []
        # A reset has priority over the enable: a LUT can replace it only without an enable.
        resets = any(_reset(r) for r in registers)
        if not self._same_control_set(registers) or (resets and _enable(registers[0]) != "1"):
            return []
        if any(_reset(r) and r["parameters"].get("SRMODE") != "LSR_OVER_CE" for r in registers):
            return []
        return found

    def _result(self, cell: Cell) -> list[tuple[str, str]]:
        """Return the registers of the result's bits, by pin and name, or []."""
        used = {pin: _pin(cell, pin) for pin in _RESULT if self.reads[_pin(cell, pin)]}
        if any(self.reads[bit] != 1 for bit in used.values()):
            return []
        names = {pin: self.readers.get(bit, "") for pin, bit in used.items()}
        registers = [self._register(name) for name in names.values()]
        plain = [r for r in registers if r is not None and not _reset(r)]
        if not names or len(plain) != len(names) or not self._same_control_set(plain):
            return []
        return list(names.items())

    def _take_operand(self, name: str, k: str, pins: list[str], registers: list) -> None:
        cell = self.cells[name]
        for pin, register in zip(pins, registers, strict=True):
            if register is None:
                continue
            before, after = _pin(register, "DI"), _pin(cell, pin)
            if reset := _reset(register):
                before = self._and_not(before, reset)
            self._connect(name, pin, before)
            self.reads[after] -= 1
            if not self.reads[after]:
                self._delete(self.drivers[after])
        self._enable_register(name, f"INPUT{k}", next(r for r in registers if r is not None))

    def _take_result(self, name: str, registers: list[tuple[str, str]]) -> None:
        cell = self.cells[name]
        for pin, register in registers:
            packed = self.cells[register]
            self._delete(register)
            cell["connections"][pin] = packed["connections"]["Q"]
            self.drivers[_pin(cell, pin)] = name
        self._enable_register(name, "OUTPUT", packed)

    def _enable_register(self, name: str, what: str, register: Cell) -> None:
        """Enable a multiplier's register, with a separate clock enable."""
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

    def _and_not(self, bit: Any, reset: Any) -> int:
        """Return the output of a LUT that computes ``bit`` and not ``reset``."""
        if (bit, reset) in self.masked:
            return self.masked[bit, reset]
        out = self.masked[bit, reset] = self.free
        self.free += 1
        lut = f"{MULTIPLIER}_{out}_LUT4"
        self.cells[lut] = {
            "hide_name": 0,
            "type": "LUT4",
            "parameters": {"INIT": f"{_AND_NOT:016b}"},
            "attributes": {},
            "port_directions": {"Z": "output"},
            "connections": {"Z": [out]},
        }
        for port, value in zip("ABCD", (bit, reset, "0", "0"), strict=True):
            self._connect(lut, port, value)
        self.drivers[out] = lut
        return out


def _pin(cell: Cell, pin: str) -> Any:
    """Return the bit at a pin, or ``None``."""
    return next(iter(cell["connections"].get(pin, ())), None)


def _enable(register: Cell) -> Any:
    # yosys's JSON appends a space to a string of digits.
    muxed = register["parameters"].get("CEMUX", "CE").strip()
    return _pin(register, "CE") if muxed == "CE" else muxed


def _reset(register: Cell) -> Any:
    """Return the reset net of a register, or ``None``."""
    bit = _pin(register, "LSR")
    return None if bit in ("0", "x") else bit
