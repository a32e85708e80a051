"""The manual as files: every cause, code, GPU and variable has a page that says what its TOML says, and no text in it can become markup."""

from __future__ import annotations

import functools
import posixpath
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudadoctor.commands import explaining, manual
from cudadoctor.knowledge import lookup
from cudadoctor.model import site
from cudadoctor.model.explanation import CauseDocument, Fix
from cudadoctor.model.recipe import Step
from cudadoctor.report import explanation_text, manual_pages
from cudadoctor.report.page import Style
from tests.cases import every
from tests.command_line import run
from tests.judging import KNOWLEDGE

HOSTILE = "<script>x</script> [a](http://evil) ![b](c) `tick ``` | *x* _y_ # &lt; \\ ~~z~~ @someone www.evil.example \u202e\x1b[31m"


@functools.cache
def pages() -> dict[str, str]:
    """The text of each file of the manual."""
    return dict(manual.files(KNOWLEDGE))


@functools.cache
def document(cause: str = "driver-not-loaded") -> CauseDocument:
    return explaining.document(cause, KNOWLEDGE)


# ---------------------------------------------------------------- what is written
def test_there_is_a_file_for_each_cause_and_an_index() -> None:
    written = {path for path in pages() if path.startswith("causes/")}
    assert written == {"causes/index.md", *(f"causes/{cause}.md" for cause in KNOWLEDGE.causes)}
    for cause in KNOWLEDGE.causes.values():
        assert f"[`{cause.id}`]({cause.id}.md)" in pages()["causes/index.md"]


@every("cause", sorted(KNOWLEDGE.causes))
def test_a_page_says_what_the_causes_file_says(cause: str) -> None:
    text, known = pages()[f"causes/{cause}.md"], KNOWLEDGE.cause(cause)
    assert text.startswith("# ")
    assert manual_pages.escaped(known.title) in text.splitlines()[0]
    assert manual_pages.prose(known.why) in text
    assert known.tell_apart in text
    assert f"row of `cudadoctor check`: `{known.row}`" in text
    for rung in known.breaks:
        assert f"`{rung}`" in text
    for other in known.yields_to:
        assert f"]({other}.md)" in text
    for match in known.match:
        assert all(manual_pages.code(literal) in text for literal in match.literals)
    for source in known.sources:
        assert manual_pages.source(source) in text
    assert "\n## Fix\n" in text
    if known.no_software_fix:
        assert manual_pages.prose(known.no_software_fix) in text


@every("cause", sorted(KNOWLEDGE.causes))
def test_the_terminal_prints_the_same(cause: str) -> None:
    """Every step, command, message and neighbour of the file, and no other."""
    shown = document(cause)
    text = explanation_text.of_cause(shown, Style(width=100))
    flat = " ".join(text.split())
    for step in (step for fix in shown.fixes for step in fix.steps):
        assert " ".join(step.text.split()) in flat
        for command in (step.shell, step.verify, step.undo):
            for line in (command or "").split("\n"):
                assert line.strip() in text
                assert line.strip() in pages()[f"causes/{cause}.md"]
    for said in (*shown.page.messages, *shown.page.hints, *shown.page.codes, *shown.page.yields_to, *shown.yielded_by):
        assert " ".join(said.split()) in flat


def test_who_steps_back_for_whom_is_said_on_both_pages() -> None:
    for cause in KNOWLEDGE.causes.values():
        for other in cause.yields_to:
            if other in KNOWLEDGE.causes:
                assert cause.id in document(other).yielded_by
    assert document("no-nvidia-gpu").page.no_software_fix
    assert "simulator" in document("no-nvidia-gpu").fixes[0].steps[-2].text  # what works without a cure is told beside it


def test_links_lead_to_pages_and_every_page_is_two_clicks_from_the_index() -> None:
    links = {
        name: {posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) for target in re.findall(r"\]\(([^):]+\.md)\)", text)}
        for name, text in pages().items()
    }
    for name, targets in links.items():
        assert targets <= set(pages()), (name, targets - set(pages()))
    once = links["index.md"]
    assert {"index.md", *once, *(path for name in once for path in links[name])} == set(pages()) - {"llms.txt"}


