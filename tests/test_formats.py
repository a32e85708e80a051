"""The formats for machines and dashboards: each is read back by what reads it, and a machine's words stay words in all of them."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families

from cudadoctor import policy
from cudadoctor.judge.stages import judge
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import Crash
from cudadoctor.model.report import Report
from cudadoctor.model.requirements import Ignore, Policy, Requirements
from cudadoctor.report import words
from cudadoctor.report.formats import FORMATS
from cudadoctor.report.page import Style
from cudadoctor.sources import pasted
from tests.cases import every
from tests.command_line import DEGRADED, HEALTHY, HOSTS, HUNG, NAMES, NOUVEAU, evidence_of, host, run
from tests.judging import KNOWLEDGE, with_policy
from tests.test_report_text import CONTROL, HOSTILE, infected

TODAY = dt.date(2026, 11, 21)
NARROW = "pcie-link-x4"
ASKED = ("gpus>=1", "driver>=535", "smoke", "both-pinned>=1GB/s")
# Words that mean something to one of the readers.
EVIL = "a|b\r\n::error title=x::y\n##[warning]z %0A %25 , : ]]> <script>alert(1)</script> &amp; \"q\" 'q' \\ `c` **b** [l](http://x) <img src=x> {} # $(id) \x00\ud800\ufffe"
GOLDEN = {
    "junit": "report.xml",
    "markdown": "report.md",
    "github": "report.github",
    "gitlab": "report.gitlab.json",
    "prometheus": "report.prom",
}
GOLDEN_HOST = HOSTS / NARROW


@functools.cache
def report_of(name: str) -> Report:
    """With two requirements that are met, one that is not, one that nobody knows, and an expected finding."""
    evidence = evidence_of(name)
    asked = Policy(requirements=policy.requirements(ASKED), ignores=(Ignore(cause="framework-cpu-build", reason=EVIL),))
    return with_policy(evidence, asked, TODAY)


@functools.cache
def hostile(name: str) -> Report:
    evidence = infected(name)
    asked = Policy(requirements=policy.requirements((*ASKED, "exclusive", f"gpu-name~{EVIL}")))
    return with_policy(evidence, asked, TODAY)


def shown(report: Report, form: str) -> str:
    return FORMATS[form].render(report, KNOWLEDGE, Style(width=100))


def with_words(text: str) -> Report:
    """A report whose every word that a machine may choose is this text."""
    report = report_of("h200-in-use")
    root = report.diagnosis.root
    assert root is not None
    quote = Quote(source=text, first=1, last=1, text=text)
    root = msgspec.structs.replace(root, subject=f"gpu:{text}", evidence=(quote,))
    return msgspec.structs.replace(
        report,
        machine=msgspec.structs.replace(report.machine, distribution=text, gpus=tuple(msgspec.structs.replace(gpu, name=text, uuid=text, address=None, index=0) for gpu in report.machine.gpus * 2)),
        diagnosis=msgspec.structs.replace(report.diagnosis, root=root, also=(root,), crashes=(Crash(stage="s", name=text, error=text),)),
        checks=tuple(msgspec.structs.replace(row, summary=text, because=text, evidence=(quote,), details=(text,)) for row in report.checks),
        requirements=tuple(msgspec.structs.replace(result, text=f"gpu-name~{text}", found=text, why=text) for result in report.requirements),
        notes=(text,),
    )  # fmt: skip


# ---------------------------------------------------------------- golden
@pytest.mark.parametrize("form", GOLDEN)
def test_golden(form: str) -> None:
    """UPDATE_GOLDEN=1 writes the files anew; read the difference before you commit it."""
    path = GOLDEN_HOST / GOLDEN[form]
    now = shown(report_of(NARROW), form)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(now, "utf-8")
    assert now == path.read_text("utf-8")


# ---------------------------------------------------------------- every format
@every("name, form", itertools.product(NAMES, FORMATS), share=20)
def test_every_report_has_every_format_and_the_same_report_the_same_text(name: str, form: str) -> None:
    body = shown(report_of(name), form)
    assert body.endswith("\n")
    assert body == shown(report_of(name), form)


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "json"])
@pytest.mark.parametrize("name", [HEALTHY, HUNG, NOUVEAU, DEGRADED, "h200-memory-some-left", "h200-no-memory-left-orphan"])
def test_words_of_the_machine_never_steer_a_terminal_or_log(name: str, form: str) -> None:
    assert not CONTROL.search(shown(hostile(name), form))


# ---------------------------------------------------------------- junit
def junit(report: Report) -> dict[str, dict[str, Any]]:
    found = JUnitXml.fromstring(shown(report, "junit").encode())
    return {suite.name: {case.name: case for case in suite} for suite in found}


def check_junit(report: Report) -> None:
    suites = junit(report)
    assert [case for case in suites["cudadoctor.rows"]] == [row.id for row in report.checks]  # noqa: C416
    assert len(suites.get("cudadoctor.requirements", {})) == len({words.one_line(one.text) for one in report.requirements})
    for row in report.checks:
        kinds = {type(result) for result in suites["cudadoctor.rows"][row.id].result}
        assert kinds == ({Failure} if row.status == "fail" else {Skipped} if row.status in ("skip", "unknown") else set())
    for one in report.requirements:
        failed = any(isinstance(result, Failure) for result in suites["cudadoctor.requirements"][words.one_line(one.text)].result)
        assert failed == (one.met is not True)


@every("name", NAMES)
def test_junit_has_one_case_for_each_row_and_requirement(name: str) -> None:
    check_junit(report_of(name))
    whole = JUnitXml.fromstring(shown(report_of(name), "junit").encode())
    counted = [(suite.tests, suite.failures, suite.skipped) for suite in whole]
    for suite, (tests, failures, skipped) in zip(whole, counted, strict=True):
        results = [{type(result) for result in case.result} for case in suite]
        assert (tests, failures, skipped) == (
            len(results),
            sum(Failure in kinds for kinds in results),
            sum(Skipped in kinds for kinds in results),
        )


def test_junit_says_why_in_the_failure() -> None:
    (failure,) = junit(report_of(NOUVEAU))["cudadoctor.rows"]["driver"].result
    root = report_of(NOUVEAU).diagnosis.root
    assert root is not None
    assert failure.message == f"{root.title} [nouveau-bound]"
    assert failure.type == "nouveau-bound"
    assert "Fix:" in failure.text
    assert root.evidence[0].text.splitlines()[0] in failure.text


def test_junit_of_an_undecided_machine_is_not_green() -> None:
    (result,) = junit(report_of("partial-recording"))["cudadoctor.verdict"]["verdict"].result
    assert isinstance(result, Error)


def test_junit_fails_a_degraded_machine_under_strict() -> None:
    report = judge(evidence_of(NARROW), KNOWLEDGE, Requirements(strict=True))
    failed = [case for case, found in junit(report)["cudadoctor.rows"].items() if any(isinstance(one, Failure) for one in found.result)]
    assert failed == ["health"]
    assert not any(found.result for found in junit(judge(evidence_of(NARROW), KNOWLEDGE))["cudadoctor.rows"].values())


# ---------------------------------------------------------------- prometheus
SERIES = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def metrics(report: Report) -> SERIES:
    """Every sample by name and labels; none comes twice, and each family has its HELP and TYPE."""
    body = shown(report, "prometheus")
    found: SERIES = {}
    for family in text_string_to_metric_families(body):
        assert family.documentation
        assert family.type == "gauge"
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    assert len([line for line in body.splitlines() if not line.startswith("#")]) == len(found)
    return found


@every("name", NAMES)
def test_prometheus_is_read_by_the_official_parser(name: str) -> None:
    report, found = report_of(name), metrics(report_of(name))
    verdicts = {dict(labels)["verdict"]: value for (metric, labels), value in found.items() if metric == "cudadoctor_verdict"}
    assert verdicts == {verdict: float(verdict == report.verdict) for verdict in ("healthy", "degraded", "broken", "undecided")}
    for row in report.checks:
        key = ("cudadoctor_row", (("row", row.id), ("status", row.status)))
        assert found[key] == 1
    for one in report.requirements:
        assert found[("cudadoctor_requirement_met", (("requirement", one.text),))] == float(one.met is True)
    causes = {dict(labels)["cause"] for (metric, labels), _ in found.items() if metric == "cudadoctor_finding"}
    diagnosis = report.diagnosis
    assert causes == {
        one.cause for one in (*([diagnosis.root] if diagnosis.root else []), *diagnosis.explains, *diagnosis.also, *diagnosis.suspects)
    }


def test_prometheus_has_base_units() -> None:
    found = metrics(report_of("h200-healthy"))
    labels = (("figure", "h2d_pinned"), ("gpu", "0"))
    assert found[("cudadoctor_benchmark_bytes_per_second", labels)] == pytest.approx(55.444e9)
    assert found[("cudadoctor_benchmark_limit_ratio", labels)] == pytest.approx(0.88, abs=0.01)
    assert found[("cudadoctor_benchmark_seconds", (("figure", "launch_latency"), ("gpu", "0")))] == pytest.approx(8.823e-6)
    assert found[("cudadoctor_gpu_memory_bytes", (("address", "0000:00:06.0"),))] == 150754820096


# ---------------------------------------------------------------- github
COMMAND = re.compile(r"::(error|warning|notice) title=((?:[^%:,\r\n]|%(?:25|0D|0A|3A|2C))*)::((?:[^%\r\n]|%(?:25|0D|0A))*)")


def annotations(report: Report) -> list[tuple[str, str, str]]:
    """Level, title and message, unescaped as the runner does it."""
    out = []
    for line in shown(report, "github").split("\n")[:-1]:
        match = COMMAND.fullmatch(line)
        assert match, line
        level, title, message = match.groups()
        for code, sign in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            title = title.replace(code, sign)
            message = message.replace(code, sign) if code not in ("%3A", "%2C") else message
        out.append((level, title, message))
    return out


@every("name", NAMES)
def test_annotations_follow_their_grammar(name: str) -> None:
    report, found = report_of(name), annotations(report_of(name))
    root = report.diagnosis.root
    if root is not None:
        level, title, message = found[0]
        assert title == f"cudadoctor: {root.title} [{root.cause}]"
        assert KNOWLEDGE.cause(root.cause).why in message
        assert level == ("error" if report.verdict == "broken" else "warning")
    unmet = [one for one in report.requirements if not one.met]
    assert [title for _, title, _ in found if title.startswith(("cudadoctor: not met", "cudadoctor: not known"))] == [
        f"cudadoctor: {words.MET[one.met]}: {one.text}" for one in unmet
    ]
    assert any(level == "error" for level, _, _ in found) == (report.exit_code != 0)


def test_an_annotation_holds_the_evidence_and_the_fix() -> None:
    message = annotations(report_of(NOUVEAU))[0][2]
    report = report_of(NOUVEAU)
    assert report.diagnosis.root is not None
    assert report.prescription is not None
    assert report.diagnosis.root.evidence[0].text.splitlines()[0] in message
    assert report.prescription.steps[0].text in message


# ---------------------------------------------------------------- gitlab
@every("name", NAMES)
def test_gitlab_issues_have_the_fields_that_it_reads(name: str) -> None:
    report = report_of(name)
    found = json.loads(shown(report, "gitlab"))
    assert len({issue["fingerprint"] for issue in found}) == len(found)
    for issue in found:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["location"] == {"path": ".gitlab-ci.yml", "lines": {"begin": 1}}
        assert issue["description"]
    names = [issue["check_name"] for issue in found]
    assert report.diagnosis.root is None or names[0] == report.diagnosis.root.cause
    assert names.count("requirement") == sum(one.met is not True for one in report.requirements)


def test_a_fingerprint_stays_the_same_where_the_numbers_change() -> None:
    report = report_of("h200-in-use")
    assert report.diagnosis.root is not None
    other = msgspec.structs.replace(report.diagnosis.root, evidence=(Quote(source="x", text="y"),))
    changed = msgspec.structs.replace(report, diagnosis=msgspec.structs.replace(report.diagnosis, root=other))
    first, second = (json.loads(shown(one, "gitlab"))[0]["fingerprint"] for one in (report, changed))
    assert first == second


# ---------------------------------------------------------------- nagios and npd
PERFDATA = re.compile(r"[A-Za-z0-9_]+=-?[0-9.e+-]+(?:us|ms|s|%|B|KB|MB|GB|TB|c)?(?:;[0-9.]*){0,4}")


def check_nagios(report: Report) -> None:
    body = shown(report, "nagios")
    assert body.count("\n") == 1
    assert body.count("|") == 1
    text, _, data = body.rstrip("\n").partition(" | ")
    code = FORMATS["nagios"].exit_code(report)  # type: ignore[misc]
    assert text.startswith(f"CUDADOCTOR {('OK', 'WARNING', 'CRITICAL', 'UNKNOWN')[code]} - ")
    for entry in data.split(" "):
        assert PERFDATA.fullmatch(entry), entry
    labels = [entry.partition("=")[0] for entry in data.split(" ")]
    assert len(set(labels)) == len(labels)


@every("name", NAMES)
def test_nagios_is_one_line_with_its_data(name: str) -> None:
    check_nagios(report_of(name))


@pytest.mark.parametrize(
    ("name", "arguments", "nagios", "npd"),
    [
        (HEALTHY, (), 0, 0),
        (HEALTHY, ("--require", "gpus>=2"), 2, 1),
        (HEALTHY, ("--require", "both-pinned>=1GB/s"), 3, 1),
        (DEGRADED, (), 1, 0),
        (DEGRADED, ("--strict",), 2, 1),
        (NOUVEAU, (), 2, 1),
        ("partial-recording", (), 3, 2),
    ],
)
def test_nagios_and_npd_have_exit_codes_of_their_own(name: str, arguments: tuple[str, ...], nagios: int, npd: int) -> None:
    assert run("check", "--replay", host(name), "--format", "nagios", *arguments).code == nagios
    assert run("check", "--replay", host(name), "--format", "npd", *arguments).code == npd


def check_npd(report: Report) -> None:
    body = shown(report, "npd")
    assert body.count("\n") == 1
    assert len(body.encode()) <= 80
    first = body.split()[0]
    root = report.diagnosis.root
    if root is not None and report.verdict == "broken":
        assert first == root.cause


@every("name", NAMES)
def test_npd_is_one_short_line_with_the_cause_first(name: str) -> None:
    check_npd(report_of(name))


def test_npd_cuts_no_character_in_two() -> None:
    for text in ("é" * 100, "日本" * 60, "a" + "é" * 100, "\U0001f600" * 40):
        report = with_words(text)
        unmet = msgspec.structs.replace(report, verdict="healthy", diagnosis=msgspec.structs.replace(report.diagnosis, root=None))
        body = shown(unmet, "npd")
        assert len(body.encode()) <= 80
        assert body.endswith("...\n")


@pytest.mark.parametrize("form", ["nagios", "npd"])
def test_they_go_to_stdout_only(form: str, tmp_path: Path) -> None:
    assert run("check", "--replay", host(HEALTHY), "--output", f"{form}={tmp_path / 'x'}").code == 2


def test_npd_leaves_out_kernels_and_has_less_than_5_seconds() -> None:
    from cudadoctor.commands import options

    given_ = {"form": "npd", "quick": False, "timeout": 60.0}
    assert options.settled(given_) == {"form": "npd", "quick": True, "timeout": options.NPD_SECONDS}
    assert options.settled({**given_, "form": "text"})["quick"] is False


# ---------------------------------------------------------------- markdown
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def check_markdown(report: Report) -> str:
    """No markup but ours: no image or emphasis, one link, to the cause's page, two HTML tags that fold the rows, and tables whose rows are whole."""
    tokens = MARKDOWN.parse(shown(report, "markdown"))
    flat = [token for token in tokens] + [inner for token in tokens for inner in token.children or ()]  # noqa: C416
    kinds = [token.type for token in flat]
    assert not {"image", "html_inline", "em_open", "s_open"} & set(kinds)
    pages = [report.diagnosis.root.url] if report.diagnosis.root is not None and report.diagnosis.root.url is not None else []
    assert [token.attrs["href"] for token in flat if token.type == "link_open"] == pages
    assert kinds.count("strong_open") == 1
    html = "".join(token.content for token in flat if token.type == "html_block").split()
    assert html == ["<details><summary>All", "rows</summary>", "</details>"]
    assert next(token.tag for token in tokens if token.type == "heading_open") == "h2"
    assert {token.tag for token in tokens if token.type == "heading_open"} <= {"h2", "h3"}
    rows = kinds.count("tr_open") - kinds.count("table_open")
    machine = report.machine
    assert rows >= len(report.checks) + len(report.requirements) + len(report.benchmark) + len(machine.gpus)
    return "".join(token.content for token in flat if token.type in ("text", "code_inline", "fence"))


