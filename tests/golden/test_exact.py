"""Products of integers are exact; those of real numbers are the same on every machine."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from seedbed import golden
from seedbed.golden.exact import product, whole_product

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


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize(
    ("inner", "kind"), [(1040, np.float32), (1041, np.float64), (2112, np.float64)]
)
def test_sums_of_int8_products_are_exact_at_every_length(dtype, inner, kind):
    """1,040 products of 127 by 127 are the most that float32 holds; odd sums show the loss."""
    a, b = np.full((2, inner), 127), np.full((inner, 2), 127)
    a[1], b[0, 1] = -127, 126
    found = whole_product(a.astype(dtype), b.astype(dtype))
    assert found.dtype == kind
    literal = [[sum(x * y for x, y in zip(r, c, strict=True)) for c in b.T.tolist()]
               for r in a.tolist()]  # fmt: skip
    assert [[int(v) for v in row] for row in found] == literal


@pytest.mark.parametrize("bits", [10, 11, 24, 25, 26, 27])
def test_sums_at_the_bound_of_each_type_are_those_of_integers(bits):
    peak = (1 << bits) - 1
    a, b = np.array([[peak, -1, peak, -peak]]), np.array([[peak], [1], [-1], [-peak]])
    assert int(whole_product(a, b)[0, 0]) == 2 * peak * peak - peak - 1
    # Of a result, as many numbers may be added.
    assert int(whole_product(a, b, added=64).repeat(64).sum()) == 64 * (2 * peak**2 - peak - 1)


def test_sums_that_int64_may_not_hold_are_refused():
    a = np.array([[1 << 31, 1 << 31]])
    with pytest.raises(ValueError, match=r"must be less than 2\^63 = .*, not 9223372036854775808$"):
        whole_product(a, a.T)
    assert int(whole_product(a, a.T - 1)[0, 0]) == 2**63 - 2**32
    with pytest.raises(ValueError, match="not 9223372036854775808"):
        whole_product(a[:, :1], a[:, :1].T, added=2)
    assert whole_product(a, np.zeros((2, 0))).shape == (1, 0)


#: Models of real numbers, and the two modules that bound what a floating-point product sums.
REAL = {"classifier", "elasticzo_float", "finetune", "language_model", "network"}
BOUNDED = {"exact", "kept_matrix"}


def test_models_in_integers_multiply_in_floating_point_only_with_a_bound():
    found = []
    for path in sorted(Path(golden.__file__).parent.glob("*.py")):
        if path.stem in REAL | BOUNDED:
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            nodes = list(ast.walk(function))
            named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            products = any(isinstance(node, ast.MatMult) for node in nodes)
            products |= bool(named & {"matmul", "dot", "einsum", "tensordot", "convolve", "inner"})
            if products and named & {"float32", "float64"}:
                found.append(f"{path.stem}.{function.name}")
    assert found == []
