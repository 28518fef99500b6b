"""Configuration of the decompressor of trellis-coded weights."""

from dataclasses import dataclass

from seedbed.spec.checks import require_int
from seedbed.spec.trellis import TrellisConfig

__all__ = ["TrellisDecompressConfig"]


@dataclass(frozen=True, kw_only=True)
class TrellisDecompressConfig(TrellisConfig):
    """A trellis code as in :class:`TrellisConfig`, ``lanes`` weights decompressed in parallel.

    Parameters
    ----------
    lanes
        Weights per beat, 1..1024.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    lanes: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        require_int("lanes", self.lanes, 1, 1024)
