"""Case of the adapters: batches, inferences, and every fault, each followed by what goes well."""

from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

import numpy as np

from seedbed.golden import engine
from seedbed.golden.lora import Lora
from seedbed.hw.adapters.gradient_writer import gradient_layout
from seedbed.hw.adapters.lora import command_layout, result_layout
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.engine.vector_loader import vectors_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import LORA_KINDS, LORA_STATUS, LoraConfig

__all__ = ["INPUTS", "OUTPUTS", "Session", "case", "half"]

INPUTS = ("i", "i_parameters", "i_x", "i_gradient")
OUTPUTS = ("o", "o_parameters")


@dataclass(kw_only=True)
class Session:
    """Commands, and what every port carries for them; ``phase`` returns those since the last call.

    ``model`` has the adapters that the core has, ``batch`` the samples since the last update.
    """

    config: LoraConfig
    rng: np.random.Generator
    model: Lora = field(init=False)
    batch: list = field(default_factory=list)
    batch_error: bool = False
    length_error: bool = False

    def __post_init__(self) -> None:
        self.model = Lora.random(self.config, self.rng, 0.5)
        self.plan = self.config.engine.plan
        self._begin()

    def _begin(self) -> None:
        self._in: dict[str, list[int]] = {name: [] for name in INPUTS}
        self._out: dict[str, list[int]] = {name: [] for name in OUTPUTS}

    def phase(self) -> Phase:
        """Return the phase of what was asked since the last one."""
        phase = Phase(inputs=self._in, outputs=self._out)
        self._begin()
        return phase

    def _command(self, kind: str | int, rate: int = 0) -> None:
        code = LORA_KINDS.index(kind) if isinstance(kind, str) else kind
        layout = command_layout(self.config)
        self._in["i"].append(layout.const({"kind": code, "rate": rate}).as_bits())

    def _answer(self, values: list[int] | None = None, status: str = "") -> None:
        layout, ways = result_layout(self.config), self.config.ways
        status = status or ("parameters" if self.length_error else "ok")
        self.length_error = False
        values = values or []
        for start in range(0, len(values) or 1, ways):
            part = values[start : start + ways]
            fields = {
                # What is beyond the count is what sums of rows of zeros are.
                "values": part + [0] * (ways - len(part)),
                "count": len(part),
                "status": LORA_STATUS.index(status),
                "last": start + ways >= len(values),
            }
            self._out["o"].append(layout.const(fields).as_bits())

    def _words(self) -> list[tuple[int, int]]:
        rows = engine.adapter_rows(
            self.plan, self.model.a, self.model.b, self.config.parameters.one
        )
        return [(int(one), int(two)) for one, two in engine.words(rows)]

    def _packet(self, words: list) -> list[int]:
        layout = words_layout(self.config.engine)
        return [
            layout.const({"word": word, "last": k == len(words) - 1}).as_bits()
            for k, word in enumerate(words)
        ]

    def load(self, model: Lora | None = None, *, extra: int = 0) -> None:
        """Give adapters, ``extra`` words too many or too few."""
        before, self.model = self.model, model or self.model
        words = self._words()
        words = words[:extra] if extra < 0 else words + words[:extra]
        self._in["i_parameters"] += self._packet(words)
        if extra:
            self.model, self.length_error = before, True

    def _drawn(self, form, *shape: int) -> np.ndarray:
        one = min(form.one, form.high)
        x = self.rng.integers(-one, one + 1, shape)
        extremes = self.rng.choice([form.low, form.high], shape)
        return np.where(self.rng.random(shape) < 0.1, extremes, x)

    def sample(self, *, train: bool, beats: int = 0, gradients: int = 0) -> None:
        """Give a sample, ``beats`` or ``gradients`` too many or too few."""
        config = self.config
        x = [self._drawn(config.values, width) for width in config.widths]
        base = self._drawn(config.values, config.classes)
        self._command("train" if train else "infer")
        given: list[list[int]] = []
        for vector in (*x, base):
            rest = self._drawn(config.values, -len(vector) % config.ways)
            given += np.concatenate([vector, rest]).reshape(-1, config.ways).tolist()
        given = given[:beats] if beats < 0 else given + given[:beats]
        layout = vectors_layout(config.engine)
        self._in["i_x"] += [
            layout.const({"values": values, "last": k == len(given) - 1}).as_bits()
            for k, values in enumerate(given)
        ]
        if beats:
            self._answer(status="sample")
            return
        h, logits = self.model.forward([part[None] for part in x], base[None])
        self._answer(logits[0].tolist())
        if not train:
            return
        dz = self._drawn(config.gradients, config.classes)
        form = gradient_layout(config.engine)
        sent = dz.tolist()
        sent = sent[:gradients] if gradients < 0 else sent + sent[:gradients]
        self._in["i_gradient"] += [
            form.const({"gradient": value, "last": k == len(sent) - 1}).as_bits()
            for k, value in enumerate(sent)
        ]
        if gradients:
            self.batch_error = True
        else:
            self.batch.append((x, [part[0] for part in h], dz))

    def update(self, rate: int) -> None:
        """End the batch."""
        self._command("update", rate)
        if self.batch_error:
            self._count(rate)
            self._answer(status="gradients")
        else:
            if self.batch:
                self._move(self.model, rate)
            self._answer()
        self.batch, self.batch_error = [], False

    def _move(self, model: Lora, rate: int) -> None:
        inputs, hidden, dz = zip(*self.batch, strict=True)
        x, h = ([np.array(part) for part in zip(*all_, strict=True)] for all_ in (inputs, hidden))
        model.update(x, h, np.array(dz), rate)

    def _count(self, rate: int) -> None:
        """Count what saturated in a batch that moves nothing."""
        if self.batch:
            other = deepcopy(self.model)
            self._move(other, 0)
            self.model.saturations.count = other.saturations.count

    def clear(self) -> None:
        """Make every B 0."""
        self._command("clear")
        self.model.b = [np.zeros_like(b) for b in self.model.b]
        self._answer()

    def read(self) -> None:
        """Ask for the adapters."""
        self._command("read")
        self._out["o_parameters"] += self._packet(self._words())
        self._answer()

    def unknown(self, kind: int) -> None:
        """Give a command that there is not."""
        self._command(kind)
        self._answer(status="command")


def half(config: LoraConfig) -> int:
    """Return a rate that is half of the highest."""
    return 1 << (config.rate_width - 1)


def case(config: LoraConfig, random: Random, *, samples: int = 3) -> Case:
    """Return batches of some samples, of one and of none, and the faults among them."""
    session = Session(config=config, rng=np.random.default_rng(random.getrandbits(32)))
    rate = half(config)
    phases = []

    def then(*asks) -> None:
        for name, arguments in asks:
            getattr(session, name)(**arguments)
        phases.append(session.phase())

    train, infer = ("sample", {"train": True}), ("sample", {"train": False})
    update = ("update", {"rate": rate})
    read: tuple[str, dict[str, int]] = ("read", {})
    then(("load", {}))
    then(*[train] * samples, update, infer, train, update)
    # Whole batches, that a fault is in.
    then(train, ("sample", {"train": True, "beats": -1}), train, update, update)
    then(("sample", {"train": False, "beats": 2}), infer, train, ("unknown", {"kind": 6}), update)
    for wrong in (-1, 1):
        then(train, ("sample", {"train": True, "gradients": wrong}), train, update, train, update)
    for extra in (-1, 2):
        then(("load", {"extra": extra}))
        then(infer, infer)
    then(("clear", {}), train, infer, update, read)
    return Case(phases=phases, quiet=True, retains=True)
