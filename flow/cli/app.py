"""The command line."""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from platformdirs import user_cache_path
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from seedbed.flow.cli import compress as checkpoints
from seedbed.flow.cli.elasticzo import (
    demo_elasticzo,
    demo_elasticzo_choices,
    demo_elasticzo_passes,
    replay_log,
)
from seedbed.flow.cli.energy import energy_of
from seedbed.flow.cli.export import export
from seedbed.flow.cli.formats import demo_formats
from seedbed.flow.cli.import_model import import_model
from seedbed.flow.cli.instantft import demo_instantft
from seedbed.flow.cli.llm import demo_llm
from seedbed.flow.cli.lm import demo_lm, demo_personalise
from seedbed.flow.cli.lutopt import app as lutopt_app
from seedbed.flow.cli.measurements import formal, measure, mutate, report, statistics
from seedbed.flow.cli.personalise_mlp import demo_personalise_mlp
from seedbed.flow.cli.project import fusesoc, ipxact, paper_tables, project
from seedbed.flow.cli.sentences import demo_sentences
from seedbed.flow.cli.sentiment import demo_sentiment
from seedbed.flow.cli.sparse import demo_sparse
from seedbed.flow.cli.synth import constrain, synthesize
from seedbed.flow.cli.testu01 import run_battery
from seedbed.flow.cli.trellis import app as trellis_app
from seedbed.flow.cores import registry, settings
from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.emit import handoff, port_docs, verilog
from seedbed.flow.emit.names import require_name
from seedbed.flow.report.kinds import in_cocotb, plain
from seedbed.flow.run.files import (
    atomic_path,
    os_error_path,
    require_output,
)
from seedbed.flow.run.interruption import MESSAGE, handled
from seedbed.flow.run.options import (
    BUILD,
    Build,
    ConfigFile,
    CoreName,
    Data,
    Force,
    Json,
    Settings,
    show_table,
)
from seedbed.flow.run.progress import status
from seedbed.flow.run.standard_streams import flush_streams, setup_streams
from seedbed.sim import child, tools
from seedbed.sim.harness import Mismatch, Stalls, simulate

__all__ = ["app", "main"]

#: Base class of typer's usage errors; typer exports only its subclasses.
UsageError: Any = typer.BadParameter.__base__


