"""The command line's part for checkpoints: compress, decompress, inspect, explore."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from seedbed.flow.compress.progress import bar
from seedbed.flow.files import require_output
from seedbed.flow.options import Build, Force, Json, show_table
from seedbed.flow.progress import status
from seedbed.spec import RULES, SCALES, SEEDLM, SeedlmConfig

__all__ = ["app"]

if TYPE_CHECKING:
    from seedbed.flow.compress.plan import Options
    from seedbed.flow.compress.run import Summary

app = typer.Typer()
out = Console()
err = Console(stderr=True)

Source = Annotated[Path, typer.Argument(metavar="IN", help="The safetensors file to read.")]
Target = Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")]


def configuration(bits: int | None, **chosen: int | None) -> SeedlmConfig:
    """Return the paper's configuration of ``bits`` a weight, with what is chosen in place of it.

    Raises ``ValueError`` if neither says what a block is.
    """
    given = {name: value for name, value in chosen.items() if value is not None}
    if bits is None:
        lacking = [name for name in ("block", "latent", "width") if name not in given]
        if lacking:
            raise ValueError(
                f"give --bits, one of {', '.join(map(str, SEEDLM))}, or else also "
                f"{' and '.join('--' + name for name in lacking)}"
            )
        return SeedlmConfig(**given)
    if bits not in SEEDLM:
        raise ValueError(f"bits must be one of {', '.join(map(str, SEEDLM))}, not {bits}")
    paper = SEEDLM[bits]
    return SeedlmConfig(
        **{"block": paper.block, "latent": paper.latent, "width": paper.width} | given
    )


@app.command()
def compress(
    source: Source,
    target: Target,
    bits: Annotated[
        int | None, typer.Option(help="The bits a weight takes: 3 or 4, as in the paper.")
    ] = None,
    tensors: Annotated[
        str,
        typer.Option(
            metavar="GLOB",
            help="Compress only tensors whose names match, and that have two dimensions or more.",
        ),
    ] = "*",
    scale: Annotated[
        str,
        typer.Option(
            help=f"The scale of a tensor, {' or '.join(SCALES)}: a power of two of its own, or "
            "none, as in the paper."
        ),
    ] = "auto",
    rule: Annotated[
        str, typer.Option(help=f"The rule for exponents: {' or '.join(RULES)}.")
    ] = "fit",
    block: Annotated[int | None, typer.Option(help="The weights in a block, C.")] = None,
    latent: Annotated[int | None, typer.Option(help="The coefficients in a block, P.")] = None,
    width: Annotated[int | None, typer.Option(help="The bits of a seed, K.")] = None,
    word_bits: Annotated[
        int | None,
        typer.Option(help="The number of top bits of a word that count. By default, all do."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="The number of processes. By default, one for each processor."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="The address of a dask scheduler, whose workers search."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write nothing; estimate sizes, time and errors from a sample of the weights.",
        ),
    ] = False,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Compress a checkpoint's matrices into seeds and coefficients.

    A run that was interrupted continues if it is called again with the same options.
    """
    from seedbed.flow.compress import run, workers
    from seedbed.flow.compress.checkpoint import apart
    from seedbed.flow.compress.plan import Options, count

    config = configuration(bits, block=block, latent=latent, width=width, word_bits=word_bits)
    options = Options(config=config, rule=rule, scale=scale, tensors=tensors)
    if cluster is not None and (jobs is not None or dry_run):
        raise ValueError(f"give {'--jobs' if jobs else '--dry-run'} or --cluster, not both")
    # Before processes start: a file that cannot be compressed needs none, a small one not many.
    pieces = count(source, options)
    apart(source, target)
    if not dry_run:
        require_output(target, force=force)
    processors = len(os.sched_getaffinity(0))
    processes = min(jobs or processors, pieces)
    if dry_run:
        _estimate(source, options, min(processes, processors), as_json=json_)
        return
    with workers.processes(processes) if cluster is None else workers.cluster(cluster) as pool:
        summaries = run.compress(source, target, options, pool=pool, console=err)
    if json_:
        print(json.dumps([_plain(row) for row in summaries], indent=1))
    else:
        _table(summaries)


def _estimate(source: Path, options: "Options", processes: int, *, as_json: bool) -> None:
    """Print what a compression would give and take."""
    from seedbed.flow.compress.sample import estimate

    with status(err, "searching a sample"):
        found = estimate(source, options)
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
        f"{processes} process{'es' * (processes > 1)}, at {rate:,.0f} blocks a second.\n"
        f"Errors and speed are estimated from {found.sampled:,} blocks. Nothing was written.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


