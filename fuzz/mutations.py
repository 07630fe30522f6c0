"""Bytes, texts, archives and trees of values, each with something wrong."""

from __future__ import annotations

import copy
import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
LARGEST = 1 << 18  # bytes that a mutation may add
NUMBERS = [b"0", b"-1", b"1e400", b"nan", b"9" * 20, b"9" * 5000, b'"x"', b"null", b"[]", b"1e-320"]
NASTY: list[Any] = [
    None, True, 0, -1, 1, 2, 3000, 10**5, 10**8, 10**12, 10**30, 0.5, -0.0, 1e308, float("inf"),
    float("nan"), "", "x", "os.system", "switching", "polynomial", "truth", "batch", "../x",
    "é" * 99, [], [0], [[]], [None], ["x"], [1e400], {}, {"x": 1}, {"kind": "lds"},
    list(range(500)), "@digits@", "@deep@",
]  # fmt: skip


def mutated(content: bytes, rng: Rng) -> bytes:
    """The same bytes with one to four things wrong."""
    for _ in range(int(rng.integers(1, 5))):
        content = BYTES[int(rng.integers(len(BYTES)))](content, rng)
    return content


def _at(content: bytes, rng: Rng) -> tuple[int, int]:
    a = int(rng.integers(0, len(content) + 1))
    return a, min(len(content), a + int(2 ** rng.uniform(0, 8)))


def _flip(content: bytes, rng: Rng) -> bytes:
    if not content:
        return b"\0"
    out, i = bytearray(content), int(rng.integers(len(content)))
    out[i] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _overwrite(content: bytes, rng: Rng) -> bytes:
    a, _ = _at(content, rng)
    size = int(rng.choice([1, 2, 4, 8]))
    new = [b"\0", b"\xff", b"\x7f", b"\x80"][int(rng.integers(4))] * size
    if rng.random() < 0.3:
        new = rng.bytes(size)
    return content[:a] + new + content[a + size :]


def _cut(content: bytes, rng: Rng) -> bytes:
    return content[: _at(content, rng)[0]]


def _remove(content: bytes, rng: Rng) -> bytes:
    a, b = _at(content, rng)
    return content[:a] + content[b:]


def _repeat(content: bytes, rng: Rng) -> bytes:
    a, b = _at(content, rng)
    times = int(min(2 ** rng.uniform(0, 10), LARGEST / max(1, b - a)))
    return content[:b] + content[a:b] * times + content[b:]


def _insert(content: bytes, rng: Rng) -> bytes:
    a, b = _at(content, rng)
    return content[:a] + rng.bytes(b - a) + content[a:]


def _number(content: bytes, rng: Rng) -> bytes:
    """A number in the text, if it is one, becomes another or something else."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?(e[+-]?\d+)?", content[: 1 << 16]))
    if not found:
        return _flip(content, rng)
    a, b = found[int(rng.integers(len(found)))].span()
    return content[:a] + NUMBERS[int(rng.integers(len(NUMBERS)))] + content[b:]


BYTES: list[Callable[[bytes, Rng], bytes]] = [
    _flip, _flip, _overwrite, _overwrite, _cut, _remove, _repeat, _insert, _number, _number,
]  # fmt: skip


def rezipped(content: bytes, rng: Rng) -> bytes:
    """A zip archive that is sound itself, with something wrong inside; or wrong in its tables."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        names = old.namelist()
        chosen = names[int(rng.integers(len(names)))]
        for name in names:
            inside = old.read(name)
            if name == chosen:
                fate = rng.random()
                if fate < 0.1:
                    continue
                if fate < 0.2:
                    name = ["x.npy", "../x.npy", "observations", "é.npy"][int(rng.integers(4))]
                if fate < 0.22:  # a bomb: many zeros, few bytes
                    inside += b"\0" * (4 << 20)
                elif fate > 0.3:
                    inside = mutated(inside, rng)
            packed = rng.random() < 0.3 or len(inside) > LARGEST
            how = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            new.writestr(zipfile.ZipInfo(name), inside, compress_type=how)
    out = bytearray(made.getvalue())
    if rng.random() < 0.1:  # a way to compress that nobody knows, or a password
        at = out.rfind(b"PK\x01\x02")
        out[at + 10] = 99 if rng.random() < 0.5 else out[at + 10]
        out[at + 8] |= int(rng.integers(2))
    return bytes(out)


def changed_tree(tree: Any, rng: Rng) -> Any:
    """Nested dicts and lists with one to three values replaced, removed or added."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(tree))
        where, key = places[int(rng.integers(len(places)))]
        fate = rng.random()
        if fate < 0.8:
            where[key] = copy.deepcopy(NASTY[int(rng.integers(len(NASTY)))])
        elif fate < 0.9:
            del where[key]
        elif isinstance(where, dict):
            where["more"] = 1
        else:
            where.append(where[key])
    return tree


def _places(tree: Any) -> Any:
    """Every (container, key) in a tree. Of a long list, a few: all of its entries are alike."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree[:4])
    for key, value in list(items):
        yield tree, key
        if isinstance(value, dict | list) and value:
            yield from _places(value)


def spelled_out(text: str) -> str:
    """Values that Python does not write as JSON, in the place of their names."""
    return text.replace('"@digits@"', "9" * 5000).replace('"@deep@"', "[" * 200_000)
