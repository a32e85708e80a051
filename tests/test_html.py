"""The HTML report as a parser reads it: its parts and landmarks on every host, and a machine's words that stay words."""

from __future__ import annotations

import base64
import hashlib
import itertools
import subprocess
import sys
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cudadoctor.model import site
from cudadoctor.model.recipe import Leg, Step
from cudadoctor.report import words
from cudadoctor.report.clean import clean
from cudadoctor.report.text import STATUS_STYLE
from tests.cases import every
from tests.command_line import HEALTHY, NAMES, NOUVEAU, ROOT, host, run
from tests.judging import KNOWLEDGE
from tests.report_pages import Node, page_of, page_tree, saying, tree
from tests.test_formats import EVIL, NARROW, report_of
from tests.test_report_text import CONTROL, HOSTILE

ATTRIBUTES = {
    "aria-hidden", "aria-label", "aria-labelledby", "charset", "checked", "class", "content", "data-line", "data-of", "hidden", "href", "http-equiv",
    "id", "lang", "name", "points", "rel", "role", "scope", "start", "style", "type", "viewbox",
}  # fmt: skip
MANY = ("h200x2-bench", "h200-smoke", NARROW, NOUVEAU, "partial-recording", "laptop-gt740m-nouveau-nothing-installed")


def flat(text: str) -> str:
    return " ".join(clean(text).replace("`", "").split())


def commands(page: Node) -> list[str]:
    """What the copy buttons copy, in their order."""
    buttons = page.all("button", class_="copy")
    assert all((button.attributes.get("aria-label") or "").startswith("Copy ") for button in buttons)
    return [page.one("code", id=button.attributes["data-of"] or "").text for button in buttons]


# ---------------------------------------------------------------- structure
@every("name", NAMES, share=4)
def test_a_page_has_its_landmarks_and_headings(name: str) -> None:
    page = page_tree(name)
    html = page.one("html")
    assert html.attributes["lang"] == "en"
    assert [len(page.all(tag)) for tag in ("header", "main", "footer", "h1", "title", "style", "script")] == [1] * 7
    levels = [int(node.tag[1]) for node in page.all("h1", "h2", "h3")]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(node.text.strip() for node in page.all("h1", "h2", "h3", "button", "summary", "figcaption", "dt", "dd", "li"))
    ids = [node.attributes["id"] for node in page.below if "id" in node.attributes]
    assert len(set(ids)) == len(ids)
    assert all(node.attributes["aria-labelledby"] in ids for node in page.all("section"))
    assert all(section.inner for section in page.all("section"))


@every("name", NAMES, share=4)
def test_verdict_and_cause_stand_at_the_top_and_nothing_is_left_out(name: str) -> None:
    report = report_of(name)
    page = page_tree(name)
    head, body = page.one("header"), page.one("main").words
    assert head.one("p", class_="verdict").text == report.verdict
    root = report.diagnosis.root
    if root is not None:
        assert head.one("h1").text == root.title
        assert root.cause in head.words
        assert flat(KNOWLEDGE.cause(root.cause).why) in body
    else:
        assert head.one("h1").words == flat(words.headline(report))
    diagnosis = report.diagnosis
    for finding in (*diagnosis.explains, *diagnosis.also):
        assert f"{finding.title} {finding.cause}" in body
    for text in (*report.notes, *(leg.text for leg in report.way)):
        assert flat(text) in body
    if report.verdict == "undecided":
        asked = [ask.command for ask in diagnosis.ask]
        assert commands(page)[: len(asked)] == asked
        assert all(finding.title in body for finding in diagnosis.suspects)


@every("name", NAMES, share=4)
def test_every_command_has_its_copy_button(name: str) -> None:
    report = report_of(name)
    steps = (*(report.prescription.steps if report.prescription else ()), *(step for leg in report.way for step in leg.steps))
    wanted = [clean(command) for step in steps for command in (step.shell, step.verify, step.undo) if command]
    page = page_tree(name)
    found = commands(page)
    assert found[len(found) - len(wanted) :] == wanted
    assert all(flat(step.text) in page.one("main").words for step in steps)
    numbers = [int(steps.attributes["start"] or 0) + number for steps in page.all("ol") if "start" in steps.attributes for number in range(len([one for one in steps.inner if isinstance(one, Node)]))]  # fmt: skip
    assert numbers == list(range(1, len(steps) + 1))