@every("name", NAMES)
def test_markdown_shows_verdict_cause_and_rows(name: str) -> None:
    report = report_of(name)
    out = check_markdown(report)
    assert f"cudadoctor: {report.verdict}" in out
    for quote in report.diagnosis.root.evidence if report.diagnosis.root else ():
        assert words.clean(quote.text) in out
    for step in report.prescription.steps if report.prescription else ():
        assert (step.shell or "") in out
    for row in report.checks:
        assert row.id in out


def test_markdown_goes_to_the_summary_of_a_github_job(tmp_path: Path) -> None:
    summary, file = tmp_path / "summary", tmp_path / "report.md"
    summary.write_text("before\n")
    variables = {"GITHUB_STEP_SUMMARY": str(summary)}
    run("check", "--replay", host(HEALTHY), variables=variables)
    assert summary.read_text() == "before\n"  # nobody asked for Markdown
    run("check", "--replay", host(HEALTHY), "--output", f"markdown={file}", variables=variables)
    assert summary.read_text() == "before\n" + file.read_text()
    out = run("check", "--replay", host(HEALTHY), "--format", "markdown", variables=variables).out
    assert summary.read_text() == "before\n" + 2 * out
    run("check", "--replay", host(HEALTHY), "--output", f"markdown={summary}", variables=variables)
    assert summary.read_text() == out


