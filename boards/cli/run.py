"""The commands ``seedbed board run APP``: each application has the options of its program."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from seedbed.boards import apps
from seedbed.boards.device import Device
from seedbed.boards.registers import addresses
from seedbed.boards.top import identifier
from seedbed.flow.run.progress import steps_bar

__all__ = ["command"]

#: Words of which the sending is shown: a second of the line's time.
SHOWN = 1 << 16

#: Options of every application: they come before its own.
COMMON = {
    "port": (
        Annotated[
            str, typer.Option(help="The serial port, or the path that 'seedbed board sim' prints.")
        ],
        Parameter.empty,
    ),
    "baud": (Annotated[int, typer.Option(min=1, help="Bits a second.")], 3_000_000),
    "timeout": (
        Annotated[
            float,
            typer.Option(min=0.001, help="Seconds until a request without an answer is repeated."),
        ],
        0.2,
    ),
}


def command(name: str) -> Any:
    """Return the command of an application, with the options of its ``run`` and the common ones."""
    found = apps.designs(name)
    run = found[0].run
    hints = get_type_hints(run, include_extras=True)
    own = [p for p in signature(run).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    call = _call(found)
    parameters = [
        Parameter(option, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        for option, (hint, default) in COMMON.items()
    ]
    parameters += [option.replace(annotation=hints[option.name]) for option in own]
    call.__signature__ = signature(run).replace(  # type: ignore[attr-defined]
        parameters=parameters, return_annotation=None
    )
    call.__annotations__ = {option.name: option.annotation for option in parameters}
    group = typer.Typer(
        add_completion=False, context_settings={"help_option_names": ["-h", "--help"]}
    )
    group.command(name, help=(run.__doc__ or "").partition("\n")[0])(call)
    return typer.main.get_command(group)


@contextmanager
def _shown(words: int) -> Iterator[Callable[[int], object]]:
    """Show the words that are sent, if they take long."""
    with steps_bar(Console(stderr=True) if words >= SHOWN else None, "sending") as update:
        yield lambda sent: update(f"sending {words / 250_000:,.1f} MB", sent / words)


def _call(found: list[Any]) -> Callable[..., None]:
    """Return what a command does for an application in its configurations."""

    def call(port: str, baud: int, timeout: float, **options: Any) -> None:
        console = Console()
        builds = {identifier(design): design for design in found}
        registers = addresses(found[0].REGISTERS)
        with Device(port, registers, identifier=builds, baud=baud, timeout=timeout) as device:
            device.shown = _shown
            apps.run(builds[device.identifier], device, console, **options)
            console.print(f"{device.repeated} requests were repeated")

    return call
