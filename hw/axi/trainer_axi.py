"""What the AXI wrappers of trainers share: results and log as packets that end with a command."""

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from seedbed.hw.axi.axi import octets

__all__ = ["connect_results", "extended", "in_bytes"]


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


def extended(value: Value, bits: int) -> Value:
    """Return a value in so many bits: by its sign, if it has one."""
    value = Value.cast(value)
    top = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, top.replicate(bits - len(value)))[:bits]


def in_bytes(*values: Value) -> Value:
    """Return values side by side, each extended to whole bytes."""
    return Cat(extended(value, octets(len(value))) for value in values)
