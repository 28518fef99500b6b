"""Training gives the same network on every machine: products do not depend on the order."""

import os
import subprocess
import sys

import numpy as np
import pytest

from seedbed.golden.exact import product

TRAIN = """
from hashlib import sha256
import numpy as np
from seedbed.golden import classifier, network
from seedbed.spec.network import LENET5

rng = np.random.default_rng(1)
x = rng.random((16, 1, 28, 28)).astype(np.float32)
labels = rng.integers(10, size=16)
batches = [(x, labels)] * 3
*_, last = network.adam(LENET5, network.init(LENET5, rng), iter(batches), rate=1e-3)
model = classifier.Mlp((784, 32, 10))
flat = x.reshape(16, -1)
how = {"steps": 9, "batch": 8, "rate": 1e-3, "rng": rng}
theta = classifier.adam(model, model.init(rng), flat, labels, **how)
raw = b"".join(value.tobytes() for value in last.values()) + theta.tobytes()
print(sha256(raw).hexdigest())
"""


def test_training_does_not_depend_on_the_processor():
    """OpenBLAS has another order of summation for an old processor, selected by a variable."""
    cores = ("", "Prescott")
    run = [sys.executable, "-c", TRAIN]
    calls = [
        subprocess.Popen(
            run, stdout=subprocess.PIPE, text=True, env=os.environ | {"OPENBLAS_CORETYPE": core}
        )
        for core in cores
    ]
    first, second = (call.communicate()[0] for call in calls)
    assert len(first) == 65
    assert first == second


@pytest.mark.parametrize("shape", [(5, 3, 4), (7, 1, 1), (3, 5000, 2), (1, 784, 120)])
def test_a_product_does_not_depend_on_the_order_of_its_sums(shape):
    rows, inner, columns = shape
    rng = np.random.default_rng(2)
    # Of large and small numbers, whose sum in float32 depends on the order.
    a = (rng.normal(size=(2, rows, inner)) * 2.0 ** rng.integers(-9, 9, inner)).astype(np.float32)
    b = rng.normal(size=(inner, columns)).astype(np.float32)
    found = product(a, b)
    assert found.dtype == np.float32
    for _ in range(5):
        order = rng.permutation(inner)
        assert np.array_equal(product(a[..., order], b[order]), found)
    exact = a.astype(np.float64) @ b
    limit = np.abs(a).max() * np.abs(b).max() * inner * 2.0**-16
    assert np.abs(found - exact).max() < limit


def test_small_integers_and_zeros_are_exact():
    a = np.arange(-8, 8, dtype=np.float32).reshape(4, 4)
    assert product(a, a).tolist() == (a @ a).tolist()
    assert not product(np.zeros((2, 3), np.float32), np.ones((3, 2), np.float32)).any()


def test_other_numbers_are_multiplied_as_they_are():
    a = np.random.default_rng(3).normal(size=(4, 9))
    assert np.array_equal(product(a, a.T), a @ a.T)
    assert product(a.astype(np.float32), a.T).dtype == np.float64
