import numpy as np
import pytest

from seedbed.golden.sparse_mac import SparseMac
from seedbed.spec import SparseMacConfig

ENTRIES = np.array([[0, 1, 5], [2, 0, -3], [2, 2, 7]])
X = np.array([10, -20, 30])


def model(**params):
    return SparseMac(SparseMacConfig(**params))


def test_worked_example():
    """Row 0 has 5 x -20, row 2 has -3 x 10 + 7 x 30; the products are shifted by 2."""
    sums = model().product(ENTRIES, X, np.array([1, 2, 3]), shift=2)
    assert sums.tolist() == [1 - 400, 2, 3 + 4 * 180]


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_products_are_those_of_the_dense_sum_of_both_parts(k):
    """(W + S + k z) x in one product of a dense matrix, where nothing saturates."""
    rng = np.random.default_rng(1)
    rows, columns = 20, 30
    places = np.sort(rng.choice(rows * columns, 50, replace=False))
    entries = np.stack([places // columns, places % columns, rng.integers(-99, 99, 50)], axis=1)
    dense, x = rng.integers(-99, 99, (rows, columns)), rng.integers(-99, 99, columns)
    whole, ours = dense.copy(), model()
    moved = entries[:, 2] + k * 4 * ours.numbers(7, 50)
    whole[entries[:, 0], entries[:, 1]] += moved
    found = ours.product(entries, x, dense @ x, seed=7, scale=2, k=k)
    assert np.array_equal(found, whole @ x)


def test_numbers_are_odd_symmetric_and_named_by_their_seed():
    ours = model(number_width=4)
    numbers = ours.numbers(3, 4000)
    assert set(numbers.tolist()) == set(range(-15, 16, 2))
    assert np.array_equal(ours.numbers(3, 50), numbers[:50])
    assert not np.array_equal(ours.numbers(4, 50), numbers[:50])
    # Of the mean of 4,000 uniform numbers, 0.6 is four standard deviations.
    assert abs(numbers.mean()) < 0.6
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.07


def test_values_saturate():
    ours = model(value_width=10)
    ends = np.array([511, -512] * 8)
    plus = ours.perturbed(ends, seed=1, scale=7, k=1)
    minus = ours.perturbed(ends, seed=1, scale=7, k=-1)
    numbers = ours.numbers(1, 16)
    assert np.array_equal(plus == ends, (numbers > 0) == (ends > 0))
    assert np.array_equal(minus == ends, (numbers < 0) == (ends > 0))
    new = ours.updated(ends, seed=1, gain=-(1 << 15), shift=15)
    assert set(new.tolist()) == {511, -512}
    assert np.array_equal(new > 0, numbers > 0)


def test_an_update_is_rounded_half_up():
    """With gain 2^15 and shift 0, half of each odd number: v - floor(z / 2 + 1/2)."""
    ours = model(activation_width=17)
    numbers = ours.numbers(1, 40)
    new = ours.updated(np.zeros(40, int), seed=1, gain=1 << 15, shift=0)
    assert np.array_equal(-new, (numbers + 1) // 2)


def test_an_update_without_gain_reads_the_values():
    values = np.array([3, -7, 32767, -32768])
    assert np.array_equal(model().updated(values, seed=5, gain=0, shift=9), values)


@pytest.mark.parametrize(
    ("entries", "index", "status"),
    [
        (ENTRIES, 3, "ok"),
        (np.zeros((0, 3), int), 0, "ok"),
        (ENTRIES[[0, 2, 1]], 2, "order"),
        (ENTRIES[[1, 0, 2]], 1, "order"),
        (ENTRIES[[0, 1, 1]], 2, "repeated"),
        (ENTRIES + np.array([0, 1, 0]), 2, "range"),
        (ENTRIES + np.array([1, 0, 0]), 1, "range"),
    ],
)
def test_the_first_wrong_entry_is_found(entries, index, status):
    ours = model()
    assert ours.first_error(entries, rows=3, columns=3) == (index, status)
    if status != "ok":
        with pytest.raises(ValueError, match=f"entry {index} must be .*: {status}"):
            ours.product(entries, X, np.zeros(3, int))


def test_zeroth_order_steps_lower_a_loss():
    """Two passes, a projected gradient and an update, as a trainer makes them."""
    rng = np.random.default_rng(2)
    ours, rows, columns = model(), 6, 8
    places = np.arange(0, rows * columns, 4)
    entries = np.stack([places // columns, places % columns, 0 * places], axis=1)
    goal = rng.integers(-9000, 9000, len(places))
    x = rng.integers(-50, 50, (10, columns))
    wanted = [ours.product(np.c_[entries[:, :2], goal], one, np.zeros(rows, int)) for one in x]

    def loss(k, seed):
        sums = [
            ours.product(entries, one, np.zeros(rows, int), seed=seed, scale=1, k=k) for one in x
        ]
        return float(np.square((np.array(sums) - wanted) / 1e5).sum())

    losses = [loss(0, 0)]
    for seed in range(60):
        gain = int(np.clip((loss(1, seed) - loss(-1, seed)) * 4000, -20000, 20000))
        entries[:, 2] = ours.updated(entries[:, 2], seed=seed, gain=gain, shift=4)
        losses.append(loss(0, 0))
    assert losses[-1] < losses[0] / 2


def test_several_vectors_have_a_sign_each():
    one, two = model(), model(vectors=2)
    x, dense = np.stack([X, -2 * X]), np.array([[1, 2], [3, 4], [5, 6]])
    sums = two.product(ENTRIES, x, dense, seed=4, scale=2, k=(1, -1))
    for v, k in enumerate((1, -1)):
        alone = one.product(ENTRIES, x[v], dense[:, v], seed=4, scale=2, k=k)
        assert sums[:, v].tolist() == alone.tolist()
