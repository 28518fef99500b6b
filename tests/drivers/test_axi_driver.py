"""The driver of the AXI cores in C on the emitted Verilog, bit for bit the models."""

import subprocess
from pathlib import Path
from random import Random

import c_drivers
import numpy as np
import pytest

from seedbed.boards.drivers import CORES, STATUS
from seedbed.boards.drivers import _streams as streams_of
from seedbed.flow.cores.registry import WRAPPERS
from seedbed.sim.cases.gemv import Job
from seedbed.spec.axi_registers import AXI_REGISTERS
from seedbed.spec.registers import addresses

NO_ERROR, FAILED = "no error", "the command ended with an error"


class Script:
    """Lines for a core's bench, and what they must print."""

    def __init__(self, name, folder):
        self.streams = {port: k for k, port in enumerate(streams_of(name))}
        self.registers = addresses(AXI_REGISTERS.get(name, ()), 4)
        self.folder, self.lines, self.wanted, self.status = folder, [], [], CORES[name].status

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

    def run(self, program, seed):
        """Run the lines, and compare what is printed; return it."""
        path = self.folder / "script"
        path.write_text("\n".join(self.lines) + "\n")
        done = subprocess.run([program, path, str(seed)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        printed = done.stdout.split("\n")[:-1]
        assert len(printed) == len(self.wanted)
        for line, wanted in zip(printed, self.wanted, strict=True):
            assert wanted is None or line == wanted
        return printed


def test_every_status_has_a_sentence():
    assert {name: tuple(core.status) for name, core in CORES.items()} == STATUS
    assert {f"{name}_axi" for name in CORES} == set(WRAPPERS)


def gemv_packets(config, job):
    octets = -(-config.activation_width // 8)
    lanes = job.vector.reshape(-1).astype("<i8").view(np.uint8).reshape(-1, 8)[:, :octets]
    flat = job.weights.reshape(-1, config.beat_bits // 8)
    ends = np.cumsum(job.lengths)
    rows = [flat[end - beats : end].tobytes() for beats, end in zip(job.lengths, ends, strict=True)]
    return lanes.tobytes(), rows


def gemv_job(script, config, job, mode, *, status=None, abort=0):
    """Add a job; with a status, its vector or its first row has a beat too few, or rows are missing."""
    vector, rows = gemv_packets(config, job)
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
    elif status == "cleared":
        rows = rows[:0] or [rows[0][: config.beat_bits // 8]]
    script.send("s_axis_vector", [vector])
    if status != "cleared":
        script.send("s_axis_weights", rows)
    script.receive("m_axis_result", octets * config.vectors * (job.rows + 1))
    script.command("start", job.columns, job.rows, mode)
    script.poll(status, abort)
    script.show("m_axis_result", b"".join(wanted), users)


GEMV = [{}, {"decode": "lut4", "level_load": 4, "beat_bits": 64, "vectors": 2}]


@pytest.mark.parametrize("params", GEMV, ids=["seedlm", "lut4"])
def test_gemv(params, kept, tmp_path):
    """Products, packed and plain; after each error, and after an abort, good ones."""
    program, config = c_drivers.axi_bench("gemv", params, Path(kept))
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
    # A number that the register does not hold.
    refused = "the core refused an access to a register: a value does not fit, or a command runs"
    script.command("start", 1 << 20, 1, 2, gives=refused)
    for seed in (1, 2):
        script.run(program, seed)
