"""Writes a case as a testbench in plain Verilog for any simulator; runs it in two."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.sim import child, tools
from seedbed.sim.case import Case
from seedbed.sim.harness import Mismatch, payload_bits, stream_ports
from seedbed.sim.ports import ports
from seedbed.sim.verilog import verilate

__all__ = ["GENERATIONS", "files", "icarus", "run", "verilator", "write"]

#: Language generations of Icarus Verilog: Verilog and SystemVerilog.
GENERATIONS = ("2005", "2012")
# Verilator implements delays as coroutines.
_FLAGS = ["--main", "--timing", "-CFLAGS", "-O0 -std=c++20 -fcoroutines"]

_BENCH = """\
// Testbench of seedbed {version}: sends the golden model's inputs to {top}, and compares its
// outputs with the model's.
//
// Prints PASS, or FAIL and the first mismatch. The vectors are in {top}_*.hex, in the working
// folder of the simulation: on each line the number of a phase, then a payload. A phase begins
// after all transfers of the previous one.
//
//   +reset=0    no reset at the start
//   +stalls=0   no pauses; otherwise every port pauses in about half of the cycles
//   +unknown=1  a payload without valid is unknown (x), not 0
//   +cycles=N   for N cycles, resets at random times restart the case
//   +seed=N     seed of stalls and resets

module {top}_tb;
  localparam [15:0] PHASES = {phases};
  // In such a phase, outputs are discarded until all inputs are sent.
  localparam [{last}:0] DRAIN = {phases}'b{drain};
  // Whether an output after the last phase is an error.
  localparam QUIET = {quiet};
  // Whether phases after the first write state that a reset keeps: no reset comes after them.
  localparam RETAINS = {retains};
  // Least number of cycles of the case.
  localparam LENGTH = {length};

  reg clk = 0;
  reg rst;
{declarations}
  {top} dut (
    .clk(clk),
    .rst(rst),
{connections}
  );

  integer reset, stalls, unknown, cycles;
  reg [31:0] seed;
  // Cycles: total, since the last transfer, until a reset, and after the last phase.
  integer now, waited, left, idle_cycles;
  reg [1:0] resetting;
  reg [15:0] phase;
  // Random bits, by xorshift.
  reg [31:0] random;
  reg ready_after_valid, sending, receiving, draining, over;

  always #5 clk = ~clk;

  // The remaining transfers of this phase.
  task look;
    begin
{look}
      sending = {sending};
      receiving = {receiving};
      draining = phase < PHASES && DRAIN[phase] && sending;
    end
  endtask

  task restart;
    begin
      phase = 0;
      waited = 0;
      idle_cycles = 0;
      // Ready waits for valid: a core whose valid waits for ready times out.
      ready_after_valid = random[31];
      left = 1 + random[30:0] % (2 * LENGTH);
{restart}
    end
  endtask

  initial begin
    if (!$value$plusargs("reset=%d", reset)) reset = 1;
    if (!$value$plusargs("stalls=%d", stalls)) stalls = 1;
    if (!$value$plusargs("unknown=%d", unknown)) unknown = 0;
    if (!$value$plusargs("cycles=%d", cycles)) cycles = 0;
    if (!$value$plusargs("seed=%d", seed)) seed = 1;
{read}
    random = 32'h9e3779b9 ^ seed;
    now = 0;
    over = 0;
    resetting = reset != 0 ? 2 : 0;
    rst = reset != 0;
    restart;
  end

  always @(posedge clk) if (!over) begin
    now = now + 1;
    random = random ^ (random << 13);
    random = random ^ (random >> 17);
    random = random ^ (random << 5);
{known}
    if (resetting != 0) begin
      resetting = resetting - 1;
      if (resetting == 0) restart;
    end else begin
      look;
      left = left - 1;
      waited = waited + 1;
      if (phase == PHASES) idle_cycles = idle_cycles + 1;
{transfers}
      look;
      if (phase < PHASES && !sending && !receiving) phase = phase + 1;
      if (now < cycles && (left <= 0 || phase == PHASES || (RETAINS && phase != 0))) resetting = 2;
      if (phase < PHASES && waited > {timeout} && !over) begin
        $display("FAIL: phase %0d timed out (seed %0d)", phase, seed);
        over = 1;
      end
    end
    look;
    rst <= resetting != 0;
    if (resetting != 0) begin
{idle}
    end else begin
{drive}
    end
    if (phase == PHASES && idle_cycles >= (QUIET ? 20 : 0) && now >= cycles && !over) begin
      $display("PASS: {top}, %0d cycles (seed %0d)", now, seed);
      over = 1;
    end
    if (over) $finish;
  end
