"""Each peer in a virtual environment of its own, under build/peers, as peers/NAME.txt pins it."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

SCRIPTS = Path(__file__).with_name("peers")
FOLDER = Path(__file__).parents[2] / "build" / "peers"
OURS = ("dynacl", "components")  # run by the Python that runs this


def python(tool: str) -> Path:
    """The Python of a tool, set up where it is not there or its pins have changed."""
    if tool in OURS:
        return Path(sys.executable)
    pins, folder = SCRIPTS / f"{tool}.txt", FOLDER / tool
    executable, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists() or ready.read_text() != pins.read_text():
        venv.create(folder, clear=True, with_pip=True)
        install = [executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        torch = [line for line in pins.read_text().split() if line.startswith("torch==")]
        if torch:  # by itself first, so that nothing asks for another
            subprocess.run([*install, *torch], check=True)
        subprocess.run([*install, "-r", pins], check=True)
        ready.write_text(pins.read_text())
    return executable


def version(tool: str) -> str:
    """What is compared: the pin of the tool itself."""
    if tool in OURS:
        return ""
    lines = (SCRIPTS / f"{tool}.txt").read_text().lower().split()
    return next(line.split("==")[1] for line in lines if line.startswith(f"{tool}=="))
