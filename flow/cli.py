"""The command line: every core and every step by name."""

import json
import os
import signal
import sys
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from platformdirs import user_cache_path
from rich.console import Console
from rich.table import Table

from seedbed.flow import registry, settings, tables, targets, verilog
from seedbed.flow.compress import cli as checkpoints
from seedbed.flow.instantft_cli import demo_instantft
from seedbed.flow.progress import status
from seedbed.flow.registry import CORES
from seedbed.flow.rows import KINDS, in_cocotb, plain
from seedbed.sim import tools
from seedbed.sim.harness import Stalls, simulate

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="RTL cores with which a small FPGA learns: elaborate, simulate, prove, synthesize.",
)
out = Console()
#: Progress and errors, so that standard output holds results alone.
err = Console(stderr=True)

CoreName = Annotated[str, typer.Argument(metavar="CORE", help="A name that 'seedbed list' shows.")]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter; may be repeated."),
]
Build = Annotated[Path, typer.Option(help="Folder of intermediate files and kept results.")]
BUILD = Path("build")


@app.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """Without a command, show which there are."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_cores(
    names: Annotated[bool, typer.Option("--names", help="Print the names alone.")] = False,
) -> None:
    """List the cores, their parameters and default values."""
    if names:
        print("\n".join(CORES))
        return
    table = Table("core", "what it is", "parameters", "source")
    for core in CORES.values():
        table.add_row(core.name, core.title, settings.shown(core), core.paper)
    out.print(table)


@app.command("verilog")
def emit(
    core: CoreName,
    set_: Settings = [],  # noqa: B006 - typer's way to say "none"
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.")] = (
        BUILD / "verilog"
    ),
) -> None:
    """Write a core's Verilog, whole or not at all, and print the file's name."""
    found = registry.find_verilog(core)
    print(verilog.write(found, settings.read(found, set_), output))


@app.command()
def sim(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    vcd: Annotated[Path | None, typer.Option(help="Write a waveform.")] = None,
    seed: Annotated[int, typer.Option(help="Of stimulus and stalls.")] = 1,
) -> None:
    """Run a core against its golden model, bit for bit, with every sort of stalls."""
    found = registry.find(core)
    config = found.configure(settings.read(found, set_))
    case = found.case(config, Random(seed))
    inputs, outputs = found.streams(config)
    table = Table("stalls", "cycles", *inputs, *outputs)
    with status(err, f"simulating {core}") as tell:
        for stalls in Stalls:
            tell(f"simulating {core}, stalls: {stalls.value}")
            result = simulate(found.component(config), case, stalls=stalls, seed=seed, vcd=vcd)
            vcd = None
            counts = [str(len(moved)) for moved in result.transfers.values()]
            table.add_row(stalls.value, str(result.cycles), *counts)
    out.print(table)
    out.print(f"{core} matches its model bit for bit, seed {seed}.")


@app.command()
def cocotb(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    seed: Annotated[int, typer.Option(help="Of stimulus and pauses.")] = 1,
    waves: Annotated[bool, typer.Option(help="Record a waveform.")] = False,
    build: Build = BUILD,
) -> None:
    """Run a core's emitted Verilog in cocotb under Verilator, with random pauses."""
    found = registry.find(core)
    params = settings.read(found, set_)
    path = verilog.write(found, params, build / "verilog", kept=build / "cache")
    with status(err, f"building and running {core} under Verilator"):
        result = in_cocotb(found, params, path, seed=seed, build=build, waves=waves)
    out.print(f"{core}: {result['tests']} tests, {result['cycles']} cycles, seed {seed}: passed.")
    if waves:
        out.print(f"waveform: {result['waves']}")


@app.command("synth")
def synthesize(
    core: CoreName,
    target: Annotated[str, typer.Option(help=f"One of {', '.join(targets.TARGETS)}.")],
    set_: Settings = [],  # noqa: B006
    seeds: Annotated[int, typer.Option(help="Seeds of place and route; 0 leaves it out.")] = 3,
    ready: Annotated[
        str, typer.Option(help="What ready comes from: register, or logic (a LUT of four).")
    ] = "register",
    floorplan: Annotated[bool, typer.Option(help="Fix sites where the project does.")] = True,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    build: Build = BUILD,
) -> None:
    """Synthesize a core; place and route it where an open tool can."""
    from seedbed.flow import place, synth

    found = registry.find(core)
    params = settings.read(found, set_)
    targets.find(target)
    path = verilog.write(found, params, build / "verilog", kept=build / "cache")
    with status(err, f"synthesizing {core} for {target}") as tell:
        counts = synth.synthesize(path, core, target=target, build=build / "synth")
        fmax = None
        if seeds:
            fmax = place.place(
                path, core, target=target, seeds=seeds, build=build / "synth",
                ready=ready, floorplanned=floorplan, progress=tell,
            )  # fmt: skip
    result = {
        "core": core,
        "params": plain(found, params),
        "target": target,
        "ready": ready,
        "floorplan": floorplan,
        "tools": counts["tools"] | (fmax["tools"] if fmax else {}),
        **{name: counts[name] for name in ("lut", "lut_carry", "ff", "bram", "dsp", "cells")},
        "fmax_mhz": fmax and {name: fmax[name] for name in ("median", "min", "max", "seeds")},
    }
    if json_:
        print(json.dumps(result, indent=1))
        return
    table = Table("core", "target", "LUT", "FF", "BRAM", "DSP", "Fmax in MHz, median (range)")
    speed = "n/a"
    if fmax:
        speed = f"{fmax['median']:.0f} ({fmax['min']:.0f} to {fmax['max']:.0f})"
    table.add_row(core, target, *(str(counts[n]) for n in ("lut", "ff", "bram", "dsp")), speed)
    out.print(table)
    cells = [f"{count} {cell}" for cell, count in sorted(counts["cells"].items())]
    if counts["lut_carry"]:
        cells.append(f"{counts['lut_carry']} LUT that lead into carry chains")
    out.print(", ".join(cells))


