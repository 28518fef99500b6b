"""nextpnr: placed and routed to a frequency, in one call of the tool or in several."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from seedbed.flow.files import write_atomic
from seedbed.flow.fpga import targets
from seedbed.flow.fpga.synth import complete, keep
from seedbed.sim import tools
from seedbed.sim.checksum import intact

__all__ = ["ROUTE", "asked", "place_alone", "run"]

#: For a design that is placed already.
ROUTE = ("--no-pack", "--no-place")
_FREQUENCY = re.compile(r'("target_freq": ")\d+')


def run(target: targets.Target, arguments: list[str], folder: Path, seed: int) -> dict[str, Any]:
    """Run the tool in ``folder`` to a timing report, and return what it says."""
    report = folder / f"report-{seed}.json"
    with suppress(FileNotFoundError):
        report.unlink()
    assert target.place is not None
    files = ["--report", report.name, "--seed", str(seed)]
    tools.run(target.place, *arguments, *files, cwd=folder)
    try:
        return _report(json.loads(report.read_text()))
    except (OSError, ValueError) as problem:
        raise RuntimeError(f"{report} is truncated: is the disk full?") from problem


def place_alone(
    target: targets.Target, arguments: list[str], folder: Path, design: str, seed: int
) -> str:
    """Place a large design, and return the name of the file that has it.

    Routed in a second call, so that a placement is not lost with a routing that is stopped.
    Router 2 ended so with LeNet-5's fine-tuning core, and did not in a call that had placed it.
    """
    name = f"placed-{seed}-{design}"
    if not intact(folder / name):
        write_atomic(folder / "pins.lpf", target.pins)
        files = ["--json", design, "--seed", str(seed), "--log", f"place-{seed}.log"]
        files += ["--lpf", "pins.lpf", "--lpf-allow-unconstrained"]
        files += ["--no-route", "--write", f"placed-{seed}.part"]
        assert target.place is not None
        tools.run(target.place, *arguments, *files, cwd=folder)
        complete(folder / f"placed-{seed}.part")
        keep(folder, f"placed-{seed}.part", name)
    return name


@contextmanager
def asked(placed: Path, mhz: int) -> Iterator[str]:
    """Give the name of a copy of a placed design that asks for another frequency.

    The tool takes the one that stands in the file, whatever its command says.
    """
    copy = placed.with_name(f"asked-{placed.name}")
    text, found = _FREQUENCY.subn(rf"\g<1>{mhz}000000", placed.read_text(), count=1)
    if not found:
        raise RuntimeError(f"no frequency is asked for in {placed}")
    try:
        copy.write_text(text)
        yield copy.name
    finally:
        copy.unlink(missing_ok=True)


def _report(report: dict[str, Any]) -> dict[str, Any]:
    """Return ``mhz`` of the one clock of nextpnr's report, and its critical path in short."""
    clocks = report["fmax"]
    if len(clocks) != 1:
        raise RuntimeError(f"expected one clock in the placer's report, not {len(clocks)}")
    (clock, fmax), *_ = clocks.items()
    path = next(
        p["path"]
        for p in report["critical_paths"]
        if p["from"].endswith(clock) and p["to"].endswith(clock)
    )
    total = sum(step["delay"] for step in path)
    routing = sum(step["delay"] for step in path if step["type"] == "routing")
    return {
        "mhz": round(fmax["achieved"], 1),
        "critical": {
            "from": path[0]["from"]["cell"],
            "to": path[-1]["to"]["cell"],
            "routing_share": round(routing / total, 2),
        },
    }
