"""The commands ``seedbed board``."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from seedbed.boards.cli.report_run import report_run
from seedbed.boards.cli.tour import tour
from seedbed.boards.cli.tune import tune
from seedbed.flow.cli.app import app as command_line
from seedbed.flow.cli.app import main
from seedbed.flow.run.files import (
    os_error_path,
    require_outputs,
    write_atomic,
    write_generated,
)
from seedbed.flow.run.options import (
    BUILD,
    Build,
    ConfigFile,
    Force,
    Settings,
    duration,
    show_table,
)
from seedbed.flow.run.progress import status

__all__ = ["app", "main"]

#: Seeds of place and route, unless others are asked for.
SEEDS = (1, 2, 3)

app = typer.Typer(help="Run applications on a board, or on a virtual one.")
out = Console()
err = Console(stderr=True)

command_line.command()(tour)
command_line.command()(tune)
command_line.add_typer(app, name="board")

BoardName = Annotated[str, typer.Argument(metavar="BOARD", help="See 'seedbed board list'.")]
App = Annotated[str, typer.Argument(metavar="APP", help="See 'seedbed board list'.")]
Variant = Annotated[
    str | None,
    typer.Option(help="The application's configuration; by default, that of the board."),
]
AppConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        exists=True,
        dir_okay=False,
        help="The parameters of instantft or zo_trainer, such as 'seedbed import' writes, in place "
        "of a configuration.",
    ),
]


@command_line.command("drivers")
def write_drivers(
    output: Annotated[Path, typer.Option("-o", "--output", help="Write to this folder.")] = (
        BUILD / "drivers"
    ),
    force: Force = False,
) -> None:
    """Write the drivers in C and for PYNQ, and print the files' names.

    Those in C are for the boards and the cores with AXI ports, those for PYNQ for the cores. The
    files of registers are made of the register maps.
    """
    from seedbed.boards import drivers

    texts = {output / name: text for name, text in sorted(drivers.files().items())}
    require_outputs(*texts, force=force)
    for path, text in texts.items():
        write_atomic(path, text)
        print(path)


@command_line.command("registers")
def write_registers(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="A core with AXI ports, such as gemv_axi, or an application, such as board_gemv; "
            "by default, all of them.",
        ),
    ] = "",
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Write to this folder; - prints.")
    ] = (BUILD / "registers"),
    force: Force = False,
) -> None:
    """Write register maps as SystemRDL, and print the files' names.

    PeakRDL makes C headers, Python, HTML, UVM models and IP-XACT of them.
    """
    from seedbed.boards import register_files

    texts = register_files.texts(name, set_, config_)
    if str(output) == "-":
        print("\n".join(texts.values()), end="")
    else:
        named = {f"{each}.rdl": text for each, text in texts.items()}
        print("\n".join(map(str, write_generated(output, named, force=force))))


@app.command("list")
def list_boards() -> None:
    """List the boards and the applications."""
    from seedbed.boards.apps import APPS, boards
    from seedbed.boards.platforms import BOARDS

    fits = {name: boards(name) for name in APPS}
    rows = [
        [name, board.title, ", ".join(app for app in APPS if name in fits[app])]
        for name, board in BOARDS.items()
    ]
    show_table(out, ["board", "description", "applications"], rows)


@app.command("sim")
def simulate(
    board: BoardName,
    app: App,
    errors: Annotated[
        int,
        typer.Option(
            min=0,
            help="On average one of so many bytes on the line is lost, changed, doubled or late. "
            "0: none is.",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(help="The seed of the errors.")] = 1,
    fault: Annotated[
        str,
        typer.Option(
            help="A defect of the memory: a stuck pin of its address or data, 'a3=0' or 'dq5=1', "
            "or the nanoseconds for which it keeps its contents, 'decay=1000000'."
        ),
    ] = "",
    variant: Variant = None,
    config_: AppConfig = None,
    build: Build = BUILD,
) -> None:
    """Run a virtual board, print the path of its serial port, and wait for Ctrl-C.

    All boards have the same top, which does not know its board. The signal SIGUSR1 presses the
    reset button.
    """
    import signal

    from seedbed.boards import apps, platforms, virtual

    platforms.find(board)
    found = apps.find(app, variant, board, config_)
    with status(err, f"building the virtual board of {app}"):
        program = virtual.executable(found, apps.file_name(app, found), build=build)
    with virtual.start(program, errors=errors, seed=seed, fault=fault) as running:
        try:
            signal.signal(signal.SIGUSR1, lambda *_: running.reset())
            # At once: an interruption, which ends this command, could print the line twice.
            os.write(sys.stdout.fileno(), f"{running.port}\n".encode())
            running.process.wait()
        except KeyboardInterrupt:
            err.print("the virtual board is switched off")
            return
    raise RuntimeError("the virtual board ended by itself, as at a broken rule of its memory")


class Lazy(TyperGroup):
    """The commands of :mod:`seedbed.boards.cli.run`, which is imported when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the applications."""
        from seedbed.boards.apps import APPS

        return list(APPS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of an application; raise ``ValueError`` for another name."""
        from seedbed.boards.cli.run import command

        return command(cmd_name)


