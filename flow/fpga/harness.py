"""The design that a core is placed in: two pins, and registers at every port."""

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["INSTANCE", "wrap"]

#: The core's name inside.
INSTANCE = "core"
#: What a core's clock may be called: the second one beside AXI ports.
CLOCKS = ("clk", "aclk")

#: Nets that one register of the folding tree takes in, and registers that ready may be behind: one
#: LUT4.
FOLD = 4


def _range(width: int) -> str:
    return f"[{width - 1}:0]"


def _is_behind(name: str, ready: str) -> bool:
    return ready == "logic" and name.endswith("_ready")


def _inputs(ports: Mapping[str, Any], ready: str) -> dict[str, list[int]]:
    """Return the bits of the shift register that drive each input, least significant first.

    Single bits (reset, valid, ready: the nets with the widest fan-out) take the middle, so that
    neither pin pulls them away from the core.
    """
    inputs = {n: len(p["bits"]) for n, p in ports.items() if p["direction"] == "input"}
    for name in CLOCKS:
        inputs.pop(name, None)
    wide = [(name, i) for name, width in inputs.items() if width > 1 for i in range(width)]
    single = [name for name, width in inputs.items() if width == 1]
    inputs |= {name: FOLD for name in single if _is_behind(name, ready)}
    single_bits = [(name, i) for name in single for i in range(inputs[name])]
    half = len(wide) // 2
    places: dict[str, list[int]] = {name: [0] * width for name, width in inputs.items()}
    for place, (name, i) in enumerate([*wide[:half], *single_bits, *wide[half:]]):
        places[name][i] = place
    return places


def wrap(
    top: str,
    module: Mapping[str, Any],
    *,
    name: str,
    is_register: Callable[[str], bool],
    ready: str = "register",
) -> str:
    """Return Verilog of a module ``name`` with the pins ``clk`` and ``q`` around a mapped core.

    Inputs come from the bits of one shift register. Every net that drives an output is folded, four
    at a time and a register each time, into one bit, which feeds the shift register and leaves at
    ``q``; a net that comes out of logic or a memory is captured in a register of its own first. So
    every path of the core starts and ends at a register, none is left out, what the harness adds is
    one LUT4 between two registers, and no input pin pulls the core towards the chip's edge.

    Parameters
    ----------
    top, module
        The core's name, and what yosys's ``write_json`` says of it, mapped.
    is_register
        Whether a cell type is a flip-flop.
    ready
        Where inputs called ``*_ready`` come from: each from a ``register``, or through ``logic``,
        one LUT4, from four of them.
    """
    ports = module["ports"]
    registers = {
        bit
        for cell in module["cells"].values()
        if is_register(cell["type"])
        for bit in cell["connections"].get("Q", [])
    }
    places = _inputs(ports, ready)
    shift = max(sum(map(len, places.values())), 1)
    outputs = {n: p["bits"] for n, p in ports.items() if p["direction"] == "output"}
    # A bit that shows twice, as in a tiled beat, is one net; a string is a constant.
    nets = {bit: f"{n}[{i}]" for n, bits in outputs.items() for i, bit in enumerate(bits)}
    direct = [net for bit, net in nets.items() if bit in registers]
    captured = [net for bit, net in nets.items() if isinstance(bit, int) and bit not in registers]
    body = [f"reg {_range(shift)} s;", "always @(posedge clk) s <= {s, q};"]
    body += [f"wire {_range(len(bits))} {n};" for n, bits in outputs.items()]
    pins = []
    for n, at in places.items():
        bits = f"{{{', '.join(f's[{i}]' for i in reversed(at))}}}"
        pins.append(f".{n}({'^' if _is_behind(n, ready) else ''}{bits})")
    pins += [f".{n}({n})" for n in outputs]
    pins += [f".{n}(clk)" for n in CLOCKS if n in ports]
    body += [f"{top} {INSTANCE}({', '.join(pins)});"]
    if captured:
        body += [f"reg {_range(len(captured))} c;"]
        body += [f"always @(posedge clk) c <= {{{', '.join(reversed(captured))}}};"]
    level = [*direct, *(f"c[{i}]" for i in range(len(captured)))]
    depth = 0
    while len(level) > 1:
        groups = [level[i : i + FOLD] for i in range(0, len(level), FOLD)]
        body += [f"reg {_range(len(groups))} f{depth};", "always @(posedge clk) begin"]
        body += [f"  f{depth}[{i}] <= {' ^ '.join(group)};" for i, group in enumerate(groups)]
        body += ["end"]
        level = [f"f{depth}[{i}]" for i in range(len(groups))]
        depth += 1
    body += [f"always @(posedge clk) q <= {level[0] if level else '~q'};"]
    stub = [f"{p['direction']} {_range(len(p['bits']))} {n}" for n, p in ports.items()]
    lines = [
        f"(* blackbox *) module {top}({', '.join(stub)}); endmodule",
        f"module {name}(input clk, output reg q);",
        *(f"  {line}" for line in body),
        "endmodule",
    ]
    return "\n".join(lines) + "\n"
