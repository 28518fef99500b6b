"""A frozen convolutional network: images in, logits out, the next image while one is computed."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.image_loader import ImageLoader
from seedbed.hw.layer_engine import LayerEngine, Program
from seedbed.hw.mac_array import latency
from seedbed.hw.parameter_loader import words_layout
from seedbed.hw.vector_loader import vectors_layout
from seedbed.spec import CONV_ENGINE_STATUS, ConvEngineConfig

__all__ = ["ConvEngine", "image_layout", "result_layout"]

#: Cycles of a step beside its beats and the array's: until its outputs are in the store; and cycles
#: from an image's last beat to the first step's first, and from the last outputs written to port o.
BETWEEN, AROUND = 10, 5
_IMAGE, _PARAMETERS = map(CONV_ENGINE_STATUS.index, ("image", "parameters"))


def image_layout(config: ConvEngineConfig) -> data.StructLayout:
    """Return the layout of a beat of an image, see :class:`ConvEngine`."""
    return vectors_layout(config.engine)


def result_layout(config: ConvEngineConfig) -> data.StructLayout:
    """Return the layout of a result, see :class:`ConvEngine`."""
    values = data.ArrayLayout(signed(config.values.width), config.ways)
    fields = {"values": values, "count": range(config.ways + 1), "status": 2}
    return data.StructLayout(fields | {"saturated": config.saturated_width, "last": 1})


class ConvEngine(wiring.Component):
    """Runs a table of layers in integers, by the maths of :class:`~seedbed.spec.ConvEngineConfig`.

    All layers run one after the other on the same ``ways`` times ``lanes`` multipliers. While an
    image is computed, the next one is taken into the other half of the store.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.conv_engine.ConvEngineConfig`.

    Members
    -------
    i_parameters : In(stream of struct)
        ``word`` (2 x signed(weights.width)) and ``last``: the rows that
        :meth:`seedbed.golden.conv_engine.ConvEngine.words` packs, whole. They are taken between
        images, before the next one begins, and stay over a reset.
    i : In(stream of struct)
        ``values`` (ways x signed(values.width)), ``last`` with an image's last beat: row by row,
        column by column, channel by channel. Every row begins with a beat of its own; what is left
        over of its last beat counts for nothing.
    o : Out(stream of struct)
        A frame an image: ``values`` (ways x signed(values.width)), ``count`` of them, the outputs
        in the order of rows, columns, channels, groups of channels at a time; ``status``; with
        ``last``, ``saturated``: how many outputs of all layers were beyond their format, before
        pooling, else 0.

    Errors: an image that could not be run gives one beat, of ``count`` 0, whose ``status`` says
    why, by its place in :data:`~seedbed.spec.CONV_ENGINE_STATUS`. ``image``: its ``last`` was
    missing or too early; what is too much is dropped, and the next image begins behind it.
    ``parameters``: the last packet of parameters was too short or too long, or was broken off by a
    reset, or none has come. The results of other images are not touched by it.

    Latency: ``latency`` cycles from an image's last beat to its last outputs, if nothing runs.
    Throughput: an image every ``interval`` cycles, where it comes and its outputs go in time.
    Source: InstantFT, section 4.1, where a layer has an engine of its own.
    """

    def __init__(self, config: ConvEngineConfig):
        self.config = config
        self._engine = LayerEngine(config.engine)
        self._loader = ImageLoader(config.engine)
        super().__init__(
            {
                "i_parameters": In(stream.Signature(words_layout(config.engine))),
                "i": In(stream.Signature(image_layout(config))),
                "o": Out(stream.Signature(result_layout(config))),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from an image's last beat to its last outputs."""
        config = self.config.engine
        between = BETWEEN + latency(config.mac)
        return AROUND + sum(step.cycles(self.config.ways) + between for step in config.plan.steps)

    @property
    def interval(self) -> int:
        """Cycles from an image to the next one."""
        return max(self.latency, self.config.image_beats + 1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self._engine
        m.submodules.loader = loader = self._loader
        words, out = self.i_parameters, self.o
        # What a reset must not make good again: a packet of parameters that is not whole.
        whole = Signal(reset_less=True)
        within = Signal()
        # An image is there, in this buffer_select, and waits for the engine.
        waits = Signal()
        buffer_select = Signal()
        bad = Signal()
        free = Signal()
        fault = Signal()
        status = Signal(2, reset_less=True)
        saturated = Signal(self.config.saturated_width, reset_less=True)
        wiring.connect(m, loader.o, engine.i_put)
        m.d.comb += [
            loader.buffer_select.eq(buffer_select),
            loader.i.payload.eq(self.i.payload),
            loader.i.valid.eq(self.i.valid & ~waits),
            self.i.ready.eq(loader.i.ready & ~waits),
            engine.i_parameters.valid.eq(words.valid),
            engine.i_parameters.payload.word.eq(words.payload.word),
            engine.i_parameters.payload.last.eq(words.payload.last),
            words.ready.eq(engine.i_parameters.ready),
            # All outputs have left, and no parameters come.
            free.eq(waits & ~engine.o.valid & ~fault & ~within & ~words.valid),
            engine.i.payload.program.eq(Program.BASE),
            engine.i.payload.buffer_select.eq(buffer_select),
            engine.i.valid.eq(free & whole & ~bad),
            engine.o.ready.eq(out.ready),
            out.valid.eq(engine.o.valid | fault),
            out.payload.values.eq(Mux(fault, 0, engine.o.payload.values.as_value())),
            out.payload.count.eq(Mux(fault, 0, engine.o.payload.count)),
            out.payload.status.eq(Mux(fault, status, 0)),
            out.payload.last.eq(fault | engine.o.payload.last),
            out.payload.saturated.eq(Mux(~fault & engine.o.payload.last, saturated, 0)),
        ]
        m.d.sync += saturated.eq(saturated + engine.saturated)
        with m.If(words.valid & words.ready):
            m.d.sync += [
                within.eq(~words.payload.last),
                whole.eq(words.payload.last & ~engine.length_error),
            ]
        with m.If(loader.done | loader.length_error):
            m.d.sync += [waits.eq(1), bad.eq(loader.length_error)]
        with m.If(free & engine.i.ready):
            m.d.sync += [waits.eq(0), saturated.eq(0)]
            with m.If(whole & ~bad):
                m.d.sync += buffer_select.eq(~buffer_select)
            with m.Else():
                m.d.sync += [fault.eq(1), status.eq(Mux(bad, _IMAGE, _PARAMETERS))]
        with m.If(fault & out.ready):
            m.d.sync += fault.eq(0)
        return m
