"""Proofs by k-induction, each with covers that are reached and mutants that must fail."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Module
from amaranth.lib import wiring

from seedbed.sim import tools

__all__ = ["Mutant", "Proof", "ProofFailed", "check", "run"]


class ProofFailed(AssertionError):
    """Something that was to be proven is not; the message says what, and where the logs are."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One way to break a component: ``old``, which its source holds once, becomes ``new``.

    The source is that of the component's own module, or of ``part``, which that module imports;
    others that import from it do not see the change.
    """

    name: str
    old: str
    new: str
    part: type | None = None

    def apply(self, component: type[wiring.Component]) -> type[wiring.Component]:
        """Return the broken component; raises ``ValueError`` where the source does not fit."""
        part = self.part or component
        source = inspect.getsource(inspect.getmodule(part))
        if source.count(self.old) != 1:
            raise ValueError(
                f"mutant {self.name!r}: {part.__module__} must hold {self.old!r} once, "
                f"not {source.count(self.old)} times"
            )
        broken = _load(part, source.replace(self.old, self.new))
        if part is component:
            return getattr(broken, component.__name__)
        around = _load(component, inspect.getsource(inspect.getmodule(component)))
        setattr(around, part.__name__, getattr(broken, part.__name__))
        return getattr(around, component.__name__)


def _load(part: type, source: str) -> ModuleType:
    """Return the module of ``part``, made of another source."""
    module = ModuleType(part.__module__)
    exec(compile(source, inspect.getfile(part), "exec"), vars(module))
    return module


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One statement about one configuration of a component.

    Parameters
    ----------
    name, core, says
        What to call it, whose it is, and the statement as a sentence.
    component, config
        The component's class and its configuration.
    harness
        From an instance to a module around it that drives its inputs (AnySeq, AnyConst), states
        what may be assumed, and asserts and covers. See :mod:`seedbed.sim.proofs.bench`.
    depth
        k of the induction.
    reach
        Cycles within which every cover must be reached and every mutant must fail.
    mutants
        What must *not* be provable. A proof without one proves nothing: an undriven clock or an
        assumption that contradicts another makes everything true.
    """

    name: str
    core: str
    says: str
    component: type[wiring.Component]
    config: Any
    harness: Callable[[wiring.Component], Module]
    depth: int = 1
    reach: int = 12
    mutants: tuple[Mutant, ...]

    def rtlil(self, mutant: Mutant | None = None) -> str:
        """Return the harness, around the component or its mutant, as RTLIL."""
        component = mutant.apply(self.component) if mutant else self.component
        module = self.harness(component(self.config))
        return rtlil.convert(module, name="top", ports=[ClockSignal()], emit_src=False)


OPTIONS = {"prove": "depth {depth}", "cover": "depth {reach}", "bmc": "depth {reach}\nexpect fail"}


def _write(proof: Proof, folder: Path) -> dict[str, Mutant | None]:
    """Write the task file and each task's design; return the tasks and what they break."""
    tasks = {"prove": None, "cover": None} | {f"m{k}": m for k, m in enumerate(proof.mutants)}
    lines = ["[tasks]", *tasks, "[options]"]
    for task, mutant in tasks.items():
        (folder / f"{task}.il").write_text(proof.rtlil(mutant))
        mode = "bmc" if mutant else task
        for option in [f"mode {mode}", "timeout 100", *OPTIONS[mode].splitlines()]:
            lines.append(f"{task}: {option.format(depth=proof.depth, reach=proof.reach)}")
    lines += ["[engines]", "smtbmc yices", "[script]"]
    lines += [f"{task}: read_rtlil {task}.il" for task in tasks]
    lines += [
        "prep -flatten -top top",
        "opt_mem",
        "memory_map -rom-only",
        "[files]",
        *(f"{task}: {task}.il" for task in tasks),
    ]
    (folder / "proof.sby").write_text("\n".join(lines) + "\n")
    return tasks


def _status(folder: Path, task: str) -> str:
    try:
        return (folder / f"proof_{task}" / "status").read_text().split()[0]
    except (OSError, IndexError):
        return "ERROR"


def run(proof: Proof, build: Path) -> dict[str, Any]:
    """Run one proof below ``build`` and return what came of it, ready for JSON.

    ``status`` is ``proven`` only if induction closes, every cover is reached (there is at least
    one) and every mutant fails; anything else, "unknown" included, is ``failed``, and ``why`` says
    what. Raises ``ToolMissing``, or ``RuntimeError`` if the tools themselves break down.
    """
    folder = build / proof.name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("proof_*/status"):
        old.unlink()
    tasks = _write(proof, folder)
    for tool in ("YOSYS", "SMTBMC", "WITNESS", "YICES"):
        tools.find(tool)
    try:
        # With one process at a time, as on one core, sby waits for ever behind one that it stopped.
        tools.run("SBY", "-f", "-j", "2", "proof.sby", cwd=folder)
    except RuntimeError:
        # Some task did not end as expected: the status files tell which one.
        if all(_status(folder, task) == "ERROR" for task in tasks):
            raise
    status = {task: _status(folder, task) for task in tasks}
    why = [] if status["prove"] == "PASS" else [f"induction: {status['prove']}"]
    log = folder / "proof_cover" / "logfile.txt"
    reached = log.read_text().count("Reached cover statement") if log.exists() else 0
    if status["cover"] != "PASS" or not reached:
        why.append(f"covers: {status['cover']}, {reached} reached")
    survivors = [m.name for task, m in tasks.items() if m and status[task] != "FAIL"]
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
