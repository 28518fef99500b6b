"""Application ``instantft``: a frozen network is fine-tuned by adapters, from images in memory."""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import connect
from rich.console import Console

from seedbed.boards.device import Device
from seedbed.boards.image_store import ImageStore, beats_of, room, share_memory
from seedbed.boards.instantft_job import inputs, outputs, prepared, stream_job
from seedbed.boards.memory import MEMORY_REGISTERS, memory_ports, require_memory
from seedbed.boards.registers import Register, ports
from seedbed.boards.stream_job import JOB_REGISTERS, add_job, feed, give
from seedbed.boards.streams import payloads
from seedbed.hw.adapters.instantft import InstantFt, result_layout
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.sim.job import Epoch, every_epoch
from seedbed.sim.jobs.instantft_job import Job, require_counted
from seedbed.sim.payloads import unpack
from seedbed.spec import SdramConfig, SkidBufferConfig
from seedbed.spec.instantft import COUNTERS, INSTANTFT_KINDS, InstantFtConfig

__all__ = ["MEMORY", "REGISTERS", "VARIANTS", "Top", "run", "train"]

MEMORY = SdramConfig(beat_bits=64)
REGISTERS = (
    *MEMORY_REGISTERS,
    *JOB_REGISTERS,
    *(Register(f"train_{name}", "read", f"{name} of the last training") for name in COUNTERS),
)
#: Configurations: LeNet-5 with 32 lanes, with a faster memory, and with 8 lanes, and a network of
#: 6 x 6 pixels for a quick simulation.
VARIANTS = {
    "lenet5": InstantFtConfig(beat_bits=64),
    "lenet5-fast": InstantFtConfig(beat_bits=64),
    "lenet5-8": InstantFtConfig(beat_bits=64, lanes=8, ways=2),
    "tiny": InstantFtConfig(network="tiny", beat_bits=64, rank=2, lanes=8, ways=2, entries=256),
}
#: The configuration of each board.
BOARDS = {"ulx3s-85f": "lenet5", "ulx3s-45f": "lenet5-8"}
#: Clocks other than the boards', in MHz.
CLOCKS_MHZ = {"lenet5-8": 70}
#: Clocks of memories that are not those of the application.
MEMORY_CLOCKS_MHZ = {"lenet5-fast": 110}
#: What memories are made of: 107 of the 108 block RAMs of a 45F are those of the parameters, the
#: activations and the softmax, so that all others are LUTs.
MEMORY_STYLES = {
    "lenet5-8": {
        "distributed": ("link.*:*", "app.images.*:*", "app.core.cache.cache:hits"),
    }
}


class Top(wiring.Component):
    """Fine-tunes by the words from the host: parameters, images once, commands, and indices.

    The forward cache is at the begin of the memory, the images are after it.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.

    Members
    -------
    control, status
        :data:`REGISTERS`.
    i : In(stream of unsigned(32))
        Packets to the ports of :func:`~seedbed.boards.instantft_job.inputs`.
    o : Out(stream of unsigned(32))
        Words of the ports of :func:`~seedbed.boards.instantft_job.outputs`.
    leds : Out(8)
        The number of jobs.
    o_command, o_write, i_response, i_read
        To the memory.
    """

    def __init__(self, config: InstantFtConfig):
        self.config = config
        super().__init__(ports(REGISTERS) | memory_ports(MEMORY))

    def elaborate(self, platform):
        m = Module()
        config, cache = self.config, self.config.forward_cache
        splitter, merger = add_job(m, self, inputs(config), outputs(config))
        core = InstantFt(config)
        beats, label = beats_of(config.engine.plan), inputs(config)[-1].bits - 16
        images = ImageStore(
            MEMORY, base=cache.entries * cache.beats, beats=beats, ways=config.ways, label=label
        )
        reset = ResetInserter(share_memory(m, self, core, images, hold=self.control.hold[0]))
        m.submodules.core, m.submodules.images = reset(core), reset(images)
        given = splitter.o_parameters
        m.d.comb += [
            core.i_parameters.valid.eq(given.valid),
            given.ready.eq(core.i_parameters.ready),
            core.i_parameters.payload.word.as_value().eq(given.payload.data),
            core.i_parameters.payload.trainable.eq(given.payload.tag),
            core.i_parameters.payload.last.eq(given.payload.last),
        ]
        feed(m, splitter.o_command, core.i)
        feed(m, splitter.o_images, images.i_store)
        feed(m, splitter.o_samples, images.i_show)
        # Ready of the core's samples depends on a step of its engine.
        beat = images.o.payload.shape()
        beats = SkidBuffer(SkidBufferConfig(width=beat.size), beat)
        m.submodules.beats = reset(beats)
        connect(m, images.o, beats.i)
        sample, shown = core.i_samples, beats.o
        m.d.comb += [
            sample.valid.eq(shown.valid),
            shown.ready.eq(sample.ready),
            sample.payload.as_value().eq(shown.payload.as_value()),
            self.leds.eq(self.status.jobs),
        ]
        give(m, core.o, merger.i_result)
        give(m, core.o_parameters, merger.i_parameters)
        self._counters(m, core)
        return m

    def _counters(self, m, core):
        """Store the counters of a training when it ends."""
        trains, ended = Signal(), Signal()
        m.d.sync += ended.eq(core.o.valid & core.o.ready & core.o.payload.last & trains)
        with m.If(core.i.valid & core.i.ready):
            m.d.sync += trains.eq(core.i.payload.kind == INSTANTFT_KINDS.index("train"))
        for name in COUNTERS:
            value = Signal(32, name=f"train_{name}")
            m.d.comb += self.status[f"train_{name}"].eq(value)
            with m.If(ended):
                m.d.sync += value.eq(core.counters[name])


