"""The cores that have exports, and the options that each of them takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from seedbed.flow.cores import registry
from seedbed.flow.export import (
    gemv,
    generators,
    networks,
    programs,
    trainer,
    training,
    weights,
)
from seedbed.flow.export.bundle import Export
from seedbed.flow.export.request import Request

__all__ = ["EXPORTERS", "Exporter", "find"]


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """An export of a core.

    Parameters
    ----------
    run
        Returns the export.
    source
        What is exported: a ``tensor`` of a file, the parameters of a ``network``, or an imported
        transformer, a ``program``; "" if it needs no file.
    options
        Options besides: ``vector``, ``prompt``, ``seed``, ``count`` and ``adapters``.
    """

    run: Callable[[Request], Export]
    source: Literal["", "tensor", "network", "program"] = ""
    options: tuple[str, ...] = ()


EXPORTERS = {
    "gemv": Exporter(run=gemv.export, source="tensor", options=("vector", "seed")),
    "seedlm_decompress": Exporter(run=weights.export_seedlm, source="tensor"),
    "trellis_decompress": Exporter(run=weights.export_trellis, source="tensor"),
    "lut_dequantize": Exporter(run=weights.export_lut4, source="tensor"),
    "instantft": Exporter(
        run=networks.export_instantft,
        source="network",
        options=("vector", "seed", "count", "adapters"),
    ),
    "zo_trainer": Exporter(
        run=networks.export_zo, source="network", options=("vector", "seed", "count")
    ),
    "sparse_trainer": Exporter(
        run=trainer.export, source="tensor", options=("vector", "seed", "count")
    ),
    "stream_trainer": Exporter(
        run=training.export, source="tensor", options=("vector", "seed", "count")
    ),
    "stream_engine": Exporter(
        run=programs.export, source="program", options=("prompt", "seed", "count")
    ),
    "prng_pool": Exporter(run=generators.export_pool, options=("vector", "count")),
    "lfsr": Exporter(run=generators.export_lfsr, options=("seed", "count")),
    "urng_array": Exporter(run=generators.export_urng, options=("seed", "count")),
    "lutopt": Exporter(run=generators.export_lutopt, options=("seed", "count")),
    "perturbation": Exporter(run=generators.export_perturbation, options=("seed", "count")),
}


def find(core: str) -> Exporter:
    """Return the exporter of a core; raise ``ValueError`` for a core without one."""
    registry.find(core)
    if core not in EXPORTERS:
        raise ValueError(f"{core} has no export; there are {', '.join(EXPORTERS)}")
    return EXPORTERS[core]
