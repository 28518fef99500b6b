"""Perturbations of rank 1, by seed: two small memories that one generator fills."""

from dataclasses import replace

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.hw.generators.lutopt import Lutopt
from seedbed.hw.generators.perturbation_rows import Kind, command_layout
from seedbed.hw.parts.delay_line import delayed
from seedbed.spec.rank_one import OUTPUT_BITS, RankOneConfig

__all__ = ["RankOneNumbers", "inputs_layout", "outputs_layout"]

#: Of the memories: a read of a word in the cycle of its write is undefined, and never needed.
ATTRS = {"no_rw_check": True, "ram_style": "block", "syn_ramstyle": "block_ram"}


def inputs_layout(config: RankOneConfig) -> data.StructLayout:
    """Return the layout of a word of inputs, a bit for each lane.

    ``negative``; ``used``, 0 where the lane has no weight; ``half``, moved by half a step.
    """
    return data.StructLayout(dict.fromkeys(("negative", "used", "half"), config.lanes))


def outputs_layout(config: RankOneConfig) -> data.StructLayout:
    """Return the layout of a word of outputs, a bit for each way: ``negative``, ``perturbed``."""
    return data.StructLayout(dict.fromkeys(("negative", "perturbed"), config.ways))


class RankOneNumbers(wiring.Component):
    """Outputs the numbers of a row's outputs and inputs, ``latency`` cycles after its request.

    A seed fills the memory of inputs and then the memory of outputs, a word a cycle. Rows are
    requested in any order: a table has the addresses of both words.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.rank_one.RankOneConfig`.

    Members
    -------
    i_command : In(stream of :func:`~seedbed.hw.generators.perturbation_rows.command_layout`)
        ``SEED`` fills the memories. The others of its kinds do nothing.
    request, row : In
        A row. It comes only while a command would be taken.
    inputs : Out(:func:`inputs_layout`)
    outputs : Out(:func:`outputs_layout`)

    Latency: ``latency`` cycles. Throughput: a row a cycle; a seed takes ``WARM_UP`` + the
    generator's width + the words of both memories, and 3 cycles.
    """

    latency = 2

    def __init__(self, config: RankOneConfig):
        self.config = config
        super().__init__(
            {
                "i_command": In(stream.Signature(command_layout(config))),
                "request": In(1),
                "row": In(range(max(len(config.rows), 2))),
                "inputs": Out(inputs_layout(config)),
                "outputs": Out(outputs_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        generator_config = replace(config.generator, seeding="word")
        m.submodules.generator = generator = Lutopt(generator_config)
        bits = Cat(*generator.o.payload)
        seed, zeros = Signal(32, reset_less=True), Signal(4, reset_less=True)
        words = config.inputs + config.outputs
        word = Signal(range(words))
        filling = Signal()
        m.d.comb += generator.i_seed.payload.eq(seed)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i_command.ready.eq(1)
                command = self.i_command.payload
                with m.If(self.i_command.valid & (command.kind == Kind.SEED)):
                    m.d.sync += [seed.eq(command.seed), zeros.eq(command.zeros)]
                    m.next = "SEED"
            with m.State("SEED"):
                m.d.comb += [generator.i_seed.valid.eq(1), generator.o.ready.eq(1)]
                m.next = "EXPAND"
            with m.State("EXPAND"), m.If(generator.o.valid):
                m.next = "FILL"
            with m.State("FILL"):
                m.d.comb += [filling.eq(1), generator.o.ready.eq(1)]
                m.d.sync += word.eq(word + 1)
                with m.If(word == words - 1):
                    m.d.sync += word.eq(0)
                    m.next = "IDLE"
        self._memories(m, bits, zeros, word, filling)
        return m

    def _memories(self, m, bits, zeros, word, filling):
        """Write a word of one of the memories, and read those of a row."""
        config = self.config
        fields = {"output": range(config.outputs), "input": range(config.inputs)}
        table = [{"output": output, "input": number} for output, number in config.rows]
        m.submodules.table = table = Memory(
            shape=data.StructLayout(fields), depth=len(table), init=table,
            attrs={"ram_style": "block", "syn_ramstyle": "block_ram"},
        )  # fmt: skip
        m.submodules.inputs = inputs = Memory(
            shape=inputs_layout(config), depth=config.inputs, init=[], attrs=ATTRS
        )
        m.submodules.outputs = outputs = Memory(
            shape=outputs_layout(config), depth=config.outputs, init=[], attrs=ATTRS
        )
        rows = table.read_port()
        m.d.comb += [rows.addr.eq(self.row), rows.en.eq(self.request)]
        requested = delayed(m, self.request, 1, "requested", reset=True)
        read_input = inputs.read_port()
        write_input = inputs.write_port()
        read_output = outputs.read_port()
        write_output = outputs.write_port()
        of_inputs = word < config.inputs
        m.d.comb += [
            read_input.addr.eq(rows.data.input),
            read_input.en.eq(requested),
            self.inputs.eq(read_input.data),
            write_input.addr.eq(word),
            write_input.en.eq(filling & of_inputs),
            read_output.addr.eq(rows.data.output),
            read_output.en.eq(requested),
            self.outputs.eq(read_output.data),
            write_output.addr.eq(word - config.inputs),
            write_output.en.eq(filling & ~of_inputs),
        ]
        self._inputs(m, write_input.data, bits, word)
        self._outputs(m, write_output.data, bits, zeros)

    def _inputs(self, m, to, bits, word):
        """Make a word of inputs of the generator's bits."""
        lanes = self.config.lanes
        m.d.comb += [
            to.negative.eq(bits[:lanes]),
            to.half.eq(bits[lanes : 2 * lanes]),
            to.used.eq((1 << lanes) - 1),
        ]
        with m.Switch(word):
            for number, used in enumerate(self.config.used):
                if used < lanes:
                    with m.Case(number):
                        m.d.comb += to.used.eq((1 << used) - 1)

    def _outputs(self, m, to, bits, zeros):
        """Make a word of outputs of the generator's bits: n of 16 are not perturbed."""
        for way in range(self.config.ways):
            number = bits[OUTPUT_BITS * way : OUTPUT_BITS * (way + 1)]
            m.d.comb += [
                to.negative[way].eq(number[0]),
                to.perturbed[way].eq(number[1:] >= zeros),
            ]
