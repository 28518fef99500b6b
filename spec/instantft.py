"""Configuration of a network that is fine-tuned by adapters into its last layer."""

from dataclasses import dataclass, field
from math import prod

from seedbed.spec.checks import require_choice, require_int, require_power
from seedbed.spec.engine import EngineConfig
from seedbed.spec.fixed import Q4_12, Q6_12, Q9_9, Fixed, require_format
from seedbed.spec.forward_cache import CODE, ForwardCacheConfig
from seedbed.spec.lora import LoraConfig
from seedbed.spec.network import LENET5, NetworkField
from seedbed.spec.nf4 import Nf4Config
from seedbed.spec.planner import ALIGN, plan
from seedbed.spec.softmax_loss import SoftmaxLossConfig

__all__ = ["CACHES", "COUNTERS", "INSTANTFT_KINDS", "INSTANTFT_STATUS", "InstantFtConfig"]

#: Commands of the core, by code: fine-tune, classify, make every B 0, give the adapters out,
#: or forget what the cache has.
INSTANTFT_KINDS = ("train", "infer", "clear", "read", "forget")
#: How a command ended, by code: well, or what was wrong first: the command, a sample of the wrong
#: length, an index that the cache does not have, the memory, or a packet of parameters before it.
INSTANTFT_STATUS = ("ok", "command", "sample", "index", "memory", "parameters")
#: What is counted, 32 bits each, from a job's command on.
COUNTERS = ("samples", "hits", "misses", "batches", "saturations", "cycles")

#: How activations are kept: as 4-bit NormalFloat, or in their own format.
CACHES = ("nf4", "exact")
#: Bits of the codes of a row of the engine's store.
ROW = ALIGN * CODE


