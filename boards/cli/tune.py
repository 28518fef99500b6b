"""The command ``seedbed tune``: a user's network is fine-tuned on a user's data."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from threadpoolctl import threadpool_limits

from seedbed.flow.cores import registry, settings
from seedbed.flow.emit import verilog
from seedbed.flow.run.files import require_outputs, write_all
from seedbed.flow.run.options import BUILD, Build, ConfigFile, Force, Json, Settings, show_table
from seedbed.flow.run.progress import steps_bar
from seedbed.sim import tools
from seedbed.sim.job import Epoch
from seedbed.spec.checks import require_choice
from seedbed.spec.network import NetworkConfig, named

if TYPE_CHECKING:
    from seedbed.boards.device import Device
    from seedbed.flow.jobs.tune import Result, Tuning

__all__ = ["tune"]

#: Options of one core, with their defaults.
OWN: dict[str, dict[str, Any]] = {
    "instantft": {"rate": 0.05},
    "zo_trainer": {"batch": 32, "magnitude": 15},
}
#: The cores that train.
CORES = tuple(OWN)
#: The file of results.
RESULT = "tune.json"

out = Console(highlight=False)
err = Console(stderr=True)


def tune(
    network: Annotated[
        Path,
        typer.Argument(
            metavar="NETWORK",
            exists=True,
            help="The folder of 'seedbed import', or its network file.",
        ),
    ],
    data: Annotated[
        Path,
        typer.Option(
            exists=True,
            help="Train on this data: a file .npz with images and labels, a folder with IDX files, "
            "or a folder with a folder of PNG files for each class.",
        ),
    ],
    core: Annotated[
        str,
        typer.Option(help="The core that trains: instantft (adapters), or zo_trainer (weights)."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Write to this folder.")] = (
        BUILD / "tune"
    ),
    rtl: Annotated[
        bool, typer.Option("--rtl", help="Train in the emitted Verilog, too, bit-exact.")
    ] = False,
    board: Annotated[
        str | None,
        typer.Option(
            metavar="PORT",
            help="Train on the board at this serial port, or at the path that 'seedbed board sim' "
            "prints, too, bit-exact.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="With --board: continue the job that runs there.")
    ] = False,
    images: Annotated[
        int | None,
        typer.Option(help="The number of images to train on; by default 1024, or all there are."),
    ] = None,
    held: Annotated[
        int | None,
        typer.Option(
            help="The number of other images, which are classified only; by default 256, or a "
            "fifth."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="The number of passes over the images.")] = 10,
    rate: Annotated[
        float | None, typer.Option(help="With instantft: the learning rate, by default 0.05.")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="With zo_trainer: the images between two updates, by default 32."),
    ] = None,
    magnitude: Annotated[
        int | None,
        typer.Option(help="With zo_trainer: the largest perturbation, 2^c - 1, by default 15."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The seed of images, their order, adapters and perturbations.")
    ] = 0,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    force: Force = False,
    json_: Json = False,
    build: Build = BUILD,
) -> None:
    """Fine-tune your network on your data, and write what it learned.

    NETWORK is what 'seedbed import' has written. The golden model of the core trains; with --rtl
    or --board, the core does, too, and every result is compared with the model's, bit for bit. An
    epoch that is finished is kept: the same command goes on from it.

    The core's parameters are those of CORE.toml beside the network, unless --config has others.
    """
    require_choice("core", core, CORES)
    given = {"rate": rate, "batch": batch, "magnitude": magnitude}
    for name, value in given.items():
        if value is not None and name not in OWN[core]:
            raise ValueError(f"--{name} does not go with --core {core}")
    if rtl and board is not None:
        raise ValueError("--rtl and --board do not go together")
    if resume and board is None:
        raise ValueError("--resume goes with --board")
    from seedbed.flow.importer import imported
    from seedbed.flow.jobs import tune as jobs

    if rtl:
        tools.version("VERILATOR")
    file, model = imported.read(network)
    if model.origin:
        # Without its package, the sentence that names it comes before the work.
        from seedbed.flow.importer import onnx_output  # noqa: F401
    params = _params(core, file, model.network, set_, config_)
    names = [imported.NETWORK, imported.WEIGHTS, f"{core}.toml", RESULT]
    names += ["model.onnx"] * (model.origin is not None)
    names += [imported.ADAPTERS] * (core == "instantft")
    require_outputs(*(output / name for name in names), force=force)
    numbers = {"images": images, "held": held, "epochs": epochs, "seed": seed}
    own = OWN[core] | {name: value for name, value in given.items() if value is not None}
    tuning = getattr(jobs, core)(file, model, data, params, **numbers, **own)
    console = Console(quiet=True) if json_ else out
    console.print(
        f"{tuning.tuned:,} images of {data} to train on, {tuning.held:,} other ones", soft_wrap=True
    )
    with threadpool_limits(1):
        result, cycles = _train(tuning, rtl, board, resume, console, build)
    document = {
        "network": str(file), "data": str(data), "core": core, "images": tuning.tuned,
        "held": tuning.held, "epochs": epochs, "seed": seed, **own, "bit_exact": cycles is not None,
        "before": result.before, "after": result.after, "accuracies": result.epochs,
        "cycles": cycles,
    }  # fmt: skip
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    contents = tuning.files(result) | {RESULT: text.encode()}
    write_all({output / name: content for name, content in contents.items()})
    if json_:
        print(text, end="")
        return
    lines: list[list[Any]] = [
        ["trained on", f"{tuning.tuned:,}", *(result.epochs[k]["accuracy"] for k in (0, -1))],
        ["held out", f"{tuning.held:,}", result.before, result.after],
    ]
    rows = [[*line[:2], *(f"{100 * share:.1f} %" for share in line[2:])] for line in lines]
    show_table(out, ["images", "number", "before, or in epoch 1", "after, or in the last"], rows)
    for name in contents:
        out.print(str(output / name), soft_wrap=True)


def _params(
    core: str, file: Path, network: NetworkConfig, set_: list[str], config: Path | None
) -> dict[str, Any]:
    """Return the core's parameters: those of a file, or those beside the network, and others."""
    beside = file.with_name(f"{core}.toml")
    path = beside if config is None and beside.is_file() else config
    params = settings.read(registry.find(core), set_, path)
    if named(params.get("network", network)) != network:
        raise ValueError(f"the core's parameters have another network than {file}")
    return params


