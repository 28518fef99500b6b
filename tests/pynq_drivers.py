"""Drivers for PYNQ for tests: on the emitted Verilog, with the models of cocotbpynq."""

import json
from xml.etree import ElementTree

from amaranth.hdl import Shape
from amaranth.lib.wiring import In

from seedbed.boards import drivers
from seedbed.flow.cores.registry import WRAPPERS
from seedbed.flow.emit.verilog import write
from seedbed.sim.verilog import verilate

#: The module that is simulated: a core, with streams of 32 bits as those of the DMA model.
TOP = "pynq_top"
#: Where the core's registers are.
BASE, RANGE = 0x4000_0000, 0x1000

_CONVERTERS = """
module words_to_beats #(parameter WORDS = 1) (
    input clk, input aresetn,
    input [31:0] s_tdata, input s_tvalid, output s_tready, input s_tlast,
    output reg [32 * WORDS - 1:0] m_tdata, output reg m_tvalid, input m_tready, output reg m_tlast
);
    reg [7:0] count;
    assign s_tready = !m_tvalid || m_tready;
    always @(posedge clk) begin
        if (m_tready) m_tvalid <= 0;
        if (s_tvalid && s_tready) begin
            m_tdata[32 * count +: 32] <= s_tdata;
            count <= count == WORDS - 1 ? 0 : count + 1;
            m_tvalid <= count == WORDS - 1;
            m_tlast <= s_tlast;
        end
        if (!aresetn) {m_tvalid, count} <= 0;
    end
endmodule

module beats_to_words #(parameter WORDS = 1) (
    input clk, input aresetn,
    input [32 * WORDS - 1:0] s_tdata, input s_tvalid, output s_tready, input s_tlast,
    output [31:0] m_tdata, output m_tvalid, input m_tready, output m_tlast
);
    reg [7:0] count;
    assign m_tdata = s_tdata[32 * count +: 32];
    assign m_tvalid = s_tvalid;
    assign m_tlast = s_tlast && count == WORDS - 1;
    assign s_tready = m_tready && count == WORDS - 1;
    always @(posedge clk) begin
        if (m_tvalid && m_tready) count <= count == WORDS - 1 ? 0 : count + 1;
        if (!aresetn) count <= 0;
    end
endmodule

// As an interconnect. The model of the processor sends an address first, and its data after it,
// whereas a core may wait for both.
module address_buffer #(parameter WIDTH = 1) (
    input clk, input aresetn,
    input [WIDTH - 1:0] s_addr, input s_valid, output s_ready,
    output reg [WIDTH - 1:0] m_addr, output reg m_valid, input m_ready
);
    assign s_ready = !m_valid;
    always @(posedge clk) begin
        if (m_ready) m_valid <= 0;
        if (s_valid && s_ready) {m_valid, m_addr} <= {1'b1, s_addr};
        if (!aresetn) m_valid <= 0;
    end
endmodule
"""
_STREAM = ("tdata", "tvalid", "tready", "tlast")
_LITE = [f"aw{n}" for n in ("addr", "valid", "ready")] + [f"w{n}" for n in ("data", "strb")]
_LITE += ["wvalid", "wready", "bresp", "bvalid", "bready", "araddr", "arvalid", "arready"]
_LITE += ["rdata", "rresp", "rvalid", "rready"]


