"""Configuration of the decompressor of SeedLM's blocks."""

from dataclasses import dataclass

from seedbed.spec.checks import require_bool, require_int
from seedbed.spec.seedlm import SeedlmConfig

__all__ = ["SeedlmDecompressConfig"]


@dataclass(frozen=True, kw_only=True)
class SeedlmDecompressConfig(SeedlmConfig):
    """Blocks as in :class:`SeedlmConfig`, ``blocks`` of them decompressed in parallel.

    Parameters
    ----------
    blocks
        Blocks per beat, 1..32. 16 of 32 bits are a beat of 64 bytes.
    additions
        Successive additions per pipeline stage, 1 or 2. 1 has the faster clock, 2 half the latency
        and fewer flip-flops.
    queue
        Whether the pipeline's output has a FIFO of 16 beats, so that the clock enables of the
        pipeline come from registers. It is for many blocks with back-pressure: without it one LUT
        drives the clock enables of all flip-flops. Delay lines of the lanes are then in LUTRAM,
        where that saves flip-flops.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: SeedLM (arXiv:2410.10714), section 4.2.
    """

    blocks: int = 2
    additions: int = 2
    queue: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_int("blocks", self.blocks, 1, 32)
        require_int("additions", self.additions, 1, 2)
        require_bool("queue", self.queue)

    @property
    def lanes(self) -> int:
        """Weights per beat."""
        return self.blocks * self.block
