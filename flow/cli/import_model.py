"""The command ``import``: a trained model to a network file and weights, or to a program."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from seedbed.flow.cores import registry, settings
from seedbed.flow.run.files import require_outputs, write_all
from seedbed.flow.run.options import BUILD, Force, Json, show_table
from seedbed.flow.run.progress import status
from seedbed.spec.network import NetworkConfig

__all__ = ["import_model"]

out = Console()
err = Console(stderr=True)


def import_model(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            exists=True,
            help="An ONNX file, or a state dict in a safetensors file; of a transformer, a GGUF "
            "file or a folder.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Write to this folder.")] = (
        BUILD / "import"
    ),
    network: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="With a state dict: the network's TOML file."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="Measure the accuracy on this data: a file .npz with images and labels, a folder "
            "with IDX files, or a folder with a folder of PNG files for each class.",
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="With a transformer, the format of its matrices: trellis, seedlm or groups, 4 "
            "bits; plain, 8 bits; file, the groups of a GGUF file unchanged. By default, file for "
            "a GGUF file, else trellis.",
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="With a transformer: choose the formats of vectors on the lines of this file. "
            "By default, on a few sentences.",
        ),
    ] = None,
    feedback: Annotated[
        bool,
        typer.Option(
            "--feedback",
            help="With --format trellis or seedlm: compensate errors by later columns, by the "
            "statistics of --text, some thousand tokens.",
        ),
    ] = False,
    keep: Annotated[
        float | None,
        typer.Option(
            help="With --format trellis: the share of each matrix's weights that are kept with 16 "
            "bits, those that are the largest in their rows; such as 0.001.",
        ),
    ] = None,
    pack_head: Annotated[
        bool,
        typer.Option(
            "--pack-head",
            help="With a decoder: the matrix of logits has --format, too, as a copy where it is "
            "the table of tokens. By default, it has 8 bits.",
        ),
    ] = False,
    tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With a transformer: the tokens of a block, of which figures are printed. By "
            "default, 1 for a decoder, 32 for an encoder.",
        ),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With a decoder: the tokens whose keys and values are read. By default, 128.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="With a transformer: print what it takes, and write no file."
        ),
    ] = False,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Write a trained model as a network file and weights, and show what it takes in the cores.

    The files are network.toml, which --set network takes, weights.safetensors, and CORE.toml, the
    parameters of each core that takes the network, for --config. Existing ones are overwritten only
    with --force.

    A transformer becomes a program: program.json, image.bin, the memory image of its weights, and
    tokenizer.json. An interrupted run is resumed by the same command.
    """
    from seedbed.flow.importer import transformer_files

    options = {
        "--format": format_, "--text": text, "--keep": keep, "--tokens": tokens,
        "--context": context,
    }  # fmt: skip
    given = [name for name, value in options.items() if value is not None]
    given += ["--feedback"] * feedback + ["--pack-head"] * pack_head + ["--dry-run"] * dry_run
    if transformer_files.is_transformer(model):
        from seedbed.flow.cli.import_transformer import import_transformer

        if network or data:
            raise ValueError(f"--network and --data go with a network, not with {model}")
        import_transformer(
            model, output, format_, text, tokens, context, feedback=feedback, keep=keep,
            pack_head=pack_head, dry_run=dry_run, force=force, json_=json_,
        )  # fmt: skip
        return
    if given:
        raise ValueError(
            f"{given[0]} goes with a transformer, a GGUF file or a folder, not with {model}"
        )
    from seedbed.flow.importer import model as models

    suffix = models.require_model(model)
    if (suffix == ".safetensors") != (network is not None):
        raise ValueError(
            f"{model} is a state dict and needs --network FILE, a TOML file of its layers"
            if network is None
            else f"--network goes with a state dict in a safetensors file, not with {model}"
        )
    paths = [output / name for name in ("network.toml", "weights.safetensors")]
    configs = {core: output / f"{core}.toml" for core in models.CORES}
    require_outputs(*paths, *configs.values(), force=force)
    # Without a package of an extra, the sentence names it before any work.
    import safetensors.numpy  # noqa: F401

    from seedbed.flow.importer import state_dict

    if network:
        found = state_dict.read(model, network)
    else:
        from seedbed.flow.importer import onnx_file

        found = onnx_file.read(model)
    document = _figures(found, data)
    from seedbed.flow.cores import networks

    texts = _configs(document, found.network)
    contents = [networks.toml(found.network).encode(), state_dict.write(found)]
    files = dict(zip(paths, contents, strict=True))
    files |= {configs[core]: text.encode() for core, text in texts.items()}
    write_all(files)
    for core in configs.keys() - texts.keys():
        # That of an earlier import is of another network.
        configs[core].unlink(missing_ok=True)
    named = {core: str(path) for core, path in configs.items() if core in texts}
    document = {"network": str(paths[0]), "weights": str(paths[1]), "configs": named} | document
    if json_:
        print(json.dumps(document, indent=1))
    else:
        _show(document)


