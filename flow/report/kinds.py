"""Kinds of measurements: from a core's configuration to the figures of a row."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

from seedbed.flow.cores import registry
from seedbed.flow.emit import netlist, verilog
from seedbed.flow.fpga import activity, energy, netlists, place, synth
from seedbed.flow.jobs import gemv_cycles, icarus
from seedbed.flow.report import dieharder, model_figures, testu01
from seedbed.flow.report.row import Row, command
from seedbed.flow.run.cache import code, memo
from seedbed.sim import prove, tools
from seedbed.sim.harness import Stalls, simulate
from seedbed.sim.hostile import HOSTILE
from seedbed.sim.proofs import PROOFS
from seedbed.sim.verilog import mutate, script, verilate, verilog_bench
from seedbed.spec import SeedlmDecompressConfig
from seedbed.spec.fixed import Fixed
from seedbed.spec.network import NetworkConfig

__all__ = [
    "CHECKS", "ELABORATED", "KINDS", "Job", "Kind", "digest", "elaborated", "elaboration",
    "in_cocotb", "plain",
]  # fmt: skip

#: Kinds whose figures are of the elaborated design, and change with it alone.
ELABORATED = (
    "simulation", "cocotb", "synthesis", "place", "place_ready", "place_free", "activity", "energy",
    "cycles", "job", "mutation", "mapping", "netlist",
    "icarus",
)  # fmt: skip
#: Kinds that compare a core with its model, prove it, or map it: what checks it counts as well as
#: its design.
CHECKS = ("simulation", "cocotb", "icarus", "proof", "hostile", "mapping", "netlist")
#: Frames of a script of hostile ones, and the seed of frames, pauses and latencies.
FRAMES, FRAME_SEED = 10_000, 11
#: Cycles of a netlist's simulation.
NETLIST_CYCLES = 10_000
#: Seed of the testbenches' stimulus and stalls.
BENCH_SEED = 1
#: Seeds of place and route.
PLACE_SEEDS = 3


@dataclass(frozen=True, kw_only=True)
class Job:
    """One measurement: its kind, the configuration of a core, and the build folder.

    ``main`` is true for the measurements of ``make``.
    """

    kind: str
    core: str
    config: str
    build: Path
    params: Mapping[str, Any] = field(default_factory=dict)
    target: str | None = None
    main: bool = True

    @property
    def description(self) -> str:
        """Text of the progress bar."""
        where = f" for {self.target}" if self.target else ""
        return f"{self.kind} of {self.core}, {self.config}{where}"


def digest(key: Mapping[str, Any]) -> str:
    """Return the hash of a key, 16 hexadecimal digits: of rows, and of ``docs/netlists.json``."""
    return sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


def elaboration(job: Job) -> dict[str, Any]:
    """Return everything that the elaborated design of a job depends on."""
    core = registry.find(job.core)
    return {
        "core": job.core,
        "params": repr(sorted(job.params.items())),
        "source": sha256(
            (code(core.component.__module__) + code("seedbed.flow.emit.netlist")).encode()
        ).hexdigest(),
        "amaranth": version("amaranth"),
    }


def elaborated(job: Job, *, known: bool = False) -> str:
    """Return the hash of the job's elaborated design: :func:`~seedbed.flow.emit.netlist.netlist`.

    It is elaborated once, until the core's source or Amaranth changes. With ``known``, it is not
    elaborated, and "" is returned if it has not been so far.
    """

    def compute() -> dict[str, Any]:
        if known:
            raise LookupError
        return {"hash": netlist.netlist(registry.find(job.core), job.params)}

    try:
        return memo(job.build / "cache", "netlist", elaboration(job), compute)["hash"]
    except LookupError:
        return ""


def plain(core: registry.Core, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a configuration as JSON values, without long tables."""
    config = core.configure(params)
    values = {f.name: getattr(config, f.name) for f in fields(config) if f.init}
    short = {name: v for name, v in values.items() if not isinstance(v, tuple) or len(v) <= 24}
    shown = {
        name: str(v) if isinstance(v, Fixed | NetworkConfig) else v for name, v in short.items()
    }
    return {name: list(v) if isinstance(v, tuple) else v for name, v in shown.items()}


