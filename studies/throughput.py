"""How fast checkpoints are compressed, in how much memory: a synthetic one in shards.

``python -m seedbed.studies.throughput`` writes random bfloat16 weights, and runs ``seedbed
compress`` on them: an estimate of all shards, and one shard in full, with one process and with two.
Other load on the machine lowers all rates.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import ml_dtypes
import numpy as np
from rich.console import Console
from safetensors.numpy import save_file

from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table

__all__ = ["FORMATS", "measure", "write"]

#: Options of the formats that are measured.
FORMATS = {
    "trellis, 4 bits, L = 12": ["--format", "trellis"],
    "trellis, 4 bits, L = 10": ["--format", "trellis", "--state-bits", "10"],
    "trellis, 4 bits, L = 8": ["--format", "trellis", "--state-bits", "8"],
    "trellis, 3 bits, L = 12": ["--format", "trellis", "--bits", "3"],
    "SeedLM, 4 bits": ["--bits", "4"],
    "lut4": ["--format", "lut4"],
    "groups of 128": ["--format", "groups", "--group", "128"],
}
#: Columns of a matrix, and its rows at most: 16 million weights.
COLUMNS, ROWS = 4096, 4096


def write(folder: Path, weights: int, shards: int, columns: int) -> list[Path]:
    """Write about so many random weights as a sharded checkpoint; return its shards."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, listed, paths = np.random.default_rng(1), {}, []
    for shard in range(shards):
        path = folder / f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        rows, tensors = max(weights // shards // columns, 1), {}
        for first in range(0, rows, ROWS):
            drawn = rng.standard_normal((min(ROWS, rows - first), columns), np.float32)
            name = f"block.{shard}.{first // ROWS}.weight"
            tensors[name] = (drawn / columns**0.5).astype(ml_dtypes.bfloat16)
            listed[name] = path.name
        save_file(tensors, path)
        paths.append(path)
    index = {"weight_map": listed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return paths


def _run(*words: str | Path) -> tuple[str, float, float]:
    """Run ``seedbed`` with ``words``; return its output, seconds, and MiB of its largest process.

    Raises ``RuntimeError`` if it fails.
    """
    command = [sys.executable, "-m", "seedbed", *map(str, words)]
    begin = perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
    return output, perf_counter() - begin, used.ru_maxrss / 1024


def measure(
    out: Path, *, weights: int, shards: int, formats: Sequence[str], jobs: Sequence[int] = (1, 2)
) -> dict[str, Any]:
    """Return the rates of formats on the first shard, and what estimates of all shards take.

    The result is written to ``out/throughput.json``. A rate counts the whole command: it starts
    processes, reads the shard twice, and writes the packed file. The first shard is compressed once
    before, so that nothing is compiled in a timed run.
    """
    first, *_ = write(out / "model", weights, shards, COLUMNS)
    small = write(out / "small", 1 << 16, 1, 256)[0]
    packed = out / "packed.safetensors"
    rows = []
    for name in formats:
        options = FORMATS[name]
        _run("compress", small, packed, *options, "--jobs", "2", "--force", "--json")
        row: dict[str, Any] = {"format": name}
        for count in jobs:
            timed = *options, "--jobs", str(count), "--force", "--json"
            _, seconds, mib = _run("compress", first, packed, *timed)
            part = weights // shards // COLUMNS * COLUMNS
            row |= {f"weights_per_second_{count}": part / seconds, f"peak_mib_{count}": mib}
        _, seconds, mib = _run("compress", out / "model", packed, *options, "--dry-run", "--json")
        rows.append(row | {"estimate_seconds": seconds, "estimate_mib": mib})
    packed.unlink(missing_ok=True)
    result = {"weights": weights, "shards": shards, "rows": rows}
    write_atomic(out / "throughput.json", json.dumps(result, indent=1) + "\n")
    return result


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m seedbed.studies.throughput")
    parser.add_argument("--weights", type=float, default=1e9, help="weights of all shards")
    parser.add_argument("--shards", type=int, default=32, help="files of the checkpoint")
    parser.add_argument("--format", choices=FORMATS, action="append", help="default: all")
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder of the files")
    given = parser.parse_args()
    result = measure(
        given.build / "throughput", weights=int(given.weights), shards=given.shards,
        formats=given.format or list(FORMATS),
    )  # fmt: skip
    header = [
        "format", "M weights/s, 1 process", "2 processes", "MiB of a process",
        "estimate of all shards, s", "MiB",
    ]  # fmt: skip
    lines = [
        [
            row["format"], *(f"{row[f'weights_per_second_{k}'] / 1e6:.2f}" for k in (1, 2)),
            f"{row['peak_mib_2']:.0f}", f"{row['estimate_seconds']:.0f}",
            f"{row['estimate_mib']:.0f}",
        ]
        for row in result["rows"]
    ]  # fmt: skip
    show_table(Console(), header, lines)


if __name__ == "__main__":
    main()
