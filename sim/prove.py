"""Proofs by k-induction, each with covers that are reached and mutants that must fail."""

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Module
from amaranth.lib import wiring

from seedbed.sim import child, tools

__all__ = ["Mutant", "Proof", "ProofFailed", "check", "run"]


class ProofFailed(AssertionError):
    """A proof failed; the message says which, and where the logs are."""


@dataclass(frozen=True)
class Mutant:
    """An error injected into a component: ``old``, which is in its source once, becomes ``new``.

    The source is that of the component's module, or of the class ``part``, which that module
    imports; other modules are unchanged.
    """

    name: str
    old: str
    new: str
    part: Callable[..., Any] | None = None

    def apply(self, component: type[wiring.Component]) -> type[wiring.Component]:
        """Return the mutant; raise ``ValueError`` unless ``old`` is in the source once."""
        part = self.part or component
        source = inspect.getsource(sys.modules[part.__module__])
        if source.count(self.old) != 1:
            raise ValueError(
                f"mutant {self.name!r}: {part.__module__} must hold {self.old!r} once, "
                f"not {source.count(self.old)} times"
            )
        mutant_module = _load(part, source.replace(self.old, self.new))
        if part is component:
            return getattr(mutant_module, component.__name__)
        parent = _load(component, inspect.getsource(sys.modules[component.__module__]))
        setattr(parent, part.__name__, getattr(mutant_module, part.__name__))
        return getattr(parent, component.__name__)


def _load(part: Callable[..., Any], source: str) -> ModuleType:
    """Return the module of ``part`` with another source."""
    module = ModuleType(part.__module__)
    # For imports within a package, as Amaranth's have.
    module.__package__ = part.__module__.rpartition(".")[0]
    exec(compile(source, inspect.getfile(part), "exec"), vars(module))
    return module


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One property of one configuration of a component.

    Parameters
    ----------
    name, says
        Its name, and the property as a sentence.
    component, config
        The component's class and its configuration.
    harness
        A function from an instance to a module that drives its inputs (AnySeq, AnyConst), and has
        the assumptions, assertions and covers. See :mod:`seedbed.sim.proofs.bench`.
    depth
        k of the induction.
    reach
        Cycles within which every cover must be reached and every mutant must fail.
    mutants
        Components for which the proof must fail. They are required, because an undriven clock or
        contradictory assumptions would make every property true.
    core
        Its core. :mod:`seedbed.sim.proofs` sets it.
    """

    name: str
    says: str
    component: type[wiring.Component]
    config: Any
    harness: Callable[[wiring.Component], Module]
    depth: int = 1
    reach: int = 12
    mutants: tuple[Mutant, ...]
    core: str = ""

    def rtlil(self, mutant: Mutant | None = None) -> str:
        """Return the harness with the component or its mutant, as RTLIL."""
        component = mutant.apply(self.component) if mutant else self.component
        module = self.harness(component(self.config))
        return rtlil.convert(module, name="top", ports=[ClockSignal()], emit_src=False)


#: Converts Amaranth's design to one state machine: memories have no clocked reads, every register
#: is initialised or free, and undriven signals are free.
PREPARE = """\
read_rtlil {name}.il
prep -flatten -top top
opt_mem
memory_map -rom-only
memory_nordff
async2sync
chformal -live -fair -{left_out} -remove
formalff -setundef -clk2ff -ff2anyinit
setundef -undriven -anyseq
opt -fast
dffunmap
write_smt2 -wires {name}.smt2
design -reset
"""
#: Seconds per call of the solver.
TIMEOUT = 100


def _prepare(proof: Proof, folder: Path) -> dict[str, Mutant]:
    """Write every design as SMT-LIB, with one start of yosys; return the mutants by file name."""
    mutants = {f"mutant_{k}": mutant for k, mutant in enumerate(proof.mutants)}
    script = ""
    for name in ("prove", "cover", *mutants):
        (folder / f"{name}.il").write_text(proof.rtlil(mutants.get(name)))
        script += PREPARE.format(name=name, left_out="assert" if name == "cover" else "cover")
    (folder / "prepare.ys").write_text(script)
    tools.run("YOSYS", "-q", "-l", "prepare.log", "-s", "prepare.ys", cwd=folder)
    return mutants


def _solve(folder: Path, name: str, steps: int, *mode: str) -> tuple[str, str]:
    """Run the solver on ``name``; return PASS, FAIL or ERROR, and its output.

    ``folder`` has the output as a log, and the trace of a failure.
    """
    stem = "".join([name, *mode])
    # One trace, or one for each cover.
    trace = f"{stem}%.vcd" if "-c" in mode else f"{stem}.vcd"
    command = [
        tools.find("SMTBMC"), "-s", "yices", "--presat", "--unroll", "--noprogress",
        "-t", str(steps), *mode, "--dump-vcd", trace, f"{name}.smt2",
    ]  # fmt: skip
    log = folder / f"{stem}.log"
    # With the solver's option for a time-out it takes twice as long.
    with log.open("w") as file, suppress(subprocess.TimeoutExpired):
        child.run(command, cwd=folder, stdout=file, timeout=TIMEOUT)
    output = log.read_text()
    verdicts = {"Status: PASSED": "PASS", "Status: FAILED": "FAIL"}
    return next((verdicts[text] for text in verdicts if text in output), "ERROR"), output


def run(proof: Proof, build: Path) -> dict[str, Any]:
    """Run one proof below ``build`` and return its result, ready for JSON.

    ``status`` is ``proven`` only if the induction holds, every cover is reached (there is at least
    one) and every mutant fails. Otherwise, also after a time-out, it is ``failed``, and ``why`` has
    the reasons. Raises ``ToolMissing``, or ``RuntimeError`` if yosys fails.
    """
    folder = build / proof.name
    folder.mkdir(parents=True, exist_ok=True)
    for tool in ("YOSYS", "SMTBMC", "YICES"):
        tools.find(tool)
    mutants = _prepare(proof, folder)
    why = []
    for part, *mode in (("base case",), ("induction", "-i")):
        status, _ = _solve(folder, "prove", proof.depth, *mode)
        if status != "PASS":
            why.append(f"{part}: {status}")
    status, output = _solve(folder, "cover", proof.reach, "-c")
    reached = output.count("Reached cover statement")
    if status != "PASS" or not reached:
        why.append(f"covers: {status}, {reached} reached")
    survivors = [m.name for k, m in mutants.items() if _solve(folder, k, proof.reach)[0] != "FAIL"]
    why += [f"mutant survives: {name}" for name in survivors]
    if not proof.mutants:
        why.append("no mutant")
    return {
        "proof": proof.name,
        "core": proof.core,
        "says": proof.says,
        "config": str(proof.config),
        "status": "failed" if why else "proven",
        "why": why,
        "depth": proof.depth,
        "covers_reached": reached,
        "mutants_killed": [m.name for m in proof.mutants if m.name not in survivors],
        "tools": {"yosys": tools.version("YOSYS"), "yices": tools.version("YICES")},
    }


def check(
    proofs: Iterable[Proof], build: Path, progress: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Run ``proofs`` one after the other and return their results.

    ``progress`` is called with each proof's name before it is run. Raises :class:`ProofFailed`,
    after all have run, with a line for each that is not proven.
    """
    results = []
    for proof in proofs:
        progress(proof.name)
        results.append(run(proof, build))
    failed = [f"{r['proof']}: {'; '.join(r['why'])}" for r in results if r["status"] != "proven"]
    if failed:
        raise ProofFailed("\n".join([*failed, f"the logs are below {build}"]))
    return results