@app.command()
def constrain(
    netlist: Annotated[Path, typer.Argument(help="A flat design: synth_ecp5 -json.")],
    instance: Annotated[str, typer.Option(help="Path of the urng_array in it: train.noise.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The design with sites.")],
    target: Annotated[str, typer.Option(help="A target with a floorplan.")] = "ecp5",
    at: Annotated[
        str | None, typer.Option(help="Column,row of the floorplan's corner: 80,11.")
    ] = None,
) -> None:
    """Fix where the lanes of a urng_array stand in a design of yours, for nextpnr."""
    from seedbed.flow.constrain import constrain

    corner = None
    if at is not None:
        column, comma, row = at.partition(",")
        if not (comma and column.isdecimal() and row.isdecimal()):
            raise ValueError(f"at must be a column and a row, such as 80,11, not {at!r}")
        corner = int(column), int(row)
    cells = constrain(netlist, instance, target=target, at=corner, out=output)
    out.print(f"{cells} cells of {instance} have sites in {output}", soft_wrap=True)


def _measured(build: Path, **chosen: Any) -> None:
    """Measure what is chosen, where it is not measured already, and print its tables."""
    from seedbed.flow import jobs

    plan = jobs.plan(build, **chosen)
    if not plan:
        raise ValueError(f"nothing of that kind is measured of {', '.join(chosen['cores'])}")
    _print([row.to_json() for row in jobs.measure(plan, err)])


def _print(rows: list[dict[str, Any]]) -> None:
    for section in tables.sections(rows):
        table = Table(*section.header, title=section.title, title_justify="left")
        for line in section.lines:
            table.add_row(*line)
        out.print(table)


@app.command()
def formal(core: CoreName, build: Build = BUILD) -> None:
    """Prove what is claimed of a core: by induction, with covers and failing mutants."""
    _measured(build, kinds={"proof"}, cores={registry.find(core).name})


@app.command()
def mutate(core: CoreName, build: Build = BUILD) -> None:
    """Count how many mutants of a core's netlist its simulator bench notices."""
    _measured(build, kinds={"mutation"}, cores={registry.find(core).name})


@app.command()
def measure(
    kind: Annotated[
        list[str] | None, typer.Option(help=f"Of {', '.join(KINDS)}; all by default.")
    ] = None,
    core: Annotated[list[str] | None, typer.Option(help="All by default.")] = None,
    build: Build = BUILD,
) -> None:
    """Measure what the registry names, of the chosen kinds and cores, and print it."""
    for name in kind or ():
        if name not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {name!r}")
    cores = {registry.find(name).name for name in core} if core else set(CORES)
    _measured(build, kinds=set(kind) if kind else None, cores=cores)


@app.command()
def statistics(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    bytes_: Annotated[int, typer.Option("--bytes", help="Of the file of words.")] = 27_000_000,
    build: Build = BUILD,
) -> None:
    """Write a core's words to a file and test them with dieharder, where that is installed."""
    from seedbed.flow import dieharder, jobs

    found = registry.find(core)
    config = found.configure(settings.read(found, set_))
    tools.find("DIEHARDER")
    path = dieharder.write_words(core, config, bytes_, build / "statistics")
    with status(err, f"testing {bytes_:,} bytes of {core}: minutes"):
        lines = dieharder.lines(path, build)
    table = Table("test", "bits or words", "p-value", "verdict")
    for line in lines:
        table.add_row(line.name, str(line.size), f"{line.p:.6f}", line.verdict.lower())
    out.print(table)
    failed = sum(line.verdict == "FAILED" for line in lines)
    out.print(f"{failed} of {len(lines)} lines failed; the words are in {path}", soft_wrap=True)
    # What a report of everything has of it, too.
    kept = [
        job
        for job in jobs.plan(build, kinds={"dieharder"}, cores={core})
        if bytes_ == dieharder.LENGTH and found.configure(job.params) == config
    ]
    _print([row.to_json() for row in jobs.measure(kept, err)])


