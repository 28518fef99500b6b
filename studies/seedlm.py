"""The SeedLM demonstration: train, compress to a file, and multiply in the RTL."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import ceil, log2
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from safetensors.numpy import load_file, save_file
from threadpoolctl import threadpool_limits

from seedbed.flow.compress import run, workers
from seedbed.flow.compress.checkpoint import Checkpoint
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.packed import SUFFIX, Packed, unpack_rows
from seedbed.flow.compress.plan import Options
from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.jobs.data import Split, digits, mnist
from seedbed.flow.jobs.mlp_task import SETTINGS, flat, prepare
from seedbed.flow.jobs.pretrained import pretrained
from seedbed.flow.report.row import Row, load_rows
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.progress import Bar
from seedbed.golden import network
from seedbed.golden.gemv import Gemv
from seedbed.sim.cases.gemv import Job
from seedbed.sim.jobs import gemv_cycles
from seedbed.spec import SEEDLM, GemvConfig, SeedlmConfig
from seedbed.spec.network import LENET5, Layer, NetworkConfig

__all__ = ["CONFIGS", "rows", "run_seedlm"]

#: The paper's two configurations, and shorter words at 4 bits.
CONFIGS: dict[str, SeedlmConfig] = {
    "4 bits": SEEDLM[4],
    "4 bits, 8-bit words": replace(SEEDLM[4], word_bits=8),
    "3 bits": SEEDLM[3],
}
#: Name of the demonstration in the report.
CORE = "demo seedlm"
#: Bits per beat of weights in the RTL, for a core that Verilator builds in seconds.
BEAT = 128
#: Adam for LeNet-5: steps, images per step, and rate.
STEPS, BATCH, RATE = 4000, 64, 1e-3
#: Seed of initial weights and batches.
SEED = 0


@dataclass(frozen=True)
class Trained:
    """A trained network, the held-out images, and the dense ``layer`` to compute in the RTL."""

    config: NetworkConfig
    parameters: dict[str, np.ndarray]
    images: np.ndarray
    labels: np.ndarray
    layer: str


def run_seedlm(
    data: Path | None, out: Path, *, build: Path, console: Console | None = None
) -> dict[str, Any]:
    """Train, compress, measure accuracy, and multiply; write ``out/seedlm.json``.

    The digits use the pre-trained classifier of the zeroth-order demonstration, MNIST a LeNet-5.
    The weights are written to a safetensors file, which is compressed with each of :data:`CONFIGS`
    and decompressed again. The accuracy is that of the floating-point network with the
    decompressed weights. One dense layer of the compressed file is multiplied with the activations
    of a held-out image in the emitted Verilog of :class:`~seedbed.hw.products.gemv.Gemv`, and
    checked against the golden model, bit-exact.

    Parameters
    ----------
    data
        A folder with MNIST's IDX files; ``None``: scikit-learn's digits.
    out
        Created if needed. Folder of the cached network and the compressed files.
    build
        Build folder of the Verilog.
    console
        Output of the table; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for bad data, ``OSError`` if ``out``
    cannot be written, and :class:`~seedbed.sim.harness.Mismatch` if the RTL differs from the model.
    """
    split = digits() if data is None else mnist(data)
    out.mkdir(parents=True, exist_ok=True)
    progress = Console(stderr=True, quiet=console is None)
    trained = _classifier(split) if data is None else _lenet5(split, out, progress)
    plain = out / "weights.safetensors"
    save_file(trained.parameters, plain)
    before = _accuracy(trained, trained.parameters)
    measured = []
    for name, config in CONFIGS.items():
        stem = name.replace(" ", "-").replace(",", "")
        packed, restored = out / f"{stem}.safetensors", out / f"{stem}-restored.safetensors"
        with workers.processes(1) as pool:
            *_, total = run.compress(
                plain, packed, Options(config=config), pool=pool, console=progress
            )
        decompress(packed, restored, console=progress)
        multiplied = _multiply(trained, packed, build)
        measured.append(
            {
                "config": name,
                "bits": total.bits,
                "error": total.error,
                "plain": total.plain,
                "accuracy": _accuracy(trained, load_file(restored)),
                **multiplied,
            }
        )
    result = {
        "command": "seedbed demo seedlm" + ("" if data is None else " --data DIR"),
        "data": split.name,
        "parameters": trained.config.parameters,
        "images": len(trained.labels),
        "layer": trained.layer,
        "before": before,
        "rows": measured,
    }
    write_atomic(out / "seedlm.json", json.dumps(result, indent=1, allow_nan=False) + "\n")
    if console is not None:
        _show(result, console)
    return result


def _accuracy(trained: Trained, parameters: dict[str, np.ndarray]) -> float:
    with threadpool_limits(1):
        return 100 * network.accuracy(trained.config, parameters, trained.images, trained.labels)


def _classifier(split: Split) -> Trained:
    """Return the pre-trained perceptron of the zeroth-order demonstration."""
    task = prepare(split, SETTINGS[split.name])
    layers, parameters = [], {}
    views = task.model.layers(task.theta)
    for k, (weights, biases) in enumerate(views, start=1):
        name = f"fc{k}"
        inputs, outputs = weights.shape
        layers.append(
            Layer(
                name=name, kind="dense", inputs=(inputs, 1, 1), outputs=outputs,
                relu=k < len(views),
            )
        )  # fmt: skip
        # safetensors writes the buffer and ignores strides.
        parameters[f"{name}.weight"] = np.ascontiguousarray(weights.T, np.float32)
        parameters[f"{name}.bias"] = biases.astype(np.float32)
    images = flat(split.test[0])[:, :, None, None]
    return Trained(NetworkConfig(tuple(layers)), parameters, images, split.test[1], "fc1")


def _lenet5(split: Split, out: Path, console: Console) -> Trained:
    """Return a trained LeNet-5, cached in ``out``."""
    images, labels = split.pre[0][:, None], split.pre[1]
    parameters = pretrained(
        out / "seedlm_cache", images, labels, {"steps": STEPS, "batch": BATCH, "rate": RATE},
        lambda: _train(images, labels, console),
    )  # fmt: skip
    return Trained(LENET5, parameters, split.test[0][:, None], split.test[1], "fc1")


def _train(images: np.ndarray, labels: np.ndarray, console: Console) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(SEED)

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _ in range(STEPS):
            chosen = rng.integers(len(labels), size=BATCH)
            yield images[chosen], labels[chosen]

    bar = Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console,
    )  # fmt: skip
    parameters = network.init(LENET5, rng)
    with bar, threadpool_limits(1):
        task = bar.add_task("training LeNet-5", total=STEPS)
        for step in network.adam(LENET5, parameters, batches(), rate=RATE):
            parameters = step
            bar.advance(task)
    return parameters


def _multiply(trained: Trained, path: Path, build: Path) -> dict[str, Any]:
    """Multiply one layer's compressed weights in the emitted Verilog; return cycles and error."""
    name = f"{trained.layer}.weight"
    with Checkpoint(path) as file:
        packed = Packed.of(file)
        weights, entry = packed.tensors[name], file.tensors[name + SUFFIX]
        raw = np.frombuffer(file.read(entry.offset, entry.nbytes), np.uint8).reshape(entry.shape)
    blocks = unpack_rows(packed.seedlm, raw, weights.blocks(packed.seedlm))
    params = {f.name: getattr(packed.seedlm, f.name) for f in fields(SeedlmConfig) if f.init}
    config = GemvConfig(**params, beat_bits=BEAT)
    activations = next(
        patches[0, 0]
        for layer, patches, _ in network.forward(
            trained.config, trained.parameters, trained.images[:1]
        )
        if layer.name == trained.layer
    )
    # Scale the activations by a power of two to their full range.
    exponent = (
        config.activation_width - 1 - ceil(log2(float(np.abs(activations).max()) * (1 + 2**-15)))
    )
    x = np.rint(activations.astype(np.float64) * 2.0**exponent).astype(np.int64)
    model = Gemv(config)
    vector = np.zeros(-(-len(x) // config.group) * config.group, np.int64)
    vector[: len(x)] = x
    job = Job(
        columns=len(x), rows=len(blocks), plain=False, x=x,
        vector=vector.reshape(-1, config.group), weights=model.packed_beats(blocks),
        sums=model.packed_product(blocks, x),
        lengths=config.row_beats(len(x), len(blocks)),
    )  # fmt: skip
    core = registry.find("gemv")
    folder = build / "emitted" / f"gemv-{path.stem}"
    path = verilog.write(core, params | {"beat_bits": BEAT}, folder)
    bench = gemv_cycles.executable(path, core.name, config, build=build / "cycles")
    cycles = gemv_cycles.run(bench, config, job)
    value = job.sums * 2.0 ** (weights.scale - 8 - exponent) / (config.half - 1)
    exact = trained.parameters[name].astype(np.float64) @ activations
    error = float(np.linalg.norm(value - exact) / np.linalg.norm(exact))
    return {"products": job.rows * job.columns, "cycles": cycles, "product_error": error}


def _show(result: dict[str, Any], console: Console) -> None:
    table = Table(
        title=f"SeedLM on real weights: {result['data']}, {result['parameters']} parameters",
        caption=f"{result['layer']} was multiplied in the emitted Verilog, bit-exact with the "
        f"golden model. The product error includes all rounding.",
    )
    table.add_column("weights")
    for head in ("bits per weight", "relative error", "block floating point"):
        table.add_column(head, justify="right")
    table.add_column("accuracy %", justify="right")
    table.add_column("cycles", justify="right")
    table.add_column("product error", justify="right")
    table.add_row("uncompressed, 32 bits", "32", "", "", f"{result['before']:.2f}", "", "")
    for row in result["rows"]:
        table.add_row(
            row["config"], f"{row['bits']:.2f}", f"{row['error']:.4f}", f"{row['plain']:.4f}",
            f"{row['accuracy']:.2f}", str(row["cycles"]), f"{row['product_error']:.4f}",
        )  # fmt: skip
    console.print(table)


def rows(folder: Path) -> list[Row]:
    """Return the report rows of all demonstration results in ``folder``."""
    return load_rows(folder.glob("*/seedlm.json"), _rows)


def _rows(result: dict[str, Any]) -> list[Row]:
    return [
        Row(
            core=CORE,
            config=f"{result['data']}, {each['config']}",
            kind="weights",
            figures={
                "held_images": result["images"],
                "bits_per_weight": each["bits"],
                "relative_error": each["error"],
                "plain_error": each["plain"],
                "accuracy_before": result["before"],
                "accuracy_after": each["accuracy"],
                "products": each["products"],
                "cycles": each["cycles"],
            },
            command=result["command"],
            params={"data": result["data"]},
            seeds=[SEED],
        )
        for each in result["rows"]
    ]