@dataclass(frozen=True, kw_only=True)
class InstantFtConfig:
    """A frozen network, and an adapter from each layer's input to the logits.

    A sample is trained on what the cache gives back, at a miss too: what an epoch does, so, does
    not depend on which samples are in the cache. An image is never cached: it comes with each use.
    A byte v of it is the integer v (1 + 2^8), v / 255 to 2^-16 of it, in a format of 16 bits
    after the point, and is cut or extended for others. What a layer takes or gives is flat in the
    order of rows, columns, channels: so adapters see it, and so the cache has it.

    Parameters
    ----------
    network
        Layers, or a name of :data:`~seedbed.spec.network.NETWORKS`. The last one's outputs are the
        logits, without ReLU and pooling.
    rank
        Of the adapters, 1..32.
    values
        Format of images, activations and logits.
    weights
        Format of the frozen network's parameters.
    adapters
        Format of the adapters' parameters.
    gradients
        Format of gradients.
    accumulators
        Format of the sums of gradients over a batch.
    cache
        One of ``CACHES``.
    block, peak_width
        Of the cache's :class:`Nf4Config`: each layer's output has separate blocks.
    beat_bits
        Bits of a beat of the cache's memory: 32, 64 or 128.
    batch
        Samples between two updates, 1..256. A last batch of fewer is updated from at the same rate,
        so that each sample weighs the same; it is the host that says how many.
    entries
        Images that the cache has room for, 1..65536.
    lanes, ways
        Of the core's array: ``ways`` outputs at a time, of ``lanes`` inputs each. Powers of two,
        8..32 lanes; the rank is a multiple of ``ways``.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: InstantFT, sections 3, 4 and 5.1: Q8.16 activations, Q4.12 parameters and gradients,
    rank 4, batch 20. Ours are Q6.12 by default, which half as many multipliers of 18 x 18 bits take
    as Q8.16, for no accuracy that could be measured (docs/demo_instantft.md).
    """

    network: NetworkField = NetworkField(LENET5)
    rank: int = 4
    values: Fixed = Q6_12
    weights: Fixed = Q4_12
    adapters: Fixed = Q4_12
    gradients: Fixed = Q4_12
    accumulators: Fixed = Q9_9
    cache: str = "nf4"
    block: int = 64
    peak_width: int = 16
    beat_bits: int = 128
    batch: int = 20
    entries: int = 1024
    lanes: int = 32
    ways: int = 4
    nf4: Nf4Config = field(init=False, repr=False)
    softmax_loss: SoftmaxLossConfig = field(init=False, repr=False)
    lora: LoraConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("values", "weights", "adapters", "gradients", "accumulators"):
            require_format(name, getattr(self, name))
        require_choice("cache", self.cache, CACHES)
        require_int("batch", self.batch, 1, 256)
        last = self.network.layers[-1]
        if last.relu or last.pool > 1:
            raise ValueError(f"{last.name} gives the logits: it must have neither ReLU nor pooling")
        # The table of exponentials has as many steps to a difference of 1.
        least = SoftmaxLossConfig.exp_fraction
        require_int("the values' fraction", self.values.fraction, least, self.values.width - 1)
        widest = self.values.width + self.weights.width - 2
        most = max(layer.fan_in for layer in self.network.layers) + 1
        require_int(
            "the bits of a layer's sum of weights by values", widest + most.bit_length(), 2, 53
        )
        classes = prod(last.shape)
        require_int("lanes", self.lanes, 8, 32)
        require_int("ways", self.ways, 1, 16)
        require_int("entries", self.entries, 1, 65536)
        require_int("block", self.block, 1, 4096)
        require_power("beat_bits", self.beat_bits, 32, ROW)
        nf4 = Nf4Config(
            block=self.block,
            values=self.values,
            peak_width=self.peak_width,
            lanes=min(self.lanes, self.block & -self.block),
            dequantise_lanes=min(16, self.lanes, self.block & -self.block, self.beat_bits // CODE),
        )
        softmax_loss = SoftmaxLossConfig(
            classes=classes, logits=self.values, gradients=self.gradients
        )
        lora = LoraConfig(
            widths=tuple(prod(layer.inputs) for layer in self.network.layers),
            classes=classes,
            rank=self.rank,
            values=self.values,
            parameters=self.adapters,
            gradients=self.gradients,
            accumulators=self.accumulators,
        )
        for name, config in {"nf4": nf4, "softmax_loss": softmax_loss, "lora": lora}.items():
            object.__setattr__(self, name, config)

    @property
    def sample_tags(self) -> dict[str, range]:
        """What comes with an image."""
        return {"label": range(self.lora.classes), "index": range(65536)}

    @property
    def cached(self) -> tuple[int, ...]:
        """Lengths of what the cache keeps of a sample: all layers' outputs, the logits last."""
        return (*self.lora.widths[1:], self.lora.classes)

    @property
    def entry_bits(self) -> int:
        """Bits that the cache has for a sample, with the peaks."""
        if self.cache == "exact":
            return sum(self.cached) * self.values.width
        return sum(self.nf4.bits(length) for length in self.cached)

    def pixel(self, byte: int) -> int:
        """Return a byte of an image in the format of values."""
        both, fraction = byte << 8 | byte, self.values.fraction
        return both << (fraction - 16) if fraction >= 16 else both >> (16 - fraction)

    @property
    def engine(self) -> EngineConfig:
        """Return how the core lays its layers out.

        Raises ``ValueError`` for lanes or ways that it has no plan for.
        """
        made = plan(lanes=self.lanes, ways=self.ways, layers=self.network.layers, lora=self.lora)
        return EngineConfig(plan=made, values=self.values, weights=self.weights, adapters=self.lora)

    @property
    def forward_cache(self) -> ForwardCacheConfig:
        """Return the core's cache.

        Raises ``ValueError`` for blocks that are no whole rows.
        """
        if self.block % ALIGN:
            raise ValueError(
                f"block must be a multiple of the {ALIGN} numbers of a row, not {self.block}"
            )
        return ForwardCacheConfig(
            # The engine reads and writes whole rows.
            lengths=tuple(-(-length // ALIGN) * ALIGN for length in self.cached),
            entries=self.entries,
            block=self.block,
            peak_width=self.peak_width,
            beat_bits=self.beat_bits,
            store_lanes=min(self.lanes, self.beat_bits // CODE),
            fetch_lanes=self.nf4.dequantise_lanes,
        )
