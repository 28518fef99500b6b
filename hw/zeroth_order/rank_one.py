"""Perturbations of rank 1 in the trainer: numbers, what they add to sums, and updates."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring

from seedbed.hw.engine.inference_pipeline import InferencePipeline
from seedbed.hw.engine.layer_readouts import PartReadout, RowParts
from seedbed.hw.generators.rank_one import RankOneNumbers
from seedbed.hw.zeroth_order.rank_one_sums import RankOneSums
from seedbed.hw.zeroth_order.rank_one_update import RankOneUpdate
from seedbed.hw.zeroth_order.zo_steps import ZoSteps
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["connect_rank_one"]


def connect_rank_one(
    m: Module,
    config: ZoTrainerConfig,
    steps: ZoSteps,
    pipeline: InferencePipeline,
    addend: RankOneSums,
    readout: PartReadout,
) -> None:
    """Add numbers and the update to ``m``, which has ``parts`` of rows, and connect them."""
    assert config.rank_one
    m.submodules.numbers = numbers = RankOneNumbers(config.rank_one)
    parts = m.submodules.parts
    m.submodules.update = update = RankOneUpdate(config)
    wiring.connect(m, steps.o_command, numbers.i_command)
    reads, beat = pipeline.update_reads, pipeline.beat
    m.d.comb += [
        numbers.request.eq(beat.valid | update.request),
        numbers.row.eq(Mux(update.request, update.request_row, beat.row)),
        addend.inputs.eq(numbers.inputs),
        addend.outputs.eq(numbers.outputs),
        addend.magnitude.eq(steps.o_command.payload.magnitude),
        update.start.eq(steps.update),
        update.subtract.eq(steps.subtract),
        update.level.eq(steps.level),
        update.inputs.eq(numbers.inputs),
        update.outputs.eq(numbers.outputs),
        update.weights.eq(parts.o),
        steps.updating.eq(update.busy | steps.update),
        reads.request.eq(update.read.valid),
        reads.row.eq(update.read.row),
        parts.part.eq(Mux(update.read.valid, update.read.part, readout.part)),
        parts.given.eq(pipeline.rows),
        pipeline.part_write.write.eq(update.write.valid),
        pipeline.part_write.row.eq(update.write.row),
        pipeline.part_write.part.eq(update.write.part),
        *(to.eq(update.values[k % RowParts.LANES]) for k, to in enumerate(pipeline.row_values)),
    ]
