"""How the library and its commands speak: of what was meant, where it is heard, and completed."""

import ast
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

import dynacl
from dynacl import DCL, progress
from dynacl.cli import COMMANDS, main
from dynacl.cli.completion import SHELLS, bash

SOURCE = Path(dynacl.__file__).parent
# What a command prints, and what a process of its own says to the one that started it.
SPEAKS = {"demo.py", "experiments/reproduce.py", "data/formats/apart.py"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "x", "--outt", "y"), "fit: error: there is no option --outt; did you mean --out"),
        (("fit", "x.npz", "--out", "y", "--compnents=3"), "; did you mean --components?"),
        (("evaluate", "r", "x.npz", "-json"), "there is no option -json; did you mean --json?"),
        (("embed", "r", "x.npz", "--out", "z.npz", "--bogus"), "there is no option --bogus\n"),
        (("fit", "x.npz", "--out", "y", "--dynamics", "swiching"), "; did you mean switching?"),
        (("fit", "x.npz", "--out", "y", "--set", "horizn=2"), "; did you mean horizon?"),
        (("embed", "r", "x.npz", "z.npz", "--out", "z.npz"), "embed: error: too many words: z.npz"),
        (("evalute", "r", "x.npz"), "; did you mean evaluate?"),
        (("--vesion",), "dynacl: error: there is no option --vesion; did you mean --version?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_mistyped_word_names_the_right_one_below_the_usage_of_its_command(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert said in printed.splitlines(keepends=True)[-1]
    command = f" {words[0]}" if words[0] in COMMANDS else ""
    assert printed.startswith(f"usage: dynacl{command} [-h]")


def test_shortened_options_negative_numbers_and_words_after_dashes_are_no_mistakes(capsys):
    from dynacl.cli import parser

    parse = parser().parse_args
    assert parse(["simulate", "lorenz", "--start", "-1", "0", "1", "--out", "x"]).start[0] == -1
    assert parse(["embed", "r", "--out", "z", "--", "--odd.npz"]).data == "--odd.npz"
    assert parse(["fit", "x", "--out", "y", "--learning-r", "0.1"]).learning_rate == 0.1


def test_library_prints_nothing_but_where_it_is_a_command_that_speaks():
    printing = set()
    for path in SOURCE.rglob("*.py"):
        calls = (n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
        if any(isinstance(called, ast.Name) and called.id == "print" for called in calls):
            printing.add(path.relative_to(SOURCE).as_posix())
    assert {name for name in printing if not name.startswith("cli/")} == SPEAKS


def test_lines_go_to_stderr_or_to_the_handler_of_whoever_asks(capsys, monkeypatch):
    progress.say("before")
    heard, log = [], logging.getLogger("dynacl")
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    monkeypatch.setattr(log, "handlers", [handler])
    monkeypatch.setattr(log, "level", logging.INFO)
    log.manager._clear_cache()
    progress.say("after")
    assert (capsys.readouterr().err, heard) == ("before\n", ["after"])


def test_bars_move_on_terminals_and_in_notebooks_only(monkeypatch):
    shell = ModuleType("IPython")
    monkeypatch.setitem(sys.modules, "IPython", shell)
    for terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda on=terminal: on, raising=False)
        for running in (None, SimpleNamespace(), SimpleNamespace(kernel=1)):
            shell.get_ipython = lambda it=running: it
            assert progress.shows_bars() == (terminal or hasattr(running, "kernel"))


def test_tensors_that_require_gradients_are_data_like_others():
    y = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    plain, asking = (
        DCL(2, max_iter=2, batch_size=8, random_state=0).fit(x)
        for x in (y.clone(), y.clone().requires_grad_())
    )
    asked = asking.transform(y.clone().requires_grad_())
    np.testing.assert_array_equal(np.asarray(plain.transform(y)), np.asarray(asked))


COMPLETE = """
{script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _dynacl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("dynacl ''", set(COMMANDS)),
        ("dynacl ev", {"evaluate"}),
        ("dynacl fit x.npz --res", {"--resume"}),
        ("dynacl fit x.npz --dynamics sw", {"switching"}),
        ("dynacl embed run data.npz --decode ''", {"sequence", "step"}),
        ("dynacl simulate lo", {"lorenz", "lorenz-small-dt"}),
        ("dynacl completion ''", set(SHELLS)),
        ("dynacl reproduce ta", {"table1"}),
        ("dynacl fit ''", {""}),  # nothing of ours: files
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bash_completes_commands_options_and_values(words, completed):
    asked = COMPLETE.format(script=bash(), words=words)
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert (set(done.stdout.split()) or {""}) == completed
    assert done.stderr == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_of_every_command_is_in_each_script(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    mark = "-l " if shell == "fish" else "--"
    for option in ("control-key", "time-lags", "post-hoc", "min-duration", "scheduler"):
        assert f"{mark}{option}" in script
    if (there := shutil.which(shell)) is not None:
        subprocess.run([there, "-n"], input=script, text=True, check=True)


def test_read_only_place_for_results_is_refused_in_a_sentence(world, tmp_path, capsys):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    try:
        assert main(["fit", str(world / "lds.npz"), "--out", str(tmp_path / "run")]) == 2
    finally:
        tmp_path.chmod(0o700)
    assert len(capsys.readouterr().err.splitlines()) == 1
