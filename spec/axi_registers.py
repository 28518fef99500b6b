"""Maps of the registers at the AXI4-Lite ports.

A register with access ``write`` holds as many bits as the field of the core's command, which has
its name. The bits of ``status`` are the same in all maps.
"""

from collections.abc import Sequence

from seedbed.spec.gemv import GEMV_STATUS
from seedbed.spec.instantft import COUNTERS, INSTANTFT_KINDS, INSTANTFT_STATUS
from seedbed.spec.registers import Register
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_KINDS, SPARSE_TRAINER_STATUS
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZO_TRAINER_STATUS

__all__ = ["AXI_REGISTERS", "PAGE_BITS", "STATUS_BIT"]

#: Lowest bit of a status code in ``status``; below it are busy, done and two zeros.
STATUS_BIT = 4
#: Bits of an offset in a page of 4 KiB, whose boundary an AXI burst must not cross.
PAGE_BITS = 12


def _codes(names: Sequence[str]) -> str:
    return ", ".join(f"{code} {name}" for code, name in enumerate(names))


def _status(of: str, until: str, codes: Sequence[str]) -> Register:
    high = STATUS_BIT + (len(codes) - 1).bit_length() - 1
    return Register(
        "status",
        "read",
        f"bit 0: busy, from start until {until}; bit 1: done, from then until the next start; "
        f"bits {high}..{STATUS_BIT}: how the last {of} ended: {_codes(codes)}",
    )


def _command(**meanings: str) -> list[Register]:
    """Return registers that have the names and the values of a command's fields."""
    return [Register(name, "write", meaning) for name, meaning in meanings.items()]


_START = "bit 0: start the command in the registers below; refused while busy"
_BATCHES = {"samples": "number in an epoch", "epochs": "number", "batch": "samples of a batch"}

#: The map of each core with an AXI4-Lite port, an address every 4 bytes.
AXI_REGISTERS: dict[str, tuple[Register, ...]] = {
    "gemv": (
        Register(
            "control",
            "strobe",
            "bit 0: start a job, with `columns`, `rows` and `mode`; refused while busy; bit 1: "
            "clear: abort the job, and end the discarding after an error",
        ),
        # The other codes are of a side path, which the wrapper does not have.
        _status("job", "its last result is transferred", GEMV_STATUS[:5]),
        *_command(columns="number", rows="number"),
        Register("mode", "write", "bit 0: plain weights; only with `decode` = `seedlm`"),
    ),
    "instantft": (
        Register("control", "strobe", _START),
        _status("command", "its last result is transferred", INSTANTFT_STATUS),
        *_command(kind=_codes(INSTANTFT_KINDS), **_BATCHES, rate="learning rate"),
        Register("base", "write", "byte address of the cache; bits 11..0 must be 0", PAGE_BITS),
        *(
            Register(f"counted_{name}", "read", f"{name} in the current or last job")
            for name in COUNTERS
        ),
    ),
    "zo_trainer": (
        Register("control", "strobe", _START),
        _status("command", "its last beats are transferred", ZO_TRAINER_STATUS),
        Register("steps", "read", "batches trained in the current or last command"),
        Register(
            "schedule",
            "strobe",
            "an entry: bits 15..0: epoch; 19..16: magnitude; 23..20: zeros; 26..24: update bits, "
            "with a tail; 31: last",
        ),
        *_command(
            kind=_codes(ZO_TRAINER_KINDS),
            **_BATCHES,
            seed="of the first batch",
            exponent="sum of the exponents of all layers' weights, sign-extended to 32 bits",
        ),
    ),
    "sparse_trainer": (
        Register(
            "control",
            "strobe",
            f"{_START}; bit 1: abort the command that runs, or that waits for the end of a table "
            "of layers, which is then dropped; ignored unless busy",
        ),
        _status("command", "its last beats are transferred", SPARSE_TRAINER_STATUS),
        Register("steps", "read", "steps of the current or last command"),
        Register("saturated", "read", "gains of the last command that saturated"),
        Register(
            "base", "write", "byte address of the core's address 0; bits 11..0 must be 0", PAGE_BITS
        ),
        *_command(
            kind=_codes(SPARSE_TRAINER_KINDS),
            **_BATCHES,
            seed="of the first step",
            rate="learning rate",
            decay="of the rate, per epoch",
            shift="right shift of the rate",
        ),
    ),
}
