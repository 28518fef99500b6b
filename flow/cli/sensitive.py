"""The command that selects sensitive weights, and its plot."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from seedbed.flow.run.files import require_outputs, write_atomic
from seedbed.flow.run.options import Force, Json, show_table

__all__ = ["sensitive"]

if TYPE_CHECKING:
    from seedbed.flow.compress.sensitive import Spectrum

out = Console()
err = Console(stderr=True)
#: Fractions whose shares of the squared gradient are printed.
FRACTIONS = (0.001, 0.01, 0.1)


def sensitive(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="The safetensors file of the weights, or a sharded one's index or folder.",
        ),
    ],
    gradients: Annotated[
        Path | None,
        typer.Argument(
            metavar="[GRADIENTS]",
            help="The file, index or folder of the gradients, with the names and shapes of the "
            "weights.",
        ),
    ] = None,
    mask: Annotated[
        Path, typer.Option("-o", "--output", metavar="MASK", help="The file to write.")
    ] = Path("mask.safetensors"),
    fraction: Annotated[
        float, typer.Option(help="The fraction of the weights of all tensors to keep.")
    ] = 0.001,
    by: Annotated[
        str,
        typer.Option(
            help="Keep the largest by gradient, magnitude or random. The last two are for "
            "comparison, and need no GRADIENTS."
        ),
    ] = "gradient",
    tensors: Annotated[
        str,
        typer.Option(
            metavar="GLOB",
            help="Select only tensors with matching names; they need two or more dimensions.",
        ),
    ] = "*",
    seed: Annotated[int, typer.Option(min=0, help="The seed of --by random.")] = 1,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="PNG", help="Plot the cumulative squared gradient to this file."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="The number of processes. By default, one.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="The address of a dask scheduler; its workers rank."),
    ] = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Write a mask of the sensitive weights: those with the largest squared gradients."""
    from seedbed.flow.compress import workers
    from seedbed.flow.compress.sensitive import count_pieces
    from seedbed.flow.compress.sensitive import sensitive as select

    if jobs is not None and cluster is not None:
        raise ValueError("give --jobs or --cluster, not both")
    if plot is not None and gradients is None:
        raise ValueError("--plot needs GRADIENTS")
    require_outputs(mask, plot, force=force)
    # A small file needs fewer processes.
    processes = min(jobs or 1, count_pieces(checkpoint, tensors))
    with workers.processes(processes) if cluster is None else workers.cluster(cluster) as pool:
        found = select(
            checkpoint, gradients, mask, fraction=fraction, by=by, tensors=tensors, seed=seed,
            pool=pool, console=err,
        )  # fmt: skip
    if plot is not None and found.spectrum is not None:
        _plot(found.spectrum, plot)
    shares = {f: found.spectrum.share(f) for f in FRACTIONS} if found.spectrum else {}
    if json_:
        rows = [
            {"tensor": r.name, "shape": list(r.shape), "kept": r.kept, "share": r.share}
            for r in found.rows
        ]
        listed = [{"fraction": f, "share": share} for f, share in shares.items()]
        print(json.dumps({"tensors": rows, "squared_gradient": listed}, indent=1))
        return
    lines = [
        [
            row.name,
            " x ".join(map(str, row.shape)),
            f"{row.kept:,}",
            "" if row.share is None else f"{100 * row.share:.1f}",
        ]
        for row in found.rows
    ]
    show_table(out, ["tensor", "shape", "kept weights", "% of squared gradient"], lines)
    if shares:
        top = ", ".join(f"{100 * f:g} % have {100 * share:.1f} %" for f, share in shares.items())
        out.print(f"Of the squared gradient, the top {top}.", highlight=False, soft_wrap=True)


def _plot(spectrum: "Spectrum", path: Path) -> None:
    """Plot the cumulative squared gradient over the fraction of the weights."""
    from seedbed.flow.run.plot_style import OURS, panels, png

    figure, (axes,) = panels(1, 6.4, 4.2)
    fractions, shares = spectrum.cumulative()
    axes.plot(fractions[1:], shares[1:], color=OURS)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("fraction of the weights, largest gradients first (log scale)")
    axes.set_ylabel("share of the squared gradient")
    for fraction in FRACTIONS:
        share = spectrum.share(fraction)
        axes.plot(fraction, share, "o", color=OURS, ms=4)
        axes.annotate(
            f"{100 * fraction:g} %: {share:.2f}", (fraction, share), (6, -10),
            textcoords="offset points", fontsize=8,
        )  # fmt: skip
    write_atomic(path, png(figure))
