"""Takes samples: pixels to the store, label and index to registers."""

from amaranth.hdl import Cat, Module, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.image_loader import ImageLoader
from seedbed.hw.store_writes import put_layout
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["SampleIntake", "label_shape", "sample_layout"]


def label_shape(config: InstantFtConfig) -> Shape:
    """Return the shape of a class."""
    return Shape.cast(range(config.softmax_loss.classes))


def sample_layout(config: InstantFtConfig) -> data.StructLayout:
    """Return the layout of a beat of an image, see :class:`~seedbed.hw.instantft.InstantFt`."""
    pixels = data.ArrayLayout(8, config.ways)
    fields = {"pixels": pixels, "label": label_shape(config), "index": 16, "last": 1}
    return data.StructLayout(fields)


class SampleIntake(wiring.Component):
    """Converts a sample's pixels to the values' format and puts them into the store.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.

    Members
    -------
    enable, discard : In(1)
        A sample is taken; or whatever comes is dropped. Nothing is taken without either.
    buffer_select : In(1)
        Of the store, steady during a sample.
    i : In(stream of :func:`sample_layout`)
    o : Out(stream of :func:`~seedbed.hw.store_writes.put_layout`)
    begins : Out(1)
        The first beat of a sample is transferred.
    index, label : Out
        Those of the sample, from the next cycle on.
    done, length_error : Out(1)
        With the transfer of ``last``: the image was whole, or not.

    No latency. Throughput: a beat a cycle.
    """

    def __init__(self, config: InstantFtConfig):
        self.config = config
        super().__init__(
            {
                "enable": In(1),
                "discard": In(1),
                "buffer_select": In(1),
                "i": In(stream.Signature(sample_layout(config))),
                "o": Out(stream.Signature(put_layout(config.engine))),
                "begins": Out(1),
                "index": Out(16),
                "label": Out(label_shape(config)),
                "done": Out(1),
                "length_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.image = image = ImageLoader(self.config.engine)
        given, fraction = self.i, self.config.values.fraction
        first = Signal(init=1)
        index = Signal.like(self.index, reset_less=True)
        label = Signal.like(self.label, reset_less=True)
        fire = given.valid & image.i.ready & self.enable
        wiring.connect(m, image.o, wiring.flipped(self.o))
        m.d.comb += [
            image.buffer_select.eq(self.buffer_select),
            image.i.valid.eq(given.valid & self.enable),
            image.i.payload.last.eq(given.payload.last),
            given.ready.eq((image.i.ready & self.enable) | self.discard),
            self.begins.eq(fire & first),
            self.index.eq(index),
            self.label.eq(label),
            self.done.eq(image.done),
            self.length_error.eq(image.length_error),
        ]
        for to, pixel in zip(image.i.payload.values, given.payload.pixels, strict=True):
            both = Cat(pixel, pixel)
            value = both << (fraction - 16) if fraction >= 16 else both >> (16 - fraction)
            m.d.comb += to.eq(value)
        with m.If(fire):
            m.d.sync += first.eq(given.payload.last)
        with m.If(self.begins):
            m.d.sync += [index.eq(given.payload.index), label.eq(given.payload.label)]
        return m
