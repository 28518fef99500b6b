"""IP-XACT (IEEE 1685-2014) of the cores with AXI ports: bus interfaces, registers, ports, files.

PeakRDL writes the registers, from the SystemRDL of :mod:`seedbed.flow.emit.rdl`.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from seedbed.flow.cores.core import Core
from seedbed.flow.emit import port_docs, verilog
from seedbed.flow.emit.rdl import core_rdl
from seedbed.sim import tools
from seedbed.spec.axi_registers import AXI_REGISTERS

__all__ = ["FILE", "component", "texts"]

#: The file that tools look for.
FILE = "component.xml"
_SPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
_SCHEMA = f"{_SPACE} {_SPACE}/index.xsd"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
#: Arm's names and versions of the buses, by the beginning of a port's name.
_BUSES = {
    "s_axi_control": ("AXI4-Lite", "r0p0_0"),
    "m_axi": ("AXI4", "r0p0_0"),
    "s_axis": ("AXI4Stream", "r0p0_1"),
    "m_axis": ("AXI4Stream", "r0p0_1"),
}
_COMMON = {"ACLK": "aclk", "ARESETn": "aresetn"}


def texts(core: Core, params: Mapping[str, Any]) -> dict[str, str]:
    """Return a core with AXI ports by file: its Verilog, and its IP-XACT.

    Raises ``ValueError`` for another core.
    """
    if not core.inside:
        raise ValueError(f"{core.name} has no AXI ports; IP-XACT is for gemv_axi and the like")
    return {FILE: component(core, params), f"{core.name}.v": verilog.emit(core, params)}


def component(core: Core, params: Mapping[str, Any]) -> str:
    """Return the IP-XACT of a core with AXI ports, whose Verilog is in the same folder."""
    ElementTree.register_namespace("ipxact", _SPACE)
    ElementTree.register_namespace("xsi", _INSTANCE)
    signature = core.signature(core.configure(params))
    ports = port_docs.describe(core.component, signature)
    root = Element(_tag("component"), {f"{{{_INSTANCE}}}schemaLocation": _SCHEMA})
    _leaves(root, vendor="seedbed", library="cores", name=core.name, version=version("seedbed"))
    maps = _memory_maps(core, params)
    buses = _buses([each.port.name for each in ports])
    interfaces = _child(root, "busInterfaces")
    for name, logical in buses.items():
        _interface(interfaces, name, logical, maps)
    if "m_axi" in buses:
        [width] = [each.port.width for each in ports if each.port.name == "m_axi_wdata"] or [
            each.port.width for each in ports if each.port.name == "m_axi_rdata"
        ]
        space = _child(_child(root, "addressSpaces"), "addressSpace")
        _leaves(space, name="memory", range="'h100000000", width=str(width))
    if maps is not None:
        root.append(maps)
    _model(root, core, ports)
    file = _child(_child(root, "fileSets"), "fileSet")
    _leaves(file, name="verilog")
    _leaves(_child(file, "file"), name=f"{core.name}.v", fileType="verilogSource")
    _leaves(root, description=core.title)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    head = f"<!-- IP-XACT of seedbed {version('seedbed')}: {core.name} -->"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n{text}\n'


def _memory_maps(core: Core, params: Mapping[str, Any]) -> Element | None:
    """Return the memory maps that PeakRDL writes, or ``None`` for a core without registers."""
    if core.inside not in AXI_REGISTERS:
        return None
    with TemporaryDirectory() as folder:
        source, made = Path(folder, "map.rdl"), Path(folder, "map.xml")
        source.write_text(core_rdl(core, params))
        tools.run("PEAKRDL", "ip-xact", source, "-o", made, "--standard", "2014")
        return ElementTree.parse(made).getroot().find(_tag("memoryMaps"))


def _buses(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return for each bus interface the port of each signal of the bus."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        if match := re.fullmatch(r"(s_axi_control|m_axi|[sm]_axis_\w+?)_([a-z]+)", name):
            found.setdefault(match[1], {})[match[2].upper()] = name
    return found


def _interface(
    parent: Element, name: str, logical: Mapping[str, str], maps: Element | None
) -> None:
    [(bus, release)] = [b for start, b in _BUSES.items() if re.fullmatch(rf"{start}(_.*)?", name)]
    interface = _child(parent, "busInterface")
    _leaves(interface, name=name)
    arm = {"vendor": "amba.com", "library": "AMBA4", "version": release}
    _child(interface, "busType", arm | {"name": bus})
    abstraction = _child(_child(interface, "abstractionTypes"), "abstractionType")
    _child(abstraction, "abstractionRef", arm | {"name": f"{bus}_rtl"})
    mapped = _child(abstraction, "portMaps")
    for signal, port in (_COMMON | dict(logical)).items():
        both = _child(mapped, "portMap")
        _leaves(_child(both, "logicalPort"), name=signal)
        _leaves(_child(both, "physicalPort"), name=port)
    mode = _child(interface, "slave" if name.startswith("s_") else "master")
    if name == "s_axi_control" and maps is not None:
        own = maps.findtext(f"{_tag('memoryMap')}/{_tag('name')}") or ""
        _child(mode, "memoryMapRef", {"memoryMapRef": own})
    if name == "m_axi":
        _child(mode, "addressSpaceRef", {"addressSpaceRef": "memory"})


def _model(root: Element, core: Core, ports: Sequence[port_docs.PortDoc]) -> None:
    model = _child(root, "model")
    view = _child(_child(model, "views"), "view")
    _leaves(view, name="rtl", componentInstantiationRef="rtl")
    instance = _child(_child(model, "instantiations"), "componentInstantiation")
    _leaves(instance, name="rtl", language="verilog", moduleName=core.name)
    _leaves(_child(instance, "fileSetRef"), localName="verilog")
    listed = _child(model, "ports")
    for each in ports:
        port = _child(listed, "port")
        _leaves(port, name=each.port.name, description=each.description)
        wire = _child(port, "wire")
        _leaves(wire, direction="in" if each.port.is_input else "out")
        if each.port.width > 1:
            vector = _child(_child(wire, "vectors"), "vector")
            _leaves(vector, left=str(each.port.width - 1), right="0")


def _tag(name: str) -> str:
    return f"{{{_SPACE}}}{name}"


def _child(parent: Element, name: str, attributes: Mapping[str, str] | None = None) -> Element:
    return SubElement(parent, _tag(name), dict(attributes or {}))


def _leaves(parent: Element, **leaves: str) -> None:
    """Add elements that are text."""
    for name, text in leaves.items():
        _child(parent, name).text = text
