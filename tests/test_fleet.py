"""A fleet: each kind of GPU once; lost, failing and lying machines."""

import json
import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command import tcprobe
from test_merge import MMA, WMMA, measured, tree

from tcprobe import __version__
from tcprobe.errors import DataError, EnvironmentUnfitError
from tcprobe.run import merge
from tcprobe.run.campaign import Request
from tcprobe.run.fleet import Fleet, LostMachineError, RunAnswer, decode, offer, single_run
from tcprobe.store import documents
from tcprobe.store.results import Results, published

HERE = Path(__file__).parent
GPUS = dict.fromkeys(("NVIDIA GH200", "NVIDIA H100", "NVIDIA H200"), "sm_90")
PROVENANCE = measured(MMA).provenance


def device(name, index=0):
    made = {key: PROVENANCE[key] for key in ("driver", "cuda", "compiler")}
    return {"index": index, "name": name, "arch": GPUS[name], "method": "live", **made}


class Machine:
    """One with GPUs, by their names, that answers with what was measured of them."""

    def __init__(self, *names, tcprobe=__version__):
        self.names, self.tcprobe, self.asked, self.before = names, tcprobe, [], []

    def offer(self):
        devices = [device(name, index) for index, name in enumerate(self.names)]
        return json.dumps({"tcprobe": self.tcprobe, "devices": devices, "compilers": [], "words": []})

    def run(self, arguments, folder):
        self.asked.append(arguments)
        return answer(folder, measured(MMA, self.names[int(arguments[arguments.index("--device") + 1])]))


class Broken(Machine):
    def __init__(self, *names, answer):
        super().__init__(*names)
        self.answer = answer

    def run(self, arguments, folder):
        self.asked.append(arguments)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(folder) if callable(self.answer) else self.answer


def answer(folder, *found):
    merge.write_report(folder / "r", found)
    return json.dumps({"report": merge.unpacked((folder / "r").read_bytes()).decode(), "code": 0, "words": ""})


class Machines:
    """A crew in this process. What raises LostMachineError while it works is there no more."""

    def __init__(self, folder, **machines):
        self.folder, self.machines, self.work, self.most = folder, machines, [], 0

    def slots(self):
        return dict.fromkeys(self.machines, 2)

    def give(self, address, work, *arguments):
        self.work.append((f"ticket {len(self.work)} of {self.most}", address, work, arguments))
        self.most += 1
        return self.work[-1][0]

    def answers(self, seconds):
        del seconds
        given, self.work = self.work, []
        for ticket, address, work, arguments in given:
            try:
                machine = self.machines[address]
                if work is single_run:
                    machine.before.append(arguments[1])
                yield ticket, machine.offer() if work is offer else machine.run(arguments[0], self.folder)
            except (LostMachineError, KeyError) as error:
                self.machines.pop(address, None)
                yield ticket, error if isinstance(error, LostMachineError) else LostMachineError("gone")

    def drop(self, ticket):
        self.work = [one for one in self.work if one[0] != ticket]


def fleet(tmp_path, request=None, patience=0.0, **machines):
    """(outcomes by GPU, conflicts, what was said) of a run in the folder `ours`."""
    said = []
    crew = Machines(tmp_path, **machines)
    made = Fleet(crew, request or Request((MMA,), method="live"), [""], said.append, patience)
    outcomes, conflicts = made.run(Results(tmp_path / "ours"))
    return {outcome.key.maker: outcome for outcome in outcomes}, conflicts, "\n".join(said)


def single(tmp_path, *found):
    """The tree of single runs' reports, merged."""
    for number, one in enumerate(sorted(found, key=lambda f: f.provenance["device"])):
        merge.write_report(tmp_path / f"single{number}", [one])
        merge.merge([tmp_path / f"single{number}"], Results(tmp_path / "single"))
    return tree(tmp_path / "single")


def test_each_kind_of_gpu_is_measured_once(tmp_path):
    machines = {"a": Machine("NVIDIA H100"), "b": Machine(*GPUS), "c": Machine()}
    outcomes, conflicts, said = fleet(tmp_path, **machines)
    assert set(outcomes) == set(GPUS)
    assert conflicts == []
    assert sum(len(machine.asked) for machine in machines.values()) == 3
    assert "c: neither a GPU nor a compiler" in said
    assert tree(tmp_path / "ours") == single(tmp_path, *(measured(MMA, name) for name in GPUS))


