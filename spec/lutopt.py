"""Configuration of the LUT-optimised linear generator, and its table of proven matrices."""

from dataclasses import dataclass
from functools import cached_property
from random import Random

from seedbed.spec.checks import require_choice, require_int

__all__ = [
    "DRAWS",
    "SEED_BITS",
    "SEED_LEAST",
    "WARM_UP",
    "LutoptConfig",
    "draw",
    "expansion",
    "factors",
]

#: Of each state bit: the bits of the current state whose XOR is its next value.
Rows = tuple[tuple[int, ...], ...]

SEEDINGS = ("serial", "word")

#: Primes that divide 2^d - 1 and no 2^e - 1 with e < d. The prime factors of 2^k - 1 are those of
#: all divisors d of k. Source: the Cunningham tables (Brillhart, Lehmer, Selfridge, Tuckerman and
#: Wagstaff, Factorizations of b^n +- 1), and the Mersenne primes.
PRIMES: dict[int, tuple[int, ...]] = {
    2: (3,),
    3: (7,),
    4: (5,),
    5: (31,),
    7: (127,),
    8: (17,),
    10: (11,),
    11: (23, 89),
    14: (43,),
    16: (257,),
    20: (41,),
    28: (29, 113),
    31: (2147483647,),
    32: (65537,),
    33: (599479,),
    40: (61681,),
    56: (15790321,),
    62: (715827883,),
    64: (641, 6700417),
    80: (4278255361,),
    112: (5153, 54410972897),
    124: (5581, 8681, 49477, 384773),
    128: (274177, 67280421310721),
    160: (414721, 44479210368001),
    217: (5209, 62497, 6268703933840364033151, 378428804431424484082633),
    224: (449, 2689, 183076097, 358429848460993),
    248: (290657, 3770202641, 1141629180401976895873),
    256: (59649589127497217, 5704689200685129054721),
    320: (3602561, 94455684953484563055991838558081),
    434: (16233337, 140508608590164280225934233098866842745808905947),
    448: (167773885276849215533569, 37414057161322375957408148834323969),
    512: (1238926361552897, 93461639715357977769163558199606896584051237541638188580280321),
    640: (286721, 446960641, 96645260801, 3442404051886487041, 2715862005931406599419575483412481),
    896: (
        1489153,
        int(
            "264593404414418660877311149789327918103784565142286996358083304839478349"
            "29412856490368283423658331445600601857"
        ),
    ),
    **{exponent: (2**exponent - 1,) for exponent in (61, 89, 107, 127, 521, 607, 1279)},
}

#: Seeds of :func:`draw` whose matrices have the period 2^k - 1, by lanes, width and taps. Found by
#: `seedbed lutopt search`; a test proves each.
DRAWS: dict[tuple[int, int, int], int] = {
    (4, 4, 3): 159,
    (8, 4, 3): 332,
    (11, 3, 3): 253,
    (8, 5, 3): 199,
    (16, 4, 3): 1818,
    (16, 5, 3): 1340,
    (32, 5, 3): 544,
    (64, 4, 3): 1508,
    (64, 5, 3): 3664,
    (31, 8, 3): 1565,
    (31, 14, 3): 5348,
    (128, 5, 3): 10034,
    (128, 7, 3): 7346,
}

#: Bits of a seed word, and of the generator that expands it: one more, which is 1.
SEED_BITS = 32
#: Least bits of a state for which the expansion is one to one: a test proves it of each row.
SEED_LEAST = 64
#: Lanes, width and taps of the generator that expands a seed word.
EXPANDER = (11, 3, 3)
#: Beats of the expansion that are shifted out of the lanes again. The first ones of a seed word
#: with few ones have few ones.
WARM_UP = 16


def factors(k: int) -> tuple[int, ...]:
    """Return the distinct prime factors of 2^k - 1, in ascending order.

    Raises ``ValueError`` if the table lacks a divisor of k.
    """
    divisors = [d for d in range(2, k + 1) if k % d == 0]
    for d in divisors:
        if d not in PRIMES:
            raise ValueError(
                f"the prime factors of 2^{k} - 1 must be known, and those of 2^{d} - 1 are not in "
                f"the table; known sizes are multiples such as 160, 248, 434, 521, 640 and 896"
            )
    return tuple(sorted(prime for d in divisors for prime in PRIMES[d]))


