"""A parser that says which word was meant, and shows the usage of the command that was typed."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any


class Parser(argparse.ArgumentParser):
    """Of `dynacl` and of its commands alike: `add_subparsers` makes more of its own kind."""

    def parse_known_args(  # type: ignore[override] # as argparse calls it
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        for word in self._own(words):
            # First of all: a mistyped --out would else be said to be missing.
            if not any(known.startswith(word) for known in self._option_string_actions):
                self.error(f"there is no option {word}{meant(word, self._option_string_actions)}")
        found, left = super().parse_known_args(self._told(words), namespace)
        if left:
            self.error(f"too many words: {' '.join(left)}")
        return found, left

    def _own(self, words: Sequence[str]) -> Iterable[str]:
        """The options among these words that are this parser's; those of a command follow it."""
        for word in words:
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return
            if re.match("--?[A-Za-z]", word):
                yield word.partition("=")[0]

    def _told(self, words: Sequence[str]) -> list[str]:
        """A flag that may have a value says that it is on, before a word that is none of these."""
        told = list(words)
        for i, (word, after) in enumerate(pairwise(words)):
            action = self._option_string_actions.get(word)
            if action is not None and action.nargs == "?" and callable(action.type):
                try:
                    action.type(after)
                except argparse.ArgumentTypeError:
                    told[i] = f"{word}=on"
        return told

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += meant(value, action.choices or ())
            raise


def meant(word: object, known: Iterable[object]) -> str:
    """The end of a sentence on a word that is not known: the one that is most like it."""
    bare = {str(one).lstrip("-"): one for one in known}  # dashes are alike in all options
    near = get_close_matches(str(word).lstrip("-"), bare, n=1)
    return f"; did you mean {bare[near[0]]}?" if near else ""
