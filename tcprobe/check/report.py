"""Findings for other programs: SARIF 2.1.0, and files of findings that are known already.

A finding is known where a baseline, written by `--json` or `--sarif`, has one with its rule, kernel and text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tcprobe.check.code_check import KernelCheck, Placed
from tcprobe.check.rule import Rule
from tcprobe.errors import DataError
from tcprobe.system import files
from tcprobe.values import Json

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
HOME = "https://github.com/tcprobe/tcprobe"
MOST_BYTES = 64 << 20  # of a baseline
Known = frozenset[tuple[str, str, str]]  # rule, kernel, text


def sarif(checks: Sequence[KernelCheck], rules: Mapping[str, Rule], unread: Sequence[str] = ()) -> Json:
    """A SARIF log with one run: the rules, the findings of all kernels, and what is `unread`, with the reason."""
    names = list(rules)
    results = [_result(check, placed, names) for check in checks for placed in check.findings]
    return log_of([_rule(rule) for rule in rules.values()], results, unread)


def log_of(rules: Sequence[Json], results: Sequence[Json], unread: Sequence[str] = ()) -> Json:
    """A SARIF log with one run, of rules and results as SARIF has them; with `unread` the run did not succeed."""
    driver = {"name": "tcprobe", "version": version("tcprobe"), "rules": list(rules)}
    run: dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": list(results)}
    if unread:
        told = [{"level": "error", "message": {"text": words}} for words in unread]
        run["invocations"] = [{"executionSuccessful": False, "toolExecutionNotifications": told}]
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def save(path: Path, log: Json) -> None:
    """Write a SARIF log into a file."""
    files.write(path, (json.dumps(log, indent=1) + "\n").encode())


def _rule(rule: Rule) -> Json:
    return {
        "id": rule.NAME,
        "shortDescription": {"text": rule.SAYS},
        "fullDescription": {"text": " ".join(rule.EVIDENCE)},
        "help": {"text": rule.FIX},
        "defaultConfiguration": {"level": rule.SEVERITY},
    }


def _result(check: KernelCheck, placed: Placed, names: Sequence[str]) -> Json:
    """A finding at its source line, or at its address in the file with the code."""
    found, line = placed.finding, placed.line
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(line.file if line else check.file, "/")}}
    if line:
        physical["region"] = {"startLine": max(1, line.line)}
    else:
        physical["address"] = {"relativeAddress": found.address, "kind": "instruction"}
    known = {"ruleIndex": names.index(found.rule)} if found.rule in names else {}
    return {
        "ruleId": found.rule,
        **known,
        "level": found.severity,
        "message": {"text": found.text},
        "locations": [
            {
                "physicalLocation": physical,
                "logicalLocations": [{"fullyQualifiedName": check.kernel, "kind": "function"}],
            }
        ],
        "properties": {
            "file": check.file,
            "arch": check.arch,
            "address": found.address,
            "numbers": dict(found.numbers),
        },
    }


def baseline(path: Path) -> Known:
    """The findings of a file that `--json` or `--sarif` wrote; DataError where it is neither."""
    text = files.read_text(path, MOST_BYTES)
    try:
        return frozenset(_known(text))
    except (json.JSONDecodeError, KeyError, TypeError, IndexError, RecursionError, AttributeError) as error:
        raise DataError(f"{path}: no findings that `--json` or `--sarif` wrote ({type(error).__name__}).") from None


def _known(text: str) -> Iterator[tuple[str, str, str]]:
    lines = [json.loads(line) for line in text.splitlines() if line.strip()] if not _is_sarif(text) else []
    for check in lines:
        for finding in check["findings"]:
            yield _texts(finding["rule"], check["kernel"], finding["text"])
    for run in json.loads(text)["runs"] if _is_sarif(text) else ():
        for result in run["results"]:
            kernel = result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]
            yield _texts(result["ruleId"], kernel, result["message"]["text"])


def _is_sarif(text: str) -> bool:
    """Whether it is one object with runs, on one line or many."""
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        return False
    return isinstance(whole, dict) and "runs" in whole


def _texts(*words: object) -> tuple[str, str, str]:
    if not all(isinstance(word, str) for word in words):
        raise TypeError("not a text")
    rule, kernel, text = map(str, words)
    return rule, kernel, text


def without(check: KernelCheck, known: Known) -> KernelCheck:
    """The same kernel with the findings that are new."""
    new = (each for each in check.findings if (each.finding.rule, check.kernel, each.finding.text) not in known)
    return replace(check, findings=tuple(new))
