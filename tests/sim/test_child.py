"""Commands in threads."""

import sys

import pytest

from seedbed.sim import child


def test_threads_end_at_an_error():
    """One command of many fails at once, others would take minutes, and most have not begun."""

    def work(number):
        seconds = 0 if number == 1 else 300
        done = child.run([sys.executable, "-c", f"import time; time.sleep({seconds})"])
        raise RuntimeError(f"{number}: {done.returncode}")

    with pytest.raises(RuntimeError, match=r"^1: 0$"):
        child.in_threads(work, range(1, 40))


def test_threads_return_in_order():
    assert child.in_threads(str, range(40)) == [str(k) for k in range(40)]
