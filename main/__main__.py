"""``seedbed`` and ``python -m seedbed``: loads the command line, which takes a second."""

import os
import signal

__all__ = ["main"]


def main() -> None:
    """Run the command line; an interruption while it is loaded is one line and status 130."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        # A package that is half loaded could take an exception for a failed import. There is
        # nothing to clean up yet.
        signal.signal(signal.SIGINT, _end)
    from seedbed.flow import cli

    signal.signal(signal.SIGINT, handler)
    cli.main()


def _end(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
