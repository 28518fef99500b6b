"""Tunes the kept weights of a compressed network by forward passes, without a host."""

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.layer_table import LayerTable, row_layout
from seedbed.hw.kept.sample_banks import SampleBanks, sample_layout
from seedbed.hw.kept.sparse_trainer_control import SparseTrainerControl
from seedbed.hw.kept.sparse_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.hw.kept.trainer_passes import TrainerPasses, class_layout
from seedbed.hw.kept.weight_reader import WeightReader
from seedbed.hw.memory.memory_port import command_layout, read_layout
from seedbed.hw.parts.codes import codes
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_KINDS

__all__ = ["SparseTrainer"]

_KINDS = codes(SPARSE_TRAINER_KINDS)


class SparseTrainer(wiring.Component):
    """Zeroth-order training of a few weights, kept in the core, of a network in external memory.

    A layer is W x + b: W dense and packed, in memory, plus a sparse matrix of entries (row, column,
    value) in the core. For each sample of a batch, the network runs with the values v + z and
    v - z. The perturbation z is the batch's, named by a seed, and is added on the way to the
    multiplier. With L+ and L- the sums of the losses::

        gain = clamp(floor((L+ - L-) rate / 2^shift + 1/2))
        v    = clamp(v - floor(gain z 2^(update_shift - 16) + 1/2))

    Each value is read and written once in an update. Nothing of the dense network is written.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    i_layers : In(stream of struct)
        table of layers, between commands. It has a row for each :class:`~seedbed.spec.DenseLayer`.
        The entries must be loaded again after it. A command waits for the last row. An abort does
        not: it drops a table whose last row has not come.
        columns : inputs of the layer
        rows : outputs of the layer
        address : address of its biases and weights, in beats
        plain : 1: plain weights; 0: packed blocks. 0 with a trellis code.
        relu : 1: negative outputs become 0
        bias_shift : left shift of a bias
        shift : right shift of a sum with its bias
        entries : entries of the layer
        sparse_shift : left shift of the products of entries
        update_shift : left shift of gain x number
        scale : left shift of the perturbation
        last : last layer
    i : In(stream of struct)
        command. While a command runs, only ``abort`` is accepted. Without a running command it ends
        with ``ok``.
        kind : 0 train, 1 infer, 2 load, 3 read, 4 abort. Index of
            :data:`~seedbed.spec.SPARSE_TRAINER_KINDS`.
        samples : samples of an epoch
        epochs : epochs
        batch : samples between two updates
        seed : seed of the first step. Each following step has the seed plus the number of layers.
        rate : factor of the difference of the losses
        decay : decrease of the rate per epoch
        shift : right shift of the product
    i_entries : In(stream of struct)
        entries of a load, layer by layer. They are sorted by row in each layer, then by column.
        row : row of the entry
        column : column of the entry
        value : difference to the dense weight
    i_samples : In(stream of struct)
        samples
        lanes (group x signed(activation_width)) : next elements of the sample
        label : class of the sample
        last : last beat of the sample
    o : Out(stream of struct)
        results, one per sample
        best : class with the greatest logit
        loss : cross-entropy, in training of the second pass
        error : 1: the label is no class. Its loss is the greatest.
    o_log : Out(stream of struct)
        steps of a training. With the log, the first values can be trained again elsewhere. The
        update waits for its transfer.
        seed : seed of the perturbation
        gain : gain of the update
    o_entries : Out(stream of struct)
        entries of a read, layer by layer
        row : row of the entry
        column : column of the entry
        value : trained value
        last : last entry of a layer
    o_status : Out(stream of struct)
        how a command ended. A command has one; an abort of a running command has none of its own.
        kind : kind of the command
        status : 0 ok, 1 command, 2 layers, 3 sample, 4 memory, 5 entries not sorted, 6 entry
            repeated, 7 entry out of range, 8 no entries, 9 aborted. Index of
            :data:`~seedbed.spec.SPARSE_TRAINER_STATUS`.
        steps : steps of a training
        saturated : gains that saturated
    o_command : Out(stream of struct)
        memory burst command
        address : address of the first beat, in beats
        write : 0: read burst
        length : beats of the burst, minus 1
    i_read : In(stream of struct)
        read data. It is in the order of the commands.
        data : read data of the beat
        error : 1: the data is invalid
        last : last beat of the burst

    Errors: a command that cannot be run, an entry, a sample or a beat of memory that is wrong, and
    an abort end the command with a status. Samples and entries are discarded until the next
    command: those that come with it, or after it, are that command's. A batch that is broken off
    does not change the values. An update is not broken off.

    Latency: of a job: see docs/cores/sparse_trainer.md.
    Throughput: 1 sample per two passes; a pass reads the network once.
    Source: SensZOQ (arXiv:2406.02913), sections 3 and 4; SeedLM; PeZO; QTIP.
    """

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        super().__init__(
            {
                "i_layers": In(stream.Signature(row_layout(config))),
                "i": In(stream.Signature(job_layout(config))),
                "i_entries": In(stream.Signature(entry_layout(config.sparse))),
                "i_samples": In(stream.Signature(sample_layout(config))),
                "o": Out(stream.Signature(class_layout(config))),
                "o_log": Out(stream.Signature(log_layout(config))),
                "o_entries": Out(stream.Signature(entry_layout(config.sparse, last=1))),
                "o_status": Out(stream.Signature(status_layout())),
                "o_command": Out(stream.Signature(command_layout(config.address_bits))),
                "i_read": In(stream.Signature(read_layout(config.beat_bits))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        table, drop = LayerTable(config), Signal()
        # An abort drops a table that is not finished.
        m.submodules.table = ResetInserter(drop)(table)
        m.submodules.control = control = SparseTrainerControl(config)
        m.submodules.samples = samples = SampleBanks(config)
        m.submodules.reader = reader = WeightReader(config)
        passes = TrainerPasses(config)
        m.submodules.passes = ResetInserter(control.restart)(passes)
        for ours, theirs in (
            (self.i, control.i),
            (self.i_samples, samples.i),
            (self.i_read, reader.i_read),
        ):
            wiring.connect(m, wiring.flipped(ours), theirs)
        for theirs, ours in (
            (passes.o, self.o),
            (control.o_log, self.o_log),
            (control.o_status, self.o_status),
            (reader.o_command, self.o_command),
        ):
            wiring.connect(m, theirs, wiring.flipped(ours))
        wiring.connect(m, samples.o, passes.i)
        wiring.connect(m, reader.o_weights, passes.i_weights)
        if config.gemv.trellis:
            wiring.connect(m, reader.o_scales, passes.i_scales)
        reads = control.frozen
        m.d.comb += [
            drop.eq(table.incomplete & self.i.valid & (self.i.payload.kind == _KINDS["abort"])),
            table.i.valid.eq(self.i_layers.valid & ~drop),
            table.i.payload.eq(self.i_layers.payload),
            self.i_layers.ready.eq(table.i.ready & ~drop),
            table.accepts.eq(control.idle),
            table.index.eq(passes.index),
            samples.inputs.eq(table.inputs),
            passes.given.eq(table.o),
            reader.start.eq(passes.fetch),
            reader.layer.eq(passes.layer),
            reader.row.eq(passes.row),
            passes.bias.eq(reader.bias),
            passes.i_entries.valid.eq(self.i_entries.valid & ~control.discard),
            passes.i_entries.payload.eq(self.i_entries.payload),
            self.i_entries.ready.eq(passes.i_entries.ready | control.discard),
            self.o_entries.valid.eq(passes.o_entries.valid & reads),
            self.o_entries.payload.eq(passes.o_entries.payload),
            passes.o_entries.ready.eq(self.o_entries.ready | ~reads),
        ]
        self._control(m, control, table, samples, reader, passes)
        return m

    def _control(self, m, control, table, samples, reader, passes):
        """Connect requests of the control, and the responses to it."""
        m.d.comb += [
            control.table_busy.eq(table.busy),
            control.table_valid.eq(table.valid),
            control.table_begins.eq(table.begins),
            control.layers.eq(table.layers),
            samples.start.eq(control.begin),
            samples.want.eq(control.want),
            samples.release.eq(control.release),
            samples.discard.eq(control.discard),
            control.full.eq(samples.full),
            control.bad.eq(samples.bad),
            passes.start.eq(control.start),
            passes.kind.eq(control.pass_kind),
            passes.perturb.eq(control.perturb),
            passes.negative.eq(control.negative),
            passes.seed.eq(control.seed),
            passes.frozen.eq(control.frozen),
            passes.bank.eq(samples.bank),
            passes.label.eq(samples.label),
            control.done.eq(passes.done),
            control.failed.eq(passes.failed),
            control.status.eq(passes.status),
            control.settled.eq(passes.settled),
            control.results.eq(passes.o.valid),
            passes.differentiate.eq(control.differentiate),
            passes.rate.eq(control.rate),
            passes.shift.eq(control.shift),
            control.differentiated.eq(passes.differentiated),
            control.gain.eq(passes.gain),
            control.saturated.eq(passes.saturated),
            control.fault.eq(reader.fault),
            reader.drain.eq(control.drain),
            control.drained.eq(reader.drained),
        ]
