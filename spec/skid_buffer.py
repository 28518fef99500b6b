"""Configuration of the skid buffer."""

from dataclasses import dataclass

from seedbed.spec.checks import require_int

__all__ = ["SkidBufferConfig"]


@dataclass(frozen=True, kw_only=True)
class SkidBufferConfig:
    """A register slice for a stream of ``width`` bits.

    Parameters
    ----------
    width
        Bits of the payload, 1..4096.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    width: int = 8

    def __post_init__(self) -> None:
        require_int("width", self.width, 1, 4096)