def _configs(document: dict[str, Any], network: NetworkConfig) -> dict[str, str]:
    """Return the parameters of each core that can be built, as TOML."""
    fixed = {"values": document["values"], "weights": document["weights_format"]}
    # The memory of a board has beats of 64 bits.
    own = {"instantft": {**fixed, "beat_bits": 64}, "conv_engine": fixed}
    found: dict[str, str] = {}
    for size in document["cores"]:
        core = registry.find(size["core"])
        if size["problem"] or core.name in found:
            continue
        params = {name: size[name] for name in ("lanes", "ways")} | own.get(core.name, {})
        if core.name == "zo_trainer":
            # A last layer that is trained by backpropagation learns in far fewer steps.
            try:
                core.configure({**params, "network": network, "tail": 1})
            except ValueError:
                pass
            else:
                params["tail"] = 1
        found[core.name] = settings.toml(core, {**params, "network": "network.toml"})
    return found


def _figures(found: Any, data: Path | None) -> dict[str, Any]:
    """Return layers, notes, sizes and, with data, accuracies, as JSON has them."""
    from seedbed.flow.importer import figures, images

    network, formats = found.network, figures.Formats()
    document: dict[str, Any] = {"notes": found.notes}
    if data:
        read = images.read(data, network)
        with status(err, f"classifying {len(read.x):,} images"):
            formats = figures.calibrated(network, found.parameters, read.x)
            accuracies = figures.accuracies(network, found.parameters, read, formats)
        document["accuracy"] = {"data": str(data), "images": len(read.x), **accuracies}
    document["values"], document["weights_format"] = str(formats.values), str(formats.weights)
    document["layers"] = [
        {
            "name": layer.name,
            "kind": layer.kind,
            "inputs": layer.inputs,
            "outputs": layer.shape,
            "parameters": layer.parameters,
            "macs": layer.macs,
        }
        for layer in network.layers
    ]
    document["cores"] = [asdict(size) for size in figures.sizes(network, formats)]
    return document


#: What each accuracy is of.
ARITHMETICS = {
    "float": "float32",
    "conv_engine": "{values}, weights {weights_format}",
    "instantft": "{values}, weights {weights_format}, images of bytes",
    "zo_trainer": "int8, without biases, images of bytes",
}


def _show(document: dict[str, Any]) -> None:
    header = ["layer", "kind", "input", "output", "parameters", "multiplications"]
    lines = [
        [
            layer["name"],
            layer["kind"],
            *(" x ".join(map(str, layer[key])) for key in ("inputs", "outputs")),
            *(f"{layer[key]:,}" for key in ("parameters", "macs")),
        ]
        for layer in document["layers"]
    ]
    show_table(out, header, lines)
    for line in document["notes"]:
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    if "accuracy" in document:
        accuracy = document["accuracy"]
        lines = [
            [name, text.format_map(document), _share(accuracy[name])]
            for name, text in ARITHMETICS.items()
        ]
        title = f"{accuracy['images']:,} images of {accuracy['data']}"
        show_table(out, ["", "numbers", "accuracy"], lines, title=title)
    header = [
        "core", "lanes", "ways", "cycles a sample", "rows", "weights, kbit", "activations, kbit",
        "multipliers", "block RAMs of an ECP5", "devices",
    ]  # fmt: skip
    lines = []
    for size in document["cores"]:
        if size["problem"]:
            continue
        line = [size["core"], size["lanes"], size["ways"]]
        line += [f"{size[key]:,}" for key in ("cycles", "rows")]
        line += [f"{size[key] / 1024:,.0f}" for key in ("weight_bits", "activation_bits")]
        line += [size["multipliers"], size["block_rams"], ", ".join(size["fits"]) or "none"]
        lines.append(line)
    show_table(out, header, lines)
    problems = [
        f"{size['core']} with {size['lanes']} lanes: {size['problem']}"
        for size in document["cores"]
        if size["problem"]
    ]
    files = [document["network"], document["weights"], *document["configs"].values()]
    for line in (*problems, *files):
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    core = next(iter(document["configs"]), None)
    if core:
        err.print(
            f"Next: seedbed verilog {core} --config {document['configs'][core]}",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip


def _share(value: float | str) -> str:
    return value if isinstance(value, str) else f"{100 * value:.2f} %"
