"""Trains adapters: walks a schedule's outer products and updates on the inference pipeline."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.gradient_update import GradientUpdate
from seedbed.hw.adapters.outer_products import OuterProducts
from seedbed.hw.adapters.update_pass import UpdatePass
from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.hw.engine.parameter_memory import ACCUMULATORS, ParameterMemory
from seedbed.hw.engine.pipeline_ports import direct_members, row_address, store_address
from seedbed.hw.parts.delay_line import delay_line
from seedbed.hw.parts.read_arbiter import request_layout
from seedbed.hw.products.mac_array import MacArray
from seedbed.spec.engine import EngineConfig

__all__ = ["ROW_READS", "STORE_READS", "TrainAdapters"]

#: What it reads: factors of outer products; and rows, of parameters that are updated, of
#: accumulators that are multiplied by the rate, and of those that products are added to.
STORE_READS = ("factor_reads",)
ROW_READS = ("parameter_reads", "gradient_reads", "accumulator_reads")

#: Cycles from a beat of outer products to its right factors, and from a row of an update to its
#: accumulators, at the multipliers.
OUTER = ActivationStore.latency
SCALE = ParameterMemory.latency
#: From there to a request for what the products are added to, and to the write that is announced.
ADD = MacArray.product_latency + GradientUpdate.row_after - ParameterMemory.latency
WRITE = MacArray.product_latency + GradientUpdate.latency - ParameterMemory.write_latency
#: From there to the two controls of the addition.
CONTROL = MacArray.product_latency - GradientUpdate.ahead


class TrainAdapters(wiring.Component):
    """Accumulates a sample's gradients, and updates all trainable parameters.

    It multiplies with the inference pipeline's array, and reads and writes its memories, while no
    steps run: a gradient is an outer product of activations, and an update the product of the
    accumulators with the rate. Parameters have two pages, of which an update reads one and writes
    the other. They are swapped when the last row is written.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`, with a schedule.

    Members
    -------
    accumulate, clear_accumulators : In(1)
        A pulse: adds a sample's gradients, to 0 instead of the accumulators where the second is 1.
    update, clear : In(1)
        Pulses: all parameters move against their gradients; all that the schedule says are cleared.
    buffer_select, rate : In
        Of the store; M of :class:`~seedbed.spec.lora.LoraConfig`. Steady while ``busy``.
    busy : Out(1)
        Until another one can begin, or steps up to the outputs.
    updating : Out(1)
        New parameters are being written; the pages are swapped when they are whole.
    settling : Out(1)
        Products are on their way to the accumulators: neither of them may be read or updated.
    page : Out(1)
        The parameters' page.
    accepts : Out(1)
        A packet of parameters may come.
    word : In
        Of a packet, with ``load``. Pages are swapped after the last word of a whole packet.
    factor_reads, parameter_reads, gradient_reads, accumulator_reads : Out(struct)
        Requests to the pipeline's memories, see ``STORE_READS`` and ``ROW_READS``.
    load, loaded, activations, rows, products : In
    outer, factors, scale, scale_by, row_write, row_values : Out
        As those of :class:`~seedbed.hw.engine.inference_pipeline.InferencePipeline`.
    saturated : Out
        How many numbers did not fit their format, in that cycle.

    Latency: ``latency`` cycles from the last of ``busy`` to accumulators that can be read.
    Throughput: a row of gradients a cycle, a row of an update every two.
    """

    #: From the cycle of a beat's address to the first one in which its row has been written.
    latency = OuterProducts.latency + OUTER + MacArray.product_latency + GradientUpdate.latency

    def __init__(self, config: EngineConfig):
        self.config = config
        reads = {name: Out(request_layout(store_address(config))) for name in STORE_READS}
        reads |= {name: Out(request_layout(row_address(config))) for name in ROW_READS}
        direct = {name: member.flip() for name, member in direct_members(config).items()}
        super().__init__(
            {
                "accumulate": In(1),
                "clear_accumulators": In(1),
                "update": In(1),
                "clear": In(1),
                "buffer_select": In(1),
                "rate": In(config.lora.rate_width),
                "busy": Out(1),
                "updating": Out(1),
                "settling": Out(1),
                "accepts": Out(1),
                "page": Out(1),
                "word": In(data.ArrayLayout(signed(config.word), 2)),
                "saturated": Out(range(config.plan.ways * config.plan.lanes + 1)),
            }
            | direct
            | reads
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.outer_products = products = OuterProducts(self.config)
        m.submodules.update_pass = rows = UpdatePass(self.config)
        m.submodules.gradient_update = update = GradientUpdate(self.config)
        # Every tap is a cycle after the one before.
        outers = delay_line(m, products.beat, OUTER + WRITE, "outer", reset=True)
        updates = delay_line(m, rows.beat, SCALE + WRITE, "update", reset=True)
        clears = Signal()
        page = Signal(reset_less=True)
        m.d.comb += self.page.eq(page)
        self._control(m, products, rows, updates[-1], clears, page)
        self._multiply(m, outers, updates, clears)
        self._read(m, outers, updates, clears, page)
        self._add(m, update, outers, updates, page)
        return m

    def _control(self, m, products, rows, written, clears, page):
        """Start the walks, and swap the pages when new parameters are whole."""
        swap = Signal()
        settling = delay_line(m, products.busy, self.latency - 1, "settling", reset=True)
        m.d.comb += [
            products.start.eq(self.accumulate),
            products.buffer_select.eq(self.buffer_select),
            rows.start.eq(self.update | self.clear),
            self.busy.eq(products.busy | self.updating),
            self.accepts.eq(~self.settling & ~swap),
        ]
        m.d.sync += [swap.eq(self.loaded), self.settling.eq(Cat(settling).any())]
        with m.If(rows.start):
            m.d.sync += [self.updating.eq(1), clears.eq(self.clear)]
        with m.If(written.valid & written.last):
            m.d.sync += self.updating.eq(0)
        with m.If(swap | (written.valid & written.last)):
            m.d.sync += page.eq(~page)

    def _multiply(self, m, outers, updates, clears):
        """Give the multipliers what belongs to the ways with rows of activations, or the rate."""
        outer = outers[OUTER]
        factors = Signal(self.factors.shape(), reset_less=True)
        with m.If(outer.left):
            m.d.sync += [to.eq(x) for to, x in zip(factors, self.activations, strict=False)]
        rate = Signal.like(self.rate, reset_less=True)
        m.d.sync += rate.eq(Mux(clears, 0, self.rate))
        m.d.comb += [
            # These are registered once more on their way.
            self.outer.eq(outers[OUTER - 1].right),
            self.scale.eq(updates[SCALE - 1].valid),
            self.factors.eq(factors),
            self.scale_by.eq(rate),
        ]

    def _read(self, m, outers, updates, clears, page):
        """Ask for factors, and for rows so that each comes when its products do."""
        restarts = Signal()
        with m.If(self.accumulate):
            m.d.sync += restarts.eq(self.clear_accumulators)
        factor, outer, update = outers[0], outers[OUTER + ADD], updates[SCALE + ADD]
        m.d.comb += [
            self.factor_reads.request.eq(factor.left | factor.right),
            self.factor_reads.address.eq(factor.address),
        ]
        for reads, request, row, of, blank in [
            (self.accumulator_reads, outer.right, outer.row, ACCUMULATORS, restarts),
            (self.gradient_reads, updates[0].valid, updates[0].row, ACCUMULATORS, 0),
            (self.parameter_reads, update.valid, update.row, page, clears & update.cleared),
        ]:
            m.d.comb += [
                reads.request.eq(request),
                reads.trainable.eq(1),
                reads.page.eq(of),
                reads.row.eq(row),
                reads.blank.eq(blank),
            ]

    def _add(self, m, update, outers, updates, page):
        """Add the products to accumulators or parameters, and write the sums."""
        outer, row = outers[OUTER + CONTROL], updates[SCALE + CONTROL]
        m.d.comb += [
            update.update.eq(row.valid),
            update.counts.eq((outer.right & outer.counts) | (row.valid & row.counts)),
            update.products.eq(self.products),
            update.row.eq(self.rows),
            update.load.eq(self.load),
            update.word.eq(self.word),
            self.saturated.eq(update.saturated),
            self.row_values.eq(update.values),
        ]
        outer, row = outers[OUTER + WRITE], updates[SCALE + WRITE]
        m.d.comb += [
            self.row_write.write.eq(outer.right | row.valid),
            self.row_write.page.eq(Mux(row.valid, ~page, ACCUMULATORS)),
            self.row_write.row.eq(Mux(row.valid, row.row, outer.row)),
        ]
