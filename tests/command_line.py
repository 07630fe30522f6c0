"""The command line, called in this process: saves the seconds that a new one needs to import."""

import contextlib
import io

from dynacl import DCL
from dynacl.cli import main


def dynacl(*arguments):
    """What a command prints; it must succeed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main([*map(str, arguments)]) == 0
    return printed.getvalue()


def refusal(*arguments):
    """The sentence with which a command refuses what it got; it must do so as it should."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main([*map(str, arguments)]) == 2
    assert out.getvalue() == ""
    (sentence,) = err.getvalue().splitlines()
    assert sentence.startswith(f"dynacl {arguments[0]}: error: ")
    return sentence


def quick_fit(folder, out, *flags, data="slds.npz"):
    """A model of three training steps, for whatever does not depend on how good it is."""
    dynacl("fit", folder / data, "--components", 2, "--max-iter", 3, "--batch-size", 16, "--quiet",
           "--device", "cpu", "--out", folder / out, "--force", *flags)  # fmt: skip
    return DCL.load(folder / out, device="cpu")
