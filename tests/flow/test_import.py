# amaranth: UnusedElaboratable=no
"""Models that are imported: against ONNX's reference, and a sentence for each that is refused."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from PIL import Image
from safetensors.numpy import load, load_file, save_file

from seedbed.flow.cores import networks, registry, settings
from seedbed.flow.importer import figures, onnx_file, onnx_output, state_dict
from seedbed.flow.importer import imported as imports
from seedbed.flow.importer.images import Images, read_sets
from seedbed.flow.importer.operators import FOLDED, OPERATORS
from seedbed.golden import network as floating
from seedbed.golden.conv_engine import ConvEngine, flat
from seedbed.golden.fixed import to_fixed
from seedbed.hw.engine.conv_engine import ConvEngine as Component
from seedbed.spec.conv_engine import ConvEngineConfig
from seedbed.spec.fixed import Fixed
from seedbed.spec.network import LENET5, Layer, NetworkConfig

ROOT = Path(__file__).parents[2]


class Graph:
    """A graph that is written node by node, each after the last one."""

    def __init__(self, *sizes, batch="N", seed=0, kind=np.float32):
        self.rng, self.kind, self.nodes, self.initializers = (
            np.random.default_rng(seed),
            kind,
            [],
            [],
        )
        self.batch, self.sizes, self.last, self.outputs = batch, sizes, "x", None

    def constant(self, name, value):
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weights(self, name, *shape, scale=None):
        scale = scale or (2 / np.prod(shape[1:])) ** 0.5
        return self.constant(name, (scale * self.rng.normal(size=shape)).astype(self.kind))

    def add(self, operator, *others, **attributes):
        number = len(self.nodes)
        self.nodes.append(
            helper.make_node(
                operator, [self.last, *others], [f"y{number}"], name=f"n{number}", **attributes
            )
        )
        self.last = f"y{number}"
        return self

    def conv(self, name, channels, outputs, kernel, bias=True, **attributes):
        weight = self.weights(f"{name}.weight", outputs, channels, kernel, kernel)
        biases = [self.weights(f"{name}.bias", outputs, scale=0.1)] if bias else []
        return self.add("Conv", weight, *biases, **attributes)

    def pool(self, side=2, **attributes):
        return self.add("MaxPool", kernel_shape=[side] * 2, **{"strides": [side] * 2} | attributes)

    def norm(self, name, channels, **attributes):
        parts = [
            self.constant(f"{name}.{part}", low + self.rng.random(channels).astype(self.kind))
            for part, low in zip(("scale", "bias", "mean", "var"), (0.5, 0, -0.5, 0.5), strict=True)
        ]
        return self.add("BatchNormalization", *parts, **attributes)

    def gemm(self, name, inputs, outputs, **attributes):
        weight = self.weights(f"{name}.weight", outputs, inputs)
        bias = self.weights(f"{name}.bias", outputs, scale=0.1)
        return self.add("Gemm", weight, bias, **{"transB": 1} | attributes)

    def matmul(self, name, inputs, outputs):
        self.add("MatMul", self.weights(f"{name}", inputs, outputs, scale=inputs**-0.5))
        return self.add("Add", self.weights(f"{name}b", outputs, scale=0.1))

    def model(self):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.kind))
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", kind, [self.batch, *self.sizes])],
            [
                helper.make_tensor_value_info(n, kind, ["N", "M"])
                for n in self.outputs or [self.last]
            ],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def save(self, path):
        onnx.save(self.model(), path)
        return path


def cnn():
    """Batch normalization after both convolutions, one without a bias, and a softmax."""
    g = Graph(1, 12, 12, seed=1)
    g.conv("features.0", 1, 4, 3, bias=False, pads=[1] * 4).norm("bn1", 4).add("Relu").pool()
    g.conv("features.3", 4, 6, 3).norm("bn2", 6, epsilon=1e-3).add("Relu").pool()
    return g.add("Dropout").add("Flatten").gemm("classifier", 24, 5).add("Softmax", axis=1)


def colours():
    """Three channels, 3 x 3 kernels, and the shape that x.view(x.size(0), -1) leaves."""
    g = Graph(3, 8, 8, seed=2)
    g.conv("conv1", 3, 6, 3, auto_pad="SAME_UPPER").add("Relu")
    g.conv("conv2", 6, 8, 3, pads=[1] * 4).pool().pool().add("Relu")
    image = g.last
    one = g.constant("one", np.array([-1]))
    g.add("Shape").add("Gather", g.constant("zero", np.array(0)), axis=0)
    g.add("Unsqueeze", g.constant("axes", np.array([0]))).add("Concat", one, axis=0)
    shape, g.last = g.last, image
    return g.add("Reshape", shape).gemm("fc", 32, 7, alpha=0.5, beta=2.0)


def mlp():
    """Products and sums, of images that are flat already, and weights that are transposed."""
    g = Graph(20, seed=3).matmul("onnx::MatMul_1", 20, 12).norm("bn", 12).add("Relu")
    weight = g.weights("second", 9, 12)
    g.nodes.append(helper.make_node("Transpose", [weight], ["turned"], perm=[1, 0]))
    return g.add("MatMul", "turned").add("Relu").add("Identity").matmul("last", 9, 4)


def lenet():
    g = Graph(1, 28, 28, seed=4, batch=1).conv("conv1", 1, 6, 5, pads=[2] * 4).add("Relu").pool()
    g.conv("conv2", 6, 16, 5).add("Relu").pool().add("Reshape", g.constant("s", np.array([1, 400])))
    g.gemm("fc1", 400, 120).add("Relu").gemm("fc2", 120, 84).add("Relu")
    return g.gemm("fc3", 84, 10)


def average():
    g = Graph(2, 6, 6, seed=5).conv("conv1", 2, 4, 3).add("Relu").add("GlobalAveragePool")
    return g.add("Flatten").gemm("fc", 4, 3)


def strided():
    """Strides in place of pooling, and a last column that pooling leaves out."""
    g = Graph(3, 15, 16, seed=8).conv("stem", 3, 6, 3, strides=[2, 2], pads=[1] * 4)
    g.norm("bn1", 6).add("Relu").conv("down", 6, 8, 1, strides=[2, 2]).add("Relu")
    g.conv("last", 8, 9, 2, strides=[1, 1]).pool().add("Relu")
    return g.add("Flatten").gemm("fc", 9, 5)


def same():
    """A stride of 3 on maps for which the padding is symmetric."""
    g = Graph(1, 7, 10, seed=7).conv("conv1", 1, 6, 3, strides=[3, 3], auto_pad="SAME_LOWER")
    return g.add("Relu").add("Flatten").gemm("fc", 72, 5)


MODELS = {m.__name__: m for m in (cnn, colours, mlp, lenet, average, strided, same)}


def reference(graph, x):
    """Return what ONNX's own evaluator gives; a fixed batch one by one."""
    model = ReferenceEvaluator(graph.model())
    parts = np.split(x, len(x)) if graph.batch == 1 else [x]
    return np.concatenate([model.run(None, {"x": part})[0] for part in parts])


