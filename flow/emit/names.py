"""Names that a module can have in every tool: Verilog identifiers that are no reserved words."""

import re
from collections.abc import Iterable

__all__ = ["RESERVED", "require_name"]

#: The reserved words of SystemVerilog: IEEE Std 1800-2017, Annex B, Table B.1. Those of Verilog
#: (IEEE Std 1364-2005, Annex B) are among them.
RESERVED = frozenset(
    """
    accept_on alias always always_comb always_ff always_latch and assert assign assume
    automatic before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez
    cell chandle checker class clocking cmos config const constraint context continue cover
    covergroup coverpoint cross deassign default defparam design disable dist do edge else end
    endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup
    endinterface endmodule endpackage endprimitive endprogram endproperty endsequence
    endspecify endtable endtask enum event eventually expect export extends extern final
    first_match for force foreach forever fork forkjoin function generate genvar global highz0
    highz1 if iff ifnone ignore_bins illegal_bins implements implies import incdir include
    initial inout input inside instance int integer interconnect interface intersect join
    join_any join_none large let liblist library local localparam logic longint macromodule
    matches medium modport module nand negedge nettype new nexttime nmos nor noshowcancelled
    not notif0 notif1 null or output package packed parameter pmos posedge primitive priority
    program property protected pull0 pull1 pulldown pullup pulsestyle_ondetect
    pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime ref reg
    reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always
    s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal
    showcancelled signed small soft solve specify specparam static string strong strong0
    strong1 struct super supply0 supply1 sync_accept_on sync_reject_on table tagged task this
    throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior
    trireg type typedef union unique unique0 unsigned until until_with untyped use uwire var
    vectored virtual void wait wait_order wand weak weak0 weak1 while wildcard wire with
    within wor xnor xor
    """.split()  # noqa: SIM905 - a quarter of the lines
)
#: More reserved words of a simulator in its default mode: Icarus Verilog 11, and Verilator 5.
_OF_SIMULATORS = {"bool": "Icarus Verilog", "wone": "Icarus Verilog", "wreal": "Icarus Verilog"}
_OF_SIMULATORS |= {"TOP": "Verilator", "std": "Verilator"}

#: Files are named after the module: its name with a port's name must fit in 255 bytes.
_LONGEST = 100


def require_name(name: str, taken: Iterable[str] = ()) -> str:
    """Return ``name`` if a module can have it, with ports called ``taken``.

    Raises ``ValueError`` for what is no plain identifier, a reserved word, or the name of a port:
    Verilator would have two things of that name.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", name) or len(name) > _LONGEST:
        raise ValueError(
            f"name must be at most {_LONGEST} letters, digits and single underscores between them, "
            f"with a letter first, not {name!r}"
        )
    if name in RESERVED | _OF_SIMULATORS.keys():
        language = _OF_SIMULATORS.get(name, "Verilog or SystemVerilog")
        raise ValueError(f"name must not be {name!r}, a reserved word of {language}")
    if name in taken:
        raise ValueError(f"name must not be {name!r}, the name of a port")
    return name
