"""One thing changed in the code of a run: an instruction of a kernel, or the names of two kernels; what comes of it.

Kernels with the same bytes share their code, as in a run, so what is changed for one is changed for all of them.
"""

import dataclasses
import random
from collections import Counter
from functools import cache, cached_property

from machine_code import TOOLS, codes
from mutants import mutants

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.probes import ptx
from tcprobe.probes.wmma import memory_table
from tcprobe.run.machine_code import run
from tcprobe.sass import derive, evidence, tensor, tensor_product
from tcprobe.sass.cubin import assemble
from tcprobe.sass.decode import UnreadError, exact
from tcprobe.sass.meaning import MEANINGS
from tcprobe.sass.opcodes import OPCODES

# how a change is taken: the reader refuses the code; a probe or a multiply is found incomplete; the multiplies
# contradict it; nothing changes; something wrong is published
OUTCOMES = ("refused", "incomplete", "contradicted", "unchanged", "wrong")


class Run:
    """A run of an arch: code and tables of its fragments, code and traces of its multiplies, and what follows."""

    def __init__(self, name):
        self.name = name
        self.planned = {e.id: (e, launches) for e, launches in codes(name)[0]}
        self.code = codes(name)[1]
        self.users = {
            kernel: e.id for e, launches in self.planned.values() for kernel in {x.kernel.name for x in launches}
        }
        self.outputs = {}
        self.tables = {id_: self.read(id_, self.code) for id_ in self.planned}
        row = arch(name)
        multiplies = [i for i in inventory.executed_by(32) if i.multiplies]
        rows = [i for i in multiplies if i.target.on(row) and i.target.name[-1].isdigit()]
        kernels = {i.id: tensor.kernel(i) for i in rows}
        found, _ = assemble(TOOLS, list(kernels.values()), row)
        self.multiplies = {i.id: (i, found[kernels[i.id].name]) for i in rows if kernels[i.id].name in found}
        self.traces = {id_: traced for id_, (i, code) in self.multiplies.items() if (traced := derive._trace(code, i))}
        self.before = self.conclude(self.tables, self.traces)
        self.layouts = {opcode: found.tables for opcode, found in self.before.opcodes.items()}
        codes_of_mma = {i: code for i, code in self.multiplies.values() if i.family == "mma"}
        shown = derive.conclude_forms(codes_of_mma, row, self.before, {})
        self.emulated = {i.id: (i, code) for i, code in codes_of_mma.items() if i.id in shown.contents}

    def read(self, experiment, code):
        """The table of an experiment; what changed is run first."""
        planned, launches = self.planned[experiment]
        order = sorted(
            range(len(launches)), key=lambda j: code[launches[j].kernel.name] is self.code[launches[j].kernel.name]
        )
        outputs = {j: self.output(code[launches[j].kernel.name], launches[j]) for j in order}
        reading = planned.decode(launches, [outputs[j] for j in range(len(launches))])
        return memory_table(planned.fragments[0], reading["elements"].tolist())

    def output(self, code, launch):
        """What a launch brings; kernels with the same code and input share it, as in a run."""
        key = (launch.inputs[0].tobytes(), launch.output_bytes, launch.ldm, launch.grid)
        kept = self.outputs.setdefault(id(code), (code, {}))[1]
        if key not in kept:
            kept[key] = run(code, launch)
        return kept[key]

    def conclude(self, tables, traces):
        followed = [(self.multiplies[id_][0], traced) for id_, traced in traces.items()]
        return derive.conclude(followed, lambda fragment: tables.get(fragment.experiment))

    def wrong(self, found, tables):
        """What is published and not what the unchanged code gives: fragments, multiplies and opcodes."""
        kept = {id_: table for id_, table in tables.items() if id_ not in found.verdict.withheld}
        fragments = [id_ for id_, table in kept.items() if table != self.tables[id_]]
        now, before = states(found), states(self.before)
        return sorted(fragments + [" ".join(key) for key, value in now.items() if before.get(key, value) != value])

    def judge(self, tables, traces, fallback):
        """The outcome of a run with these tables and traces, and what is wrong in it."""
        found = self.conclude(tables, traces)
        wrong = self.wrong(found, tables)
        return ("wrong" if wrong else "contradicted" if found.verdict.failed else fallback), wrong

    # fragments

    def with_code(self, changed):
        """Tables of all that use kernels whose code changed (by name), or the word for why there is none."""
        code = self.code | changed
        tables, words = {}, []
        for experiment in sorted({self.users[kernel] for kernel in changed}):
            try:
                tables[experiment] = self.read(experiment, code)
            except UnreadError:
                words.append((experiment, "refused"))
            except ProbeError:
                words.append((experiment, "incomplete"))
        return tables, dict(words)

    def taken(self, tables, lost):
        """The outcome of a run in which some experiments gave other tables, or none."""
        fallback = next(iter(lost.values()), "unchanged")
        if all(table == self.tables[id_] for id_, table in tables.items()):
            return fallback, []
        kept = {id_: table for id_, table in self.tables.items() if id_ not in lost}
        return self.judge(kept | tables, self.traces, fallback)

    @cached_property
    def distinct(self):
        """Kernel names by the code that they share."""
        names = {}
        for kernel, code in self.code.items():
            names.setdefault(id(code), []).append(kernel)
        return list(names.values())

    def fragments(self):
        """Every change of a fragment's code: (kernel, old text, new text, outcome, what is wrong)."""
        rng = random.Random(0)
        for names in self.distinct:
            code = self.code[names[0]]
            for at, step in code.instructions.items():
                for text in mutants(step, rng) if step.opcode != "NOP" else ():
                    yield names[0], step.text, text, lambda a=at, t=text, n=names: self.fragment(n, a, t)

    def fragment(self, names, at, text):
        try:
            changed = _changed(self.code[names[0]], at, text)
        except UnreadError:
            return "refused", []
        try:
            return self.taken(*self.with_code(dict.fromkeys(names, changed)))
        finally:
            self.outputs.pop(id(changed), None)

    def names_of_fragments(self):
        """Every pair of kernels of fragments with different code, their names exchanged."""
        kernels = [kernel for names in self.distinct for kernel in names]
        for j, first in enumerate(kernels):
            for second in kernels[:j]:
                if self.code[first] is not self.code[second]:
                    yield first, "is", second, lambda a=first, b=second: self.exchange(a, b)

    @cache  # noqa: B019
    def reads_as(self, kernel, other):
        """The table of a kernel's experiment where it has the code of another, or why there is none."""
        return self.with_code({kernel: self.code[other]})

    def exchange(self, first, second):
        if self.users[first] == self.users[second]:
            return self.taken(*self.with_code({first: self.code[second], second: self.code[first]}))
        parts = self.reads_as(first, second), self.reads_as(second, first)
        return self.taken(parts[0][0] | parts[1][0], parts[0][1] | parts[1][1])

    # multiplies

    @cached_property
    def distinct_multiplies(self):
        """Ids of followed multiplies by the code that they share."""
        names = {}
        for id_ in self.traces:
            names.setdefault(id(self.multiplies[id_][1]), []).append(id_)
        return list(names.values())

    def changes_of_multiplies(self):
        """Every change of a multiply's code."""
        rng = random.Random(0)
        for ids in self.distinct_multiplies:
            code = self.multiplies[ids[0]][1]
            for at, step in code.instructions.items():
                for text in mutants(step, rng) if step.opcode != "NOP" else ():
                    yield ids[0], step.text, text, lambda a=at, t=text, n=ids: self.multiply(n, a, t)

    def multiply(self, ids, at, text):
        try:
            code = _changed(self.multiplies[ids[0]][1], at, text)
        except UnreadError:
            return "refused", []
        traces = {}
        for id_ in ids:
            if self.words(id_) not in traces:
                traces[self.words(id_)] = derive._trace(code, self.multiplies[id_][0])
        return self.followed({id_: traces[self.words(id_)] for id_ in ids})

    @cache  # noqa: B019
    def words(self, id_):
        """The words of its operands: all that a trace needs to know of a multiply."""
        return tuple(ptx.thread_bytes(f) for f in self.multiplies[id_][0].fragments)

    def followed(self, changed):
        """The outcome of a run in which some multiplies have other traces, or none."""
        if all(traced == self.traces[id_] for id_, traced in changed.items()):
            return "unchanged", []
        lost = [id_ for id_, traced in changed.items() if traced is None]
        if len(lost) == len(changed):
            return "refused", []
        traces = self.traces | {id_: traced for id_, traced in changed.items() if traced}
        return self.judge(self.tables, {id_: t for id_, t in traces.items() if id_ not in lost}, "incomplete")

    def names_of_multiplies(self):
        """Every pair of followed multiplies with different code, their names exchanged."""
        ids = [id_ for group in self.distinct_multiplies for id_ in group]
        for j, first in enumerate(ids):
            for second in ids[:j]:
                if self.multiplies[first][1] is not self.multiplies[second][1]:
                    yield (
                        first,
                        "is",
                        second,
                        lambda a=first, b=second: self.followed({a: self.follows_as(a, b), b: self.follows_as(b, a)}),
                    )

    @cache  # noqa: B019
    def follows_as(self, first, second):
        return derive._trace(self.multiplies[second][1], self.multiplies[first][0])

    # everything

    # forms that are shown by their own code

    def changes_of_emulated(self):
        """Every change of the code of a form that is not a single opcode."""
        rng = random.Random(0)
        for id_, (_, code) in self.emulated.items():
            for at, step in code.instructions.items():
                for text in mutants(step, rng) if step.opcode != "NOP" else ():
                    yield id_, step.text, text, lambda i=id_, a=at, t=text: self.shown(i, a, t)

    def shown(self, id_, at, text):
        try:
            return self.run_as(id_, _changed(self.emulated[id_][1], at, text))
        except UnreadError:
            return "refused", []

    def names_of_emulated(self):
        """Every pair of such forms, their names exchanged."""
        for j, first in enumerate(self.emulated):
            for second in list(self.emulated)[:j]:
                yield first, "is", second, lambda a=first, b=second: self.renamed(a, b)

    def renamed(self, first, second):
        found = [self.run_as(a, self.emulated[b][1]) for a, b in ((first, second), (second, first))]
        return min((outcome for outcome, _ in found), key=["wrong", "contradicted", "refused", "unchanged"].index), [
            what for _, wrong in found for what in wrong
        ]

    def run_as(self, id_, code):
        """What the code shows of a form; wrong where it is believed, and computes something else on other numbers."""
        row, instruction_ = arch(self.name), self.emulated[id_][0]
        try:
            evidence.by_code(instruction_, code, row, self.layouts)
            others = tensor_product.trials(instruction_, seed=1).images
            ours, theirs = (
                tensor_product.run_multiply(c, instruction_, others, self.layouts)
                for c in (code, self.emulated[id_][1])
            )
        except UnreadError:
            return "refused", []
        except evidence.ContradictedError:
            return "contradicted", []
        return ("unchanged", []) if (ours == theirs).all() else ("wrong", [id_])

    def opcodes(self):
        """Every opcode taken for another one wherever it occurs, as by a disassembler or a model that is wrong."""
        rng = random.Random(0)
        codes = [*self.code.values(), *(self.multiplies[id_][1] for id_ in self.traces)]
        found = sorted({step.opcode for code in codes for step in code.instructions.values()} - {"NOP"})
        for opcode in found:
            for other in dict.fromkeys(["MOV", "NOP", *rng.sample(sorted({*OPCODES, *MEANINGS}), 2)]):
                yield "everywhere", opcode, other, lambda a=opcode, b=other: self.everywhere(a, b)

    def everywhere(self, opcode, other):
        try:
            changed = {id(code): _renamed(code, opcode, other) for code in self.code.values()}
            again = {id(code): _renamed(code, opcode, other) for _, code in self.multiplies.values()}
        except UnreadError:
            return "refused", []
        tables, lost = self.with_code({kernel: changed[id(code)] for kernel, code in self.code.items()})
        for code in changed.values():
            self.outputs.pop(id(code), None)
        traces = {
            id_: derive._trace(again[id(self.multiplies[id_][1])], self.multiplies[id_][0]) for id_ in self.traces
        }
        traces = {id_: traced for id_, traced in traces.items() if traced}
        fallback = (
            "unchanged" if (tables, traces) == (self.tables, self.traces) else next(iter(lost.values()), "refused")
        )
        return self.judge(tables, traces, fallback)

    def count(self, kind, every=1, first=0):
        """Counts of outcomes over every `every`-th change of a kind, and those that end wrong."""
        counts, wrong = Counter(), []
        for number, (where, old, new, outcome) in enumerate(KINDS[kind](self)):
            if number % every == first:
                found, what = outcome()
                counts[found] += 1
                wrong += [(where, old, new, *what)] if found == "wrong" else []
        return counts, wrong


