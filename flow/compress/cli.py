"""The command line's part for checkpoints: compress, decompress, inspect, explore."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seedbed.flow.compress.progress import bar
from seedbed.spec import RULES, SCALES, SEEDLM, SeedlmConfig

__all__ = ["app"]

app = typer.Typer()
out = Console()
err = Console(stderr=True)

Source = Annotated[Path, typer.Argument(metavar="IN", help="A safetensors file.")]
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


def _pool(jobs: int | None, address: str | None) -> AbstractContextManager:
    from seedbed.flow.compress import workers

    if address is None:
        return workers.processes(len(os.sched_getaffinity(0)) if jobs is None else jobs)
    if jobs is not None:
        raise ValueError("give --jobs or --cluster, not both")
    return workers.cluster(address)


@app.command()
def compress(
    source: Source,
    target: Target,
    bits: Annotated[int | None, typer.Option(help="A weight: 3 or 4, as in the paper.")] = None,
    tensors: Annotated[
        str, typer.Option(metavar="GLOB", help="Names to compress, if of two dimensions or more.")
    ] = "*",
    scale: Annotated[
        str, typer.Option(help=f"{' or '.join(SCALES)}: a power of two a tensor, or the paper.")
    ] = "auto",
    rule: Annotated[str, typer.Option(help=f"Of exponents: {' or '.join(RULES)}.")] = "fit",
    block: Annotated[int | None, typer.Option(help="Weights a block, C.")] = None,
    latent: Annotated[int | None, typer.Option(help="Coefficients a block, P.")] = None,
    width: Annotated[int | None, typer.Option(help="Bits of a seed, K.")] = None,
    word_bits: Annotated[
        int | None, typer.Option(help="Top bits of a word that count; all by default.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; one a core by default.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of a dask scheduler, whose workers do it."),
    ] = None,
) -> None:
    """Compress a checkpoint's matrices: seeds and coefficients in place of weights.

    An interrupted run goes on where it was, if it is called again with the same options.
    """
    from seedbed.flow.compress import run
    from seedbed.flow.compress.checkpoint import FLOATS
    from seedbed.flow.compress.plan import Options

    config = configuration(bits, block=block, latent=latent, width=width, word_bits=word_bits)
    options = Options(config=config, rule=rule, scale=scale, tensors=tensors)
    with _pool(jobs, cluster) as pool:
        summaries = run.compress(source, target, options, pool=pool, console=err)
    table = Table(
        "tensor", "shape", "dtype", "bits a weight", "relative error", "block floating point"
    )
    for row in summaries:
        if row.error is None:
            own = 8 * FLOATS[row.dtype].itemsize
            told = [f"{own:.3f}", f"passed through: blocks take {row.bits:.3f}"]
        else:
            told = [f"{row.bits:.3f}", f"{row.error:.4f}", f"{row.plain:.4f}"]
        table.add_row(escape(row.name), _shape(row.shape), row.dtype, *told)
    out.print(table)


@app.command()
def decompress(source: Source, target: Target) -> None:
    """Write the weights of a compressed checkpoint, in the names, shapes and dtypes they had."""
    from seedbed.flow.compress import decompress as restore

    restore.decompress(source, target, console=err)


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A compressed one.")],
) -> None:
    """Show what a compressed checkpoint holds."""
    from seedbed.flow.compress.checkpoint import Checkpoint
    from seedbed.flow.compress.packed import SUFFIX, Packed

    with Checkpoint(file) as read:
        packed = Packed.of(read)
        config = packed.config
        table = Table(
            "tensor", "shape", "packed as", "dtype", "blocks", "bytes", "bits a weight", "scale"
        )
        for name, weights in packed.tensors.items():
            entry = weights.entry(config)
            count = weights.rows * weights.columns
            table.add_row(
                escape(name), _shape(weights.shape), _shape(weights.matrix), weights.dtype,
                str(weights.rows * weights.blocks(config)), str(entry.nbytes),
                f"{8 * entry.nbytes / count:.3f}", f"2^{weights.scale}",
            )  # fmt: skip
        held = {name + SUFFIX for name in packed.tensors}
        for name, entry in sorted(read.tensors.items()):
            if name not in held:
                table.add_row(
                    escape(name), _shape(entry.shape), "", entry.dtype, "", str(entry.nbytes),
                    "as it was",
                )  # fmt: skip
    out.print(table)
    out.print(
        f"Version {packed.version}: blocks of {config.block} weights in {config.block_bits} bits, "
        f"{config.latent} coefficients, seeds of {config.width} bits, words of "
        f"{config.word_bits}, taps {config.taps}; exponents by the rule {packed.rule}."
    )


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


@app.command()
def explore(
    bits: Annotated[int, typer.Option(help="Of a weight.")],
    samples: Annotated[int, typer.Option(help="Vectors a configuration.")] = 4000,
    seed: Annotated[int, typer.Option(help="Of the vectors.")] = 1,
    rule: Annotated[str, typer.Option(help=f"Of exponents: {' or '.join(RULES)}.")] = "paper",
    build: Annotated[Path, typer.Option(help="Folder of the plot.")] = Path("build"),
) -> None:
    """Compare all (C, P, K) of as many bits a weight on Gaussian vectors: a table and a plot."""
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
    table = Table("C", "P", "K", "relative error", "over the best", "")
    for row in rows:
        table.add_row(
            *(str(row[name]) for name in ("block", "latent", "width")),
            f"{row['relative_error']:.4f}",
            f"{row['ratio']:.3f}",
            "the paper's" if row["published"] else "",
        )
    path = build / "explore" / f"seedlm_{bits}_{rule}.png"
    grid.plot(rows, path)
    out.print(table)
    out.print(f"The plot is {path}.")
