"""Hostile frames of ``gemv``."""

from collections.abc import Iterator
from random import Random

import numpy as np

from seedbed.hw.products import gemv_layouts
from seedbed.sim.cases import gemv
from seedbed.sim.hostile.frames import Hostile, define
from seedbed.sim.verilog.script import step
from seedbed.spec import GemvConfig

__all__ = ["HOSTILE"]


def _frames(config: GemvConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile frames for :class:`~seedbed.hw.products.gemv.Gemv`."""
    random, rng = Random(seed), np.random.default_rng(seed)
    most = config.columns

    def drawn() -> gemv.Job:
        return gemv.Job.random(
            config, rng, rows=random.randint(1, 4), columns=random.randint(1, min(most, 40)),
            plain=random.random() < 0.5,
        )  # fmt: skip

    jobs = 8
    for k in range(jobs):
        phase = gemv.phase(config, drawn())
        # Until its command is taken, what comes counts to the frame before, and is dropped.
        rest = {name: sent for name, sent in phase.inputs.items() if name != "i"}
        steps = [step("send", "i", phase.inputs["i"]), "done"]
        steps += [step("send", name, payloads) for name, payloads in rest.items()]
        steps += [step("expect", name, payloads) for name, payloads in phase.outputs.items()]
        yield from define(f"good{k}", ["ignore 0", *steps, "done"])
    clear = gemv.command(config, clear=True)
    last = gemv_layouts.result_layout(config)["last"].offset
    for _ in range(frames):
        yield "ignore 1"
        phase = gemv.phase(config, drawn())
        ports = {name: list(payloads) for name, payloads in phase.inputs.items()}
        flags = {
            "i_vector": 1 << gemv_layouts.vector_layout(config)["last"].offset,
            "i_weights": 1 << gemv_layouts.weights_layout(config)["last"].offset,
        }
        if config.trellis:
            # Any bit: a scale has no `last`.
            flags["i_scales"] = 1
        name = random.choice(tuple(flags))
        beats, place = ports[name], random.randrange(len(ports[name]))
        ends, cut = True, False
        match random.randrange(6):
            case 0:
                beats[place] ^= flags[name]
            case 1:
                del beats[place:]
                cut = True
            case 2:
                shape = random.choice(((0, 1), (1, 0), (0, 0)))
                ports["i"] = [gemv.command(config, *shape, plain=random.random() < 0.5)]
            case 3:
                # Without its `last`, the frame goes on into what follows.
                beats[-1] &= ~flags[name]
            case 4:
                ports["i"].append(clear)
                ends = False
            case 5:
                cut = True
        for port, payloads in ports.items():
            yield step("send", port, payloads)
        if cut and random.random() < 0.5:
            yield f"cycles {random.randrange(60)}"
            yield "reset 0"
        elif cut:
            yield "cycles 400"
            yield step("send", "i", [clear])
        elif ends:
            yield f"until o {last}"
        # A clear leaves what was offered to the next job: the sender takes care, or resets.
        if not ends:
            yield "cycles 300"
            yield "reset 0"
        yield "done"
        # The answer to a clear may still come.
        yield "cycles 100"
        yield f"call good{random.randrange(jobs)}"


HOSTILE = (
    Hostile("small", _frames),
    Hostile("small, lut4", _frames, {"decode": "lut4", "level_load": 4}),
    Hostile("small, trellis", _frames, {"decode": "trellis"}),
    Hostile("small, plain, 2 vectors", _frames, {"decode": "plain", "vectors": 2}),
)
