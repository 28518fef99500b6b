"""Place and route with nextpnr: one procedure for cores and for applications of boards."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedbed.flow.fpga.synth import Progress, complete, notify
from seedbed.flow.run.cache import kept
from seedbed.sim import tools

__all__ = ["RIP_UP", "ROUTE", "Job", "RoutingFailed", "call", "with_target_frequency"]

#: Arguments for a design that is placed already, and for a second routing, which rips up nets that
#: are too slow.
ROUTE = ("--no-pack", "--no-place")
RIP_UP = ("--tmg-ripup",)
_FREQUENCY = re.compile(r'("target_freq": ")\d+')


class RoutingFailed(RuntimeError):
    """No routing of a placed design has ended in time."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A mapped design that is placed and routed with one seed.

    Parameters
    ----------
    title
        The design's name in progress and errors.
    tool, words
        A name of :data:`seedbed.sim.tools.TOOLS`, and the arguments of all calls.
    folder, design
        The folder of the files, and a function that returns the name of the mapped design in it.
    cache, key
        The folder of cached results, and all that they depend on.
    mhz
        The target frequency in ``words``.
    read
        Returns the result of a report of the tool; its ``mhz`` is compared.
    place
        For a large design, further arguments of the call that only places it. The last one is the
        name of the placed design.
    route, again
        Further arguments of the call that routes, and for a large design, of the second routing.
    output
        The name of the routed design, if ``route`` writes one. ``again`` writes ``again-`` and this
        name.
    factor
        The target frequency of the second routing is the Fmax of the first one times this factor,
        or ``mhz`` without a factor.
    patience
        A routing is given up after so many times the duration of the placement, which counts as a
        minute at least. Router 2 has no limit, and some routings diverge.
    progress
        Called with a description of each step.
    """

    title: str
    tool: str
    words: tuple[str, ...]
    folder: Path
    design: Callable[[], str]
    cache: Path
    key: Mapping[str, Any]
    mhz: int
    read: Callable[[Any], dict[str, Any]]
    place: tuple[str, ...] = ()
    route: tuple[str, ...]
    again: tuple[str, ...] = ()
    output: str | None = None
    factor: float | None = None
    patience: int | None = None
    progress: Progress = None

    @property
    def placed(self) -> Path:
        """The placed design of a large design."""
        return self.folder / self.place[-1]

    def result(self) -> dict[str, Any]:
        """Return the result of ``read``, and ``asked``, the target frequency of its routing.

        A large design is placed in one call, routed in a second one, and in a third one, with
        :data:`RIP_UP`, if the second one misses the target frequency. The better routing counts.
        What an interrupted call has placed or routed is used. Raises :class:`RoutingFailed` if both
        routings are given up.
        """
        if self.output is None:
            return self._best()
        key, file = {**self.key, "rip_up": RIP_UP}, self.folder / self.output
        found: dict[str, Any] = kept(self.cache, "routed", key, self._best, file)
        return found

    def placement(self) -> float:
        """Place a large design without routing it; return the duration in seconds.

        Routing is another call, so that an interrupted routing does not lose the placement. Router
        2 finished LeNet-5's fine-tuning core only in a separate call.
        """

        def compute() -> float:
            notify(self.progress, f"placing {self.title}")
            design, began = self.design(), time.monotonic()
            words = *self.words, "--json", design, *self.place
            tools.run(self.tool, *words, cwd=self.folder)
            complete(self.placed)
            return time.monotonic() - began

        seconds: float = kept(self.cache, "placement", self.key, compute, self.placed)
        return seconds

    def _best(self) -> dict[str, Any]:
        if not self.place:
            found = self._routed(self.route, self.output, f"placing {self.title}")
            assert found
            return found
        text = f"routing {self.title}"
        first = self._routed(self.route, self.output, text)
        if first and first["mhz"] >= self.mhz:
            return first
        reached = f"{first['mhz']:.2f} MHz" if first else "no route"
        text, again = f"{reached}: {text}, again for its slow nets", f"again-{self.output}"
        asked = round(self.factor * first["mhz"]) if self.factor and first else self.mhz
        second = self._routed(self.again, self.output and again, text, asked=asked)
        if not first and not second:
            minutes = (self._limit() or 0) / 60
            raise RoutingFailed(
                f"no routing of {self.title}, ended in {minutes:.0f} minutes: try another seed"
            )
        best = max(filter(None, (first, second)), key=lambda result: result["mhz"])
        if self.output and best is second:
            (self.folder / again).replace(self.folder / self.output)
        return best

    def _routed(
        self, words: tuple[str, ...], output: str | None, text: str, *, asked: int | None = None
    ) -> dict[str, Any] | None:
        """Return the result of a routing, the second one with ``asked``; ``None`` if given up."""
        mhz = asked or self.mhz

        def compute() -> dict[str, Any]:
            limit = self._limit() if self.place else None
            notify(self.progress, text)
            name = self.placed.name if self.place else self.design()
            other = with_target_frequency(self.folder / name, mhz)
            with other if mhz != self.mhz else nullcontext(name) as name:
                command = [*self.words, "--json", name, *words]
                return self.read(call(self.tool, command, self.folder, limit))

        kind, key = "place", self.key
        if asked:
            kind, key = "route", {**key, "again": RIP_UP, "asked": asked}
        with suppress(subprocess.TimeoutExpired):
            file = self.folder / output if output else None
            return kept(self.cache, kind, key, compute, file) | {"asked": mhz}
        return None

    def _limit(self) -> float | None:
        seconds = self.placement()
        return self.patience and self.patience * max(60, seconds)


def call(tool: str, words: list[str], folder: Path, limit: float | None = None) -> Any:
    """Run the tool in ``folder``, for ``limit`` seconds at most, and return its report."""
    report = folder / words[words.index("--report") + 1]
    report.unlink(missing_ok=True)
    tools.run(tool, *words, cwd=folder, timeout=limit)
    try:
        return json.loads(report.read_text())
    except (OSError, ValueError) as problem:
        raise RuntimeError(f"{report} is truncated: is the disk full?") from problem


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
