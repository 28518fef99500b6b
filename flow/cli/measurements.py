"""Commands that measure: ``formal``, ``mutate``, ``measure``, ``statistics`` and ``report``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from seedbed.flow.cores import registry, settings
from seedbed.flow.cores.registry import CORES
from seedbed.flow.report.kinds import KINDS
from seedbed.flow.report.row import load_rows, saved_rows
from seedbed.flow.report.sections import sections
from seedbed.flow.run.files import os_error_path
from seedbed.flow.run.options import BUILD, Build, ConfigFile, CoreName, Settings, show_table
from seedbed.flow.run.progress import status
from seedbed.sim import tools

__all__ = ["formal", "measure", "mutate", "report", "statistics"]

out = Console()
#: Progress; standard output is for results.
err = Console(stderr=True)

Stale = Annotated[
    bool,
    typer.Option(
        "--stale",
        help="Run only the measurements whose committed figures, in docs/figures, are missing or "
        "of an earlier netlist; of checks, such as proofs and simulations, also of an earlier "
        "bench or emitter.",
    ),
]


def _require_kinds(names: list[str] | None) -> None:
    """Raise ``ValueError`` for a kind that there is not."""
    for name in names or ():
        if name not in KINDS:
            raise ValueError(
                f"kind must be one of {', '.join(KINDS)}, not {name!r}"
                f"{registry.suggestion(name, KINDS)}"
            )


def _measure(build: Path, *, stale: bool = False, **selection: Any) -> None:
    """Run the selected measurements that are not cached, and print their tables."""
    from seedbed.flow.report import figures, jobs

    plan = jobs.plan(build, **selection)
    if not plan:
        raise ValueError(
            f"there are no measurements of that kind for {', '.join(selection['cores'])}"
        )
    if stale:
        figures.recall(Path(), plan)
        jobs.elaborate(plan, err)
        found = figures.outdated(plan, figures.load(Path()))
        out.print(f"{len(plan) - len(found)} of {len(plan)} measurements are in {figures.FOLDER}.")
        plan = found
    _print([row.to_json() for row in jobs.measure(plan, err)])


def _print(rows: list[dict[str, Any]]) -> None:
    for section in sections(rows):
        show_table(out, section.header, section.lines, title=section.title)


def formal(core: CoreName, build: Build = BUILD) -> None:
    """Prove a core's properties by k-induction, with covers and failing mutants."""
    _measure(build, kinds={"proof"}, cores={registry.find(core).name})


def mutate(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    build: Build = BUILD,
) -> None:
    """Count the mutants of a core's netlist that its simulation detects.

    Without --set and --config, the core has the small configuration that the registry lists for
    mutation. A large one takes long.
    """
    from seedbed.flow.report import jobs

    found = registry.find(core)
    kind = "mutation"
    plan = jobs.plan(build, kinds={kind}, cores={found.name})
    if set_ or config_:
        params = settings.read(found, set_, config_)
        config = found.configure(params)
        # A configuration of the registry has its name and its cached result.
        plan = [job for job in plan if found.configure(job.params) == config] or [
            jobs.Job(kind=kind, core=found.name, config="given", params=params, build=build)
        ]
    _print([row.to_json() for row in jobs.measure(plan, err)])


def measure(
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Measure this kind, one of {', '.join(KINDS)}. The option may be repeated; "
            "without it, all kinds are measured."
        ),
    ] = None,
    core: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure this core. The option may be repeated; without it, all cores are "
            "measured."
        ),
    ] = None,
    stale: Stale = False,
    build: Build = BUILD,
) -> None:
    """Run the measurements that the registry lists, by kind and core, and print them."""
    _require_kinds(kind)
    cores = {registry.find(name).name for name in core} if core else set(CORES)
    _measure(build, stale=stale, kinds=set(kind) if kind else None, cores=cores)


