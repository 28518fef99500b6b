"""Ground floor: validated configurations, tap tables and number formats, each with its source."""

from seedbed.spec.lfsr import TAPS, LfsrConfig
from seedbed.spec.urng_array import UrngConfig

__all__ = ["TAPS", "LfsrConfig", "UrngConfig"]
