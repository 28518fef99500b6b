"""Trains three networks in PyTorch on scikit-learn's digits, and exports them as ONNX files.

It has written the files in this folder. It needs the packages torch, onnxscript and scikit-learn.
"""

from pathlib import Path

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from torch import nn

FOLDER = Path(__file__).parent


class Strided(nn.Module):
    """Convolutions with a stride and batch normalization, and a mean over the maps."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 12, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv = nn.Conv2d(12, 24, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(24)
        self.down = nn.Conv2d(24, 32, 1, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.stem(x)))
        x = torch.relu(self.bn2(self.conv(x)))
        x = torch.relu(self.down(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Colours(nn.Module):
    """3 x 3 convolutions of three channels, max-pooling and dropout."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(144, 10))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class Mlp(nn.Module):
    """Three dense layers without biases."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 32, bias=False), nn.ReLU(),
            nn.Linear(32, 24, bias=False), nn.ReLU(), nn.Linear(24, 10, bias=False),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x)


def main() -> None:
    """Write the models, and the test images as bytes."""
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(labels))
    images, labels = images[order].reshape(-1, 1, 8, 8) * (255 / 16), labels[order]
    tints = rng.uniform(0.3, 1, (len(labels), 3, 1, 1))
    data = {"digits": np.rint(images), "coloured": np.rint(images * tints)}
    test = 400
    for name, x in data.items():
        found = {"images": x[:test].astype(np.uint8), "labels": labels[:test]}
        np.savez_compressed(FOLDER / f"{name}.npz", **found)
    for module, name in ((Strided(), "digits"), (Colours(), "coloured"), (Mlp(), "digits")):
        x = torch.tensor(data[name][test:] / 255, dtype=torch.float32)
        y = torch.tensor(labels[test:])
        optimizer = torch.optim.Adam(module.parameters(), 3e-3)
        for _ in range(60):
            for part in torch.randperm(len(y)).split(64):
                optimizer.zero_grad()
                nn.functional.cross_entropy(module(x[part]), y[part]).backward()
                optimizer.step()
        path = FOLDER / f"{type(module).__name__.lower()}.onnx"
        torch.onnx.export(module.eval(), (x[:1],), path, dynamo=True, external_data=False)
        clean(path)


def clean(path: Path) -> None:
    """Remove the stack traces that the export keeps, with paths of this machine."""
    model = onnx.load(path)
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info):
        del part.metadata_props[:]
    onnx.save(model, path)


if __name__ == "__main__":
    main()
