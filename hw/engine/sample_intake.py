"""Takes samples: pixels to the store, label and index to registers."""

from collections.abc import Mapping
from typing import Protocol

from amaranth.hdl import Cat, Module, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.image_loader import ImageLoader
from seedbed.hw.engine.store_writes import put_layout
from seedbed.spec.engine import EngineConfig

__all__ = ["SampleIntake", "label_shape", "sample_layout"]


class Samples(Protocol):
    """What a configuration says of samples."""

    @property
    def ways(self) -> int:
        """Pixels of a beat."""

    @property
    def engine(self) -> EngineConfig:
        """Of the store that images are put into."""

    @property
    def sample_tags(self) -> Mapping[str, range]:
        """What comes with an image, and its values: ``label`` at least."""


def label_shape(config: Samples) -> Shape:
    """Return the shape of a class."""
    return Shape.cast(config.sample_tags["label"])


def sample_layout(config: Samples) -> data.StructLayout:
    """Return the layout of a beat of an image: ``pixels``, tags such as its ``label``, ``last``."""
    pixels = data.ArrayLayout(8, config.ways)
    return data.StructLayout({"pixels": pixels, **config.sample_tags, "last": 1})


class SampleIntake(wiring.Component):
    """Converts a sample's pixels to the values' format and puts them into the store.

    Parameters
    ----------
    config
        Of the core, see :class:`Samples`.

    Members
    -------
    enable, discard : In(1)
        A sample is taken; or whatever comes is dropped. Nothing is taken without either.
    buffer_select : In(1)
        Of the store, steady during a sample.
    i : In(stream of :func:`sample_layout`)
    o : Out(stream of :func:`~seedbed.hw.engine.store_writes.put_layout`)
    begins : Out(1)
        The first beat of a sample is transferred.
    TAG : Out
        Of each of the sample's tags, from the next cycle on.
    done, length_error : Out(1)
        With the transfer of ``last``: the image was whole, or not.

    No latency. Throughput: a beat a cycle.
    """

    def __init__(self, config: Samples):
        self.config = config
        super().__init__(
            {
                "enable": In(1),
                "discard": In(1),
                "buffer_select": In(1),
                "i": In(stream.Signature(sample_layout(config))),
                "o": Out(stream.Signature(put_layout(config.engine))),
                "begins": Out(1),
                "done": Out(1),
                "length_error": Out(1),
            }
            | {name: Out(values) for name, values in config.sample_tags.items()}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.image = image = ImageLoader(self.config.engine)
        given, fraction = self.i, self.config.engine.values.fraction
        first = Signal(init=1)
        fire = given.valid & image.i.ready & self.enable
        wiring.connect(m, image.o, wiring.flipped(self.o))
        m.d.comb += [
            image.buffer_select.eq(self.buffer_select),
            image.i.valid.eq(given.valid & self.enable),
            image.i.payload.last.eq(given.payload.last),
            given.ready.eq((image.i.ready & self.enable) | self.discard),
            self.begins.eq(fire & first),
            self.done.eq(image.done),
            self.length_error.eq(image.length_error),
        ]
        for to, pixel in zip(image.i.payload.values, given.payload.pixels, strict=True):
            both = Cat(pixel, pixel)
            value = both << (fraction - 16) if fraction >= 16 else both >> (16 - fraction)
            m.d.comb += to.eq(value)
        with m.If(fire):
            m.d.sync += first.eq(given.payload.last)
        for name, values in self.config.sample_tags.items():
            kept = Signal(values, name=name, reset_less=True)
            m.d.comb += getattr(self, name).eq(kept)
            with m.If(self.begins):
                m.d.sync += kept.eq(given.payload[name])
        return m