# ---------------------------------------------------------------- copies between GPUs
def test_figures_of_pairs_stand_apart() -> None:
    report = report_of("h200-healthy")
    (one, *_) = report.benchmark
    pairs = tuple(
        msgspec.structs.replace(one, name="peer", gpu=gpu, peer=peer, value=20.0, unit="GB/s") for gpu, peer in ((0, 1), (1, 0), (0, 2))
    )
    report = msgspec.structs.replace(report, benchmark=pairs)
    check_all(report)
    assert len([key for key in metrics(report) if key[0] == "cudadoctor_benchmark_bytes_per_second"]) == 3


# ---------------------------------------------------------------- hostile words
def check_all(report: Report) -> None:
    junit(report)
    metrics(report)
    annotations(report)
    json.loads(shown(report, "gitlab"))
    check_nagios(report)
    check_npd(report)
    check_markdown(report)


@pytest.mark.parametrize(
    "text",
    [EVIL, HOSTILE, "", " ", "\n", "-->", "a\\nb", "ends in \\", "```\n# h\n```", "| a |", "</details>", "1. x", "%", "é日本\U0001f600"],
)
def test_words_of_the_machine_stay_words(text: str) -> None:
    report = with_words(text)
    check_all(report)
    assert not any("##[" in line and not line.startswith("::") for line in shown(report, "github").splitlines())
    got = {dict(labels).get("subject") for (metric, labels), _ in metrics(report).items() if metric == "cudadoctor_finding"}
    assert words.one_line(f"gpu:{text}") in got


