"""A frozen convolutional network: images in, logits out, the next image while one is computed."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.image_loader import ImageLoader
from seedbed.hw.engine.inference_pipeline import InferencePipeline
from seedbed.hw.engine.parameter_loader import take_packets, words_layout
from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.engine.pipeline_timing import cycles
from seedbed.hw.engine.vector_loader import vectors_layout
from seedbed.hw.parts.codes import codes
from seedbed.hw.parts.delay_line import delayed
from seedbed.spec import CONV_ENGINE_STATUS, ConvEngineConfig

__all__ = ["ConvEngine", "image_layout", "result_layout"]

#: Cycles from an image's last beat to the start of the pipeline.
START = 1
_STATUS = codes(CONV_ENGINE_STATUS)


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
    image is computed, the next one is taken into the other buffer of the store.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.conv_engine.ConvEngineConfig`.

    Members
    -------
    i_parameters : In(stream of struct)
        packet of parameter rows. The rows that :meth:`seedbed.golden.conv_engine.ConvEngine.words`
        packs, whole. They are taken between images, before the next one begins, and stay over a
        reset.
        word (2 x signed(weights.width)) : two parameters
        last : last word of the packet
    i : In(stream of struct)
        images, row by row, channels interleaved. Every row begins in a new beat. The unused part of
        its last beat is ignored.
        values (ways x signed(values.width)) : next values
        last : last beat of the image
    o : Out(stream of struct)
        results, in the order of the images. A frame per image: by rows, columns and channels, a
        group of channels at a time.
        values (ways x signed(values.width)) : next results
        count : number of valid results
        status : 0 ok, 1 image error, 2 parameter error. Index of
            :data:`~seedbed.spec.CONV_ENGINE_STATUS`.
        saturated : count of saturated outputs of all layers; valid with last. They did not fit
            their format before pooling. 0 in other beats.
        last : last results of the image

    Errors: an image that could not be run gives one beat, of ``count`` 0, whose ``status`` says
    why, by its place in :data:`~seedbed.spec.CONV_ENGINE_STATUS`. ``image``: its ``last`` was
    missing or too early; what is too much is dropped, and the next image begins after it.
    ``parameters``: the last packet of parameters was too short or too long, or was broken off by a
    reset, or none has come. The results of other images are not touched by it.

    Latency: ``latency`` cycles from the last beat of an image to its last results. This holds while
    nothing else runs.
    Throughput: 1 image per ``interval`` cycles. This holds if images come and results go in time.
    Source: InstantFT, section 4.1, where a layer has an engine of its own.
    """

    def __init__(self, config: ConvEngineConfig):
        self.config = config
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
        return START + cycles(config, *config.plan.base)

    @property
    def interval(self) -> int:
        """Cycles from an image to the next one."""
        return max(self.latency, self.config.image_beats + 1)

    def elaborate(self, platform):
        m = Module()
        config = self.config.engine
        m.submodules.pipeline = pipeline = InferencePipeline(config)
        m.submodules.loader = loader = ImageLoader(config)
        wiring.connect(m, loader.o, pipeline.i_put)
        # A reset must not make a packet of parameters valid that is not whole.
        whole = Signal(reset_less=True)
        buffer_select = Signal()
        # An image is there, in this buffer, and waits for the pipeline.
        pending = Signal()
        bad = Signal()
        free = Signal()
        fault = Signal()
        start = Signal()
        word = delayed(m, self.i_parameters.payload.word, ParameterMemory.load_latency, "word")
        idle = take_packets(m, self.i_parameters, pipeline, accepts=~pipeline.busy, whole=whole)
        m.d.comb += [
            *(value.eq(word[k % 2]) for k, value in enumerate(pipeline.row_values)),
            loader.buffer_select.eq(buffer_select),
            loader.i.payload.eq(self.i.payload),
            loader.i.valid.eq(self.i.valid & ~pending),
            self.i.ready.eq(loader.i.ready & ~pending),
            free.eq(pending & ~pipeline.o.valid & ~fault & idle),
            start.eq(free & ~pipeline.busy),
            pipeline.start.eq(start & whole & ~bad),
            pipeline.first.eq(config.plan.base[0]),
            pipeline.stop.eq(config.plan.base[1]),
            pipeline.buffer_select.eq(buffer_select),
        ]
        with m.If(loader.done | loader.length_error):
            m.d.sync += [pending.eq(1), bad.eq(loader.length_error)]
        with m.If(start):
            m.d.sync += pending.eq(0)
            with m.If(whole & ~bad):
                m.d.sync += buffer_select.eq(~buffer_select)
            with m.Else():
                m.d.sync += fault.eq(1)
        self._results(m, pipeline, start, fault, bad)
        return m

    def _results(self, m, pipeline, start, fault, bad):
        """Give out the outputs, or the one beat of an image that could not be run."""
        out = self.o
        status = Signal(2, reset_less=True)
        saturated = Signal(self.config.saturated_width, reset_less=True)
        m.d.comb += [
            pipeline.o.ready.eq(out.ready),
            out.valid.eq(pipeline.o.valid | fault),
            out.payload.values.eq(Mux(fault, 0, pipeline.o.payload.values.as_value())),
            out.payload.count.eq(Mux(fault, 0, pipeline.o.payload.count)),
            out.payload.status.eq(Mux(fault, status, 0)),
            out.payload.last.eq(fault | pipeline.o.payload.last),
            out.payload.saturated.eq(Mux(~fault & pipeline.o.payload.last, saturated, 0)),
        ]
        m.d.sync += saturated.eq(saturated + pipeline.saturated)
        with m.If(start):
            m.d.sync += [
                saturated.eq(0),
                status.eq(Mux(bad, _STATUS["image"], _STATUS["parameters"])),
            ]
        with m.If(fault & out.ready):
            m.d.sync += fault.eq(0)
