"""What an emulation answers: arrays, findings, what was watched; and the files that the launch names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tcprobe.check.report import log_of
from tcprobe.emulate import launch as launches
from tcprobe.emulate.launch import BufferArgument, Launch
from tcprobe.emulate.ptx import MOST_TEXT, parse
from tcprobe.emulate.report import RULES, Finding, Report, ReportAnswer
from tcprobe.emulate.run import Emulation, Options, emulate
from tcprobe.emulate.watch import Watch
from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch as arch_row
from tcprobe.layout.arrays import Array
from tcprobe.question.answers import Meta, plain
from tcprobe.system import files, npy
from tcprobe.text import Described, escaped
from tcprobe.values import Json


class EmulatedAnswer(ReportAnswer):
    """What a kernel did on the CPU."""

    trace: Annotated[list[str], Meta(description="What `--trace` and `--break` saw.")]


@dataclass(frozen=True, repr=False)
class Emulated(Described):
    """`arrays` by argument, None where that is no buffer; `lines` are what a trace or a break printed."""

    file: str
    launch: Launch
    report: Report
    arrays: list[Array | None]
    lines: list[str]

    @property
    def findings(self) -> list[Finding]:
        """What is wrong."""
        return self.report.findings

    @property
    def finished(self) -> bool:
        """Whether all threads came to an end before the instructions were spent."""
        return self.report.finished

    @property
    def instructions(self) -> int:
        """Of warps, that ran."""
        return self.report.instructions

    @property
    def notes(self) -> list[str]:
        """What the bits rest on."""
        return self.report.notes

    @property
    def summary(self) -> str:
        """The last line."""
        end = "finished" if self.finished else "not finished"
        return f"{end} after {self.instructions} instructions of warps: {self.report.counts}"

    @property
    def in_words(self) -> Iterator[str]:
        """What the kernel printed, findings, then the summary."""
        yield from (f"printed: {escaped(line)}" for line in self.report.output if line)
        yield from (finding.in_words for finding in self.findings)
        yield self.summary

    def to_json(self) -> Json:
        return plain(EmulatedAnswer.of(self.report.answer, trace=self.lines))

    def sarif(self) -> Json:
        """A SARIF log: a rule of `RULES` for each finding, at its line of the text."""
        rules = [{"id": name, "shortDescription": {"text": rule.words}} for name, rule in RULES.items()]
        results = [
            {
                "ruleId": found.rule,
                "ruleIndex": list(RULES).index(found.rule),
                "level": found.severity,
                "message": {"text": f"thread {found.thread}: {found.text}"},
                "locations": [
                    {
                        "physicalLocation": {
                            "artifactLocation": {"uri": self.file},
                            "region": {"startLine": max(1, found.line)},
                        }
                    }
                ],
            }
            for found in self.findings
        ]
        return log_of(rules, results)

    def save(self) -> None:
        """Write the buffers that have an `out`."""
        for argument, array in zip(self.launch.arguments, self.arrays, strict=True):
            if isinstance(argument, BufferArgument) and argument.out is not None and array is not None:
                npy.write_array(argument.out, array)


def run(
    ptx: Path | str,
    launch: Path | str | Mapping[str, Any],
    options: tuple[str, int, int, str | None],
    trace: str | None = None,
    stop: str | None = None,
) -> Emulated:
    """Emulate a file of PTX, or its text; UsageError, DataError as the parts raise them."""
    if not isinstance(ptx, str | Path) or not isinstance(launch, str | Path | Mapping):
        raise UsageError("`ptx` is PTX or the path of a file of it, `launch` a path or an object as in LAUNCH.json.")
    if not str(ptx) or "\0" in str(ptx) + str(launch) or not _is_unicode(str(ptx) + str(launch)):
        raise UsageError("`ptx` and `launch` are not empty, and have no zero bytes and no halves of characters.")
    name, text = (
        ("PTX", ptx) if isinstance(ptx, str) and "\n" in ptx else (str(ptx), files.read_text(Path(ptx), MOST_TEXT))
    )
    module = parse(text)
    if isinstance(launch, Mapping):
        made = launches.of_json(dict(launch), Path())
    else:
        path = Path(launch)
        made = launches.run_python(path) if path.suffix == ".py" else launches.read(path)
    schedule, seed, most, arch = options
    watch = Watch.of(module.kernel(made.kernel), trace, stop)
    chosen = Options(most, arch and arch_row(arch).name, schedule, seed)
    done: Emulation = emulate(module, made, chosen, watch.see if watch else None)
    return Emulated(name, made, done.report, done.buffers, watch.lines if watch else [])


def _is_unicode(text: str) -> bool:
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:
        return False