@every("name", NAMES, share=4)
def test_quotes_stand_with_their_line_numbers(name: str) -> None:
    report = report_of(name)
    page = page_tree(name)
    figures = [(node.one("figcaption").text, [(line.attributes.get("data-line"), line.text) for line in node.all("code")]) for node in page.all("figure")]  # fmt: skip
    quotes = [quote for row in report.checks for quote in row.evidence]
    quotes += report.diagnosis.root.evidence if report.diagnosis.root else ()
    for quote in quotes:
        lines = clean(quote.text).split("\n")
        known = quote.first is not None and quote.last is not None and quote.last - quote.first + 1 == len(lines)
        numbers = [str(quote.first + index) if known and quote.first is not None else None for index in range(len(lines))]
        assert (words.where(quote), list(zip(numbers, [line or "\u00a0" for line in lines], strict=True))) in figures


@every("name", NAMES, share=4)
def test_gpus_rows_requirements_and_figures_are_all_there(name: str) -> None:
    report = report_of(name)
    page = page_tree(name)
    cards = page.all("ul", class_="cards")
    assert (len([one for one in cards[0].inner if isinstance(one, Node)]) if cards else 0) == len(report.machine.gpus)
    for gpu in report.machine.gpus:
        assert all(text in cards[0].words for text in (gpu.name, gpu.address, gpu.uuid) if text)
    rows = page.all(class_="row")[: len(report.checks)]
    for row, node in zip(report.checks, rows, strict=True):
        assert node.words.startswith(f"{row.status} {row.id} {flat(row.summary)}")
        assert (node.tag == "details") == bool(row.evidence or row.details)
        assert all(flat(detail) in node.words for detail in row.details)
    if report.requirements:
        asked = page.one("h2", id="required")
        unmet = len(words.unmet(report))
        assert asked.text == (f"Required: {unmet} of {len(report.requirements)} not met" if unmet else "Required, and met")
    for result in report.requirements:
        assert flat(f"{words.MET[result.met]} {result.text}") in page.one("main").words
    alone = [figure for figure in report.benchmark if figure.peer is None]
    assert len(page.all(class_="figure")) == len(alone)
    assert len(page.all(class_="bar")) == sum(figure.share is not None and figure.limit is not None for figure in alone)
    assert sum(cell.text != "-" for cell in page.all("td")) == len(report.benchmark) - len(alone)
    shown = {box.attributes["id"]: box for box in page.all("input")}
    assert list(shown) == [f"show-{status}" for status in STATUS_STYLE if any(row.status == status for row in report.checks)]
    assert "e+" not in page.one("main").words
    assert page.one("main").words.count(" slow") >= sum(figure.verdict == "slow" for figure in report.benchmark)


def test_a_page_says_when_and_where_it_was_seen_and_what_its_tick_means() -> None:
    report = report_of("h200x2-bench")
    origin = msgspec.structs.replace(report.origin, kind="live", time="2026-03-04T05:06:07Z", host="tarn")
    page = tree(page_of(msgspec.structs.replace(report, origin=origin)))
    assert "Seen 2026-03-04 05:06:07 UTC on tarn" in page.one("header").words
    assert "the tick is the limit of this GPU or its link" in page.one("main").words


def test_a_bar_is_as_long_as_the_share_of_the_limit() -> None:
    report = report_of(NARROW)
    figure = msgspec.structs.replace(report.benchmark[0], limit=32.0, share=0.19)
    over = msgspec.structs.replace(figure, share=1.25)
    bars = tree(page_of(msgspec.structs.replace(report, benchmark=(figure, over)))).all(class_="bar")
    lengths = [[one.attributes["style"] for one in bar.inner if isinstance(one, Node)] for bar in bars]
    assert lengths == [["width: 19.0%", "left: 100.0%"], ["width: 100.0%", "left: 80.0%"]]


