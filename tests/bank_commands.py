"""Calls of `tcprobe banks`, with arguments and with lines of JSON, for tests."""

import json

from command import tcprobe

A = "mma.m16n8k16.row.col.f32.f16.f16.f32"


KEYS = ["wavefronts", "beats", "cycles", "ideal", "phases"]


def lines(tmp_path, *rows, code=0):
    """What `banks --patterns --json` answers to rows, texts or data."""
    path = tmp_path / "patterns.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    done = tcprobe("banks", "--patterns", path, "--json", code=code)
    return [json.loads(line) for line in done.stdout.splitlines()] if code == 0 else done.stderr


GOOD = {"op": "ld.shared.b32", "address": [4 * i for i in range(32)]}


def tile(*arguments):
    return json.loads(tcprobe("banks", *arguments, "--json").stdout)