@pytest.mark.parametrize("name", MODELS)
def test_a_network_gives_what_onnx_gives(name, tmp_path):
    """Tolerance: sums of float32 in another order, and factors of normalization in the weights."""
    graph = MODELS[name]()
    found = onnx_file.read(graph.save(tmp_path / "model.onnx"))
    x = 3 * np.random.default_rng(9).normal(size=(16, *graph.sizes)).astype(np.float32)
    shape = found.network.layers[0].inputs
    z = floating.logits(found.network, found.parameters, x.reshape(len(x), *shape))
    expected = reference(graph, x)
    if name == "cnn":
        # The network has no softmax.
        z = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(z, expected, rtol=1e-4, atol=1e-5)
    assert (z.argmax(axis=1) == expected.argmax(axis=1)).all()
    assert len({*z.argmax(axis=1)}) > 1
    assert {value.dtype for value in found.parameters.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    "name",
    ["converted/test_Linear", "converted/test_Linear_no_bias", "operator/test_operator_conv"],
)
def test_an_export_of_pytorch_gives_what_pytorch_gave(name):
    """The files are in the package of onnx. Tolerance: the order of float32 sums."""
    folder = Path(onnx.__file__).parent / f"backend/test/data/pytorch-{name}"
    found = onnx_file.read(folder / "model.onnx")
    x, y = (
        numpy_helper.to_array(onnx.load_tensor(folder / "test_data_set_0" / file))
        for file in ("input_0.pb", "output_0.pb")
    )
    x = x.reshape(len(x), *found.network.layers[0].inputs)
    z = floating.logits(found.network, found.parameters, x)
    np.testing.assert_allclose(z, y.reshape(z.shape), rtol=1e-5, atol=1e-6)


def test_every_export_of_pytorch_is_imported_or_refused():
    """A refusal is one line with the file's name."""
    folder = Path(onnx.__file__).parent / "backend/test/data"
    paths = sorted(folder.glob("pytorch-*/*/model.onnx"))
    assert len(paths) > 90
    refusals = {}
    for path in paths:
        try:
            onnx_file.read(path)
        except ValueError as problem:
            refusals[path] = str(problem)
    assert 0 < len(refusals) < len(paths)
    for path, sentence in refusals.items():
        assert sentence.startswith(f"{path}: ")
        assert "\n" not in sentence


