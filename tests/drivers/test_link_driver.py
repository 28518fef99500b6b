"""The driver of the host link in C: the same words as the host in Python, and the same frames."""

import os
import pty
import select
import subprocess
import threading
import tty
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import c_drivers
import numpy as np
import pytest

from seedbed.boards import apps, virtual
from seedbed.boards.apps import link, noise
from seedbed.boards.apps.zo_trainer import stream_job
from seedbed.boards.device import Device
from seedbed.boards.registers import COMMON, PROTOCOL, addresses
from seedbed.boards.top import identifier
from seedbed.flow.jobs.data import digits
from seedbed.flow.jobs.zo_trainer_rtl import draw
from seedbed.golden.host_link import FrameError, HostLink, Packet, decode, encode
from seedbed.spec import HostLinkConfig
from seedbed.spec.host_link import RESPONSE, LinkError, Operation

#: Any number: the boards of these tests had no other host.
NONCE = 0x12345678
#: Seconds; the virtual board answers within milliseconds.
TIMEOUT = 0.05
COMMAND = "make test TESTS=tests/drivers"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return c_drivers.host(tmp_path_factory.mktemp("host"))


def run(host, port, lines, build=0, timeout=TIMEOUT):
    """Run a script; return its exit status, what it prints, and the requests that were repeated."""
    words = [host, port, str(round(1000 * timeout)), str(NONCE), str(build)]
    text = "\n".join(lines)
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout.split("\n")[:-1], int(done.stderr or 0)


def numbers(host, port, lines, build=0):
    """Run a script without an error; return its numbers, and the repeated requests."""
    code, printed, repeated = run(host, port, lines, build)
    assert code == 0, printed
    return [int(line) for line in printed], repeated


def written(path, words):
    path.write_bytes(np.array(words, "<u4").tobytes())
    return path


def some_words(count):
    return np.random.default_rng(4).integers(0, 2**32, count).tolist()


@pytest.mark.parametrize(("errors", "count"), [(0, 3000), (1000, 3000), (100, 300)])
def test_words_come_back_on_a_good_and_on_a_bad_line(errors, count, host, kept, tmp_path, reported):
    program, at = virtual.executable(link, "link", build=Path(kept)), addresses(link.REGISTERS)
    sent = some_words(count)
    path = written(tmp_path / "words", sent)
    script = [f"write {at['returns']} 1", f"echo {path} 0", f"read {at['words']}"]
    script += [f"read {at['total']}", "position", "accepted"]
    with virtual.start(program, errors=errors, seed=3) as board:
        found, repeated = numbers(host, board.port, script, identifier(link))
    assert found == [*sent, count, sum(sent) % 2**32, count, count]
    # On a good line, too, a busy machine may answer late.
    assert repeated > 2 or not errors
    reported("drivers", "link, virtual board", COMMAND, jobs=1)


@pytest.mark.parametrize("errors", [0, 1000])
def test_a_job_of_noise_has_the_words_of_the_python_host(errors, host, kept, tmp_path, reported):
    design = apps.find("noise", "3")
    program = virtual.executable(design, apps.file_name("noise", design), build=Path(kept))
    at, parameters = addresses(noise.REGISTERS), {"seed": 5, "numbers": 2000, "window": 3}
    parameters |= {"window_beats": 20}
    words, bins, squares = noise._expected(*parameters.values(), design.config)
    count = len(words) + len(bins)
    with virtual.start(program, errors=errors, seed=2) as board:
        script = [f"stop {at['busy']} {at['stop']}"]
        script += [f"write {at[name]} {value}" for name, value in parameters.items()]
        script += [f"write {at['start']} 1", f"receive 0 {count} 30000", f"read {at['norm_low']}"]
        script += [f"read {at['norm_high']}", f"read {at['jobs']}"]
        found, repeated = numbers(host, board.port, script, identifier(design))
        with Device(board.port, at, identifier=identifier(design), timeout=TIMEOUT) as device:
            _, position = device.stop()
            assert position == count
            device.write("start", 1)
            again = [word for part in device.stream(position, count) for word in part]
    assert found[:2] == [0, 0]
    assert found[2:-3] == again == [*words.tolist(), *bins.tolist()]
    assert found[-3:] == [squares % 2**32, squares >> 32, 1]
    # On a good line, too, a busy machine may answer late.
    assert repeated > 2 or not errors
    reported("drivers", "noise, virtual board", COMMAND, jobs=1)


