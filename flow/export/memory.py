"""Contents of memories, word by word, as texts and bytes that other tools read."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

__all__ = ["Memory", "head"]

#: Bytes of a line of a C array.
_LINE = 12


def head(kind: str, title: str) -> str:
    """Return the first line of a generated file, without the characters of a comment."""
    return f"{kind} of seedbed {version('seedbed')}: {title}"


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The words of a memory, or the payloads of a port, in order.

    Parameters
    ----------
    name, title
        Name in the names of files, and a description of a word.
    width
        Bits of a word.
    raw
        uint8 of shape (words, ceil(width / 8)), low bytes first. Bits after ``width`` are 0.
    """

    name: str
    title: str
    width: int
    raw: np.ndarray

    @classmethod
    def of(cls, name: str, title: str, width: int, numbers: np.ndarray) -> "Memory":
        """Return words of ``numbers`` (words, numbers a word) of ``width`` bits, first one lowest.

        Numbers are two's complement.
        """
        count, each = numbers.shape
        raw = np.ascontiguousarray(numbers).astype("<i8").view(np.uint8).reshape(count, each, 8)
        bits = np.unpackbits(raw, axis=-1, count=width, bitorder="little")
        raw = np.packbits(bits.reshape(count, each * width), axis=-1, bitorder="little")
        return cls(name=name, title=title, width=each * width, raw=raw)

    @classmethod
    def integers(cls, name: str, title: str, width: int, words: Sequence[int]) -> "Memory":
        """Return words of any ``width`` from integers of their bits."""
        size = -(-width // 8)
        raw = np.frombuffer(b"".join(word.to_bytes(size, "little") for word in words), np.uint8)
        return cls(name=name, title=title, width=width, raw=raw.reshape(-1, size))

    def hex(self, *, address: bool = False) -> str:
        """Return the words in hexadecimal, one a line, for ``$readmemh``.

        With ``address``, the address of the first word comes before them.
        """
        first = [f"// {head('Memory', self._description)}", *["@0"] * address]
        return "\n".join([*first, *self._digits()]) + "\n"

    def coe(self) -> str:
        """Return the words as a file of coefficients, for block memories of Vivado."""
        words = ",\n".join(self._digits())
        return (
            f"; {head('Memory', self._description)}\nmemory_initialization_radix=16;\n"
            f"memory_initialization_vector=\n{words};\n"
        )

    def c_array(self, prefix: str) -> str:
        """Return the bytes as an array of C."""
        flat = self.raw.reshape(-1)
        lines = [
            "  " + "".join(f"0x{byte:02x}," for byte in flat[k : k + _LINE].tolist())
            for k in range(0, len(flat), _LINE)
        ]
        name = f"{prefix}_{self.name}"
        return (
            f"/* {self._description}; low bytes first. */\n"
            f"static const uint8_t {name}[{len(flat)}] = {{\n" + "\n".join(lines) + "\n};\n"
        )

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.raw)

    @property
    def _description(self) -> str:
        return f"{self.words} words of {self.width} bits, {self.title}"

    def _digits(self) -> list[str]:
        digits, size = -(-self.width // 4), 2 * self.raw.shape[1]
        text = np.ascontiguousarray(self.raw[:, ::-1]).tobytes().hex()
        return [text[k + size - digits : k + size] for k in range(0, len(text), size)]
