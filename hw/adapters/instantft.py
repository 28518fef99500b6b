"""The fine-tuning core: a frozen network, its forward cache, adapters, loss and SGD."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.activation_cache import ActivationCache
from seedbed.hw.adapters.job_control import JobControl, command_layout
from seedbed.hw.adapters.job_counters import JobCounters, counters_layout
from seedbed.hw.adapters.layer_engine import LayerEngine
from seedbed.hw.adapters.sample_trainer import SampleTrainer
from seedbed.hw.engine.parameter_loader import packet_layout, words_layout
from seedbed.hw.engine.sample_intake import label_shape, sample_layout
from seedbed.hw.memory.memory_port import pass_memory, user_members
from seedbed.spec.instantft import COUNTERS, InstantFtConfig

__all__ = ["COUNTERS", "InstantFt", "command_layout", "result_layout", "sample_layout"]


def result_layout(config: InstantFtConfig) -> data.StructLayout:
    """Return the layout of a result, see :class:`InstantFt`."""
    loss = signed(config.values.width)
    fields = {"best": label_shape(config), "loss": loss, "hit": 1, "status": 3, "last": 1}
    return data.StructLayout(fields)


class InstantFt(wiring.Component):
    """Fine-tunes a frozen network by adapters that all end in its logits, with no host in between.

    A job has ``samples`` images an epoch. Each image is classified, and in training its gradients
    are accumulated; after every ``batch`` of them, and at an epoch's end, the adapters are updated.
    The network's activations come from the cache, or go there: at a miss the network runs, its
    outputs are stored as 4-bit codes, and read back, so that training never sees others.

    While a sample is trained, the next one's image is taken and its activations are fetched.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`, with NF4 in the cache.

    Members
    -------
    i : In(stream of struct)
        jobs. ``infer`` looks at samples and epochs only.
        kind : 0 train, 1 infer, 2 clear, 3 read, 4 forget. Index of
            :data:`~seedbed.spec.instantft.INSTANTFT_KINDS`.
        samples : samples per epoch. 1 or more.
        epochs : number of epochs. 1 or more.
        batch : samples per batch. Range 1 to 256.
        rate : learning rate: multiplier M. See :class:`~seedbed.spec.lora.LoraConfig`.
    i_parameters : In(stream of struct)
        packet of network or adapter rows. A packet is all rows of
        :func:`seedbed.golden.engine.frozen_rows` or ``adapter_rows``. It is taken between commands,
        which wait for its end. Adapters are the new ones from there on.
        word : two parameters
        last : last word of the packet
        trainable : 0 network, 1 adapters
    i_samples : In(stream of struct)
        images. Every row of the image begins in a new beat.
        pixels (ways x 8 bits) : next pixels
        label : class label; valid in the first beat
        index : cache entry; valid in the first beat
        last : last beat of the image
    o : Out(stream of struct)
        one beat per sample, then one beat with last. The beat with ``last`` ends every command.
        best : class with the largest logit
        loss : cross-entropy loss of the sample. It is in the values' format.
        hit : 1: activations fetched from the cache
        status : 0 ok, 1 command error, 2 sample error, 3 index error, 4 memory error, 5 parameter
            error; valid with last. Index of :data:`~seedbed.spec.instantft.INSTANTFT_STATUS`.
        last : end of the job
    o_parameters : Out(stream of struct)
        one packet per read job. It has the adapters as ``i_parameters`` takes them.
        word : two parameters
        last : last word of the packet
    o_command : Out(stream of struct)
        memory burst command. The memory ports are those of
        :class:`~seedbed.hw.memory.forward_cache.ForwardCache`.
        address : address of the first beat, in beats
        write : 1: write burst; 0: read burst
        length : beats of the burst, minus 1
    o_write : Out(stream of struct)
        write data
        data : write data of the beat
        last : last beat of the burst
    i_response : In(stream of struct)
        write responses, one per write burst
        error : 1: the burst failed
    i_read : In(stream of struct)
        read data
        data : read data of the beat
        error : 1: the data is invalid
        last : last beat of the burst
    counters : Out(struct)
        counters of the current or last job
        samples : samples of the current or last job
        hits : samples with activations from the cache
        misses : samples with a forward pass of the network
        batches : batches with an adapter update
        saturations : saturated numbers
        cycles : cycles of the job

    Errors: ``status`` by its place in :data:`~seedbed.spec.instantft.INSTANTFT_STATUS`. A job ends
    at the first of them: the batch it was in leaves no trace in the adapters, and samples are taken
    and dropped until the next command. Of a packet that is shorter or longer than its rows, the
    next command reports it, and does nothing else; adapters are the old ones then.

    A reset loses the batch it was in, and what the cache has; network and adapters stay.
    Latency: of a job: see docs/cores/instantft.md. The page has the cycles of each phase.
    Throughput: 1 sample at a time.
    Source: InstantFT, sections 3 and 4.
    """

    def __init__(self, config: InstantFtConfig):
        self.config = config
        cache = config.forward_cache
        super().__init__(
            {
                "i": In(stream.Signature(command_layout(config))),
                "i_parameters": In(stream.Signature(packet_layout(config.engine))),
                "i_samples": In(stream.Signature(sample_layout(config))),
                "o": Out(stream.Signature(result_layout(config))),
                "o_parameters": Out(stream.Signature(words_layout(config.engine))),
                **user_members(cache.address_bits, cache.beat_bits),
                "counters": Out(counters_layout()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = LayerEngine(self.config.engine)
        m.submodules.cache = cache = ActivationCache(self.config)
        m.submodules.control = control = JobControl(self.config)
        m.submodules.trainer = trainer = SampleTrainer(self.config)
        flipped = wiring.flipped
        pass_memory(m, self, cache)
        wiring.connect(m, flipped(self.i), control.i)
        wiring.connect(m, flipped(self.i_samples), control.i_samples)
        wiring.connect(m, control.o_put, engine.i_put)
        wiring.connect(m, control.o_request, cache.i)
        wiring.connect(m, cache.o, control.i_answer)
        wiring.connect(m, control.o_sample, trainer.i)
        wiring.connect(m, engine.o_rows, cache.i_rows)
        wiring.connect(m, cache.o_fill, engine.i_fill)
        wiring.connect(m, engine.o, trainer.i_logits)
        wiring.connect(m, trainer.o_gradient, engine.i_gradient)
        wiring.connect(m, engine.o_parameters, flipped(self.o_parameters))
        m.d.comb += [engine.rate.eq(control.rate), cache.buffer_select.eq(control.buffer_select)]
        self._programs(m, engine, control.o_program, trainer.o_program)
        self._parameters(m, engine, control)
        self._results(m, control.o_status, trainer.o)
        self._count(m, engine, control, trainer)
        return m

    def _programs(self, m, engine, control, trainer):
        """Give the engine the programs of the two that use it, never at once."""
        m.d.comb += [
            engine.i.valid.eq(control.valid | trainer.valid),
            engine.i.payload.eq(Mux(trainer.valid, trainer.payload, control.payload)),
            control.ready.eq(engine.i.ready),
            trainer.ready.eq(engine.i.ready),
        ]

    def _parameters(self, m, engine, control):
        """Take packets of parameters between commands, which wait for the end of a packet."""
        given, packet = self.i_parameters, engine.i_parameters
        whole = Signal(init=1)
        m.d.comb += [
            packet.valid.eq(given.valid & control.idle),
            packet.payload.eq(given.payload),
            given.ready.eq(packet.ready & control.idle),
            control.hold.eq(~whole | given.valid),
            control.length_error.eq(engine.length_error),
        ]
        with m.If(packet.valid & packet.ready):
            m.d.sync += whole.eq(packet.payload.last)

    def _results(self, m, status, sample):
        """Give the samples' results, and the status that ends a command."""
        result = self.o
        m.d.comb += [
            result.valid.eq(sample.valid | status.valid),
            status.ready.eq(result.ready),
            sample.ready.eq(result.ready & ~status.valid),
            result.payload.best.eq(sample.payload.best),
            result.payload.loss.eq(sample.payload.loss),
            result.payload.hit.eq(sample.payload.hit),
        ]
        with m.If(status.valid):
            m.d.comb += [
                result.payload.eq(0),
                result.payload.status.eq(status.payload.status),
                result.payload.last.eq(1),
            ]

    def _count(self, m, engine, control, trainer):
        """Count what happens in a job."""
        m.submodules.counts = counts = JobCounters(self.config)
        m.d.comb += [
            counts.start.eq(self.i.valid & self.i.ready),
            counts.kind.eq(self.i.payload.kind),
            counts.running.eq(~control.idle),
            counts.sample.eq(trainer.o.valid & trainer.o.ready),
            counts.hit.eq(trainer.o.payload.hit),
            counts.batch.eq(trainer.updates),
            counts.saturated.eq(engine.saturated + trainer.saturated),
            self.counters.eq(counts.o),
        ]
