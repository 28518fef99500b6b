"""Application ``zo_trainer``: a network in int8 that is trained by forward passes."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from amaranth.hdl import Module, ResetInserter
from amaranth.lib import data, wiring
from rich.console import Console

from seedbed.boards.device import Device
from seedbed.boards.image_store import ImageStore, beats_of, room, shown
from seedbed.boards.memory import MEMORY_REGISTERS, memory_ports, require_memory
from seedbed.boards.registers import ports
from seedbed.boards.stream_job import JOB_REGISTERS, StreamJob, act_packets, add_job, feed, give
from seedbed.boards.streams import Input, Output, packet, payloads
from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.elasticzo_checkpoint import save
from seedbed.flow.jobs.zo_trainer_rtl import draw
from seedbed.flow.run.files import require_outputs, write_atomic
from seedbed.flow.run.options import Force
from seedbed.golden import zo_trainer as golden
from seedbed.golden.training_log import TrainingLog, digest
from seedbed.golden.zo_trainer import LogEntry
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.engine.sample_intake import sample_layout
from seedbed.hw.memory.memory_port import pass_memory
from seedbed.hw.zeroth_order.zo_control import job_layout, status_layout
from seedbed.hw.zeroth_order.zo_schedule import entry_layout
from seedbed.hw.zeroth_order.zo_steps import class_layout, log_layout
from seedbed.hw.zeroth_order.zo_trainer import ZoTrainer
from seedbed.sim.job import Epoch, every_epoch
from seedbed.sim.jobs.zo_job import Job
from seedbed.sim.payloads import image_beats
from seedbed.spec import SdramConfig
from seedbed.spec.network import Layer, NetworkConfig
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["MEMORY", "REGISTERS", "VARIANTS", "Top", "run", "train"]

MEMORY = SdramConfig(beat_bits=64)
REGISTERS = (*MEMORY_REGISTERS, *JOB_REGISTERS)
#: A convolution and a dense layer for 8 x 8 pixels.
TINY = NetworkConfig(
    (
        Layer(name="conv1", kind="conv", inputs=(1, 8, 8), outputs=2, kernel=3, padding=1, pool=2),
        Layer(name="fc1", kind="dense", inputs=(32, 1, 1), outputs=10, relu=False),
    )
)
#: Ports for packets, by the core's.
INPUTS = {
    "i_parameters": "parameters", "i_schedule": "schedule", "i": "command", "i_samples": "samples"
}  # fmt: skip
#: Configurations: LeNet-5 for the boards, and networks for 8 x 8 pixels for quick simulations. That
#: with a tail, whose last layer is trained by backpropagation, learns in few steps. Those with rank
#: 1 need the fewest passes.
VARIANTS = {
    "lenet5": ZoTrainerConfig(),
    "digits": ZoTrainerConfig(network="lenet_digits", lanes=8, ways=2),
    "tiny": ZoTrainerConfig(network=TINY, lanes=8, ways=2),
    "tail": ZoTrainerConfig(network=TINY, lanes=8, ways=2, tail=1),
    "lenet5-rank1": ZoTrainerConfig(batch=32, fraction=6, perturbation="rank1", levels=4),
    "tiny-rank1": ZoTrainerConfig(
        network=TINY, lanes=8, ways=2, batch=32, fraction=6, perturbation="rank1", levels=4
    ),
}
#: The configuration of each board.
BOARDS = {"ulx3s-85f": "lenet5"}
#: Clocks other than the boards', in MHz: a routing for 60 MHz ends with 59.97 MHz, or does not end.
CLOCKS_MHZ = {"lenet5": 55}
#: Steps from which on a training without a tail may show something, and why fewer do not.
LEAST = 1000
FEW = (
    "a step moves a weight by 1 of 127 at most, by the sign of one loss difference: accuracy rises "
    "over thousands of steps, not in {steps:,}; the configuration 'tail' learns in seconds"
)
#: Router 2 found no route from the static placer.
PLACER = "heap"


class Top(wiring.Component):
    """Trains by the words from the host: parameters, schedule, images once, commands, and indices.

    The images are in the memory.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`.

    Members
    -------
    control, status
        :data:`REGISTERS`.
    i : In(stream of unsigned(32))
        Packets to the ports of :func:`inputs`.
    o : Out(stream of unsigned(32))
        Words of the ports of :func:`outputs`.
    leds : Out(8)
        The number of jobs.
    o_command, o_write, i_response, i_read
        To the memory.
    """

    def __init__(self, config: ZoTrainerConfig):
        self.config = config
        super().__init__(ports(REGISTERS) | memory_ports(MEMORY))

    def elaborate(self, platform):
        m = Module()
        splitter, merger = add_job(m, self, inputs(self.config), outputs(self.config))
        core = ZoTrainer(self.config)
        images = ImageStore(
            MEMORY, base=0, **image_size(self.config), label=label_bits(self.config)
        )
        m.submodules.core = ResetInserter(self.control.hold[0])(core)
        # A burst that is written is not cut.
        m.submodules.images = ResetInserter(self.control.hold[0] & ~images.storing)(images)
        for name in ("parameters", "schedule"):
            feed(m, getattr(splitter, f"o_{name}"), getattr(core, f"i_{name}"))
        feed(m, splitter.o_command, core.i)
        feed(m, splitter.o_images, images.i_store)
        feed(m, splitter.o_samples, images.i_show)
        sample, shown = core.i_samples, images.o
        m.d.comb += [
            sample.valid.eq(shown.valid),
            shown.ready.eq(sample.ready),
            sample.payload.pixels.as_value().eq(shown.payload.pixels),
            sample.payload.label.eq(shown.payload.label),
            sample.payload.last.eq(shown.payload.last),
            images.writable.eq(1),
        ]
        pass_memory(m, self, images)
        for name in ("log", "parameters", "status"):
            give(m, getattr(core, f"o_{name}"), getattr(merger, f"i_{name}"))
        give(m, core.o, merger.i_class)
        m.d.comb += self.leds.eq(self.status.jobs)
        return m


def image_size(config: ZoTrainerConfig) -> dict[str, int]:
    """Return the beats of an image, and the bytes of each."""
    return {"beats": beats_of(config.engine.plan), "ways": config.ways}


def label_bits(config: ZoTrainerConfig) -> int:
    """Return the bits of a label."""
    return int(sample_layout(config)["label"].width)


def inputs(config: ZoTrainerConfig) -> tuple[Input, ...]:
    """Return the ports for packets; an image's tag is its index."""
    return (
        Input("parameters", 2 * config.engine.word),
        Input("schedule", entry_layout(config).size - 1),
        Input("command", job_layout(config).size),
        Input("images", 8 * config.ways, 16),
        Input("samples", 16 + label_bits(config)),
    )


def outputs(config: ZoTrainerConfig) -> tuple[Output, ...]:
    """Return the ports for words to the host: the core's streams."""
    names = ("log", "class", "parameters", "status")
    found = layouts(config).values()
    return tuple(Output(name, each.size) for name, each in zip(names, found, strict=True))


def layouts(config: ZoTrainerConfig) -> dict[str, data.StructLayout]:
    """Return the layouts of the core's outputs."""
    return {
        "o_log": log_layout(config),
        "o": class_layout(config),
        "o_parameters": words_layout(config.engine),
        "o_status": status_layout(),
    }


def stream_job(
    of: Job, epoch: Epoch = every_epoch
) -> tuple[StreamJob, list[LogEntry], golden.ZoTrainer]:
    """Return a job for the board, and the log and the weights that the model ends with.

    It classifies, trains, classifies again, and reads the weights. ``epoch`` trains the model for
    an epoch. Raises ``ValueError`` for more
    images than the memory has room for.
    """
    config = of.config
    most = room(MEMORY, **image_size(config))
    if len(of.images) > most:
        raise ValueError(
            f"the memory has room for {most} images, not for {len(of.images)}, of which "
            f"{len(of.classified)} are classified only"
        )
    ports = inputs(config)
    names = ("load", "schedule", "before", "train", "infer", "read")
    acts, log, model = of.acts(names, lambda places: shown(places, of.labels), epoch=epoch)
    beats = image_beats(of.images, config.ways).astype(np.uint8)
    packets = [act_packets(act, ports, INPUTS) for act in acts]
    packets.insert(2, [packet(ports, "images", each.tobytes(), k) for k, each in enumerate(beats)])
    words = np.concatenate([each for part in packets for each in part])
    return StreamJob(words, acts, outputs(config), layouts(config)), log, model


def run(
    device: Device,
    console: Console,
    config: ZoTrainerConfig,
    *,
    images: Annotated[int, typer.Option(help="Images of an epoch.")] = 256,
    held: Annotated[int, typer.Option(help="Other images, which are classified only.")] = 64,
    batch: Annotated[int, typer.Option(help="Images between two updates.")] = 32,
    epochs: Annotated[int, typer.Option(help="Epochs.")] = 8,
    magnitude: Annotated[int, typer.Option(help="r_max of the perturbations, 2^c - 1.")] = 15,
    seed: Annotated[int, typer.Option(help="Seed of images, weights and perturbations.")] = 0,
    data: Annotated[
        Path | None, typer.Option(help="A folder with MNIST's files; by default, 8 x 8 digits.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option(help="An int8 checkpoint to start from; by default, none.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the job that an earlier host started.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write NAME.log, NAME-first.npz, NAME-final.npz."),
    ] = None,
    force: Force = False,
) -> None:
    """Train on the board; compare classes, log and weights with the model, bit for bit.

    Raises ``AssertionError`` for a difference, and ``ValueError`` for a value out of range.
    """
    require_outputs(*(_files(output) if output else ()), force=force)
    of = draw(
        config, digits() if data is None else mnist(data), images=images, batch=batch,
        epochs=epochs, magnitude=magnitude, seed=seed, start=start, held=held,
    )  # fmt: skip
    log, model = train(device, console, of, resume=resume)
    if output:
        _write(output, of, log, model.weights)
        console.print(f"written: {', '.join(map(str, _files(output)))}", soft_wrap=True)


def train(
    device: Device, console: Console, of: Job, *, resume: bool = False, epoch: Epoch = every_epoch
) -> tuple[list[LogEntry], golden.ZoTrainer]:
    """Run a job; compare classes, log and weights with the model, bit for bit, and return both.

    ``epoch`` trains the model for an epoch. Raises ``AssertionError`` for a difference, and
    ``ValueError`` for more images than the memory has room for.
    """
    job, log, model = stream_job(of, epoch)
    console.print(require_memory(device, MEMORY))
    shown = Progress(of, console)
    first, words = job.run(device, resume=resume, progress=shown.update)
    if first:
        console.print(f"an earlier host has read the first {first} words of {job.expected}")
    job.require_same(words)
    if not first:
        shown.held()
        if not of.config.tail and len(log) < LEAST:
            console.print(FEW.format(steps=len(log)), soft_wrap=True)
    console.print(f"{len(log)} steps and all weights are those of the model, bit for bit")
    cycles, waits = device.read("cycles"), device.read("waits")
    console.print(f"{cycles:,} cycles, {100 * waits / cycles:.0f} % of them wait for the line")
    return log, model


def _files(output: Path) -> list[Path]:
    """Return the files of a training: its log, the first and the final weights."""
    return [Path(f"{output}{end}") for end in (".log", "-first.npz", "-final.npz")]


def _write(output: Path, of: Job, log: list[LogEntry], final: dict[str, np.ndarray]) -> None:
    """Write what ``seedbed replay-log`` takes, and the weights that it makes."""
    made = TrainingLog(
        config=of.config, exponents=dict(of.exponents), first=digest(of.weights),
        entries=tuple(log),
    )  # fmt: skip
    path, *others = _files(output)
    write_atomic(path, made.text())
    for path, weights in zip(others, (of.weights, final), strict=True):
        arrays = {layer: values.astype(np.int8) for layer, values in weights.items()}
        exponents = {f"{layer}.exponent": np.array(e) for layer, e in of.exponents.items()}
        save(path, arrays | exponents, {})


class Progress:
    """Prints the accuracy of each epoch when its classes have come."""

    def __init__(self, of: Job, console: Console):
        self.of, self.console, self.epochs = of, console, 0
        self.classes = np.zeros(0, np.int64)

    def update(self, words: np.ndarray) -> None:
        """Print the epochs that ended."""
        self.classes = found = payloads(outputs(self.of.config), words)["class"]
        held, (epochs, samples) = len(self.of.classified), self.of.order.shape
        while self.epochs < epochs and len(found) >= held + (self.epochs + 1) * samples:
            at = held + self.epochs * samples
            labels = self.of.labels[self.of.order[self.epochs]]
            share = 100 * (found[at : at + samples] == labels).mean()
            self.epochs += 1
            self.console.print(f"epoch {self.epochs}: {share:.1f} % of its images")

    def held(self) -> None:
        """Print the accuracy on other images."""
        count, labels = len(self.of.classified), self.of.labels[self.of.classified]
        parts = self.classes[:count], self.classes[-count:]
        before, after = (100 * float((part == labels).mean()) for part in parts)
        self.console.print(f"{count} other images: {before:.1f} % before, {after:.1f} % after")
