"""Files of JSON lines, to which a benchmark that was stopped goes on adding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, none where it is not there."""
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def add(path: Path, row: dict[str, Any]) -> None:
    """An object more."""
    line = json.dumps(row) + "\n"
    with path.open("a") as out:
        out.write(line)
