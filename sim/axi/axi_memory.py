"""Models of an AXI4 memory with error injection."""

from random import Random

from cocotbext.axi import AxiRamRead, AxiRamWrite, AxiResp

__all__ = ["FailingReads", "FailingWrites"]


class _SlaveError(Exception):
    """The model's response is SLVERR."""


class FailingWrites(AxiRamWrite):
    """The response to a burst with the address ``bad`` is SLVERR."""

    bad: int | None = None

    async def _write(self, address, data):
        if address == self.bad:
            raise _SlaveError
        await super()._write(address, data)


class FailingReads(AxiRamRead):
    """The response of the beat at the address ``bad`` is SLVERR, with random data.

    The next burst has ``extra`` beats more than requested, or fewer, and RLAST with the last one.
    """

    bad: int | None = None
    extra: int = 0

    def __init__(self, *args, seed: int = 1, **kwargs):
        super().__init__(*args, **kwargs)
        self._random = Random(seed)
        self._burst: list = []
        self._send, self.r_channel.send = self.r_channel.send, self._send_beat

    async def _read(self, address, length):
        if address == self.bad:
            raise _SlaveError
        return await super()._read(address, length)

    async def _send_beat(self, beat):
        if beat.rresp != AxiResp.OKAY:
            beat.rdata = self._random.getrandbits(8 * self.byte_lanes)
        self._burst.append(beat)
        if self.extra and not beat.rlast:
            return
        burst, self._burst = self._burst, []
        if self.extra:
            burst = burst[: max(1, len(burst) + self.extra)]
            for _ in range(self.extra):
                burst.append(self.r_channel._transaction_obj())
                burst[-1].rid = beat.rid
                burst[-1].rdata = self._random.getrandbits(8 * self.byte_lanes)
            for one in burst:
                one.rlast = one is burst[-1]
            self.extra = 0
        for one in burst:
            await self._send(one)
