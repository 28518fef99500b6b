"""AXI4-Lite interface of a register block, and members with AXI names."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

__all__ = [
    "AxiLite",
    "axi_memory",
    "axi_stream",
    "connect_lite",
    "lite_members",
    "octets",
    "strobed",
    "write_register",
]

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


def axi_memory(name: str, address_bits: int, bits: int) -> dict[str, Member]:
    """Return the members of an AXI4 manager port called ``name``, with ``bits`` of data."""
    address = {
        "id": Out(1), "addr": Out(address_bits), "len": Out(8), "size": Out(3), "burst": Out(2),
        "lock": Out(1), "cache": Out(4), "prot": Out(3), "valid": Out(1), "ready": In(1),
    }  # fmt: skip
    fields = {f"{channel}{field}": m for channel in ("aw", "ar") for field, m in address.items()}
    fields |= {
        "wdata": Out(bits), "wstrb": Out(bits // 8), "wlast": Out(1), "wvalid": Out(1),
        "wready": In(1), "bid": In(1), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        "rid": In(1), "rdata": In(bits), "rresp": In(2), "rlast": In(1), "rvalid": In(1),
        "rready": Out(1),
    }  # fmt: skip
    return {f"{name}_{field}": member for field, member in fields.items()}


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


def connect_lite(m: Module, component: wiring.Component, lite: AxiLite, name: str) -> None:
    """Connect the AXI4-Lite port called ``name`` of a component to its register block."""
    for member, port in lite.signature.members.items():
        if member.startswith("bus_"):
            inner, outer = getattr(lite, member), getattr(component, name + member[3:])
            m.d.comb += inner.eq(outer) if port.flow is In else outer.eq(inner)


def strobed(lite: AxiLite, old: Value) -> Value:
    """Return the word that is written: bytes without a strobe are those of ``old``, of 32 bits."""
    parts = [slice(k, k + 8) for k in range(0, 32, 8)]
    bytes_ = zip(lite.write_strobe, parts, strict=True)
    return Cat(Mux(strobe, lite.write_data[part], old[part]) for strobe, part in bytes_)


def write_register(m, lite: AxiLite, register: Signal, busy, *, zeros: int = 0) -> None:
    """Write the strobed bytes to a register; the statements belong into the case of its word.

    A signed register is sign-extended to 32 bits. The write is refused while ``busy``, if the
    register does not hold the value, and if the low ``zeros`` bits are not 0.
    """
    old = Signal(32, name=f"old_{register.name}")
    m.d.comb += old.eq(register)
    new = strobed(lite, old)
    if register.shape().signed:
        high = new[len(register) - 1 :]
        unfit = high.any() & ~high.all()
    else:
        unfit = new[len(register) :].any()
    m.d.comb += lite.write_refused.eq(busy | unfit | new[:zeros].any())
    with m.If(lite.write & ~lite.write_refused):
        m.d.sync += register.eq(new)
