"""The end of a command by Ctrl-C, SIGTERM or SIGHUP: within seconds, with nothing left running."""

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seedbed.sim import child

__all__ = ["MESSAGE", "Interruption", "handled", "limit_cleanup"]

MESSAGE = "interrupted: finished work is kept"
#: Seconds that an interrupted command has to clean up.
GRACE = 6.0
#: Seconds after which a signal that is not handled is repeated.
PATIENCE = 0.5


class Interrupted(KeyboardInterrupt):
    """A command's interruption.

    Not ``KeyboardInterrupt`` itself: if that passes through ``exec``, as at the definition of a
    named tuple, Python 3.11 kills itself by SIGINT at its end, though the exception was caught.
    """


class Interruption:
    """The signal that interrupted the command, if one did.

    Members
    -------
    number
        The first signal, or 0.
    reported
        Whether the message is printed.
    """

    def __init__(self) -> None:
        self.number = 0
        self.reported = False

    @property
    def status(self) -> int:
        """The exit status: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
        return 128 + (self.number or signal.SIGINT)

    def handle(self, number: int, frame: Any) -> None:
        """Raise :class:`Interrupted` for the first signal; later ones would stop the cleanup."""
        if self.number:
            return
        self.number = number
        limit_cleanup(GRACE, self._force)
        raise Interrupted

    def _force(self) -> None:
        # rich hides the cursor while it shows a bar.
        message = ("\x1b[?25h" if os.isatty(2) else "") + ("" if self.reported else f"{MESSAGE}\n")
        os.write(2, message.encode())
        os._exit(self.status)


def limit_cleanup(seconds: float, end: Any) -> None:
    """Kill the running tools and call ``end`` if this process still runs after ``seconds``.

    A library may catch the exception of an interruption, and a lock that it holds may never be
    released.
    """

    def watch() -> None:
        time.sleep(seconds)
        child.kill_all()
        end()

    # Exceptions in destructors and in other threads are consequences of the interruption, and so
    # are Amaranth's warnings about parts of a design that are not used.
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None
    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def repeated(interruption: Interruption) -> Iterator[None]:
    """Repeat a signal that Python does not handle, because the main thread waits in a call.

    That is so if another thread receives the signal, or if it comes just before the call.
    """
    received, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    main = threading.get_ident()

    def watch() -> None:
        while number := os.read(received, 1):
            while number[0] in child.SIGNALS and not interruption.number:
                time.sleep(PATIENCE)
                signal.pthread_kill(main, number[0])
        os.close(received)

    threading.Thread(target=watch, daemon=True).start()
    yield
    signal.set_wakeup_fd(-1)
    os.close(written)


@contextmanager
def handled() -> Iterator[Interruption]:
    """Handle the signals that interrupt a command, except those that the caller ignores."""
    interruption = Interruption()
    handlers = {number: signal.getsignal(number) for number in child.SIGNALS}
    changed = {
        number: handler
        for number, handler in handlers.items()
        if handler not in (signal.SIG_IGN, None)
    }
    for number in changed:
        signal.signal(number, interruption.handle)
    with repeated(interruption):
        yield interruption
    for number, handler in changed.items():
        # At its end, Python replaces handlers by the default ones, but ignores what is ignored.
        signal.signal(number, signal.SIG_IGN if interruption.number else handler)
