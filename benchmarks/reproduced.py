"""The table that opens docs/reproduction.md: of each page, how many cells and claims agree.

python -m benchmarks.reproduced         after a page of docs/reproduction was made anew
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- the paper at a glance -->\n\n", "\n<!-- end of the glance -->"
CELLS = ("agrees", "better", "differs", "not decidable")
CLAIMS = ("holds", "smaller", "not seen", "reversed", "new")
HEAD = ("in the paper", "what", *CELLS, *CLAIMS, "made at")
PAGES = (  # in the order of the paper
    "table1-1M", "table1-quick", "slds-quick", "lorenz-quick", "lorenz_modes-quick",
    "ablations-quick", "test_split-quick", "kde-quick", "vmf-quick", "dynr2-quick",
    "noninjective-quick", "control-quick", "allen-quick", "mcc-quick", "baselines-quick",
    "baselines_check-quick", "baselines_check-paper",
)  # fmt: skip


def line(page: str) -> str:
    """A row of the table, from a page that `dynacl reproduce` rendered."""
    text = (DOCS / "reproduction" / f"{page}.md").read_text()
    text, _, _ = text.partition("\nIdentity rows under the other protocol")
    title = re.search(r"^# \w+: (.*)$", text, re.MULTILINE)
    about = re.search(r"^Paper: `(.*?)`. Scale (\w+),", text, re.MULTILINE)
    if title is None or about is None:
        raise ValueError(f"{page}: no page of `dynacl reproduce`")
    verdicts = [row.rstrip("| ").rpartition("| ")[2] for row in text.splitlines() if row[:1] == "|"]
    counts = [str(verdicts.count(verdict) or "") for verdict in (*CELLS, *CLAIMS)]
    what = f"[{title[1]}](reproduction/{page}.md)"
    return f"| `{about[1].replace(', ', '`, `')}` | {what} | {' | '.join(counts)} | {about[2]} |"


def table() -> str:
    head = f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|\n"
    return head + "".join(f"{line(page)}\n" for page in PAGES)


def opened(page: str) -> str:
    """The page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError("docs/reproduction.md: the marks of its first table are missing")
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE = DOCS / "reproduction.md"
    PAGE.write_text(opened(PAGE.read_text()))
    print(table())