@app.command()
def report(
    quick: Annotated[bool, typer.Option("--quick", help="Measure what takes seconds.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Also cocotb, proofs, mutation.")] = False,
    docs: Annotated[
        Path | None, typer.Option(help="Also fill the generated blocks below this folder.")
    ] = None,
    build: Build = BUILD,
) -> None:
    """Measure what is not measured yet, and write the report: JSON, Markdown, HTML and plots.

    What other commands measured, and still holds, is in it too.
    """
    from seedbed.flow import demo, instantft_rtl_demo, jobs, seedlm_demo
    from seedbed.flow import docs as pages
    from seedbed.flow import report as drawn

    everything = jobs.plan(build)
    main = [job for job in everything if job.main and (not quick or job.kind in jobs.QUICK)]
    jobs.measure(everything if all_ else main, err)
    kept = build / "demo"
    demonstrated = [*demo.rows(kept), *seedlm_demo.rows(kept), *instantft_rtl_demo.rows(kept)]
    path = drawn.build(jobs.kept(everything) + demonstrated, build / "report")
    document = json.loads(path.read_text())
    if docs is not None:
        pages.docs(document, docs)
    _print(document["rows"])
    out.print(f"The report is in {path.parent}: report.html, report.md, report.json and plots.")


app.add_typer(checkpoints.app)
demos = typer.Typer(help="Whole jobs on real data.")
app.add_typer(demos, name="demo")
demos.command("instantft")(demo_instantft)


@demos.command("zo")
def demo_zo(
    data: Annotated[
        Path | None, typer.Option(help="Folder of MNIST's IDX files; else scikit-learn's digits.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs a row of the table.")] = 16,
    build: Build = BUILD,
) -> None:
    """Fine-tune a small classifier by zeroth-order SGD with five sources of perturbations."""
    from seedbed.flow import demo

    folder = build / "demo" / ("digits" if data is None else "mnist")
    demo.run_zo(data, folder, seeds=seeds, console=out)


@demos.command("seedlm")
def demo_seedlm(
    data: Annotated[
        Path | None, typer.Option(help="Folder of MNIST's IDX files; else scikit-learn's digits.")
    ] = None,
    build: Build = BUILD,
) -> None:
    """Compress a trained network, and multiply a layer of it in the emitted Verilog."""
    from seedbed.flow import seedlm_demo

    folder = build / "demo" / ("digits" if data is None else "mnist")
    seedlm_demo.run_seedlm(data, folder, build=build, console=out)


@app.command()
def doctor() -> None:
    """Show which tools there are, which versions, and what brings one that is missing."""
    table = Table("tool", "called as", "version, or how to get it")
    missing = 0
    with status(err, "asking the tools: a first call of each may take half a minute") as tell:
        for name, (default, remedy) in tools.TOOLS.items():
            called = os.environ.get(name, default)
            tell(f"asking {called}: its first call may take half a minute")
            try:
                table.add_row(name, called, tools.version(name))
            except tools.ToolMissing:
                missing += 1
                table.add_row(name, called, f"[red]missing: {remedy}[/red]")
            except RuntimeError as problem:
                missing += 1
                table.add_row(name, called, f"[red]broken: {problem}[/red]")
    for name, (default, remedy) in tools.OPTIONAL.items():
        called = os.environ.get(name, default)
        found = (
            tools.version(name) if tools.there(name) else f"not there, for one command: {remedy}"
        )
        table.add_row(name, called, found)
    out.print(table)
    kept = f"Caches are in {user_cache_path()}; XDG_CACHE_HOME names another folder."
    out.print(kept, soft_wrap=True)
    if missing:
        raise typer.Exit(1)


#: What typer raises for a command line that it cannot read; it exports only classes below it.
UsageError = typer.BadParameter.__base__


def main() -> None:
    """Run the command line: what is refused is one sentence on standard error and status 2."""
    handler = signal.getsignal(signal.SIGINT)
    interrupted = False

    def interrupt(number: int, frame: Any) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        tools.setup_environment()
        # What typer makes of an interruption from the keyboard is 130.
        code = app(standalone_mode=False) or 0
    except BaseException as problem:
        # A package that is half loaded, or a library, may have made another exception of it.
        if interrupted or isinstance(problem, KeyboardInterrupt | typer.Abort):
            code = 130
        else:
            code = _refuse(problem)
    # From here on there is nothing to clean up, and nothing that a traceback could tell.
    signal.signal(signal.SIGINT, signal.SIG_DFL if code == 130 else handler)
    if code == 130:
        err.print("interrupted: what was finished is kept")
    sys.exit(code)


def _refuse(problem: BaseException) -> int:
    """Print what is wrong in one sentence, and return the exit status."""
    sentence = str(problem)
    if isinstance(problem, UsageError):
        sentence = problem.format_message()
    elif isinstance(problem, OSError):
        if problem.filename:
            sentence = f"{problem.filename}: {problem.strerror}"
    elif not isinstance(problem, AssertionError | RuntimeError | TypeError | ValueError):
        raise problem
    err.print(f"error: {sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
    # An assertion is not bad input: the core, or a proof of it, does not hold.
    return 1 if isinstance(problem, AssertionError) else 2
