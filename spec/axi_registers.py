"""Maps of the registers at the AXI4-Lite ports.

A register with access ``write`` holds as many bits as the field of the core's command, which has
its name. The bits of ``status`` are the same in all maps.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seedbed.spec.gemv import GEMV_STATUS
from seedbed.spec.instantft import COUNTERS, INSTANTFT_KINDS, INSTANTFT_STATUS
from seedbed.spec.registers import Field, Register, codes, meaning
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_KINDS, SPARSE_TRAINER_STATUS
from seedbed.spec.stream_engine import STREAM_ENGINE_KINDS, STREAM_ENGINE_STATUS
from seedbed.spec.stream_trainer import STREAM_TRAINER_KINDS, STREAM_TRAINER_STATUS
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZO_TRAINER_STATUS

__all__ = ["AXI_REGISTERS", "PAGE_BITS", "STATUS_BIT", "held"]

#: Lowest bit of a status code in ``status``; below it are busy, done and two zeros.
STATUS_BIT = 4
#: Bits of an offset in a page of 4 KiB, whose boundary an AXI burst must not cross.
PAGE_BITS = 12


def _fielded(name: str, access: str, *fields: Field) -> Register:
    return Register(name, access, meaning(*fields), fields=fields)


def _status(of: str, until: str, names: Sequence[str]) -> Register:
    width = (len(names) - 1).bit_length()
    return _fielded(
        "status",
        "read",
        Field("busy", 0, 1, f"busy, from start until {until}"),
        Field("done", 1, 1, "done, from then until the next start"),
        Field("code", STATUS_BIT, width, f"how the last {of} ended", tuple(names)),
    )


def _command(**meanings: str) -> list[Register]:
    """Return registers that have the names and the values of a command's fields."""
    return [Register(name, "write", meaning) for name, meaning in meanings.items()]


def _kind(kinds: Sequence[str]) -> Register:
    return Register("kind", "write", codes(kinds), values=tuple(kinds))


_START = Field("start", 0, 1, "start the command in the registers below; refused while busy")
_BASE = Register(
    "base", "write", "byte address of the core's address 0; bits 11..0 must be 0", PAGE_BITS
)
_BATCHES = {"samples": "number in an epoch", "epochs": "number", "batch": "samples of a batch"}
#: An entry of the schedule.
_SCHEDULE = (
    Field("epoch", 0, 16, "epoch"),
    Field("magnitude", 16, 4, "magnitude"),
    Field("zeros", 20, 4, "zeros"),
    Field("update", 24, 3, "update bits, with a tail"),
    Field("last", 31, 1, "last"),
)

#: The map of each core with an AXI4-Lite port, an address every 4 bytes.
AXI_REGISTERS: dict[str, tuple[Register, ...]] = {
    "gemv": (
        _fielded(
            "control",
            "strobe",
            Field(
                "start", 0, 1, "start a job, with `columns`, `rows` and `mode`; refused while busy"
            ),
            Field("clear", 1, 1, "clear: abort the job, and end the discarding after an error"),
        ),
        # The other codes are of a side path, which the wrapper does not have.
        _status("job", "its last result is transferred", GEMV_STATUS[:5]),
        *_command(columns="number", rows="number"),
        _fielded(
            "mode", "write", Field("plain", 0, 1, "plain weights; only with `decode` = `seedlm`")
        ),
    ),
    "instantft": (
        _fielded("control", "strobe", _START),
        _status("command", "its last result is transferred", INSTANTFT_STATUS),
        _kind(INSTANTFT_KINDS),
        *_command(**_BATCHES, rate="learning rate"),
        Register("base", "write", "byte address of the cache; bits 11..0 must be 0", PAGE_BITS),
        *(
            Register(f"counted_{name}", "read", f"{name} in the current or last job")
            for name in COUNTERS
        ),
    ),
    "zo_trainer": (
        _fielded("control", "strobe", _START),
        _status("command", "its last beats are transferred", ZO_TRAINER_STATUS),
        Register("steps", "read", "batches trained in the current or last command"),
        Register(
            "schedule",
            "strobe",
            "an entry: bits " + "; ".join(f"{f.bits}: {f.meaning}" for f in _SCHEDULE),
            fields=_SCHEDULE,
        ),
        _kind(ZO_TRAINER_KINDS),
        *_command(
            **_BATCHES,
            seed="of the first batch",
            exponent="sum of the exponents of all layers' weights, sign-extended to 32 bits",
        ),
    ),
    "sparse_trainer": (
        _fielded(
            "control",
            "strobe",
            _START,
            Field(
                "abort",
                1,
                1,
                "abort the command that runs, or that waits for the end of a table of layers, "
                "which is then dropped; ignored unless busy",
            ),
        ),
        _status("command", "its last beats are transferred", SPARSE_TRAINER_STATUS),
        Register("steps", "read", "steps of the current or last command"),
        Register("saturated", "read", "gains of the last command that saturated"),
        _BASE,
        _kind(SPARSE_TRAINER_KINDS),
        *_command(
            **_BATCHES,
            seed="of the first step",
            rate="learning rate",
            decay="of the rate, per epoch",
            shift="right shift of the rate",
        ),
    ),
    "stream_engine": (
        _fielded("control", "strobe", _START),
        _status("command", "its last beat is transferred", STREAM_ENGINE_STATUS),
        _BASE,
        Register(
            "kind",
            "write",
            f"{codes(STREAM_ENGINE_KINDS)}; the last one with `tune` only",
            values=STREAM_ENGINE_KINDS,
        ),
        *_command(
            address="of the program in memory, in beats; of a load",
            start="1: the block's first token is the first of all; of a run",
            first="the first address that is written, in beats; of a load that may write, of a "
            "tune",
            end="the address after the last one that is written; of a load that may write, of a "
            "tune",
        ),
        *(
            replace(register, option="tune")
            for register in _command(
                seed="of the signs, not 0; of a tune",
                delta="added to values of kept weights, times their signs; of a tune; "
                "sign-extended to 32 bits",
            )
        ),
    ),
    "stream_trainer": (
        _fielded(
            "control",
            "strobe",
            _START,
            Field("abort", 1, 1, "abort the training that runs; ignored without one"),
        ),
        _status("command", "its last beats are transferred", STREAM_TRAINER_STATUS),
        Register("steps", "read", "steps of the current or last training; 0 after another command"),
        _BASE,
        _kind(STREAM_TRAINER_KINDS),
        *_command(
            address="in memory, in beats: of the program to load, or of the first sample of a "
            "training",
            start="1: the block's first token is the first of all; of a run",
            first="the first address that is written, in beats; of a load, a tune and a training",
            end="the address after the last one that is written; of a load, a tune and a training",
            seed="of the signs of a tune, not 0, or of the first step of a training, with 23 bits",
            delta="added to values of kept weights, times their signs; of a tune; eps of a "
            "training, 1..16384; sign-extended to 32 bits",
            **_BATCHES,
            head="beats of a sample's tokens",
            rate="factor of the difference of the losses",
            decay="of the rate, per epoch",
            shift="right shift of the product",
            most="the most that a value changes in a step",
        ),
        replace(
            _command(vectors="beats of a sample's vectors, each of `lanes` elements")[0],
            option="inputs",
        ),
    ),
}


def held(name: str, config: Any) -> tuple[Register, ...]:
    """Return the registers of a core in a configuration. Those of an option are the last ones."""
    return tuple(r for r in AXI_REGISTERS[name] if not r.option or getattr(config, r.option))
