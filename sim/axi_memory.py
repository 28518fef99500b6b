"""Models of an AXI4 memory that fails where it is told to."""

from cocotbext.axi import AxiRamRead, AxiRamWrite

__all__ = ["FailingReads", "FailingWrites"]


class _Refused(Exception):
    """The model answers SLVERR where this is raised."""


class FailingWrites(AxiRamWrite):
    """Fails where ``bad`` lies."""

    bad: int | None = None

    async def _write(self, address, data):
        if address == self.bad:
            raise _Refused
        await super()._write(address, data)


class FailingReads(AxiRamRead):
    """Fails where ``bad`` lies."""

    bad: int | None = None

    async def _read(self, address, length):
        if address == self.bad:
            raise _Refused
        return await super()._read(address, length)
