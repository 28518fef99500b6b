"""Operators of ONNX graphs, and what they add to a network: a table that reader and page share.

A graph is followed from its input as one chain. :class:`Chain` is what was found so far.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from seedbed.spec.network import Layer, NetworkConfig

__all__ = ["FOLDED", "OPERATORS", "Chain", "Node", "Operator", "normalized", "supported"]

#: Operators of constants alone, which are computed at the import.
FOLDED = (
    "Cast", "Concat", "Constant", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose",
    "Unsqueeze",
)  # fmt: skip


@dataclass(frozen=True)
class Node:
    """A node of the chain: its inputs' constants, and the place ``at`` of the chain among them.

    An input that is the chain or left out is ``None``.
    """

    operator: str
    label: str
    attributes: Mapping[str, Any]
    inputs: Sequence[np.ndarray | None]
    names: Sequence[str]
    at: int = 0

    def refuse(self, found: str, allowed: str) -> ValueError:
        """Return the error of a node that cannot be imported."""
        return ValueError(f"{self.label} {found}; allowed is {allowed}")

    def get(self, name: str, default: Any) -> Any:
        """Return an attribute, strings as text."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def require(self, name: str, allowed: Any, default: Any) -> None:
        """Refuse an attribute that is not ``allowed``."""
        value = self.get(name, default)
        value = list(value) if isinstance(allowed, list) else value
        if value != allowed:
            raise self.refuse(f"has {name} {value}", f"{name} {allowed}")

    def constant(self, place: int, what: str) -> np.ndarray:
        """Return a constant input, as floats."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise self.refuse(f"computes its {what}", "constants")
        if found.dtype.kind in "iub":
            raise self.refuse(f"has {what} of {found.dtype}", "float32, float16 or float64")
        return found


@dataclass
class Draft:
    """A layer under construction; ``weight`` has a row for each output."""

    name: str
    kind: str
    inputs: tuple[int, int, int]
    weight: np.ndarray
    kernel: int = 1
    padding: int = 0
    stride: int = 1
    bias: np.ndarray | None = None
    relu: bool = False
    pool: int = 1

    @property
    def layer(self) -> Layer:
        """The layer. Raises ``ValueError`` if its values do not fit each other."""
        return Layer(
            name=self.name,
            kind=self.kind,
            inputs=self.inputs,
            outputs=len(self.weight),
            kernel=self.kernel,
            padding=self.padding,
            stride=self.stride,
            bias=self.bias is not None,
            relu=self.relu,
            pool=self.pool,
        )

    def add(self, bias: np.ndarray) -> None:
        """Add to the bias."""
        self.bias = bias if self.bias is None else self.bias + bias


@dataclass
class Chain:
    """Layers so far, and the shape (channels, height, width) of what they give.

    Parameters
    ----------
    flat
        Whether it is a vector.
    batch
        Samples of the graph's input, 0 for any number.
    area
        Pixels whose mean is taken of each map, by the next layer, which takes the maps whole.
    ended
        The node that must be the last, if there was one.
    """

    shape: tuple[int, int, int]
    flat: bool
    batch: int
    drafts: list[Draft] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    area: int = 1
    ended: str = ""

    @property
    def sizes(self) -> list[int]:
        """The shape as ONNX has it. The batch is 0, which ``Reshape`` keeps."""
        shape = self.shape if self.area == 1 else (self.shape[0], 1, 1)
        return [0, prod(shape)] if self.flat else [0, *shape]

    def append(self, draft: Draft) -> None:
        """Add a layer."""
        self.drafts.append(draft)
        self.shape, self.flat = draft.layer.shape, draft.kind == "dense"

    def open(self, node: Node) -> Draft:
        """Return the last layer, to which nothing but its sums has been applied."""
        last = self.drafts[-1] if self.drafts else None
        if not last or last.relu or last.pool > 1 or self.flat != (last.kind == "dense"):
            raise node.refuse("does not follow a layer", f"{node.operator} after Conv or Gemm")
        return last

    def last(self, node: Node) -> Draft:
        """Return the last layer."""
        if not self.drafts:
            raise node.refuse("comes before the first layer", "Conv, Gemm or MatMul first")
        return self.drafts[-1]

    def name(self, kind: str, weights: str) -> str:
        """Return a layer's name: that of its weights, without .weight, or its kind and number."""
        taken = {draft.name for draft in self.drafts}
        found = re.fullmatch(r"([A-Za-z_][\w.]*)\.weight", weights)
        numbered = [f"{kind}{n}" for n in range(1, len(taken) + 2)]
        return next(n for n in [found[1] if found else "", *numbered] if n and n not in taken)

    def network(self) -> tuple[NetworkConfig, dict[str, np.ndarray]]:
        """Return the network, and its parameters as :mod:`seedbed.golden.network` has them."""
        if not self.drafts:
            raise ValueError("there is no layer; a network has at least one Conv, Gemm or MatMul")
        if self.area > 1:
            raise ValueError("a mean over maps is the output; allowed is one before Gemm or MatMul")
        parameters = {}
        for draft in self.drafts:
            parameters[f"{draft.name}.weight"] = draft.weight
            if draft.bias is not None:
                parameters[f"{draft.name}.bias"] = draft.bias
        parameters = {name: value.astype(np.float32) for name, value in parameters.items()}
        for name, value in parameters.items():
            if not np.isfinite(value).all():
                raise ValueError(f"{name} has a number that is infinite or not a number")
        return NetworkConfig(tuple(draft.layer for draft in self.drafts)), parameters


