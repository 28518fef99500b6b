"""What the AXI wrappers of trainers share: packets that end with a command, and registers."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from seedbed.hw.axi.axi import octets
from seedbed.hw.axi.axi_memory import ADDRESS_BITS
from seedbed.hw.axi.registers import RegisterBlock, status_word

__all__ = ["connect_registers", "connect_results", "extended", "in_bytes"]


def connect_results(m, port, core, sample: Value, step: Value, status: Value, kind: int) -> Value:
    """Connect ``m_axis_results`` and ``m_axis_log`` of a wrapper; return whether a command ends.

    Each has a last beat that is no sample's and no step's: ``status``, and 0 in the log.

    Parameters
    ----------
    m, port, core
        Module, the wrapper, and its core with ``o``, ``o_log`` and ``o_status``.
    sample, step, status
        Data of the beats.
    kind
        The command that writes a log.
    """
    # The core ends a command after the last sample and step: no result comes with the status.
    end = core.o_status
    results_ended = Signal()
    log_ended = Signal()
    results_last = end.valid & ~results_ended
    log_last = end.valid & (end.payload.kind == kind) & ~log_ended
    results_ready, log_ready = port.m_axis_results_tready, port.m_axis_log_tready
    assert max(len(sample), len(status)) <= len(port.m_axis_results_tdata)
    assert len(step) <= len(port.m_axis_log_tdata)
    m.d.comb += [
        port.m_axis_results_tdata.eq(Mux(results_last, status, sample)),
        port.m_axis_results_tlast.eq(results_last),
        port.m_axis_results_tvalid.eq(core.o.valid | results_last),
        core.o.ready.eq(results_ready),
        port.m_axis_log_tdata.eq(Mux(log_last, 0, step)),
        port.m_axis_log_tlast.eq(log_last),
        port.m_axis_log_tvalid.eq(core.o_log.valid | log_last),
        core.o_log.ready.eq(log_ready),
        end.ready.eq((~results_last | results_ready) & (~log_last | log_ready)),
    ]
    with m.If(end.valid):
        m.d.sync += [
            results_ended.eq(~end.ready & (results_ended | results_ready)),
            log_ended.eq(~end.ready & (log_ended | log_ready)),
        ]
    return end.valid & end.ready


def connect_registers(
    m, block: RegisterBlock, core, ended: Value, *, abort: int, status: Value,
    results: Mapping[str, Value],
) -> tuple[dict[str, Signal], Signal]:  # fmt: skip
    """Connect the registers of a trainer with a memory and an abort.

    Return those of its command, and the base of its memory.

    Parameters
    ----------
    m, block, core
        Module, the registers, and the core with ``i``, ``o_log`` and ``o_status``.
    ended
        Whether a command ends.
    abort
        The command that aborts another one.
    status, results
        How a command ended, and values of further registers that are then read, by name.
    """
    command, log, lite = core.i, core.o_log, block.lite
    base = Signal(ADDRESS_BITS)
    busy = Signal()
    done = Signal()
    pending = Signal()
    aborting = Signal()
    last = Signal.like(status, name="status")
    steps = Signal(32)
    shown = {"steps": steps}
    for name, value in results.items():
        shown.setdefault(name, Signal.like(value, name=name))
    kept = block.command(command, pending | aborting)
    # An abort replaces a command that waits for its transfer.
    with m.If(~pending | aborting):
        m.d.comb += command.payload.kind.eq(abort)
    with m.If(command.ready):
        m.d.sync += [pending.eq(0), aborting.eq(0)]
    with m.If(log.valid & log.ready):
        m.d.sync += steps.eq(steps + 1)
    with block.writes():
        with block.write("control"):
            word = block.strobed(Const(0, 32))
            m.d.comb += lite.write_refused.eq((busy & word[0]) | word[2:].any())
            with m.If(lite.write & ~lite.write_refused):
                with m.If(word[0]):
                    m.d.sync += [pending.eq(1), busy.eq(1), done.eq(0), steps.eq(0)]
                with m.If(word[1] & busy):
                    m.d.sync += aborting.eq(1)
        block.hold(kept | {"base": base}, busy)
    with m.If(ended):
        m.d.sync += [busy.eq(0), done.eq(1), aborting.eq(0), last.eq(status)]
        m.d.sync += [shown[name].eq(value) for name, value in results.items()]
    block.show(kept | {"base": base, "status": status_word(busy, done, last)} | shown)
    return kept, base


def extended(value: Value, bits: int) -> Value:
    """Return a value in so many bits: by its sign, if it has one."""
    value = Value.cast(value)
    top = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, top.replicate(bits - len(value)))[:bits]


def in_bytes(*values: Value) -> Value:
    """Return values side by side, each extended to whole bytes."""
    return Cat(extended(value, octets(len(value))) for value in values)
