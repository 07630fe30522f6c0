"""Whatever a library makes of a damaged file, a user reads one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dynacl.data.errors import InputError
from dynacl.data.formats.format import Format

LONGEST = 200  # characters of a library's reason: it may quote what the file has for a name


@contextmanager
def refused_in_one_sentence(path: Path, format: Format) -> Iterator[None]:
    """Any failure inside is an InputError with the path.

    Libraries fail on damaged files with errors of every class, so every class is caught.
    """
    try:
        yield
    except InputError:
        raise
    except ModuleNotFoundError as error:
        raise InputError(f"{path}: {error.name} is needed to read it, and is not installed: "
                         f"pip install 'dynacl[{format.extra}]'") from error  # fmt: skip
    except Exception as error:
        # Some errors quote all that they were given, beside a sentence: where in a text it was.
        quoted = len(error.args) > 1 and str(error) == str(error.args)
        reason = str(error.args[0] if quoted else error).strip().split("\n")[0].strip("'\"")
        reason = reason or type(error).__name__
        # numpy takes bytes that it does not know for a pickle.
        if any(sign in reason for sign in ("pickle", "Object arrays", "Python objects")):
            reason = "damaged, or holds Python objects, which are never loaded"
        raise InputError(f"{path}: cannot be read: {reason[:LONGEST]}") from error
