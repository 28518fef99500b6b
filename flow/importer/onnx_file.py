"""ONNX files: the chain of nodes from the input to the output, as a network with parameters."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_model, uses_external_data
from onnx.reference import ReferenceEvaluator

from seedbed.flow.importer.model import Model, Origin
from seedbed.flow.importer.operators import FOLDED, OPERATORS, Chain, Node, supported

__all__ = ["read"]

#: Types of an input and of weights.
FLOATS = {
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.DOUBLE: "float64",
}


def read(path: Path) -> Model:
    """Return the network of an ONNX file.

    Raises ``ValueError`` with the file's name, and the node's where one cannot be imported.
    """
    try:
        model = _load(path)
        return _model(model)
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from problem
    except (ValueError, TypeError) as problem:
        raise ValueError(f"{path}: {problem}") from problem


def _load(path: Path) -> onnx.ModelProto:
    """Return a file's content with its external data, checked by the library."""
    model, content = onnx.ModelProto(), path.read_bytes()
    try:
        model.ParseFromString(content)
    except Exception:
        # An exception of protobuf, which onnx does not hand on.
        raise ValueError("this is no ONNX file") from None
    graph = model.graph
    if not graph.node:
        raise ValueError("this is no ONNX file, or its graph has no node")
    for node in graph.node:
        own = node.domain in ("", "ai.onnx")
        if not own or node.op_type not in (*OPERATORS, *FOLDED):
            name = node.op_type if own else f"{node.domain}.{node.op_type}"
            raise ValueError(f"{_label(node)} is of an operator that is not supported, {name}; "
                             f"supported are {supported()}")  # fmt: skip
    for tensor in graph.initializer:
        if uses_external_data(tensor):
            named = {entry.key: entry.value for entry in tensor.external_data}
            file = path.parent / named.get("location", "")
            if not file.is_file():
                raise ValueError(f"the weights are in another file, which is missing: {file}")
    try:
        load_external_data_for_model(model, str(path.parent))
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as problem:
        raise ValueError(f"the graph is not valid: {_first_line(problem)}") from problem
    return model


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def _label(node: onnx.NodeProto) -> str:
    """Return how a node is called in a sentence: by its name, or by what it gives."""
    named = repr(node.name) if node.name else f"of {next(iter(node.output), '')!r}"
    return f"node {named} ({node.op_type})"


def _model(model: onnx.ModelProto) -> Model:
    graph = model.graph
    constants = {tensor.name: _array(tensor) for tensor in graph.initializer}
    source, shape, chain = _input(graph, constants)
    seen, current, last = {source: chain.sizes}, source, ""
    for node in graph.node:
        label = _label(node)
        names = list(node.input)
        given = [name for name in names if name]
        if node.op_type == "Shape" and given and given[0] in seen:
            constants[node.output[0]] = _shape(node, seen[given[0]])
        elif all(name in constants for name in given):
            constants |= zip(node.output, _folded(model, node, label, constants), strict=False)
        else:
            others = [name for name in given if name not in constants and name != current]
            if others or node.op_type not in OPERATORS or node.op_type == "Shape":
                raise ValueError(
                    f"{label} takes {(others or given)[0]!r}, which is not the output of the node "
                    "before it; a network is one chain of layers, without branches"
                )
            if chain.ended:
                raise ValueError(f"{label} follows {chain.ended}, which must be the last node")
            _apply(chain, node, label, [constants.get(name) for name in names], current)
            current, last = node.output[0], node.op_type if chain.ended else ""
            seen[current] = chain.sizes
    outputs = [output.name for output in graph.output]
    if outputs != [current]:
        raise ValueError(
            f"the outputs are {', '.join(outputs)}; a network has one, that of its last node, "
            f"{current}"
        )
    network, parameters = chain.network()
    notes = [*chain.notes, *_conversions(graph)]
    return Model(network, parameters, notes, Origin(source, shape, current, last))


def _apply(
    chain: Chain, node: onnx.NodeProto, label: str, inputs: Sequence[Any], current: str
) -> None:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    names = list(node.input)
    found = Node(node.op_type, label, attributes, inputs, names, names.index(current))
    try:
        OPERATORS[node.op_type].apply(chain, found)
        # A layer refuses what does not fit it.
        _ = [draft.layer for draft in chain.drafts[-1:]]
    except (ValueError, TypeError) as problem:
        sentence = str(problem)
        raise ValueError(
            sentence if sentence.startswith(label) else f"{label}: {sentence}"
        ) from problem


def _array(tensor: TensorProto) -> np.ndarray:
    """Return a tensor, floats in a type that NumPy has and that holds them exactly."""
    found = numpy_helper.to_array(tensor)
    narrow = tensor.data_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
    return found.astype(np.float32) if narrow else found


def _conversions(graph: onnx.GraphProto) -> Iterator[str]:
    kinds = {tensor.data_type for tensor in graph.initializer} - {TensorProto.FLOAT}
    for kind in sorted(kinds & FLOATS.keys()):
        yield f"weights of {FLOATS[kind]} are converted to float32"


def _input(
    graph: onnx.GraphProto, constants: Mapping[str, np.ndarray]
) -> tuple[str, list[int], Chain]:
    """Return the input's name, its shape without the batch, and the chain that begins there."""
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs) or "none"
        raise ValueError(f"the graph must have one input, the images, not {names}")
    [value] = inputs
    tensor = value.type.tensor_type
    if tensor.elem_type not in FLOATS:
        raise ValueError(
            f"the input {value.name!r} must be of {', '.join(FLOATS.values())}, not "
            f"{TensorProto.DataType.Name(tensor.elem_type).lower()}"
        )
    batch, *sizes = [d.dim_value for d in tensor.shape.dim] or [0]
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        shape = ", ".join(map(_dimension, tensor.shape.dim))
        raise ValueError(
            f"the input {value.name!r} has the shape ({shape}); allowed are (batch, channels, "
            "height, width) and (batch, n) with fixed sizes after the batch"
        )
    flat = len(sizes) == 1
    channels, height, width = (sizes[0], 1, 1) if flat else (1, *sizes)[-3:]
    return value.name, sizes, Chain((channels, height, width), flat, batch)


def _dimension(dimension: Any) -> str:
    return dimension.dim_param or str(dimension.dim_value or "?")


def _shape(node: onnx.NodeProto, sizes: list[int]) -> np.ndarray:
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return np.array(sizes[given.get("start", 0) : given.get("end")], np.int64)


def _folded(
    model: onnx.ModelProto, node: onnx.NodeProto, label: str, constants: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Return what a node of constants gives."""
    if node.op_type not in FOLDED:
        raise ValueError(f"{label} has constants only; allowed is this for {', '.join(FOLDED)}")
    feeds = {name: constants[name] for name in node.input if name}
    inputs = [onnx.ValueInfoProto(name=name) for name in feeds]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "constant", inputs, outputs)
    alone = helper.make_model(graph, opset_imports=model.opset_import)
    alone.ir_version = model.ir_version
    try:
        return [np.asarray(value) for value in ReferenceEvaluator(alone).run(None, feeds)]
    except Exception as problem:
        # The library has no exception of its own for what it cannot compute.
        raise ValueError(f"{label} cannot be computed: {_first_line(problem)}") from problem
