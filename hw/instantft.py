"""The fine-tuning core: a frozen network, its forward cache, adapters, loss and SGD."""

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.activation_cache import MEMORY, ActivationCache
from seedbed.hw.activation_store import ActivationStore
from seedbed.hw.image_loader import ImageLoader
from seedbed.hw.layer_engine import LayerEngine, Program
from seedbed.hw.loss_path import LossPath
from seedbed.spec.forward_cache import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS, InstantFtConfig

__all__ = ["COUNTERS", "InstantFt", "command_layout", "result_layout", "sample_layout"]

_TRAIN, _INFER, _CLEAR, _READ, _FORGET = range(len(INSTANTFT_KINDS))
_OK, _COMMAND, _SAMPLE, _INDEX, _MEMORY, _PARAMETERS = range(len(INSTANTFT_STATUS))
_FETCH, _STORE, _EMPTY = range(len(FORWARD_CACHE_KINDS))
_DONE, _MISS, _RANGE = range(len(FORWARD_CACHE_STATUS) - 2)
#: What is counted, 32 bits each, from a job's command on.
COUNTERS = ("samples", "hits", "misses", "batches", "saturations", "cycles")


def command_layout(config: InstantFtConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`InstantFt`."""
    fields = {"kind": 3, "samples": 16, "epochs": 16, "batch": 9}
    return data.StructLayout(fields | {"rate": config.lora.rate_width})


def sample_layout(config: InstantFtConfig) -> data.StructLayout:
    """Return the layout of a beat of an image, see :class:`InstantFt`."""
    label = Shape.cast(range(config.softmax_loss.classes))
    pixels = data.ArrayLayout(8, config.ways)
    return data.StructLayout({"pixels": pixels, "label": label, "index": 16, "last": 1})


def result_layout(config: InstantFtConfig) -> data.StructLayout:
    """Return the layout of a result, see :class:`InstantFt`."""
    best = Shape.cast(range(config.softmax_loss.classes))
    loss = signed(config.values.width)
    return data.StructLayout({"best": best, "loss": loss, "hit": 1, "status": 3, "last": 1})


class InstantFt(wiring.Component):
    """Fine-tunes a frozen network by adapters that all end in its logits, with no host in between.

    A job has ``samples`` images an epoch. Each image is classified, and in training its gradients
    are accumulated; behind every ``batch`` of them, and at an epoch's end, the adapters move. What
    the network makes of an image comes from the cache, or goes there: at a miss the network runs,
    its outputs are stored as 4-bit codes, and read back, so that training never sees others.

    While a sample is trained, the next one's image is taken and its activations are fetched.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`, with NF4 in the cache.

    Members
    -------
    i : In(stream of struct)
        ``kind`` (by its place in :data:`~seedbed.spec.instantft.INSTANTFT_KINDS`), and for a job
        ``samples`` (of an epoch, from 1), ``epochs`` (from 1), ``batch`` (1..256) and ``rate`` (M
        of :class:`~seedbed.spec.lora.LoraConfig`). ``infer`` looks at samples and epochs only.
    i_parameters : In(stream of struct)
        ``word`` (two parameters), ``trainable`` (0: the network's rows, 1: the adapters'),
        ``last``: a packet is all rows of :func:`seedbed.golden.engine.frozen_rows` or
        ``adapter_rows``. Taken between commands, which wait for its end. Adapters are the new ones
        from there on.
    i_samples : In(stream of struct)
        ``pixels`` (ways x 8 bits; every row of the image begins with a beat of its own), ``last``;
        ``label`` and ``index`` (of the image, in the cache), which count with the first beat.
    o : Out(stream of struct)
        A beat a sample, ``best`` (the class), ``loss`` (in the values' format) and ``hit``; then
        one with ``last`` and ``status``, which ends every command.
    o_parameters : Out(stream of struct)
        ``word``, ``last``: of ``read``, the adapters as ``i_parameters`` takes them.
    o_command, o_write, i_response, i_read
        To the memory, as :class:`~seedbed.hw.forward_cache.ForwardCache` has them.
    counters : Out(struct)
        ``COUNTERS``, of the present or last job.

    Errors: ``status`` by its place in :data:`~seedbed.spec.instantft.INSTANTFT_STATUS`. A job ends
    at the first of them: the batch it was in leaves no trace in the adapters, and samples are taken
    and dropped until the next command. Of a packet that is shorter or longer than its rows, the
    next command tells, and does nothing else; adapters are the old ones then.

    A reset loses the batch it was in, and what the cache has; network and adapters stay.
    Latency and throughput: see docs/cores/instantft.md for cycles of each phase.
    Source: InstantFT, sections 3 and 4.
    """

    def __init__(self, config: InstantFtConfig):
        self.config = config
        self._engine = LayerEngine(config.engine)
        width = ActivationStore.width(config.engine)
        self._cache = ActivationCache(config, width)
        self._image = ImageLoader(config.engine)
        self._loss = LossPath(config)
        engine, cache = self._engine.signature.members, self._cache.signature.members
        super().__init__(
            {
                "i": In(stream.Signature(command_layout(config))),
                "i_parameters": engine["i_parameters"],
                "i_samples": In(stream.Signature(sample_layout(config))),
                "o": Out(stream.Signature(result_layout(config))),
                "o_parameters": engine["o_parameters"],
                **{name: cache[name] for name in MEMORY},
                "counters": Out(data.StructLayout(dict.fromkeys(COUNTERS, 32))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self._engine
        m.submodules.cache = cache = self._cache
        m.submodules.image = self._image
        m.submodules.loss = loss = self._loss
        flipped = wiring.flipped
        for name in MEMORY:
            ends = getattr(cache, name), flipped(getattr(self, name))
            wiring.connect(m, *(ends if name[0] == "o" else ends[::-1]))
        wiring.connect(m, engine.o_rows, cache.i_rows)
        wiring.connect(m, cache.o_fill, engine.i_fill)
        wiring.connect(m, self._image.o, engine.i_put)
        wiring.connect(m, engine.o, loss.i)
        wiring.connect(m, loss.o_gradient, engine.i_gradient)
        wiring.connect(m, engine.o_parameters, flipped(self.o_parameters))
        # The command that runs, and the first thing that went wrong in it.
        self._kind = Signal(3)
        self._status = Signal(3)
        self._job = Signal(command_layout(self.config), reset_less=True)
        # Programs that the engine is asked for by the two that use it, never at once.
        self._asks = {name: Signal(name=f"asks_{name}") for name in ("front", "back")}
        self._program = {name: Signal(3, name=f"program_{name}") for name in ("front", "back")}
        self._buffer_select = {name: Signal(name=f"half_{name}") for name in ("front", "back")}
        back = self._asks["back"]
        # A sample that is handed over.
        fields = {"label": len(loss.label), "hit": 1, "anew": 1, "ends": 1}
        self._sample = Signal(data.StructLayout(fields), reset_less=True)
        self._hands = Signal()
        self._free = Signal(init=1)
        self._front_buffer_select = Signal()
        # What the command is at: its samples, or the beat that ends it.
        self._runs = Signal()
        self._ends = Signal()
        m.d.comb += [
            engine.i.valid.eq(Cat(*self._asks.values()).any()),
            engine.i.payload.program.eq(Mux(back, self._program["back"], self._program["front"])),
            engine.i.payload.buffer_select.eq(
                Mux(back, self._buffer_select["back"], self._buffer_select["front"])
            ),
            engine.rate.eq(self._job.rate),
        ]
        self._front(m)
        self._back(m)
        self._count(m)
        return m

    def _ask(self, m, who: str, program, buffer_select) -> Signal:
        """Ask the engine for a program in this state; return whether it has taken it."""
        m.d.comb += [
            self._asks[who].eq(1),
            self._program[who].eq(program),
            self._buffer_select[who].eq(buffer_select),
        ]
        return self._engine.i.ready

    def _front(self, m):
        """Take commands and samples, look them up, and hand them over."""
        engine, cache, image = self._engine, self._cache, self._image
        given, job, sample = self.i_samples, self._job, self._sample
        buffer_select = self._front_buffer_select
        index = Signal(16, reset_less=True)
        label = Signal.like(sample.label, reset_less=True)
        hit = Signal()
        # A fetch: wanted, asked for, and what came of it.
        wanted = Signal()
        asked = Signal()
        answered = Signal()
        answer = Signal.like(cache.o.payload.status)
        first = Signal(init=1)
        left = Signal(16)
        epochs = Signal(16)
        batch = Signal(9)
        unfit = Signal()
        takes = Signal()
        drops = Signal()
        m.d.comb += [
            image.buffer_select.eq(buffer_select),
            cache.buffer_select.eq(buffer_select),
            cache.i.payload.index.eq(index),
            image.i.valid.eq(given.valid & takes),
            given.ready.eq((image.i.ready & takes) | drops),
            image.i.payload.last.eq(given.payload.last),
        ]
        fraction = self.config.values.fraction
        for to, pixel in zip(image.i.payload.values, given.payload.pixels, strict=True):
            both = Cat(pixel, pixel)
            fit = both << (fraction - 16) if fraction >= 16 else both >> (16 - fraction)
            m.d.comb += to.eq(fit)
        with m.If(engine.length_error):
            m.d.sync += unfit.eq(1)
        loads = engine.i_parameters
        idle = Signal()
        # No packet of parameters is under way: commands wait for that.
        whole = Signal(init=1)
        m.d.comb += [
            loads.valid.eq(self.i_parameters.valid & idle),
            loads.payload.eq(self.i_parameters.payload),
            self.i_parameters.ready.eq(loads.ready & idle),
        ]
        with m.If(loads.valid & loads.ready):
            m.d.sync += whole.eq(loads.payload.last)

        def fails(status):
            m.d.sync += [self._status.eq(status), drops.eq(1)]
            m.next = "drain"

        def fetches():
            m.d.sync += [wanted.eq(1), asked.eq(0), answered.eq(0)]

        # The image comes while the rest is fetched.
        with m.If(given.valid & image.i.ready & takes):
            m.d.sync += first.eq(given.payload.last)
            with m.If(first):
                m.d.sync += [index.eq(given.payload.index), label.eq(given.payload.label)]
                m.d.sync += hit.eq(self._kind == _TRAIN)
                with m.If(self._kind == _TRAIN):
                    fetches()
        with m.If(wanted):
            m.d.comb += [
                cache.i.valid.eq(~asked),
                cache.i.payload.kind.eq(_FETCH),
                cache.o.ready.eq(1),
            ]
            with m.If(cache.i.ready):
                m.d.sync += asked.eq(1)
            with m.If(cache.o.valid):
                m.d.sync += [wanted.eq(0), answered.eq(1), answer.eq(cache.o.payload.status)]
        with m.FSM() as machine:
            m.d.comb += [
                idle.eq(machine.ongoing("command")),
                self._runs.eq(~idle),
                self._ends.eq(machine.ongoing("end")),
            ]
            with m.State("command"):
                m.d.comb += self.i.ready.eq(whole & ~self.i_parameters.valid)
                with m.If(self.i.valid & self.i.ready):
                    m.d.sync += [
                        job.eq(self.i.payload),
                        self._kind.eq(self.i.payload.kind),
                        self._status.eq(_OK),
                        left.eq(self.i.payload.samples),
                        epochs.eq(self.i.payload.epochs),
                        batch.eq(0),
                        drops.eq(0),
                        unfit.eq(0),
                    ]
                    m.next = "begin"
                    with m.If(unfit):
                        fails(_PARAMETERS)
            with m.State("begin"):
                wants = (job.samples == 0) | (job.epochs == 0)
                sizes = (job.batch == 0) | (job.batch > 256)
                with m.Switch(self._kind):
                    with m.Case(_TRAIN, _INFER):
                        m.next = "image"
                        with m.If(wants | ((self._kind == _TRAIN) & sizes)):
                            fails(_COMMAND)
                    with m.Case(_CLEAR), m.If(self._ask(m, "front", Program.CLEAR, buffer_select)):
                        m.next = "engine"
                    with m.Case(_READ), m.If(self._ask(m, "front", Program.READ, buffer_select)):
                        m.next = "engine"
                    with m.Case(_FORGET):
                        m.d.comb += [cache.i.valid.eq(1), cache.i.payload.kind.eq(_EMPTY)]
                        with m.If(cache.i.ready):
                            m.next = "forget"
                    with m.Default():
                        fails(_COMMAND)
            with m.State("forget"):
                m.d.comb += cache.o.ready.eq(1)
                with m.If(cache.o.valid):
                    m.next = "drain"
            with m.State("engine"), m.If(engine.i.ready):
                m.next = "drain"
            with m.State("image"):
                m.d.comb += takes.eq(1)
                with m.If(image.length_error):
                    m.next = "spoilt"
                with m.If(image.done):
                    m.next = "fetch"
                    with m.If(self._kind == _INFER):
                        m.next = "base"
            with m.State("spoilt"), m.If(~wanted):
                fails(_SAMPLE)
            with m.State("fetch"), m.If(answered), m.Switch(answer):
                with m.Case(_DONE):
                    m.next = "hand"
                with m.Case(_MISS):
                    m.d.sync += hit.eq(0)
                    m.next = "base"
                with m.Case(_RANGE):
                    fails(_INDEX)
                with m.Default():
                    fails(_MEMORY)
            with m.State("base"), m.If(self._free):
                taken = self._ask(m, "front", Program.BASE, buffer_select)
                with m.If(taken):
                    m.next = "runs"
            with m.State("runs"), m.If(engine.i.ready):
                m.d.sync += asked.eq(0)
                m.next = "hand"
                with m.If(self._kind == _TRAIN):
                    m.next = "scan"
            with m.State("scan"):
                m.d.comb += [cache.i.valid.eq(~asked), cache.i.payload.kind.eq(_STORE)]
                with m.If(asked | cache.i.ready):
                    m.d.sync += asked.eq(1)
                    with m.If(self._ask(m, "front", Program.SCAN, buffer_select)):
                        m.next = "store"
            with m.State("store"):
                m.d.comb += cache.o.ready.eq(1)
                with m.If(cache.o.valid), m.Switch(cache.o.payload.status):
                    with m.Case(_DONE):
                        fetches()
                        m.next = "fetch"
                    with m.Case(_RANGE):
                        fails(_INDEX)
                    with m.Default():
                        fails(_MEMORY)
            with m.State("hand"), m.If(self._free):
                m.d.comb += self._hands.eq(1)
                ends = (batch == job.batch - 1) | (left == 1)
                m.d.sync += [
                    sample.label.eq(label),
                    sample.hit.eq(hit),
                    sample.anew.eq(batch == 0),
                    sample.ends.eq(ends),
                    buffer_select.eq(~buffer_select),
                    left.eq(left - 1),
                    batch.eq(Mux(ends, 0, batch + 1)),
                ]
                m.next = "image"
                with m.If(left == 1):
                    m.d.sync += [left.eq(job.samples), epochs.eq(epochs - 1)]
                    with m.If(epochs == 1):
                        m.next = "drain"
            with m.State("drain"), m.If(self._free & ~self._hands):
                m.next = "end"
            with m.State("end"), m.If(self.o.ready):
                m.next = "command"

    def _back(self, m):
        """Train with a sample, or classify it, and tell what came of it."""
        engine, loss, sample = self._engine, self._loss, self._sample
        buffer_select = Signal()
        trains = Signal()
        told = Signal()
        m.d.comb += [
            trains.eq(self._kind == _TRAIN),
            loss.label.eq(sample.label),
            loss.learns.eq(trains),
            engine.i.payload.anew.eq(sample.anew),
            self.o.payload.best.eq(loss.o.payload.best),
            self.o.payload.loss.eq(loss.o.payload.loss),
            self.o.payload.hit.eq(sample.hit),
            self.o.valid.eq(loss.o.valid | self._ends),
            loss.o.ready.eq(self.o.ready & ~self._ends),
        ]
        with m.If(self._ends):
            m.d.comb += [
                self.o.payload.eq(0),
                self.o.payload.status.eq(self._status),
                self.o.payload.last.eq(1),
            ]
        with m.If(loss.o.valid & loss.o.ready):
            m.d.sync += told.eq(1)
        with m.If(self._hands):
            m.d.sync += [self._free.eq(0), buffer_select.eq(self._front_buffer_select), told.eq(0)]

        def asks(program, then):
            with m.If(self._ask(m, "back", program, buffer_select)):
                m.next = then

        with m.FSM():
            with m.State("idle"), m.If(self._hands):
                m.next = "forward"
            with m.State("forward"):
                asks(Program.FORWARD, "loss")
            with m.State("loss"), m.If(loss.o.valid | told):
                m.next = "told"
                with m.If(trains):
                    m.next = "backward"
            with m.State("backward"):
                asks(Program.BACKWARD, "learn")
            with m.State("learn"), m.If(self._ask(m, "back", Program.LEARN, buffer_select)):
                m.next = "told"
                with m.If(sample.ends):
                    m.next = "update"
            with m.State("update"):
                asks(Program.UPDATE, "moves")
            with m.State("moves"), m.If(engine.i.ready):
                m.next = "told"
            # The half of the store is read until then.
            with m.State("told"), m.If(told & engine.i.ready):
                m.d.sync += self._free.eq(1)
                m.next = "idle"

    def _count(self, m):
        """Count what happens in a job."""
        counters, sample = self.counters, self._sample
        begins = Signal()
        m.d.comb += begins.eq(self.i.valid & self.i.ready & (self.i.payload.kind <= _INFER))
        gone = self._loss.o.valid & self._loss.o.ready
        steps = {
            "samples": gone,
            "hits": gone & sample.hit,
            "misses": gone & ~sample.hit,
            "batches": self._asks["back"]
            & (self._program["back"] == Program.UPDATE)
            & self._engine.i.ready,
            "saturations": self._engine.saturated + self._loss.saturated,
            "cycles": self._runs,
        }
        for name, step in steps.items():
            counter = getattr(counters, name)
            m.d.sync += counter.eq(counter + step)
            with m.If(begins):
                m.d.sync += counter.eq(0)
