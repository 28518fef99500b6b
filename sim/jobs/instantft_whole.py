"""The whole job of fine-tuning on the emitted Verilog, checked against the model bit for bit."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np

from seedbed.golden.engine import adapter_rows, frozen_rows
from seedbed.golden.instantft import InstantFt
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs.instantft_job import Act, ActResult, Memory, play
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["Done", "Whole", "check", "run"]

#: Cycles of a sample that the network runs for, by those of one from the cache: of a bar's length.
_BASE = 12


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A job: load network and adapters, classify, train, read the adapters, classify again.

    Parameters
    ----------
    config
        Of the core.
    weights
        The network's parameters, integers of the weights' format.
    images, labels
        Bytes (images, rows, columns), and classes. The first ``tuned`` are trained on; all are
        classified, with B = 0 and with what was learned.
    order
        The samples of each batch, epoch by epoch.
    eta
        The learning rate, for a whole batch's mean gradient.
    a_seed, deviation
        Of the adapters' A.
    """

    config: InstantFtConfig
    weights: dict[str, np.ndarray]
    images: np.ndarray
    labels: np.ndarray
    tuned: int
    order: list[np.ndarray]
    eta: float
    a_seed: list[int]
    deviation: float

    @property
    def epochs(self) -> int:
        """Times that every sample is trained on."""
        return sum(map(len, self.order)) // self.tuned

    def model(self) -> InstantFt:
        """Return the model with the adapters as they are loaded."""
        rng = np.random.default_rng(self.a_seed)
        return InstantFt(self.config, self.weights, rng, self.deviation)

    def rows(self, model: InstantFt) -> np.ndarray:
        """Return the model's adapters as the core has them."""
        a, b = model.lora.a, model.lora.b
        return adapter_rows(self.config.engine.plan, a, b, self.config.adapters.one)

    def acts(self) -> dict[str, Act]:
        """Return what the core is to do, in order."""
        config, count = self.config, len(self.images)
        plan, layers = config.engine.plan, config.network.layers
        look = Act(
            kind="infer", fields=(("samples", count), ("epochs", 1)), images=np.arange(count)
        )
        fields = {
            "samples": self.tuned,
            "epochs": self.epochs,
            "batch": config.batch,
            "rate": config.lora.rate(self.eta / config.batch),
        }
        return {
            "network": Act(rows=frozen_rows(plan, layers, self.weights)),
            "adapters": Act(rows=self.rows(self.model()), trainable=True),
            "before": look,
            "train": Act(
                kind="train", fields=tuple(fields.items()), images=np.concatenate(self.order)
            ),
            "read": Act(kind="read"),
            "after": look,
        }


@dataclass(frozen=True, kw_only=True)
class Done:
    """How the job went: cycles by phase, counters of the training, and what was classified right.

    ``cycles`` has ``load`` (network and adapters), ``fill`` (from the command to the last result of
    the first epoch), ``cached`` (from there to the training's end) and ``read``; ``infer`` is both
    classifications of all images. ``losses`` are sums by batch, of those that were finished.
    ``seconds`` are the simulation's, by the clock.
    """

    status: str
    cycles: dict[str, int]
    counters: dict[str, int]
    losses: np.ndarray
    before: np.ndarray
    after: np.ndarray
    seconds: float

    @property
    def job(self) -> int:
        """Cycles of the whole job; what is classified before and after is no part of it."""
        return sum(n for phase, n in self.cycles.items() if phase != "infer")


