"""The commands for checkpoints: compress, decompress, inspect, sensitive, explore."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from seedbed.flow.cli.sensitive import sensitive
from seedbed.flow.run.files import require_output
from seedbed.flow.run.options import Build, Force, Json, show_table
from seedbed.flow.run.progress import status, throughput_bar
from seedbed.spec import RULES, SCALES, SEEDLM, SeedlmConfig, TrellisConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config

__all__ = ["app"]

if TYPE_CHECKING:
    from seedbed.flow.compress.packed import Config, Packed
    from seedbed.flow.compress.plan import Options
    from seedbed.flow.compress.run import Summary

app = typer.Typer()
app.command()(sensitive)
out = Console()
err = Console(stderr=True)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="IN",
        help="The safetensors file to read; of a sharded checkpoint, its index or its folder.",
    ),
]
Target = Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")]


def configuration(
    bits: int | None, format_: str = "seedlm", group: int | None = None, *,
    block: int | None = None, latent: int | None = None, width: int | None = None,
    word_bits: int | None = None, state_bits: int | None = None,
) -> "Config":  # fmt: skip
    """Return the configuration of a format; for SeedLM, the paper's with ``bits`` per weight.

    The options from ``block`` to ``word_bits`` modify SeedLM's blocks. Raises ``ValueError`` if the
    block is not fully specified, and for an option of another format.
    """
    options = {"block": block, "latent": latent, "width": width, "word_bits": word_bits}
    given = {name: value for name, value in options.items() if value is not None}
    if state_bits is not None and format_ != "trellis":
        raise ValueError("--state-bits needs --format trellis")
    if format_ != "seedlm":
        return _other_format(bits, format_, group, given, state_bits)
    if group is not None:
        raise ValueError("--group needs --format groups")
    if bits is None:
        missing = [name for name in ("block", "latent", "width") if name not in given]
        if missing:
            raise ValueError(
                f"give --bits, one of {', '.join(map(str, SEEDLM))}, or else also "
                f"{' and '.join('--' + name for name in missing)}"
            )
        sizes = given
    elif bits not in SEEDLM:
        raise ValueError(f"bits must be one of {', '.join(map(str, SEEDLM))}, not {bits}")
    else:
        paper = SEEDLM[bits]
        sizes = {"block": paper.block, "latent": paper.latent, "width": paper.width} | given
    return SeedlmConfig(
        block=sizes["block"],
        latent=sizes["latent"],
        width=sizes["width"],
        word_bits=sizes.get("word_bits", SeedlmConfig.word_bits),
    )


def _other_format(
    bits: int | None, format_: str, group: int | None, given: dict[str, int],
    state_bits: int | None,
) -> "Config":  # fmt: skip
    if format_ not in ("trellis", "lut4", "groups"):
        raise ValueError(f"format must be one of seedlm, trellis, lut4, groups, not {format_!r}")
    if given:
        names = " and ".join("--" + name.replace("_", "-") for name in given)
        raise ValueError(f"{names} needs --format seedlm, not {format_}")
    if group is not None and format_ != "groups":
        raise ValueError("--group needs --format groups")
    if format_ == "trellis":
        return TrellisConfig(
            bits=TrellisConfig.bits if bits is None else bits,
            state_bits=TrellisConfig.state_bits if state_bits is None else state_bits,
        )
    if bits not in (None, 4):
        raise ValueError(f"the format {format_} has 4 bits per code, not {bits}")
    if format_ == "groups":
        return GroupsConfig() if group is None else GroupsConfig(group=group)
    return Lut4Config()


@app.command()
def compress(
    source: Source,
    target: Target,
    bits: Annotated[
        int | None,
        typer.Option(help="The bits per weight: 3 or 4, as in the paper; 2, 3 or 4 of a trellis."),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="The format: seedlm, seeds and coefficients; trellis, a path of least error "
            "with a scale per row; lut4, 16 levels per row by k-means; groups, rounding to nearest "
            "with a scale per group.",
        ),
    ] = "seedlm",
    group: Annotated[
        int | None,
        typer.Option(help="The weights per group of --format groups: 32 or 128. By default, 32."),
    ] = None,
    tensors: Annotated[
        str,
        typer.Option(
            metavar="GLOB",
            help="Compress only tensors with matching names; they need two or more dimensions.",
        ),
    ] = "*",
    scale: Annotated[
        str,
        typer.Option(
            help=f"The scale of a tensor, {' or '.join(SCALES)}: a power of two per tensor, or "
            "none, as in the paper."
        ),
    ] = "auto",
    rule: Annotated[
        str, typer.Option(help=f"The rule for exponents: {' or '.join(RULES)}.")
    ] = "fit",
    block: Annotated[int | None, typer.Option(help="The weights per block, C.")] = None,
    latent: Annotated[int | None, typer.Option(help="The coefficients per block, P.")] = None,
    width: Annotated[int | None, typer.Option(help="The bits of a seed, K.")] = None,
    word_bits: Annotated[
        int | None,
        typer.Option(help="The number of used most significant bits of a word. By default, all."),
    ] = None,
    state_bits: Annotated[
        int | None,
        typer.Option(help="The state bits of --format trellis: 8, 10 or 12. By default, 12."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="The number of processes. By default, one per processor."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="The address of a dask scheduler; its workers search."
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="MASK",
            help="Keep the weights of this mask in 16 bits, as differences to the blocks; "
            "'seedbed sensitive' writes masks.",
        ),
    ] = None,
    keep_as: Annotated[
        str, typer.Option(help="The format of the differences: float16, bfloat16 or int16.")
    ] = "float16",
    importance: Annotated[
        Path | None,
        typer.Option(
            metavar="STATS",
            help="Weight errors by the importance of the input channel: a safetensors file with a "
            "vector per tensor; or with a matrix, to compensate errors by later columns.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write no file; estimate sizes, time and errors from a sample of the weights.",
        ),
    ] = False,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Compress a checkpoint's matrices to 2, 3 or 4 bits per weight, by default into seeds.

    An interrupted run is resumed by the same command.
    """
    from seedbed.flow.compress import run, workers
    from seedbed.flow.compress.plan import Options, count
    from seedbed.flow.compress.shards import require_target

    config = configuration(
        bits, format_, group, block=block, latent=latent, width=width, word_bits=word_bits,
        state_bits=state_bits,
    )  # fmt: skip
    options = Options(
        config=config, rule=rule, scale=scale, tensors=tensors, keep=keep, keep_as=keep_as,
        importance=importance,
    )  # fmt: skip
    if cluster is not None and jobs is not None:
        raise ValueError("give --jobs or --cluster, not both")
    # Checked before processes start. A small file needs fewer processes.
    pieces = count(source, options)
    require_target(source, target)
    if not dry_run:
        require_output(target, force=force)
    processors = len(os.sched_getaffinity(0))
    processes = min(jobs or processors, pieces)
    if dry_run:
        # The speed of a cluster is unknown: that of one of its processes is estimated.
        _estimate(source, options, 1 if cluster else min(processes, processors), as_json=json_)
        return
    with workers.processes(processes) if cluster is None else workers.cluster(cluster) as pool:
        summaries = run.compress(source, target, options, pool=pool, console=err, force=force)
    if json_:
        print(json.dumps([_plain(row) for row in summaries], indent=1))
    else:
        _table(summaries)


