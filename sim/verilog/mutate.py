"""Mutation score: how many small faults in a core's netlist its testbench detects."""

import re
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.sim import child, tools
from seedbed.sim.case import Case
from seedbed.sim.harness import stream_ports
from seedbed.sim.ports import packed
from seedbed.sim.verilog import verilate

__all__ = ["run"]

#: Runs the case on each mutant.
MAIN = Path(__file__).with_name("mutate.cpp")
#: Seconds for a proof of equivalence; after a time-out the mutant counts as a survivor.
LIMIT = 30.0
_FLAGS = ["-CFLAGS", "-std=c++17 -O0 -I.."]


def _mutants(top: str, text: str, *, count: int, seed: int, folder: Path) -> list[str]:
    """Write ``mutants.v``, all mutants selected by the input ``mutsel``; return the mutations."""
    (folder / "core.v").write_text(text)
    # 0 selects the unmodified core. Registers are left out: a mutation of a register's output would
    # change its initial value; a mutation of the logic before it has the same effect. A memory's
    # cell has ports, such as its reset, that Yosys does not accept in every state.
    bits = (count + 1).bit_length()
    (folder / "mutate.ys").write_text(
        f"read_verilog core.v\nprep -flatten -top {top}\nwrite_rtlil prepared.il\n"
        f"mutate -list {count} -seed {seed} -ctrl mutsel {bits} 1 -o mutants.ys "
        "t:$dff* t:$mem* %u %n\n"
        f"script mutants.ys\nrename {top} top\nwrite_verilog mutants.v\n"
    )
    tools.run("YOSYS", "-q", "-s", "mutate.ys", cwd=folder)
    return [line.strip() for line in (folder / "mutants.ys").read_text().splitlines() if line]


def _stimulus(case: Case) -> str:
    lines = [f"case {case.quiet:d} {case.retains:d}"]
    for phase in case.phases:
        lines.append(f"phase {phase.drain:d}")
        for name, payloads in (phase.inputs | phase.outputs).items():
            lines.append(" ".join(["port", name, *(f"{payload:x}" for payload in payloads)]))
        for name, counts in phase.after.items():
            for output, each in counts.items():
                lines.append(" ".join(["after", name, output, *map(str, each)]))
    return "\n".join(lines) + "\n"


def _ports(signature: wiring.Signature) -> str:
    lists: dict[str, list[str]] = {"INPUTS": [], "OUTPUTS": []}
    for name, flow in stream_ports(signature):
        lists["INPUTS" if flow is In else "OUTPUTS"].append(f"P({name})")
    return "".join(f"#define {name}(P) {' '.join(ports)}\n" for name, ports in lists.items())


def _build(folder: Path) -> Path:
    objects = folder / "obj"
    # Objects of an interrupted build would be used as they are.
    shutil.rmtree(objects, ignore_errors=True)
    verilate.build(
        objects, "--top-module", "top", "-o", "bench", "mutants.v", MAIN.resolve(),
        flags=_FLAGS, cwd=folder,
    )  # fmt: skip
    return objects.resolve() / "bench"


def equivalent(top: str, mutation: str, folder: Path) -> bool:
    """Return whether yosys proves that a mutant is equivalent to the core for all inputs.

    The proof is by induction over pairs of equally named registers and wires. ``False`` means that
    there is no proof within ``LIMIT`` seconds.
    """
    plain = re.sub(r" -ctrl mutsel \d+ \d+", "", mutation)
    (folder / "equivalent.ys").write_text(
        f"read_rtlil prepared.il\nmemory_map\nrename {top} gold\ndesign -stash gold\n"
        f"read_rtlil prepared.il\n{plain}\nmemory_map\nrename {top} gate\ndesign -stash gate\n"
        "design -copy-from gold gold\ndesign -copy-from gate gate\n"
        "equiv_make gold gate both\nhierarchy -top both\nopt_clean\n"
        "equiv_simple -undef\nequiv_induct -undef\nequiv_status -assert\n"
    )
    try:
        tools.run("YOSYS", "-q", "-s", "equivalent.ys", cwd=folder, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return False
    except RuntimeError as error:
        # Yosys gives up where a mutation joins registers that start with different values.
        if not any(words in str(error) for words in ("unproven", "Conflicting init values")):
            raise
        return False
    return True


def run(
    core, params, *, verilog: Path, build: Path, count: int = 100, seed: int = 1
) -> dict[str, Any]:
    """Run a core's case on ``count`` mutants of its netlist.

    yosys distributes the mutations evenly over the netlist of the emitted Verilog: a bit of a
    cell's port is inverted, tied, or swapped with another one. The case is the same in every
    simulator. It is run from power-up without and with stalls, then with resets in the middle, and
    once more.

    Parameters
    ----------
    core, params
        An entry of :data:`seedbed.flow.cores.registry.CORES` and its parameters.
    verilog
        The emitted Verilog, see :func:`seedbed.flow.emit.verilog.write`.
    build
        Folder for netlists, the Verilator build and its output.
    count, seed
        How many mutants to draw, and the seed of drawing and of stalls.

    Returns ``figures`` (mutants, killed, score_percent, survivors: those that are not proven
    equivalent to the core), ``equivalent`` and ``killed`` (each mutation, and how it was detected),
    ``seed`` and ``tools``. Mutants that yosys proves equivalent cannot be killed by any bench; they
    do not count for the score.
    Raises ``RuntimeError`` if the unmodified core fails its case, or if a tool fails.
    """
    config = core.configure(params)
    folder = build / core.name
    folder.mkdir(parents=True, exist_ok=True)
    signature = core.signature(config)
    text = f"{verilog.read_text()}\n{packed(core.name, signature)}"
    top = f"{core.name}_packed"
    mutations = _mutants(top, text, count=count, seed=seed, folder=folder)
    case = core.case(config, Random(seed))
    (folder / "case.txt").write_text(_stimulus(case))
    (folder / "ports.h").write_text(_ports(signature))
    bench = _build(folder)
    command = [str(bench), "case.txt", "0", str(len(mutations)), str(seed)]
    done = child.run(command, cwd=folder, stderr=None)
    if done.returncode:
        raise RuntimeError(f"the testbench of the mutants of {core.name} failed, in {folder}")
    printed = done.stdout
    (folder / "verdicts.txt").write_text(printed)
    verdicts = [line.split(" ", 2)[1:] for line in printed.splitlines()]
    if len(verdicts) != len(mutations) + 1 or verdicts[0] != ["survives"]:
        raise RuntimeError(f"the unmodified {core.name} fails its case: {' '.join(verdicts[0])}")
    survivors = [m for m, v in zip(mutations, verdicts[1:], strict=True) if v == ["survives"]]
    same = [mutation for mutation in survivors if equivalent(top, mutation, folder)]
    score = len(mutations) - len(survivors)
    return {
        "figures": {
            "mutants": len(mutations) - len(same),
            "killed": score,
            "score_percent": round(100 * score / (len(mutations) - len(same)), 1),
            "survivors": [mutation for mutation in survivors if mutation not in same],
        },
        "equivalent": same,
        "killed": {
            m: v[1] for m, v in zip(mutations, verdicts[1:], strict=True) if m not in survivors
        },
        "seed": seed,
        "tools": {"yosys": tools.version("YOSYS"), "verilator": tools.version("VERILATOR")},
    }
