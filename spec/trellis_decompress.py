"""Configuration of the decompressor of trellis-coded weights."""

from dataclasses import dataclass

from seedbed.spec.checks import require_int
from seedbed.spec.trellis import TrellisConfig

__all__ = ["FIELDS", "TrellisDecompressConfig"]

#: Fields that a code may have in hardware: they are added two by two.
FIELDS = (2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class TrellisDecompressConfig(TrellisConfig):
    """A trellis code as in :class:`TrellisConfig`, ``lanes`` weights decompressed in parallel.

    Parameters
    ----------
    lanes
        Weights per beat, 1..1024.

    The code must have 2, 4 or 8 fields. Raises ``TypeError`` or ``ValueError`` with a sentence that
    names what is allowed.
    """

    lanes: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        require_int("lanes", self.lanes, 1, 1024)
        if len(self.masks) not in FIELDS:
            raise ValueError(f"code must have 2, 4 or 8 fields, not {len(self.masks)}")