KINDS = {
    "code of fragments": Run.fragments,
    "code of multiplies": Run.changes_of_multiplies,
    "names of fragments": Run.names_of_fragments,
    "names of multiplies": Run.names_of_multiplies,
    "an opcode everywhere": Run.opcodes,
    "code of emulated mma": Run.changes_of_emulated,
    "names of emulated mma": Run.names_of_emulated,
}


def states(conclusion):
    """What a conclusion states, by (subject, operand): layouts, and elements that are not read."""
    layouts = {(o, operand): t for o, a in conclusion.opcodes.items() for operand, t in a.tables.items()}
    for id_, made in conclusion.contents.items():
        layouts |= {(id_, operand): table for operand, table in made["tables"].items()}
        layouts[id_, "unread"] = made.get("unread")
    return layouts


def _renamed(code, opcode, other):
    """The code with another name for an opcode."""
    changed = {at: exact(_text(step, opcode, other)) for at, step in code.instructions.items()}
    return dataclasses.replace(code, instructions=changed, opcodes=tuple(changed[at].opcode for at in sorted(changed)))


def _text(step, opcode, other):
    return step.text.replace(opcode, other, 1) if step.opcode == opcode else step.text


def _changed(code, at, text):
    """The code with another text at an address; UnreadError where it cannot be decoded."""
    changed = dict(code.instructions) | {at: exact(text)}
    return dataclasses.replace(code, instructions=changed, opcodes=tuple(changed[a].opcode for a in sorted(changed)))
