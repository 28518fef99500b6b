"""The command ``seedbed tour``: weights that are multiplied, and a network that learns."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from seedbed.flow.run.files import require_output, write_atomic
from seedbed.flow.run.options import BUILD, Build, Force
from seedbed.flow.run.progress import status

__all__ = ["tour"]

#: Shape of the matrix, and the seed of its weights.
SHAPE, SEED = (64, 1024), 1
NEXT = """
What comes next:
  seedbed list                      the cores
  seedbed verilog instantft         the Verilog of one
  seedbed sim instantft --set network=tiny --set lanes=8
                                    its simulation against the model
  seedbed board list                boards, and the applications for them
  seedbed import model.onnx         your network, for 'seedbed tune'"""

err = Console(stderr=True)


def tour(
    picture: Annotated[
        Path | None, typer.Option(help="Also write what is printed to this file, as SVG.")
    ] = None,
    force: Force = False,
    build: Build = BUILD,
) -> None:
    """Compress weights and multiply them, then fine-tune a network, on a virtual board.

    It takes about a minute, and needs neither a board nor a network connection. A virtual board
    is the top of a real one, simulated from its Verilog. Every result is compared with the golden
    model, bit for bit.
    """
    if picture:
        require_output(picture, force=force)
    out = Console(highlight=False, record=picture is not None, width=88 if picture else None)
    folder = build / "tour"
    out.print(f"1. A matrix of {SHAPE[0]} x {SHAPE[1]} weights is compressed to 4 bits per weight.")
    packed = _packed(folder, out)
    out.print("\n2. A virtual board multiplies it with vectors: its core generates the weights.")
    _run("gemv", None, build, out, matrix=packed)
    out.print(
        "\n3. A network was trained on upright digits. Here, all digits are rotated by 90 degrees. "
        "Another virtual board fine-tunes it by adapters."
    )
    _run("instantft", "tiny", build, out, folder=folder)
    if picture:
        write_atomic(picture, out.export_svg(title="seedbed tour"))
    out.print(NEXT)


def _packed(folder: Path, out: Console) -> Path:
    """Compress random weights; return the file."""
    import numpy as np
    from safetensors.numpy import save_file

    from seedbed.flow.cli.compress import configuration
    from seedbed.flow.compress.plan import Options
    from seedbed.flow.compress.run import compress
    from seedbed.flow.compress.workers import SERIAL

    plain, packed = folder / "weights.safetensors", folder / "packed.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    weights = np.random.default_rng(SEED).normal(0, 0.02, SHAPE).astype(np.float32)
    save_file({"weights": weights}, plain)
    options = Options(config=configuration(4))
    # A file of an earlier tour, or of one that was interrupted, is overwritten.
    packed.unlink(missing_ok=True)
    (found,) = compress(plain, packed, options, pool=SERIAL, console=err, force=True)
    sizes = (path.stat().st_size for path in (plain, packed))
    before, after = (f"{size:,} bytes" for size in sizes)
    out.print(f"{before} before, {after} after; relative error {found.error:.4f}")
    return packed


def _run(name: str, variant: str | None, build: Path, out: Console, **options: Any) -> None:
    """Run an application on a virtual board."""
    from seedbed.boards import apps, virtual
    from seedbed.boards.device import Device
    from seedbed.boards.registers import addresses
    from seedbed.boards.top import identifier

    found = apps.find(name, variant)
    with status(err, f"building the virtual board of {name}"):
        program = virtual.executable(found, apps.file_name(name, found), build=build)
    registers = addresses(found.REGISTERS)
    with (
        virtual.start(program) as board,
        Device(board.port, registers, identifier=identifier(found), timeout=2) as device,
    ):
        apps.run(found, device, out, **options)
