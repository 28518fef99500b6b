"""Case of the fine-tuning core: parameters, jobs, their memory traffic, and every status."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from seedbed.golden import network
from seedbed.golden.engine import adapter_rows, frozen_rows, words
from seedbed.golden.instantft import InstantFt, Seen, quantised
from seedbed.golden.nf4 import Nf4
from seedbed.hw.adapters import instantft
from seedbed.hw.engine.parameter_loader import packet_layout, words_layout
from seedbed.sim.case import TIMEOUT_CYCLES, Case, Phase
from seedbed.sim.cases import forward_cache
from seedbed.sim.payloads import image_beats
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS, InstantFtConfig

__all__ = ["MEMORY", "Fault", "Session", "case"]

INPUTS = ("i_parameters", "i", "i_samples")
OUTPUTS = ("o", "o_parameters")
#: Ports to the memory.
MEMORY = {"inputs": ("i_response", "i_read"), "outputs": ("o_command", "o_write")}


@dataclass(frozen=True)
class Fault:
    """What goes wrong with the ``at``-th sample of a job, and with it how.

    ``kind`` is ``short`` or ``long`` (its image, by so many beats), ``index`` (of no entry),
    ``fetch`` or ``store`` (an error in that beat of memory, or in the answer to that burst), or
    ``burst`` (the first one of a fetch has so many beats more, or fewer).
    """

    at: int
    kind: str
    amount: int = 1

    @property
    def status(self) -> str:
        """How the job ends."""
        memory = dict.fromkeys(("fetch", "store", "burst"), "memory")
        return ({"index": "index"} | memory).get(self.kind, "sample")


class _Entries(forward_cache.Session):
    """The cache's traffic, with entries that are given instead of drawn."""

    given: np.ndarray | None = None

    def drawn(self) -> np.ndarray:
        assert self.given is not None
        return self.given


