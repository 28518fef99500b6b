"""``seedbed`` and ``python -m seedbed``: loads the command line, which takes a second."""

import os
import signal

__all__ = ["main"]


def main() -> None:
    """Run the command line; an interruption during loading prints one line."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            # A partly loaded package could treat an exception as a failed import. There is nothing
            # to clean up yet.
            signal.signal(number, _end)
    from seedbed.boards.cli import app as cli

    cli.main()


def _end(number: int, _: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