def _estimate(source: Path, options: "Options", processes: int, *, as_json: bool) -> None:
    """Print estimates of sizes, errors and time."""
    from seedbed.flow.compress.sample import estimate

    with status(err, "searching a sample"):
        found = estimate(source, options, err)
    rate = processes * found.blocks_per_second
    if as_json:
        values = {name: value for name, value in vars(found).items() if name != "tensors"}
        values |= {"processes": processes, "seconds": found.blocks / rate}
        rows = [_plain(row) for row in found.tensors]
        print(json.dumps(values | {"tensors": rows}, indent=1))
        return
    _table(found.tensors)
    share = 100 * found.target_bytes / found.source_bytes
    out.print(
        f"{found.source_bytes:,} bytes of tensors would become {found.target_bytes:,} "
        f"({share:.1f} %).\n"
        f"The search of {found.blocks:,} blocks would take {_duration(found.blocks / rate)} with "
        f"{processes} process{'es' * (processes > 1)}, at {rate:,.0f} blocks per second.\n"
        f"Errors and speed are estimated from {found.sampled:,} blocks. Nothing was written.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


def _duration(seconds: float) -> str:
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"about {seconds / size:.1f} {unit}"
    return f"about {max(seconds, 1):.0f} seconds"


def _plain(row: "Summary") -> dict[str, Any]:
    """Return a summary as JSON values; errors of uncompressed tensors are ``null``."""
    return {
        "tensor": row.name,
        "shape": list(row.shape),
        "dtype": row.dtype,
        "bits_per_weight": row.bits,
        "relative_error": row.error,
        "block_floating_point_error": row.plain,
    }


def _table(summaries: Iterable["Summary"]) -> None:
    from seedbed.flow.compress.checkpoint import FLOATS

    lines = []
    for row in summaries:
        if row.error is None:
            width = 8 * FLOATS[row.dtype].itemsize
            figures = [f"{width:.3f}", f"not compressed: blocks need {row.bits:.3f}", ""]
        else:
            figures = [f"{row.bits:.3f}", f"{row.error:.4f}"]
            figures.append("" if row.plain is None else f"{row.plain:.4f}")
        lines.append([row.name, _shape(row.shape), row.dtype, *figures])
    header = [
        "tensor",
        "shape",
        "dtype",
        "bits per weight",
        "relative error",
        "block floating point",
    ]
    show_table(out, header, lines)


@app.command()
def decompress(source: Source, target: Target, force: Force = False) -> None:
    """Decompress a checkpoint, with the original names, shapes and dtypes."""
    from seedbed.flow.compress import decompress as restore

    require_output(target, force=force)
    restore.decompress(source, target, console=err)


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The compressed checkpoint.")],
    json_: Json = False,
) -> None:
    """Show the content of a compressed checkpoint."""
    from seedbed.flow.compress.packed import Packed
    from seedbed.flow.compress.shards import open_checkpoint

    with open_checkpoint(file) as read:
        packed = Packed.of(read)
        config = packed.config
        compressed = packed.entries
        rows: list[dict[str, Any]] = []
        for name, weights in packed.tensors.items():
            size = packed.nbytes(name, weights)
            rows.append(
                {
                    "tensor": name,
                    "shape": list(weights.shape),
                    "matrix": list(weights.matrix),
                    "dtype": weights.dtype,
                    "blocks": weights.rows * weights.blocks(config),
                    "bytes": size,
                    "bits_per_weight": 8 * size / (weights.rows * weights.columns),
                    "scale": weights.scale,
                    "kept": weights.kept,
                }
            )
        unchanged: list[dict[str, Any]] = [
            {
                "tensor": name,
                "shape": list(entry.shape),
                "dtype": entry.dtype,
                "bytes": entry.nbytes,
            }
            for name, entry in sorted(read.tensors.items())
            if name not in compressed
        ]
    if json_:
        result = {
            "version": packed.version,
            "format": packed.format,
            "configuration": asdict(config),
            "rule": packed.rule,
            "kept": packed.kept,
            "compressed": rows,
            "unchanged": unchanged,
        }
        print(json.dumps(result, indent=1))
        return
    header = [
        "tensor",
        "shape",
        "packed as",
        "dtype",
        "blocks",
        "bytes",
        "bits per weight",
        "scale",
        "kept",
    ]
    lines = [
        [
            row["tensor"], _shape(row["shape"]), _shape(row["matrix"]), row["dtype"], row["blocks"],
            row["bytes"], f"{row['bits_per_weight']:.3f}", f"2^{row['scale']}",
            row["kept"],
        ]
        for row in rows
    ]  # fmt: skip
    lines += [
        [
            row["tensor"],
            _shape(row["shape"]),
            "",
            row["dtype"],
            "",
            row["bytes"],
            "unchanged",
            "",
            "",
        ]
        for row in unchanged
    ]
    show_table(out, header, lines)
    out.print(f"Version {packed.version}: {_describe(packed)}.")