def _ones(count: int) -> list[int]:
    return [1] * count


def _convolution(chain: Chain, node: Node) -> None:
    weight = node.constant(1, "weights")
    if node.at or chain.flat or chain.area > 1:
        raise node.refuse("does not take maps", "maps of (batch, channels, height, width)")
    channels = chain.shape[0]
    if weight.ndim != 4 or weight.shape[2] != weight.shape[3]:
        raise node.refuse(
            f"has weights of shape {list(weight.shape)}", "(outputs, inputs, kernel, kernel)"
        )
    node.require("group", 1, 1)
    node.require("dilations", _ones(2), _ones(2))
    strides = list(node.get("strides", _ones(2)))
    if len({*strides}) != 1:
        raise node.refuse(f"has strides {strides}", "the same stride in both dimensions")
    if weight.shape[1] != channels:
        raise node.refuse(f"takes {weight.shape[1]} channels", f"{channels}, which come in")
    kernel = weight.shape[2]
    chain.append(
        Draft(
            name=chain.name("conv", node.names[1]),
            kind="conv",
            inputs=chain.shape,
            weight=weight.reshape(len(weight), -1),
            kernel=kernel,
            padding=_padding(node, kernel, strides[0], chain.shape),
            stride=strides[0],
            bias=_vector(node, 2, len(weight)),
        )
    )


