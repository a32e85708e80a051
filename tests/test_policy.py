"""Requirements: the grammar with its columns, what each question answers on recorded machines, and the exit code."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudadoctor import policy
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.guard import Guard
from cudadoctor.model.report import Report, RequirementResult
from cudadoctor.model.requirements import Policy
from cudadoctor.parsers.read import read
from cudadoctor.policy.grammar import EXAMPLES, UNITS
from cudadoctor.policy.questions import ALONE, KINDS, QUESTIONS
from cudadoctor.report.json import schema
from cudadoctor.sources import pasted
from tests.cases import every
from tests.command_line import HEALTHY, NAMES, NOUVEAU, changed, evidence_of, host, lines, records, run
from tests.judging import KNOWLEDGE, report_of

VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema()))
TODAY = dt.date(2026, 11, 21)
H200 = "h200-healthy"
TWO = "two-gpus-mixed-healthy"


def judged(name: str) -> tuple[Report, Evidence]:
    return report_of(name), evidence_of(name)


def with_policy(report: Report, evidence: Evidence, *texts: str) -> Report:
    return policy.applied(report, read(evidence, Guard(), KNOWLEDGE), Policy(requirements=policy.requirements(texts)), today=TODAY)


def asked(name: str, text: str) -> RequirementResult:
    return with_policy(*judged(name), text).requirements[0]


# ---------------------------------------------------------------- grammar
@pytest.mark.parametrize(
    ("text", "name", "operator", "value"),
    [
        ("gpus>=2", "gpus", ">=", 2),
        ("  gpus  >=  2  ", "gpus", ">=", 2),
        ("gpus=2", "gpus", "==", 2),
        ("GPUs!=0", "gpus", "!=", 0),
        ("driver>=535.104", "driver", ">=", "535.104"),
        ("driver-branch==580", "driver-branch", "==", 580),
        ("memory>=40GiB", "memory", ">=", 40 * 2**30),
        ("memory>=40 GB", "memory", ">=", 40e9),
        ("free_memory>512MiB", "free-memory", ">", 512 * 2**20),
        ("h2d_bandwidth>=20GB/s", "h2d-bandwidth", ">=", 20),
        ("h2d-bandwidth>=20000MB/s", "h2d-bandwidth", ">=", 20),
        ("h2d-bandwidth>=80%", "h2d-bandwidth", ">=", 0.8),
        ("launch-latency<=0.02ms", "launch-latency", "<=", 20),
        ("launch-latency<=20\u00b5s", "launch-latency", "<=", 20),
        ("fp32>=30TFLOP/s", "fp32", ">=", 30),
        ("gpu-name ~ H200", "gpu-name", "~", "H200"),
        ("gpu-name == 'NVIDIA H200'", "gpu-name", "==", "NVIDIA H200"),
        ("ecc", "ecc", "==", "on"),
        ("ecc==ON", "ecc", "==", "on"),
        ("mig==off", "mig", "==", "off"),
        ("smoke", "smoke", "==", "on"),
        ("torch-cuda", "torch-cuda", "==", "on"),
        ("torch-cuda>=12.4", "torch-cuda", ">=", "12.4"),
    ],
)
def test_a_requirement_is_typed(text: str, name: str, operator: str, value: float | str) -> None:
    found = policy.requirement(text)
    assert (found.name, found.operator, found.number if found.number is not None else found.words) == (
        name,
        operator,
        pytest.approx(value) if isinstance(value, float) else value,
    )
    assert found.text == text.strip()


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "a name has to stand here"),
        (">=2", 1, "a name has to stand here"),
        ("gpuz>=2", 1, "near it: gpus"),
        ("  gpuz>=2", 3, "near it: gpus"),
        ("gpus", 5, "gpus needs an operator"),
        ("gpus 2", 6, "an operator has to stand here"),
        ("gpus=>2", 5, "'=>' is no operator"),
        ("gpus>=", 7, "a whole number such as 2 has to stand here"),
        ("gpus>=two", 7, "a whole number such as 2 has to stand here"),
        ("gpus>=-1", 7, "has to stand here"),
        ("gpus>=1.5", 7, "gpus counts"),
        ("gpus>=2GiB", 8, "'GiB' is no unit of gpus"),
        ("gpus>=2 or 3", 9, "'or' is no unit of gpus"),
        ("gpus~2", 5, "gpus does not take ~"),
        ("memory>=40", 11, "memory needs a unit: a size such as 40GiB"),
        ("memory>=40GB/s", 11, "'GB/s' is no unit of memory"),
        ("memory>=40GiB,", 14, "',' is too much"),
        ("memory>=40%", 11, "'%' is no unit of memory"),
        ("h2d-bandwidth>=20GiB", 18, "'GiB' is no unit of h2d-bandwidth"),
        ("driver>=v535", 9, "a version such as 535 or 12.4 has to stand here"),
        ("driver>=535.x", 12, "a version such as 535 or 12.4 has to stand here"),
        ("ecc>=on", 4, "ecc does not take >="),
        ("ecc==maybe", 6, "neither on nor off"),
        ("gpu-name==", 11, "a name has to stand here"),
        ("gpu-name==''", 11, "a name has to stand here"),
    ],
)
def test_a_wrong_requirement_is_told_with_its_column(text: str, column: int, words: str) -> None:
    with pytest.raises(policy.RequirementError) as error:
        policy.requirement(text)
    assert error.value.column == column
    assert words in error.value.why
    assert f"column {column}: " in str(error.value)


@given(st.text(max_size=40))
def test_any_text_is_a_requirement_or_an_error_with_a_column(text: str) -> None:
    column = 1
    try:
        assert policy.requirement(text).name in QUESTIONS
    except policy.RequirementError as error:
        column = error.column
    assert 1 <= column <= len(text) + 1


@given(st.sampled_from(sorted(KINDS)), st.sampled_from((">=", "<=", "==", "!=", ">", "<", "~", "")), st.text(max_size=12))
def test_any_value_is_understood_or_refused(name: str, operator: str, value: str) -> None:
    try:
        found = policy.requirement(f"{name}{operator}{value}")
    except policy.RequirementError:
        return
    assert (found.number is None) != (found.words is None)


def test_every_kind_has_an_example_that_is_understood() -> None:
    for name, kind in KINDS.items():
        if kind in UNITS:
            unit = next(iter(unit for unit in ("GiB", "GB/s", "us", "TFLOP/s", "Gop/s", "") if unit in UNITS[kind]))
            assert policy.requirement(f"{name}>=1{unit}").number == pytest.approx(UNITS[kind][unit])
        assert EXAMPLES[kind]


# ---------------------------------------------------------------- what machines answer
@pytest.mark.parametrize(
    ("name", "text", "met", "words"),
    [
        (H200, "gpus>=1", True, "1 visible to CUDA (NVIDIA H200)"),
        (H200, "gpus>=2", False, "1 visible to CUDA"),
        (H200, "gpus==1", True, "1 visible"),
        (TWO, "gpus>=2", True, "2 visible"),
        (NOUVEAU, "gpus>=1", False, "0 visible to CUDA"),
        (NOUVEAU, "gpus==0", True, "0 visible to CUDA"),
        (H200, "gpu-name~h200", True, "NVIDIA H200"),
        (H200, "gpu-name=='NVIDIA H200'", True, "NVIDIA H200"),
        (H200, "gpu-name!=NVIDIA H200", False, "NVIDIA H200"),
        (H200, "driver>=535", True, "580.159.04"),
        (H200, "driver==580", True, "580.159.04"),
        (H200, "driver==580.159", True, "580.159.04"),
        (H200, "driver==580.65", False, "580.159.04"),
        (H200, "driver>580", False, "580.159.04"),
        (H200, "driver<=580", True, "580.159.04"),
        (H200, "driver>=580.160", False, "580.159.04"),
        (H200, "driver", True, "580.159.04"),
        (NOUVEAU, "driver>=300", False, "no driver is loaded"),
        (H200, "driver-branch==580", True, "580.159.04"),
        (H200, "cuda>=12.4", True, "13.0"),
        (H200, "cuda>=13.1", False, "13.0"),
        (NOUVEAU, "cuda>=11", False, "no driver"),
        (H200, "toolkit>=13", True, "13.0.88 (nvcc)"),
        (H200, "toolkit<13", False, "13.0.88"),
        (H200, "compute-capability>=8.0", True, "9.0"),
        (H200, "compute-capability>=10.0", False, "9.0"),
        (H200, "memory>=100GiB", True, "140.4 GiB"),
        (H200, "memory>=200GiB", False, "140.4 GiB"),
        (H200, "free-memory>=130GiB", True, "139.8 GiB"),
        ("h200-memory-some-left", "free-memory>=130GiB", False, "GiB"),
        (H200, "exclusive", True, "no other process"),
        ("h200-memory-some-left", "exclusive", False, "("),
        (H200, "ecc", True, "on"),
        (H200, "ecc==off", False, "on"),
        (H200, "ecc-errors==0", True, "0 uncorrected"),
        (H200, "persistence", True, "on"),
        (H200, "mig==off", True, "off"),
        (H200, "mig", False, "off"),
        ("mig-slice-healthy", "mig", True, "on"),
        (H200, "pcie-width>=16", True, "16 while copying"),
        (H200, "pcie-generation>=5", True, "5 while copying"),
        ("pcie-link-x4", "pcie-width>=16", False, "4"),
        (H200, "nvlink", False, "this GPU has no NVLink"),
        ("nvlink-one-link-down", "nvlink", False, "11 of 12 links up"),
        (H200, "numba>=0.61", True, "0.68.0"),
        (H200, "numba<0.61", False, "0.68.0"),
        (H200, "numba-cuda", True, "0.30.4"),
        (H200, "torch>=2.4", True, "2.11.0"),
        (H200, "torch-cuda>=12", True, "for CUDA 13.0"),
        ("h200-torch-cpu", "torch-cuda", False, "built without CUDA"),
        ("h200-torch-cpu", "torch", True, "2."),
        (HEALTHY, "torch", False, "not installed in"),
        (HEALTHY, "torch-cuda", False, "not installed in"),
        (H200, "smoke", True, "every kernel was right on 1 GPU"),
        (NOUVEAU, "smoke", False, "no GPU is visible to CUDA"),
        ("gpu-computes-wrong", "smoke", False, "failed"),
        (H200, "h2d_bandwidth>=20GB/s", True, "55.44 GB/s, 88% of 63 GB/s"),
        (H200, "h2d_bandwidth>=60GB/s", False, "55.44 GB/s"),
        (H200, "h2d-bandwidth>=80%", True, "88%"),
        (H200, "h2d-bandwidth>=95%", False, "88%"),
        (H200, "memory-bandwidth>=4TB/s", True, "4171 GB/s"),
        (H200, "launch-latency<=10us", True, "8.823 us"),
        (H200, "launch-latency<=1us", False, "8.823 us"),
        (NOUVEAU, "h2d-bandwidth>=1GB/s", False, "no GPU is visible to CUDA"),
    ],
)
def test_what_a_machine_answers(name: str, text: str, met: bool, words: str) -> None:
    result = asked(name, text)
    assert result.met is met, result
    assert words in (result.found or result.why or "")
    assert (result.why is None) == met
    if not met:
        assert result.why is not None
        assert result.why.startswith(f"asked for {text}, found ")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("partial-recording", "gpus>=1", ""),
        (H200, "both-pinned>=1GB/s", "both_pinned was not measured"),
        (H200, "launch-queued<=1us", "launch_queued was not measured"),
    ],
)
def test_what_nobody_knows_is_not_met_and_says_why(name: str, text: str, why: str) -> None:
    result = asked(name, text)
    assert result.met is None
    assert result.why
    assert why in (result.why or "")
    assert with_policy(*judged(name), text).exit_code == 1


def test_a_share_of_an_unknown_limit_is_not_known() -> None:
    report, evidence = judged(H200)
    figures = tuple(msgspec.structs.replace(one, limit=None, share=None) for one in report.benchmark)
    result = with_policy(msgspec.structs.replace(report, benchmark=figures), evidence, "h2d-bandwidth>=80%").requirements[0]
    assert result.met is None
    assert "no limit is known" in (result.why or "")


def test_every_gpu_has_to_meet_it_and_the_one_that_does_not_is_named() -> None:
    result = asked(TWO, "memory>=23GiB")
    assert result.met is False
    assert "GPU 0: " in (result.found or "")
    assert "GPU 1: " in (result.found or "")
    assert (result.why or "").count("GPU ") == 1


def test_a_link_at_rest_is_no_slow_link() -> None:
    """A GPU trains its link down when idle: without a copy nobody knows, with one the copy counts."""

    def idle(body: str) -> str:
        return lines([{**record, **({"pcie_generation": 1} if record.get("event") == "gpu" else {})} for record in records(body)])

    evidence = changed(H200, {"nvml": idle})
    report = judge(evidence, KNOWLEDGE)
    assert with_policy(report, evidence, "pcie-generation>=5").requirements[0].met is True
    at_rest = msgspec.structs.replace(report, benchmark=())
    result = with_policy(at_rest, evidence, "pcie-generation>=5").requirements[0]
    assert result.met is None
    assert "at rest the link is at generation 1" in (result.why or "")


def test_memory_in_use_that_nobody_is_listed_for_leaves_it_open() -> None:
    def used(body: str) -> str:
        return lines([{**record, **({"memory_used_bytes": 2 << 30} if record.get("event") == "gpu" else {})} for record in records(body)])

    evidence = changed(H200, {"nvml": used})
    result = with_policy(judge(evidence, KNOWLEDGE), evidence, "exclusive").requirements[0]
    assert result.met is None
    assert "2.0 GiB are in use, and NVML lists no process" in (result.why or "")


def test_quick_leaves_out_what_a_kernel_would_answer() -> None:
    report, evidence = judged(H200)
    quick = msgspec.structs.replace(report, smoke=(), benchmark=(), origin=msgspec.structs.replace(report.origin, quick=True))
    found = with_policy(quick, evidence, "smoke", "h2d-bandwidth>=1GB/s").requirements
    assert [result.met for result in found] == [None, None]
    assert all("--quick" in (result.why or "") for result in found)


def test_the_words_of_a_user_answer_nothing() -> None:
    evidence = pasted.evidence_of(b"NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0\n")
    found = with_policy(judge(evidence, KNOWLEDGE), evidence, "driver>=535", "cuda>=12", "gpus>=1").requirements
    assert [result.met for result in found] == [None, None, None]


@every("name", NAMES, share=3)
def test_every_question_is_answered_on_every_machine(name: str) -> None:
    """None fails, and what is not met says why."""
    texts = [
        *sorted(ALONE),
        *(f"{name}>=0{'.0' if kind == 'version' else ''}" for name, kind in KINDS.items() if kind in ("count", "version")),
    ]
    texts += [f"{name}>=0{next(iter(UNITS[kind]))}" for name, kind in KINDS.items() if kind in UNITS and kind != "count"]
    report = with_policy(*judged(name), *texts)
    VALIDATOR.validate(json.loads(msgspec.json.encode(report)))
    for result in report.requirements:
        assert (result.why is None) == (result.met is True), result
        assert result.met is None or result.found, result
        said = (result.why or "").partition("the ladder gave no answer")[0]  # which quotes the interpreter
        assert not any(word in said for word in ("Error", "nobody answered")), result


# ---------------------------------------------------------------- versions
@pytest.mark.parametrize(
    ("found", "text", "met"),
    [
        ("0.62.0rc1", "numba>=0.62", False),
        ("0.62.0rc1", "numba<0.62", True),
        ("0.62.0", "numba>=0.62", True),
        ("0.9", "numba<0.10", True),
        ("2.4.1+cu121", "torch==2.4.1", True),
        ("2.4.1+cu121", "torch<=2.4.1", True),
        ("2.10", "torch>=2.9", True),
        ("2", "torch==2.0", True),
    ],
)
def test_versions(found: str, text: str, met: bool) -> None:
    from cudadoctor.policy.base import Answer
    from cudadoctor.policy.comparing import holds

    assert holds(policy.requirement(text), Answer(value=found)) is met


# ---------------------------------------------------------------- report and exit code
def test_the_verdict_stays_the_machines() -> None:
    report = with_policy(*judged(H200), "gpus>=2")
    assert report.verdict == "healthy"
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--require", "gpus>=1", "--require", "driver>=535"), 0),
        (("--require", "gpus>=1", "--require", "driver>=999"), 1),
        (("--require", "both-pinned>=1GB/s"), 1),
        (("--require", "gpus=>1"), 2),
    ],
)
def test_exit_code(arguments: tuple[str, ...], code: int) -> None:
    for command in ("check", "smoke"):
        assert run(command, "--replay", host(H200), *arguments).code == code


def test_one_block_says_what_was_asked_found_and_missing() -> None:
    out = run("check", "--replay", host(H200), "--require", "driver>=535", "--require", "gpus>=2").out
    block = out[out.index("Required: 1 of 2 not met") :].splitlines()
    assert block[1].strip() == "gpus>=2: not met (1 visible to CUDA (NVIDIA H200))"
    whole = run("check", "-v", "--replay", host(H200), "--require", "driver>=535", "--require", "gpus>=2").out
    block = whole[whole.index("Required: 1 of 2 not met") :].splitlines()
    assert block[1].split(maxsplit=3) == ["not", "met", "gpus>=2", "1 visible to CUDA (NVIDIA H200)"]
    assert block[2].split() == ["met", "driver>=535", "580.159.04"]
    assert "Required, and met: driver>=535" in run("check", "--replay", host(H200), "--require", "driver>=535").out


def test_a_wrong_requirement_is_pointed_at_and_nothing_runs() -> None:
    result = run("check", "--replay", host(H200), "--require", "memory>=40")
    assert result.code == 2
    assert result.out == ""
    lines_ = result.err.splitlines()
    place = next(number for number, line in enumerate(lines_) if line.strip() == "memory>=40")
    assert lines_[place + 1].index("^") - lines_[place].index("memory") == 10


def test_requirements_stand_in_the_json() -> None:
    found: dict[str, Any] = json.loads(run("check", "--replay", host(H200), "--require", "gpus>=2", "--format", "json").out)
    assert found["requirements"] == [
        {
            "text": "gpus>=2",
            "met": False,
            "found": "1 visible to CUDA (NVIDIA H200)",
            "why": "asked for gpus>=2, found 1 visible to CUDA (NVIDIA H200)",
        }
    ]
    assert found["exit_code"] == 1


def test_every_figure_of_the_benchmark_can_be_required() -> None:
    assert {figure.name.replace("_", "-") for figure in KNOWLEDGE.figures} <= set(QUESTIONS)


# ---------------------------------------------------------------- numbers that Python does not make
@pytest.mark.parametrize("name", ["driver", "numba"])
def test_a_number_of_thousands_of_digits_is_more_than_a_machine_has(name: str) -> None:
    result = run("check", "--replay", host(H200), "--require", f"{name}>={'9' * 5000}", "--format", "json")
    report = json.loads(result.out)
    assert (result.code, report["requirements"][0]["met"], report["diagnosis"]["crashes"]) == (1, False, [])


def test_a_question_that_fails_leaves_its_demand_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(policy.comparing, "holds", broken)
    result = asked(H200, "gpus>=1")
    assert (result.met, result.why) == (None, "RuntimeError: broken")


def test_in_wsl_the_driver_is_that_of_windows() -> None:
    """It has no module there: the library that Windows brings says its version."""
    answer = run("check", "--replay", host("wsl2-healthy"), "--require", "driver>=560.90", "--require", "driver>=561", "--format", "json")
    met = [(one["text"], one["met"]) for one in json.loads(answer.out)["requirements"]]
    assert met == [("driver>=560.90", True), ("driver>=561", False)]
