"""Array of multipliers for groups of codes, each with a scale and a minimum."""

from amaranth.hdl import Cat, Const

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.products.gemv_layouts import groups_layout, totals_layout
from seedbed.hw.products.mac_array import MacArray, Stage, tree_levels
from seedbed.spec import GemvConfig, MacArrayConfig
from seedbed.spec.gemv import FACTOR_BITS, FACTOR_SHIFT, GROUP

__all__ = ["GroupArray", "latency"]

#: Registers of the products with scales and minima, and of two shifts.
STAGES = 3


def latency(config: GemvConfig) -> int:
    """Return :attr:`GroupArray.latency`."""
    mac = config.mac
    trees = sum(tree_levels(numbers, mac.additions) for numbers in (mac.block, 2 * mac.blocks))
    return 2 + trees + STAGES + 1


class GroupArray(MacArray):
    """Dot products of a frame's weights and activations, with a scale and a minimum for each group.

    With codes c and activations x in lanes l, scales s and minima m of groups g::

        o = sum over beats, over groups g of (s_g sum over l in g of c_l x_l + m_g t_g)

    ``t_g`` is the sum of the activations of the group, which is the same for all rows of a matrix
    and comes with them. A scale or a minimum is a signed mantissa, shifted to the left. Sums are
    exact.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.gemv.GroupGemvConfig`.
    mac
        :class:`~seedbed.spec.MacArrayConfig`: that of ``config``, with the frames that may be in
        flight.

    Members
    -------
    i : In(stream of struct)
        As of :class:`~seedbed.hw.products.mac_array.MacArray`, of a block for each group, with
        groups : the scale and the minimum of each
        totals : sums of the activations of each, vector by vector
    o : Out(stream of struct)
        As there.

    Latency: ``latency`` cycles from the last beat of a frame to its sums.
    Throughput: 1 beat per cycle.
    """

    def __init__(self, config: GemvConfig, mac: MacArrayConfig):
        self._gemv = config
        totals = totals_layout(config, config.lanes)
        super().__init__(mac, {"groups": groups_layout(config), "totals": totals})

    @property
    def latency(self) -> int:
        """Cycles from a frame's last beat to its sums."""
        return latency(self._gemv)

    def scaled(self, m, sums: Stage) -> list[Stage]:
        """Return the products of sums and scales, and of totals and minima, group by group."""
        beat, blocks = self.i.payload, self.config.blocks
        totals = [delayed(m, total, sums.cycle, "total") for total in beat.totals]
        groups = delayed(m, beat.groups, sums.cycle, "groups")
        factors = [factor for group in groups for factor in (group.scale, group.minimum)]
        values = []
        for k, pair in enumerate(zip(sums.values, totals, strict=True)):
            group = groups[k % blocks]
            values += [pair[0] * group.scale.mantissa, pair[1] * group.minimum.mantissa]
        peak = max(sums.peak, GROUP << self.config.activation_width - 1) << FACTOR_BITS - 1
        stage = sums.registered(m, values, peak, "factor")
        # Two bits of the shift per stage, as in the array without groups.
        vectors = self.config.vectors
        shifts = [delayed(m, factor.shift, 1, "shift") for factor in factors]
        coarse = zip(stage.values, shifts * vectors, strict=True)
        values = [value << Cat(Const(0, 2), shift[2:]) for value, shift in coarse]
        peak <<= (1 << FACTOR_SHIFT) - 1 & ~3
        stage = stage.registered(m, values, peak, "coarse")
        fine = [delayed(m, shift[:2], 1, "fine") for shift in shifts]
        values = [value << shift for value, shift in zip(stage.values, fine * vectors, strict=True)]
        return stage.registered(m, values, peak << 3, "scaled").parts(2 * blocks)