def _padding(node: Node, kernel: int, stride: int, shape: tuple[int, int, int]) -> int:
    automatic = node.get("auto_pad", "NOTSET")
    if automatic == "VALID":
        return 0
    if automatic.startswith("SAME"):
        # As many outputs as strides have begun, and the zeros that their windows need.
        needed = {
            max(0, -(-side // stride) * stride - stride + kernel - side) for side in shape[1:]
        }
        if len(needed) > 1 or max(needed) % 2:
            raise node.refuse(f"has auto_pad {automatic}, which is asymmetric", "equal pads")
        return max(needed) // 2
    pads = list(node.get("pads", [0] * 4))
    if len({*pads}) != 1:
        raise node.refuse(f"has pads {pads}", "the same padding on all sides")
    return pads[0]


def _vector(node: Node, place: int, outputs: int) -> np.ndarray | None:
    """Return an optional input with a number for each output."""
    if place >= len(node.names) or not node.names[place]:
        return None
    found = node.constant(place, "bias")
    try:
        return np.broadcast_to(found, (1, outputs)).ravel().copy()
    except ValueError:
        raise node.refuse(
            f"has a bias of shape {list(found.shape)}", f"{outputs} numbers, one for each output"
        ) from None


def _dense(chain: Chain, node: Node, weight: np.ndarray, bias: np.ndarray | None) -> None:
    """Add a dense layer with weights (outputs, inputs)."""
    if node.at or not chain.flat:
        raise node.refuse("does not take a vector", "Flatten or Reshape to (batch, n) before it")
    count = prod(chain.shape)
    if weight.shape[1] * chain.area != count:
        come = count // chain.area
        raise node.refuse(f"takes {weight.shape[1]} numbers", f"{come}, which come in")
    if chain.area > 1:
        weight = np.repeat(weight / chain.area, chain.area, axis=1)
        chain.area = 1
    inputs = (count, 1, 1) if chain.drafts else chain.shape
    name = chain.name("fc", node.names[1])
    chain.append(Draft(name=name, kind="dense", inputs=inputs, weight=weight, bias=bias))


def _matrix(node: Node) -> np.ndarray:
    weight = node.constant(1, "weights")
    if weight.ndim != 2:
        raise node.refuse(f"has weights of shape {list(weight.shape)}", "a matrix")
    return weight


def _gemm(chain: Chain, node: Node) -> None:
    weight = _matrix(node)
    node.require("transA", 0, 0)
    weight = weight if node.get("transB", 0) else weight.T
    bias = _vector(node, 2, len(weight))
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    scaled = None if bias is None else bias * np.float32(beta)
    _dense(chain, node, weight * np.float32(alpha), scaled)


def _matmul(chain: Chain, node: Node) -> None:
    if node.at:
        raise node.refuse("has its weights first", "weights as the second factor")
    _dense(chain, node, _matrix(node).T, None)


def _add(chain: Chain, node: Node) -> None:
    draft, given = chain.open(node), node.constant(1 - node.at, "bias")
    count = len(draft.weight)
    shape = (1, count) if chain.flat else (1, count, 1, 1)
    try:
        draft.add(np.broadcast_to(given, shape).ravel().copy())
    except ValueError:
        raise node.refuse(
            f"adds a constant of shape {list(given.shape)}", f"one number for each of {count}"
        ) from None


def normalized(
    weight: np.ndarray, bias: np.ndarray | None, parts: Sequence[np.ndarray], epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and bias of a layer with the batch normalization of its sums.

    ``parts`` are scale, bias, mean and variance, float64.
    """
    scale, shift, mean, variance = parts
    factor = scale / np.sqrt(variance + epsilon)
    before = 0 if bias is None else bias
    return weight * factor[:, None], (before - mean) * factor + shift


def _normalization(chain: Chain, node: Node) -> None:
    draft = chain.open(node)
    node.require("training_mode", 0, 0)
    names = ("scale", "bias", "mean", "variance")
    parts = [node.constant(k, name).astype(np.float64) for k, name in enumerate(names, 1)]
    if any(part.shape != (len(draft.weight),) for part in parts):
        raise node.refuse("has other channels", f"one number for each of {len(draft.weight)}")
    epsilon = node.get("epsilon", 1e-5)
    draft.weight, draft.bias = normalized(draft.weight, draft.bias, parts, epsilon)
    chain.notes.append(f"{node.label} is folded into {draft.name}")


def _relu(chain: Chain, node: Node) -> None:
    # After a maximum it gives what it gives before it.
    if chain.area > 1:
        raise node.refuse("takes a mean over maps", "a mean just before Gemm or MatMul")
    chain.last(node).relu = True


def _max_pool(chain: Chain, node: Node) -> None:
    draft = chain.last(node)
    if chain.flat or chain.area > 1:
        raise node.refuse("does not take maps", "maps of (batch, channels, height, width)")
    kernel = list(node.get("kernel_shape", []))
    if len(kernel) != 2 or kernel[0] != kernel[1]:
        raise node.refuse(f"has kernel_shape {kernel}", "a square")
    node.require("strides", kernel, _ones(2))
    node.require("dilations", _ones(2), _ones(2))
    same = node.get("auto_pad", "NOTSET").startswith("SAME")
    if not same:
        node.require("pads", [0] * 4, [0] * 4)
    height, width = chain.shape[1:]
    if (same or node.get("ceil_mode", 0)) and (height % kernel[0] or width % kernel[0]):
        raise node.refuse(
            "pools squares that are not whole",
            f"whole ones, as with ceil_mode 0 and no auto_pad, of {height} x {width} maps",
        )
    draft.pool *= kernel[0]
    chain.shape = draft.layer.shape


def _average(chain: Chain, node: Node) -> None:
    if chain.flat or chain.area > 1:
        raise node.refuse("does not take maps", "maps of (batch, channels, height, width)")
    chain.area = chain.shape[1] * chain.shape[2]
    chain.notes.append(f"{node.label} is folded into the next layer")


def _reduce_mean(chain: Chain, node: Node) -> None:
    axes = node.get("axes", None) or (node.inputs[1] if len(node.inputs) > 1 else None)
    if chain.flat or axes is None or sorted(axis % 4 for axis in axes) != [2, 3]:
        raise node.refuse("is no mean over maps", "axes 2 and 3")
    _average(chain, node)
    chain.flat = not node.get("keepdims", 1)


def _flatten(chain: Chain, node: Node) -> None:
    node.require("axis", 1, 1)
    chain.flat = True


def _reshape(chain: Chain, node: Node) -> None:
    wanted = node.inputs[1] if len(node.inputs) > 1 and not node.at else None
    if wanted is None:
        raise node.refuse("computes its shape", "a constant shape")
    batch, *sizes = (int(n) for n in wanted.ravel())
    kept, count = chain.sizes[1:], prod(chain.sizes[1:])
    if not node.get("allowzero", 0):
        sizes = [kept[k] if n == 0 and k < len(kept) else n for k, n in enumerate(sizes)]
    same = batch in (0, chain.batch)
    if (sizes == [-1] and same) or (sizes == [count] and (same or batch == -1)):
        chain.flat = True
    elif len(sizes) == 3 and prod(sizes) == count and min(sizes) > 0 and not chain.drafts:
        chain.shape, chain.flat = (sizes[0], sizes[1], sizes[2]), False
    elif sizes != kept:
        raise node.refuse(f"has the shape {[batch, *sizes]}", f"[batch, {count}]")


def _nothing(chain: Chain, node: Node) -> None:
    if node.operator == "Dropout":
        mode = node.inputs[2] if len(node.inputs) > 2 else None
        if mode is not None and mode.any():
            raise node.refuse("is in training mode", "a model that was exported after eval()")
        chain.notes.append(f"{node.label} is left out")


def _softmax(chain: Chain, node: Node) -> None:
    chain.last(node)
    if not chain.flat or node.get("axis", -1) not in (1, -1):
        raise node.refuse("is not over the classes", "axis 1 of (batch, classes)")
    chain.ended = node.label
    chain.notes.append(f"{node.label} is left out: the outputs are the logits")


@dataclass(frozen=True)
class Operator:
    """What is allowed of an operator and what it becomes, for the page; and the function for it."""

    allowed: str
    becomes: str
    apply: Callable[[Chain, Node], None]


OPERATORS: dict[str, Operator] = {
    "Conv": Operator(
        "two dimensions, a square kernel, the same stride in both, the same padding on all sides, "
        "one group, no dilation",
        "a layer `conv`",
        _convolution,
    ),
    "Gemm": Operator("`transA` 0, constant weights", "a layer `dense`", _gemm),
    "MatMul": Operator("constant weights as the second factor", "a layer `dense`", _matmul),
    "Add": Operator(
        "after `Conv`, `Gemm` or `MatMul`; a constant with one number for each output",
        "the bias",
        _add,
    ),
    "BatchNormalization": Operator(
        "after `Conv`, `Gemm` or `MatMul`, before ReLU and pooling", "folded into the layer",
        _normalization,
    ),
    "Relu": Operator("after a layer", "`relu` of the layer", _relu),
    "MaxPool": Operator(
        "a square whose side is the stride, at most 8 in all, whole squares, no padding",
        "`pool` of the layer",
        _max_pool,
    ),
    "GlobalAveragePool": Operator(
        "just before `Gemm` or `MatMul`, with `Flatten` between them",
        "folded into the dense layer, which takes the whole maps",
        _average,
    ),
    "ReduceMean": Operator(
        "over axes 2 and 3, as `GlobalAveragePool`", "as `GlobalAveragePool`", _reduce_mean
    ),
    "Flatten": Operator("`axis` 1", "nothing: a dense layer takes maps flat", _flatten),
    "Reshape": Operator(
        "to (batch, n); before the first layer also to (batch, channels, height, width)",
        "nothing",
        _reshape,
    ),
    "Identity": Operator("anywhere", "nothing", _nothing),
    "Dropout": Operator("in inference", "nothing", _nothing),
    "Softmax": Operator("last, over the classes", "left out", _softmax),
    "LogSoftmax": Operator("last, over the classes", "left out", _softmax),
    "Shape": Operator("anywhere", "a constant", _nothing),
}  # fmt: skip


def supported() -> str:
    """Return the names of all operators, for an error."""
    return ", ".join(sorted({*OPERATORS, *FOLDED}))
