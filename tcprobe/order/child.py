"""The process in which a call is made: it may hang or be lost, and the one that asks goes on.

It reads one request from standard input, and writes lines of JSON: {"beat": STAGE} while it lives, then {"answer": ...}
or {"error": CLASS, "words": TEXT}. What the call itself prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from tcprobe.arithmetic import order_text
from tcprobe.errors import StarvedError, class_named, debugging, understood
from tcprobe.order.batches import batches, sizes_of
from tcprobe.order.calls import CallError, CallOptions, call
from tcprobe.order.printed import FoundOrder, PlacesAnswer
from tcprobe.order.reveal import Revealed
from tcprobe.question.answers import plain
from tcprobe.system import children
from tcprobe.text import escaped
from tcprobe.values import Json

STARTING, PATIENCE, LONGEST = 120.0, 60.0, 480.0  # seconds: until the first word, between two, in all
ENDING = 2.0  # seconds from the last word to the end of a process
SELDOM = 0.1  # seconds between beats


def asked(request: Json) -> Json:
    """What the process answers; CallError where it is lost or silent, and the errors that it met."""
    with tempfile.TemporaryFile() as errors:
        process = children.start(
            [sys.executable, "-m", "tcprobe.order.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            answer, stage = _heard(process, request)
            if answer is None and not stage.endswith("silent"):
                with contextlib.suppress(subprocess.TimeoutExpired):  # it ends by itself: how, its code says
                    process.wait(ENDING)
        finally:
            children.end(process)
            process.wait()
        if answer is None:
            raise CallError(_lost(process.returncode, stage, request, _last_line(errors)))
    if "error" in answer:
        raise class_named(answer["error"])(answer["words"])
    found: Json = answer["answer"]
    return found


def _heard(process: subprocess.Popen[bytes], request: Json) -> tuple[Json | None, str]:
    """(the answer, None where there is none; the last stage)."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None, "start"
    state: dict[str, Any] = {"stage": "start", "at": time.monotonic(), "answer": None, "silent": False}
    done = threading.Event()

    def listen(stream: IO[bytes]) -> None:
        for line in stream:
            message = json.loads(line)
            state["at"] = time.monotonic()
            if "beat" not in message:
                state["answer"] = message
                break
            state["stage"] = message["beat"]
        done.set()

    threading.Thread(target=listen, args=(process.stdout,), daemon=True).start()
    end = time.monotonic() + LONGEST
    while not done.wait(0.05):
        now = time.monotonic()
        limit = STARTING if state["stage"] == "start" else PATIENCE
        if now - state["at"] > limit or now > end:
            return None, f"{state['stage']}, silent"
    return state["answer"], state["stage"]


def _lost(code: int | None, stage: str, request: Json, last: str) -> str:
    """What became of a call that gave no answer."""
    name = escaped(str(request["call"]))
    if stage.endswith("silent"):
        where = stage.removesuffix(", silent")
        return f"{name} hangs: nothing came back for {PATIENCE:g} s ({where}); its process was ended."
    how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return f"{name} ended its process ({how}){': ' + last if last else ''}."


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read()[-4096:].decode(errors="replace").strip().splitlines()
    return escaped(lines[-1][:200]) if lines else ""


def revealed_json(found: Revealed) -> Json:
    """Plain data."""
    lacking = found.lacking
    answer = FoundOrder.of(
        found,
        order=found.order and order_text.to_json(found.order),
        places=PlacesAnswer.of(found.places, alike=[list(lines) for lines in found.places.alike]),
        lost=lacking.lost if lacking else [],
        double=lacking.double if lacking else [],
        terms=lacking.parts if lacking else [],
        others=lacking.others if lacking else 0,
    )
    return plain(answer)


def answer_to(request: Json, beat: Callable[[str], None]) -> Json:
    """What was asked, found in this process."""
    options = CallOptions(**request["options"])
    made = call(request["call"], request["types"], options)
    found = batches(made, sizes_of(request["shape"], made.sums), request.get("seed", 1), beat)
    spans = [
        {"sizes": list(span.sizes), "proven": list(span.proven), **revealed_json(span.found)} for span in found.spans
    ]
    return {"side": found.side, "changes": found.changes, "spans": spans}


def main() -> None:
    """Answer one request."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request, heard = json.loads(sys.stdin.buffer.readline()), [0.0]
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()

    def say(message: Json) -> None:
        sink.write(json.dumps(message).encode() + b"\n")
        sink.flush()

    def beat(stage: str) -> None:
        now = time.monotonic()
        if now - heard[0] > SELDOM:
            heard[0] = now
            say({"beat": stage})

    try:
        say({"answer": answer_to(request, beat)})
    except Exception as error:
        known = understood(error)
        if debugging():
            raise
        say({"error": type(known).__name__, "words": "" if isinstance(known, StarvedError) else str(known)})
    sink.flush()
    os._exit(0)  # what a call has left running is no reason to wait


def _end_with(stream: IO[bytes]) -> None:
    """End with the process that asks."""
    stream.read()
    os._exit(1)


if __name__ == "__main__":
    main()
