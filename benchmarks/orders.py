"""In which order libraries' GEMMs sum: every call's order, proven on at least 4,096 elements of D.

    python benchmarks/orders.py --smoke --out DIR --seconds 60       # a few calls of every kind
    python benchmarks/orders.py --out DIR --seconds 420              # all; what DIR has an order of is left out
    python benchmarks/orders.py --out DIR --cases 'torch.mm bf16 8x1024x1024 b=col'   # these, again
    python benchmarks/orders.py --table DIR                          # the table of what DIR has

DIR/orders.jsonl has a line a call: what was found, its order, or why none was. DIR/errors.log has tracebacks. Calls
run in a process of their own, which is replaced when a call takes longer than PATIENCE; proofs run beside it on the
CPU's cores.
Exit code 1: an element differs, or a call has no line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import json_lines
from order_cases import SEEDED, SMOKE, Case, cases

PATIENCE = 75.0  # seconds without a word from the process that calls; its first words take an import
CORES = max(1, (os.cpu_count() or 2) - 2)
LOST = ("illegal", "misaligned", "unspecified launch failure", "cudaErrorLaunch", "device-side assert")  # contexts
WAITING = 3 * CORES  # proofs at most


def proven(found: Any, texts: list[str]) -> dict[str, Any]:
    """What a proof says, as plain data; orders come as texts."""
    from tcprobe.arithmetic import order_text
    from tcprobe.order.picture import in_words
    from tcprobe.order.reveal import conclude

    orders = [order_text.read(text.encode()) for text in texts]
    kept = [each._replace(order=order) for each, order in zip(found.candidates, orders, strict=True)]
    made = conclude(found._replace(candidates=kept))
    return {
        "words": list(in_words(made.order)),
        "alike": list(made.alike),
        "elements": made.elements,
        "different": made.different,
        "difference": made.difference and made.difference._asdict(),
        "compared": made.compared,
        "places": made.places._asdict(),
        "calls": made.calls,
        "seconds": made.seconds,
        "kernel": made.kernel,
        "stages": made.stages,
        "order": order_text.to_json(made.order),
    }


class Log:
    """Lines of DIR/orders.jsonl and DIR/errors.log, from any thread."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.lines, self.errors = folder / "orders.jsonl", folder / "errors.log"
        self._lock = threading.Lock()

    def write(self, row: dict[str, Any]) -> None:
        """A call's line; a few words of it are printed."""
        with self._lock, self.lines.open("a") as file:
            file.write(json.dumps(row, default=str) + "\n")
        print(short(row), flush=True)

    def error(self, case: str, error: BaseException) -> None:
        """A traceback."""
        with self._lock, self.errors.open("a") as file:
            file.write(f"--- {case}\n{''.join(traceback.format_exception(error))}\n")


def short(row: dict[str, Any]) -> str:
    """A line about a call."""
    if "error" in row:
        return f"NONE {row['case']}: {row['error']}"
    verdict = "ok  " if not row["different"] else "DIFF"
    kernel = (row["kernel"] or ["?"])[0][:60]
    moved = f" PLACES {row['places']}" if row["places"]["different"] else ""
    return (
        f"{verdict} {row['case']}: {row['different']} of {row['elements']} differ, {row['seconds']} s, "
        f"{row['calls']} calls; "
        f"{'; '.join(row['words'][1:4])[:160]} [{kernel}]{moved} {row['stages']}"
    )


def parsed(text: str) -> Case:
    """A case from its id."""
    call, types, shape, *options = text.split()
    pairs = tuple(tuple(word.split("=", 1)) for word in options)
    typed = tuple(
        (name, True if value == "True" else int(value) if value.isdigit() else value) for name, value in pairs
    )
    m, n, k = map(int, shape.split("x"))
    return Case(call, tuple(types.split(",")), (m, n, k), typed)


def work(folder: Path, asked: list[Case], seconds: float) -> None:
    """Ask about each; a line `begin ID` before, so that who watches knows which one was lost."""
    log, end = Log(folder), time.monotonic() + seconds
    pool = ProcessPoolExecutor(CORES, mp_context=get_context("spawn"))
    print("begin -", flush=True)
    from tcprobe.arithmetic import order_text
    from tcprobe.order.bench import Shape
    from tcprobe.order.calls import CallError, CallOptions, call
    from tcprobe.order.reveal import Revealing

    made: dict[object, Any] = {}
    waiting: list[Future[dict[str, Any]]] = []

    def done(case: str, future: Future[dict[str, Any]]) -> None:
        try:
            log.write({"case": case, **future.result()})
        except Exception as error:
            log.error(case, error)
            log.write({"case": case, "error": f"{type(error).__name__}: {error}"})

    for case in asked:
        if time.monotonic() > end:
            print("out of time", flush=True)
            break
        print(f"begin {case.id}", flush=True)
        started = time.perf_counter()
        try:
            key = (case.call, case.types, case.options)
            if key not in made or case.call.startswith(("torch.mm", "cupy.matmul")):  # which set what libraries do
                made[key] = call(case.call, case.types, CallOptions(**dict(case.options)))
            compiled = time.perf_counter() - started
            found = Revealing(made[key], Shape(*case.shape)).find()
            if found.lacking:
                raise CallError(f"D lacks k {found.lacking.lost}, and has {found.lacking.double} twice or more")
            found.stages["call"] = round(compiled, 3)
            texts = [order_text.text(each.order) for each in found.candidates]
            blank = [each._replace(order=None) for each in found.candidates]
            while len([future for future in waiting if not future.done()]) > WAITING:
                time.sleep(0.02)
            future = pool.submit(proven, found._replace(candidates=blank, proof=None), texts)
            future.add_done_callback(lambda future, case=case.id: done(case, future))
            waiting.append(future)
        except Exception as error:
            log.error(case.id, error)
            took = round(time.perf_counter() - started, 2)
            log.write({"case": case.id, "error": f"{type(error).__name__}: {error}", "seconds": took})
            if any(word in f"{error} {error.__cause__}" for word in LOST):
                pool.shutdown(wait=True)
                os._exit(9)  # whoever watches goes on in a new process
    print("begin proofs", flush=True)
    pool.shutdown(wait=True)
    print("finished", flush=True)


