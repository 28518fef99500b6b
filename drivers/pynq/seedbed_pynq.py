# SPDX-License-Identifier: Apache-2.0
"""Overlay drivers of the cores of seedbed with AXI ports, for PYNQ with Python 3.10 or later.

A command is run in four steps: :meth:`Core.send` for its inputs, :meth:`Core.receive` for outputs
other than its results, ``start``, and :meth:`Core.wait`. Names of registers, streams and status
codes are those of ``seedbed_axi_cores.json``, which is made of the register maps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pynq import DefaultIP, allocate

__all__ = [
    "CommandError",
    "Core",
    "ForwardCache",
    "Gemv",
    "InstantFt",
    "SparseTrainer",
    "StreamEngine",
    "StreamTrainer",
    "ZoTrainer",
]

#: Bytes of tuser in a beat in memory, and the fewest bytes of a beat.
USER_BYTES = SMALLEST_BEAT = 4
#: Bytes of a page, on which the memory of a core begins.
PAGE = 4096

_MAPS = json.loads(Path(__file__).with_name("seedbed_axi_cores.json").read_text())
_CORES, _BITS = _MAPS["cores"], _MAPS["status_register"]


class CommandError(RuntimeError):
    """A command ended with an error; ``status`` is the name of its code."""

    def __init__(self, status: str, sentence: str):
        super().__init__(sentence)
        self.status = status


class _Stream:
    """An AXI4-Stream, and the channel of a DMA engine that it is connected to.

    A beat in memory has ``stride`` bytes: tdata, then tuser where the stream has it.
    """

    def __init__(self, channel: Any, beat_bytes: int, user: bool):
        self.channel, self.beat_bytes, self.user = channel, beat_bytes, user
        size = max(SMALLEST_BEAT, beat_bytes + USER_BYTES * user)
        self.stride = 1 << (size - 1).bit_length()
        self.in_flight = False
        self.wanted = self.over = 0

    @property
    def missing(self) -> bool:
        """Whether packets are missing, or in flight."""
        return self.over < self.wanted

    def _ended(self) -> bool:
        """Return whether a packet that was in flight is transferred."""
        channel = self.channel
        if not self.in_flight or not (channel.idle or channel.error):
            return False
        # Raises an error of the engine, and makes the memory visible to the processor.
        channel.wait()
        self.in_flight = False
        self.over += 1
        return True


class _Input(_Stream):
    """Packets to a core."""

    def __init__(self, channel: Any, beat_bytes: int, user: bool):
        super().__init__(channel, beat_bytes, user)
        self._packets: list[np.ndarray] = []
        self._buffer = np.zeros(0, "u1")

    def give(self, packets: Sequence[Any], users: Sequence[Any] | None) -> None:
        """Give packets to send, each with values of tuser if the stream has it."""
        if self.user and (users is None or len(users) != len(packets)):
            raise ValueError("users must have the value of tuser for each packet, or an array")
        self._packets = [
            self._beats(packet, users[k] if self.user and users is not None else None)
            for k, packet in enumerate(packets)
        ]
        self.wanted, self.over = len(packets), 0

    def _beats(self, packet: Any, user: Any) -> np.ndarray:
        """Return the beats of a packet as rows of bytes."""
        octets = np.frombuffer(np.ascontiguousarray(packet).tobytes(), np.uint8)
        if not octets.size or octets.size % self.beat_bytes:
            raise ValueError(
                f"a packet must have beats of {self.beat_bytes} bytes, not {octets.size} bytes"
            )
        found = np.zeros((octets.size // self.beat_bytes, self.stride), np.uint8)
        found[:, : self.beat_bytes] = octets.reshape(-1, self.beat_bytes)
        if self.user:
            values = np.broadcast_to(np.asarray(user, "<u4"), len(found)).copy()
            place = slice(self.beat_bytes, self.beat_bytes + USER_BYTES)
            found[:, place] = values.view(np.uint8).reshape(-1, USER_BYTES)
        return found

    def advance(self, *, ended: bool, beats: int | None) -> None:
        """End a packet, and begin the next one; after the end of a command, begin none.

        With ``beats``, the next packet is the last one and has so many.
        """
        self._ended()
        if self.in_flight:
            return
        if ended:
            self.wanted = self.over
        if not self.missing:
            return
        packet = self._packets[self.over][:beats]
        if beats:
            self.wanted = self.over + 1
        if packet.size > self._buffer.size:
            self._buffer = allocate((packet.size,), "u1")
        self._buffer[: packet.size] = packet.reshape(-1)
        self.channel.transfer(self._buffer, nbytes=packet.size)
        self.in_flight = True


class _Output(_Stream):
    """Packets from a core, each of at most ``room`` bytes."""

    def __init__(self, channel: Any, beat_bytes: int, user: bool, room: int):
        super().__init__(channel, beat_bytes, user)
        self._buffer = allocate((-(-room // beat_bytes), self.stride), "u1")
        self.want(0)

    def want(self, packets: int) -> None:
        """Receive so many packets. A reception that is in flight already takes the first one."""
        self.wanted, self.over = packets, 0
        self.octets, self.users = b"", np.zeros(0, "<u4")

    def advance(self) -> None:
        """End a packet, and begin to receive the next one."""
        if self._ended():
            beats = np.array(self._buffer[: self.channel.transferred // self.stride])
            self.octets += beats[:, : self.beat_bytes].tobytes()
            user = (
                beats[:, self.beat_bytes : self.beat_bytes + USER_BYTES] if self.user else beats[:0]
            )
            self.users = np.append(self.users, np.frombuffer(user.tobytes(), "<u4"))
        if self.missing and not self.in_flight:
            self.channel.transfer(self._buffer)
            self.in_flight = True


class Core:
    """What all cores have: streams, and a command at a time."""

    #: The core's name.
    name: str

    def __init__(self, *description: Any):
        super().__init__(*description)
        self._facts = _CORES[self.name]
        self._inputs: dict[str, _Input] = {}
        self._outputs: dict[str, _Output] = {}
        self._running = self._over = self._aborting = False
        self._status = 0

    def connect(self, stream: str, channel: Any, *, beat_bytes: int, room: int = 0) -> None:
        """Connect a stream to ``sendchannel`` or ``recvchannel`` of a DMA engine.

        Parameters
        ----------
        stream
            Such as ``s_axis_samples``.
        channel
            Of :class:`pynq.lib.AxiDMA`.
        beat_bytes
            Bytes of tdata.
        room
            Of an output: bytes of tdata of the longest packet.
        """
        user = stream in self._facts["users"]
        if stream in self._facts["inputs"]:
            self._inputs[stream] = _Input(channel, beat_bytes, user)
        elif stream not in self._facts["outputs"]:
            known = ", ".join([*self._facts["inputs"], *self._facts["outputs"]])
            raise ValueError(f"{self.name} has the streams {known}, not {stream}")
        elif room < beat_bytes:
            raise ValueError(f"the room of {stream} must be a beat or more, not {room} bytes")
        else:
            self._outputs[stream] = _Output(channel, beat_bytes, user, room)

    def send(self, stream: str, packets: Sequence[Any], users: Sequence[Any] | None = None) -> None:
        """Give packets of bytes for an input; ``users`` has tuser of each, a number or an array."""
        self._idle(self._inputs, stream).give(packets, users)

    def receive(self, stream: str, packets: int = 1) -> None:
        """Say how many packets come on an output.

        A command receives the packet that it ends with by itself, such as ``m_axis_results``.
        """
        self._idle(self._outputs, stream).want(packets)

    def received(self, stream: str) -> tuple[bytes, np.ndarray]:
        """Return the bytes that came on an output, and tuser of each beat where it has it."""
        found = self._outputs[stream]
        return found.octets, found.users

    def poll(self) -> bool:
        """Begin and end transfers; return whether all is done.

        Raises :class:`CommandError` if the command ended with an error.
        """
        # Before the outputs: the packets of a command that has ended are in flight or there.
        over = self._over
        if self._running and not over:
            self._check()
        for output in self._outputs.values():
            output.advance()
        for stream, given in self._inputs.items():
            cut = self._aborting and stream == self._facts["samples"]
            given.advance(ended=self._running and self._over, beats=1 if cut else None)
        if self._running and over and self._status:
            self._drop()
        streams = [*self._inputs.values(), *self._outputs.values()]
        if any(each.missing for each in streams) or (self._running and not self._over):
            return False
        failed = self._running and self._status
        self._running = False
        if failed:
            raise CommandError(*list(self._facts["status"].items())[self._status])
        return True

    def wait(self, seconds: float = 10) -> None:
        """Poll until all is done. Raises ``TimeoutError`` if that takes longer."""
        end = time.monotonic() + seconds
        while not self.poll():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name} is not done after {seconds} s")

    def abort(self) -> None:
        """Abort the command that runs. Polls go on until it has ended.

        A core without an abort ends with the status of a sample that is too short.
        """
        if not self._running or self._over:
            return
        if self._facts["abort"]:
            self._set("control", self._facts["abort"])
        elif self._facts["samples"] in self._inputs:
            self._aborting = True
        else:
            raise ValueError("the command cannot be aborted: it takes no samples")

    def _idle(self, streams: Mapping[str, Any], stream: str) -> Any:
        """Return a stream that is connected, and whose packets are transferred."""
        if stream not in streams:
            raise ValueError(f"{self.name} has no {stream} that is connected")
        if streams[stream].missing:
            raise RuntimeError(f"packets of {stream} are missing or in flight")
        return streams[stream]

    def _begin(self) -> None:
        """Begin a command."""
        if self._running:
            raise RuntimeError("a command runs")
        # What the core discards after an error is sent before the next command.
        if any(given.in_flight for given in self._inputs.values()):
            raise RuntimeError("a packet of an input is in flight")
        # Every command ends with a packet of this output.
        results = self._facts["results"]
        if results not in self._outputs:
            raise ValueError(f"{results} must be connected before a command")
        if not self._outputs[results].missing:
            self.receive(results)

    def _begun(self) -> None:
        self._running, self._over, self._aborting = True, False, False

    def _drop(self) -> None:
        """Wait no longer for packets that do not come after an error."""
        facts = self._facts
        if self._outputs[facts["results"]].missing:
            return
        missing = list(facts["may_miss"])
        if facts["without_steps"] and self._get("steps") == 0:
            missing += facts["without_steps"]
        for stream in missing:
            if output := self._outputs.get(stream):
                output.wanted = output.over

    def _check(self) -> None:
        """Read how a command ended, if it has."""
        word = self._get("status")
        self._over = bool(word & _BITS["done"])
        self._status = word >> _BITS["code"]

    def _get(self, register: str) -> int:
        raise NotImplementedError

    def _set(self, register: str, value: int) -> None:
        raise NotImplementedError


class _Registers(Core):
    """A core with registers at ``s_axi_control``; ``read`` and ``write`` are of DefaultIP."""

    read: Any
    write: Any
    _memory: Any = None

    def _get(self, register: str) -> int:
        return int(self.read(self._facts["registers"][register]))

    def _set(self, register: str, value: int) -> None:
        self.write(self._facts["registers"][register], int(value) % (1 << 32))

    def get(self, register: str) -> int:
        """Return the value of a register, such as ``counted_hits``."""
        if register not in self._facts["registers"]:
            known = ", ".join(self._facts["registers"])
            raise ValueError(f"{self.name} has the registers {known}, not {register}")
        return self._get(register)

    def _start(self, values: Mapping[str, int]) -> None:
        """Write registers of a command, and start it."""
        self._begin()
        for name, value in values.items():
            self._set(name, value)
        self._set("control", 1)
        self._begun()

    def _start_kind(self, kind: str, values: Mapping[str, int]) -> None:
        """Start a command by its name, with a value for each of its other registers."""
        kinds, (_, *names) = self._facts["kinds"], self._facts["command"]
        if kind not in kinds:
            raise ValueError(f"{self.name} has the commands {', '.join(kinds)}, not {kind}")
        if not {*names} - {*self._facts["optional"]} <= {*values} <= {*names}:
            given = ", ".join(values) or "none"
            raise ValueError(f"a command has the values {', '.join(names)}, not {given}")
        self._start({"kind": kinds.index(kind), **values})

    def _use_memory(self, buffer: Any) -> None:
        if buffer.physical_address % PAGE:
            raise ValueError(f"the memory must begin at a multiple of {PAGE} bytes")
        if self._running:
            raise RuntimeError("a command runs")
        buffer.flush()
        self._memory = buffer
        self._set("base", buffer.physical_address)


def _vlnv(name: str) -> list[str]:
    """Return the names that Vivado gives to a core: as a module, and as a packaged IP."""
    return [f"xilinx.com:{library}:{name}_axi:1.0" for library in ("module_ref", "user")]


class Gemv(_Registers, DefaultIP):
    """Products of a packed or plain matrix and vectors."""

    name = "gemv"
    bindto = _vlnv(name)

    def start(self, columns: int, rows: int, plain: bool | None = None) -> None:
        """Start a product of ``s_axis_vector``, a packet, and ``s_axis_weights``, one for each row.

        The output is ``m_axis_result``, a packet. ``plain`` is only for ``decode`` = ``seedlm``.
        """
        values = {"columns": columns, "rows": rows}
        self._start(values if plain is None else {**values, "mode": int(plain)})

    def clear(self) -> None:
        """End the discarding after an error, without a job."""
        self._set("control", self._facts["abort"])


class InstantFt(_Registers, DefaultIP):
    """A frozen network, fine-tuned by adapters into its logits."""

    name = "instantft"
    bindto = _vlnv(name)

    def use_memory(self, buffer: Any) -> None:
        """Give the core a buffer of :func:`pynq.allocate` for its cache."""
        self._use_memory(buffer)

    def start(self, kind: str, **values: int) -> None:
        """Start ``train``, ``infer``, ``clear``, ``read`` or ``forget``.

        The values are ``samples``, ``epochs``, ``batch`` and ``rate``. Network and adapters are
        packets of ``s_axis_parameters`` with tuser 0 and 1, sent before it. Input:
        ``s_axis_samples``, a packet for each image, with tuser: label, and index from bit 16 up.
        Outputs: ``m_axis_results``, a packet; ``m_axis_adapters``, a packet, of a read.
        """
        self._start_kind(kind, values)


class ZoTrainer(_Registers, DefaultIP):
    """A network in 8-bit integers, trained by forward passes."""

    name = "zo_trainer"
    bindto = _vlnv(name)

    def schedule(self, entries: Iterable[Sequence[int]]) -> None:
        """Write a schedule: epoch, magnitude, zeros and update bits of each entry.

        Update bits are 0 without a tail.
        """
        if self._running:
            raise RuntimeError("a command runs")
        rows = list(entries)
        for k, (epoch, magnitude, zeros, update_bits) in enumerate(rows):
            last = k == len(rows) - 1
            word = epoch | magnitude << 16 | zeros << 20 | update_bits << 24 | last << 31
            self._set("schedule", word)

    def start(self, kind: str, **values: int) -> None:
        """Start ``train``, ``infer`` or ``read``.

        The values are ``samples``, ``epochs``, ``batch``, ``seed`` and ``exponent``. The weights
        are a packet of ``s_axis_parameters``, sent before it. Input: ``s_axis_samples``, a packet
        for each image, with its label in tuser. Outputs: ``m_axis_results``, a packet;
        ``m_axis_log``, a packet, of a training; ``m_axis_parameters``, a packet, of a read.
        """
        self._start_kind(kind, values)


class SparseTrainer(_Registers, DefaultIP):
    """A compressed network in memory, with some trained weights."""

    name = "sparse_trainer"
    bindto = _vlnv(name)

    def use_memory(self, buffer: Any) -> None:
        """Give the core a buffer of :func:`pynq.allocate` with the image of its network."""
        self._use_memory(buffer)

    def start(self, kind: str, **values: int) -> None:
        """Start ``train``, ``infer``, ``load`` or ``read``.

        The values are ``samples``, ``epochs``, ``batch``, ``seed``, ``rate``, ``decay`` and
        ``shift``. The table of layers is a packet of ``s_axis_layers``, sent before it. Inputs:
        ``s_axis_entries``, a packet, of a load; ``s_axis_samples``, a packet for each sample, with
        its label in tuser. Outputs: ``m_axis_results``, a packet; ``m_axis_log``, a packet, of a
        training; ``m_axis_entries``, a packet for each layer, of a read.
        """
        self._start_kind(kind, values)


class StreamEngine(_Registers, DefaultIP):
    """A program in memory: a transformer or a dense network, run block by block."""

    name = "stream_engine"
    bindto = _vlnv(name)

    def use_memory(self, buffer: Any) -> None:
        """Give the core a buffer of :func:`pynq.allocate` with the image of its program."""
        self._use_memory(buffer)

    def start(
        self, kind: str, address: int = 0, start: int = 0, first: int = 0, end: int = 0,
        seed: int = 0, delta: int = 0,
    ) -> None:  # fmt: skip
        """Start ``load``, of a program at a beat of memory, ``run`` or, with the option, ``tune``.

        ``start`` = 1 says that the first token of a run is the first of all. With keys and values
        in memory or with ``tune``, a load says which beats are written: from ``first`` to the one
        before ``end``. A tune changes the kept weights of such a range by ``delta`` times the signs
        of ``seed``. Input: ``s_axis_tokens``, a packet, of a run. Output: ``m_axis_results``, a
        packet, whose last beat is the status.
        """
        values = {"address": address, "start": start, "first": first, "end": end}
        if kind == "tune":
            values |= {"seed": seed, "delta": delta & 0xFFFFFFFF}
        self._start_kind(kind, values)


class StreamTrainer(_Registers, DefaultIP):
    """A program in memory, whose kept weights are trained on samples in the same memory."""

    name = "stream_trainer"
    bindto = _vlnv(name)

    def use_memory(self, buffer: Any) -> None:
        """Give the core a buffer of :func:`pynq.allocate` with its program and samples."""
        self._use_memory(buffer)

    def start(self, kind: str, **values: int) -> None:
        """Start ``load``, ``run``, ``tune``, ``train`` or ``abort``.

        The values are those of the registers of the command, such as ``samples``; the others are 0.
        ``vectors`` is written unless it is 0: only a core with ``inputs`` has the register.

        Input: ``s_axis_tokens``, a packet, of a run, each token with its class in bits 31..24.
        Outputs: ``m_axis_results``, a packet, whose last beat is the status; ``m_axis_log``, a
        packet, of a training.
        """
        (_, *names), optional = self._facts["command"], self._facts["optional"]
        given = {**dict.fromkeys(names, 0), **values}
        self._start_kind(kind, {n: v for n, v in given.items() if v or n not in optional})


class ForwardCache(Core):
    """Entries of 4-bit codes and their peaks in memory.

    The core has no registers: it is made of its streams. The address of its memory is its port
    ``base_address``.
    """

    name = "forward_cache"

    def start(self, kind: str, index: int = 0) -> None:
        """Start ``fetch``, ``store`` or ``clear`` of an entry.

        Input: ``s_axis_codes``, a packet, of a store. Output: ``m_axis_codes``, a packet, of a
        fetch. Both have tuser in each beat.
        """
        self._begin()
        code = self._facts["kinds"].index(kind)
        self.send("s_axis_request", [np.array([index & 255, index >> 8, code], "u1")])
        self._begun()

    def _check(self) -> None:
        """The answer has the status."""
        octets, _ = self.received("m_axis_answer")
        self._over = bool(octets)
        self._status = octets[0] if octets else 0