def test_what_is_known_is_no_mistake(tmp_path):
    for known in (0, 1):
        outcomes, _, _ = fleet(tmp_path, a=Machine("NVIDIA H100"))
        assert outcomes["NVIDIA H100"].kept == known


def opened(path, text):
    """The findings of a report."""
    path.write_text(text)
    with merge.open_report(path) as source:
        return merge.own(source)


def test_what_the_folder_has_of_the_very_gpu_goes_along(tmp_path):
    """Of that GPU alone, and nothing where all is to be measured again."""
    machine = Machine(*GPUS)
    fleet(tmp_path, a=Machine("NVIDIA H100"))
    outcomes, _, _ = fleet(tmp_path, a=machine)
    sent = dict(zip(GPUS, machine.before, strict=True))
    assert sent.pop("NVIDIA H100")
    assert set(sent.values()) == {""}
    known = machine.before[sorted(GPUS).index("NVIDIA H100")]
    assert opened(tmp_path / "known", known) == [measured(MMA, "NVIDIA H100")]
    new = {name: [one["id"] for one in outcome.to_json()["experiments"]] for name, outcome in outcomes.items()}
    assert new == {"NVIDIA H100": [], "NVIDIA H200": [MMA], "NVIDIA GH200": [MMA]}
    fleet(tmp_path, Request((MMA,), method="live", force=True), a=machine)
    assert machine.before[3:] == ["", "", ""]


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="starts processes as POSIX does")
def test_a_machine_continues_what_goes_along(tmp_path, monkeypatch):
    """What it is given comes back as it was, also what nobody asks for now; what is missing is measured."""
    monkeypatch.setattr("tcprobe.run.fleet.PROGRAM", (sys.executable, str(HERE / "fleet_gpu.py"), "program", "sm_80"))

    def run(*patterns, before=""):
        words = ["--method", "live", "--", *patterns]
        done = decode(single_run(words, before), RunAnswer)
        assert done.code == 0, done.words
        return {one.experiment: one for one in opened(tmp_path / "answer", done.report)}

    first = run("wmma.m16n16k16.a.row.f16", "wmma.m16n16k16.b.row.f16")
    earlier = {name: replace(one, provenance=one.provenance | {"tcprobe": "0.0.1"}) for name, one in first.items()}
    both = run("wmma.m16n16k16.a.*.f16", before=merge.report_text(list(earlier.values())))
    assert set(both) == {*first, "wmma.m16n16k16.a.col.f16"}
    assert {name: both[name] for name in first} == earlier
    assert both["wmma.m16n16k16.a.col.f16"].provenance["tcprobe"] == __version__


def test_a_folder_that_cannot_be_trusted_is_said_before_anything_is_measured(tmp_path):
    fleet(tmp_path, a=Machine("NVIDIA H100"))
    (place,) = (tmp_path / "ours").rglob(f"{MMA}.json")
    place.write_text(place.read_text().replace("H100", "H101"))
    machine = Machine("NVIDIA H200")
    with pytest.raises(DataError):
        fleet(tmp_path, a=machine)
    assert machine.asked == []


def test_a_lost_machine_costs_nothing_where_there_is_another(tmp_path):
    lost = Broken("NVIDIA H100", answer=LostMachineError("it was lost"))
    outcomes, _, _ = fleet(tmp_path, a=lost, b=Machine("NVIDIA H100"))
    (outcome,) = outcomes.values()
    assert (outcome.machine, outcome.complaints) == ("b", ["a: it was lost"])
    assert tree(tmp_path / "ours") == single(tmp_path, measured(MMA, "NVIDIA H100"))


def test_a_job_that_nobody_is_left_for_is_given_up(tmp_path):
    lost = Broken("NVIDIA H100", answer=LostMachineError("it was lost"))
    outcomes, _, _ = fleet(tmp_path, a=lost, b=Machine("NVIDIA H200"))
    assert outcomes["NVIDIA H100"].words == "no machine is left that could do it"
    assert outcomes["NVIDIA H200"].machine == "b"


def test_a_run_that_fails_is_made_elsewhere(tmp_path):
    failing = Broken("NVIDIA H100", answer=json.dumps({"report": None, "code": 3, "words": "no driver"}))
    outcomes, _, _ = fleet(tmp_path, a=failing, b=Machine("NVIDIA H100"))
    assert outcomes["NVIDIA H100"].complaints == ["a: code 3: no driver"]
    assert outcomes["NVIDIA H100"].machine == "b"
    outcomes, _, _ = fleet(tmp_path, a=failing)
    assert outcomes["NVIDIA H100"].words == "a: code 3: no driver"


