"""Golden model of the skid buffer: the output beats are the input beats."""

import numpy as np

from seedbed.spec import SkidBufferConfig

__all__ = ["SkidBuffer"]


class SkidBuffer:
    """The output of :class:`seedbed.hw.parts.skid_buffer.SkidBuffer` for given input beats.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SkidBufferConfig`.
    """

    def __init__(self, config: SkidBufferConfig):
        self.config = config

    def beats(self, payloads: np.ndarray) -> np.ndarray:
        """Return the payloads, in order; raises ``ValueError`` for one of more than ``width`` bits.

        Parameters
        ----------
        payloads
            Integers from 0, of shape (beats,), of any width as ``object``.
        """
        for payload in payloads:
            if not 0 <= payload < 1 << self.config.width:
                raise ValueError(f"a payload must have {self.config.width} bits, not {payload}")
        return payloads