@pytest.fixture(scope="module")
def trainer(kept):
    design = apps.find("zo_trainer", "tiny")
    program = virtual.executable(design, apps.file_name("zo_trainer", design), build=Path(kept))
    of = draw(design.config, digits(), images=16, batch=8, epochs=2, seed=3)
    job, *_ = stream_job(of)
    at = addresses(design.REGISTERS)
    fields = [at[name] for name in ("hold", "origin_in", "origin_out", "digest", "jobs")]
    return design, program, job, " ".join(map(str, [*fields, job.expected])), at


@pytest.mark.parametrize("errors", [0, 1000])
def test_a_training_has_the_words_of_the_model(errors, host, trainer, tmp_path, reported):
    design, program, job, fields, at = trainer
    path = written(tmp_path / "job", job.words)
    script = [f"run {path} {fields}", f"read {at['jobs']}", f"read {at['digest']}"]
    with virtual.start(program, errors=errors, seed=2) as board:
        (first, *words, jobs, digest), repeated = numbers(
            host, board.port, script, identifier(design)
        )
    assert (first, jobs, digest) == (0, 1, job.digest)
    job.require_same(np.array(words, np.uint32))
    # On a good line, too, a busy machine may answer late.
    assert repeated > 2 or not errors
    reported("drivers", "zo_trainer, virtual board", COMMAND, jobs=1)


def test_another_host_goes_on_with_a_job(host, trainer, tmp_path, reported):
    """The host in Python starts it and reads some words; the one in C reads the rest."""
    design, program, job, fields, at = trainer
    path = written(tmp_path / "job", job.words)
    other = written(tmp_path / "other", [*job.words, 0])
    build = identifier(design)
    with virtual.start(program) as board:
        assert run(host, board.port, [f"resume {path} {fields}"], build)[:2] == (
            1, ["there is no job to continue: the board was reset"],
        )  # fmt: skip
        with Device(board.port, at, identifier=build, timeout=TIMEOUT) as device:
            job.start(device)
            device.send(job.words.tolist()[:-3])
            position = device.position()
            some = next(device.stream(position, 20))
            device.words(position + len(some), 1)
        assert run(host, board.port, [f"resume {other} {fields}"], build)[:2] == (
            1, ["the board runs another job"],
        )  # fmt: skip
        (first, *words), _ = numbers(host, board.port, [f"resume {path} {fields}"], build)
    assert first == len(some) > 0
    job.require_same(np.array([*some, *words], np.uint32))
    reported("drivers", "zo_trainer, virtual board", COMMAND, jobs=1)


@contextmanager
def fake_board(answer):
    """Run the model of the link on a pseudo-terminal; yield its path and the frames that come."""
    near, far = pty.openpty()
    tty.setraw(far)
    frames, end = [], threading.Event()

    def serve():
        pending = b""
        while not end.is_set():
            if not select.select([near], [], [], 0.02)[0]:
                continue
            *whole, pending = (pending + os.read(near, 4096)).split(b"\0")
            for frame in filter(None, whole):
                frames.append(frame)
                response = answer(frame, len(frames))
                if response is None:
                    # The cable is pulled.
                    os.close(near)
                    return
                os.write(near, response)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield os.ttyname(far), frames
    finally:
        end.set()
        thread.join()
        for each in (near, far):
            with suppress(OSError):
                os.close(each)


