"""Networks as ONNX files, with adapters."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from seedbed.flow.importer.model import Model

__all__ = ["write"]

#: Versions of operators and of the format.
OPSET, FORMAT = 13, 8


def write(model: Model, adapters: Mapping[str, np.ndarray] | None = None) -> bytes:
    """Return a network as an ONNX file with the input and output of the one that it comes from.

    Parameters
    ----------
    model
        A network with its origin.
    adapters
        For each layer NAME, NAME.lora_a (rank, inputs) and NAME.lora_b (classes, rank): the product
        of both and the layer's input is added to the logits.
    """
    origin = model.origin
    assert origin
    graph = _Graph(model.parameters, [origin.input, origin.output])
    layers, added = model.network.layers, []
    first, flat = layers[0].inputs, len(origin.shape) == 1
    if layers[0].kind == "conv" and origin.shape != list(first):
        graph.add("Reshape", [graph.constant("shape", np.array([-1, *first], np.int64))])
        flat = False
    for layer in layers:
        if layer.kind == "dense" and not flat:
            graph.add("Flatten")
            flat = True
        if adapters is not None:
            start = graph.last
            if not flat:
                graph.add("Flatten")
            for name in ("lora_a", "lora_b"):
                whole = graph.constant(f"{layer.name}.{name}", adapters[f"{layer.name}.{name}"])
                graph.add("Gemm", [whole], transB=1)
            added.append(graph.last)
            graph.last = start
        parts = ["weight", "bias"] if layer.bias else ["weight"]
        names = [f"{layer.name}.{part}" for part in parts]
        if layer.kind == "conv":
            kernel = [layer.kernel] * 2
            maps = (layer.outputs, layer.inputs[0], *kernel)
            given = [graph.parameter(names[0], maps), *map(graph.parameter, names[1:])]
            strides = [layer.stride] * 2
            pads = [layer.padding] * 4
            graph.add("Conv", given, kernel_shape=kernel, pads=pads, strides=strides)
        else:
            graph.add("Gemm", [graph.parameter(name) for name in names], transB=1)
        if layer.relu:
            graph.add("Relu")
        if layer.pool > 1:
            side = [layer.pool] * 2
            graph.add("MaxPool", kernel_shape=side, strides=side)
    for name in added:
        graph.add("Add", [name])
    if origin.last:
        graph.add(origin.last, axis=1)
    return graph.file(origin.shape, layers[-1].outputs)


class _Graph:
    """A graph under construction; ``last`` is the output to which the next node is added."""

    def __init__(self, parameters: Mapping[str, np.ndarray], names: Sequence[str]):
        self.parameters = parameters
        self.input, self.output = names
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[TensorProto] = []
        self.last = self.input

    def constant(self, name: str, value: np.ndarray) -> str:
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def parameter(self, name: str, shape: tuple[int, ...] | None = None) -> str:
        value = self.parameters[name]
        return self.constant(name, value if shape is None else value.reshape(shape))

    def add(self, kind: str, others: Sequence[str] = (), **attributes: Any) -> None:
        taken = {self.input, self.output, *(tensor.name for tensor in self.tensors)}
        number = len(self.nodes)
        result = next(n for n in (f"y{number}", f"seedbed.y{number}") if n not in taken)
        self.nodes.append(
            helper.make_node(kind, [self.last, *others], [result], f"n{number}", **attributes)
        )
        self.last = result

    def file(self, shape: list[int], outputs: int) -> bytes:
        self.nodes[-1].output[0] = self.output
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *sizes])
            for name, sizes in ((self.input, shape), (self.output, [outputs]))
        ]
        graph = helper.make_graph(self.nodes, "seedbed", ends[:1], ends[1:], self.tensors)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=FORMAT)
        model.producer_name, model.producer_version = "seedbed", version("seedbed")
        onnx.checker.check_model(model)
        return model.SerializeToString(deterministic=True)
