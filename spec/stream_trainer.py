"""Configuration of the core that tunes the kept weights of a program in external memory."""

from dataclasses import dataclass, fields

from seedbed.spec.checks import require_int
from seedbed.spec.lfsr import LfsrConfig
from seedbed.spec.sparse_trainer import BATCH_BITS
from seedbed.spec.stream_engine import (
    STREAM_ENGINE_KINDS,
    STREAM_ENGINE_STATUS,
    StreamEngineConfig,
)

__all__ = [
    "MOST_SAMPLE",
    "SAMPLE_WORD",
    "STEP_SEED_BITS",
    "STREAM_TRAINER_KINDS",
    "STREAM_TRAINER_STATUS",
    "StreamTrainerConfig",
]

#: What a command asks for: what the engine is asked for, a training, or the end of one.
STREAM_TRAINER_KINDS = (*STREAM_ENGINE_KINDS, "train", "abort")
#: How a command ended, by code: as one of the engine; with a training that cannot be run; aborted.
STREAM_TRAINER_STATUS = (*STREAM_ENGINE_STATUS, "command", "aborted")
#: Fields of the word of 32 bits that a token of a sample has in memory, the lowest first.
SAMPLE_WORD: dict[str, int] = {"token": 23, "last": 1, "label": 8}

#: The most beats of a sample that any core takes.
MOST_SAMPLE = 4096
#: Bits of the seed of a step.
STEP_SEED_BITS = 23


@dataclass(frozen=True, kw_only=True)
class StreamTrainerConfig(StreamEngineConfig):
    """A streamed engine that trains the kept weights of its program, on samples in its memory.

    A sample is a block of tokens, with a class for each, and with vectors where the engine takes
    some. In memory, from a beat of its own on, it has ``head`` beats of words, one for each token
    up to that with ``last``, and then the vectors, 16 bits an element, without gaps.

    Parameters
    ----------
    sample
        The most beats of a sample, 2..4096.
    batch
        The most samples of a batch, 1..4096.

    The others are those of :class:`~seedbed.spec.StreamEngineConfig`; kept weights can be tuned,
    and results are losses.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: MeZO (arXiv:2305.17333), algorithm 1; SensZOQ (arXiv:2406.02913), section 3.
    """

    trellis: int = 4
    kept: int = 1024
    tune: int = 6
    classes: int = 16
    sample: int = 64
    batch: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        require_int("tune", self.tune, 1, 12)
        require_int("classes", self.classes, 2, 256)
        require_int("sample", self.sample, 2, MOST_SAMPLE)
        require_int("batch", self.batch, 1, 1 << (BATCH_BITS - 1))

    @property
    def engine(self) -> StreamEngineConfig:
        """The engine."""
        return StreamEngineConfig(
            **{each.name: getattr(self, each.name) for each in fields(StreamEngineConfig)}
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        return STREAM_TRAINER_KINDS

    @property
    def seeds(self) -> LfsrConfig:
        """The generator of the seeds of steps. Its taps are not those of the signs."""
        return LfsrConfig(width=STEP_SEED_BITS, leap=STEP_SEED_BITS)

    @property
    def words(self) -> int:
        """Words of a beat of a sample's head."""
        return self.beat_bits // 32

    @property
    def sample_vectors(self) -> int:
        """Beats of vectors in a beat of memory."""
        return self.beat_bits // (16 * self.lanes)

    @property
    def sum_width(self) -> int:
        """Bits of the sum of a batch's losses."""
        return self.unit.residual_width + (self.batch * self.block).bit_length()