def statistics(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    bytes_: Annotated[
        int,
        typer.Option("--bytes", min=1000, max=1 << 32, help="The number of bytes to test."),
    ] = 27_000_000,
    build: Build = BUILD,
) -> None:
    """Write a core's words to a file, and test them with dieharder, if it is installed."""
    from seedbed.flow.report import dieharder, jobs

    found = registry.find(core)
    dieharder.require_words(core)
    config = found.configure(settings.read(found, set_, config_))
    tools.find("DIEHARDER")
    with os_error_path(build):
        path = dieharder.write_words(core, config, bytes_, build / "statistics")
    with status(err, f"testing {bytes_:,} bytes of {core}; this takes minutes"):
        lines = dieharder.lines(path, build)
    rows = [[line.name, line.size, f"{line.p:.6f}", line.verdict.lower()] for line in lines]
    show_table(out, ["test", "bits or words", "p-value", "verdict"], rows)
    failed = sum(line.verdict == "FAILED" for line in lines)
    out.print(f"{failed} of {len(lines)} lines failed; the words are in {path}", soft_wrap=True)
    # The same measurement of a full report.
    listed = [
        job
        for job in jobs.plan(build, kinds={"dieharder"}, cores={core})
        if bytes_ == dieharder.LENGTH and found.configure(job.params) == config
    ]
    _print([row.to_json() for row in jobs.measure(listed, err)])


def report(
    quick: Annotated[
        bool, typer.Option("--quick", help="Run only the measurements that take seconds.")
    ] = False,
    all_: Annotated[
        bool,
        typer.Option("--all", help="Run all measurements, also cocotb, proofs and mutation."),
    ] = False,
    stale: Stale = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Measure only this kind, as 'measure' does. It may be repeated."),
    ] = None,
    core: Annotated[
        list[str] | None,
        typer.Option(help="Measure only this core. The option may be repeated."),
    ] = None,
    docs: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Also write docs/figures in this folder, and the generated blocks of its pages.",
        ),
    ] = None,
    build: Build = BUILD,
) -> None:
    """Run the measurements that are not cached, and write the report.

    With --kind, they are all of those kinds. The report is JSON, Markdown, HTML and plots. It
    includes the valid cached results of other commands.
    """
    from seedbed.flow.cli import instantft_rtl, zo_trainer_rtl
    from seedbed.flow.report import checked, figures, jobs
    from seedbed.flow.report import docs as pages
    from seedbed.flow.report import report as document_files
    from seedbed.studies import formats, seedlm, zo

    _require_kinds(kind)
    everything = jobs.plan(build)
    chosen = {registry.find(name).name for name in core} if core else set(CORES)
    wanted = [j for j in everything if j.core in chosen and (not kind or j.kind in kind)]
    if stale:
        docs = docs or Path()
        figures.recall(docs, wanted)
        jobs.elaborate(wanted, err)
        wanted = figures.outdated(wanted, figures.load(docs))
    elif not all_ and not kind:
        wanted = [j for j in wanted if j.main and (not quick or j.kind in jobs.QUICK)]
    jobs.measure(wanted, err)
    folder = build / "demo"
    demos = [*zo.rows(folder), *seedlm.rows(folder), *formats.rows(folder)]
    demos += [*instantft_rtl.rows(folder), *zo_trainer_rtl.rows(folder)]
    demos += checked.rows(build / "tests.xml")
    # What commands of boards have written: this package does not import theirs.
    found = [build / "board" / f"{name}.json" for name in ("report", "memories")]
    demos += load_rows([path for path in found if path.is_file()], saved_rows)
    rows = jobs.cached(everything) + demos
    path = document_files.build(rows, build / "report")
    document = json.loads(path.read_text())
    if docs is not None:
        rows = figures.merged(figures.load(docs), rows)
        figures.save(docs, rows)
        figures.recall(docs, everything)
        jobs.elaborate(figures.published(everything, rows), err)
        figures.remember(docs, everything)
        committed = document_files.document(rows, lambda row: figures.is_stale(row, build))
        pages.docs(committed, docs)
    for line in document_files.summary(document["rows"]):
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    names = "report.html, report.md, report.json and plots"
    out.print(f"The tables are in {path.parent}: {names}.", soft_wrap=True)