@settings(max_examples=25, deadline=None)  # others in each run
@given(st.text(max_size=60))
def test_any_words_stay_words(text: str) -> None:
    check_all(with_words(text))


@pytest.mark.parametrize("name", [HEALTHY, NOUVEAU, "h200-memory-some-left", "h200-no-memory-left-orphan", "h200-torch-cpu"])
def test_an_infected_machine_writes_nothing_of_its_own(name: str) -> None:
    check_all(hostile(name))


@pytest.mark.parametrize(
    "text", [b"nothing of the kind", b"CUDA error: CUDA_ERROR_NO_DEVICE\n", b"Failed to initialize NVML: Driver/library version mismatch"]
)
def test_the_report_on_a_text_has_every_format(text: bytes) -> None:
    check_all(judge(pasted.evidence_of(text), KNOWLEDGE))


# ---------------------------------------------------------------- several at once
def test_several_formats_at_once(tmp_path: Path) -> None:
    files = {form: tmp_path / form for form, entry in FORMATS.items() if not entry.only_stdout}
    result = run(
        "check",
        "--replay",
        host(NOUVEAU),
        "--format",
        "nagios",
        *(word for form, path in files.items() for word in ("--output", f"{form}={path}")),
    )
    assert result.out.startswith("CUDADOCTOR CRITICAL - ")
    report = judge(evidence_of(NOUVEAU), KNOWLEDGE)
    for form, path in files.items():
        assert path.read_text("utf-8") == shown(report, form)


