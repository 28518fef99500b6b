# amaranth: UnusedElaboratable=no
"""Whole jobs of fine-tuning on the emitted Verilog, checked against the model bit for bit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from amaranth.lib import data

from seedbed.golden.engine import adapter_rows, adapters, frozen_rows
from seedbed.golden.engine import words as row_words
from seedbed.golden.instantft import InstantFt, Seen
from seedbed.golden.softmax_loss import SoftmaxLossResult
from seedbed.hw.adapters import instantft
from seedbed.hw.engine.parameter_loader import packet_layout, words_layout
from seedbed.sim.harness import Mismatch
from seedbed.sim.job import Act, Difference, Epoch, Memory, check, every_epoch
from seedbed.sim.payloads import image_beats, pack, unpack
from seedbed.sim.verilog.cosim import Bench, Cosim
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS, InstantFtConfig

__all__ = ["MEMORY", "Done", "Job", "executable", "require_counted", "run"]

#: How the memory behaves, unless it is said.
MEMORY = Memory(gaps=2)
#: A and B of each adapter, integers.
Adapters = tuple[list[np.ndarray], list[np.ndarray]]
#: Cycles of a sample that the network runs for, by those of one from the cache: of a bar's length.
_BASE = 12


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job: load network and adapters, classify, train, read the adapters, classify again.

    Parameters
    ----------
    config
        Of the core.
    weights
        The network's parameters, integers of the weights' format.
    images, labels
        Bytes (images, C, H, W), and classes. The first ``tuned`` are trained on; all are
        classified, with B = 0 and with what was learned. An image's index in the cache is its
        place.
    order
        The samples of each batch, epoch by epoch.
    eta
        The learning rate, for a whole batch's mean gradient.
    a_seed, deviation
        Of the adapters' A.
    adapters
        A and B to start from, in place of random A and B = 0.
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
    adapters: Adapters | None = None

    @property
    def epochs(self) -> int:
        """Times that every sample is trained on."""
        return sum(map(len, self.order)) // self.tuned

    def model(self) -> InstantFt:
        """Return the model with the adapters as they are loaded."""
        rng = np.random.default_rng(self.a_seed)
        model = InstantFt(self.config, self.weights, rng, self.deviation)
        if self.adapters:
            model.lora.a, model.lora.b = ([*part] for part in self.adapters)
        return model

    def rows(self, model: InstantFt) -> np.ndarray:
        """Return the model's adapters as the core has them."""
        a, b = model.lora.a, model.lora.b
        return adapter_rows(self.config.engine.plan, a, b, self.config.adapters.one)

    def acts(
        self, shown: Callable[[np.ndarray], np.ndarray], *,
        batches: int | None = None, results: int | None = None, epoch: Epoch = every_epoch,
    ) -> tuple[list[Act], dict[str, int]]:  # fmt: skip
        """Return the acts, and the counters at the training's end.

        Parameters
        ----------
        shown
            Returns the payloads of images, which are given by their places.
        batches, results
            Where an error of the memory ends the training: after how many batches, and results.
        epoch
            Trains the model for an epoch, or returns what an earlier call has left.
        """
        config, model = self.config, self.model()
        plan, layers = config.engine.plan, config.network.layers
        loaded = packet_layout(config.engine)
        count, faulty = len(self.images), batches is not None
        seen = model.base(self.images[: self.tuned])
        misses = model.saturations.count
        rest = model.base(self.images[self.tuned :]) if self.tuned < count else None
        parts = [part for part in (seen, rest) if part is not None]

        def classified(name: str) -> Act:
            return self._classified(name, model, parts, shown(np.arange(count)))

        load = [
            Act(name=name, inputs={"i_parameters": self._packet(loaded, rows, trainable=adapts)})
            for name, rows, adapts in (
                ("network", frozen_rows(plan, layers, self.weights), 0),
                ("adapters", self.rows(model), 1),
            )
        ]
        before = classified("before")
        done = self.order[:batches]
        # Of the batch that an error ends, some results may have come.
        begun = self.order[len(done) : len(done) + 1] if faulty else []
        cached = model.cached(seen)
        best, loss, saturated = self._train(model, cached, done, epoch)
        scored = [model.score(cached[which], self.labels[which])[1] for which in begun]
        both = zip((best, loss), _scores(scored), strict=True)
        best, loss = (np.concatenate(each)[:results] for each in both)
        hits = np.arange(len(best)) >= self.tuned
        counters = {"samples": len(hits), "hits": int(hits.sum()), "misses": int((~hits).sum())}
        if not faulty:
            counters |= {"batches": len(done), "saturations": misses + saturated}
        fields = {
            "samples": self.tuned,
            "epochs": self.epochs,
            "batch": config.batch,
            "rate": config.lora.rate(self.eta / config.batch),
        }
        train = Act(
            name="train",
            inputs=self._command("train", **fields)
            | {"i_samples": shown(np.concatenate(self.order))},
            outputs={"o": self._results(best, loss, hits, "memory" if faulty else "ok")},
            ends="o",
            messages={"o": partial(_untrained, self)},
        )

        def unread(of: Difference) -> str:
            read, wanted = of.found("word"), of.wanted("word")
            different = int((read != wanted).sum())
            return (
                f"the adapters after batch {len(done)} are not the model's: {different} of "
                f"{read.size} numbers"
            )

        rows = self._packet(words_layout(config.engine), self.rows(model))
        read = Act(
            name="read",
            inputs=self._command("read"),
            outputs={"o": self._results(), "o_parameters": rows},
            ends="o",
            messages={"o": partial(_ended, "'read'"), "o_parameters": unread},
        )
        return [*load, before, train, read, classified("after")], counters

    def _train(
        self, model: InstantFt, cached: Seen, order: Sequence[np.ndarray], epoch: Epoch
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Train the model; return classes and losses of all samples, and saturated numbers."""
        labels, each = self.labels[: self.tuned], -(-self.tuned // self.config.batch)

        def train(batches: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
            before = model.saturations.count
            best, loss = _scores(list(model.steps(cached, labels, batches, self.eta)))
            saturated = np.array(model.saturations.count - before)
            rows = self.rows(model)
            return {"best": best, "loss": loss, "saturated": saturated, "rows": rows}

        found = []
        for number, at in enumerate(range(0, len(order), each)):
            batches = order[at : at + each]
            found.append(epoch(number, partial(train, batches)))
            model.lora.a, model.lora.b = adapters(self.config.engine.plan, found[-1]["rows"])
        none = np.zeros(0, np.int64)
        best, loss = (
            np.concatenate([none, *(part[name] for part in found)]) for name in ("best", "loss")
        )
        return best, loss, sum(int(part["saturated"]) for part in found)

    def learned(self, acts: Sequence[Act]) -> Adapters:
        """Return the adapters that the acts read, A and B of each layer, integers."""
        plan, (read,) = self.config.engine.plan, [act for act in acts if act.name == "read"]
        found = unpack(words_layout(self.config.engine), read.outputs["o_parameters"], "word")
        return adapters(plan, found.reshape(plan.trainable_rows, plan.ways, plan.lanes))

    def correct(self, act: Act) -> np.ndarray:
        """Return which images an act that classifies expects to be of their classes."""
        best = unpack(instantft.result_layout(self.config), act.outputs["o"], "best")
        return best[:-1, 0] == self.labels

    def _classified(
        self, name: str, model: InstantFt, parts: list[Seen], images: np.ndarray
    ) -> Act:
        labels = np.split(self.labels, [len(parts[0].logits)])
        scored = [model.score(*each)[1] for each in zip(parts, labels, strict=False)]
        command = self._command("infer", samples=len(self.images), epochs=1)
        return Act(
            name=name,
            inputs=command | {"i_samples": images},
            outputs={"o": self._results(*_scores(scored))},
            ends="o",
            messages={"o": partial(_misclassified, name)},
        )

    def _packet(self, layout: data.StructLayout, rows: np.ndarray, **fields: int) -> np.ndarray:
        """Return rows of parameters as a packet."""
        pairs = row_words(rows)
        last = np.arange(len(pairs)) == len(pairs) - 1
        return pack(layout, len(pairs), word=pairs, last=last, **fields)

    def _command(self, kind: str, **fields: int) -> dict[str, np.ndarray]:
        layout = instantft.command_layout(self.config)
        return {"i": pack(layout, 1, kind=INSTANTFT_KINDS.index(kind), **fields)}

    def _results(
        self, best: Sequence[int] | np.ndarray = (), loss: Sequence[int] | np.ndarray = (),
        hit: Sequence[int] | np.ndarray | int = 0, status: str = "ok",
    ) -> np.ndarray:  # fmt: skip
        """Return the results of samples, and the one that ends a command."""
        count = len(best)
        found = np.zeros((5, count + 1), np.int64)
        found[:3, :count] = best, loss, np.broadcast_to(hit, count)
        found[3:, count] = INSTANTFT_STATUS.index(status), 1
        fields = dict(zip(("best", "loss", "hit", "status", "last"), found, strict=True))
        return pack(instantft.result_layout(self.config), count + 1, **fields)


def _scores(scored: Sequence[SoftmaxLossResult]) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes and losses of all samples, in order."""
    if not scored:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    classes, losses = ([getattr(x, name) for x in scored] for name in ("classes", "losses"))
    return np.concatenate(classes), np.concatenate(losses)


def _ended(what: str, of: Difference) -> str:
    """Return the sentence for a command that ended otherwise, or nothing."""
    both = of.fields("last", "status")
    if not (both[0][0] or both[1][0]):
        return ""
    found, wanted = (INSTANTFT_STATUS[status] if last else "none yet" for last, status in both)
    return f"status of {what}: {found}, and of the model {wanted}"


def _misclassified(name: str, of: Difference) -> str:
    (best, *found), (wanted, *others) = of.fields("best", "loss", "hit")
    image = f"image {of.at}, {name} training, "
    if best != wanted:
        sentence = f"is of class {best}, the model's {wanted}"
    else:
        sentence = f"has loss and hit {found}, the model's {others}"
    return _ended(repr(name), of) or image + sentence


def _untrained(job: Job, of: Difference) -> str:
    (best, hit), (wanted, known) = of.fields("best", "hit")
    if sentence := _ended("the training", of):
        return sentence
    if hit != known:
        return f"hits: {hit} of sample {of.at}, and of the model {known}"
    ends = np.cumsum([0, *map(len, job.order)])
    k = int(np.searchsorted(ends, of.at, "right")) - 1
    found, loss = (int(each("loss")[ends[k] : ends[k + 1]].sum()) for each in (of.found, of.wanted))
    if found == loss:
        return f"sample {of.at} is of class {best}, and in the model of class {wanted}"
    return (
        f"batch {k} of {len(job.order)}, in epoch {int(ends[k]) // job.tuned}, is the first that "
        f"differs: its losses add up to {found}, and the model's to {loss}"
    )


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


def _bench(config: InstantFtConfig) -> Bench:
    """Return the testbench of a core."""
    draws = ["i", "i_parameters", "i_samples", "i_response", "i_read"]
    draws += ["o", "o_parameters", "o_command", "o_write", "latencies"]
    return Bench(instantft.InstantFt(config).signature, page=config.forward_cache.page, draws=draws)


def executable(verilog: Path, config: InstantFtConfig, *, build: Path) -> Path:
    """Build the core in ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`."""
    return _bench(config).executable(verilog, "instantft", build=build)


def _samples(config: InstantFtConfig, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the beats of every image, each with its place as its index: (images, beats, words)."""
    pixels = image_beats(images, config.ways)
    count, beats, _ = pixels.shape
    found = pack(
        instantft.sample_layout(config),
        count * beats,
        pixels=pixels,
        label=np.repeat(labels, beats),
        index=np.repeat(np.arange(count), beats),
        last=np.arange(count * beats) % beats == beats - 1,
    )
    return found.reshape(count, beats, -1)


def run(
    bench: Path,
    job: Job,
    *,
    seed: int,
    pauses: int = 0,
    memory: Memory = MEMORY,
    epoch: Epoch = every_epoch,
    progress: Callable[[float], None] = lambda share: None,
) -> Done:
    """Run ``job`` and check all its results against the model, bit for bit.

    Parameters
    ----------
    bench
        What :func:`executable` built.
    seed
        Of the memory's latencies and gaps, and of the pauses.
    pauses
        Of 16 cycles, in so many every port pauses, at random; 0 is as fast as the core is.
    memory
        How the memory behaves. Where it has a fault, the training ends with it, and the adapters
        must be as the batches before left them.
    epoch
        Trains the model for an epoch, see :meth:`Job.acts`.
    progress
        Called with the share that is done, a few times a second.

    Raises :class:`Mismatch` with the first batch that differs, or where nothing is transferred for
    long. An interruption ends the simulation too.
    """
    beats = _samples(job.config, job.images, job.labels)
    acts, counted = job.acts(lambda places: np.concatenate(beats[places]), epoch=epoch)
    look, later = np.full(len(job.images) + 1, _BASE), sum(map(len, job.order)) - job.tuned
    work = np.cumsum([*look, *[_BASE] * job.tuned, *[1] * (later + 2), *look])

    def share(results: int) -> None:
        progress(work[min(results, len(work) - 1)] / work[-1])

    cache = job.config.forward_cache
    with Cosim(bench, _bench(job.config), seed=seed, pauses=pauses) as core:
        core.fill(memory, cache.entries * cache.beats)
        found, seconds = core.run_all(acts, progress=share)
    train = found["train"]
    numbers = zip(instantft.COUNTERS, train.values["counters"].tolist(), strict=True)
    counters = dict(numbers)
    if memory.fault is not None:
        came = {"batches": counters["batches"], "results": len(train.payloads["o"]) - 1}
        acts, counted = job.acts(lambda places: places, **came)
    check(acts, found)
    require_counted(counted, counters)
    when = train.when["o"][:-1]
    fill = int(when[job.tuned - 1]) if len(when) >= job.tuned else train.cycles
    ends = np.cumsum([0, *map(len, job.order[: counters["batches"]])])
    losses = train.field("o", "loss")
    return Done(
        status=INSTANTFT_STATUS[train.field("o", "status")[-1]],
        cycles={
            "load": found["network"].cycles + found["adapters"].cycles,
            "fill": fill,
            "cached": train.cycles - fill,
            "read": found["read"].cycles,
            "infer": found["before"].cycles + found["after"].cycles,
        },
        counters=counters,
        losses=np.array([losses[at:end].sum() for at, end in pairwise(ends)], np.int64),
        **{act.name: job.correct(act) for act in acts if act.name in ("before", "after")},
        seconds=seconds,
    )


def require_counted(counted: Mapping[str, int], counters: Mapping[str, int]) -> None:
    """Raise :class:`Mismatch` where counters are not as expected."""
    for name, value in counted.items():
        if counters[name] != value:
            raise Mismatch(f"counted {name}: {counters[name]}, and of the model {value}")
