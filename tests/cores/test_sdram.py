# amaranth: UnusedElaboratable=no
"""The SDRAM controller with a model of the chip that checks its rules, and the model itself."""

import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from seedbed.golden.sdram import lines_of_pin
from seedbed.hw.memory import sdram
from seedbed.hw.memory.forward_cache import ForwardCache
from seedbed.hw.memory.memory_port import connect_memory
from seedbed.hw.memory.sdram import Sdram, pin_signature
from seedbed.hw.memory.sdram_commands import SdramCommands
from seedbed.sim import sdram_chip, tools
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.forward_cache import Session
from seedbed.sim.cases.sdram import case
from seedbed.sim.harness import Stalls, simulate
from seedbed.sim.prove import Mutant
from seedbed.sim.sdram_chip import RULES, Fault, RuleBroken, SdramModel, connect_chip
from seedbed.spec import SDRAM_CHIPS, ForwardCacheConfig, SdramConfig

#: A chip that is ready at once, for short simulations.
READY = replace(SDRAM_CHIPS["slowest"], power_up=900)
SHORT = {"retention": 1, "power_up_us": 1, "other": READY}


class Recorded(SdramModel):
    """A model that keeps its pins and what it drives in each cycle."""

    def __post_init__(self):
        super().__post_init__()
        self.trace, self.words = [], []

    def step(self, **pins):
        self.trace.append(pins)
        try:
            word = super().step(**pins)
        except RuleBroken as broken:
            self.broken = broken
            raise
        self.words.append(-1 if word is None else word)
        return word


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The model in C++, which reads a trace."""
    path = tmp_path_factory.mktemp("sdram") / "trace"
    source = Path(__file__).with_name("sdram_trace.cpp")
    tools.run(
        "CXX", "-std=c++17", "-O1", f"-I{Path(sdram_chip.__file__).parent}", source, "-o", path
    )
    return path


@pytest.fixture
def twin(program):
    """A model that is compared, after the test, with the one in C++."""
    models = []

    def make(*arguments):
        models.append(Recorded(*arguments))
        return models[-1]

    yield make
    for model in models:
        lines = (
            f"{p['ras']} {p['cas']} {p['we']} {p['ba']} {p['a']} {p['dq'] or 0} "
            f"{int(p['dq'] is not None)}"
            for p in model.trace
        )
        figures = [str(value) for value in (*asdict(model.chip).values(), model.clock_mhz)]
        done = subprocess.run(
            [program, *figures], input="\n".join(lines), capture_output=True, text=True, check=False
        )
        assert [int(word) for word in done.stdout.split()] == model.words
        if len(model.words) < len(model.trace):
            assert done.returncode == 3
            assert done.stderr == f"the memory's chip: {model.broken}\n"
        else:
            assert (done.returncode, done.stderr) == (0, "")


def run(config, chip=None, *, stalls=Stalls.NONE, seed=3, bursts=24, kind=SdramModel):
    """Run the case on a controller with a chip; return the model and the result."""
    dut = Sdram(config)
    model = kind(chip or config.figures, config.clock_mhz)
    result = simulate(
        dut, case(config, Random(seed), bursts=bursts, chip=True), stalls=stalls, seed=seed,
        around=connect_chip(dut.pins, model, delay=config.pad_cycles),
    )  # fmt: skip
    return model, result


@pytest.mark.parametrize(
    ("params", "stalls"),
    [({}, stalls) for stalls in Stalls]
    + [
        ({"beat_bits": 32, "clock_mhz": 133, "pad_cycles": 2}, Stalls.BOTH),
        ({"beat_bits": 128, "clock_mhz": 100, "pad_cycles": 0}, Stalls.READY),
        ({"beat_bits": 256, "read_beats": 4}, Stalls.BOTH),
        ({"beat_bits": 512, "clock_mhz": 133, "pad_cycles": 4, "read_beats": 4}, Stalls.VALID),
        ({"clock_mhz": 25, "refresh_group": 1}, Stalls.BOTH),
        ({"refresh_group": 8, "other": replace(SDRAM_CHIPS["AS4C16M16SA-7"], power_up=900)},
         Stalls.BOTH),
    ],
)  # fmt: skip
def test_matches_model_with_a_chip(params, stalls, twin):
    model, _ = run(SdramConfig(**SHORT | params), stalls=stalls, bursts=36, kind=twin)
    assert model.refreshes >= 2


def test_without_a_chip_every_answer_has_an_error():
    config = SdramConfig(**SHORT)
    simulate(Sdram(config), case(config, Random(3)), stalls=Stalls.BOTH, seed=3)


#: By rule: a chip, what the controller takes it for, and other parameters. At 133 MHz with bursts
#: of two words, more figures decide than at 60 MHz.
FAST = {"clock_mhz": 133, "beat_bits": 32}
MUTANTS = {
    "power-up": (READY, {}, {"power_up_us": 0}),
    "mode": (READY, {"latency_2_mhz": 133}, FAST),
    "tRCD": (READY, {"rcd": 10}, FAST),
    "tRP": (READY, {"rp": 5}, {}),
    "tRAS": (READY, {"ras": 10, "rc": 10}, FAST),
    "tRAS max": (replace(READY, ras_max=5000), {}, {"refresh_group": 8}),
    "tRC": (replace(READY, rc=120), {"rc": 10}, FAST),
    "tRRD": (replace(READY, rrd=60), {"rrd": 0}, FAST),
    "tWR": (READY, {"wr": 0}, FAST),
    "tRFC": (READY, {"rfc": 30}, {}),
    "tMRD": (replace(READY, mrd=200), {"mrd": 0}, {}),
    "refresh": (replace(READY, refresh=1500), {"refresh": 3000}, {}),
}
#: By rule: what is changed in the RTL.
CHANGES = {
    "initialisation": Mutant(
        name="one refresh", old="init=POWER_UP_REFRESHES", new="init=1"
    ),
    "row": Mutant(
        name="closed rows", old="waiting.is_open[k] & (given.bank == k)", new="(given.bank == k)"
    ),
    "turnaround": Mutant(
        name="no gap", old="turn = config.latency + burst", new="turn = config.latency + burst - 1"
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", MUTANTS)
def test_a_controller_with_a_wrong_figure_breaks_its_rule(rule, twin):
    chip, wrong, params = MUTANTS[rule]
    config = SdramConfig(**SHORT | {"other": replace(chip, **wrong)} | params)
    with pytest.raises(RuleBroken, match=f"^{rule} in cycle [0-9]+: ") as found:
        run(config, chip, bursts=60, kind=twin)
    assert found.value.rule == rule


@pytest.mark.parametrize("rule", [rule for rule, (_, wrong, _) in MUTANTS.items() if wrong])
def test_the_right_figure_breaks_no_rule(rule):
    chip, _, params = MUTANTS[rule]
    run(SdramConfig(**SHORT | {"other": chip} | params), bursts=60)


@pytest.mark.parametrize("rule", CHANGES)
def test_a_controller_with_a_defect_breaks_its_rule(rule, monkeypatch, twin):
    monkeypatch.setattr(sdram, "SdramCommands", CHANGES[rule].apply(SdramCommands))
    with pytest.raises(RuleBroken) as found:
        run(SdramConfig(**SHORT), bursts=60, kind=twin)
    assert found.value.rule == rule


def test_every_rule_has_a_mutant():
    assert set(RULES) == set(MUTANTS) | set(CHANGES)


@pytest.mark.parametrize(("write", "gap"), [(0, 4), (1, 5)])
@pytest.mark.parametrize("early", [0, 1])
def test_a_row_that_closes_itself_is_closed_in_time(write, gap, early, twin):
    """At 133 MHz, tWR is two cycles and tRP three; a word of a read takes one."""
    model = twin(READY, 133)

    def command(name, *, a=0, idle=0):
        ras, cas, we = (int(letter in name) for letter in "rcw")
        model.step(ras=ras, cas=cas, we=we, ba=0, a=a, dq=7 if name == "cw" else None)
        for _ in range(idle):
            model.step(ras=0, cas=0, we=0, ba=0, a=0, dq=None)

    command("", idle=130)
    for name in ("rw", "rc", "rc", "rcw"):
        command(name, a=0x30 if name == "rcw" else 1 << 10, idle=12)
    command("r", a=5, idle=12)
    command("cw" if write else "c", a=1 << 10, idle=gap - 1 - early)
    if not early:
        command("r", a=6)
        return
    with pytest.raises(RuleBroken, match=r"^tRP in cycle"):
        command("r", a=6)


def status_after(config, fault):
    """Return the status after the self-test of a board with a fault."""
    dut, model = Sdram(config), SdramModel(config.figures, config.clock_mhz, fault)
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(connect_chip(dut.pins, model, delay=config.pad_cycles), background=True)
    found = {}

    async def wait(ctx):
        await ctx.tick().until(dut.status.done)
        found.update({name: ctx.get(dut.status[name]) for name in ("failed", "lines", "bits")})

    simulator.add_testbench(wait)
    simulator.run()
    return found


@pytest.mark.parametrize("pin", [0, 3, 8, 9, 12])
@pytest.mark.parametrize("level", [0, 1])
def test_a_stuck_address_pin_is_found(pin, level):
    config = SdramConfig(**SHORT)
    found = status_after(config, Fault(address=pin, level=level))
    lines = lines_of_pin(config, pin)
    assert lines.bit_count() in (1, 2)
    assert found == {"failed": 1, "lines": lines, "bits": 0}


@pytest.mark.parametrize(("pin", "level"), [(0, 1), (7, 0), (15, 1)])
def test_a_stuck_data_pin_is_found(pin, level):
    config = SdramConfig(**SHORT)
    found = status_after(config, Fault(data=pin, level=level))
    assert (found["failed"], found["bits"]) == (1, 1 << pin)


def test_cells_that_lose_their_contents_are_found():
    config = SdramConfig(**SHORT | {"retention": 3})
    # Three refreshes take 23 us; writing and reading the patterns takes 10.
    assert status_after(config, Fault(decay=15_000))["failed"]
    assert not status_after(config, Fault(decay=60_000))["failed"]
    assert not status_after(SdramConfig(**SHORT | {"retention": 0}), Fault(decay=15_000))["failed"]


@pytest.mark.parametrize("write", [0, 1])
def test_a_user_that_pauses_does_not_delay_refreshes(write):
    """It gives no data, or accepts none, for so long that rows would lose their contents."""
    config = SdramConfig(**SHORT | {"other": replace(READY, refresh=1500)})
    dut, model = Sdram(config), SdramModel(config.figures, config.clock_mhz)
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(connect_chip(dut.pins, model, delay=config.pad_cycles), background=True)

    async def pauses(ctx):
        ctx.set(dut.i_command.payload, {"address": 0x3000, "write": write, "length": 99})
        ctx.set(dut.i_command.valid, 1)
        await ctx.tick().until(dut.i_command.ready)
        await ctx.tick().repeat(3000)
        ctx.set(dut.i_write.valid, 1)
        ctx.set(dut.o_read.ready, 1)
        before = model.refreshes
        for _ in range(100):
            await ctx.tick().until(dut.i_write.ready if write else dut.o_read.valid)
        assert before >= 30

    simulator.add_testbench(pauses)
    simulator.run()


def test_throughput_and_latency():
    """A long burst takes a word a cycle, but for a refresh; an open row has a known latency."""
    config = SdramConfig(**SHORT | {"retention": 0})
    dut, model = Sdram(config), SdramModel(config.figures, config.clock_mhz)
    # Two bursts of one row, the second one long after the first.
    base = 0x3000
    commands = [base | (length - 1) << config.address_bits + 1 for length in (5, 256)]
    beats = [
        last << config.beat_bits + 1 | _beat(config, base + k)
        for length in (5, 256)
        for k, last in ((k, k == length - 1) for k in range(length))
    ]
    phases = [
        Phase(inputs={"i_command": [command]}, outputs={"o_read": part})
        for command, part in zip(commands, (beats[:5], beats[5:]), strict=True)
    ]
    result = simulate(
        dut, Case(phases=phases), around=connect_chip(dut.pins, model, delay=config.pad_cycles)
    )
    first, *_ = (cycle for cycle in result.transfers["o_read"][5:])
    assert first == result.transfers["i_command"][1] + dut.latency
    cycles = result.transfers["o_read"][-1] - first
    assert 255 * config.words <= cycles <= 255 * config.words + 60


def _beat(config, address):
    """Return what a chip that was just switched on has at an address, but for the self-test."""
    dut = SdramModel(config.figures, config.clock_mhz)
    words = [dut._cell(address * config.words + k) for k in range(config.words)]
    return sum(word << 16 * k for k, word in enumerate(words))


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"clock_mhz": 144}, ValueError, r"clock_mhz must be in 1\.\.133, not 144"),
        ({"beat_bits": 48}, ValueError, r"beat_bits must be a power of two in 32\.\.1024, not 48"),
        ({"read_beats": 2}, ValueError, r"read_beats must be a power of two in 4\.\.256, not 2"),
        ({"read_beats": 5}, ValueError, r"read_beats must be a power of two in 4\.\.256, not 5"),
        ({"pad_cycles": 5}, ValueError, r"pad_cycles must be in 0\.\.4, not 5"),
        ({"refresh_group": 0}, ValueError, r"refresh_group must be in 1\.\.8, not 0"),
        ({"retention": -1}, ValueError, r"retention must be in 0\.\.65535, not -1"),
        ({"power_up_us": 1001}, ValueError, r"power_up_us must be in 0\.\.1000, not 1001"),
        (
            {"chip": "fast"},
            ValueError,
            r"chip must be one of AS4C16M16SA-7, MT48",
        ),
        ({"other": 1}, TypeError, r"other must be an SdramChip or None, not 1"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        SdramConfig(**params)


class Cached(wiring.Component):
    """A forward cache whose memory is the SDRAM: its streams, and the pins."""

    def __init__(self, cache, config):
        self.cache, self.config = cache, config
        own = ForwardCache(cache).signature.members
        streams = {name: own[name] for name in ("i", "i_codes", "o", "o_codes")}
        super().__init__(streams | {"pins": Out(pin_signature(config))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.cache = cache = ForwardCache(self.cache)
        m.submodules.memory = memory = Sdram(self.config)
        for name in ("i", "i_codes", "o", "o_codes"):
            outer, inner = wiring.flipped(getattr(self, name)), getattr(cache, name)
            wiring.connect(m, *((inner, outer) if name[0] == "o" else (outer, inner)))
        connect_memory(m, cache, memory)
        wiring.connect(m, memory.pins, wiring.flipped(self.pins))
        return m


@pytest.mark.parametrize("stalls", [Stalls.NONE, Stalls.BOTH])
def test_forward_cache_uses_it_unchanged(stalls):
    """InstantFT's entry of 992 bytes in a sixth of its size, stored and fetched."""
    cache = ForwardCacheConfig(
        lengths=(150, 40, 10), entries=6, beat_bits=64, store_lanes=16, fetch_lanes=16
    )
    config = SdramConfig(**SHORT)
    session = Session(config=cache, rng=np.random.default_rng(1))
    phases = []
    for index in (3, 0, 5, 3):
        session.store(index)
        session.fetch(index)
        whole = session.phase()
        phases.append(
            Phase(
                inputs={name: whole.inputs[name] for name in ("i", "i_codes")},
                outputs={name: whole.outputs[name] for name in ("o", "o_codes")},
            )
        )
    dut = Cached(cache, config)
    model = SdramModel(config.figures, config.clock_mhz)
    simulate(
        dut, Case(phases=phases), stalls=stalls, seed=5,
        around=connect_chip(dut.pins, model, delay=config.pad_cycles),
    )  # fmt: skip


def test_beats_of_another_width_are_not_connected():
    cache = ForwardCache(ForwardCacheConfig())
    with pytest.raises(ValueError, match="has beats of 64 bits, and its user beats of 128"):
        connect_memory(Module(), cache, Sdram(SdramConfig()))
