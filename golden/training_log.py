"""A training by zeroth order as a text: first weights and this log give the final weights.

The first line is a JSON object: format, version, the core's configuration, the exponents of the
layers' weights, the digest of the first weights, and the names of an entry's fields. A line for
each step follows, the entry's fields as a JSON array. The last line is a JSON object with their
number, and the SHA-256 of all lines before it. A host that writes each line when its entry comes
has a partial log after a loss of power: it gives the weights after its last whole line.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from typing import Any

import numpy as np

from seedbed.golden.zo_trainer import LogEntry, ZoTrainer
from seedbed.spec.network import Layer, NetworkConfig
from seedbed.spec.step_levels import LEVELS
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["LogError", "TrainingJob", "TrainingLog", "digest"]

_FORMAT, _VERSION = "seedbed training log", 1
#: Of an entry; the last one is only in logs of steps with levels.
_FIELDS = [field.name for field in fields(LogEntry)]


class LogError(ValueError):
    """A log cannot be read or replayed; the message is one sentence."""


def digest(weights: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of weights, with the names and shapes of their layers."""
    found = sha256()
    for name, values in sorted(weights.items()):
        found.update(f"{name} {values.shape}\n".encode())
        found.update(np.asarray(values).astype(np.int8).tobytes())
    return found.hexdigest()