def _describe(packed: "Packed") -> str:
    config = packed.config
    if isinstance(config, SeedlmConfig):
        return (
            f"blocks of {config.block} weights in {config.block_bits} bits, {config.latent} "
            f"coefficients, seeds of {config.width} bits, words of {config.word_bits}, taps "
            f"{config.taps}; exponent rule {packed.rule}"
        )
    if isinstance(config, GroupsConfig):
        return f"groups of {config.group} codes of 4 bits with a scale of 16 bits"
    if isinstance(config, TrellisConfig):
        return (
            f"rows of a trellis code of {config.bits} bits with states of {config.state_bits}, "
            f"{len(config.masks)} fields of {config.field_bits} bits, and a scale of 16 bits"
        )
    return f"rows of codes of 4 bits with a table of {config.levels} levels of 16 bits"


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


@app.command()
def explore(
    bits: Annotated[int, typer.Option(help="The bits per weight.")],
    samples: Annotated[
        int, typer.Option(min=1, help="The number of vectors per configuration.")
    ] = 4000,
    seed: Annotated[int, typer.Option(help="The seed of the vectors.")] = 1,
    rule: Annotated[
        str, typer.Option(help=f"The rule for exponents: {' or '.join(RULES)}.")
    ] = "paper",
    build: Build = Path("build"),
) -> None:
    """Compare all block parameters (C, P, K) for a number of bits per weight.

    The relative errors on Gaussian vectors are printed as a table and plotted.
    """
    from seedbed.flow.compress import explore as grid

    with throughput_bar(err, "configurations") as shown:
        task = shown.add_task("exploring", total=None)
        rows = grid.explore(
            bits,
            samples=samples,
            seed=seed,
            rule=rule,
            progress=lambda done, total: shown.update(task, completed=done, total=total),
        )
    lines = [
        [
            *(row[name] for name in ("block", "latent", "width")),
            f"{row['relative_error']:.4f}",
            f"{row['ratio']:.3f}",
            "paper" if row["published"] else "",
        ]
        for row in rows
    ]
    path = build / "explore" / f"seedlm_{bits}_{rule}.png"
    grid.plot(rows, path)
    show_table(out, ["C", "P", "K", "relative error", "ratio to best", ""], lines)
    out.print(f"The plot is in {path}.")