def edited(folder):
    """A report with a table's layout exchanged for none, sealed again outside but not inside."""
    body = json.loads(json.loads(answer(folder, measured(MMA, "NVIDIA H100")))["report"])
    name = next(name for name in body["files"] if "live" in name)
    body["files"][name]["numbering"] = "mine"
    plain = {key: value for key, value in body.items() if key not in ("kind", "schema", "sha256")}
    return json.dumps({"report": documents.seal(merge.KIND, plain), "code": 0, "words": ""})


LIES = {
    "no JSON": "{",
    "no text": 7,
    "other keys": json.dumps({"report": None, "code": 0, "words": "", "shell": "rm"}),
    "no report": json.dumps({"report": "{}", "code": 0, "words": ""}),
    "an edited finding": edited,
    "another device": lambda folder: answer(folder, measured(MMA, "NVIDIA A100")),
    "another method": lambda folder: answer(folder, published().measurement("sm_90", "sass", WMMA)),
    "a lone surrogate": '{"report": "\\ud800", "code": 0, "words": ""}',
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("lie", LIES)
def test_a_lying_machine_is_asked_no_more_and_what_it_did_is_done_again(tmp_path, lie):
    """Also what it did before it was found out: the first of three runs. The honest one makes all."""

    class Liar(Machine):
        def run(self, arguments, folder):
            true = super().run(arguments, folder)
            made = LIES[lie]
            return true if len(self.asked) == 1 else made(folder) if callable(made) else made

    class Single(Machines):
        def slots(self):
            return dict.fromkeys(self.machines, 1)

    liar, honest = Liar(*GPUS), Machine(*GPUS)
    said = []
    crew = Single(tmp_path, liar=liar, honest=honest)
    outcomes, _ = Fleet(crew, Request((MMA,), method="live"), [""], said.append, 1.0).run(Results(tmp_path / "ours"))
    assert {outcome.machine for outcome in outcomes} == {"honest"}
    assert (len(liar.asked), len(honest.asked)) == (2, 3)
    assert any("liar: " in line and "It gets no more jobs." in line for line in said)
    assert tree(tmp_path / "ours") == single(tmp_path, *(measured(MMA, name) for name in GPUS))


@pytest.mark.parametrize(
    "bad",
    [
        Machine("NVIDIA H100", tcprobe="0.0.0"),
        type("Odd", (Machine,), {"offer": lambda self: json.dumps({"tcprobe": __version__, "devices": [3]})})(),
        type("Vast", (Machine,), {"offer": lambda self: "x" * (2 << 20)})(),
    ],
    ids=["another version", "no offer", "vast"],
)
def test_an_offer_that_is_none_is_refused(tmp_path, bad):
    with pytest.raises(EnvironmentUnfitError, match="no machine of the fleet has what this needs"):
        fleet(tmp_path, bad=bad)
    assert bad.asked == []
    assert not (tmp_path / "ours").exists()


def test_no_machine_at_all(tmp_path):
    with pytest.raises(EnvironmentUnfitError, match="the fleet is empty"):
        fleet(tmp_path)


def test_random_answers_end_in_words(tmp_path, sample):
    """Bytes of a true answer changed at random: refused, or the same as the true one."""
    true, rng = answer(tmp_path, measured(MMA, "NVIDIA H100")), random.Random(3)
    for _ in sample(range(200), 20):
        at = rng.randrange(len(true))
        damaged = true[:at] + chr(rng.randrange(32, 127)) + true[at + 1 :]
        outcomes, _, _ = fleet(tmp_path, a=Broken("NVIDIA H100", answer=damaged))
        (outcome,) = outcomes.values()
        assert damaged == true or outcome.words or outcome.findings == [measured(MMA, "NVIDIA H100")]


@pytest.mark.parametrize("option", [("--device", "1"), ("--stages",), ("--report", "r")])
def test_options_of_one_machine_are_refused(option):
    assert f"{option[0]} is for one machine" in tcprobe("run", "--scheduler", "tcp://h:1", *option, code=2).stderr


@pytest.mark.parametrize("address", ["h:1", "http://h:1", "tcp://h", "tcp://a b:1"])
def test_what_is_no_address_is_refused(address):
    assert "Dask" in tcprobe("run", "--scheduler", address, code=2).stderr