def _duration(seconds: float) -> str:
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"about {seconds / size:.1f} {unit}"
    return f"about {max(seconds, 1):.0f} seconds"


def _plain(row: "Summary") -> dict[str, Any]:
    """Return a summary as JSON values; the errors of what passes through are ``null``."""
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
            own = 8 * FLOATS[row.dtype].itemsize
            told = [f"{own:.3f}", f"passed through: blocks take {row.bits:.3f}", ""]
        else:
            told = [f"{row.bits:.3f}", f"{row.error:.4f}", f"{row.plain:.4f}"]
        lines.append([row.name, _shape(row.shape), row.dtype, *told])
    header = ["tensor", "shape", "dtype", "bits a weight", "relative error", "block floating point"]
    show_table(out, header, lines)


@app.command()
def decompress(source: Source, target: Target, force: Force = False) -> None:
    """Write the weights of a compressed checkpoint with their names, shapes and dtypes."""
    from seedbed.flow.compress import decompress as restore

    require_output(target, force=force)
    restore.decompress(source, target, console=err)


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The compressed checkpoint.")],
    json_: Json = False,
) -> None:
    """Show what a compressed checkpoint holds."""
    from seedbed.flow.compress.checkpoint import Checkpoint
    from seedbed.flow.compress.packed import SUFFIX, Packed

    with Checkpoint(file) as read:
        packed = Packed.of(read)
        config = packed.config
        held = {name + SUFFIX for name in packed.tensors}
        rows = []
        for name, weights in packed.tensors.items():
            entry = weights.entry(config)
            rows.append(
                {
                    "tensor": name,
                    "shape": list(weights.shape),
                    "matrix": list(weights.matrix),
                    "dtype": weights.dtype,
                    "blocks": weights.rows * weights.blocks(config),
                    "bytes": entry.nbytes,
                    "bits_per_weight": 8 * entry.nbytes / (weights.rows * weights.columns),
                    "scale": weights.scale,
                }
            )
        kept = [
            {
                "tensor": name,
                "shape": list(entry.shape),
                "dtype": entry.dtype,
                "bytes": entry.nbytes,
            }
            for name, entry in sorted(read.tensors.items())
            if name not in held
        ]
    if json_:
        result = {
            "version": packed.version,
            "configuration": asdict(config),
            "rule": packed.rule,
            "compressed": rows,
            "unchanged": kept,
        }
        print(json.dumps(result, indent=1))
        return
    header = ["tensor", "shape", "packed as", "dtype", "blocks", "bytes", "bits a weight", "scale"]
    lines = [
        [
            row["tensor"], _shape(row["shape"]), _shape(row["matrix"]), row["dtype"], row["blocks"],
            row["bytes"], f"{row['bits_per_weight']:.3f}", f"2^{row['scale']}",
        ]
        for row in rows
    ]  # fmt: skip
    lines += [
        [row["tensor"], _shape(row["shape"]), "", row["dtype"], "", row["bytes"], "unchanged", ""]
        for row in kept
    ]
    show_table(out, header, lines)
    out.print(
        f"Version {packed.version}: blocks of {config.block} weights in {config.block_bits} bits, "
        f"{config.latent} coefficients, seeds of {config.width} bits, words of "
        f"{config.word_bits}, taps {config.taps}; exponents by the rule {packed.rule}."
    )


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


@app.command()
def explore(
    bits: Annotated[int, typer.Option(help="The bits a weight takes.")],
    samples: Annotated[
        int, typer.Option(min=1, help="The number of vectors for each configuration.")
    ] = 4000,
    seed: Annotated[int, typer.Option(help="The seed of the vectors.")] = 1,
    rule: Annotated[
        str, typer.Option(help=f"The rule for exponents: {' or '.join(RULES)}.")
    ] = "paper",
    build: Build = Path("build"),
) -> None:
    """Compare all blocks (C, P, K) of so many bits a weight on Gaussian vectors.

    The result is a table and a plot.
    """
    from seedbed.flow.compress import explore as grid

    with bar(err, "configurations") as shown:
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
            "the paper's" if row["published"] else "",
        ]
        for row in rows
    ]
    path = build / "explore" / f"seedlm_{bits}_{rule}.png"
    grid.plot(rows, path)
    show_table(out, ["C", "P", "K", "relative error", "over the best", ""], lines)
    out.print(f"The plot is {path}.")