def test_every_code_gpu_and_variable_has_a_page_that_says_what_explain_says() -> None:
    for path, question in (("codes/cuda-100.md", "cuda 100"), ("codes/xid-79.md", "Xid 79"), ("codes/nvml-3.md", "nvml 3")):
        found = lookup.explain_code(question, KNOWLEDGE)
        assert found is not None
        assert manual_pages.prose(found.matches[0].meaning) in pages()[path]
        for cause in found.matches[0].causes:
            assert f"](../causes/{cause}.md)" in pages()[path]
    assert {f"codes/xid-{xid.number}.md" for xid in KNOWLEDGE.xids} <= set(pages())
    assert {f"variables/{row.name}.md" for row in KNOWLEDGE.env_vars} <= set(pages())
    assert {f"gpus/{row.id}.md" for row in KNOWLEDGE.architectures} <= set(pages())


def test_messages_are_in_the_index_with_their_cause() -> None:
    for cause in KNOWLEDGE.causes.values():
        for match in cause.match:
            assert all(manual_pages.code(example) in pages()["messages.md"] for example in match.examples)
    assert "No CUDA GPUs are available" in pages()["codes/cuda-100.md"]


def test_llms_txt_names_the_twin_of_every_page() -> None:
    named = set(re.findall(rf"\({re.escape(site.ADDRESS)}(.+?)\)", pages()["llms.txt"]))
    assert named == {path for path in pages() if path.rpartition("/")[2] not in ("index.md", "llms.txt", "messages.md")}