@dataclass(kw_only=True)
class Session:
    """Commands, and what every port carries for them; it knows parameters, adapters and cache.

    ``images`` and ``labels`` are drawn, one for each entry of the cache. ``phases`` returns all
    that was asked since the last call. A new phase begins where the core must be done with the one
    before: after a packet of parameters, and after a command that failed, once until it has and
    once until the next is taken, for samples are dropped until then.
    """

    config: InstantFtConfig
    rng: np.random.Generator
    #: What the weights of the network and of the adapters are multiplied with.
    gain: float = 1.0
    discarding: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        config, rng = self.config, self.rng
        layers = config.network.layers
        real = network.init(config.network, rng)
        real |= {f"{x.name}.bias": rng.normal(0, 0.3, x.outputs) for x in layers}
        low, high = config.weights.low, config.weights.high
        found = quantised(config, {name: self.gain * value for name, value in real.items()})
        weights = {name: np.clip(value, low, high) for name, value in found.items()}
        self.model = InstantFt(config, weights, rng, 0.3 * self.gain)
        shape = layers[0].inputs
        self.images = rng.integers(0, 256, (config.entries, *shape), np.uint8)
        self.labels = rng.integers(0, config.lora.classes, config.entries)
        self.known: dict[int, Seen] = {}
        # Entries in the cache are whole rows: what is after a vector's end is a number too.
        self._padded = config.forward_cache.lengths
        self._nf4 = Nf4(config.nf4)
        self.memory = _Entries(config=config.forward_cache, rng=rng)
        self.payloads: dict[str, list[int]] = {name: [] for name in (*INPUTS, *OUTPUTS)}
        self._phases: list[Phase] = []

    def phases(self) -> list[Phase]:
        """Return the phases of everything since the last call."""
        self._cut()
        found, self._phases = self._phases, []
        return found

    def _cut(self) -> None:
        found, memory = self.payloads, self.memory.phase()
        self.payloads = {name: [] for name in found}
        inputs = {name: found[name] for name in INPUTS}
        outputs = {name: found[name] for name in OUTPUTS}
        inputs |= {name: memory.inputs[name] for name in MEMORY["inputs"]}
        outputs |= {name: memory.outputs[name] for name in MEMORY["outputs"]}
        if any(inputs.values()) or any(outputs.values()):
            self._phases.append(Phase(inputs=inputs, outputs=outputs, after=memory.after))

    def rows(self) -> np.ndarray:
        """Return the adapters' rows, as they are now."""
        config, lora = self.config, self.model.lora
        return adapter_rows(config.engine.plan, lora.a, lora.b, config.adapters.one)

    def load(self, *, trainable: bool, more: int = 0) -> None:
        """Load the network, or the adapters as they are, in a packet that much too long."""
        config = self.config
        plan, layers = config.engine.plan, config.network.layers
        rows = self.rows() if trainable else frozen_rows(plan, layers, self.model.weights)
        pairs = words(rows).tolist()
        pairs = [pairs[k % len(pairs)] for k in range(len(pairs) + more)]
        layout = packet_layout(config.engine)
        self.payloads["i_parameters"] += [
            layout.const(
                {"word": pair, "trainable": trainable, "last": k == len(pairs) - 1}
            ).as_bits()
            for k, pair in enumerate(pairs)
        ]
        self._cut()

    def ask(self, kind: int, **fields: int) -> None:
        """Send a command, ``kind`` by its code."""
        names = ("samples", "epochs", "batch", "rate")
        layout = instantft.command_layout(self.config)
        given = {"kind": kind} | dict.fromkeys(names, 0) | fields
        self.payloads["i"].append(layout.const(given).as_bits())
        if self.discarding:
            self._cut()
        self.discarding = False

    def ends(self, status: str = "ok") -> None:
        """Expect the beat that ends a command."""
        self._tells({"status": INSTANTFT_STATUS.index(status), "last": 1})
        if status != "ok":
            self._cut()
            self.discarding = True

    def order(self, kind: str, status: str = "ok", **fields: int) -> None:
        """Send a command that has no samples, or none that come to anything."""
        self.ask(INSTANTFT_KINDS.index(kind), **fields)
        self.ends(status)
        if status != "ok":
            return
        if kind == "clear":
            self.model.lora.b = [np.zeros_like(b) for b in self.model.lora.b]
        elif kind == "forget":
            self.memory.clear()
            self.known.clear()
        elif kind == "read":
            layout = words_layout(self.config.engine)
            pairs = words(self.rows()).tolist()
            self.payloads["o_parameters"] += [
                layout.const({"word": pair, "last": k == len(pairs) - 1}).as_bits()
                for k, pair in enumerate(pairs)
            ]

    def _tells(self, fields: dict) -> None:
        layout = instantft.result_layout(self.config)
        self.payloads["o"].append(layout.const(fields).as_bits())

    def sample(self, number: int, *, index: int | None = None, more: int = 0) -> None:
        """Send an image with its label, by so many beats too long."""
        config = self.config
        images = self.images[number : number + 1]
        (given,) = image_beats(images, config.ways, lambda shape: np.full(shape, 0xA5))
        beats = np.resize(given, (len(given) + more, config.ways)).tolist()
        layout = instantft.sample_layout(config)
        fields = {
            "label": int(self.labels[number]),
            "index": number if index is None else index,
        }
        self.payloads["i_samples"] += [
            layout.const({"pixels": beat, **fields, "last": k == len(beats) - 1}).as_bits()
            for k, beat in enumerate(beats)
        ]

    def _entry(self, seen: Seen) -> np.ndarray:
        """Return what the cache has of a sample, as bytes."""
        parts = zip([*seen.inputs[1:], seen.logits], self._padded, strict=True)
        both = [self._nf4.quantise(np.pad(p[0], (0, n - len(p[0])))) for p, n in parts]
        codes, peaks = (np.concatenate(each) for each in zip(*both, strict=True))
        return self.memory.model.pack(codes, peaks)

    def _look_up(self, number: int, fault: Fault | None) -> int | None:
        """Look a sample up, or run the network; return whether it was a hit, None if it failed."""
        wrong = fault.amount if fault else None
        hit = number in self.known
        if not hit:
            self.memory.fetch(number)
            seen = self.model.base(self.images[number : number + 1])
            self.memory.given = self._entry(seen)
            self.memory.store(number, bad_burst=wrong)
            if fault:
                return None
            self.known[number] = self.model.cached(seen)
        if fault and fault.kind == "burst":
            self.memory.fetch(number, shape=forward_cache.Shape(0, fault.amount))
        else:
            self.memory.fetch(number, bad_beat=wrong)
        return None if fault else int(hit)

    def train(
        self,
        epochs: Sequence[Sequence[int]],
        *,
        batch: int,
        rate: int,
        fault: Fault | None = None,
    ) -> None:
        """Train with the samples of each epoch, which are as many; up to a fault, if there is one.

        A fault in a store needs a sample that is not known, one in a fetch a known one.
        """
        fields = {"samples": len(epochs[0]), "epochs": len(epochs), "batch": batch, "rate": rate}
        self.ask(INSTANTFT_KINDS.index("train"), **fields)
        parts = [epoch[k : k + batch] for epoch in epochs for k in range(0, len(epoch), batch)]
        done = 0
        for part in parts:
            hits: list[int] = []
            for number in part:
                wrong = fault if fault and fault.at == done else None
                done += 1
                if wrong and wrong.kind not in ("fetch", "store", "burst"):
                    more = {"short": -wrong.amount, "long": wrong.amount}.get(wrong.kind, 0)
                    outside = self.config.entries - 1 + wrong.amount
                    index = outside if wrong.kind == "index" else number
                    self.sample(number, index=index, more=more)
                    # While it is not known yet how the image ends.
                    self.memory.fetch(index)
                    hit = None
                else:
                    self.sample(number)
                    hit = self._look_up(number, wrong)
                if hit is None:
                    assert fault is not None
                    self._score(part[: len(hits)], hits)
                    self.ends(fault.status)
                    return
                hits.append(hit)
            seen, h, gradients = self._score(part, hits)
            self.model.lora.update(seen.inputs, h, gradients, rate)
        self.ends()

    def _score(self, part: Sequence[int], hits: Sequence[int]):
        """Expect the results of known samples; return what an update needs."""
        if not part:
            return None
        each = [self.known[number] for number in part]
        inputs = [np.concatenate(x) for x in zip(*(one.inputs for one in each), strict=True)]
        seen = Seen(inputs, np.concatenate([one.logits for one in each]))
        return seen, *self._results(seen, part, hits)

    def _results(self, seen: Seen, part: Sequence[int], hits: Sequence[int]):
        h, found = self.model.score(seen, self.labels[list(part)])
        for best, loss, hit in zip(found.classes, found.losses, hits, strict=True):
            self._tells({"best": int(best), "loss": int(loss), "hit": hit})
        return h, found.gradients

    def infer(self, numbers: Sequence[int], *, epochs: int = 1) -> None:
        """Classify images, in so many epochs of as many."""
        fields = {"samples": len(numbers) // epochs, "epochs": epochs}
        self.ask(INSTANTFT_KINDS.index("infer"), **fields)
        for number in numbers:
            # No entry is looked at.
            self.sample(number, index=(1 << 16) - 1)
            self._results(self.model.base(self.images[number : number + 1]), [number], [0])
        self.ends()


def case(config: InstantFtConfig, random: Random) -> Case:
    """Return jobs of all kinds, then every fault followed by a good job."""
    session = Session(config=config, rng=np.random.default_rng(random.getrandbits(32)))
    rate = config.lora.rate(0.02)
    last = config.entries - 1
    for trainable in (False, True):
        session.load(trainable=trainable)
    session.train([[0, 1, last], [last, 0, 1]], batch=2, rate=rate)
    session.order("read")
    session.infer([1, 0], epochs=2)
    for fault in (
        Fault(1, "short"),
        Fault(0, "long", 2),
        Fault(2, "index"),
        Fault(1, "fetch"),
        Fault(0, "burst", -2),
        Fault(2, "burst", 1),
    ):
        session.train([[1, 0, last]], batch=3, rate=rate, fault=fault)
    session.train([[0, 2]], batch=2, rate=rate, fault=Fault(1, "store", 0))
    for trainable in (False, True):
        for more in (-1, 1):
            session.load(trainable=trainable, more=more)
            session.order("read", "parameters")
    session.load(trainable=False)
    session.order("train", "command", epochs=1, batch=1)
    session.order("infer", "command", samples=1)
    session.order("train", "command", samples=1, epochs=1)
    session.order("train", "command", samples=1, epochs=1, batch=257)
    session.ask(len(INSTANTFT_KINDS))
    session.ends("command")
    session.order("read")
    session.train([[1, 2]], batch=1, rate=rate)
    session.order("clear")
    session.order("forget")
    session.train([[2, 0]], batch=2, rate=rate)
    session.order("read")
    return Case(
        phases=session.phases(),
        quiet=True,
        timeout_cycles=TIMEOUT_CYCLES + 2 * config.engine.plan.cycles,
    )