app.add_typer(
    typer.Typer(cls=Lazy, help="Run an application on a board, and compare it with its model."),
    name="run",
)


app.command("report-run")(report_run)


@app.command("build")
def build_bitstream(
    board: BoardName,
    app: App,
    seed: Annotated[
        int | None,
        typer.Option(
            help="The seed of place and route; by default, 1 to 3 until one meets the timing."
        ),
    ] = None,
    variant: Variant = None,
    config_: AppConfig = None,
    build: Build = BUILD,
) -> None:
    """Build the bitstream of an application, and print its file's name.

    Fails with the worst path, and writes no bitstream, if the timing is not met.
    """
    from seedbed.boards import apps, platforms
    from seedbed.boards import build as bitstreams

    chosen, found = platforms.find(board), apps.find(app, variant, board, config_)
    folder = build / "board" / board
    seeds = SEEDS if seed is None else (seed,)
    with status(err, f"building {app} for {board}") as update, os_error_path(build):
        made = bitstreams.build(
            chosen, found, app, folder=folder, seeds=seeds, first=True, progress=update
        )
    rows = [[kind, *used] for kind, used in made.cells.items() if used[0]]
    show_table(out, ["cells", "used", "available"], rows)
    clock = platforms.clock_of(found, chosen)
    out.print(f"Fmax: {made.fmax[made.seed]:.2f} MHz, for a clock of {clock} MHz; seed {made.seed}")
    print(made.path)


@app.command("report")
def report_bitstreams(
    applications: Annotated[
        list[str] | None, typer.Argument(metavar="[APP]...", help="By default, all of them.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Placements of each; the fastest is kept.")
    ] = len(SEEDS),
    build: Build = BUILD,
) -> None:
    """Build applications for every board that they are for, and report cells and Fmax.

    The rows are in board/report.json of the build folder, too: each is written when its bitstream
    is, and 'seedbed report' takes them. Fails, after all of them, if one does not meet the timing.
    """
    from seedbed.boards import apps, bitstream_rows, platforms
    from seedbed.boards import build as bitstreams
    from seedbed.flow.report.sections import sections

    rows = []
    missed: list[str] = []
    numbers = range(1, seeds + 1)
    for board in platforms.BOARDS.values():
        for name in applications or apps.APPS:
            if board.name not in apps.boards(name):
                continue
            found = apps.find(name, board=board.name)
            folder = build / "board" / board.name
            with status(err, f"building {name} for {board.name}") as update, os_error_path(build):
                try:
                    made = bitstreams.build(
                        board, found, name, folder=folder, seeds=numbers, progress=update
                    )
                except (bitstreams.TimingMissed, bitstreams.RoutingFailed) as problem:
                    missed.append(f"{name} for {board.name}: {problem}")
                    continue
                rows.append(bitstream_rows.row(board, name, made, platforms.clock_of(found, board)))
                bitstream_rows.write(rows, build)
    if rows:
        table, *_ = sections([row.to_json() for row in rows])
        show_table(out, table.header, table.lines, title="bitstreams")
    if missed:
        raise bitstreams.TimingMissed("; ".join(missed))


