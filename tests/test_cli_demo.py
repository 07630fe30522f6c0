"""`dynacl demo`: the tour leaves what it says it does."""

import json

from dynacl.demo import demo


def test_demo_writes_metrics_and_pictures(tmp_path, capsys):
    found = demo(tmp_path / "demo", trials=4, steps=60, max_iter=5, verbose=False)
    names = {p.name for p in (tmp_path / "demo").iterdir()}
    assert {"metrics.json", "latents.png", "modes.png", "loss.png", "report.html"} <= names
    stored = json.loads((tmp_path / "demo" / "metrics.json").read_text())
    assert stored["DCL"]["r2"] == found["DCL"]["r2"]
    printed = capsys.readouterr().out
    assert f"{found['DCL']['r2']:.4f}" in printed
    assert f"{found['baseline']['r2']:.4f}" in printed
