"""Comparison of block parameters: the paper's search over C, P and K at fixed bits per weight."""

from collections.abc import Callable, Iterable
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps

from seedbed.flow.compress.search import search
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.plot_style import PAPER, legend, panels, png
from seedbed.golden.seedlm import errors
from seedbed.spec import SeedlmConfig
from seedbed.spec.checks import require_int
from seedbed.spec.seedlm import NIBBLE, SEEDLM

__all__ = ["WIDTHS", "explore", "grid", "plot"]

#: Seeds of 4 to 16 bits. Each bit doubles time and memory; the limit is 20.
WIDTHS = range(4, 17)
#: Ranges that a configuration allows.
BLOCKS, LATENTS = range(1, 33), range(1, 9)


def grid(bits: int, *, widths: Iterable[int] = WIDTHS) -> list[SeedlmConfig]:
    """Return every configuration with ``bits`` C = K + 4 + 4 P, for K of ``widths``, P of 1 .. 8.

    Raises ``ValueError`` if there is none: a block of one weight has at most 56 bits.
    """
    require_int("bits", bits, 1, 56)
    found = []
    for width in widths:
        for latent in LATENTS:
            block, rest = divmod(width + NIBBLE + NIBBLE * latent, bits)
            if rest == 0 and block in BLOCKS:
                found.append(SeedlmConfig(block=block, latent=latent, width=width))
    if not found:
        raise ValueError(f"no block has exactly {bits} bits per weight with these widths")
    return found


def explore(
    bits: int,
    *,
    samples: int = 4000,
    seed: int = 1,
    widths: Iterable[int] = WIDTHS,
    rule: str = "paper",
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each configuration with ``bits`` per weight, the best first.

    Each compresses ``samples`` standard normal vectors of C weights, the same ones for equal C.
    ``relative_error`` is ``sqrt(sum |w - U t|^2 / sum |w|^2)``, ``ratio`` its ratio to the best,
    and ``published`` is true for the paper's choice. 4000 samples resolve errors that differ by 1
    %. Small seeds have large errors if P and 2^K - 1 have a common factor: the rows of U repeat.

    Parameters
    ----------
    bits
        M of the paper, bits per weight.
    samples, seed
        Number of vectors, and their random seed.
    widths
        Values of K.
    rule
        Exponent rule, one of ``RULES``. The paper's blocks are the best at both 3 and 4 bits only
        with its rule, which wastes bits of coefficients; ``fit`` favours more coefficients.
    progress
        Called with the number of configurations done and in all.

    Source: SeedLM (arXiv:2410.10714), section 3.4, Eq. 5 and Table 1.
    """
    require_int("samples", samples, 1, 1 << 24)
    require_int("seed", seed, 0, (1 << 32) - 1)
    configs = grid(bits, widths=widths)
    rows: list[dict[str, Any]] = []
    for done, config in enumerate(configs, start=1):
        blocks = np.random.default_rng((seed, config.block)).normal(size=(samples, config.block))
        wrong = errors(config, blocks, *search(config, blocks, rule=rule)).sum()
        rows.append(
            {
                "bits": bits,
                "block": config.block,
                "latent": config.latent,
                "width": config.width,
                "rule": rule,
                "samples": samples,
                "relative_error": sqrt(wrong / (blocks**2).sum()),
                "published": config == SEEDLM.get(bits),
            }
        )
        if progress:
            progress(done, len(configs))
    rows.sort(key=lambda row: row["relative_error"])
    for row in rows:
        row["ratio"] = row["relative_error"] / rows[0]["relative_error"]
    return rows


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Plot the errors over K to a PNG, one line per P, with the paper's choice marked."""
    figure, (axes,) = panels(1, 8, 4.8)
    latents = sorted({row["latent"] for row in rows})
    # Dark to light, in the order of P.
    colors = colormaps["viridis"](np.linspace(0, 0.9, len(latents)))
    for latent, color in zip(latents, colors, strict=True):
        line = sorted((r for r in rows if r["latent"] == latent), key=lambda row: row["width"])
        widths = [row["width"] for row in line]
        values = [row["relative_error"] for row in line]
        axes.plot(widths, values, "-o", ms=4, color=color, label=f"P = {latent}")
    for row in rows:
        if row["published"]:
            at = row["width"], row["relative_error"]
            axes.plot(*at, "*", ms=14, color=PAPER, label="paper, Table 1", zorder=3)
    first = rows[0]
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.set_xlabel(f"K, bits of the seed; blocks of (K + 4 + 4 P) / {first['bits']} weights")
    axes.set_ylabel("relative error, Gaussian weights (log scale)")
    axes.set_title(f"{first['bits']} bits per weight, exponent rule {first['rule']}", size=10)
    legend(figure, columns=5)
    write_atomic(path, png(figure))