@app.command("memories")
def compare_memories(build: Build = BUILD) -> None:
    """Compare sdram with LiteDRAM: bytes a cycle with one chip and one pattern, and LUTs.

    The rows are in board/memories.json of the build folder, too, and 'seedbed report' takes them.
    """
    from seedbed.boards import bitstream_rows, litedram
    from seedbed.flow.report.sections import sections

    with status(err, "comparing controllers") as update, os_error_path(build):
        rows = litedram.compare(build, update)
        bitstream_rows.write(rows, build, "memories")
    table, *_ = sections([row.to_json() for row in rows])
    show_table(out, table.header, table.lines, title="controllers of an SDRAM")


@app.command("predict")
def predict_time(
    board: BoardName,
    cycles: Annotated[float, typer.Option(min=0, help="Clock cycles of the core.")],
    bytes_: Annotated[
        float, typer.Option("--bytes", min=0, help="Bytes to and from the board's memory.")
    ] = 0,
    clock: Annotated[
        float | None,
        typer.Option(help="The core's clock in MHz, by default that of the board's tops."),
    ] = None,
    memory_clock: Annotated[
        float | None, typer.Option(help="The memory's clock in MHz, by default the core's.")
    ] = None,
    share: Annotated[
        float, typer.Option(help="The share of the memory's peak that is reached, at most 1.")
    ] = 1.0,
) -> None:
    """Predict the seconds of a job on a board from cycles, clock and bandwidth.

    Without --share, the bandwidth is the memory's peak: the prediction is a lower bound.
    """
    from seedbed.boards import platforms
    from seedbed.boards.predict import predict

    chosen = platforms.find(board)
    if bytes_ and not chosen.memory_bits:
        raise ValueError(f"{board} has no SDRAM: --bytes must be 0")
    mhz = chosen.clock_mhz if clock is None else clock
    memory_mhz = mhz if memory_clock is None else memory_clock
    if chosen.memory_bits and memory_mhz > chosen.memory_mhz:
        raise ValueError(
            f"the memory of {board} has a clock of at most {chosen.memory_mhz} MHz, "
            f"not {memory_mhz:g}"
        )
    bits = chosen.memory_bits
    found = predict(
        cycles=cycles, clock_mhz=mhz, octets=bytes_, bits=bits, memory_mhz=memory_mhz, share=share
    )
    rows = [
        ["core", f"{cycles:,.0f} cycles", f"{mhz:g} MHz", duration(found.core_s)],
        ["memory", f"{bytes_:,.0f} bytes", f"{bits / 8 * memory_mhz * share:g} MB/s",
         duration(found.memory_s)],
    ]  # fmt: skip
    show_table(out, ["part", "work", "rate", "time"], rows)
    share_waited = f"the core waits for memory in {100 * found.waiting:.1f} % of it"
    out.print(f"predicted: {duration(found.seconds)}; {share_waited}", highlight=False)


@app.command("load")
def load_bitstream(
    board: BoardName,
    app: App,
    build: Build = BUILD,
) -> None:
    """Load the bitstream that 'seedbed board build' wrote into a board's FPGA."""
    from seedbed.boards import apps, platforms
    from seedbed.boards import build as bitstreams

    chosen = platforms.find(board)
    apps.find(app, board=board)
    end = chosen.toolchain.end
    bitstreams.load(build / "board" / board / f"{app}.{end}", chosen)
    out.print(f"{app} is loaded")