endmodule
"""

_PORT = """
  // {way} {name}
  localparam {name}_COUNT = {count};
  reg [{top}:0] {name}_vectors [0:{last}];
  integer {name}_at;
  reg {name}_left;
"""
_INPUT = """\
  reg {name}_valid = 0;
  wire {name}_ready;
  reg {range}{name}_payload = 0;
"""
# An input that depends on an output, as read data on commands: transfers before each beat.
_AFTER = "  reg [31:0] {name}_after_{output} [0:{last}];\n"
_ANSWERS = " && {output}_at >= {name}_after_{output}[{name}_at]"
_OUTPUT = """\
  wire {name}_valid;
  reg {name}_ready = 0;
  wire {range}{name}_payload;
  reg {name}_pending = 0;
  reg {range}{name}_before;
"""
_LOOK = """\
      {name}_left = {name}_at < {name}_COUNT && {name}_vectors[{name}_at][{high}:{low}] == phase;
"""
_TAKEN = """\
      if ({name}_valid && {name}_ready) begin
        {name}_at = {name}_at + 1;
        waited = 0;
      end
"""
_CHECKED = """\
      if ({name}_pending && (!{name}_valid || {name}_payload !== {name}_before)) begin
        $display("FAIL: {name} changed before its transfer (seed %0d)", seed);
        over = 1;
      end
      if (QUIET && phase == PHASES && {name}_valid) begin
        $display("FAIL: {name}, a beat after the last one (seed %0d)", seed);
        over = 1;
      end
      {name}_pending = {name}_valid && !{name}_ready;
      {name}_before = {name}_payload;
      if ({name}_valid && {name}_ready && !draining) begin
        if ({name}_payload !== {name}_vectors[{name}_at][{msb}:0] && !over) begin
          $display("FAIL: {name}, phase %0d, beat %0d: expected %h, got %h (seed %0d)",
                   phase, {name}_at, {name}_vectors[{name}_at][{msb}:0], {name}_payload, seed);
          over = 1;
        end
        {name}_at = {name}_at + 1;
        waited = 0;
      end
