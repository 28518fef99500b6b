"""The drivers of the AXI cores, in C and for PYNQ, on emitted Verilog, bit for bit the models."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import c_drivers
import numpy as np
import pynq_drivers
import pytest

from seedbed.boards import drivers
from seedbed.boards.drivers import CORES, STATUS
from seedbed.flow.cores.registry import WRAPPERS
from seedbed.golden.engine_image import engine_image, header_and_records
from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.forward_cache import ForwardCache
from seedbed.golden.stream_trainer import Work
from seedbed.hw.adapters.instantft import command_layout, result_layout
from seedbed.hw.adapters.instantft import sample_layout as instant_sample_layout
from seedbed.hw.axi.sparse_trainer_axi import ENTRY_FIELDS, LAYER_FIELDS
from seedbed.hw.engine.parameter_loader import packet_layout, words_layout
from seedbed.hw.engine.sample_intake import sample_layout as zo_sample_layout
from seedbed.hw.kept.layer_table import row_layout
from seedbed.hw.kept.sample_banks import sample_layout as sparse_sample_layout
from seedbed.hw.kept.sparse_trainer_layouts import job_layout as sparse_job_layout
from seedbed.hw.kept.sparse_trainer_layouts import log_layout as sparse_log_layout
from seedbed.hw.kept.sparse_trainer_layouts import status_layout as sparse_status_layout
from seedbed.hw.kept.stream_trainer_layouts import job_layout as stream_trainer_job_layout
from seedbed.hw.kept.stream_trainer_layouts import log_layout as stream_trainer_log_layout
from seedbed.hw.kept.trainer_passes import class_layout as sparse_class_layout
from seedbed.hw.products.sparse_layouts import entry_layout as sparse_entry_layout
from seedbed.hw.stream.stream_layouts import job_layout as stream_job_layout
from seedbed.hw.stream.stream_layouts import result_layout as stream_result_layout
from seedbed.hw.stream.stream_layouts import status_layout as stream_status_layout
from seedbed.hw.stream.stream_layouts import token_layout as stream_token_layout
from seedbed.hw.zeroth_order.zo_control import job_layout as zo_job_layout
from seedbed.hw.zeroth_order.zo_control import status_layout as zo_status_layout
from seedbed.hw.zeroth_order.zo_schedule import entry_layout
from seedbed.hw.zeroth_order.zo_steps import class_layout as zo_class_layout
from seedbed.hw.zeroth_order.zo_steps import log_layout as zo_log_layout
from seedbed.hw.zeroth_order.zo_steps import phase_layout
from seedbed.sim.case import Phase
from seedbed.sim.cases import (
    instantft,
    sparse_trainer,
    stream_engine,
    stream_trainer,
    zo_trainer,
)
from seedbed.sim.cases.gemv import Job
from seedbed.sim.cases.instantft import Fault
from seedbed.sim.cases.stream_engine import Blocks
from seedbed.sim.cases.stream_programs import WORDS
from seedbed.spec import FORWARD_CACHE_KINDS, STREAM_TRAINER_KINDS
from seedbed.spec.axi_registers import AXI_REGISTERS
from seedbed.spec.instantft import INSTANTFT_KINDS
from seedbed.spec.registers import addresses
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_KINDS
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS

NO_ERROR, FAILED = "no error", "the command ended with an error"


class Script:
    """Lines for a core's bench, and what they must print."""

    def __init__(self, name, folder):
        self.streams = {port: k for k, port in enumerate(drivers.streams(name))}
        self.registers = addresses(AXI_REGISTERS.get(name, ()), 4)
        self.folder, self.lines, self.wanted, self.status = folder, [], [], CORES[name].status
        self.name, self.jobs = name, 0

    def file(self, octets):
        path = self.folder / f"data-{len(list(self.folder.glob('data-*')))}"
        path.write_bytes(octets)
        return path

    def send(self, port, packets, users=(), per_packet=0, beat=0):
        sizes = np.array([len(each) for each in packets], "<u4")
        values = np.array([int(u) for u in users], "<u4")
        self.lines.append(
            f"send {self.streams[port]} {self.file(b''.join(packets))} {len(packets)} {sizes[0]} "
            f"{self.file(values.tobytes()) if len(values) else '-'} {per_packet} "
            f"{self.file(sizes.tobytes()) if len(set(sizes.tolist())) > 1 else '-'} {beat}"
        )

    def receive(self, port, room, packets=1):
        self.lines.append(f"receive {self.streams[port]} {room} {packets}")

    def command(self, *words, gives=NO_ERROR):
        self.lines.append(" ".join(str(word) for word in words))
        self.wanted.append(gives)
        self.jobs += words[0] == "start" and gives == NO_ERROR

    def poll(self, status=None, abort=0):
        self.lines.append(f"abort {abort}" if abort else "poll")
        self.wanted += [FAILED, self.status[status]] if status else [NO_ERROR]

    def show(self, port, octets, users=None):
        """Ask for what was received. Without ``octets``, whatever it is."""
        self.lines.append(f"show {self.streams[port]}")
        self.wanted.append(None if octets is None else octets.hex())
        self.wanted.append(None if users is None else " ".join(f"{user:x}" for user in users))

    def read(self, name, value):
        self.lines.append(f"read {self.registers[name]}")
        self.wanted.append(str(value))

    def run(self, run, reported):
        """Run the lines with each seed, and compare what is printed."""
        path = self.folder / "script"
        path.write_text("\n".join(self.lines) + "\n")
        jobs = 0
        for printed in run(path):
            jobs += self.jobs
            assert len(printed) == len(self.wanted)
            for line, wanted in zip(printed, self.wanted, strict=True):
                assert wanted is None or line == wanted
        driver = "PYNQ" if run.__module__ == pynq_drivers.__name__ else "C"
        command = "make test TESTS=tests/drivers"
        reported("drivers", f"{self.name}, {driver}, emitted Verilog", command, jobs=jobs)


