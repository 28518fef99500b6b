"""Case of the SDRAM controller: bursts that are written and read, some with a wrong end."""

from random import Random

import numpy as np

from seedbed.golden.sdram import Sdram
from seedbed.sim.case import TIMEOUT_CYCLES, Case, Phase
from seedbed.spec import SdramConfig

__all__ = ["case"]


def case(config: SdramConfig, random: Random, *, bursts: int = 24, chip: bool = False) -> Case:
    """Return phases of bursts, some of which are written, and some read.

    Parameters
    ----------
    config, random
        The configuration, and the generator of addresses, lengths and data.
    bursts
        How many there are.
    chip
        Whether a chip is at the pins. Without one, the self-test fails: every beat that is read is
        that of pins at 0, and every answer has an error.
    """
    memory = Sdram(config)
    end, words = 1 << config.address_bits, config.words
    row = max(1, (1 << config.figures.column_bits) // words)
    # Addresses near one another: the same row, the next bank, another row of the same bank, and
    # the end of the memory.
    bases = [random.randrange(end) for _ in range(2)]
    bases += [bases[0] // row * row + row - 2, bases[0] + 4 * row, end - 3]
    written: list[tuple[int, int]] = []
    phases = []
    for _ in range(bursts // 6):
        inputs: dict[str, list[int]] = {"i_command": [], "i_write": []}
        outputs: dict[str, list[int]] = {"o_response": [], "o_read": []}
        for _ in range(6):
            if not written or random.random() < 0.5:
                address = (random.choice(bases) + random.randrange(8)) % end
                length = random.choice([1, 2, 5, random.randint(1, 24)])
                written.append((address, length))
                beats, error = _write(memory, random, address, length)
                inputs["i_write"] += beats
                outputs["o_response"].append(int(error or not chip))
                write = True
            else:
                address, length = _part(random, *random.choice(written), end)
                outputs["o_read"] += _read(memory, address, length, chip=chip)
                write = False
            command = address | write << config.address_bits
            inputs["i_command"].append(command | (length - 1) << config.address_bits + 1)
        phases.append(Phase(inputs=inputs, outputs=outputs))
    # The first transfer is after the wait for power-up, and the two passes of the self-test.
    ready = 1000 * config.power_up_us, 2 * config.retention * config.figures.refresh
    timeout = TIMEOUT_CYCLES + config.cycles(sum(ready))
    return Case(phases=phases, quiet=True, retains=True, timeout_cycles=timeout)


def _write(memory: Sdram, random: Random, address: int, length: int) -> tuple[list[int], bool]:
    """Write random beats; return them, some with a wrong ``last``, and whether that is an error."""
    words, bits = memory.config.words, memory.config.beat_bits
    data = np.array(
        [[random.getrandbits(16) for _ in range(words)] for _ in range(length)], np.uint16
    )
    lasts = [False] * (length - 1) + [True]
    if random.random() < 0.2:
        lasts[random.randrange(length)] ^= True
    memory.write(address, data)
    (error,) = memory.responses([length], [lasts])
    return [_number(beat) | last << bits for beat, last in zip(data, lasts, strict=True)], error


def _part(random: Random, address: int, length: int, end: int) -> tuple[int, int]:
    """Return the last beats of a burst."""
    skip = random.randrange(length)
    return (address + skip) % end, length - skip


def _read(memory: Sdram, address: int, length: int, *, chip: bool) -> list[int]:
    """Return the beats of a burst that is read."""
    bits = memory.config.beat_bits
    flags = [(not chip) << bits | (k == length - 1) << bits + 1 for k in range(length)]
    beats = memory.read(address, length)
    return [chip * _number(beat) | flag for beat, flag in zip(beats, flags, strict=True)]


def _number(words: np.ndarray) -> int:
    return int.from_bytes(words.astype("<u2").tobytes(), "little")
