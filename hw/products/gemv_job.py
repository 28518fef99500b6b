"""Signals of a job of the matrix-vector product."""

from amaranth.hdl import Signal

__all__ = ["GemvJob"]


class GemvJob:
    """Signals of the job that runs, which its states, its counters and its data path share."""

    def __init__(self, limit: int, last_row: Signal):
        # The last beat of a row.
        self.last_beat = Signal.like(last_row)
        self.plain = Signal()
        self.status = Signal(3)
        # Decoded states: one of these is 1, or none while idle.
        self.loading = Signal()
        self.running = Signal()
        self.flushing = Signal()
        self.aborting = Signal()
        self.draining = Signal()
        self.discard = Signal()
        self.accepts = Signal()
        # Rows that were accepted whole and have no result yet.
        self.in_flight = Signal(range(limit + 2))
        self.fire = Signal()
        # The next beat is one of a row's table.
        self.table = Signal()
        self.row_end = Signal()
        self.row_error = Signal()
        self.row_accepted = Signal()
        self.last_row = Signal()
        self.result_fire = Signal()
        self.last_in_flight = Signal()
        self.error_result = Signal()