def test_the_administrators_steps_stand_under_a_heading_and_numbers_go_on() -> None:
    report = report_of(NOUVEAU)
    assert report.prescription is not None
    first, *rest = report.prescription.steps[:3]
    steps = (
        first,
        *(msgspec.structs.replace(step, who="administrator") for step in rest),
        msgspec.structs.replace(first, who="afterwards"),
    )
    extra = Step(text="Then this.", shell="true", kind="reads")
    way = (Leg(stage="toolkit", state="to-do", text="a toolkit", steps=(extra,)),)
    changed = msgspec.structs.replace(report, prescription=msgspec.structs.replace(report.prescription, steps=steps), way=way)
    page = tree(page_of(changed))
    heads = [node.text for node in page.all("h3")]
    assert [head for head in heads if head.endswith(":")] == ["Send this to the administrator of this machine:", "Afterwards:"]
    assert [one.attributes["start"] for one in page.all("ol")] == ["1", "2", "4", "5"]


# ---------------------------------------------------------------- one file, no network, nothing of a machine's in the markup
@every("name", NAMES, share=4)
def test_a_page_loads_nothing_and_runs_only_its_own_script(name: str) -> None:
    page = page_tree(name)
    assert {attribute for node in page.below for attribute in node.attributes} <= ATTRIBUTES
    icon, *links = [node.attributes["href"] or "" for node in page.below if "href" in node.attributes]
    assert icon == "data:,"
    assert {link.removeprefix(site.ADDRESS).removeprefix("causes/").rstrip("/") for link in links} <= set(KNOWLEDGE.causes)
    policy = next(node.attributes["content"] or "" for node in page.all("meta") if node.attributes.get("http-equiv"))
    script = base64.b64encode(hashlib.sha256(page.one("script").text.encode()).digest()).decode()
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{script}';" in policy
    assert "url(" not in page.one("style").text
    assert "@import" not in page.one("style").text


@every("name", MANY)
def test_words_of_a_machine_stay_words(name: str) -> None:
    lines = EVIL.count("\n") + 1
    harmless, hostile = (tree(page_of(saying(text, name))) for text in ("\n".join(["a"] * lines) + " `c`", EVIL))
    assert hostile.shape() == harmless.shape()
    assert flat(EVIL) in hostile.one("main").words.replace("`", "")
    assert hostile.one("script").text == harmless.one("script").text


@every("name", MANY)
def test_no_control_character_and_nothing_invisible_is_on_the_page(name: str) -> None:
    body = page_of(saying(HOSTILE, name))
    assert not CONTROL.search(body)
    assert "\\u202eevil" in body


# A prose's backticks and a quote's line feeds make elements; anything else is text.
@given(st.text(st.characters(exclude_characters="`\n"), min_size=1))
@settings(max_examples=40, deadline=None)
def test_no_text_becomes_markup(text: str) -> None:
    assert tree(page_of(saying(f"a{text}"))).shape() == tree(page_of(saying("a"))).shape()


# ---------------------------------------------------------------- on the command line
def test_it_is_written_beside_the_report_on_stdout(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    ended = run("check", "--replay", host(NOUVEAU), "--output", f"html={file}")
    assert ended.out.startswith("BROKEN")
    assert file.read_text("utf-8") == run("check", "--replay", host(NOUVEAU), "--format", "html").out
    assert tree(file.read_text("utf-8")).one("title").text.startswith("cudadoctor: broken: The GPU is bound to nouveau")


def test_jinja2_is_imported_only_for_this_format() -> None:
    code = (
        "import sys; sys.argv = ['cudadoctor', 'check', '--replay', sys.argv[1], '--format', 'text']\n"
        "from cudadoctor.commands.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.exit('jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, host(HEALTHY)], cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode == 0