def _row(job: Job, verb: str, figures: Mapping[str, Any], *options: str, **rest: Any) -> Row:
    return Row(
        core=job.core,
        config=job.config,
        kind=job.kind,
        target=job.target,
        params=plain(registry.find(job.core), job.params),
        figures=figures,
        command=command(verb, job.core, job.params, *options),
        **rest,
    )


def emitted(job: Job, *, plain: bool = False) -> Path:
    """Write the job's Verilog to a folder per configuration, and return its path.

    Figures of netlists are of the plain text, see :func:`seedbed.flow.emit.verilog.emit`. So are
    jobs that count accesses to memories: signals keep their names in it.
    """
    stem = sha256(repr(sorted(job.params.items())).encode()).hexdigest()[:12]
    folder = job.build / "emitted" / f"{job.core}-{stem}"
    return verilog.write(
        registry.find(job.core), job.params, folder, plain=plain, kept=job.build / "cache"
    )


def _numbers(job: Job) -> int:
    """Return the number of output numbers per beat of the core."""
    config = registry.find(job.core).configure(job.params)
    return getattr(config, "lanes", 0) or getattr(config, "instances", 1)


def _simulation(job: Job) -> Row:
    core = registry.find(job.core)
    config = core.configure(job.params)
    case = core.case(config, Random(BENCH_SEED))
    runs = [
        simulate(core.component(config), case, stalls=stalls, seed=BENCH_SEED) for stalls in Stalls
    ]
    beats = sum(len(sent) for phase in case.phases for sent in phase.outputs.values())
    figures = {"runs": len(runs), "beats": beats, "cycles": sum(run.cycles for run in runs)}
    return _row(job, "sim", figures, seeds=[BENCH_SEED])


def in_cocotb(
    core: registry.Core,
    params: Mapping[str, Any],
    path: Path,
    *,
    seed: int,
    build: Path,
    waves: bool = False,
) -> dict[str, Any]:
    """Run the core's test case on its emitted Verilog, with stalls; see :func:`verilate.run`.

    A core with AXI ports is driven by its AXI testbench instead.
    """
    config = core.configure(params)
    if core.bench:
        tests = import_module(core.bench).TESTS
        setup = {"params": dict(params), "seed": seed}
        return verilate.run_tests(
            path, path.stem, core.bench, tests, setup, seed=seed, build=build / "cocotb",
            waves=waves,
        )  # fmt: skip
    inputs, outputs = core.streams(config)
    packed = verilog.write_packed(path, core, config)
    return verilate.run(
        packed,
        packed.stem,
        core.case(config, Random(seed)),
        inputs=inputs,
        outputs=outputs,
        stalls=True,
        seed=seed,
        build=build / "cocotb",
        waves=waves,
    )


def _cocotb(job: Job) -> Row:
    core = registry.find(job.core)
    result = in_cocotb(core, job.params, emitted(job), seed=BENCH_SEED, build=job.build)
    figures = {"runs": result["tests"], "cycles": result["cycles"]}
    versions = {"verilator": tools.version("VERILATOR")}
    return _row(job, "cocotb", figures, seeds=[BENCH_SEED], tools=versions)


def _icarus(job: Job) -> Row:
    core = registry.find(job.core)
    config = core.configure(job.params)
    path = emitted(job)
    runs = [
        icarus.run(path, core, config, path.parent / "icarus", generation=generation, reset=reset)
        for generation in verilog_bench.GENERATIONS
        for reset in (False, True)
    ]
    versions = {"icarus": tools.version("IVERILOG")}
    return _measured(job, {"runs": len(runs), "cycles": sum(runs)}, tools=versions)


