"""The command ``export``: files of weights and numbers for a design."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from seedbed.flow.cores import registry, settings
from seedbed.flow.emit.names import require_name
from seedbed.flow.run.files import require_folder
from seedbed.flow.run.options import BUILD, ConfigFile, Force, Settings, show_table

__all__ = ["export"]

out = Console()
err = Console(stderr=True)


def export(
    core: Annotated[str, typer.Option(help="The core that takes the numbers, such as gemv.")],
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PACKED]",
            help="A file by 'seedbed compress', or any safetensors file; for stream_engine, the "
            "folder that 'seedbed import' wrote of a transformer; cores without weights take none.",
            show_default=False,
        ),
    ] = None,
    tensor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The tensor of the file; by default, the first one. For sparse_trainer and "
            "stream_trainer, those of all layers in order, with commas; by default, all packed "
            "ones.",
        ),
    ] = None,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    vector: Annotated[
        Path | None,
        typer.Option(
            metavar="X.npy",
            help="The vector of the product, the numbers of a pool, or images; by default, random "
            "ones.",
        ),
    ] = None,
    adapters: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="For instantft: adapters by 'seedbed tune'; by default, those before a training.",
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="For stream_engine: the text whose tokens are run; by default, random tokens."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="The seed of what is random, or of the generator. By default, 1."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1 << 20,
            help="Beats of a generator, random images or tokens. By default, 64.",
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", callback=require_folder, help="Write to this folder."),
    ] = BUILD / "export",
    name: Annotated[
        str | None,
        typer.Option(
            callback=lambda name: name if name is None else require_name(name),
            help="The start of the names of files and constants; by default the core's name.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write weights, vectors and seeds for a core, as files that other tools read.

    Each memory is written for $readmemh, as .mem, .coe, .bin and .npy. A C header and a Verilog
    include file have shapes and scales, and a TOML file has the parameters of the core. Files of an
    earlier export are overwritten. Any other file is overwritten only with --force.
    """
    from seedbed.flow.export import bundle, exporters
    from seedbed.flow.export.request import Request

    found = exporters.find(core)
    given = {
        "vector": vector, "adapters": adapters, "prompt": prompt, "seed": seed, "count": count,
    }  # fmt: skip
    own: dict[str, Any] = {each: value for each, value in given.items() if value is not None}
    for each in own:
        if each not in found.options:
            raise ValueError(f"the export of {core} takes no --{each}")
    if found.source and source is None:
        folder = found.source == "program"
        needed = "a folder that 'seedbed import' wrote" if folder else "a safetensors file"
        raise ValueError(f"the export of {core} needs {needed}")
    if source and not found.source:
        raise ValueError(f"the export of {core} takes no file")
    if tensor is not None and found.source != "tensor":
        raise ValueError(f"the export of {core} takes no --tensor")
    listed = registry.find(core)
    params = settings.read(listed, set_, config_)
    request = Request(core=listed, params=params, source=source, tensor=tensor, **own)
    made = found.run(request)
    name = name or core
    bundle.write(made, output, name, force=force)
    rows = [[f"{name}_{m.name}", m.title, m.words, m.width] for m in made.memories]
    show_table(out, ["memory", "a word", "words", "bits"], rows)
    for note in made.notes:
        out.print(f"{note}.", highlight=False, soft_wrap=True)
    err.print(f"In {output}: seedbed verilog {core} --config {name}.toml -o .", soft_wrap=True)