@dataclass(frozen=True, kw_only=True)
class TrainingLog:
    """All that a training by zeroth order depends on but for its first weights.

    Parameters
    ----------
    config
        Of the core. Raises :class:`LogError` if backpropagation trains layers of it: the log does
        not determine them.
    exponents
        Of each layer's weights.
    first
        :func:`digest` of the first weights.
    entries
        The steps.
    """

    config: ZoTrainerConfig
    exponents: dict[str, int]
    first: str
    entries: tuple[LogEntry, ...]

    def __post_init__(self) -> None:
        if tail := [layer.name for layer in self.config.model.tail]:
            raise LogError(
                f"a log replays training by zeroth order alone: it does not determine "
                f"{' and '.join(tail)}, trained by backpropagation"
            )

    def text(self) -> str:
        """Return the log as a text."""
        config = {f.name: getattr(self.config, f.name) for f in fields(self.config) if f.init}
        config["network"] = [asdict(layer) for layer in self.config.network.layers]
        names = _fields(self.config.levels)
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "config": config,
            "exponents": self.exponents,
            "weights": self.first,
            "fields": names,
        }
        steps = ([getattr(entry, name) for name in names] for entry in self.entries)
        lines = "".join(json.dumps(part) + "\n" for part in (header, *steps))
        return lines + _end(lines)

    @classmethod
    def parse(cls, text: str, *, partial: bool = False) -> "TrainingLog":
        """Return the log of a text.

        Parameters
        ----------
        text
            As :meth:`text` returns it.
        partial
            Whether the text may be truncated after its first line. The log then ends with the last
            whole line; without a checksum, only the format of its lines is checked.

        Raises :class:`LogError` for another text.
        """
        lines = text.splitlines(keepends=True)
        header = _json(lines[0]) if lines else None
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise LogError("it is not a training log")
        last = _json(lines[-1])
        ends = lines[-1].endswith("\n")
        if ends and len(lines) > 1 and isinstance(last, dict) and "sha256" in last:
            steps = lines[1:-1]
            if "".join([lines[0], *steps]) + _end("".join([lines[0], *steps])) != text:
                raise LogError("it is damaged: its checksum does not fit its lines")
        elif partial:
            steps = lines[1:] if ends else lines[1:-1]
        else:
            raise LogError(
                "it is truncated: it does not end with a checksum, and is only replayed as a "
                "partial log"
            )
        # From here on only another version, a partial log, or a text made by hand can be wrong.
        if header.get("version") != _VERSION:
            raise LogError(f"it is of version {header.get('version')}, not {_VERSION}")
        try:
            config = _config(header["config"])
            if header.get("fields") != _fields(config.levels):
                raise LogError(
                    f"its steps have {header.get('fields')}, not {_fields(config.levels)}"
                )
            entries = tuple(_entry(config, _json(line)) for line in steps)
            return cls(
                config=config,
                exponents={name: int(value) for name, value in header["exponents"].items()},
                first=header["weights"],
                entries=entries,
            )
        except (KeyError, TypeError, AttributeError) as problem:
            raise LogError("it is damaged: its header or a step lacks a field") from problem

    def replay(
        self, weights: Mapping[str, np.ndarray], exponents: Mapping[str, int]
    ) -> dict[str, np.ndarray]:
        """Return the final weights of each layer, int64 (outputs, fan_in).

        Raises :class:`LogError` for first weights, or exponents, that are not those of the log.
        """
        if digest(weights) != self.first:
            raise LogError("the weights are not those that the training began with")
        if dict(exponents) != self.exponents:
            raise LogError("the weights' exponents are not those that the training began with")
        model = ZoTrainer(self.config, weights, exponents)
        for entry in self.entries:
            model.replay(entry)
        return model.weights


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """A command to train, and its schedule.

    Parameters
    ----------
    samples, epochs, batch, seed
        Fields of the command.
    schedule
        Entries (epoch, magnitude, zeros, update bits of a tail), the first of epoch 0.
    """

    samples: int
    epochs: int
    batch: int
    seed: int
    schedule: tuple[tuple[int, ...], ...]

    @property
    def steps(self) -> int:
        """Updates of the whole job."""
        return self.epochs * -(-self.samples // self.batch)

    def remaining(self, steps: int) -> list["TrainingJob"]:
        """Return the jobs that make the steps after the first ``steps``: at most two.

        The first one has the last samples of an epoch, if it was broken off; the next one has the
        epochs after it. Together they have the seeds and the schedule of this job.
        """
        each = -(-self.samples // self.batch)
        epoch, inside = divmod(steps, each)
        jobs = []
        if inside:
            samples = self.samples - inside * self.batch
            rest = replace(self, samples=samples, epochs=1, schedule=self._from(epoch))
            jobs.append(replace(rest, seed=self._seed(steps)))
            epoch += 1
        if epoch < self.epochs:
            rest = replace(self, epochs=self.epochs - epoch, schedule=self._from(epoch))
            jobs.append(replace(rest, seed=self._seed(epoch * each)))
        return jobs

    def _seed(self, steps: int) -> int:
        return (self.seed + steps) & 0xFFFFFFFF

    def _from(self, epoch: int) -> tuple[tuple[int, ...], ...]:
        """Return the schedule from an epoch on."""
        _, *phase = [entry for entry in self.schedule if entry[0] <= epoch][-1]
        later = [(entry[0] - epoch, *entry[1:]) for entry in self.schedule if entry[0] > epoch]
        return ((0, *phase), *later)


def _end(lines: str) -> str:
    """Return the last line."""
    steps = lines.count("\n") - 1
    return json.dumps({"steps": steps, "sha256": sha256(lines.encode()).hexdigest()}) + "\n"


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _config(raw: dict[str, Any]) -> ZoTrainerConfig:
    layers = tuple(Layer(**{**layer, "inputs": tuple(layer["inputs"])}) for layer in raw["network"])
    return ZoTrainerConfig(**{**raw, "network": NetworkConfig(layers)})


def _fields(levels: int) -> list[str]:
    """Return the names of an entry's fields."""
    return _FIELDS if levels > 1 else _FIELDS[:-1]


def _entry(config: ZoTrainerConfig, raw: list[int]) -> LogEntry:
    entry = LogEntry(**dict(zip(_fields(config.levels), raw, strict=True)))
    limits = {
        "seed": range(1 << 32),
        "magnitude": range(1, config.magnitude_bits + 1),
        "zeros": range(16),
        "sign": range(-1, 2),
        "update_bits": range(1, 8),
        "level": range(len(LEVELS)),
    }
    for name, allowed in limits.items():
        if getattr(entry, name) not in allowed:
            raise LogError(
                f"a step's {name} must be in {allowed[0]}..{allowed[-1]}, "
                f"not {getattr(entry, name)}"
            )
    return entry