"""
_KNOWN_READY = """\
    if ((^{name}_ready) === 1'bx && ({name}_valid || unknown == 0) && !over) begin
      $display("FAIL: {name}_ready is unknown in cycle %0d (seed %0d)", now, seed);
      over = 1;
    end
"""
_KNOWN_VALID = """\
    if ((^{name}_valid) === 1'bx && !over) begin
      $display("FAIL: {name}_valid is unknown in cycle %0d (seed %0d)", now, seed);
      over = 1;
    end
    if ({name}_valid === 1'b1 && (^{name}_payload) === 1'bx && !over) begin
      $display("FAIL: {name}, an unknown payload %h in cycle %0d (seed %0d)",
               {name}_payload, now, seed);
      over = 1;
    end
"""
_OFFER = """\
      if (!{name}_valid || {name}_ready) begin
        {name}_valid <= {name}_left{answers} && !(stalls != 0 && random[{bit}]);
        {name}_payload <= {name}_left{answers} && !(stalls != 0 && random[{bit}])
                          ? {name}_vectors[{name}_at][{msb}:0]
                          : unknown != 0 ? {width}'bx : {width}'b0;
      end
"""
_ACCEPT = """\
      {name}_ready <= ({name}_left || draining) && !(stalls != 0
          && (random[{bit}] || (ready_after_valid && (!{name}_valid || {name}_ready))));
"""


def write(folder: Path, top: str, case: Case, signature: wiring.Signature) -> Path:
    """Write :func:`files` to ``folder``; return the path of the testbench.

    ``folder`` is the working folder of the simulation.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files(top, case, signature).items():
        (folder / name).write_text(text)
    return folder / f"{top}_tb.v"


def files(top: str, case: Case, signature: wiring.Signature) -> dict[str, str]:
    """Return ``TOP_tb.v`` and its vectors, by the names of the files.

    Parameters
    ----------
    top
        The module's name, as :func:`seedbed.flow.emit.verilog.emit` writes it.
    case
        The stimulus and the expected response.
    signature
        The component's. Of ports that are not streams, outputs are unconnected and inputs 0.
    """
    found = {}
    head = f"// Vectors of seedbed {version('seedbed')}: {top},"
    text = dict.fromkeys(
        ("declarations", "connections", "look", "restart", "read", "known", "transfers", "idle",
         "drive"), "",
    )  # fmt: skip
    inputs: list[str] = []
    outputs: list[str] = []
    for bit, (name, flow) in enumerate(stream_ports(signature)):
        width = payload_bits(signature, name)
        digits = -(-width // 4)
        way = "inputs" if flow is In else "outputs"
        lines = [
            f"{number:04x}_{payload:0{digits}x}"
            for number, phase in enumerate(case.phases)
            for payload in getattr(phase, way).get(name, [])
        ]
        # A memory has at least one word.
        words_of = "\n".join([f"{head} port {name}", *(lines or ["ffff_0"])])
        found[f"{top}_{name}_vectors.hex"] = words_of + "\n"
        low = 4 * digits
        words = {
            "name": name, "way": way[:-1], "count": len(lines), "last": max(len(lines), 1) - 1,
            "bit": bit, "width": width, "msb": width - 1, "low": low, "high": low + 15,
            "top": low + 15, "range": f"[{width - 1}:0] " if width > 1 else "",
        }  # fmt: skip
        is_input = flow is In
        (inputs if is_input else outputs).append(f"{name}_left")
        after = _after(case, name) if is_input else {}
        answers = ""
        for output, counts in after.items():
            numbers = [f"{head} port {name} after {output}", *(f"{n:x}" for n in counts)]
            found[f"{top}_{name}_after_{output}.hex"] = "\n".join(numbers) + "\n"
            answers += _ANSWERS.format(name=name, output=output)
        parts = {
            "declarations": _PORT
            + "".join(_AFTER.replace("{output}", output) for output in after)
            + (_INPUT if is_input else _OUTPUT),
            "connections": _connections(name, signature),
            "look": _LOOK,
            "restart": "      {name}_at = 0;\n",
            "read": "".join(
                f'    $readmemh("{top}_{vectors}.hex", {vectors});\n'
                for vectors in [f"{name}_vectors", *(f"{name}_after_{o}" for o in after)]
            ),
            "known": _KNOWN_READY if is_input else _KNOWN_VALID,
            "transfers": _TAKEN if is_input else _CHECKED,
            "idle": "      {name}_valid <= 0;\n" if is_input
            else "      {name}_ready <= 0;\n      {name}_pending = 0;\n",
            "drive": _OFFER if is_input else _ACCEPT,
        }  # fmt: skip
        for part, template in parts.items():
            text[part] += template.format(**words, answers=answers)
    streams = {name for name, _ in stream_ports(signature)}
    others = {name: of for name, of in signature.members.items() if name not in streams}
    text["connections"] += "".join(
        f"    .{port.name}({port.width}'d0),\n"
        for port in ports(wiring.Signature(others))
        if port.is_input
    )
    lengths = [
        max(map(len, [*phase.inputs.values(), *phase.outputs.values(), [0]]))
        for phase in case.phases
    ]
    filled = {part: lines.rstrip("\n") for part, lines in text.items()}
    filled["connections"] = filled["connections"].rstrip(",")
    found[f"{top}_tb.v"] = _BENCH.format(
        version=version("seedbed"),
        top=top,
        phases=len(case.phases),
        last=len(case.phases) - 1,
        drain="".join(f"{phase.drain:d}" for phase in reversed(case.phases)),
        quiet=f"{case.quiet:d}",
        retains=f"{case.retains:d}",
        timeout=case.timeout_cycles,
        length=sum(lengths),
        sending=" || ".join(inputs) or "0",
        receiving=" || ".join(outputs) or "0",
        **filled,
    )
    return found


def _connections(name: str, signature: wiring.Signature) -> str:
    """Return the ports of a stream, each with its part of the payload."""
    found = ports(wiring.Signature({name: signature.members[name]}))
    return "".join(f"    .{port.name}({port.signal}{port.part}),\n" for port in found)


def _after(case: Case, name: str) -> dict[str, list[int]]:
    """Return, by output, the transfers since the start before each beat of an input."""
    found: dict[str, list[int]] = {}
    for output in {output for phase in case.phases for output in phase.after.get(name, {})}:
        counts, before = [], 0
        for phase in case.phases:
            beats = len(phase.inputs.get(name, []))
            needed = phase.after.get(name, {}).get(output, [0] * beats)
            counts += [before + count for count in needed]
            before += len(phase.outputs.get(output, []))
        found[output] = counts
    return found


def icarus(bench: Path, files: Sequence[Path], *, generation: str) -> list[str]:
    """Compile a testbench, and the ``files`` of the core, with Icarus Verilog.

    ``generation`` is one of :data:`GENERATIONS`. Returns the command for :func:`run`.
    """
    program = bench.with_name(f"{bench.stem}-{generation}.vvp")
    tools.run("IVERILOG", f"-g{generation}", "-o", program, "-s", bench.stem, bench, *files)
    return [tools.find("VVP"), "-n", str(program)]


def verilator(bench: Path, files: Sequence[Path], *, models: Sequence[Path] = ()) -> list[str]:
    """Build a testbench, and the ``files`` of the core, with Verilator.

    ``models`` are libraries: only the modules that are used are read. Returns the command for
    :func:`run`.
    """
    objects = bench.with_name(f"{bench.stem}-verilator")
    libraries = [word for model in models for word in ("-v", model, f"-I{model.parent}")]
    verilate.build(
        objects, "--top-module", bench.stem, "-o", "bench", bench, *files, *libraries, flags=_FLAGS
    )
    return [str(objects / "bench")]


def run(command: Sequence[str], folder: Path, **settings: int) -> int:
    """Run the command of :func:`icarus` or :func:`verilator`; return the cycles.

    Parameters
    ----------
    command
        The command that they returned.
    folder
        The folder of the vectors, see :func:`write`.
    settings
        The testbench's plusargs, such as ``seed``.

    Raises :class:`Mismatch` at the first beat that differs, an unknown or broken handshake, or
    after 5,000 cycles without a transfer.
    """
    plusargs = [f"+{name}={value}" for name, value in settings.items()]
    done = child.run([*command, *plusargs], cwd=folder)
    for line in done.stdout.splitlines():
        if passed := re.match(r"PASS: \w+, (\d+) cycles", line):
            return int(passed[1])
        if line.startswith("FAIL: "):
            raise Mismatch(line.removeprefix("FAIL: "))
    raise RuntimeError(f"the testbench printed no verdict:\n{done.stdout[-1000:]}")