def answered(folder: Path) -> dict[str, dict[str, Any]]:
    """The last line of each call."""
    return {row["case"]: row for row in json_lines.read(folder / "orders.jsonl")}


def watched(folder: Path, asked: list[Case], seconds: float) -> None:
    """Run `work` in a process; when it is lost or silent, go on behind the call that it was at."""
    end, log, left = time.monotonic() + seconds, Log(folder), list(asked)
    while left and time.monotonic() < end:
        here = end - time.monotonic()
        command = [sys.executable, __file__, "--work", "--out", str(folder), "--seconds", str(here)]
        child = subprocess.Popen(
            [*command, "--cases", *(case.id for case in left)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        at, heard, finished = "-", [time.monotonic()], False

        def patience(child: subprocess.Popen[str] = child, heard: list[float] = heard) -> None:
            while child.poll() is None:
                if time.monotonic() - heard[0] > PATIENCE or time.monotonic() > end + 30:
                    child.kill()
                time.sleep(0.5)

        threading.Thread(target=patience, daemon=True).start()
        assert child.stdout is not None
        for line in child.stdout:
            heard[0] = time.monotonic()
            if line.startswith("begin "):
                at = line[len("begin ") :].strip()
            else:
                print(line, end="", flush=True)
            finished |= line.startswith(("finished", "out of time"))
        code = child.wait()
        if finished:
            return
        words = f"the process ended with {code} at {at}"
        print(words, flush=True)
        known = answered(folder)
        names = [case.id for case in left]
        if at in names:
            log.write({"case": at, "error": words})
            left = [case for case in left[: names.index(at)] if case.id not in known] + left[names.index(at) + 1 :]
        else:
            left = [case for case in left if case.id not in known]
            if at == "-" or not left:
                return


def table(folder: Path) -> Iterator[str]:
    """Markdown: kernel, order in words, elements compared, different."""
    rows = answered(folder)
    good = [row for row in rows.values() if "error" not in row]
    elements, different = (sum(row[name] for row in good) for name in ("elements", "different"))
    named = {case.id for case in cases()[-SEEDED:]}
    from_seed = [row for row in good if row["case"] in named]
    yield (
        f"{len(good)} calls ({len(from_seed)} from a seed), {elements} elements compared, {different} different; "
        f"{len(rows) - len(good)} calls without an order."
    )
    yield ""
    yield "| call | kernel | order | elements | different | seconds |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in good:
        kernel = (row["kernel"] or ["not known"])[0][:70]
        words = "; ".join(row["words"])[:200].replace("|", "/")
        yield f"| {row['case']} | `{kernel}` | {words} | {row['elements']} | {row['different']} | {row['seconds']} |"
    for row in rows.values():
        if "error" in row:
            yield f"| {row['case']} | | none: {row['error'][:200].replace('|', '/')} | | | |"


def main() -> int:
    """As the module says."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path("orders"))
    options.add_argument("--seconds", type=float, default=420.0)
    options.add_argument("--smoke", action="store_true")
    options.add_argument("--cases", nargs="*")
    options.add_argument("--table", type=Path)
    options.add_argument("--work", action="store_true")
    asked = options.parse_args()
    if asked.table:
        print("\n".join(table(asked.table)))
        return 0
    chosen = [parsed(text) for text in asked.cases] if asked.cases else list(SMOKE) if asked.smoke else cases()
    if asked.work:
        work(asked.out, chosen, asked.seconds)
        return 0
    known = {} if asked.cases else {case for case, row in answered(asked.out).items() if "error" not in row}
    watched(asked.out, [case for case in chosen if case.id not in known], asked.seconds)
    rows = answered(asked.out)
    mine = [rows.get(case.id) for case in chosen]
    right = [row for row in mine if row and "error" not in row and not row["different"]]
    print(f"{len(right)} of {len(chosen)} calls proven")
    for line in table(asked.out):
        if not line.startswith("|"):
            print(line)
    return int(len(right) < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
