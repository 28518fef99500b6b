"""Configuration of the decompressor of SeedLM's blocks."""

from dataclasses import dataclass

from seedbed.spec.checks import require_bool, require_int
from seedbed.spec.seedlm import SeedlmConfig

__all__ = ["SeedlmDecompressConfig"]


@dataclass(frozen=True, kw_only=True)
class SeedlmDecompressConfig(SeedlmConfig):
    """Blocks as :class:`SeedlmConfig` has them, ``blocks`` of them decompressed side by side.

    Parameters
    ----------
    blocks
        Blocks a beat, 1..32. 16 of 32 bits are a beat of 64 bytes.
    additions
        Additions one after the other between registers, 1 or 2. 1 has the faster clock, 2 half the
        latency and fewer flip-flops.
    queue
        Whether a queue of 16 beats stands behind the pipeline, so that all that moves the pipeline
        comes from registers: for many blocks whose output may wait, as else one LUT enables all
        flip-flops. What waits in the lanes is then in memories, where that saves ten flip-flops.

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
        """Weights a beat."""
        return self.blocks * self.block