def draw(lanes: int, width: int, taps: int, seed: int) -> Rows:
    """Return a random matrix: the taps of each state bit, bit ``lane * width + i`` for bit i.

    Bits 1.. of a lane tap the bit below, for the load, and ``taps - 1`` random bits; bit 0 taps
    only the random ones. The random taps are permutations, so that each bit is read equally often.
    Rows with odd and with even numbers of taps are both needed: otherwise the vector of all ones
    would be a fixed point, or would be mapped to zero.
    """
    bits = range(lanes * width)
    random = Random(seed)
    rows = [[bit - 1] if bit % width else [] for bit in bits]
    for _ in range(taps - 1):
        while True:
            # Python guarantees the same numbers in every version for random() only.
            order = sorted(bits, key=lambda _: random.random())
            if not any(tap in row for row, tap in zip(rows, order, strict=True)):
                break
        for row, tap in zip(rows, order, strict=True):
            row.append(tap)
    return tuple(map(tuple, rows))


def expansion() -> Rows:
    """Return the matrix of the generator that expands a seed word, of 33 bits."""
    return draw(*EXPANDER, DRAWS[EXPANDER])


@dataclass(frozen=True, kw_only=True)
class LutoptConfig:
    """A linear generator of ``lanes * width`` bits a beat, one LUT deep, of full period.

    Parameters
    ----------
    lanes, width
        Words per beat and bits per word; a size of :data:`DRAWS`.
    taps
        Bits in the XOR of a state bit; bit 0 of each lane has one fewer.
    seeding
        ``serial``: the state is shifted into the lanes, one bit per lane and beat; the previous
        state is shifted out, so that a state can be saved and restored.
        ``word``: the state is expanded from one word of 32 bits, every value of which gives a
        state that is not zero. It needs at least 64 bits of state.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: Thomas and Luk, High Quality Uniform Random Number Generation Through LUT Optimised
    Linear Recurrences (FPT 2005).
    """

    lanes: int = 31
    width: int = 14
    taps: int = 3
    seeding: str = "serial"

    def __post_init__(self) -> None:
        require_int("lanes", self.lanes, 1, 1024)
        require_int("width", self.width, 2, 24)
        require_int("taps", self.taps, 3, 6)
        require_choice("seeding", self.seeding, SEEDINGS)
        if (self.lanes, self.width, self.taps) not in DRAWS:
            known = ", ".join(f"{n} x {b}" for n, b, t in DRAWS if t == self.taps)
            raise ValueError(
                f"lanes x width must be a proven size ({known or 'none'} with {self.taps} taps), "
                f"not {self.lanes} x {self.width}: `seedbed lutopt search` finds others"
            )
        if self.seeding == "word" and self.bits < SEED_LEAST:
            raise ValueError(
                f"a seed word needs {SEED_LEAST} bits of state or more, not {self.bits}: two words "
                f"could give the same state"
            )

    @property
    def bits(self) -> int:
        """k, the bits of the state and of a beat."""
        return self.lanes * self.width

    @property
    def period(self) -> int:
        """Beats after which the words repeat: all non-zero states occur."""
        return 2**self.bits - 1

    @cached_property
    def rows(self) -> Rows:
        """The taps of each state bit; bit i of lane l is state bit ``l * width + i``."""
        return draw(self.lanes, self.width, self.taps, DRAWS[self.lanes, self.width, self.taps])

    @cached_property
    def serial_taps(self) -> Rows:
        """Of each lane: the bits of the expanding generator whose XOR is its serial bit."""
        size = SEED_BITS + 1
        # Of the distances of the two bits, multiples of 3 give no bit of a state twice.
        pairs = ((lane % size, (lane + lane // size * 3) % size) for lane in range(self.lanes))
        return tuple((a,) if a == b else (a, b) for a, b in pairs)

    @cached_property
    def reset_state(self) -> tuple[int, ...]:
        """The words of the first beat after reset: the state that seed word 0 gives."""
        words, state = [0] * self.lanes, 1 << SEED_BITS
        rows = expansion()
        for _ in range(WARM_UP + self.width):
            for lane, taps in enumerate(self.serial_taps):
                bit = sum(state >> tap for tap in taps) & 1
                words[lane] = (words[lane] << 1 | bit) & (1 << self.width) - 1
            state = sum((sum(state >> tap for tap in taps) & 1) << r for r, taps in enumerate(rows))
        return tuple(words)
