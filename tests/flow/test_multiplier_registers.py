"""Holds multipliers with registers inside to what they were with registers around them."""

import json

import pytest

from seedbed.flow.fpga.ecp5 import multiplier_registers
from seedbed.sim import tools

LIBRARY = "+/lattice/cells_sim_ecp5.v"
#: The block as Lattice describes it (TN-02205), as far as it is used: signed, one clock, no reset.
MODEL = """\
module MULT18X18D({ports}, SIGNEDA, SIGNEDB, CLK0, CE0, CE1, CE2, RST0, {others}, {result});
  parameter REG_INPUTA_CLK = "NONE", REG_INPUTB_CLK = "NONE", REG_OUTPUT_CLK = "NONE";
  parameter REG_INPUTA_CE = "CE0", REG_INPUTB_CE = "CE0", REG_OUTPUT_CE = "CE0";
  parameter REG_INPUTA_RST = "RST0", REG_INPUTB_RST = "RST0", REG_OUTPUT_RST = "RST0";
  parameter GSR = "ENABLED";
  input {ports}, SIGNEDA, SIGNEDB, CLK0, CE0, CE1, CE2, RST0, {others};
  output {result};
  wire signed [17:0] a = {{{a}}}, b = {{{b}}};
  reg signed [17:0] ra, rb;
  reg signed [35:0] rp;
  initial begin ra = 0; rb = 0; rp = 0; end
  wire signed [17:0] qa = REG_INPUTA_CLK == "NONE" ? a : ra;
  wire signed [17:0] qb = REG_INPUTB_CLK == "NONE" ? b : rb;
  wire signed [35:0] p = qa * qb;
  always @(posedge CLK0) begin
    if (CE0) ra <= a;
    if (CE1) rb <= b;
    if (CE2) rp <= p;
  end
  assign {{{result}}} = REG_OUTPUT_CLK == "NONE" ? p : rp;
endmodule
"""
HEAD = (
    "module times(input clk, input rst, input en, input signed [4:0] a, input signed [3:0] b,"
    " input signed [3:0] c, output signed [8:0] o, output signed [8:0] q, output [4:0] s);\n"
    "  reg signed [4:0] x = 0;\n  reg signed [3:0] y = 0, z = 0;\n"
    "  reg signed [8:0] p = 0, r = 0;\n"
)
STEPS = "x <= a; y <= b; z <= c; p <= x * y; r <= x * z;"
SHOWN = "  assign o = p, q = 0, s = 0;\n"
BOTH = "  assign o = p, q = r, s = 0;\n"
MARKED = "a register that is marked"
KEEP = "(* keep *) reg signed [4:0]"
#: :mod:`seedbed.flow.emit.postprocess` marks one `always` of a register: here, it has several.
MARK = "setattr -set keep 1 a:keep %ci1:+[Q] t:*dff* %i\n"
ALL = "INPUTA INPUTB OUTPUT"
#: By name: what is done in a cycle, what is shown, what the multipliers take in, and how many
#: registers and LUTs are left.
CASES = {
    "alone": (STEPS, SHOWN, [ALL], 0, 0),
    "one register for two": (STEPS, BOTH, [ALL, ALL], 0, 0),
    "an operand read elsewhere": (STEPS, SHOWN.replace("s = 0", "s = x"), [ALL], 5, 0),
    MARKED: (STEPS, SHOWN, ["OUTPUT"], 9, 0),
    "enables": ("x <= a; if (en) y <= b; if (rst) p <= x * y;", SHOWN, [ALL], 0, 0),
    "a bit with a reset": (f"{STEPS} if (rst) y[3] <= 0;", SHOWN, [ALL], 0, 1),
    "a reset of the result": (f"{STEPS} if (rst) p <= 0;", SHOWN, ["INPUTA INPUTB"], 9, 0),
    "a result read before": (STEPS, BOTH.replace("q = r", "q = x * y"), ["INPUTA INPUTB"], 9, 0),
    "one operand without": (f"{STEPS} p <= x * b;", SHOWN, ["OUTPUT"], 5, 0),
    "an enable of some bits": (f"{STEPS} if (!en) y[0] <= y[0];", SHOWN, ["OUTPUT"], 9, 0),
    "a reset behind an enable": (
        "x <= a; if (en) begin y <= b; if (rst) y[3] <= 0; end p <= x * y;",
        SHOWN,
        ["OUTPUT"],
        9,
        1,
    ),
    "one product after another": (
        "x <= a; y <= b; p <= x * y; z <= p[3:0]; r <= z * y;",
        BOTH,
        [ALL, ALL],
        0,
        0,
    ),
}  # fmt: skip

#: Mistakes that would show.
WRONG = {
    "a bit with a reset": ("_and_not", lambda self, bit, reset: bit),
    "an enable of some bits": ("_same_control_set", lambda self, registers: True),
}