class Commands(TyperGroup):
    """Commands with a suggestion for a longer or shorter word, such as 'simulate' for 'sim'."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return what typer returns; raise its error with the closest command."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as problem:
            word = args[0]
            for name in self.commands:
                if len(word) > 1 and (word.startswith(name) or name.startswith(word)):
                    problem.message = f"No such command {word!r}. Did you mean {name!r}?"
                    break
            raise


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "RTL cores for on-device learning on FPGAs: generate Verilog, simulate, prove and "
        "synthesize. 'seedbed COMMAND -h' explains a command and its options."
    ),
)
out = Console()
#: Progress and errors; standard output is for results.
err = Console(stderr=True)

Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        callback=lambda name: name if name is None else require_name(name),
        help="The name of the top module and the file; by default the core's.",
    ),
]


def _version(asked: bool) -> None:
    if asked:
        print(f"seedbed {version('seedbed')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Without a command, show the help."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_cores(
    core: Annotated[
        str, typer.Argument(metavar="[CORE]", help="Show the parameters of this core.")
    ] = "",
    names: Annotated[bool, typer.Option("--names", help="Print only the names.")] = False,
    json_: Json = False,
    toml: Annotated[
        bool,
        typer.Option("--toml", help="Print one core's parameters as a file for --config."),
    ] = False,
) -> None:
    """List the cores, or the parameters of one core with their default values.

    AXI wrappers come last; 'verilog', 'ports', 'cocotb' and 'synth' accept them.
    """
    cores = [registry.find_verilog(core)] if core else [*CORES.values(), *WRAPPERS.values()]
    if names:
        print("\n".join(found.name for found in cores if core or found.name in CORES))
    elif toml:
        if not core:
            raise ValueError("--toml needs a core: seedbed list CORE --toml")
        print(settings.toml(cores[0]), end="")
    elif json_:
        listed = [
            {
                "core": found.name,
                "title": found.title,
                "parameters": settings.defaults(found),
                "source": found.paper,
            }
            for found in cores
        ]
        print(json.dumps(listed, indent=1))
    elif core:
        (found,) = cores
        show_table(out, ["parameter", "default"], settings.defaults(found).items())
        source = f"; source: {found.paper}" if found.paper else ""
        out.print(f"{found.name}: {found.title}{source}", highlight=False, soft_wrap=True)
    else:
        rows = [[family, found.name, found.title] for family, found in registry.grouped(cores)]
        show_table(out, ["", "core", "description"], rows)
        out.print("'seedbed list CORE' shows the parameters of a core.", highlight=False)


@app.command("verilog")
def emit(
    core: CoreName,
    set_: Settings = [],  # noqa: B006 - typer's idiom for an empty default
    config_: ConfigFile = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Write to this folder; - prints.")
    ] = (BUILD / "verilog"),
    name: Name = None,
    fusesoc: Annotated[
        bool, typer.Option("--fusesoc", help="Also write a testbench and a FuseSoC core file.")
    ] = False,
    sources: Annotated[
        bool,
        typer.Option("--sources", help="Add the line of Python at each signal, as a comment."),
    ] = False,
    force: Force = False,
) -> None:
    """Write a core's Verilog to a file, and print the file's name.

    A file that seedbed wrote is overwritten. Any other file is overwritten only with --force. With
    '-o -', the Verilog is printed.
    """
    # A testbench needs a golden model; an AXI wrapper has none.
    found = registry.find(core) if fusesoc else registry.find_verilog(core)
    params = settings.read(found, set_, config_)
    found.configure(params)
    if fusesoc:
        files = handoff.fusesoc(
            found, params, output, name=name or "", sources=sources, force=force
        )
        print("\n".join(map(str, files)))
    elif str(output) == "-":
        print(verilog.emit(found, params, name=name or "", sources=sources), end="")
    else:
        require_output(output / f"{name or found.name}.v", force=force, generated=True)
        print(verilog.write(found, params, output, name=name or "", sources=sources))


@app.command("ports")
def list_ports(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
) -> None:
    """List the ports of a core's Verilog: direction, width, number format and description."""
    found = registry.find_verilog(core)
    config = found.configure(settings.read(found, set_, config_))
    ports = port_docs.describe(found.component, found.signature(config))
    show_table(out, port_docs.PINS, port_docs.pins(ports))


@app.command("testbench")
def write_bench(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Write to this folder.")] = (
        BUILD / "testbench"
    ),
    name: Name = None,
    seed: Annotated[int, typer.Option(help="The seed of the stimulus.")] = 1,
    force: Force = False,
) -> None:
    """Write a core's Verilog with a testbench in plain Verilog, for any simulator.

    Files that seedbed wrote are overwritten. Any other file is overwritten only with --force.
    """
    found = registry.find(core)
    params = settings.read(found, set_, config_)
    paths = handoff.bench(found, params, output, name=name or "", seed=seed, force=force)
    print("\n".join(map(str, paths)))
    top = paths[0].stem
    err.print(
        f"In {output}: iverilog -g2005 -o bench {top}.v {top}_tb.v && vvp bench", soft_wrap=True
    )