def run(
    bench: Path,
    job: Whole,
    *,
    seed: int,
    pauses: int = 0,
    memory: Memory | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Done:
    """Run ``job`` and check all its results against the model, bit for bit.

    ``progress`` is called with the share that is done; the other parameters are those of
    :func:`~.instantft_job.play`. Where the memory has a fault, the training ends with it, and the
    adapters must be as the batches before left them. Raises :class:`Mismatch` with the first batch
    that differs.
    """
    memory = memory or Memory()
    acts = job.acts()
    look, later = np.full(len(job.images) + 1, _BASE), sum(map(len, job.order)) - job.tuned
    work = np.cumsum([*look, *[_BASE] * job.tuned, *[1] * (later + 2), *look])

    def share(results: int) -> None:
        progress(work[min(results, len(work) - 1)] / work[-1])

    began = perf_counter()
    came = play(
        bench, job.config, job.images, job.labels, list(acts.values()),
        seed=seed, pauses=pauses, memory=memory, progress=share,
    )  # fmt: skip
    seconds = perf_counter() - began
    results = dict(zip(acts, came, strict=True))
    losses = check(job, results, faulty=memory.fault is not None)
    train = results["train"]
    fill = int(train.when[job.tuned - 1]) if len(train.when) >= job.tuned else train.cycles
    cycles = {
        "load": results["network"].cycles + results["adapters"].cycles,
        "fill": fill,
        "cached": train.cycles - fill,
        "read": results["read"].cycles,
        "infer": results["before"].cycles + results["after"].cycles,
    }
    assert train.status is not None
    return Done(
        status=train.status,
        cycles=cycles,
        counters=train.counters,
        losses=losses,
        before=results["before"].best == job.labels,
        after=results["after"].best == job.labels,
        seconds=seconds,
    )


def _same(what: str, found: object, wanted: object) -> None:
    if not np.array_equal(np.asarray(found), np.asarray(wanted)):
        raise Mismatch(f"{what}: {found}, and of the model {wanted}")


def check(job: Whole, results: dict[str, ActResult], *, faulty: bool) -> np.ndarray:
    """Return the batches' sums of losses; raise :class:`Mismatch` where anything differs."""
    train, model = results["train"], job.model()
    for name in ("before", "read", "after"):
        _same(f"status of {name!r}", results[name].status, "ok")
    _same("status of the training", train.status, "memory" if faulty else "ok")
    seen = model.base(job.images[: job.tuned])
    misses = model.saturations.count
    rest = model.base(job.images[job.tuned :]) if job.tuned < len(job.images) else None

    def classes() -> np.ndarray:
        found = [model.predict(part) for part in (seen, rest) if part is not None]
        return np.concatenate(found)

    _classified("before training", results["before"], classes())
    batches = train.counters["batches"]
    if not faulty:
        _same("batches", batches, len(job.order))
    order = job.order[:batches]
    others = model.saturations.count
    wanted = model.train(model.cached(seen), job.labels[: job.tuned], order, job.eta)
    ends = np.cumsum([0, *map(len, order)])
    found = np.array([train.loss[at:end].sum() for at, end in pairwise(ends)], np.int64)
    if not np.array_equal(found, wanted):
        k = int(np.flatnonzero(found != wanted)[0])
        epoch = int(ends[k]) // job.tuned
        raise Mismatch(
            f"batch {k} of {len(order)}, in epoch {epoch}, is the first that differs: its losses "
            f"add up to {found[k]}, and the model's to {wanted[k]}"
        )
    hits = np.arange(len(train.hit)) >= job.tuned
    _same("hits", np.flatnonzero(train.hit != hits), [])
    counted = {"samples": len(train.loss), "hits": int(hits.sum()), "misses": int((~hits).sum())}
    if not faulty:
        counted["saturations"] = misses + model.saturations.count - others
    for name, value in counted.items():
        _same(f"counted {name}", train.counters[name], value)
    rows = job.rows(model)
    read = results["read"].parameters
    if read.size != rows.size or (read != rows.ravel()).any():
        raise Mismatch(
            f"the adapters after batch {batches} are not the model's: "
            f"{(read != rows.ravel()).sum() if read.size == rows.size else read.size} of "
            f"{rows.size} numbers"
        )
    _classified("after training", results["after"], classes())
    return found


def _classified(when: str, results: ActResult, wanted: np.ndarray) -> None:
    _same(f"classified {when}", len(results.best), len(wanted))
    wrong = np.flatnonzero(results.best != wanted)
    if len(wrong):
        k = wrong[0]
        raise Mismatch(f"image {k}, {when}, is of class {results.best[k]}, the model's {wanted[k]}")
    _same(f"hits {when}", int(results.hit.sum()), 0)
