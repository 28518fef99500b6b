"""``seedbed`` and ``python -m seedbed``: loads the command line, which takes a second."""

import os
import signal

__all__ = ["main"]


def main() -> None:
    """Run the command line; an interruption during loading prints one line, with status 130."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        # A partly loaded package could treat an exception as a failed import. There is nothing to
        # clean up yet.
        signal.signal(signal.SIGINT, _end)
    from seedbed.boards import cli

    signal.signal(signal.SIGINT, handler)
    cli.main()


def _end(*_: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
