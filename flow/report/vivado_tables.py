"""A script for Vivado that repeats the papers' tables of resources with these cores."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.report.kinds import plain
from seedbed.flow.report.paper import reference

__all__ = ["SCRIPT", "Entry", "entries", "texts"]

#: The script.
SCRIPT = "tables.tcl"
#: Device and clock in MHz of each table. PeZO names the board, ZCU102, and a clock for each row;
#: SeedLM names the clock, and the data sheet of the device.
TABLES: dict[str, tuple[str, float]] = {
    "Table 6": ("xczu9eg-ffvb1156-2-e", 700),
    "SeedLM, Table 4": ("xc7v585tffg1157-3", 200),
}
_NAMES = {"Table 6": "PeZO, Table 6"}
_TCL = """\
# Vivado script of seedbed {version}: vivado -mode batch -source {script}
#
# Places and routes each core out of context, and writes tables.csv and reports to this folder:
# {titles}. Nobody has run it so far.

set folder [file dirname [file normalize [info script]]]

# Table and row of the paper, module, device, clock in MHz.
set rows {{
{rows}
}}

# The number in the first row of a table with that name, or 0.
proc used {{report name}} {{
    set found 0
    set pattern {{^\\|\\s*NAME\\*?\\s*\\|\\s*(\\d+(?:\\.\\d+)?)}}
    regexp -line [string map [list NAME $name] $pattern] $report whole found
    return $found
}}

set table [open [file join $folder tables.csv] w]
puts $table "table;row;module;device;clock_mhz;lut;ff;bram36;dsp;slack_ns;fmax_mhz;power_w"
foreach row $rows {{
    lassign $row paper name module device mhz
    set period [expr {{1000.0 / $mhz}}]
    create_project -in_memory -part $device
    read_verilog [file join $folder $module.v]
    synth_design -top $module -part $device -mode out_of_context
    create_clock -name clk -period $period [get_ports clk]
    opt_design
    place_design
    route_design
    set report [report_utilization -return_string]
    set lut [used $report "(?:CLB|Slice) LUTs"]
    set ff [used $report "(?:CLB|Slice) Registers"]
    set bram [used $report "Block RAM Tile"]
    set dsp [used $report "DSPs"]
    set slack [get_property SLACK [get_timing_paths -max_paths 1]]
    set fmax [expr {{1000.0 / ($period - $slack)}}]
    set power 0
    set report [report_power -return_string]
    regexp {{Total On-Chip Power \\(W\\)\\s*\\|\\s*([0-9.]+)}} $report whole power
    puts $table [join [list $paper $name $module $device $mhz \
        $lut $ff $bram $dsp $slack $fmax $power] ";"]
    report_utilization -file [file join $folder $module-utilization.rpt]
    report_timing_summary -file [file join $folder $module-timing.rpt]
    report_power -file [file join $folder $module-power.rpt]
    close_project
}}
close $table
"""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A row of a paper's table: the core, its module and parameters, device and clock in MHz."""

    table: str
    row: str
    core: str
    module: str
    params: dict[str, Any]
    device: str
    mhz: float


def entries() -> list[Entry]:
    """Return what the script measures: of each core in a row, the first configuration for it."""
    found: dict[tuple[str, str], Entry] = {}
    for core in registry.CORES.values():
        for variant in core.variants.values():
            params = plain(core, variant.params)
            paper = reference(core.name, params, "synthesis", "xcup")
            if not paper or paper["table"] not in TABLES or (core.name, paper["row"]) in found:
                continue
            device, mhz = TABLES[paper["table"]]
            found[core.name, paper["row"]] = Entry(
                table=paper["table"],
                row=paper["row"],
                core=core.name,
                module=f"{core.name}_{len(found)}",
                params=dict(variant.params),
                device=device,
                mhz=paper["figures"].get("fmax_mhz", mhz),
            )
    return [*found.values()]


def texts() -> dict[str, str]:
    """Return the files by name: the script, and the Verilog of each row."""
    found = entries()
    lines = [
        f"    {{{{{_NAMES.get(e.table, e.table)}}} {{{e.row}}} {e.module} {e.device} {e.mhz:g}}}"
        for e in found
    ]
    titles = " and ".join(f"{_NAMES.get(table, table)}" for table in TABLES)
    script = _TCL.format(
        version=version("seedbed"), script=SCRIPT, rows="\n".join(lines), titles=titles
    )
    modules = {
        f"{e.module}.v": verilog.emit(registry.find(e.core), e.params, name=e.module) for e in found
    }
    return {SCRIPT: script, **modules}