def run(
    device: Device,
    console: Console,
    config: InstantFtConfig,
    *,
    images: Annotated[int, typer.Option(help="Images to train on.")] = 256,
    held: Annotated[int, typer.Option(help="Other images, which are classified only.")] = 64,
    epochs: Annotated[int, typer.Option(help="Epochs.")] = 10,
    angle: Annotated[float, typer.Option(help="Rotation of the images in degrees.")] = 90,
    seed: Annotated[int, typer.Option(help="Seed of images, adapters and order.")] = 0,
    data: Annotated[
        Path | None, typer.Option(help="A folder with MNIST's files; by default, 8 x 8 digits.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where the pre-trained network is stored.")] = Path(
        "build/demo/board"
    ),
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the job that an earlier host started.")
    ] = False,
) -> None:
    """Fine-tune on the board; compare classes, losses and adapters with the model, bit for bit.

    Raises ``AssertionError`` for a difference, and ``ValueError`` for a value out of range.
    """
    of = prepared(
        config, data, folder, images=images, held=held, epochs=epochs, angle=angle, seed=seed
    )
    train(device, console, of, resume=resume)


def train(
    device: Device, console: Console, of: Job, *, resume: bool = False, epoch: Epoch = every_epoch
) -> None:
    """Run a job; compare classes, losses and adapters with the model, bit for bit.

    ``epoch`` trains the model for an epoch. Raises ``AssertionError`` for a difference, and
    ``ValueError`` for more images than the memory has room for.
    """
    config, cache = of.config, of.config.forward_cache
    most = room(
        MEMORY, beats=beats_of(config.engine.plan), ways=config.ways,
        base=cache.entries * cache.beats,
    )  # fmt: skip
    if len(of.images) > most:
        raise ValueError(
            f"the memory has room for {most} images beside the cache, not for {len(of.images)}"
        )
    job, counted = stream_job(of, epoch)
    console.print(require_memory(device, MEMORY))
    shown = Progress(of, console)
    first, words = job.run(device, resume=resume, progress=shown.update)
    counters = {name: device.read(f"train_{name}") for name in COUNTERS}
    job.require_same(words)
    require_counted(counted, counters)
    if first:
        console.print(f"an earlier host has read the first {first} of {job.expected} words")
    else:
        found = {act.name: of.correct(act) for act in job.acts if act.name in ("before", "after")}
        for name, part in (("tuned", slice(of.tuned)), ("other", slice(of.tuned, None))):
            before, after = (100 * found[when][part].mean() for when in ("before", "after"))
            count = len(found["before"][part])
            console.print(f"{count} {name} images: {before:.1f} % before, {after:.1f} % after")
    console.print("the adapters are those of the model, bit for bit")
    cycles, waits = device.read("cycles"), device.read("waits")
    console.print(
        f"{cycles:,} cycles, {counters['cycles']:,} of them training; {100 * waits / cycles:.0f} % "
        "wait for the line"
    )


class Progress:
    """Prints, when an epoch's results came, how many of its images were classified correctly."""

    def __init__(self, of: Job, console: Console):
        self.of, self.console, self.epochs = of, console, 0
        self.labels = of.labels[np.concatenate(of.order)]
        self.began = time.monotonic()

    def update(self, words: np.ndarray) -> None:
        """Print the epochs that ended."""
        config, count = self.of.config, self.of.tuned
        # The first classification ends with a result of its own.
        results = payloads(outputs(config), words)["result"][len(self.of.images) + 1 :]
        payload = results.view("<u4").reshape(-1, 2)
        layout = result_layout(config)
        best, losses = (unpack(layout, payload, name)[:, 0] for name in ("best", "loss"))
        while self.epochs < self.of.epochs and len(results) >= (self.epochs + 1) * count:
            part = slice(self.epochs * count, (self.epochs + 1) * count)
            correct = (best[part] == self.labels[part]).mean()
            now = time.monotonic()
            self.epochs += 1
            self.console.print(
                f"epoch {self.epochs}: {100 * correct:.1f} % correct, "
                f"mean loss {losses[part].mean() / config.values.one:.4f}, "
                f"{count / (now - self.began):,.0f} images/s"
            )
            self.began = now
