"""Named tensors and texts in one safetensors file, sealed by a checksum over every byte of it.

A file that differs in one bit from what was written is refused. Nothing that is read can run code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from dynacl.data import InputError

_OPEN = "0" * 64  # stands where the checksum goes, while it is computed
_SEAL = re.compile(rb'"seal":"([0-9a-f]{64})"')  # within a text, JSON has a backslash before a "
_LENGTH = 8  # bytes that tell how long the header is


def sealed(tensors: Mapping[str, Tensor], texts: Mapping[str, str]) -> bytes:
    """The content of a file with these tensors and texts."""
    content = save(dict(tensors), metadata=dict(texts) | {"seal": _OPEN})
    mark, head = f'"seal":"{_OPEN}"'.encode(), content[: _header_ends(content)]
    assert head.count(mark) == 1
    at = head.index(mark) + len(b'"seal":"')
    digest = hashlib.sha256(content).hexdigest().encode()
    return content[:at] + digest + content[at + len(digest) :]


def unsealed(path: Path, content: bytes | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and texts of a file, checked; `seal` is among the texts where it has one.

    content: what the file holds, where that was read already.
    """
    if content is None:
        content = read_bytes(path)
    texts = texts_of(path, content)
    if "seal" in texts:
        head = content[: _header_ends(content)]
        seals = list(_SEAL.finditer(head))
        if len(seals) != 1:
            raise damaged(path, "its checksum cannot be read")
        a, b = seals[0].span(1)
        found = hashlib.sha256(content[:a])
        found.update(_OPEN.encode())
        found.update(memoryview(content)[b:])
        if found.hexdigest().encode() != seals[0][1]:
            raise damaged(path, "its checksum is that of another content")
    try:
        return load(content), texts
    # Besides its own errors, the library lets those of names of types it does not know through.
    except (SafetensorError, KeyError, ValueError, RuntimeError, OverflowError) as error:
        raise damaged(path, f"not a safetensors file: {error}") from error


def texts_of(path: Path, content: bytes | None = None) -> dict[str, str]:
    """The texts of a file, unchecked: only its header is read."""
    if content is None:
        with path.open("rb") as file:
            start = file.read(_LENGTH)
            size = path.stat().st_size
            content = start + file.read(min(int.from_bytes(start, "little"), size))
    try:
        header = json.loads(content[_LENGTH : _header_ends(content)])
        texts = header.get("__metadata__", {})
        if all(isinstance(text, str) for text in texts.values()):
            return dict(texts)
    # A RecursionError: lists within lists within lists …
    except (ValueError, AttributeError, RecursionError) as error:
        raise damaged(path, "not a safetensors file") from error
    raise damaged(path, "not a safetensors file")


def read_bytes(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return path.read_bytes()


def damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path}: is damaged, or was not written by dynacl: {why}")


def _header_ends(content: bytes) -> int:
    return _LENGTH + int.from_bytes(content[:_LENGTH], "little")