def _synthesis(job: Job) -> Row:
    path = emitted(job, plain=True)
    assert job.target is not None
    found = synth.synthesize(path, job.core, target=job.target, build=job.build / "synth")
    figures = {name: found[name] for name in ("lut", "lut_carry", "ff", "bram", "dsp")}
    figures["lut_per_lane"] = figures["lut"] / _numbers(job)
    options = ("--target", job.target, "--seeds", "0")
    return _row(job, "synth", figures, *options, tools=found["tools"])


def _placed(job: Job, figures: Mapping[str, str], *options: str, **how: Any) -> Row | None:
    """Place and route a core with ``options``; ``figures`` maps names to keys of the result."""
    assert job.target is not None
    build = job.build / "synth"
    found = place.place(
        emitted(job, plain=True), job.core, target=job.target, seeds=PLACE_SEEDS, build=build, **how
    )
    if found is None:
        return None
    figures = {name: found[part] for name, part in figures.items()}
    options = ("--target", job.target, "--seeds", str(PLACE_SEEDS), *options)
    return _row(job, "synth", figures, *options, seeds=found["seeds"], tools=found["tools"])


def _place(job: Job) -> Row | None:
    figures = {
        "fmax_mhz": "median",
        "fmax_min_mhz": "min",
        "fmax_max_mhz": "max",
        "fmax_by_seed_mhz": "mhz",
    }
    return _placed(job, figures)


def _place_ready(job: Job) -> Row | None:
    return _placed(job, {"fmax_logic_mhz": "median"}, "--ready", "logic", ready="logic")


def _place_free(job: Job) -> Row | None:
    return _placed(job, {"fmax_free_mhz": "median"}, "--no-floorplan", floorplanned=False)


def _measured(job: Job, figures: Mapping[str, Any], **rest: Any) -> Row:
    row = _row(job, "measure", figures, **rest)
    return replace(row, command=f"seedbed measure --kind {job.kind} --core {job.core}")


def _activity(job: Job) -> Row:
    found = activity.toggles(
        emitted(job, plain=True),
        job.core,
        numbers_per_beat=_numbers(job),
        cycles=2000,
        build=job.build / "synth",
    )
    figures = {name: found[name] for name in ("toggles_per_number", "cycles")}
    return _measured(job, figures, tools=found["tools"])


def _energy(job: Job) -> Row:
    found = energy.energy(registry.find(job.core), job.params, build=job.build)
    names = ("cells", "area_um2", "memory_bits", "path_ns", "clock_mhz", "power_mw", "cycles")
    figures = {name: found[name] for name in (*names, "beats", "numbers", "beat_pj", "number_pj")}
    return _row(job, "energy", figures, seeds=[energy.SEED], tools=found["tools"])


def _compression_error(config: SeedlmDecompressConfig) -> dict[str, Any]:
    # It imports numba, which other commands do not load.
    from seedbed.flow.compress import figures

    return figures.error(config, seed=BENCH_SEED)


def _compression_speed(config: SeedlmDecompressConfig) -> dict[str, Any]:
    from seedbed.flow.compress import figures

    return figures.speed(config, seed=BENCH_SEED)


#: Statistics of a core's numbers, or of its table.
STATISTICS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "urng_array": model_figures.correlation,
    "lutopt": model_figures.linear_correlation,
    "scale_lut": model_figures.scales,
    "tree_grng": model_figures.gaussian,
    "seedlm_decompress": _compression_error,
}


def _statistics(job: Job) -> Row:
    config = registry.find(job.core).configure(job.params)
    figures = STATISTICS[job.core](config)
    seeds = RANDOM_SEEDS.get(job.core, [])
    return _measured(job, figures, seeds=seeds, tools={"numpy": version("numpy")})


#: Seeds of measurements on random numbers.
RANDOM_SEEDS = {"seedlm_decompress": [BENCH_SEED]}