@pytest.fixture(params=[c_drivers, pynq_drivers], ids=["c", "pynq"])
def driven(request, kept):
    """Return a function that returns a core's program and configuration, for each driver."""
    return partial(request.param.axi_bench, build=Path(kept))


def test_every_status_has_a_sentence():
    assert {name: tuple(core.status) for name, core in CORES.items()} == STATUS
    assert {f"{name}_axi" for name in CORES} == set(WRAPPERS)


def gemv_job(script, config, job, mode, *, status=None, abort=0):
    """Add a job; with a status, its vector or first row is too short, or all rows are missing."""
    vector, rows = c_drivers.gemv_packets(config, job)
    octets = -(-config.mac.accumulator_width // 8)
    vector_beat = config.vectors * config.group * -(-config.activation_width // 8)
    sums = np.atleast_2d(job.sums.T).T.tolist()
    wanted = [b"".join(int(n).to_bytes(octets, "little", signed=True) for n in row) for row in sums]
    users = [0] * job.rows
    if status:
        wanted, users = [bytes(config.vectors * octets)], [list(STATUS["gemv"]).index(status)]
    if status == "vector":
        vector = vector[:vector_beat]
    elif status == "row":
        rows[0] = rows[0][: config.beat_bits // 8]
    script.send("s_axis_vector", [vector])
    if status != "cleared":
        script.send("s_axis_weights", rows)
    script.receive("m_axis_result", octets * config.vectors * (job.rows + 1))
    script.command("start", job.columns, job.rows, mode)
    script.poll(status, abort)
    script.show("m_axis_result", b"".join(wanted), users)


GEMV = [{}, {"decode": "lut4", "level_load": 4, "beat_bits": 64, "vectors": 2}]


@pytest.mark.parametrize("params", GEMV, ids=["seedlm", "lut4"])
def test_gemv(params, driven, tmp_path, reported):
    """Products, packed and plain; after each error, and after an abort, good ones."""
    program, config = driven("gemv", params)
    rng = np.random.default_rng(1)
    packed = config.decode == "seedlm"
    script = Script("gemv", tmp_path)

    def draw(rows, columns, *, plain=False):
        return Job.random(config, rng, rows=rows, columns=columns, plain=plain)

    def good():
        gemv_job(script, config, draw(4, 3 * config.lanes - 1), 0 if packed else 2)
        if packed:
            gemv_job(script, config, draw(3, 11, plain=True), 1)

    good()
    for status in ("vector", "row"):
        gemv_job(script, config, draw(3, 3 * config.lanes), 0 if packed else 2, status=status)
        good()
    job = draw(3, 3 * config.lanes)
    gemv_job(script, config, job, 0 if packed else 2, status="cleared", abort=5)
    script.command("clear")
    good()
    script.read("columns", 11 if packed else 3 * config.lanes - 1)
    if driven.func is c_drivers.axi_bench:
        # A number that the register does not hold: no error to a driver for PYNQ.
        refused = (
            "the core refused an access to a register: a value does not fit, or a command runs"
        )
        script.command("start", 1 << 20, 1, 2, gives=refused)
    script.run(program, reported)


def fields(layout, payloads):
    """Return the fields of beats as plain numbers."""
    return [
        {name: beat[name] for name in layout.members} for beat in map(layout.from_bits, payloads)
    ]


def octets(number, size):
    return (int(number) % (1 << 8 * size)).to_bytes(size, "little")


def word(widths, beat, bits=0):
    """Return the fields of a beat, each in its bits, the first one lowest."""
    value = at = 0
    for name, width in widths.items():
        value |= (int(beat[name]) & (1 << width) - 1) << at
        at += width
    return octets(value, (bits or at) // 8)


def cut(beats, data):
    """Return the packets of beats, each beat's bytes by ``data``, and the first beat of each."""
    packets, firsts, new = [], [], True
    for beat in beats:
        if new:
            packets.append(b"")
            firsts.append(beat)
        packets[-1] += data(beat)
        new = beat["last"]
    return packets, firsts


def pixels(beat):
    return bytes(int(each) for each in beat["pixels"])


RANK_ONE = {"perturbation": "rank1", "levels": 4, "fraction": 6}


class ZoScript(Script):
    """Phases of :mod:`seedbed.sim.cases.zo_trainer` as lines."""

    def __init__(self, config, folder):
        super().__init__("zo_trainer", folder)
        self.config = config

    def rows(self, payloads):
        beats = fields(words_layout(self.config.engine), payloads)
        return b"".join(octets(each, 1) for beat in beats for each in beat["word"])

    def samples(self, payloads):
        packets, firsts = cut(fields(zo_sample_layout(self.config), payloads), pixels)
        labels = [beat["label"] for beat in firsts]
        self.send("s_axis_samples", packets, labels, 1, self.config.ways)

    def phase(self, phase, status=None, abort=0):
        inputs, outputs, config = phase.inputs, phase.outputs, self.config
        if "i_parameters" in inputs:
            self.send("s_axis_parameters", [self.rows(inputs["i_parameters"])])
            self.poll()
        if "i_schedule" in inputs:
            entries = fields(entry_layout(config), inputs["i_schedule"])
            values = [
                (e["epoch"], p["magnitude"], p["zeros"], p["update_bits"] if config.tail else 0)
                for e, p in ((e, e["phase"]) for e in entries)
            ]
            self.command("schedule", *(each for entry in values for each in entry))
        if "i" not in inputs:
            return
        if inputs.get("i_samples"):
            self.samples(inputs["i_samples"])
        [values] = fields(zo_job_layout(config), inputs["i"])
        [end] = fields(zo_status_layout(), outputs["o_status"])
        classes = fields(zo_class_layout(config), outputs.get("o", []))
        found = [bytes((b["best"], b["error"], 0, 0)) for b in classes]
        found.append(bytes((0, 0, end["status"], 0)))
        room = 4 * (values["samples"] * values["epochs"] + 1)
        self.receive("m_axis_results", max(room, 4))
        kind = ZO_TRAINER_KINDS[values["kind"]]
        log = fields(zo_log_layout(config), outputs.get("o_log", []))
        names = list(phase_layout(config).members)
        if kind == "train":
            self.receive("m_axis_log", 8 * (1 + len(log)))
        if kind == "read":
            self.receive("m_axis_parameters", 8 * 1024)
        self.command("start", *(values[name] % (1 << 32) for name in zo_job_layout(config).members))
        self.poll(status, abort)
        self.show("m_axis_results", None if abort else b"".join(found))
        if kind == "train":
            logged = [
                octets(b["seed"], 4)
                + b"".join(
                    octets(each, 1)
                    for each in (b["sign"], *(b["phase"][n] for n in names), b.get("level", 0))
                )[:4]
                for b in log
            ]
            self.show("m_axis_log", b"".join([*logged, bytes(8)]))
        if kind == "read" and not status:
            self.show("m_axis_parameters", self.rows(outputs["o_parameters"]))
        self.read("steps", end["steps"])

    def fail(self, kind, status, sent=(), **values):
        command = zo_trainer.job(self.config, kind, **values)
        inputs = {"i": [command]} | ({"i_samples": list(sent)} if sent else {})
        ended = {"o_status": [zo_trainer.status(kind, status)]}
        self.phase(Phase(inputs=inputs, outputs=ended), status)


@pytest.mark.parametrize("params", [{}, {"tail": 1}, RANK_ONE], ids=["", "tail", "rank 1"])
def test_zo_trainer(params, driven, tmp_path, reported):
    """Trainings, classifications and read-outs; every error, and an abort; a reset."""
    program, config = driven("zo_trainer", params)
    rng, script = np.random.default_rng(2), ZoScript(config, tmp_path)
    script.fail("read", "parameters")
    phases = zo_trainer.case(config, Random(1)).phases
    for phase in phases:
        script.phase(phase)
    model = zo_trainer.drawn(config, rng)
    packet = zo_trainer.word_payloads(config, model.words())
    one = {"samples": 1, "epochs": 1, "batch": 1, "exponent": model.exponent}
    script.send("s_axis_parameters", [script.rows(packet)[:-2]])
    script.poll()
    script.fail("read", "parameters")
    script.phase(Phase(inputs={"i_parameters": packet}))
    script.command("schedule", 1, 1, 0, int(config.tail > 0))
    script.fail("train", "schedule", **one)
    script.fail("infer", "command", **one | {"samples": 0})
    image = rng.integers(0, 256, config.layers[0].inputs)
    for beats in (config.image_beats - 1, config.image_beats + 2):
        sent = [n for b in (beats, 0) for n in zo_trainer.sample_payloads(config, image, 0, rng, b)]
        script.fail("infer", "sample", sent, **one)
        script.phase(zo_trainer.classified(model, rng, 2))
    long = zo_trainer.classified(model, rng, 20)
    ended = Phase(inputs=long.inputs, outputs={"o_status": [zo_trainer.status("infer", "sample")]})
    script.phase(ended, "sample", abort=3)
    script.phase(zo_trainer.read_out(model))
    script.command("reset")
    for phase in phases:
        script.phase(phase)
    script.run(program, reported)


class SparseScript(Script):
    """Phases of :mod:`seedbed.sim.cases.sparse_trainer` as lines."""

    def __init__(self, config, folder):
        super().__init__("sparse_trainer", folder)
        self.config = config

    def phase(self, phase, status=None, abort=0):
        inputs, outputs, config = phase.inputs, phase.outputs, self.config
        if "i_layers" in inputs:
            beats = fields(row_layout(config), inputs["i_layers"])
            packets, _ = cut(beats, lambda beat: word(LAYER_FIELDS, beat, 128))
            self.send("s_axis_layers", packets)
            self.poll()
        if "i" not in inputs:
            return
        [values] = fields(sparse_job_layout(config), inputs["i"])
        [end] = fields(sparse_status_layout(), outputs["o_status"])
        kind = SPARSE_TRAINER_KINDS[values["kind"]]
        if inputs.get("i_entries"):
            beats = fields(sparse_entry_layout(config.sparse), inputs["i_entries"])
            self.send("s_axis_entries", [b"".join(word(ENTRY_FIELDS, beat) for beat in beats)])
        if inputs.get("i_samples"):
            size = -(-config.activation_width // 8)
            beats = fields(sparse_sample_layout(config), inputs["i_samples"])
            packets, firsts = cut(beats, lambda b: b"".join(octets(n, size) for n in b["lanes"]))
            self.send("s_axis_samples", packets, [beat["label"] for beat in firsts], 1)
        self.receive("m_axis_results", 8 * (values["samples"] * values["epochs"] + 1))
        log = fields(sparse_log_layout(config), outputs.get("o_log", []))
        if kind == "train":
            self.receive("m_axis_log", 8 * (1 + len(log)))
        layers, _ = cut(
            fields(sparse_entry_layout(config.sparse, last=1), outputs.get("o_entries", [])),
            lambda beat: word(ENTRY_FIELDS, beat),
        )
        if kind == "read":
            # Without entries, the command gives no packet: the driver ends the reception.
            self.receive("m_axis_entries", 8 * 1024, max(1, len(layers)))
        self.command("start", *(values[name] for name in sparse_job_layout(config).members))
        self.poll(status, abort)
        results = fields(sparse_class_layout(config), outputs.get("o", []))
        found = [word({"loss": 32, "best": 8, "error": 24}, beat) for beat in results]
        found.append(bytes((*[0] * 6, end["status"], 0)))
        self.show("m_axis_results", None if abort else b"".join(found))
        if kind == "train":
            logged = [word({"seed": 32, "gain": 32}, step) for step in log]
            self.show("m_axis_log", b"".join([*logged, bytes(8)]))
        if kind == "read" and not status:
            self.show("m_axis_entries", b"".join(layers))
        self.read("steps", end["steps"])
        self.read("saturated", end["saturated"])

    def fail(self, kind, status, **values):
        command = sparse_trainer.job(self.config, kind, **values)
        ended = [sparse_trainer.status(kind, status)]
        self.phase(Phase(inputs={"i": [command]}, outputs={"o_status": ended}), status)


def test_sparse_trainer(driven, tmp_path, reported):
    """Trainings with the network in memory, classifications and read-outs; errors; an abort."""
    program, config = driven("sparse_trainer", {})
    rng, script, base = np.random.default_rng(3), SparseScript(config, tmp_path), 0x3000
    model = sparse_trainer.drawn(config, rng, (18, 14, 5))
    size = config.beat_bytes
    for address, beat in model.beats().items():
        path = script.file(beat.to_bytes(size, "little"))
        script.lines.append(f"memory {path} {base + address * size}")
    script.command("base", base)
    script.fail("read", "layers")
    table, entries = sparse_trainer.load(model)
    script.phase(table)
    script.fail("read", "entries")
    script.phase(entries)
    one = {"samples": 1, "epochs": 1, "batch": 1}
    script.fail("train", "command", **one | {"samples": 0})
    script.phase(sparse_trainer.classified(model, rng, 2))
    train = sparse_trainer.training
    script.phase(train(model, rng, samples=3, batch=2, epochs=2, rate=2000, decay=700))
    script.phase(sparse_trainer.read_out(model))
    long = sparse_trainer.classified(model, rng, 20)
    ended = [sparse_trainer.status("infer", "aborted")]
    script.phase(Phase(inputs=long.inputs, outputs={"o_status": ended}), "aborted", abort=4)
    script.phase(train(model, rng, samples=1, batch=1, rate=60000, shift=1))
    script.phase(sparse_trainer.read_out(model))
    script.run(program, reported)


@pytest.mark.parametrize(
    "params", [{}, {"external": True}, {"trellis": 4, "kept": 200, "tune": 4}], ids=str
)
def test_stream_engine(driven, tmp_path, reported, params):
    """Programs in memory, and blocks of tokens; every status but that of the memory; a reset.

    Kept weights are tuned to both sides and back where the core can do that.
    """
    program, config = driven("stream_engine", params)
    rng, script, base = np.random.default_rng(4), Script("stream_engine", tmp_path), 0x3000
    size = config.beat_bits // 8
    place = 0

    def put(beats):
        """Add a program to the memory; return its address."""
        nonlocal place
        address, place = place, place + len(beats)
        path = script.file(b"".join(beat.to_bytes(size, "little") for beat in beats))
        script.lines.append(f"memory {path} {base + address * size}")
        return address

    def run(phase, address=0):
        [values] = fields(stream_job_layout(config), phase.inputs["i"])
        [end] = fields(stream_status_layout(config), phase.outputs["o_status"])
        beats = fields(stream_result_layout(config), phase.outputs.get("o", []))
        if tokens := fields(stream_token_layout(config), phase.inputs.get("i_tokens", [])):
            script.send("s_axis_tokens", [b"".join(octets(each["token"], 4) for each in tokens)])
        script.receive("m_axis_results", 4 * config.lanes * (1 + len(beats)))
        rest = (values.get(name, 0) & 2**32 - 1 for name in ("first", "end", "seed", "delta"))
        script.command("start", values["kind"], address, values["start"], *rest)
        status = list(STATUS["stream_engine"])[end["status"]]
        script.poll(status if end["status"] else None)
        vectors = b"".join(octets(each, 4) for beat in beats for each in beat["values"])
        script.show("m_axis_results", vectors + octets(end["status"], 4 * config.lanes))

    def failed(kind, name):
        return {"o_status": [stream_engine.status(config, kind, name)]}

    engine = stream_engine.drawn(config, "decoder", rng)
    image = engine_image(config, engine.program, engine.parameters, block=3, context=6)
    blocks = Blocks(config, image, engine)
    # Addresses of the image are those of the memory.
    assert put(image.beats) == 0
    # Keys and values follow it.
    place += image.saved
    large = header_and_records(config, {"block": config.block + 1}, [{"last": 1}])
    too_large, damaged = put(large), put([large[0] ^ 1, *large[1:]])
    script.command("base", base)
    load, first = blocks.load(), blocks.run(rng.integers(0, WORDS, 3), start=True)
    second, refused = blocks.run(rng.integers(0, WORDS, 2)), blocks.run(rng.integers(0, WORDS, 2))
    tuned = []
    for delta in (9, -18, 9) if config.tune else ():
        start, stop = blocks.limits["first"], blocks.limits["first"] + image.kept_beats
        tuned.append(blocks.tune(start, stop, seed=77, delta=delta))
        tuned.append(blocks.run(rng.integers(0, WORDS, 3), start=True))
    for _ in range(2):
        run(Phase(inputs=first.inputs, outputs=failed("run", "missing")))
        for phase in (load, first, second, refused, *tuned, first):
            run(phase)
        for address, status in ((damaged, "damaged"), (too_large, "size")):
            run(Phase(inputs=load.inputs, outputs=failed("load", status)), address)
        script.command("reset")
        script.command("base", base)
    script.run(program, reported)


class TrainerScript(Script):
    """Phases of :mod:`seedbed.sim.cases.stream_trainer` as lines."""

    def __init__(self, config, folder):
        super().__init__("stream_trainer", folder)
        self.config = config

    def phase(self, phase, status=None, abort=0):
        config, outputs = self.config, phase.outputs
        [values] = fields(stream_trainer_job_layout(config), phase.inputs["i"])
        beats = fields(stream_result_layout(config), outputs.get("o", []))
        if tokens := fields(stream_token_layout(config), phase.inputs.get("i_tokens", [])):
            words = [word({"token": 24, "label": 8}, each) for each in tokens]
            self.send("s_axis_tokens", [b"".join(words)])
        trains = STREAM_TRAINER_KINDS[values["kind"]] == "train"
        steps = fields(stream_trainer_log_layout(config), outputs.get("o_log", []))
        self.receive("m_axis_results", 4 * config.lanes * (1 + len(beats)))
        if trains:
            self.receive("m_axis_log", 8 * (1 + len(steps)))
        names = [r.name for r in AXI_REGISTERS[self.name] if r.access == "write"]
        given = (values.get(name, 0) & 2**32 - 1 for name in names if name != "base")
        self.command("start", *given)
        self.poll(status, abort)
        code = list(self.status).index(status or "ok")
        vectors = b"".join(octets(each, 4) for beat in beats for each in beat["values"])
        ended = octets(code, 4 * config.lanes)
        self.show("m_axis_results", None if abort else vectors * (not status) + ended)
        if trains:
            logged = b"".join(word({"seed": 32, "change": 32}, step) for step in steps)
            self.show("m_axis_log", None if abort else logged * (not status) + bytes(8))
        if not abort:
            self.read("steps", 0 if status else len(steps))


@pytest.mark.parametrize("params", [{}, {"inputs": True}], ids=str)
def test_stream_trainer(driven, tmp_path, reported, params):
    """Program and samples in memory: trainings between blocks; errors; an abort; a reset.

    The drivers have no stream of vectors: those of samples are in memory.
    """
    program, config = driven("stream_trainer", params)
    rng, script, base = np.random.default_rng(7), TrainerScript(config, tmp_path), 0x3000
    engine = stream_engine.drawn(config.engine, "dense", rng)
    image = engine_image(config.engine, engine.program, engine.parameters, block=3, context=3)
    blocks = Blocks(config.engine, image, engine)
    samples = stream_trainer.drawn_samples(config, engine.program, rng, (3, 3, 3))
    of = stream_trainer.Trainings(config, blocks, samples)
    memory = script.file(image_bytes(config, of.beats))
    work = Work(batch=2, epochs=2, seed=99, eps=700, rate=900, decay=300, shift=12, most=2000)

    def run():
        block = blocks.run(rng.integers(0, WORDS, 3), start=True)
        return [] if config.inputs else [of.given(block)]

    load = of.given(blocks.load())
    before, train, after = run(), of.train(work), run()
    for _ in range(2):
        script.lines.append(f"memory {memory} {base}")
        script.command("base", base)
        script.phase(train, "missing")
        for phase in (load, *before, train, *after):
            script.phase(phase)
        long = of.command(work, epochs=50)
        script.phase(replace(train, inputs={"i": [of.command(work, batch=0)]}), "command")
        script.phase(replace(train, inputs={"i": [long]}), "aborted", abort=30)
        script.command("reset")
    script.run(program, reported)


class InstantScript(Script):
    """Commands of a :class:`~seedbed.sim.cases.instantft.Session` as lines."""

    def __init__(self, config, folder):
        super().__init__("instantft", folder)
        self.config = config
        self.session = instantft.Session(config=config, rng=np.random.default_rng(5))

    def rows(self, beats):
        return b"".join(octets(each, 2) for beat in beats for each in beat["word"])

    def add(self, status=None):
        """Add what was asked of the session since the last call."""
        config, joined = self.config, {}
        for phase in self.session.phases():
            for port, payloads in [*phase.inputs.items(), *phase.outputs.items()]:
                joined[port] = joined.get(port, []) + list(payloads)
        beats = fields(packet_layout(config.engine), joined["i_parameters"])
        if beats:
            self.send("s_axis_parameters", [self.rows(beats)], [beats[0]["trainable"]], 1)
            self.poll()
        if not joined["i"]:
            return
        [values] = fields(command_layout(config), joined["i"])
        if joined["i_samples"]:
            sent = fields(instant_sample_layout(config), joined["i_samples"])
            packets, firsts = cut(sent, pixels)
            users = [beat["label"] | beat["index"] << 16 for beat in firsts]
            self.send("s_axis_samples", packets, users, 1, config.ways)
        results = fields(result_layout(config), joined["o"])
        size = -(-config.values.width // 8)
        self.receive("m_axis_results", size * (values["samples"] * values["epochs"] + 1))
        read = fields(words_layout(config.engine), joined["o_parameters"])
        if INSTANTFT_KINDS[values["kind"]] == "read":
            self.receive("m_axis_adapters", 8 * 1024)
        self.command("start", *(values[name] for name in command_layout(config).members))
        self.poll(status)
        users = [b["best"] | b["hit"] << 8 | b["status"] << 9 for b in results]
        losses = b"".join(octets(b["loss"], size) for b in results)
        self.show("m_axis_results", losses, users)
        if read:
            self.show("m_axis_adapters", self.rows(read))


def test_instantft(driven, tmp_path, reported):
    """Jobs of every kind with the cache in memory; wrong images, indices and packets."""
    program, config = driven("instantft", {})
    script = InstantScript(config, tmp_path)
    session = script.session
    script.command("base", 0x5000)
    for trainable in (False, True):
        session.load(trainable=trainable)
        script.add()
    session.train([[0, 3, 1], [1, 0, 3]], batch=2, rate=80000)
    script.add()
    for name, value in {"samples": 6, "hits": 3, "misses": 3, "batches": 4}.items():
        script.read(f"counted_{name}", value)
    for kind in ("read", "clear", "forget"):
        session.order(kind)
        script.add()
    session.infer([2, 0])
    script.add()
    for fault in (Fault(1, "short"), Fault(0, "long"), Fault(1, "index")):
        session.train([[1, 2]], batch=2, rate=80000, fault=fault)
        script.add(fault.status)
        session.train([[0, 1]], batch=2, rate=80000)
        script.add()
    session.load(trainable=True, more=-1)
    script.add()
    session.order("read", "parameters")
    script.add("parameters")
    session.load(trainable=True)
    script.add()
    session.order("read")
    script.add()
    script.run(program, reported)


def test_forward_cache(driven, tmp_path, reported):
    """Entries that are stored and fetched, with their peaks in tuser; every status but memory."""
    program, config = driven("forward_cache", {})
    rng, script = np.random.default_rng(6), Script("forward_cache", tmp_path)
    model = ForwardCache(config)
    head = config.peak_beats * config.beat_bytes

    def request(kind, index, status=None):
        script.command("start", FORWARD_CACHE_KINDS.index(kind), index)
        script.poll(status)

    def store(index, status=None, less=0):
        codes = rng.integers(0, 16, sum(config.lengths), np.uint8)
        entry = model.pack(codes, rng.integers(0, 1 << config.peak_width, config.blocks))
        lanes, peaks = model.beats(entry, config.store_lanes)
        lanes, peaks = lanes[less:], peaks[less:]
        data = (lanes[:, ::2] | lanes[:, 1::2] << 4).astype(np.uint8).tobytes()
        script.send("s_axis_codes", [data], peaks, len(peaks))
        request("store", index, status)
        return entry

    def fetch(index, entry=None, status=None):
        script.receive("m_axis_codes", 8 * 1024)
        request("fetch", index, status)
        if entry is not None:
            _, peaks = model.beats(entry, config.fetch_lanes)
            script.show("m_axis_codes", entry[head:].tobytes(), peaks.tolist())

    fetch(0, status="miss")
    entries = {index: store(index) for index in (0, 21, config.entries - 1)}
    for index, entry in entries.items():
        fetch(index, entry)
    store(config.entries, "range")
    fetch(config.entries, status="range")
    store(21, "frame", less=1)
    fetch(21, status="miss")
    fetch(0, entries[0])
    request("clear", 0)
    fetch(0, status="miss")
    fetch(7, store(7))
    script.run(program, reported)