def model():
    def pins(name, n):
        return [f"{name}{i}" for i in range(n)][::-1]

    operands = {k: ", ".join(pins(k.upper(), 18)) for k in "ab"}
    others = ", ".join([*pins("C", 18), "SOURCEA", "SOURCEB"])
    return MODEL.format(
        ports=", ".join(operands.values()), result=", ".join(pins("P", 36)), others=others,
        **operands,
    )  # fmt: skip


def yosys(folder, script):
    (folder / "run.ys").write_text(script)
    tools.run("YOSYS", "-q", "-l", "run.log", "-s", "run.ys", cwd=folder)


@pytest.fixture(scope="module")
def around(tmp_path_factory):
    """Each case's core as yosys maps it, as JSON: modules of one design that stay what they are."""
    folder = tmp_path_factory.mktemp("around")
    names = {name: name.replace(" ", "_") for name in CASES}
    text = ""
    for name, (steps, shown, *_) in CASES.items():
        head = HEAD.replace("reg signed [4:0] x", f"{KEEP} x") if name == MARKED else HEAD
        head = head.replace("module times(", f"module {names[name]}(")
        text += f"{head}  always @(posedge clk) begin {steps} end\n{shown}endmodule\n"
    ports = "".join(f", input [13:0] i{k}, output [22:0] o{k}" for k in range(len(CASES)))
    text += f"module all_of_them(input clk{ports});\n"
    for k, name in enumerate(names.values()):
        pins = f"i{k}[0], i{k}[1], i{k}[6:2], i{k}[10:7], {{i{k}[13:11], 1'b0}}"
        text += f"  {name} core_{k}(clk, {pins}, o{k}[8:0], o{k}[17:9], o{k}[22:18]);\n"
    (folder / "all.v").write_text(f"{text}endmodule\n")
    script = f"read_verilog all.v\nproc\n{MARK}synth_ecp5 -noflatten -top all_of_them\n"
    yosys(folder, f"{script}write_json all.json\n")
    modules = json.loads((folder / "all.json").read_text())["modules"]
    return {name: json.dumps({"modules": {"times": modules[names[name]]}}) for name in CASES}


def inside(around, name):
    """Return a case's core with registers in its multipliers."""
    design = json.loads(around[name])
    multiplier_registers.pack(design["modules"]["times"])
    return design


@pytest.fixture(scope="module")
def proofs(around, tmp_path_factory):
    """Whether cores give the same before and after, in each of the first cycles, by SAT."""
    folder = tmp_path_factory.mktemp("proofs")
    (folder / "model.v").write_text(model())
    designs = {(name, None): inside(around, name) for name in CASES}
    for name, (what, wrong) in WRONG.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(multiplier_registers._Packer, what, wrong)
            designs[name, what] = inside(around, name)
    script = f"read_verilog -overwrite {LIBRARY}\nread_verilog -overwrite model.v\n"
    script += "design -save models\n"
    for k, ((name, _), design) in enumerate(designs.items()):
        (folder / f"before_{k}.json").write_text(around[name])
        (folder / f"after_{k}.json").write_text(json.dumps(design))
        script += (
            "design -load models\n"
            f"read_json before_{k}.json\nrename times gold\n"
            f"read_json after_{k}.json\nrename times gate\n"
            "miter -equiv -make_outputs gold gate miter\nhierarchy -top miter\nproc\nflatten\n"
            # Products of as many bits as there are, or the solver takes ten times as long.
            "opt -full\nwreduce\nopt -full\n"
            f"tee -o {k}.txt sat -seq 5 -set-init-zero -prove trigger 0 miter\n"
        )
    yosys(folder, script)
    found = {}
    for k, key in enumerate(designs):
        text = (folder / f"{k}.txt").read_text()
        assert ("SUCCESS!" in text) != ("FAIL!" in text)
        found[key] = "SUCCESS!" in text
    return found


def taken(design):
    """Return what the multipliers take in, and how many registers and LUTs are left."""
    cells = {}
    for cell in design["modules"]["times"]["cells"].values():
        cells.setdefault(cell["type"], []).append(cell)
    registers = [
        " ".join(k for k in ALL.split() if f"REG_{k}_CLK" in cell["parameters"])
        for cell in cells[multiplier_registers.MULTIPLIER]
    ]
    return registers, len(cells.get("TRELLIS_FF", [])), len(cells.get("LUT4", []))


def test_registers_move_into_multipliers(around):
    """Of all cases in one test, and so are the proofs: it is yosys that takes the time."""
    expected = {
        name: (found, registers, luts) for name, (_, _, found, registers, luts) in CASES.items()
    }
    assert {name: taken(inside(around, name)) for name in CASES} == expected


def test_nothing_else_changes_and_a_wrong_register_is_seen(proofs):
    right = {(name, None): True for name in CASES}
    assert proofs == right | {(name, what): False for name, (what, _) in WRONG.items()}
