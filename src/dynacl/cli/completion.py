"""`dynacl completion`: what a shell needs to complete commands, options and their values.

The script is written once and knows all words, so completing a word never starts Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from shlex import quote
from typing import NamedTuple

EXAMPLE = "dynacl completion bash"

BASH = """\
_dynacl() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "${{COMP_WORDS[1]}} $before" in
{values}
        *) case "${{COMP_WORDS[1]}}" in
{options}
        esac ;;
        esac
        case "$word" in
        -*) ;;
        *) case "$words" in -*) words="" ;; esac ;;  # a file
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _dynacl dynacl
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


class Command(NamedTuple):
    """What can follow the name of a command."""

    name: str
    about: str
    options: list[argparse.Action]
    words: list[str]  # in place of a file, such as the systems of `simulate`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=list(SHELLS), help="the shell; its start-up file is where "
                        "the script goes: dynacl completion bash >> ~/.bashrc")  # fmt: skip


def run(options: argparse.Namespace) -> None:
    print(SHELLS[options.shell](), end="")


def commands() -> Iterator[Command]:
    from dynacl.cli import COMMANDS, parser, reproduce

    listed = {"reproduce": reproduce.names}  # in no parser, as they take a second to import
    (chosen,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, one in chosen.choices.items():
        options = [a for a in one._actions if a.option_strings]
        words = [str(w) for a in one._actions if not a.option_strings for w in a.choices or ()]
        words += listed[name]() if name in listed else []
        yield Command(name, COMMANDS[name], options, words)


def bash() -> str:
    found = list(commands())
    values = [
        f"        {'|'.join(quote(f'{c.name} {flag}') for flag in a.option_strings)}) "
        f'words="{" ".join(map(str, a.choices))}" ;;'
        for c in found
        for a in c.options
        if a.choices
    ]
    values += [
        f'        {quote(f"{c.name} {c.name}")}) words="{" ".join(c.words)}" ;;'
        for c in found
        if c.words
    ]
    options = [
        f'        {c.name}) words="{" ".join(f for a in c.options for f in a.option_strings)}" ;;'
        for c in found
    ]
    return BASH.format(
        commands=" ".join(c.name for c in found),
        values="\n".join(values),
        options="\n".join(options),
    )


def zsh() -> str:
    """zsh reads what bash does."""
    return ZSH + bash()


def fish() -> str:
    lines = []
    for c in commands():
        of = f"complete -c dynacl -n '__fish_seen_subcommand_from {c.name}'"
        lines.append(f"complete -c dynacl -n __fish_use_subcommand -f -a {c.name} -d "
                     f"{quote(c.about)}")  # fmt: skip
        lines += [f"{of} -a {quote(' '.join(c.words))}"] if c.words else []
        for a in c.options:
            flags = " ".join(
                f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in a.option_strings
            )
            values = f" -x -a {quote(' '.join(map(str, a.choices)))}" if a.choices else ""
            needs = " -r" if a.nargs != 0 and not a.choices else ""
            # fish ends a quotation at a quotation mark that bash would not; none is needed.
            about = (a.help or "").replace("'", "").replace("%%", "%").partition(";")[0]
            lines.append(f"{of} {flags}{values}{needs} -d '{about}'")
    return "\n".join(lines) + "\n"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
