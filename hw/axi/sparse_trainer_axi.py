"""The trainer of kept weights with AXI4, AXI4-Stream and AXI4-Lite ports."""

from amaranth.hdl import Cat, ClockDomain, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.axi.axi import axi_stream, octets
from seedbed.hw.axi.axi_memory import axi_memory, connect_reads
from seedbed.hw.axi.registers import RegisterBlock, register_members
from seedbed.hw.axi.trainer_axi import connect_registers, connect_results, extended
from seedbed.hw.kept.sparse_trainer import SparseTrainer
from seedbed.hw.parts.codes import codes
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.axi_registers import AXI_REGISTERS
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_KINDS, SPARSE_TRAINER_STATUS

__all__ = ["ENTRY_FIELDS", "LAYER_FIELDS", "SparseTrainerAxi"]

#: Bits of the fields of a row of the table of layers, the first one lowest.
LAYER_FIELDS = {
    "columns": 16, "rows": 16, "address": 32, "entries": 16, "shift": 8, "bias_shift": 8,
    "sparse_shift": 8, "update_shift": 8, "scale": 8, "plain": 1, "relu": 1,
}  # fmt: skip
LAYER_BITS = 128
#: Bits of the fields of an entry, the first one lowest; a value is sign-extended.
ENTRY_FIELDS = {"row": 16, "column": 16, "value": 32}
#: Bits of a beat of results, of the log, and of entries.
RESULT_BITS = LOG_BITS = ENTRY_BITS = 64
_KINDS, _STATUS = codes(SPARSE_TRAINER_KINDS), codes(SPARSE_TRAINER_STATUS)