#: Speed of a core's model, or of the compressor for its input.
SPEED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "urng_array": model_figures.speed,
    "lutopt": model_figures.linear_speed,
    "seedlm_decompress": _compression_speed,
}


def _speed(job: Job) -> Row:
    config = registry.find(job.core).configure(job.params)
    versions = {name: version(name) for name in ("numpy", "numba")}
    seeds = RANDOM_SEEDS.get(job.core, [])
    return _measured(job, SPEED[job.core](config), seeds=seeds, tools=versions)


def _proof(job: Job) -> Row:
    proof = next(p for p in PROOFS if p.name == job.config)
    (found,) = prove.check([proof], job.build / "formal")
    figures = {
        "proved": 1,
        "covers": found["covers_reached"],
        "mutants": len(proof.mutants),
        "killed": len(found["mutants_killed"]),
    }
    return _row(job, "formal", figures, tools=found["tools"])


def _hostile(job: Job) -> Row:
    core = registry.find(job.core)
    config = core.configure(job.params)
    steps = next(h.steps for h in HOSTILE if (h.core, h.config) == (job.core, job.config))
    built = script.executable(
        emitted(job), core.name, core.signature(config), build=job.build / "hostile"
    )
    frames = steps(config, frames=FRAMES, seed=FRAME_SEED)
    figures = {"frames": FRAMES, "cycles": script.run(built, frames, seed=FRAME_SEED)}
    versions = {"verilator": tools.version("VERILATOR")}
    return _measured(job, figures, seeds=[FRAME_SEED], tools=versions)


def _mapping(job: Job) -> Row:
    assert job.target is not None
    build = job.build / "mapping" / f"{job.core}-{job.target}"
    cells = netlists.map_plain(emitted(job), job.core, job.target, build)
    return _measured(job, {"cells": cells}, tools={"yosys": tools.version("YOSYS")})


def _netlist(job: Job) -> Row:
    assert job.target is not None
    build = job.build / "netlist" / f"{job.core}-{job.target}"
    core = registry.find(job.core)
    config = core.configure(job.params)
    netlist = netlists.map_logic(emitted(job), job.core, job.target, build)
    cycles = netlists.play(netlist, core, config, job.target, build, cycles=NETLIST_CYCLES)
    versions = {name.lower(): tools.version(name) for name in ("YOSYS", "VERILATOR")}
    return _measured(job, {"cycles": cycles}, seeds=[netlists.SEED], tools=versions)


def _cycles(job: Job) -> Row:
    core = registry.find(job.core)
    config = core.configure(job.params)
    path, folder = emitted(job), job.build / "cycles"
    figures = gemv_cycles.measure(path, core.name, config, seed=BENCH_SEED, build=folder)
    versions = {"verilator": tools.version("VERILATOR")}
    return _measured(job, figures, seeds=[BENCH_SEED], tools=versions)


def _job(job: Job) -> Row:
    # It imports plots and image data, which the command line does not load.
    demo = import_module(f"seedbed.flow.jobs.{job.core}_rtl")
    config = registry.find(job.core).configure(job.params)
    found = demo.reported(emitted(job, plain=True), config, job.build)
    figures = demo.row_figures(found)
    row = _measured(job, figures, seeds=[found["seed"]], tools=found["tools"])
    return replace(row, params={**row.params, "data": found["data"]})


def _mutation(job: Job) -> Row:
    core = registry.find(job.core)
    text = emitted(job, plain=True)
    found = mutate.run(core, job.params, verilog=text, build=job.build / "mutate")
    return _row(job, "mutate", found["figures"], seeds=[found["seed"]], tools=found["tools"])


def _dieharder(job: Job) -> Row:
    config = registry.find(job.core).configure(job.params)
    figures = dieharder.figures(job.core, config, job.build)
    versions = {"dieharder": tools.version("DIEHARDER"), "numpy": version("numpy")}
    return _row(job, "statistics", figures, tools=versions)


