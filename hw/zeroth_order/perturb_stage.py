"""The perturbing stage where the inference pipeline has it: between memory and multipliers."""

from amaranth.hdl import Module, Mux
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.engine.weight_stage import stage_members
from seedbed.hw.generators.perturbation_rows import command_layout
from seedbed.hw.generators.weight_perturb import Mode, WeightPerturb
from seedbed.hw.parts.delay_line import delayed
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["PerturbStage"]


class PerturbStage(wiring.Component):
    """Perturbs the rows of steps, and updates those of an update pass.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`.

    Members
    -------
    i, mark, o
        As those of :class:`~seedbed.hw.engine.weight_stage.WeightStage`.
    i_command : In(stream of :func:`~seedbed.hw.generators.perturbation_rows.command_layout`)
    perturb, subtract : In(1)
        Whether the steps that run are perturbed, and by -z. Steady while they do.
    update : In(struct)
        ``valid`` and ``row``: a row of an update was requested from the memory in this cycle.
        ``subtract`` is then the sign: u is subtracted.
    conflict : Out(1)
        A row came while the generator was busy: for assertions.

    Latency: ``latency`` cycles. Throughput: a row a cycle.
    """

    latency = WeightPerturb.latency

    def __init__(self, config: ZoTrainerConfig):
        self.config = config
        update = {"valid": 1, "row": range(max(config.schedule.rows, 2))}
        super().__init__(
            stage_members(config.engine)
            | {
                "i_command": In(stream.Signature(command_layout(config.perturb))),
                "perturb": In(1),
                "subtract": In(1),
                "update": In(data.StructLayout(update)),
                "conflict": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = WeightPerturb(self.config.perturb)
        wiring.connect(m, wiring.flipped(self.i_command), rows.i_command)
        given = rows.i
        update = delayed(m, self.update, ParameterMemory.latency, "update", reset=True)
        perturb = self.perturb & (self.mark.step < self.config.schedule.steps)
        m.d.comb += [
            given.valid.eq(self.mark.valid | update.valid),
            given.payload.weights.eq(self.i),
            given.payload.mode.eq(
                Mux(update.valid, Mode.UPDATE, Mux(perturb, Mode.PERTURB, Mode.PASS))
            ),
            given.payload.subtract.eq(self.subtract),
            given.payload.row.eq(Mux(update.valid, update.row, self.mark.row)),
            rows.o.ready.eq(1),
            self.o.eq(rows.o.payload),
            self.conflict.eq(given.valid & ~given.ready),
        ]
        return m