def test_the_layers_of_a_network():
    network = NetworkConfig(
        (
            Layer(
                name="features.0", kind="conv", inputs=(1, 12, 12), outputs=4, kernel=3, padding=1,
                pool=2,
            ),
            Layer(name="features.3", kind="conv", inputs=(4, 6, 6), outputs=6, kernel=3, pool=2),
            Layer(name="classifier", kind="dense", inputs=(24, 1, 1), outputs=5, relu=False),
        )
    )  # fmt: skip
    found = onnx_file._model(cnn().model())
    assert found.network == network
    assert found.notes == [
        "node 'n1' (BatchNormalization) is folded into features.0",
        "node 'n5' (BatchNormalization) is folded into features.3",
        "node 'n8' (Dropout) is left out",
        "node 'n11' (Softmax) is left out: the outputs are the logits",
    ]
    assert onnx_file._model(lenet().model()).network == LENET5
    assert [layer.name for layer in onnx_file._model(mlp().model()).network.layers] == [
        "fc1", "fc2", "fc3",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_floats_are_converted(kind):
    found = onnx_file._model(Graph(6, kind=kind).gemm("fc", 6, 3).model())
    name = np.dtype(kind).name
    assert found.notes == [f"weights of {name} are converted to float32"]
    weight = Graph(6, kind=kind).gemm("fc", 6, 3).initializers[0]
    assert (found.parameters["fc.weight"] == numpy_helper.to_array(weight).astype("f4")).all()


def test_weights_in_another_file(tmp_path, called):
    path = tmp_path / "m.onnx"
    whole = onnx_file.read(lenet().save(tmp_path / "one.onnx"))
    onnx.save(
        lenet().model(), path, save_as_external_data=True, location="m.data", size_threshold=0
    )
    found = onnx_file.read(path)
    assert all((found.parameters[n] == v).all() for n, v in whole.parameters.items())
    (tmp_path / "m.data").unlink()
    refused(called, tmp_path, "m.onnx", "the weights are in another file, which is missing:")


def refused(called, folder, name, sentence, *options):
    """Check a refusal: status 2, one line with the file's name, and nothing written."""
    status, out, err = called(["import", name, "-o", "made", *options], folder)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert name in err
    assert sentence in err
    assert not (folder / "made").exists()


def first(**attributes):
    return Graph(2, 8, 8).conv("c", 2, 4, 3, **attributes)


def branch():
    g = first(pads=[1] * 4).add("Relu")
    kept = g.last
    return g.conv("d", 4, 4, 3, pads=[1] * 4).add("Add", kept)


def two_outputs():
    g = first()
    g.outputs = ["y0", "y1"]
    return g.add("Relu")


def two_inputs():
    g = first()
    g.constant = None
    g.initializers.pop()
    model = g.model()
    model.graph.input.append(helper.make_tensor_value_info("c.bias", TensorProto.FLOAT, [4]))
    return model


def bytes_in():
    model = first().model()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    return model


def computed():
    g = Graph(4)
    g.nodes.append(helper.make_node("Identity", ["x"], ["w"]))
    g.last = "w"
    return g.add("Gemm", "w")


def one_vector():
    g = first()
    return g.add("Reshape", g.constant("shape", np.array([1, -1])))


def infinite():
    g = Graph(4)
    return g.add("Gemm", g.constant("fc.weight", np.full((4, 2), np.inf, np.float32)))


def whole_weights():
    g = Graph(4)
    g.add("Identity")
    return g.add("MatMul", g.constant("w", np.ones((4, 2), np.int64)))


#: A model, and a part of the sentence that refuses it.
BAD = [
    (
        first().add("Sigmoid"),
        "node 'n1' (Sigmoid) is of an operator that is not supported, Sigmoid",
    ),
    (first().add("Op", domain="own"), "operator that is not supported, own.Op; supported are Add"),
    (first(strides=[2, 1]), "has strides [2, 1]; allowed is the same stride in both dimensions"),
    (
        first(strides=[2, 2], auto_pad="SAME_UPPER"),
        "SAME_UPPER, which is asymmetric; allowed is eq",
    ),
    (first(dilations=[2, 2]), "has dilations [2, 2]; allowed is dilations [1, 1]"),
    (first(pads=[0, 0, 1, 1]), "has pads [0, 0, 1, 1]; allowed is the same padding on all sides"),
    (Graph(2, 8, 8).conv("c", 1, 4, 3, group=2), "has group 2; allowed is group 1"),
    (Graph(3, 8, 8).conv("c", 2, 4, 3), "takes 2 channels; allowed is 3, which come in"),
    (Graph(2, 8, 8).conv("c", 2, 4, 2, auto_pad="SAME_LOWER"), "SAME_LOWER, which is asymmetric"),
    (Graph(2, 3, 3).conv("c", 2, 4, 5), "node 'n0' (Conv): kernel must be in 1..3, not 5"),
    (Graph(8).conv("c", 8, 4, 1), "node 'n0' (Conv) does not take maps"),
    (first().pool(7), "node 'n1' (MaxPool): pool must be in 1..6, not 7"),
    (
        first().pool(4, ceil_mode=1),
        "pools squares that are not whole; allowed is whole ones, as with",
    ),
    (
        first().pool(4, auto_pad="SAME_LOWER"),
        "pools squares that are not whole; allowed is whole ones",
    ),
    (first().pool(strides=[1, 1]), "has strides [1, 1]; allowed is strides [2, 2]"),
    (first().pool(pads=[1] * 4), "has pads [1, 1, 1, 1]; allowed is pads [0, 0, 0, 0]"),
    (first().add("MaxPool", kernel_shape=[2, 3], strides=[2, 3]), "kernel_shape [2, 3]"),
    (Graph(2, 8, 8).pool(), "comes before the first layer; allowed is Conv, Gemm or MatMul first"),
    (first().add("Relu").norm("b", 4), "does not follow a layer; allowed is BatchNormalization af"),
    (first().norm("b", 3), "has other channels; allowed is one number for each of 4"),
    (first().gemm("fc", 6, 3), "does not take a vector; allowed is Flatten or Reshape"),
    (Graph(6).gemm("fc", 5, 3), "takes 5 numbers; allowed is 6, which come in"),
    (Graph(6).gemm("fc", 3, 6, transB=0, transA=1), "has transA 1; allowed is transA 0"),
    (first().add("Flatten", axis=2), "has axis 2; allowed is axis 1"),
    (one_vector(), "has the shape [1, -1]; allowed is [batch, 144]"),
    (first().add("Softmax"), "is not over the classes; allowed is axis 1"),
    (Graph(6).gemm("a", 6, 3).add("Softmax").gemm("b", 3, 2), "(Softmax), which must be the last"),
    (first().add("GlobalAveragePool"), "a mean over maps is the output; allowed is one before"),
    (first().add("ReduceMean", axes=[1]), "is no mean over maps; allowed is axes 2 and 3"),
    (branch(), "'y1', which is not the output of the node before it; a network is one chain"),
    (two_outputs(), "the outputs are y0, y1; a network has one, that of its last node, y1"),
    (two_inputs(), "the graph must have one input, the images, not x, c.bias"),
    (bytes_in(), "must be of float32, float16, bfloat16, float64, not uint8"),
    (Graph("C", 8, 8).conv("c", 2, 4, 3), "the shape (N, C, 8, 8); allowed are (batch, channels"),
    (Graph(4).add("Identity"), "there is no layer; a network has at least one Conv"),
    (computed(), "computes its weights; allowed is constants"),
    (infinite(), "fc.weight has a number that is infinite or not a number"),
    (whole_weights(), "has weights of int64; allowed is float32, float16 or float64"),
    (first(kernels=[3, 3]), "the graph is not valid: Unrecognized attribute: kernels"),
]


@pytest.mark.parametrize(("graph", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_what_cannot_be_imported_is_refused(graph, sentence, tmp_path, called):
    model = graph.model() if isinstance(graph, Graph) else graph
    onnx.save(model, tmp_path / "bad.onnx")
    refused(called, tmp_path, "bad.onnx", sentence)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("m.pt", b"PK\x03\x04rest", "is a file of PyTorch, which is not read without PyTorch: exp"),
        ("m.onnx", b"\x80\x02pickle", "torch.onnx.export(module, images, 'model.onnx')"),
        ("m.h5", b"HDF", "must end in .onnx, or in .safetensors for a state dict"),
        ("m.onnx", b"no model", "m.onnx: this is no ONNX file"),
        ("m.onnx", b"", "m.onnx: this is no ONNX file, or its graph has no node"),
        ("m.safetensors", b"", "is a state dict and needs --network FILE"),
    ],
)
def test_a_file_of_another_kind_is_refused(name, content, sentence, tmp_path, called):
    (tmp_path / name).write_bytes(content)
    refused(called, tmp_path, name, sentence)


@pytest.fixture
def imported(tmp_path, called):
    """A network in a folder with its data, as a command has written it."""
    average().save(tmp_path / "m.onnx")
    found = onnx_file.read(tmp_path / "m.onnx")
    images = np.random.default_rng(3).integers(0, 256, (60, 2, 6, 6)).astype(np.uint8)
    x = (images / np.float32(255)).astype(np.float32)
    labels = floating.logits(found.network, found.parameters, x).argmax(axis=1)
    np.savez(tmp_path / "data.npz", images=images, labels=labels)
    status, out, err = called(
        ["import", "m.onnx", "-o", "made", "--data", "data.npz", "--json"], tmp_path
    )
    assert (status, err.count("error")) == (0, 0)
    return found, Images(x, labels), json.loads(out)


def test_the_files_are_those_that_cores_take(imported, tmp_path, called):
    found, images, document = imported
    network = networks.read(tmp_path / document["network"])
    assert network == found.network
    weights = load_file(tmp_path / document["weights"])
    assert weights.keys() == found.parameters.keys()
    assert all((weights[name] == value).all() for name, value in found.parameters.items())
    accuracy = figures.accuracies(network, weights, images, formats(document))
    assert document["accuracy"] == {"data": "data.npz", "images": 60, **accuracy}
    assert accuracy["float"] == 1
    assert min(accuracy["conv_engine"], accuracy["instantft"]) > 0.9
    assert [*document["configs"]] == ["conv_engine", "instantft", "zo_trainer"]
    for core, path in document["configs"].items():
        assert called(["ports", core, "--config", path], tmp_path)[0] == 0
        params = settings.read(registry.find(core), (), tmp_path / path)
        assert params["network"] == network
        if core != "zo_trainer":
            assert (params["values"], params["weights"]) == tuple(vars(formats(document)).values())
    # And a second time only with --force.
    refused_again = called(["import", "m.onnx", "-o", "made"], tmp_path)
    assert refused_again[0] == 2
    assert "network.toml exists already; --force overwrites it" in refused_again[2]
    assert called(["import", "m.onnx", "-o", "made", "--force"], tmp_path)[0] == 0


def formats(document):
    parts = [map(int, document[name][1:].split(".")) for name in ("values", "weights_format")]
    return figures.Formats(*(Fixed(whole + fraction, fraction) for whole, fraction in parts))


def test_integers_are_those_of_the_core(imported):
    """The accuracy in fixed point is that of the model of conv_engine."""
    found, images, document = imported
    form = formats(document)
    config = ConvEngineConfig(network=found.network, values=form.values, weights=form.weights)
    whole = {name: to_fixed(value, form.weights) for name, value in found.parameters.items()}
    model = ConvEngine(config, whole)
    classes = model.run(to_fixed(images.x, form.values)).argmax(axis=1)
    assert (classes == images.labels).mean() == document["accuracy"]["conv_engine"]
    assert model.saturations.count == 0
    assert flat(images.x).shape[1] == 72


def test_int8_is_that_of_zo_trainer(imported):
    """Without biases, and with the upper seven bits of dark images: by sums of the layers."""
    found, _, document = imported
    conv, dense = found.network.layers
    weights = [found.parameters[f"{layer.name}.weight"].astype(float) for layer in (conv, dense)]
    whole = [
        np.clip(np.rint(w / 2.0 ** (np.frexp(np.abs(w).max())[1] - 7)), -127, 127) for w in weights
    ]
    pixels = np.random.default_rng(8).integers(0, 4, (60, 2, 6, 6))

    def requantized(sums):
        shift = max(int(np.abs(sums).max()).bit_length() - 7, 0)
        return np.sign(sums) * np.minimum(np.floor(np.abs(sums) / 2.0**shift + 0.5), 127)

    labels = []
    for x in pixels // 2:
        sums = floating.patches(conv, x[None])[0] @ whole[0].T
        y = np.maximum(requantized(sums), 0).T.ravel()
        labels.append(int(requantized(whole[1] @ y).argmax()))
    assert len({*labels}) > 1
    images = Images((pixels / np.float32(255)).astype(np.float32), np.array(labels))
    accuracy = figures.accuracies(found.network, found.parameters, images, formats(document))
    assert accuracy["zo_trainer"] == 1
    assert accuracy["float"] < 1


def test_images_that_are_no_bytes_are_not_for_every_core(imported):
    found, images, document = imported
    signed = Images(images.x - np.float32(0.5), images.labels)
    accuracy = figures.accuracies(found.network, found.parameters, signed, formats(document))
    assert accuracy["instantft"] == accuracy["zo_trainer"] == figures.NO_BYTES
    assert isinstance(accuracy["conv_engine"], float)


def test_what_a_user_reads(imported, tmp_path, called):
    words = ["import", "m.onnx", "-o", "made", "--data", "data.npz", "--force"]
    status, out, err = called(words, tmp_path)
    assert status == 0
    names = ["network.toml", "weights.safetensors"]
    names += [f"{core}.toml" for core in ("conv_engine", "instantft", "zo_trainer")]
    assert out.splitlines()[-5:] == [f"made/{name}" for name in names]
    assert re.search(r"float +│ float32 +│ 100.00 %", out)
    assert "(GlobalAveragePool) is folded into the next layer" in out
    # The command that it ends with is one that works.
    [line] = [line for line in err.splitlines() if line.startswith("Next: seedbed ")]
    assert called(line.split()[2:], tmp_path)[0] == 0


def test_formats_have_room_for_twice_the_values(imported):
    """And weights have room for the largest one; neither has a bit more."""
    found, images, _ = imported
    for scale in (1, 10, 40):
        own = {name: scale * value for name, value in found.parameters.items()}
        form = figures.calibrated(found.network, own, images.x)
        steps = list(floating.forward(found.network, own, images.x))
        peak = max(1, *(np.abs(y).max() for _, _, y in steps))
        weight = max(np.abs(value).max() for value in own.values())
        assert (form.values.width, form.weights.width) == (18, 16)
        for largest, each in ((2 * peak, form.values), (weight, form.weights)):
            top = 2.0 ** (each.width - 1 - each.fraction)
            assert top / 2 <= largest < top


def test_sizes_are_those_of_the_cores():
    found = {(s.core, s.lanes): s for s in figures.sizes(LENET5, figures.Formats())}
    engine = found["conv_engine", 32]
    assert engine.cycles == Component(ConvEngineConfig()).interval == 4151
    assert (engine.multipliers, engine.block_rams, engine.rows) == (128, 96, 505)
    assert engine.fits == ("LFE5U-85F",)
    # Four other memories take what is left of a 45F.
    assert found["instantft", 8].block_rams == 104
    assert found["instantft", 8].fits == ("LFE5U-45F", "LFE5U-85F")
    bare = NetworkConfig((Layer(name="c", kind="conv", inputs=(1, 8, 8), outputs=2, kernel=3),))
    assert "must have neither ReLU nor pooling" in figures.sizes(bare, figures.Formats())[2].problem


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"images": np.zeros((4, 2, 6, 6))}, "it has no array 'labels'"),
        ({"images": np.zeros((4, 6, 6)), "labels": np.zeros(4, int)}, "network's shape (2, 6, 6)"),
        ({"images": np.zeros((4, 2, 6, 6)), "labels": np.zeros(3, int)}, "one for each of 4"),
        ({"images": np.zeros((1, 2, 6, 6)), "labels": np.full(1, 3)}, "must be in 0..2"),
        ({"images": np.full((1, 2, 6, 6), np.nan), "labels": np.zeros(1, int)}, "infinite or not"),
        ({"images": np.zeros((1, 2, 6, 6), int), "labels": np.zeros(1, int)}, "uint8 or floats"),
        ({"images": np.array([None]), "labels": np.zeros(1, int)}, "must be a file .npz"),
        (None, "must be a file .npz with images and labels, a folder with IDX files, or a folder"),
    ],
)
def test_bad_data_is_refused(arrays, sentence, tmp_path, called):
    average().save(tmp_path / "m.onnx")
    data = tmp_path / "data.npz"
    np.savez(data, **arrays) if arrays else data.write_bytes(b"none")
    status, out, err = called(["import", "m.onnx", "-o", "made", "--data", "data.npz"], tmp_path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: data.npz")
    assert sentence in err
    assert not (tmp_path / "made").exists()


def test_a_folder_of_idx_files(tmp_path, called):
    lenet().save(tmp_path / "m.onnx")
    folder = tmp_path / "mnist"
    folder.mkdir()
    rng = np.random.default_rng(6)
    for prefix, count in (("train", 12), ("t10k", 8)):
        for kind, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            header = np.array([0x800 + len(shape), *shape], ">u4").tobytes()
            content = rng.integers(0, 10, shape, np.uint8).tobytes()
            (folder / f"{prefix}-{kind}-ubyte").write_bytes(header + content)
    words = ["import", "m.onnx", "-o", "made", "--data", "mnist", "--json"]
    status, out, _ = called(words, tmp_path)
    assert status == 0
    assert json.loads(out)["accuracy"]["images"] == 8
    (folder / "t10k-labels-idx1-ubyte").unlink()
    status, _, err = called([*words, "--force"], tmp_path)
    assert (status, err) == (
        2, "error: mnist has neither t10k-labels-idx1-ubyte.gz nor t10k-labels-idx1-ubyte\n",
    )  # fmt: skip


def test_a_folder_with_one_pair_of_idx_files(tmp_path):
    network = NetworkConfig((Layer(name="fc", kind="dense", inputs=(1, 3, 4), outputs=2),))
    rng = np.random.default_rng(1)
    images, labels = rng.integers(0, 256, (5, 3, 4), np.uint8), np.array([0, 1, 1, 0, 1], np.uint8)
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        header = np.array([0x800 + array.ndim, *array.shape], ">u4").tobytes()
        (tmp_path / f"mine-{kind}-ubyte").write_bytes(header + array.tobytes())
    (found,) = read_sets(tmp_path, network)
    assert (found.pixels[:, 0] == images).all()
    assert (found.labels == labels).all()
    (tmp_path / "other-images-idx3-ubyte").write_bytes(b"")
    with pytest.raises(ValueError, match="has IDX files of mine, other; allowed is one pair, or t"):
        read_sets(tmp_path, network)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_folder_of_png_files(channels, tmp_path):
    """A folder a class, by name; alpha is left out."""
    layer = Layer(name="fc", kind="dense", inputs=(channels, 4, 5), outputs=2)
    network = NetworkConfig((layer,))
    pixels = np.random.default_rng(1).integers(0, 256, (3, 4, 5, channels), np.uint8)
    for k, (folder, image) in enumerate(zip(("a", "b", "b"), pixels, strict=True)):
        (tmp_path / folder).mkdir(exist_ok=True)
        alpha = np.full((4, 5, 1), 255, np.uint8)
        whole = np.concatenate([image, alpha], axis=-1) if channels == 3 else image[..., 0]
        Image.fromarray(whole).save(tmp_path / folder / f"{k}.png")
    (found,) = read_sets(tmp_path, network)
    assert (found.pixels == pixels.transpose(0, 3, 1, 2)).all()
    assert found.labels.tolist() == [0, 1, 1]
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "b" / "9.png")
    with pytest.raises(ValueError, match=r"b/9\.png has the shape \(1, 4, 4\), and the images bef"):
        read_sets(tmp_path, network)
    (tmp_path / "a" / "0.png").write_bytes(b"none")
    with pytest.raises(ValueError, match=r"a/0\.png is no PNG file that can be read: "):
        read_sets(tmp_path, network)


