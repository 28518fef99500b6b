"""Place and route with nextpnr, in one call of the tool or in separate calls."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from seedbed.flow.fpga import targets
from seedbed.flow.fpga.synth import complete, keep
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools
from seedbed.sim.verilog.checksum import intact

__all__ = ["ROUTE", "place_only", "run", "with_target_frequency"]

#: Arguments for a design that is placed already.
ROUTE = ("--no-pack", "--no-place")
_FREQUENCY = re.compile(r'("target_freq": ")\d+')


def run(target: targets.Target, arguments: list[str], folder: Path, seed: int) -> dict[str, Any]:
    """Run the tool in ``folder``, and return Fmax and critical path of its timing report."""
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


def place_only(
    target: targets.Target, arguments: list[str], folder: Path, design: str, seed: int
) -> str:
    """Place a large design without routing it, and return the name of the output file.

    Routing is a second call, so that an interrupted routing does not lose the placement. Router 2
    finished LeNet-5's fine-tuning core only in a separate call.
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
def with_target_frequency(placed: Path, mhz: int) -> Iterator[str]:
    """Provide the name of a copy of a placed design with another target frequency.

    The tool uses the frequency in the file and ignores that of its command line.
    """
    copy = placed.with_name(f"{mhz}-mhz-{placed.name}")
    text, found = _FREQUENCY.subn(rf"\g<1>{mhz}000000", placed.read_text(), count=1)
    if not found:
        raise RuntimeError(f"{placed} has no target frequency")
    try:
        copy.write_text(text)
        yield copy.name
    finally:
        copy.unlink(missing_ok=True)


def _report(report: dict[str, Any]) -> dict[str, Any]:
    """Return ``mhz`` of the only clock of nextpnr's report, and its critical path."""
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