class Echo:
    """A board that returns words, on a line with errors that depend on the frame's number only."""

    def __init__(self, seed):
        self.seed, self.values = seed, {0: PROTOCOL, 1: 77}
        self.link = HostLink(
            HostLinkConfig(), read=lambda at: self.values.get(at, 0), write=self.values.__setitem__
        )

    def __call__(self, frame, number):
        if isinstance(self.seed, int):
            chance = Random(f"{self.seed} {number}").random()
            # The request, or the response, is lost or damaged.
            if chance < 0.1:
                return b""
            if chance < 0.15:
                frame = frame[:-1]
        response = self.link.answer(frame)
        while self.link.received and self.link.push(self.link.received[0]):
            self.link.pop()
        if isinstance(self.seed, int) and response:
            if chance > 0.95:
                return response[:-3] + response[-2:]
            if chance > 0.9:
                return response * 2
            if chance > 0.85:
                return b""
        return response


@pytest.mark.parametrize("seed", [None, 1, 3, 4])
def test_the_frames_are_those_of_the_python_host(seed, host, tmp_path, monkeypatch):
    """Whatever is lost, both hosts send the same bytes, repetitions included."""
    sent = some_words(1200)
    path = written(tmp_path / "words", sent)
    script = ["write 9 5", "read 9", "position", f"send {path} 30000", "accepted"]
    script += ["receive 0 500 30000", "words 500 3", "read 4"]
    # A response that the test delays is no lost one.
    timeout = 0.3
    with fake_board(Echo(seed)) as (port, frames):
        assert run(host, port, script, 77, timeout)[0] == 0
        mine = list(frames)
    monkeypatch.setattr(os, "urandom", lambda count: NONCE.to_bytes(count, "little"))
    at = {"protocol": 0, "identifier": 1, "a": 9, "b": 4}
    assert [each.name for each in COMMON][:2] == ["protocol", "identifier"]
    with fake_board(Echo(seed)) as (port, frames):
        with Device(port, at, identifier=77, timeout=timeout) as device:
            device.write("a", 5)
            device.read("a")
            device.position()
            device.send(sent)
            device.accepted()
            for _ in device.stream(0, 500):
                pass
            device.words(500, 3)
            device.read("b")
            assert (device.repeated > 5) == (seed is not None)
        assert [decode(each) for each in mine] == [decode(each) for each in frames]
        assert mine == frames


def refused(host, answer, lines, build=77):
    with fake_board(answer) as (port, _):
        code, printed, _ = run(host, port, lines, build, 0.01)
    assert code == 1
    return printed[-1]


def test_errors_have_the_sentences_of_the_python_host(host, tmp_path):
    path = written(tmp_path / "words", some_words(2000))
    assert "does not answer: is it on" in refused(host, lambda *_: b"", [])
    other = Echo(None)
    other.values[0] = PROTOCOL + 1
    assert "has another version of the protocol" in refused(host, other, [])
    assert "runs another build: load the appl" in refused(host, Echo(None), [], 78)
    assert "was reset, or another program uses it" in refused(host, Echo(None), ["words 9 1"])
    assert "sends no words: does it run a job?" in refused(host, Echo(None), ["receive 0 1 100"])
    full = f"send {path} 300"
    assert "accepts no words: does it run a job?" in refused(host, Echo(None), [full])

    def resets(frame, number):
        if number == 20:
            board.link.accepted = 0
        return board(frame, number)

    board = Echo(None)
    assert "was reset, or another program uses it" in refused(host, resets, [full])

    def pulled(frame, number):
        return board(frame, number) if number < 12 else None

    board = Echo(None)
    assert "the line was disconnected" in refused(host, pulled, [full])

    def unknown(frame, number):
        try:
            packet = Packet.from_bytes(decode(frame))
        except FrameError:
            return b""
        if packet.operation == Operation.READ and packet.argument == 5:
            return encode(Packet(RESPONSE, packet.sequence, 0, LinkError.OPERATION).to_bytes())
        return plain(frame, number)

    plain = Echo(None)
    assert "refused a request: wrong operation" in refused(host, unknown, ["read 5"])
