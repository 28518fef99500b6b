"""Committed figures: the rows of ``docs/figures``, a file a core, and whether they are stale."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from seedbed.flow.cores import registry
from seedbed.flow.cores.configurations import small_configurations
from seedbed.flow.report import mapped
from seedbed.flow.report.jobs import evidence
from seedbed.flow.report.kinds import CHECKS, ELABORATED, Job, digest, elaborated, elaboration
from seedbed.flow.report.row import Row, load_rows, saved_rows
from seedbed.flow.run.cache import memo
from seedbed.flow.run.files import write_atomic

__all__ = [
    "FOLDER", "NETLISTS", "is_stale", "load", "merged", "outdated", "published", "recall",
    "remember", "save",
]  # fmt: skip

#: Where the figures are, below the folder of the project.
FOLDER = Path("docs/figures")
#: By configuration: the hash of everything that its elaborated design depends on, and its own.
NETLISTS = Path("docs/netlists.json")
#: Kinds whose rows are a table of all cores, in a file of its own.
TABLES = ("energy", "testu01", "crush", "memory")


def load(root: Path) -> list[Row]:
    """Return the committed rows, by core in the order of the registry."""
    order = {name: k for k, name in enumerate(registry.CORES)}
    rows = load_rows((root / FOLDER).glob("*.json"), saved_rows)
    return sorted(rows, key=lambda row: order.get(row.core, len(order)))


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Return ``old`` with the rows of ``new`` in place of earlier ones of the same measurement.

    Rows of cores whose configuration is no longer in the registry are left out.
    """
    found = {_key(row): row for row in old if _listed(row)}
    return [*(found | {_key(row): row for row in new}).values()]


def save(root: Path, rows: Iterable[Row]) -> list[Path]:
    """Write the rows to ``root``, a file a core or a table; return the paths."""
    files: dict[str, list[Row]] = {}
    for row in rows:
        # Tables that compare cores have one file each.
        name = row.kind if row.kind in TABLES else row.core
        files.setdefault(name.replace(" ", "_"), []).append(row)
    return [
        write_atomic(
            root / FOLDER / f"{name}.json",
            json.dumps({"rows": [row.to_json() for row in found]}, indent=1) + "\n",
        )
        for name, found in sorted(files.items())
    ]


def _designs(jobs: Iterable[Job]) -> Iterator[tuple[str, Job, str]]:
    """Yield name, job and the hash of what the design depends on, of each configuration."""
    for name, job in {f"{j.core}, {j.config}": j for j in jobs if j.kind in ELABORATED}.items():
        yield name, job, digest(elaboration(job))


def remember(root: Path, jobs: Iterable[Job]) -> Path:
    """Write the hash of each job's design to ``root``, of those that have been elaborated.

    Of others, what was written before stays, and those that are not in the registry are left out.
    """
    known = _netlists(root)
    found = {}
    for name, job, of in _designs(jobs):
        netlist = elaborated(job, known=True)
        if netlist or name in known:
            found[name] = f"{of} {netlist}" if netlist else known[name]
    return write_atomic(root / NETLISTS, json.dumps(found, indent=1) + "\n")


def _netlists(root: Path) -> dict[str, str]:
    path = root / NETLISTS
    return json.loads(path.read_text()) if path.exists() else {}


def published(jobs: Iterable[Job], rows: Iterable[Row]) -> list[Job]:
    """Return the jobs that have a row."""
    keys = {_key(row) for row in rows}
    return [job for job in jobs if _key(job) in keys]


def recall(root: Path, jobs: Iterable[Job]) -> None:
    """Put the hashes of ``root`` into the caches of the jobs, where nothing has changed since.

    Those need not be elaborated, which takes minutes for all of them. There may be no hashes.
    """
    known = _netlists(root)
    for name, job, of in _designs(jobs):
        before, netlist = known.get(name, " ").split(" ")
        if before == of:
            put: Callable[[], dict[str, Any]] = partial(dict, hash=netlist)
            memo(job.build / "cache", "netlist", elaboration(job), put)


def is_stale(row: Row, build: Path) -> bool:
    """Return whether a row is of another netlist than today's."""
    params = _params(row)
    if row.kind not in ELABORATED or params is None:
        return False
    job = Job(kind=row.kind, core=row.core, config=row.config, build=build, params=params)
    return row.netlist != elaborated(job)


def outdated(jobs: Iterable[Job], rows: Iterable[Row]) -> list[Job]:
    """Return the jobs that have no row, or a row of another netlist.

    Of a check, the bench counts as well: one whose row has today's
    :func:`~seedbed.flow.report.jobs.evidence` would give it again.
    """
    known = {_key(row): row for row in rows}

    def is_current(job: Job) -> bool:
        row = known.get(_key(job))
        if row is None:
            return False
        if job.kind in CHECKS:
            return row.evidence == evidence(job)
        return job.kind not in ELABORATED or row.netlist == elaborated(job)

    return [job for job in jobs if not is_current(job)]


def _key(of: Row | Job) -> tuple[str, str, str, str | None]:
    return of.kind, of.core, of.config, of.target


def _params(row: Row) -> Mapping[str, Any] | None:
    """Return the parameters of a listed configuration; a job's row may name its data after a comma.

    ``None`` if it is not listed.
    """
    if row.kind == "icarus":
        small = {(of.name, f"small, {name}"): params for of, name, params in small_configurations()}
        return small.get((row.core, row.config))
    if row.kind in ("mapping", "netlist"):
        is_listed = (row.kind, row.core, row.target) in {*mapped.checks()}
        return mapped.params(row.core) if is_listed else None
    core = registry.CORES.get(row.core)
    variants = core.variants if core else {}
    variant = variants.get(row.config) or variants.get(row.config.rpartition(", ")[0])
    return variant.params if variant else None


def _listed(row: Row) -> bool:
    """Return whether a core's configuration is still listed; other rows always are."""
    is_design = row.kind in ELABORATED and row.core in registry.CORES
    return not is_design or _params(row) is not None