@pytest.mark.parametrize("graph", MODELS.values(), ids=MODELS)
def test_a_network_is_written_as_onnx(graph):
    """With the input and the output that it had, to be read as the same network."""
    model = graph().model()
    found = onnx_file._model(model)
    # Weights of MatMul are transposed.
    stored = load(state_dict.write(found))
    assert all((stored[name] == value).all() for name, value in found.parameters.items())
    again = onnx.load_from_string(onnx_output.write(found))
    for ends in ("input", "output"):
        assert getattr(again.graph, ends)[0].name == getattr(model.graph, ends)[0].name
    made = onnx_file._model(again)
    assert (made.network, made.origin) == (found.network, found.origin)
    assert made.parameters.keys() == found.parameters.keys()
    assert all((made.parameters[n] == v).all() for n, v in found.parameters.items())


def test_all_files_are_written_or_none(tmp_path, called, monkeypatch):
    """As on a full disk: the second file fails."""
    average().save(tmp_path / "m.onnx")
    written = Path.write_bytes

    def full(path, content):
        if "weights" in path.name:
            raise OSError(28, "No space left on device")
        return written(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    status, _, err = called(["import", "m.onnx", "-o", "made"], tmp_path)
    assert (status, err) == (2, "error: made/weights.safetensors: No space left on device\n")
    assert not list((tmp_path / "made").iterdir())


def test_a_state_dict(imported, tmp_path, called):
    found, _, document = imported
    own = {n: v.astype(np.float64) for n, v in found.parameters.items()}
    own["conv1.weight"] = own["conv1.weight"].reshape(4, 2, 3, 3)
    words = ["import", "s.safetensors", "--network", document["network"], "-o", "again"]
    save_file(own, tmp_path / "s.safetensors")
    status, out, _ = called(words, tmp_path)
    assert status == 0
    assert "weights of F64 are converted to F32" in out
    first, second = (tmp_path / name for name in ("made", "again"))
    assert (second / "network.toml").read_bytes() == (first / "network.toml").read_bytes()
    both = [load_file(each / "weights.safetensors") for each in (first, second)]
    assert both[0].keys() == both[1].keys()
    assert all((both[1][name] == value).all() for name, value in both[0].items())


NORMALIZED = """\
input = [2, 5, 4]

[[layer]]
name = "0"
kind = "conv"
outputs = 4
kernel = 3
bias = false
normalization = "1"
epsilon = 1e-3

[[layer]]
name = "4"
kind = "dense"
outputs = 3
relu = false
normalization = "5"
"""


def normalized_state(tmp_path):
    """Write a module's state dict and its network; return the tensors."""
    rng = np.random.default_rng(5)
    shapes = {
        "0.weight": (4, 2, 3, 3), "4.weight": (3, 24), "4.bias": (3,),
        **{f"1.{part}": (4,) for part in ("weight", "bias", "running_mean")},
        "5.running_mean": (3,),
    }  # fmt: skip
    tensors = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    tensors |= {"1.running_var": rng.random(4), "5.running_var": rng.random(3)}
    tensors |= {f"{k}.num_batches_tracked": np.array(9) for k in (1, 5)}
    (tmp_path / "own.toml").write_text(NORMALIZED)
    save_file(tensors, tmp_path / "s.safetensors")
    return tensors


def test_batch_normalization_of_a_state_dict_is_folded(tmp_path, called):
    """With and without scale and bias of its own; of a layer without and with a bias.

    Tolerance: weights are float32.
    """
    t = normalized_state(tmp_path)
    status, out, err = called(["import", "s.safetensors", "--network", "own.toml"], tmp_path)
    assert (status, err.count("error")) == (0, 0)
    assert "1 is folded into 0" in out
    _, model = imports.read(tmp_path / "build/import")
    assert all(layer.bias for layer in model.network.layers)
    x = np.random.default_rng(6).standard_normal((7, 2, 5, 4))
    assert x.shape[1:] == model.network.layers[0].inputs
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    y = np.einsum("ncyxij,ocij->noyx", windows, t["0.weight"])
    y = y - t["1.running_mean"][:, None, None]
    y = y / np.sqrt(t["1.running_var"] + 1e-3)[:, None, None]
    y = np.maximum(y * t["1.weight"][:, None, None] + t["1.bias"][:, None, None], 0)
    y = y.reshape(7, -1) @ t["4.weight"].T + t["4.bias"]
    y = (y - t["5.running_mean"]) / np.sqrt(t["5.running_var"] + 1e-5)
    z = floating.logits(model.network, model.parameters, x.astype(np.float32))
    np.testing.assert_allclose(z, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('normalization = "5"', ""), 'give the layer before it normalization = "5"'),
        (('"5"', '"6"'), "has no tensor '6.running_mean', which own.toml asks for"),
        (('"5"', "5"), "normalization must be the name of a module, not 5"),
        (('"5"', '"1"'), "two layers have the normalization '1'; it is of one"),
        (("1e-3", "-1"), "epsilon must be a number, 0 or more, not -1"),
        (('normalization = "1"', ""), "0: a layer has no 'epsilon'"),
    ],
)
def test_a_batch_normalization_that_does_not_fit_is_refused(change, sentence, tmp_path, called):
    normalized_state(tmp_path)
    (tmp_path / "own.toml").write_text(NORMALIZED.replace(*change))
    status, out, err = called(["import", "s.safetensors", "--network", "own.toml"], tmp_path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"fc.bias": None}, "has no tensor 'fc.bias', which made/network.toml asks for"),
        ({"bn.weight": np.ones(4)}, "has the tensor 'bn.weight', which no layer of made/network"),
        ({"conv1.bias": np.ones(5)}, "conv1.bias must have the shape (4,), not (5,)"),
        ({"conv1.bias": np.ones(4, int)}, "conv1.bias must be of F32, F16, BF16, F64, not I64"),
        ({"conv1.bias": np.full(4, np.nan)}, "conv1.bias has a number that is infinite or not"),
    ],
)
def test_a_state_dict_that_does_not_fit_is_refused(change, sentence, imported, tmp_path, called):
    found, _, document = imported
    tensors = {n: v for n, v in (found.parameters | change).items() if v is not None}
    save_file(tensors, tmp_path / "s.safetensors")
    words = ["import", "s.safetensors", "--network", document["network"], "-o", "again"]
    status, out, err = called(words, tmp_path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "s.safetensors" in err
    assert sentence in err
    assert not (tmp_path / "again").exists()


def test_the_network_of_an_onnx_file_is_its_own(imported, tmp_path, called):
    _, _, document = imported
    words = ["import", "m.onnx", "--network", document["network"], "-o", "again"]
    assert "--network goes with a state dict" in called(words, tmp_path)[2]


def test_the_table_on_the_page_is_that_of_the_code():
    text = (ROOT / "docs/import.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    expected = [(name, o.allowed, o.becomes) for name, o in OPERATORS.items()]
    assert rows == expected
    for name in FOLDED:
        assert f"`{name}`" in text


@pytest.mark.parametrize(
    ("name", "data"), [("strided", "digits"), ("colours", "coloured"), ("mlp", "digits")]
)
def test_the_trained_examples(name, data, tmp_path, called, reported):
    """Networks that PyTorch has trained and exported: the accuracy is that of ONNX's evaluator."""
    folder = ROOT / "examples/import"
    words = ["import", str(folder / f"{name}.onnx"), "--data", str(folder / f"{data}.npz")]
    status, out, _ = called([*words, "-o", "made", "--json"], tmp_path)
    assert status == 0
    document = json.loads(out)
    with np.load(folder / f"{data}.npz") as file:
        x, labels = file["images"] / np.float32(255), file["labels"]
    model = onnx.load(folder / f"{name}.onnx")
    given = model.graph.input[0].name
    # The export has a batch of one.
    run = ReferenceEvaluator(model).run
    expected = np.concatenate([run(None, {given: image[None]})[0] for image in x])
    accuracy = document["accuracy"]
    assert accuracy["float"] == (expected.argmax(axis=1) == labels).mean()
    assert min(accuracy["conv_engine"], accuracy["instantft"]) > 0.9
    cores = [core for core in accuracy if core not in ("data", "images")]
    shares = {f"accuracy_{core}": round(100 * accuracy[core], 6) for core in cores}
    cycles = document["cores"][0]["cycles"]
    command = f"seedbed import examples/import/{name}.onnx --data examples/import/{data}.npz"
    reported(
        "import", f"{name}, {data}", command, held_images=len(x), sample_cycles=cycles, **shares
    )