@app.command()
def sim(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    vcd: Annotated[
        Path | None,
        typer.Option(help="Write the waveform of the first run, without stalls, to this file."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the stimulus and of the stalls.")] = 1,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Simulate a core against its golden model, bit-exact, without and with stalls."""
    found = registry.find(core)
    params = settings.read(found, set_, config_)
    config = found.configure(params)
    if vcd:
        require_output(vcd, force=force)
    case = found.case(config, Random(seed))
    inputs, outputs = found.streams(config)
    runs: list[dict[str, Any]] = []
    with status(err, f"simulating {core}") as update:
        for stalls in Stalls:
            update(f"simulating {core}, stalls: {stalls.value}")
            with _waveform(vcd if stalls is Stalls.NONE else None) as wave:
                result = simulate(found.component(config), case, stalls=stalls, seed=seed, vcd=wave)
            counts = {port: len(beats) for port, beats in result.transfers.items()}
            runs.append({"stalls": stalls.value, "cycles": result.cycles, "transfers": counts})
    if json_:
        document = {"core": core, "params": plain(found, params), "seed": seed, "runs": runs}
        print(json.dumps(document, indent=1))
        return
    lines = [[run["stalls"], run["cycles"], *run["transfers"].values()] for run in runs]
    show_table(out, ["stalls", "cycles", *inputs, *outputs], lines)
    out.print(f"{core} is bit-exact with its model, seed {seed}.")


@contextmanager
def _waveform(path: Path | None) -> Iterator[Path | None]:
    """Provide a temporary name for a waveform, renamed to ``path`` also after a mismatch."""
    if path is None:
        yield None
        return
    mismatch = None
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as part, os_error_path(path):
        try:
            yield part
        except Mismatch as problem:
            mismatch = problem
    if mismatch:
        raise mismatch


@app.command()
def cocotb(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    seed: Annotated[int, typer.Option(help="The seed of the stimulus and of the pauses.")] = 1,
    waves: Annotated[bool, typer.Option(help="Record a waveform.")] = False,
    build: Build = BUILD,
) -> None:
    """Simulate a core's emitted Verilog in cocotb under Verilator, with random pauses."""
    found = registry.find_verilog(core)
    params = settings.read(found, set_, config_)
    path = verilog.write(found, params, build / "verilog", kept=build / "cache")
    with status(err, f"building and running {core} under Verilator"), os_error_path(build):
        result = in_cocotb(found, params, path, seed=seed, build=build, waves=waves)
    out.print(f"{core}: {result['tests']} tests, {result['cycles']} cycles, seed {seed}: passed.")
    if waves:
        out.print(f"waveform: {result['waves']}")


app.command("synth")(synthesize)
app.command()(constrain)
app.command("energy")(energy_of)
app.command("testu01")(run_battery)
app.command()(project)
app.command()(fusesoc)
app.command()(ipxact)
app.command("paper-tables")(paper_tables)


for _command in (formal, mutate, measure, statistics, report):
    app.command()(_command)
app.command("import")(import_model)
app.add_typer(checkpoints.app)
app.command()(export)
app.add_typer(lutopt_app, name="lutopt")
app.add_typer(trellis_app, name="trellis")
demo_app = typer.Typer(help="Run complete jobs on real data.")
app.add_typer(demo_app, name="demo")
demo_app.command("instantft")(demo_instantft)
demo_app.command("formats")(demo_formats)
demo_app.command("lm")(demo_lm)
demo_app.command("personalise")(demo_personalise)
demo_app.command("personalise-mlp")(demo_personalise_mlp)
demo_app.command("llm")(demo_llm)
demo_app.command("sentences")(demo_sentences)
demo_app.command("sentiment")(demo_sentiment)
demo_app.command("sparse")(demo_sparse)
demo_app.command("elasticzo")(demo_elasticzo)
demo_app.command("elasticzo-choices")(demo_elasticzo_choices)
demo_app.command("elasticzo-passes")(demo_elasticzo_passes)
app.command("replay-log")(replay_log)


@demo_app.command("zo")
def demo_zo(
    data: Data = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="The number of runs per row of the table.")
    ] = 16,
    build: Build = BUILD,
) -> None:
    """Fine-tune a small classifier by zeroth-order SGD with several perturbation sources."""
    from seedbed.studies import zo

    folder = build / "demo" / ("digits" if data is None else "mnist")
    zo.run_zo(data, folder, seeds=seeds, console=out)


@demo_app.command("seedlm")
def demo_seedlm(
    data: Data = None,
    build: Build = BUILD,
) -> None:
    """Compress a trained network, and compute one of its layers in the emitted Verilog."""
    from seedbed.studies import seedlm

    folder = build / "demo" / ("digits" if data is None else "mnist")
    seedlm.run_seedlm(data, folder, build=build, console=out)


def _compiled_in_vain(command: str) -> bool:
    """Return whether a tool would be compiled, for minutes, and then be removed."""
    return bool(tools.uncached()) and command.startswith("yowasp-")


@app.command()
def doctor() -> None:
    """Show the tools and their versions, and how to install missing ones.

    A tool that is compiled at its first call is compiled here.
    """
    rows: list[list[str | Text]] = []
    missing = 0
    # Lines without a terminal would repeat those of a tool that is compiled.
    with err.status("checking the tools") as shown:
        for name, tool in (tools.TOOLS | tools.OPTIONAL).items():
            called = os.environ.get(name) or tool.names[0]
            needed = "" if name in tools.TOOLS else ", needed by one command only"
            shown.update(f"checking {called}")
            try:
                found = Path(tools.find(name)).name
                called = called if Path(called).name == found else found
                text = Text("not called" if _compiled_in_vain(found) else tools.version(name))
            except tools.ToolMissing:
                text = Text(f"missing{needed}: {tool.remedy}", "" if needed else "red")
            except RuntimeError as problem:
                text = Text(f"broken{needed}: {problem}", "" if needed else "red")
            missing += text.style == "red"
            rows.append([name, called, text])
    show_table(out, ["tool", "called as", "version, or how to install it"], rows)
    if tools.uncached():
        err.print(
            f"The tools that are compiled were not called: {tools.uncached()}.", soft_wrap=True
        )
    caches = f"Caches are in {user_cache_path()}; XDG_CACHE_HOME sets another folder."
    out.print(caches, soft_wrap=True)
    if missing:
        raise typer.Exit(1)


def main() -> None:
    """Run the command line. Bad input: one sentence on standard error and status 2."""
    setup_streams()
    with handled() as interruption:
        try:
            tools.setup_environment()
            # typer returns 130 after a keyboard interrupt.
            code = app(standalone_mode=False) or 0
            interrupted = code == 130
            flush_streams()
        except BaseException as problem:
            # A partly imported package, or a library, may raise another exception for it.
            interrupted = bool(interruption.number) or isinstance(
                problem, KeyboardInterrupt | typer.Abort
            )
            code = 0 if interrupted else _report_error(problem)
        if interrupted:
            child.kill_all()
            code = interruption.status
            interruption.reported = True
            err.print(MESSAGE)
    sys.exit(code)


def _report_error(problem: BaseException) -> int:
    """Print an error message of one sentence, and return the exit status."""
    sentence = str(problem)
    if isinstance(problem, UsageError):
        sentence = problem.format_message()
    elif isinstance(problem, ModuleNotFoundError):
        sentence = tools.without(problem)
    elif isinstance(problem, OSError):
        if problem.filename:
            sentence = f"{problem.filename}: {problem.strerror}"
    elif not isinstance(problem, AssertionError | RuntimeError | TypeError | ValueError):
        raise problem
    if not sentence.strip():
        # Such as an assertion of the code: where it is helps whoever reads the report.
        at = traceback.extract_tb(problem.__traceback__)[-1]
        sentence = (
            f"{type(problem).__name__} without a message in {Path(at.filename).name}, line "
            f"{at.lineno}: this is a defect of seedbed, please report it"
        )
    err.print(f"error: {sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
    # An assertion is a failed check of a core or a proof, not bad input.
    return 1 if isinstance(problem, AssertionError) else 2
