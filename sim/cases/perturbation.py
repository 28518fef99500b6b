"""Case of the perturbation stream: lengths near a multiple of a beat, both signs, and a replay."""

from random import Random

from seedbed.golden.perturbation import Perturbation
from seedbed.hw.generators.perturbation import beat_layout, command_layout
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.prng_pool import pack_numbers
from seedbed.spec import PerturbationConfig

__all__ = ["case", "phase"]


def case(config: PerturbationConfig, random: Random, *, numbers: int = 500) -> Case:
    """Return commands, back to back, and all their beats; the last repeats the first.

    A pool is then loaded and read again.
    """
    model = Perturbation(config)
    n, eps = config.lanes, 1 << (config.eps_width - 1)
    lengths = [numbers, 1, n - 1 or 1, n, n + 1, 3 * n]
    commands = [
        (random.choice(config.seeds), d, random.randrange(-eps, eps), random.randint(0, 1))
        for d in lengths
    ]
    edges = [(config.seeds[0], 2 * n, -eps, 1), (config.seeds[-1], 2 * n, eps - 1, 0)]
    all_commands = [*commands, *edges, commands[0]]
    phases = [phase(config, model, all_commands)]
    if config.source == "pool":
        top = (1 << (config.width - 1)) - 1
        pool = [random.randint(-top, top) for _ in range(min(config.size, 4 * n))]
        model.load(pool)
        phases.append(Phase(inputs={"i_pool": pack_numbers(config.pool, pool)}))
        phases.append(phase(config, model, [(seed, d, 0, 0) for seed in (0, 1) for d in (3 * n,)]))
    return Case(phases=phases, quiet=True, retains=config.source == "pool")


def phase(config: PerturbationConfig, model: Perturbation, commands: list[tuple]) -> Phase:
    """Return the phase of commands (seed, d, eps, negative) and all of their beats."""
    payloads, beats = [], []
    for seed, d, exponent, negative in commands:
        command = {"seed": seed, "numbers": d, "eps": exponent, "negative": negative}
        payloads.append(command_layout(config).const(command).as_bits())
        answer = model.beats(seed=seed, d=d, eps=exponent)
        for t, lanes in enumerate(answer.lanes):
            beat = {
                "lanes": lanes.tolist(),
                "count": int(answer.counts[t]),
                "exponent": int(answer.exponents[t]),
                "negative": negative,
                "last": t == len(answer.lanes) - 1,
            }
            beats.append(beat_layout(config).const(beat).as_bits())
    return Phase(inputs={"i": payloads}, outputs={"o": beats})
