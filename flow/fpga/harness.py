"""Place-and-route harness: two pins, and registers at every port of the core."""

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["INSTANCE", "wrap"]

#: Instance name of the core.
INSTANCE = "core"
#: Clock ports; the second one is that of cores with AXI ports.
CLOCKS = ("clk", "aclk")

#: Inputs of a register of the XOR tree, and registers that drive ready through logic: one LUT4.
FAN_IN = 4


def _range(width: int) -> str:
    return f"[{width - 1}:0]"


def _is_through_lut(name: str, ready: str) -> bool:
    return ready == "logic" and name.endswith("_ready")


def _inputs(ports: Mapping[str, Any], ready: str) -> dict[str, list[int]]:
    """Return the bits of the shift register that drive each input, least significant first.

    Single bits (reset, valid, ready: the nets with the largest fan-out) are in the middle of the
    shift register, away from both pins.
    """
    inputs = {n: len(p["bits"]) for n, p in ports.items() if p["direction"] == "input"}
    for name in CLOCKS:
        inputs.pop(name, None)
    wide = [(name, i) for name, width in inputs.items() if width > 1 for i in range(width)]
    single = [name for name, width in inputs.items() if width == 1]
    inputs |= {name: FAN_IN for name in single if _is_through_lut(name, ready)}
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

    A shift register drives the inputs. A pipelined XOR tree of LUT4s reduces all nets that drive an
    output to one bit, which feeds the shift register and drives ``q``. A net driven by logic or a
    memory is registered first. Every path of the core starts and ends at a register and is timed.
    The harness adds one LUT4 between two registers, and no input pin pulls the core towards the
    edge of the chip.

    Parameters
    ----------
    top, module
        The core's name, and its mapped netlist as yosys's ``write_json`` gives it.
    is_register
        Whether a cell type is a flip-flop.
    ready
        Driver of inputs named ``*_ready``: a ``register``, or ``logic``, one LUT4 of four
        registers.
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
    # A bit that occurs twice, as in a tiled beat, is one net; a string is a constant.
    nets = {bit: f"{n}[{i}]" for n, bits in outputs.items() for i, bit in enumerate(bits)}
    direct = [net for bit, net in nets.items() if bit in registers]
    captured = [net for bit, net in nets.items() if isinstance(bit, int) and bit not in registers]
    body = [f"reg {_range(shift)} s;", "always @(posedge clk) s <= {s, q};"]
    body += [f"wire {_range(len(bits))} {n};" for n, bits in outputs.items()]
    pins = []
    for n, at in places.items():
        bits = f"{{{', '.join(f's[{i}]' for i in reversed(at))}}}"
        pins.append(f".{n}({'^' if _is_through_lut(n, ready) else ''}{bits})")
    pins += [f".{n}({n})" for n in outputs]
    pins += [f".{n}(clk)" for n in CLOCKS if n in ports]
    body += [f"{top} {INSTANCE}({', '.join(pins)});"]
    if captured:
        body += [f"reg {_range(len(captured))} c;"]
        body += [f"always @(posedge clk) c <= {{{', '.join(reversed(captured))}}};"]
    level = [*direct, *(f"c[{i}]" for i in range(len(captured)))]
    depth = 0
    while len(level) > 1:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
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