@pytest.mark.parametrize("form", ["junit", "github", "prometheus", "gitlab", "markdown", "nagios", "npd"])
def test_stdout_without_unicode_takes_every_format(form: str) -> None:
    result = run("check", "--replay", host(HEALTHY), "--format", form, encoding="ascii")
    assert result.out
    if form == "gitlab":
        assert json.loads(result.out) == []


def test_an_expected_finding_is_a_notice_everywhere() -> None:
    evidence = evidence_of("h200-torch-cpu")
    expected = Policy(ignores=(Ignore(cause="framework-cpu-build", reason="tests only", until=dt.date(2027, 1, 1)),))
    report = with_policy(evidence, expected, TODAY)
    assert [(level, title.split("[")[-1]) for level, title, _ in annotations(report)] == [
        ("notice", "framework-cpu-build]"),
        ("notice", "cudadoctor: healthy"),
    ]
    assert "expected: tests only, until 2027-01-01" in annotations(report)[0][2]
    assert [issue["severity"] for issue in json.loads(shown(report, "gitlab"))] == ["info"]
    assert not any(isinstance(one, Failure) for case in junit(report)["cudadoctor.rows"].values() for one in case.result)
    assert "expected: tests only, until 2027-01-01" in check_markdown(report)
    assert any(dict(labels).get("role") == "expected" for _, labels in metrics(report))
