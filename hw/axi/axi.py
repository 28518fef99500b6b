"""AXI4-Lite accesses as words, and members with AXI names."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

__all__ = ["AxiLite", "axi_stream", "lite_members", "octets"]

_OKAY, _SLVERR = 0b00, 0b10


def axi_stream(name: str, bits: int, flow: wiring.Flow, *, user: int = 0) -> dict[str, Member]:
    """Return the members of an AXI4-Stream called ``name``: tdata, tlast, tvalid, tready.

    ``user`` is the width of tuser; 0 means none.
    """
    fields = {"tdata": bits, "tlast": 1, "tvalid": 1} | ({"tuser": user} if user else {})
    back = In if flow is Out else Out
    members = {f"{name}_{field}": flow(width) for field, width in fields.items()}
    return members | {f"{name}_tready": back(1)}


def lite_members(name: str, address_bits: int) -> dict[str, Member]:
    """Return the members of an AXI4-Lite port called ``name``, with 32 bits of data."""
    fields = {
        "awaddr": In(address_bits), "awvalid": In(1), "awready": Out(1),
        "wdata": In(32), "wstrb": In(4), "wvalid": In(1), "wready": Out(1),
        "bresp": Out(2), "bvalid": Out(1), "bready": In(1),
        "araddr": In(address_bits), "arvalid": In(1), "arready": Out(1),
        "rdata": Out(32), "rresp": Out(2), "rvalid": Out(1), "rready": In(1),
    }  # fmt: skip
    return {f"{name}_{field}": member for field, member in fields.items()}


def octets(bits: int) -> int:
    """Return ``bits``, rounded up to whole bytes."""
    return -(-bits // 8) * 8


class AxiLite(wiring.Component):
    """Converts AXI4-Lite to writes and reads of one 32-bit word at a time.

    Parameters
    ----------
    address_bits
        Bits of a byte address, 3 or more; the low two bits are ignored.

    Members
    -------
    bus_awaddr .. bus_rready
        The AXI4-Lite port, a subordinate.
    write, write_word, write_data, write_strobe : Out
        A pulse, with the word's address (in words), data and byte strobes.
    write_refused : In(1)
        With the pulse: whether the response is SLVERR.
    read_word : Out
        The address (in words) of a read.
    read_data, read_refused : In
        The word's data, and whether the response is SLVERR, in the same cycle.

    There is no combinational path from input to output. Throughput: a write and a read every other
    cycle, if the responses are accepted at once.
    """

    def __init__(self, address_bits: int):
        word = address_bits - 2
        super().__init__(
            lite_members("bus", address_bits)
            | {"write": Out(1), "write_word": Out(word), "write_data": Out(32)}
            | {"write_strobe": Out(4), "write_refused": In(1)}
            | {"read_word": Out(word), "read_data": In(32), "read_refused": In(1)}
        )

    def elaborate(self, platform):
        m = Module()
        # Address and data are accepted together, after the transfer of the previous response.
        write_fire = Signal()
        read_fire = Signal()
        m.d.comb += [
            self.bus_awready.eq(write_fire),
            self.bus_wready.eq(write_fire),
            self.write.eq(write_fire),
            self.write_word.eq(self.bus_awaddr[2:]),
            self.write_data.eq(self.bus_wdata),
            self.write_strobe.eq(self.bus_wstrb),
            self.bus_arready.eq(read_fire),
            self.read_word.eq(self.bus_araddr[2:]),
        ]
        m.d.sync += [
            write_fire.eq(self.bus_awvalid & self.bus_wvalid & ~write_fire & ~self.bus_bvalid),
            read_fire.eq(self.bus_arvalid & ~read_fire & ~self.bus_rvalid),
        ]
        with m.If(self.bus_bready):
            m.d.sync += self.bus_bvalid.eq(0)
        with m.If(write_fire):
            response = self.write_refused.replicate(2) & _SLVERR | _OKAY
            m.d.sync += [self.bus_bvalid.eq(1), self.bus_bresp.eq(response)]
        with m.If(self.bus_rready):
            m.d.sync += self.bus_rvalid.eq(0)
        with m.If(read_fire):
            response = self.read_refused.replicate(2) & _SLVERR | _OKAY
            m.d.sync += [
                self.bus_rvalid.eq(1),
                self.bus_rresp.eq(response),
                self.bus_rdata.eq(self.read_data),
            ]
        return m