def beat_bytes(name, members):
    """Return the bytes of tdata of each stream."""
    return {
        port: -(-Shape.cast(members[f"{port}_tdata"].shape).width // 8)
        for port in drivers.streams(name)
    }


def _stream(port, bits, user, octets):
    """Return the ports of a stream of the top, its converter, and connections of the core.

    A beat in memory has tdata and then tuser, from a whole byte on.
    """
    given = port.startswith("s_")
    size = max(4, octets + 4 * bool(user))
    words = (1 << (size - 1).bit_length()) // 4
    into, out = ("input", "output") if given else ("output", "input")
    ports = [f"{into} [31:0] {port}_tdata", f"{into} {port}_tvalid", f"{out} {port}_tready"]
    ports += [f"{into} {port}_tlast"]
    kind, inner, outer = ("words_to_beats", "m", "s") if given else ("beats_to_words", "s", "m")
    wired = [f".{inner}_{n}({port}_{n}_w)" for n in _STREAM]
    wired += [f".{outer}_{n}({port}_{n})" for n in _STREAM]
    body = [f"    wire [{32 * words - 1}:0] {port}_tdata_w;"]
    body += [f"    wire {port}_{n}_w;" for n in _STREAM[1:]]
    body += [f"    {kind} #({words}) {port} (.clk(clk), .aresetn(aresetn), {', '.join(wired)});"]
    core = [f".{port}_{n}({port}_{n}_w)" for n in _STREAM[1:]]
    core += [f".{port}_tdata({port}_tdata_w[{bits - 1}:0])"]
    used = [(0, bits)]
    if user:
        core += [f".{port}_tuser({port}_tdata_w[{8 * octets + user - 1}:{8 * octets}])"]
        used += [(8 * octets, 8 * octets + user)]
    if not given:
        # What is between and after the fields is 0.
        starts, ends = [end for _, end in used], [start for start, _ in used[1:]] + [32 * words]
        body += [
            f"    assign {port}_tdata_w[{end - 1}:{start}] = 0;"
            for start, end in zip(starts, ends, strict=True)
            if end > start
        ]
    return ports, body, core


def top(core, config):
    """Return the Verilog of :data:`TOP`."""
    members = core.signature(config).members
    name = core.name.removesuffix("_axi")
    octets = beat_bytes(name, members)
    ports, body, wired = ["input clk"], [], [".aclk(clk)"]
    address = "s_axi_control_aw"
    for port, member in members.items():
        if port == "aclk" or port.startswith(("s_axis", "m_axis")):
            continue
        width = Shape.cast(member.shape).width
        ports.append(f"{'input' if member.flow is In else 'output'} [{width - 1}:0] {port}")
        wired.append(f".{port}({port}{'_w' if port.startswith(address) else ''})")
        if port == f"{address}addr":
            pairs = [
                f".{a}_{n}({address}{n}{w})"
                for n in ("addr", "valid", "ready")
                for a, w in (("s", ""), ("m", "_w"))
            ]
            body += [f"    wire [{width - 1}:0] {port}_w;", f"    wire {address}valid_w;"]
            body += [
                f"    wire {address}ready_w;",
                f"    address_buffer #({width}) address_buffer ("
                f".clk(clk), .aresetn(aresetn), {', '.join(pairs)});",
            ]
    for port in drivers.streams(name):
        user = f"{port}_tuser" in members and Shape.cast(members[f"{port}_tuser"].shape).width
        bits = Shape.cast(members[f"{port}_tdata"].shape).width
        of_top, of_body, of_core = _stream(port, bits, user, octets[port])
        ports, body, wired = ports + of_top, body + of_body, wired + of_core
    listed = ",\n    ".join(ports)
    connected = ",\n        ".join(wired)
    instance = f"    {core.name} core (\n        {connected}\n    );"
    lines = [f"module {TOP} (\n    {listed}\n);", *body, instance, "endmodule"]
    return _CONVERTERS + "\n" + "\n".join(lines) + "\n"


def handoff(core, config, engines):
    """Return the hardware handoff of a design with the core and engines, each with its streams."""
    root = ElementTree.Element("EDKSYSTEM")
    modules = ElementTree.SubElement(root, "MODULES")

    def module(instance, **values):
        return ElementTree.SubElement(
            modules, "MODULE", INSTANCE=instance, FULLNAME=f"/{instance}", **values
        )

    vlnv = f"xilinx.com:module_ref:{core.name}:1.0"
    of_core = module(f"{core.name}_0", MODTYPE=TOP, VLNV=vlnv)
    ports = ElementTree.SubElement(of_core, "PORTS")
    ElementTree.SubElement(ports, "PORT", NAME="clk", SIGIS="clk")
    ElementTree.SubElement(ports, "PORT", NAME="aresetn", SIGIS="rst", POLARITY="ACTIVE_LOW")
    buses = ElementTree.SubElement(of_core, "BUSINTERFACES")
    processor = module("ps", MODTYPE="processing_system7", VLNV="")
    memory = ElementTree.SubElement(processor, "MEMORYMAP")

    def bus(port, signals):
        found = ElementTree.SubElement(buses, "BUSINTERFACE", NAME=port, BUSNAME=f"bus_{port}")
        maps = ElementTree.SubElement(found, "PORTMAPS")
        for signal in signals:
            ElementTree.SubElement(
                maps, "PORTMAP", LOGICAL=signal.upper(), PHYSICAL=f"{port}_{signal}"
            )

    def mapped(instance, base, port):
        ElementTree.SubElement(
            memory, "MEMRANGE", INSTANCE=instance, BASEVALUE=hex(base),
            HIGHVALUE=hex(base + RANGE), SLAVEBUSINTERFACE=port,
        )  # fmt: skip

    if "s_axi_control_awaddr" in core.signature(config).members:
        bus("s_axi_control", _LITE)
        mapped(f"{core.name}_0", BASE, "s_axi_control")
    for k, (engine, streams) in enumerate(engines.items(), start=1):
        mapped(engine, BASE + 2 * k * RANGE, "S_AXI_LITE")
        of_engine = module(engine, VLNV="xilinx.com:ip:axi_dma:7.1", MODTYPE="axi_dma")
        ends = ElementTree.SubElement(of_engine, "BUSINTERFACES")
        for port in streams:
            bus(port, _STREAM)
            ElementTree.SubElement(
                ends, "BUSINTERFACE", BUSNAME=f"bus_{port}", VLNV="xilinx.com:interface:axis:1.0",
                TYPE="INITIATOR" if port.startswith("s_") else "TARGET",
            )  # fmt: skip
    return ElementTree.tostring(root, encoding="unicode")


def simulate(test, core, params, engines, setup, *, folder, build):
    """Run a test of pynq_bench.py on a core's emitted Verilog, with files in ``folder``."""
    config = core.configure(params)
    emitted = write(core, params, folder, kept=build)
    verilog = folder / f"{TOP}.v"
    verilog.write_text(emitted.read_text() + top(core, config))
    (folder / "seedbed.hwh").write_text(handoff(core, config, engines))
    setup = {"folder": str(folder), **setup}
    verilate.run_tests(verilog, TOP, "pynq_bench", [test], setup, seed=1, build=build / "pynq")
    return json.loads((folder / "found.json").read_text())


def axi_bench(name, params, build):
    """Return a function that runs a script on a core's emitted Verilog, and the configuration.

    The function yields the lines that are printed.
    """
    core = WRAPPERS[f"{name}_axi"]
    params = {**core.small, **params}
    config = core.configure(params)
    octets = beat_bytes(name, core.signature(config).members)
    engines = {f"dma_{port}": [port] for port in octets}

    def run(script):
        setup = {"core": name, "script": script.name, "beat_bytes": octets}
        yield simulate(
            "runs_script", core, params, engines, setup, folder=script.parent, build=build
        )

    return run, config
