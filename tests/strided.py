"""A network with strides, of which the tests of cores and of models have each its own sizes."""

from seedbed.spec.network import Layer, NetworkConfig


def strided(channels, *outputs):
    """Overlapping windows, of which the last column is in no square; windows with gaps between."""
    first, second, classes = outputs
    return NetworkConfig(
        (
            Layer(
                name="a", kind="conv", inputs=(channels, 7, 9), outputs=first, kernel=3,
                padding=1, stride=2, pool=2,
            ),
            Layer(name="b", kind="conv", inputs=(first, 2, 2), outputs=second, kernel=1, stride=3),
            Layer(name="c", kind="dense", inputs=(second, 1, 1), outputs=classes, relu=False),
        )
    )  # fmt: skip
