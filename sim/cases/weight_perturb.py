"""Case of the perturbing stage: passes over rows under several seeds, in every mode."""

from random import Random

import numpy as np

from seedbed.golden.weight_perturb import WeightPerturb
from seedbed.hw.generators.perturbation_rows import Kind, command_layout
from seedbed.hw.generators.weight_perturb import Mode, row_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import WeightPerturbConfig

__all__ = ["case"]


def _rows(config: WeightPerturbConfig, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return random weights (count, ways * lanes), many of them near the ends."""
    shape = count, config.count
    rows = rng.integers(-127, 128, shape)
    return np.where(rng.random(shape) < 0.3, rng.choice([-127, -120, 120, 127], shape), rows)


def case(config: WeightPerturbConfig, random: Random, *, steps: int = 8) -> Case:
    """Return steps of both passes and an update, with rows passed on in between."""
    rng = np.random.default_rng(random.getrandbits(32))
    model = WeightPerturb(config)
    count = min(config.rows, config.buffered + 7)
    phases: list[Phase] = []

    def command(kind: Kind, **fields: int) -> None:
        payload = command_layout(config).const({"kind": int(kind), **fields}).as_bits()
        phases.append(Phase(inputs={"i_command": [payload]}))

    def passed(weights: np.ndarray, mode: Mode, results: np.ndarray, rows, subtract: bool) -> None:
        layout, out = row_layout(config), row_layout(config)["weights"].shape
        sent = [
            layout.const(
                {"weights": w.tolist(), "mode": mode, "subtract": subtract, "row": int(row)}
            ).as_bits()
            for w, row in zip(weights, rows, strict=True)
        ]
        came = [out.const(result.tolist()).as_bits() for result in results]
        phases.append(Phase(inputs={"i": sent}, outputs={"o": came}))

    # Each range, each bit of the number of zeros, and its ends.
    for step in range(steps):
        seed = int(rng.integers(1 << 32))
        bits = config.bits - step % config.bits
        magnitude, zeros = (1 << bits) - 1, (0, 5, 10, 12, 3, 15, 7, 8)[step % 8]
        z = model.perturbation(seed, count, magnitude=magnitude, zeros=zeros)
        z = z.reshape(count, -1)
        command(Kind.SEED, seed=seed, magnitude=bits, zeros=zeros)
        for k in (1, -1):
            again = rng.integers(max(config.buffered, 1), size=20 * bool(config.buffered))
            again[:1] = config.buffered - 1
            rows = np.array([*again, *range(config.buffered, count)], int)
            # A pass follows a seed at once, too: the first row is the last one that is buffered, or
            # needs the generator.
            if k < 0 or step % 2:
                command(Kind.REWIND)
            elif step % 4:
                rows = np.roll(rows, -again.size)
            weights = _rows(config, rng, len(rows))
            passed(weights, Mode.PERTURB, model.perturbed(weights, z[rows], k), rows, k < 0)
            weights = _rows(config, rng, 3)
            passed(weights, Mode.PASS, weights, [0, 1, 2], bool(rng.integers(2)))
        command(Kind.RESTART)
        weights, sign = _rows(config, rng, count), int(rng.choice([-1, 1]))
        updated = model.updated(weights, z, sign, magnitude)
        passed(weights, Mode.UPDATE, updated, range(count), sign > 0)
    return Case(phases=phases, quiet=True)
