"""How `make docs` builds the site: pages, docstrings, scripts as they are. Nothing is fitted."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

from dynacl import __version__

project, author, version = "dynacl", "The dynacl developers", __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["conf.py", "requirements.txt"]

# Pages are read on code-hosting sites too: Markdown, with $…$ for equations.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
# Indented blocks are commands and equations in letters, not Python.
highlight_language = "none"

html_theme = "pydata_sphinx_theme"
html_title = f"dynacl {version}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_theme_options = {
    "logo": {"text": "dynacl"},
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    # Pages of wide tables have no second menu beside them.
    "secondary_sidebar_items": {"**": ["page-toc"], "parameters": [], "flows": []},
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "start": [], "gallery": []}
copyright = "The dynacl developers, Apache-2.0"

autosummary_generate = False  # members stand on the page of their module
autodoc_member_order = "groupwise"
autodoc_typehints = "none"  # docstrings say shapes and kinds
napoleon_google_docstring = False
default_role = "code"


def _scripts_are_in_the_gallery(app: Any, page: str, text: list[str]) -> None:
    """A link to a script, which the repository has and the site shows, leads to its page."""
    up = "../" * page.count("/")
    text[0] = re.sub(
        r"\]\((?:\.\./)+examples/(?:walks/)?(\w+)\.py\)", rf"]({up}gallery/\1.md)", text[0]
    )
    text[0] = re.sub(r"\]\((?:\.\./)+examples(?:/walks)?/?\)", f"]({up}gallery.md)", text[0])


def _plain_marks(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are prose: outside of code, | * and _ are letters, not markup."""
    for i, line in enumerate(lines):
        pieces = re.split(r"(`[^`]*`|>>> .*)", line)
        lines[i] = "".join(
            piece if odd % 2 else re.sub(r"([|*]|_\b|(?<=\w)_(?!\w))", r"\\\1", piece)
            for odd, piece in enumerate(pieces)
        )


def _mathml(self: Any, node: nodes.Node) -> None:
    """Equations as the browser's own: no script and no network."""
    block = isinstance(node, nodes.math_block)
    self.body.append(
        f'<div class="math">{_tree(node, block)}</div>' if block else _tree(node, block)
    )
    raise nodes.SkipNode


MATHML = "http://www.w3.org/1998/Math/MathML"
ACCENTS = "ˆ˜~¯"
APPLY = "\u2061"  # between the name of a function and what it is applied to


def _tree(node: nodes.Node, block: bool) -> str:
    """What the translation of TeX lacks: primes, indices of letters with an accent beside
    them and not below, and room after the names of functions."""
    text = str(tex2mathml(node.astext(), as_block=block)).replace("&ApplyFunction;", APPLY)
    text = text.replace("<mo>'</mo>", '<mo lspace="0" rspace="0">′</mo>')
    ElementTree.register_namespace("", MATHML)
    tree = ElementTree.fromstring(text)

    def made(tag: str, *parts: ElementTree.Element, **said: str) -> ElementTree.Element:
        element = ElementTree.Element(f"{{{MATHML}}}{tag}", said)
        element.extend(parts)
        return element

    for row in list(tree.iter()):
        for i, part in reversed(list(enumerate(row))):
            tag = part.tag.rpartition("}")[2]
            if tag == "munderover" and (part[2].text or " ") in ACCENTS:
                row[i] = made("msub", made("mover", part[0], part[2], accent="true"), part[1])
            elif tag == "mi" and i + 1 < len(row) and row[i + 1].text == APPLY:
                row[i + 1] = made("mspace", width="0.167em")
                if i and row[i - 1].tag.endswith("frac"):
                    row.insert(i, made("mspace", width="0.167em"))
    return ElementTree.tostring(tree, encoding="unicode")


def setup(app: Any) -> None:
    app.connect("source-read", _scripts_are_in_the_gallery)
    app.connect("autodoc-process-docstring", _plain_marks, priority=400)
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml, None))
