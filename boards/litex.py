"""LiteX: a core with AXI ports as a module of a SoC, with a DMA for each stream."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from litex.gen import LiteXModule
from litex.soc.cores.dma import WishboneDMAReader, WishboneDMAWriter
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect import stream, wishbone
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr import CSRStatus, CSRStorage
from migen import ClockSignal, If, Instance, ResetSignal, Signal

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.sim.ports import Port, ports

__all__ = ["AxiCore"]

#: Bytes of the region of the registers.
REGION = 0x1000
_PORT = re.compile(r"(?P<prefix>[sm]_axis?(?:_[a-z]+)?)_(?P<wire>t?[a-z]+)")
_CHANNEL = re.compile(r"(aw|ar|w|b|r)([a-z]+)")


class AxiCore(LiteXModule):
    """A core with AXI ports in a SoC.

    - The registers of the AXI4-Lite port are a region of the bus that has the module's name.
    - Every input stream has a DMA that reads memory, and every output stream one that writes it.
      Each has LiteX's CSRs: ``base``, ``length`` in bytes, ``enable``, ``done``, ``loop`` and
      ``offset``. A stream has the name of its port without the prefix, such as ``weights``; an
      output that has the name of an input ends in ``_out``.
    - ``frame`` of an input stream is a CSR: the beats of a frame, such as a row of weights, which
      ends with ``tlast``; 0 where the transfer is one frame.
    - ``user`` of an output stream with errors is a CSR: the bits of all beats since its DMA was
      enabled.
    - An AXI4 memory port is a master of the bus.

    Parameters
    ----------
    soc
        The SoC. The core's Verilog is added to its platform.
    name
        The name of the module, of its region, and of the core in Verilog.
    core
        The core with AXI ports, such as ``gemv_axi``, ``zo_trainer_axi`` or ``sparse_trainer_axi``.
    params
        Parameters of the core.
    folder
        Where the Verilog is written.
    origin
        The address of the registers; by default LiteX allocates one.

    Raises ``ValueError`` for a stream whose width is not a multiple or a part of the bus's.
    """

    def __init__(
        self,
        soc: Any,
        name: str,
        core: str,
        params: Mapping[str, Any] = MappingProxyType({}),
        *,
        folder: Path,
        origin: int | None = None,
    ):
        found = registry.find_verilog(core)
        soc.platform.add_source(str(verilog.write(found, params, folder, name=name)))
        self._name, self._origin = name, origin
        self._pins: dict[str, Any] = {
            "i_aclk": ClockSignal("sys"),
            "i_aresetn": ~ResetSignal("sys"),
        }
        groups: dict[str, dict[str, Port]] = {}
        for port in ports(found.signature(found.configure(params))):
            if match := _PORT.fullmatch(port.name):
                groups.setdefault(match["prefix"], {})[match["wire"]] = port
        for prefix, wires in groups.items():
            if "_axis_" in prefix:
                stem = prefix.partition("_axis_")[2]
                if prefix.startswith("s"):
                    self._reader(soc.bus, prefix, stem, wires)
                else:
                    twice = f"s_axis_{stem}" in groups
                    self._writer(soc.bus, prefix, f"{stem}_out" if twice else stem, wires)
            else:
                self._mapped(soc.bus, prefix, wires)
        self.specials += Instance(name, **self._pins)

    def _pin(self, prefix: str, wire: str, port: Port, signal: Any) -> None:
        self._pins[f"{'i' if port.is_input else 'o'}_{prefix}_{wire}"] = signal

    def _mapped(self, handler: Any, prefix: str, wires: dict[str, Port]) -> None:
        """Connect the registers, or the memory port."""
        if prefix == "s_axi_control":
            bus = AXILiteInterface(data_width=32, address_width=32)
            region = SoCRegion(origin=self._origin, size=REGION, cached=False)
            handler.add_slave(self._name, bus, region)
        else:
            sizes = {"data": wires["wdata"].width, "address": wires["awaddr"].width}
            bus = AXIInterface(
                sizes["data"], sizes["address"], id_width=max(wires["awid"].width, 1)
            )
            handler.add_master(self._name, bus)
        for wire, port in wires.items():
            match = _CHANNEL.fullmatch(wire)
            assert match
            channel, field = match.groups()
            signal = getattr(getattr(bus, channel), field)
            # The core has an address of as many bits as its registers need.
            part = signal if len(signal) == port.width else signal[: port.width]
            self._pin(prefix, wire, port, part)

    def _dma(self, handler: Any, name: str, width: int, kind: type) -> Any:
        """Return a DMA on the bus; refuse a width that is not a number of words."""
        bits = handler.data_width
        if width % bits and bits % width:
            raise ValueError(
                f"the stream {name} has {width} bits, which must be a multiple or a part of the "
                f"bus's {bits}"
            )
        bus = wishbone.Interface(
            data_width=bits, address_width=handler.address_width, addressing="word"
        )
        handler.add_master(f"{self._name}_{name}", bus)
        # With "little", LiteX swaps the bytes of each word.
        dma = kind(bus, endianness="big")
        if kind is WishboneDMAWriter:
            # Without a job, results wait.
            dma.add_ctrl(ready_on_idle=0)
        dma.add_csr()
        self.add_module(name, dma)
        return dma

    def _reader(self, handler: Any, prefix: str, name: str, wires: dict[str, Port]) -> None:
        """Connect an input stream: a DMA, and a converter from the words of the bus."""
        width = wires["tdata"].width
        dma = self._dma(handler, name, width, WishboneDMAReader)
        converter = stream.Converter(handler.data_width, width)
        self.add_module(f"{name}_converter", converter)
        self.comb += dma.source.connect(converter.sink)
        source = converter.source
        last = Signal()
        if "tlast" in wires:
            frame = CSRStorage(32, name=f"{name}_frame")
            setattr(self, f"_{name}_frame", frame)
            count = Signal(32)
            self.comb += last.eq(source.last | (count + 1 == frame.storage))
            self.sync += [
                If(source.valid & source.ready, If(last, count.eq(0)).Else(count.eq(count + 1))),
                If(~dma.enable, count.eq(0)),
            ]
        for wire, signal in {
            "tdata": source.data, "tlast": last, "tvalid": source.valid,
            "tready": source.ready,
        }.items():  # fmt: skip
            if wire in wires:
                self._pin(prefix, wire, wires[wire], signal)

    def _writer(self, handler: Any, prefix: str, name: str, wires: dict[str, Port]) -> None:
        """Connect an output stream: a converter to the words of the bus, a DMA, and its errors."""
        width = wires["tdata"].width
        dma = self._dma(handler, name, width, WishboneDMAWriter)
        converter = stream.Converter(width, handler.data_width)
        self.add_module(f"{name}_converter", converter)
        self.comb += [
            dma.sink.valid.eq(converter.source.valid),
            dma.sink.data.eq(converter.source.data),
            converter.source.ready.eq(dma.sink.ready),
        ]
        sink = converter.sink
        signals = {"tdata": sink.data, "tvalid": sink.valid, "tready": sink.ready}
        if "tuser" in wires:
            signals["tuser"] = user = Signal(wires["tuser"].width)
            status = CSRStatus(len(user), name=f"{name}_user")
            setattr(self, f"_{name}_user", status)
            self.sync += [
                If(~dma.enable, status.status.eq(0)),
                If(sink.valid & sink.ready, status.status.eq(status.status | user)),
            ]
        # The end of the job is the length of the DMA's.
        for wire, signal in signals.items():
            if wire in wires:
                self._pin(prefix, wire, wires[wire], signal)