def _train(
    tuning: "Tuning", rtl: bool, board: str | None, resume: bool, console: Console, build: Path
) -> tuple["Result", dict[str, int] | None]:
    """Train the model, and the core if that is asked for; return its cycles by phase."""
    from seedbed.flow.jobs.tune import Epochs

    def show(number: int, found: Mapping[str, np.ndarray]) -> None:
        scores = tuning.scores(number, found)
        loss = f", mean loss {scores['loss']:.4f}" if "loss" in scores else ""
        share = f"{100 * scores['accuracy']:.1f} %"
        console.print(f"epoch {number + 1}: {share} of its images{loss}")

    key, cache = tuning.key, build / "cache"
    # The model is not trained again for a core.
    kept = Epochs(cache, key, lambda *_: None)
    with ExitStack() as stack:
        # A wrong port is refused before the training.
        design = device = None
        if board is not None:
            from seedbed.boards import apps

            design = apps.own(tuning.core, tuning.job.config)
            device = stack.enter_context(_device(design, board))
        result = tuning.run(Epochs(cache, key, show))
        if rtl:
            cycles = _simulate(tuning, kept, build)
            console.print(f"the emitted Verilog of {tuning.core} gives the same, bit for bit")
            return result, cycles
        if device and design:
            design.module.train(device, console, tuning.job, resume=resume, epoch=kept)
            return result, {name: device.read(name) for name in ("cycles", "waits")}
    return result, None


def _simulate(tuning: "Tuning", epoch: Epoch, build: Path) -> dict[str, int]:
    core, config = registry.find(tuning.core), tuning.job.config
    folder = sha256(repr(config).encode()).hexdigest()[:8]
    with steps_bar(err, f"emitting {tuning.core}") as progress:
        path = verilog.write(
            core, tuning.params, build / "emitted" / f"{core.name}-{folder}",
            plain=True, kept=build / "cache",
        )  # fmt: skip
        return tuning.simulate(path, build=build, epoch=epoch, progress=progress)


def _device(design: Any, port: str) -> "Device":
    """Return the board, which must have the core with these parameters."""
    from seedbed.boards.device import Device
    from seedbed.boards.registers import addresses
    from seedbed.boards.top import identifier

    return Device(port, addresses(design.REGISTERS), identifier=identifier(design))
