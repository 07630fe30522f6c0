"""What all commands have in common: help that appears at once, exit codes."""

import os
import shlex
import subprocess
import sys

import pytest

from dynacl.cli import COMMANDS, main, parser
from dynacl.data import InputError
from dynacl.training import TrainingError

SLOW = {"torch", "sklearn", "matplotlib", "scipy.stats"}  # a second to import, or several
HELP = """
import sys
from dynacl.cli import main
try:
    main(sys.argv[1:])
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("name", [None, *COMMANDS], ids=str)
def test_help_imports_nothing_slow(name):
    words = ["--help"] if name is None else [name, "--help"]
    done = subprocess.run([sys.executable, "-c", HELP, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {' '.join(['dynacl', *words[:-1]])} [-h]")
    modules = set(done.stderr.split())
    assert "dynacl.cli" in modules
    assert not modules & SLOW


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps_with_an_example_that_can_be_parsed(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    _, example = capsys.readouterr().out.split("example:\n")
    assert example.startswith(f"  dynacl {name}")
    for line in example.splitlines():
        words = shlex.split(line)
        assert words.pop(0) == "dynacl"
        assert parser().parse_args(words).name == name


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    for name, about in COMMANDS.items():
        assert name in printed
        assert about in printed


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("x: got 1; wanted 2"), 2, "dynacl embed: error: x: got 1; wanted 2\n"),
        (FileNotFoundError("no such file"), 2, "dynacl embed: error: no such file\n"),
        (TrainingError("the loss is NaN"), 1, "dynacl embed: the loss is NaN\n"),
        (KeyboardInterrupt(), 130, "dynacl embed: interrupted\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_exit_code_and_sentence_of_an_error(error, code, said, monkeypatch, capsys):
    _let_embed_raise(error, monkeypatch)
    assert main(["embed", "run", "data.npz", "--out", "z.npz"]) == code
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", said)


def test_mistake_of_ours_is_not_taken_for_a_mistake_of_the_user(monkeypatch):
    _let_embed_raise(RuntimeError("a bug"), monkeypatch)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["embed", "run", "data.npz", "--out", "z.npz"])


def _let_embed_raise(error, monkeypatch):
    def run(_):
        raise error

    monkeypatch.setattr("dynacl.cli.embed.run", run)


def test_reader_that_stops_reading_is_no_error(world):
    command = ["forecast", world / "switching", world / "slds.npz", "--steps", "2000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dynacl", *map(str, command)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    said = process.stderr.read().decode()
    assert process.wait(timeout=120) == 0, said
    assert "Traceback" not in said
