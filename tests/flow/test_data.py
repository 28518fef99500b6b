import gzip

import numpy as np
import pytest

from seedbed.flow.jobs.data import DataError, digits, few_shot, mnist, read_idx, rotated

NAMES = [
    f"{prefix}-{kind}-ubyte"
    for prefix in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
]


def idx(array, kind="images"):
    header = {"images": 0x803, "labels": 0x801}[kind].to_bytes(4, "big")
    return header + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path):
    """Four whole files, the labels' plain and the images' gzipped: 120 and 60 images."""
    rng = np.random.default_rng(5)
    for prefix, count in (("train", 120), ("t10k", 60)):
        images = rng.integers(0, 256, (count, 28, 28))
        path = tmp_path / f"{prefix}-images-idx3-ubyte.gz"
        path.write_bytes(gzip.compress(idx(images), 1))
        labels = tmp_path / f"{prefix}-labels-idx1-ubyte"
        labels.write_bytes(idx(np.arange(count) % 10, "labels"))
    return tmp_path


def test_digits_split_is_disjoint_and_whole():
    split = digits()
    assert sum(split.counts.values()) == 1797
    images = [part.tobytes() for x, _ in (split.pre, split.tune, split.test) for part in x]
    assert len(set(images)) == 1797
    assert split.test[0].shape[1:] == (8, 8)
    assert split.test[0].dtype == np.float32
    assert (split.test[0].min(), split.test[0].max()) == (0, 1)
    assert set(split.tune[1]) == set(range(10))


def test_mnist_reads_plain_and_gzip(folder):
    split = mnist(folder)
    assert split.counts == {"pre": 100, "tune": 20, "test": 60}
    rng = np.random.default_rng(5)
    np.testing.assert_allclose(split.pre[0], rng.integers(0, 256, (120, 28, 28))[:100] / 255)
    np.testing.assert_array_equal(split.tune[1], np.arange(100, 120) % 10)


def test_missing_folder(tmp_path):
    with pytest.raises(DataError, match="nowhere is not a folder"):
        mnist(tmp_path / "nowhere")


@pytest.mark.parametrize("name", NAMES)
def test_missing_file(folder, name):
    for path in folder.glob(f"{name}*"):
        path.unlink()
    with pytest.raises(DataError, match=rf"has neither {name}\.gz nor {name}$"):
        mnist(folder)


LABELS = idx(np.arange(120) % 10, "labels")
BAD = {
    "empty": (b"", "has 0 bytes, less than the 8 of an IDX header"),
    "cut in the header": (LABELS[:6], "has 6 bytes, less than the 8 of an IDX header"),
    "cut": (LABELS[:-1], "has 127 bytes, but its header promises 128"),
    "too long": (LABELS + b"x", "has 129 bytes, but its header promises 128"),
    "text": (b"label,pixel0\n5,0\n", "begins with 0x6c616265, but an IDX file of labels"),
    "images": (idx(np.zeros((120, 28, 28))), "begins with 0x00000803, but .* with 0x00000801"),
    "fewer": (idx(np.arange(119) % 10, "labels"), "has 120 images, but .* 119 labels"),
    "letters": (idx(np.arange(120), "labels"), r"has the label 119, but MNIST's are 0\.\.9"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_labels(folder, case):
    raw, says = BAD[case]
    (folder / "train-labels-idx1-ubyte").write_bytes(raw)
    with pytest.raises(DataError, match=says) as caught:
        mnist(folder)
    assert "train-labels-idx1-ubyte" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_of_another_size(folder):
    raw = idx(np.zeros((120, 8, 8)))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(raw))
    with pytest.raises(DataError, match=r"has images of 8 x 8, but MNIST's are 28 x 28"):
        mnist(folder)


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-20], lambda raw: raw[10:], lambda raw: raw[:50] + b"\xff" * 50]
)
def test_damaged_gzip(folder, damage):
    path = folder / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"t10k-images.* is not a whole gzip file"):
        mnist(folder)


def test_header_may_promise_anything(tmp_path):
    path = tmp_path / "huge"
    path.write_bytes((0x803).to_bytes(4, "big") + b"\xff" * 12)
    with pytest.raises(DataError, match=f"promises {16 + (2**32 - 1) ** 3}"):
        read_idx(path, "images")


def test_rotation_is_anticlockwise_and_keeps_the_shape():
    image = np.zeros((2, 9, 9), np.float32)
    image[0, 4, 7] = 1
    found = rotated(image, 90)
    assert found.shape == image.shape
    assert found.dtype == np.float32
    assert np.argwhere(found > 0.5).tolist() == [[0, 1, 4]]


def test_few_shot_is_balanced():
    labels = np.random.default_rng(1).integers(10, size=500)
    chosen = few_shot(labels, 16, np.random.default_rng(2))
    assert len(set(chosen)) == 160
    np.testing.assert_array_equal(np.bincount(labels[chosen]), [16] * 10)


def test_few_shot_wants_enough():
    labels = np.repeat(np.arange(10), 20)[:-5]
    with pytest.raises(DataError, match="class 9 has 15 images to fine-tune with, but 16"):
        few_shot(labels, 16, np.random.default_rng(0))