class SparseTrainerAxi(wiring.Component):
    """:class:`~seedbed.hw.kept.sparse_trainer.SparseTrainer` with AXI's names, clock and reset.

    The registers are ``sparse_trainer`` of :data:`~seedbed.spec.axi_registers.AXI_REGISTERS`.
    An unknown address, and a value that a register does not hold, are answered with SLVERR and
    change nothing. So are writes to registers with access ``write`` while busy.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    aclk : In(1)
        clock, rising edge
    aresetn : In(1)
        reset, synchronous, active low
    s_axi_control_* : 32 bits of data, 6 of address
        AXI4-Lite, control registers
    s_axis_layers_* : In(128 bits)
        AXI4-Stream, table of layers, one row per beat. See :data:`LAYER_FIELDS`. A table with a
        number that the core does not hold is refused.
    s_axis_entries_* : In(64 bits)
        AXI4-Stream, entries to load. See :data:`ENTRY_FIELDS`. tlast is ignored. An entry with a
        number that the core does not hold is out of range.
    m_axis_entries_* : Out(64 bits)
        AXI4-Stream, entries that are read, one packet per layer. See :data:`ENTRY_FIELDS`.
    s_axis_samples_* : In
        AXI4-Stream, samples, labels in tuser. One sample a packet: ``group`` elements a beat, each
        in whole bytes.
    m_axis_results_* : Out(64 bits)
        AXI4-Stream, one packet per command, one beat per sample. From the lowest byte on the loss
        in 4 bytes, then the class, the error, and the status. The last beat is no sample's, and has
        the status.
    m_axis_log_* : Out(64 bits)
        AXI4-Stream, one packet per training, one beat per step. Seed and gain, 4 bytes each. The
        last beat is 0, and no step's.
    m_axi_* : ``beat_bits`` bits of data
        AXI4 to the memory, which is read only. Bursts are incrementing, of whole beats, all with
        identifier 0.

    Latency: that of sparse_trainer.
    Throughput: that of sparse_trainer.
    """

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        label = (config.classes - 1).bit_length()
        lanes = octets(config.activation_width) * config.gemv.group
        super().__init__(
            {"aclk": In(1), "aresetn": In(1)}
            | register_members(AXI_REGISTERS["sparse_trainer"])
            | axi_stream("s_axis_layers", LAYER_BITS, In)
            | axi_stream("s_axis_entries", ENTRY_BITS, In)
            | axi_stream("s_axis_samples", lanes, In, user=label)
            | axi_stream("m_axis_results", RESULT_BITS, Out)
            | axi_stream("m_axis_log", LOG_BITS, Out)
            | axi_stream("m_axis_entries", ENTRY_BITS, Out)
            | axi_memory(config.beat_bits)
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        m.submodules.core = core = SparseTrainer(self.config)
        block = RegisterBlock(m, self, AXI_REGISTERS["sparse_trainer"])
        self._inputs(m, core)
        status = Signal.like(core.o_status.payload.status, name="ended_status")
        ended = self._outputs(m, core, status)
        base = self._registers(m, block, core, ended, status)
        connect_reads(m, self, core, base)
        return m

    def _inputs(self, m, core):
        """Connect layers, entries and samples."""
        layers, entries, samples = core.i_layers, core.i_entries, core.i_samples
        # What a field of the core does not hold is refused as a layer without columns, or as an
        # entry after the last row.
        with m.If(_connect(m, layers.payload, LAYER_FIELDS, self.s_axis_layers_tdata)):
            m.d.comb += layers.payload.columns.eq(0)
        with m.If(_connect(m, entries.payload, ENTRY_FIELDS, self.s_axis_entries_tdata)):
            m.d.comb += entries.payload.row.eq(~0)
        size = octets(self.config.activation_width)
        for k, lane in enumerate(samples.payload.lanes):
            m.d.comb += lane.eq(self.s_axis_samples_tdata[k * size : (k + 1) * size])
        m.d.comb += [
            layers.payload.last.eq(self.s_axis_layers_tlast),
            layers.valid.eq(self.s_axis_layers_tvalid),
            self.s_axis_layers_tready.eq(layers.ready),
            entries.valid.eq(self.s_axis_entries_tvalid),
            self.s_axis_entries_tready.eq(entries.ready),
            samples.payload.label.eq(self.s_axis_samples_tuser),
            samples.payload.last.eq(self.s_axis_samples_tlast),
            samples.valid.eq(self.s_axis_samples_tvalid),
            self.s_axis_samples_tready.eq(samples.ready),
        ]

    def _outputs(self, m, core, status) -> Value:
        """Connect entries, results and log; return whether a command has ended."""
        result, step = core.o.payload, core.o_log.payload
        entries = core.o_entries
        place = [extended(entries.payload[name], bits) for name, bits in ENTRY_FIELDS.items()]
        m.d.comb += [
            self.m_axis_entries_tdata.eq(Cat(place)),
            self.m_axis_entries_tlast.eq(entries.payload.last),
            self.m_axis_entries_tvalid.eq(entries.valid),
            entries.ready.eq(self.m_axis_entries_tready),
        ]
        sample = Cat(extended(result.loss, 32), extended(result.best, 8), result.error)
        logged = Cat(extended(step.seed, 32), extended(step.gain, 32))
        ending = Cat(Const(0, 48), status)
        return connect_results(m, self, core, sample, logged, ending, _KINDS["train"])

    def _registers(self, m, block, core, ended, ended_status) -> Signal:
        """Hold the registers, and set the status of a command that ends; return the base."""
        end = core.o_status.payload
        kept, base = connect_registers(
            m, block, core, ended, abort=_KINDS["abort"], status=ended_status,
            results={"saturated": end.saturated},
        )  # fmt: skip
        m.d.comb += ended_status.eq(end.status)
        # An abort has replaced the command.
        with m.If((end.kind == _KINDS["abort"]) & (kept["kind"] != _KINDS["abort"])):
            m.d.comb += ended_status.eq(_STATUS["aborted"])
        return base


def _connect(m, payload, fields, word) -> Value:
    """Connect the fields of a word to those of a payload; return whether one does not fit."""
    overflow, at = [], 0
    for name, bits in fields.items():
        field, given = payload[name], word[at : at + bits]
        m.d.comb += field.eq(given)
        rest = given[len(field) :]
        if field.shape().signed:
            rest = given[len(field) - 1 :]
            overflow.append(rest.any() & ~rest.all())
        else:
            overflow.append(rest.any())
        at += bits
    return Cat(overflow).any()