def test_the_command_writes_them(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    result = run("guide", "--pages", str(folder))
    assert (result.code, result.err) == (0, "")
    assert {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()} == pages()
    assert run("guide", "--pages", str(folder)).code == 0  # those of before are written anew
    (folder / "index.md").write_text("mine", "utf-8")
    others = run("guide", "--pages", str(folder))
    assert (others.code, others.err.splitlines()[-1]) == (2, f"Error: --pages {folder}: it holds other files: name a new folder")
    assert (folder / "index.md").read_text("utf-8") == "mine"
    (tmp_path / "file").write_text("", "utf-8")
    refused = run("guide", "--pages", str(tmp_path / "file"))
    assert (refused.code, refused.out) == (2, "")
    assert "--pages" in refused.err


# ---------------------------------------------------------------- a page on the terminal
@every("name", manual.names())
def test_a_page_on_the_terminal_says_what_its_file_says(name: str) -> None:
    source = manual.page(name)
    assert source.isascii()
    shown = run("guide", name, "--color", "never").out
    for fence in re.findall(r"```\w*\n(.*?)```", source, re.DOTALL):  # a command is never cut or wrapped
        assert all(line.strip() in shown for line in fence.splitlines())
    bare = re.sub(r"\s+", " ", shown)
    for sentence in re.findall(r"^[A-Z][^|`*\[\n]{30,}$", re.sub(r"```.*?```", "", source, flags=re.DOTALL), re.MULTILINE):
        assert " ".join(sentence.split()) in bare
    assert name == manual.SKILL or "](" not in shown


def test_a_page_that_is_not_there_is_answered_with_the_nearest() -> None:
    result = run("guide", "demand")
    assert result.code == 2
    assert "Nearest: demands" in result.err
    assert run("guide", "../index").code == 2
    assert all(f" {name}: " in run("guide").out for name in manual.names() if name not in (manual.INDEX, manual.SKILL))


# ---------------------------------------------------------------- the steps of each family
def step(text: str, shell: str | None = None) -> Step:
    return Step(text=text, shell=shell, kind="reads")


def test_each_family_has_its_own_list_and_alike_lists_stand_together() -> None:
    shown = document("secure-boot-blocks-module")
    by_system = {system: fix.steps for fix in shown.fixes for system in fix.systems}
    assert set(by_system) == set(explaining.SYSTEMS.values())
    assert by_system["Ubuntu"] != by_system["Debian"] != by_system["Fedora"]
    assert ["Fedora", "Fedora's images"] in [list(fix.systems) for fix in document("driver-not-installed").fixes]
    text = pages()["causes/secure-boot-blocks-module.md"]
    assert text.count("1. See which key signed the module.") == len(shown.fixes) - 2  # Windows and NixOS have no such key
    assert "### On Fedora\n" in text


def test_where_all_do_the_same_no_family_is_named() -> None:
    (only,) = document("libcuda-stub-loaded").fixes
    assert only.systems == ()


# ---------------------------------------------------------------- nothing becomes markup
def hostile_document() -> CauseDocument:
    page = msgspec.structs.replace(
        document().page, title=HOSTILE, why=HOSTILE, tell_apart=f"echo {HOSTILE}\n```\nend", messages=(HOSTILE,), hints=("``` three",),
        sources=(HOSTILE, "https://example.org/a_b"), yields_to=("no-nvidia-gpu",),
    )  # fmt: skip
    bad = msgspec.structs.replace(step(HOSTILE, "a\n````\nb"), verify=HOSTILE, undo="```")
    fixes = (Fix(systems=(HOSTILE, "x"), steps=(bad,)), Fix(systems=("y",), steps=(bad, bad)))
    return CauseDocument(page=page, titles={"no-nvidia-gpu": HOSTILE}, yielded_by=(), fixes=fixes)


def without_code(text: str) -> str:
    """The page without its fences and code spans, as a Markdown reader finds them."""
    kept: list[str] = []
    fence: str | None = None
    for line in text.split("\n"):
        bare = line.strip()
        opened = re.match(r"(`{3,})(?:sh)?$", bare)
        if fence is None and opened is not None:
            fence = opened[1]
        elif fence is not None and bare == fence:
            fence = None
        elif fence is None:
            kept.append(line)
    assert fence is None, "a fence was left open"
    return re.sub(r"(?<![\\`])(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", "\n".join(kept))


def test_hostile_text_stays_text() -> None:
    text = manual_pages.of_cause(hostile_document())
    assert "\u202e" not in text
    assert "\x1b" not in text
    rest = re.sub(r"\\[\\`*_\[\]<>&~|$#!:.)(+=-]", "", without_code(text))
    assert "<" not in rest.replace("<https://example.org/a_b>", "")
    assert "![" not in rest
    assert "http://evil" not in rest
    links = re.findall(r"\]\(([^)]*)\)", rest)
    assert [link for link in links if not re.fullmatch(r"\.\./codes/[a-z0-9-]+\.md", link)] == ["no-nvidia-gpu.md"]
    assert "`" not in rest
    assert "@someone" not in rest
    assert "www.evil" not in rest


@given(st.text(max_size=60))
def test_prose_code_and_blocks_hold_any_text(text: str) -> None:
    assert "\n" not in manual_pages.escaped(text)
    assert "\n" not in manual_pages.prose(text)
    span = manual_pages.code(text)
    ticks = re.match(r"`+", span)
    assert ticks is not None
    assert span.endswith(ticks.group())
    assert ticks.group() not in list(re.findall(r"`+", span[len(ticks.group()) : -len(ticks.group())]))
    lines = manual_pages.block(text).split("\n")
    assert lines[0].removesuffix("sh") == lines[-1]
    assert not any(line.strip().startswith(lines[-1]) for line in lines[1:-1])


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1. one", "1\\. one"),
        ("- item", "\\- item"),
        ("+ item", "\\+ item"),
        ("# head", "\\# head"),
        ("> quote", "\\> quote"),
        ("a * b", "a \\* b"),
        ("plain (words), and more.", "plain (words), and more."),
        ("see https://x.org", "see https\\://x.org"),
    ],
)
def test_what_opens_markup_is_escaped_and_the_rest_is_left_alone(text: str, written: str) -> None:
    assert manual_pages.escaped(text) == written
