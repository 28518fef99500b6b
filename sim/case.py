"""Stimulus and expected response of a testbench, as integers that any simulator can drive."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from json import dumps, loads

__all__ = ["TIMEOUT_CYCLES", "Case", "Phase"]

#: Cycles without a transfer after which a testbench reports a time-out, where a case has no other.
TIMEOUT_CYCLES = 5000


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Payloads to send, by input port, and the expected payloads, by output port.

    A payload is the integer of its bits. The next phase begins after the last transfer of this one.
    With ``drain``, output beats are accepted and discarded until all inputs are accepted: a
    free-running generator still outputs its old sequence then.

    ``after`` lists inputs that depend on outputs, as a memory's data on its commands:
    ``after[i][o][k]`` is how many transfers of output ``o`` must have occurred in the phase before
    beat ``k`` of ``i`` is sent.
    """

    inputs: dict[str, list[int]] = field(default_factory=dict)
    outputs: dict[str, list[int]] = field(default_factory=dict)
    drain: bool = False
    after: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def may_send(self, name: str, beat: int, transfers: Mapping[str, int]) -> bool:
        """Return whether a beat of an input may be sent, given the outputs' transfer counts."""
        needed = self.after.get(name, {})
        return all(transfers[output] >= counts[beat] for output, counts in needed.items())


@dataclass(frozen=True, kw_only=True)
class Case:
    """Phases one after the other; with ``quiet``, no output may come after the last.

    ``retains``: a phase after the first one writes state that a reset does not clear, such as a
    memory. A testbench with a reset in the middle resets during the first phase.

    ``timeout_cycles``: cycles without a transfer after which a testbench reports a time-out.
    """

    phases: list[Phase]
    quiet: bool = False
    retains: bool = False
    timeout_cycles: int = TIMEOUT_CYCLES

    def to_json(self) -> str:
        """Return the case as JSON, for a simulator in another process."""
        return dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Case":
        """Return the case that :meth:`to_json` wrote."""
        raw = loads(text)
        raw["phases"] = [Phase(**phase) for phase in raw["phases"]]
        return cls(**raw)