def _battery(name: str, job: Job) -> Row:
    config = registry.find(job.core).configure(job.params)
    figures = testu01.figures(job.core, config, job.build, name)
    return _row(job, job.kind, figures, tools={"numpy": version("numpy")})


@dataclass(frozen=True)
class Kind:
    """One kind of measurement: the function that makes its row, and dependencies of its figures.

    ``{core}`` in a module's name is replaced by the core's name. ``distributions`` are packages in
    addition to those that all kinds depend on. ``tool`` is one of
    :data:`seedbed.sim.tools.OPTIONAL`; without it, a full report omits the kind. So it does where a
    measurement takes ``hours``. ``files`` are sources in other languages.
    """

    row: Callable[[Job], Row | None]
    modules: tuple[str, ...]
    distributions: tuple[str, ...] = ()
    tool: str | None = None
    hours: bool = False
    files: tuple[Path, ...] = ()


_EMITTED = "seedbed.flow.emit.deduplicate"
_PLACED = ("seedbed.flow.fpga.place", _EMITTED)
#: The text that is checked, and not the design alone.
_TEXT = (*verilog.EMITTER, "seedbed.flow.fpga.synth")
_TEXT_FILES = (Path(verilog.__file__), Path(netlists.__file__))
_ICARUS = (*verilog.EMITTER, "seedbed.flow.jobs.icarus")
_MODEL = ("seedbed.flow.report.model_figures", "seedbed.flow.compress.figures")
KINDS: dict[str, Kind] = {
    "simulation": Kind(_simulation, ("seedbed.sim.harness",)),
    "cocotb": Kind(_cocotb, ("seedbed.sim.verilog.verilate", "seedbed.sim.verilog.cocotb_bench")),
    "icarus": Kind(_icarus, _ICARUS, tool="IVERILOG", files=_TEXT_FILES[:1]),
    "synthesis": Kind(_synthesis, ("seedbed.flow.fpga.synth", _EMITTED)),
    "place": Kind(_place, _PLACED),
    "place_ready": Kind(_place_ready, _PLACED),
    "place_free": Kind(_place_free, _PLACED),
    "activity": Kind(_activity, ("seedbed.flow.fpga.activity", _EMITTED)),
    "energy": Kind(_energy, ("seedbed.flow.fpga.energy", _EMITTED), tool="OPENSTA"),
    "statistics": Kind(_statistics, _MODEL),
    "speed": Kind(_speed, _MODEL, ("numba",)),
    "proof": Kind(_proof, ("seedbed.sim.prove", "seedbed.sim.proofs.{core}")),
    "hostile": Kind(
        _hostile,
        ("seedbed.sim.hostile.{core}_frames", "seedbed.sim.verilog.script"),
        files=(script.MAIN, script.MAIN.with_name("streams.h")),
    ),
    "mapping": Kind(_mapping, _TEXT, files=_TEXT_FILES),
    "netlist": Kind(_netlist, (*_TEXT, "seedbed.sim.verilog.verilog_bench"), files=_TEXT_FILES),
    "cycles": Kind(_cycles, ("seedbed.sim.jobs.gemv_cycles", "seedbed.flow.jobs.gemv_cycles")),
    "job": Kind(_job, ("seedbed.flow.jobs.{core}_rtl",)),
    "mutation": Kind(_mutation, ("seedbed.sim.verilog.mutate",)),
    "dieharder": Kind(_dieharder, ("seedbed.flow.report.dieharder",), tool="DIEHARDER"),
    "testu01": Kind(
        partial(_battery, "smallcrush"), ("seedbed.flow.report.testu01",), tool="TESTU01"
    ),
    "crush": Kind(
        partial(_battery, "crush"), ("seedbed.flow.report.testu01",), tool="TESTU01", hours=True
    ),
}
