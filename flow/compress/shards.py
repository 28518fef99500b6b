"""Sharded checkpoints: several safetensors files and an index, read like one file."""

import json
import re
from bisect import bisect_right
from contextlib import ExitStack
from pathlib import Path

from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError, Entry, require_writable

__all__ = ["Shards", "open_checkpoint", "require_target"]

#: How the name of an index ends, and that of a file of tensors.
INDEX, TENSORS = ".safetensors.index.json", ".safetensors"
#: A file's name: no path, and nothing that a file system refuses to encode.
_NAME = re.compile(r"(?!\.\.?$)[^/\0\ud800-\udfff]+")


def open_checkpoint(path: Path) -> Checkpoint:
    """Return the open checkpoint of a safetensors file, of an index, or of a folder with either.

    Raises :class:`CheckpointError` that names the file or the shard, and ``OSError``.
    """
    path = _in_folder(path) if path.is_dir() else path
    return Shards(path) if path.suffix == ".json" else Checkpoint(path)


def require_target(source: Path, target: Path) -> None:
    """Raise an exception if ``target`` cannot be written, or is a file of ``source``.

    It is called before hours of work.
    """
    require_writable(target)
    path = _in_folder(source) if source.is_dir() else source
    shards = set(_shards(path).values()) if path.suffix == ".json" else set()
    for read in (path, *sorted(shards)):
        if target.exists() and read.exists() and target.samefile(read):
            # A shard's name says more than that of the folder.
            which = "the input itself" if read == source else f"{read.name} of the input"
            raise ValueError(f"{target} is {which}; the output must be another file")


def _in_folder(folder: Path) -> Path:
    """Return the only index in a folder, or its only file of tensors if there is no index."""
    for end in (INDEX, TENSORS):
        found = sorted(path for path in folder.iterdir() if path.name.endswith(end))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(path.name for path in found[:4])
            raise CheckpointError(
                f"{folder} has {len(found)} files *{end}, of which one must be given: {names}"
                + (" and more" if len(found) > 4 else "")
            )
    raise CheckpointError(f"{folder} has neither an index *{INDEX} nor a file *{TENSORS}")


def _shards(index: Path) -> dict[str, Path]:
    """Return the file of each tensor that an index lists."""
    try:
        document = json.loads(index.read_bytes())
    except (ValueError, RecursionError) as problem:
        raise CheckpointError(f"{index} is not JSON") from problem
    listed = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(listed, dict) or not listed:
        raise CheckpointError(
            f"{index} has no weight_map, an object with the file of each tensor by its name"
        )
    for tensor, name in listed.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise CheckpointError(
                f"{index}: tensor {tensor!r} is in {name!r}, which is not the name of a file in "
                "the index's folder"
            )
    return {tensor: index.with_name(name) for tensor, name in listed.items()}


class Shards(Checkpoint):
    """An open sharded checkpoint, which is only read.

    The offset of a tensor is that in all shards one after another, in the order of their names.
    Metadata on which shards differ is left out.

    Members
    -------
    path, tensors, metadata
        The index's name; an :class:`Entry` of each tensor of all shards by its name; strings by
        their keys.

    Raises :class:`CheckpointError` for an index or a shard that is invalid, for a shard that is
    missing, for a tensor of the index that is not in its shard, and for a tensor of two shards.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensors: dict[str, Entry] = {}
        self.metadata: dict[str, str] = {}
        self._files: dict[str, Path] = {}
        self._shards: list[Checkpoint] = []
        self._starts: list[int] = []
        listed = _shards(path)
        with ExitStack() as opened:
            found: dict[str, set[str]] = {}
            start = 0
            for file in sorted(set(listed.values())):
                if not file.exists():
                    raise CheckpointError(f"{file} is missing, but {path} lists tensors of it")
                shard = opened.enter_context(Checkpoint(file))
                self._add(shard, start)
                start += shard.stamp()[0]
                for key, text in shard.metadata.items():
                    found.setdefault(key, set()).add(text)
            for name, file in listed.items():
                if self._files.get(name) != file:
                    raise CheckpointError(f"{file} has no tensor {name!r}, but {path} lists it")
            self.metadata = {key: texts.pop() for key, texts in found.items() if len(texts) == 1}
            self._opened = opened.pop_all()

    def _add(self, shard: Checkpoint, start: int) -> None:
        for name, entry in shard.tensors.items():
            if name in self._files:
                raise CheckpointError(
                    f"{shard.path} has the tensor {name!r}, which is in {self._files[name]}, too"
                )
            self._files[name] = shard.path
            self.tensors[name] = Entry(entry.dtype, entry.shape, start + entry.offset)
        self._shards.append(shard)
        self._starts.append(start)

    def file_of(self, name: str) -> Path:
        """Return the shard of a tensor, or the index if no shard has it."""
        return self._files.get(name, self.path)

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes of one shard, from ``offset`` in all shards."""
        k = bisect_right(self._starts, offset) - 1
        return self._shards[k].read(offset - self._starts[k], size)

    def stamp(self) -> tuple[int, ...]:
        """Return sizes and modification times of the shards, to detect concurrent writes."""
        return tuple(number for shard in self._shards for number in shard.stamp())

    def close(self) -> None:
        self._opened.close()
