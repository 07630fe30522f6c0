"""The table that opens docs/reproduction.md counts what the pages below it say."""

from benchmarks import reproduced


def test_first_table_is_that_of_the_pages():
    page = (reproduced.DOCS / "reproduction.md").read_text()
    assert reproduced.opened(page) == page, "python -m benchmarks.reproduced makes it anew"


def test_verdicts_are_counted_where_they_stand_last(tmp_path, monkeypatch):
    folder = tmp_path / "reproduction"
    folder.mkdir()
    (folder / "a.md").write_text(
        "# a: A table\n\nPaper: `tab:a, fig:b`. Scale quick, protocol ours. 4 fits.\n\n"
        "| row | ours | verdict |\n|---|---|---|\n| new | 1.0 | agrees |\n| b | 2.0 | agrees |\n"
        "| c | 3.0 | not decidable |\n| d | – | – |\n\n"
        "| claim | verdict |\n|---|---|\n| x | new |\n\n"
        "Identity rows under the other protocol (…):\n\n| z | 1.0 | agrees |\n"
    )
    monkeypatch.setattr(reproduced, "DOCS", tmp_path)
    row = [cell.strip() for cell in reproduced.line("a").strip("|").split("|")]
    assert row == ["`tab:a`, `fig:b`", "[A table](reproduction/a.md)", "2", "", "", "1",
                   "", "", "", "", "1", "quick"]  # fmt: skip
