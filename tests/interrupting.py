"""What tests that interrupt a process have in common."""

import signal

__all__ = ["heed"]


def heed() -> None:
    """Let a process be interrupted, even if the tests run in a shell's background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
