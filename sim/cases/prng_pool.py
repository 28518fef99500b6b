"""Case of the pool: sequential reads and seeks, after reset and after short and full loads."""

from random import Random

import numpy as np
from amaranth.hdl import Shape

from seedbed.golden.prng_pool import PrngPool, Request
from seedbed.sim.case import Case, Phase
from seedbed.spec import PoolConfig

__all__ = ["case", "pack_beats", "pack_numbers", "pack_requests"]


def _packed(fields: list[tuple[int, int]]) -> int:
    """Return (value, width) fields as one integer, the first one lowest."""
    word, offset = 0, 0
    for value, width in fields:
        word |= (int(value) & ((1 << width) - 1)) << offset
        offset += width
    return word


def _count_width(config: PoolConfig) -> int:
    return Shape.cast(range(config.lanes + 1)).width


def pack_requests(config: PoolConfig, requests: list[Request]) -> list[int]:
    """Return the payloads of port ``i``."""
    start, count = Shape.cast(range(config.size)).width, _count_width(config)
    return [
        _packed([(r.seek, 1), (r.start, start), (r.count, count), (r.last, 1)]) for r in requests
    ]


def pack_beats(config: PoolConfig, lanes: np.ndarray, requests: list[Request]) -> list[int]:
    """Return the payloads of port ``o`` for the response to ``requests``."""
    return [
        _packed(
            [(number, config.width) for number in row]
            + [(r.count, _count_width(config)), (r.last, 1)]
        )
        for row, r in zip(lanes, requests, strict=True)
    ]


def pack_numbers(config: PoolConfig, numbers: list[int]) -> list[int]:
    """Return the payloads of port ``i_pool``, the last of them marked."""
    last = len(numbers) - 1
    return [_packed([(x, config.width), (k == last, 1)]) for k, x in enumerate(numbers)]


def case(config: PoolConfig, random: Random, *, beats: int = 100, full: bool = False) -> Case:
    """Return four rounds of requests, before and after loads; ``full`` loads all N in the second.

    A round reads on from the position, seeks to both sides of the end, seeks at random, and reads
    two successive perturbations. The end of a big pool is loaded only with ``full``, because a
    load takes two cycles per number.
    """
    model = PrngPool(config)
    size, lanes = config.size, config.lanes
    half = 1 << (config.width - 1)

    def requests() -> list[Request]:
        out = [Request(lanes) for _ in range(beats // 4)]
        for back in range(min(size, 2 * lanes), 0, -1):
            out.append(Request(random.randint(0, lanes), seek=True, start=size - back))
            out.append(Request(lanes))
        for _ in range(beats // 4):
            seek = random.random() < 0.3
            start = random.randrange(size) if seek else 0
            out.append(Request(random.randint(0, lanes), bool(random.getrandbits(1)), seek, start))
        for d in (random.randint(1, size), 2 * lanes + 1):
            out += list(model.requests(min(d, beats * lanes)))
        return out

    phases = []
    loads = [0, size if full else min(size, 3 * lanes), random.randint(1, min(size, lanes)), 1]
    for length in loads:
        numbers = [random.randrange(-half, half) for _ in range(length)]
        if numbers:
            model.load(numbers)
            phases.append(Phase(inputs={"i_pool": pack_numbers(config, numbers)}))
        sent = requests()
        answer = pack_beats(config, model.beats(sent), sent)
        phases.append(Phase(inputs={"i": pack_requests(config, sent)}, outputs={"o": answer}))
    return Case(phases=phases, quiet=True, retains=True)
