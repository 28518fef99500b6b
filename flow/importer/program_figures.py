"""What a program takes: bytes of memory, buffers, and cycles of the streamed engine.

Cycles are counted from the program, for an engine with one memory port. A matrix is read once for
``vectors`` tokens, gains once for a block. Each beat takes a cycle. The vector unit takes a cycle
for ``lanes`` elements of each pass, and one for as many products of attention as a beat has bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from seedbed.flow.importer.program_file import ALIGNMENT, Place
from seedbed.spec.stream_engine import (
    Attend,
    Embed,
    Matrix,
    Norm,
    Pool,
    Program,
    Rotate,
)

__all__ = ["BLOCKS", "CLOCK", "Figures", "figures"]

#: Tokens of a block, and in all: of a decoder, and of an encoder.
BLOCKS = (1, 128), (32, 32)
#: The clock for which tokens a second are stated.
CLOCK = 200e6
#: Passes over a vector: squares and products of a norm, one more for a mean; of softmax the
#: greatest score, powers of two, and shares.
NORM, MEAN, SOFTMAX = 2, 1, 3


@dataclass(frozen=True)
class Figures:
    """What a program takes for a block of tokens, after which there are ``context``.

    Bytes of the image, of what is read for a block, of keys and values; bytes of the
    vectors that are needed at once; cycles of matrices and of the vector unit for a block.
    """

    tokens: int
    context: int
    image: int
    read: int
    cache: int
    vectors: int
    matrix_cycles: int
    vector_cycles: int

    @property
    def cycles(self) -> int:
        """Cycles of a block where vectors are computed while a matrix is read."""
        return max(self.matrix_cycles, self.vector_cycles)

    @property
    def per_second(self) -> float:
        """Tokens a second at :data:`CLOCK`."""
        return self.tokens * CLOCK / self.cycles

    @property
    def per_gigabyte(self) -> float:
        """Tokens a second for each GB/s of memory bandwidth."""
        return self.per_second / (ALIGNMENT * CLOCK / 1e9)


def figures(
    program: Program, places: Mapping[str, Place], image: int, *, tokens: int, context: int,
    vectors: int,
) -> Figures:  # fmt: skip
    """Return the figures of a block of ``tokens``, with ``vectors`` multiplied at once."""
    unit = program.unit
    read = beats = work = cache = 0
    passes = -(-tokens // vectors)
    for op in program.operations:
        size = program.vectors[op.target].length
        for name in () if isinstance(op, Embed) else op.parameters:
            # A matrix, or gains, and biases.
            times = passes if isinstance(op, Matrix) else 1
            place = places[name]
            for nbytes in (place.nbytes, 4 * size * (place.biases >= 0), place.kept_bytes):
                read += nbytes * times
                beats += -(-nbytes // ALIGNMENT) * times
        if isinstance(op, Matrix):
            continue
        if isinstance(op, Embed):
            rows = sum(places[n].nbytes // places[n].rows for n in op.parameters)
            read += rows * tokens
            beats += -(-rows // ALIGNMENT) * tokens
        elif isinstance(op, Attend):
            head = size // op.heads
            kept = 2 * op.shared * (head * unit.cache_width // 8 + 1)
            cache += kept * context
            read += kept * context * op.causal
            beats += -(-kept * context * op.causal // ALIGNMENT)
            work += tokens * -(-2 * op.heads * context * head // ALIGNMENT)
            work += tokens * SOFTMAX * op.heads * -(-context // unit.lanes)
        else:
            times = 1
            if isinstance(op, Norm):
                times = NORM + MEAN * op.centred
            if isinstance(op, Rotate):
                # A product of a pair takes two multipliers for each element.
                times = 2
            if isinstance(op, Pool):
                size = program.vectors[op.source].length
            work += tokens * times * -(-size // unit.lanes)
    return Figures(tokens, context, image, read, cache, tokens * _alive(program), beats, work)


def _alive(program: Program) -> int:
    """Return the greatest number of bytes of a token's vectors that are needed at once.

    The result leaves the core while it is computed.
    """
    last: dict[str, int] = {}
    for k, op in enumerate(program.operations):
        last |= dict.fromkeys(op.sources, k)
    unit, alive, most = program.unit, set(), 0
    for k, op in enumerate(program.operations):
        alive.add(op.target)
        sizes = [program.vectors[name] for name in alive - {program.result}]
        widths = (unit.residual_width if each.wide else unit.width for each in sizes)
        bits = sum(each.length * width for each, width in zip(sizes, widths, strict=True))
        most = max(most, bits)
        alive = {name for name in alive if last.get(name, k) > k}
    return -(-most // 8)
