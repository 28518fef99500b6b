"""The stream of results, between the parts of the engine that give them and its port."""

from amaranth.hdl import Const, Module, Mux, Value
from amaranth.lib import wiring

from seedbed.hw.stream.greatest_element import GreatestElement
from seedbed.hw.stream.label_loss import LabelLoss
from seedbed.spec.engine_records import TARGETS

__all__ = ["given_results"]


def given_results(m: Module, engine, is_, intake, walker, matrix, vectors) -> Value:
    """Connect results of the record that runs to the port ``o`` of the engine.

    A number or a loss may go out in their place: return whether it has not gone out.
    """
    config = engine.config
    to, sink, waits = engine.o, wiring.flipped(engine.o), Const(0)
    chosen = walker.record.target == TARGETS.index("choose")
    count = Mux(is_["matrix"], walker.record.rows, walker.length)
    if config.choose:
        m.submodules.greatest = greatest = GreatestElement(config)
        wiring.connect(m, greatest.o, sink)
        on = chosen & ~walker.header.loss if config.classes else chosen
        m.d.comb += [greatest.on.eq(on), greatest.count.eq(count)]
        to = sink = greatest.i
        waits = engine.o.valid
    if config.classes:
        m.submodules.label_loss = loss = LabelLoss(config)
        wiring.connect(m, loss.o, sink)
        m.d.comb += [
            loss.on.eq(chosen & walker.header.loss),
            loss.count.eq(count),
            loss.label.eq(intake.label),
        ]
        to, waits = loss.i, waits | loss.busy
    for part, is_chosen in ((matrix, is_["matrix"]), (vectors, ~is_["matrix"])):
        m.d.comb += part.o.ready.eq(to.ready & is_chosen)
        with m.If(is_chosen):
            m.d.comb += [to.valid.eq(part.o.valid), to.payload.eq(part.o.payload)]
    return waits
