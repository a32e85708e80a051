"""Expected findings (verdict, exit code, rows, dates) and the file that states a policy."""

from __future__ import annotations

import datetime as dt
import functools
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor import policy
from cudadoctor.commands import policy_file
from cudadoctor.commands.policy_file import PolicyError, gathered
from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence
from cudadoctor.model.report import Report
from cudadoctor.model.requirements import Ignore, Policy, Requirements
from tests.cases import every
from tests.command_line import HEALTHY, NAMES, evidence_of, host, run
from tests.judging import KNOWLEDGE, cause_of, report_of, with_policy

TODAY = dt.date(2026, 11, 21)
NARROW = "pcie-link-x4"
TWO_FAULTS = "row-remap-pending"  # row-remap-needed, and beside it ecc-uncorrectable


@functools.cache
def judged(name: str, strict: bool = False) -> tuple[Report, Evidence]:
    evidence = evidence_of(name)
    return judge(evidence, KNOWLEDGE, Requirements(strict=True)) if strict else report_of(name), evidence


def without(name: str, *causes: str, until: dt.date | None = None, reason: str | None = None, strict: bool = False) -> Report:
    ignores = tuple(Ignore(cause=cause, until=until, reason=reason) for cause in causes)
    return with_policy(judged(name, strict)[1], Policy(ignores=ignores), TODAY, Requirements(strict=strict))


# ---------------------------------------------------------------- expected findings
def test_an_expected_finding_changes_neither_verdict_nor_exit_code() -> None:
    report = without(NARROW, "pcie-link-degraded", reason="riser with 4 lanes", until=dt.date(2026, 12, 31), strict=True)
    assert (report.verdict, report.exit_code, report.action) == ("healthy", 0, "none")
    assert report.diagnosis.root is None
    assert report.prescription is None
    (finding,) = report.diagnosis.also
    assert finding.cause == "pcie-link-degraded"
    assert finding.ignored is not None
    assert (finding.ignored.reason, finding.ignored.until) == ("riser with 4 lanes", "2026-12-31")
    assert finding.evidence == judged(NARROW)[0].diagnosis.root.evidence  # type: ignore[union-attr]


def test_its_row_is_skipped_because_of_it() -> None:
    rows = {row.id: row for row in without(NARROW, "pcie-link-degraded").checks}
    assert rows["health"].status == "skip"
    assert rows["health"].because == "expected: pcie-link-degraded"


@pytest.mark.parametrize(("until", "counts"), [(TODAY, False), (TODAY - dt.timedelta(days=1), True), (TODAY + dt.timedelta(days=1), False)])
def test_after_its_date_it_counts_again(until: dt.date, counts: bool) -> None:
    report = without(NARROW, "pcie-link-degraded", until=until, strict=True)
    assert report.verdict == ("degraded" if counts else "healthy")
    assert report.exit_code == int(counts)
    assert any("it counts again" in note for note in report.notes) == counts


@pytest.mark.parametrize(("causes", "root", "verdict"), [
    (("row-remap-needed",), "ecc-uncorrectable", "degraded"),
    (("ecc-uncorrectable",), "row-remap-needed", "degraded"),
    (("row-remap-needed", "ecc-uncorrectable"), None, "healthy"),
])  # fmt: skip
def test_what_is_left_decides(causes: tuple[str, ...], root: str | None, verdict: str) -> None:
    report = without(TWO_FAULTS, *causes)
    assert report.verdict == verdict
    assert cause_of(report) == root
    assert (report.prescription.cause if report.prescription else None) == root
    assert {finding.cause for finding in report.diagnosis.also if finding.ignored is not None} == set(causes)


def test_what_an_expected_root_explains_does_not_count_either() -> None:
    report = without("no-gpu-amd-desktop", "no-nvidia-gpu", strict=True)
    assert (report.verdict, report.exit_code) == ("healthy", 0)
    assert report.diagnosis.explains == ()
    assert {(finding.cause, finding.ignored.cause) for finding in report.diagnosis.also if finding.ignored} == {
        ("no-nvidia-gpu", "no-nvidia-gpu"), ("libcuda-missing", "no-nvidia-gpu"),
    }  # fmt: skip
    assert not any(row.status == "fail" for row in report.checks)


def test_nobody_claims_a_kernel_that_did_not_run() -> None:
    from cudadoctor.report import words

    report = without("no-gpu-amd-desktop", "no-nvidia-gpu")
    assert words.headline(report) == f"nothing but what the policy expects: {KNOWLEDGE.cause('no-nvidia-gpu').title} [no-nvidia-gpu]"
    assert any(note.startswith("No Numba kernel was seen to be right") for note in report.notes)
    asked = Policy(ignores=(Ignore(cause="no-nvidia-gpu"),), requirements=policy.requirements(["smoke"]))
    assert with_policy(judged("no-gpu-amd-desktop")[1], asked, TODAY).exit_code == 1


@every("name", NAMES, share=3)
def test_everything_expected_leaves_nothing_to_count(name: str) -> None:
    before = judged(name)[0]
    found = {one.cause for one in (*([before.diagnosis.root] if before.diagnosis.root else []), *before.diagnosis.also)}
    report = without(name, *found, strict=True)
    if found:
        assert (report.verdict, report.exit_code) == ("healthy", 0)
        assert report.diagnosis.root is None
    assert {one.cause for one in report.diagnosis.also} >= found


@every("name", NAMES, share=3)
def test_a_cause_that_is_not_there_changes_nothing(name: str) -> None:
    before = judged(name)[0]
    found = {
        one.cause
        for one in (
            *([before.diagnosis.root] if before.diagnosis.root else []),
            *before.diagnosis.also,
            *before.diagnosis.explains,
            *before.diagnosis.suspects,
        )
    }
    absent = next(cause for cause in KNOWLEDGE.causes if cause not in found)
    assert without(name, absent) == before


def test_an_expected_finding_beside_a_root_that_counts_is_only_marked() -> None:
    report = without(TWO_FAULTS, "ecc-uncorrectable")
    before = judged(TWO_FAULTS)[0]
    assert report.prescription == before.prescription
    assert report.way == before.way


# ---------------------------------------------------------------- the file
def write(folder: Path, text: str, name: str = "cudadoctor.toml") -> str:
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


def found(folder: Path, *texts: str) -> policy_file.Found:
    return gathered(None, texts, KNOWLEDGE.causes, str(folder))


POLICY = """\
require = ["gpus>=2", "driver>=535"]
ignore = ["toolkit-missing", {cause = "pcie-link-degraded", reason = "riser", until = 2027-06-30}]
strict = true
"""


@pytest.mark.parametrize("name", ["cudadoctor.toml", "pyproject.toml"])
def test_the_file_is_found_upward(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_file.trust, "changeable", lambda path: None)
    text = POLICY if name == "cudadoctor.toml" else f"[project]\nname = 'x'\n[tool.cudadoctor]\n{POLICY}"
    path = write(tmp_path, text, name)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    write(below, "[project]\nname = 'y'\n", "pyproject.toml")  # it has no policy: the search goes on
    result = found(below, "memory>=1GiB")
    assert result.policy.source == path
    assert [one.text for one in result.policy.requirements] == ["gpus>=2", "driver>=535", "memory>=1GiB"]
    assert result.policy.ignores == (
        Ignore(cause="toolkit-missing"),
        Ignore(cause="pcie-link-degraded", reason="riser", until=dt.date(2027, 6, 30)),
    )
    assert result.strict


def test_its_own_file_comes_before_the_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_file.trust, "changeable", lambda path: None)
    write(tmp_path, "[tool.cudadoctor]\nrequire = ['gpus>=9']\n", "pyproject.toml")
    path = write(tmp_path, "require = ['gpus>=1']\n")
    assert found(tmp_path).policy.source == path


def test_nothing_is_found_where_there_is_none(tmp_path: Path) -> None:
    assert found(tmp_path) == policy_file.Found(policy=Policy())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("require = ['gpus=>2']", "requirement 'gpus=>2', column 5"),
        ("require = [", "cudadoctor.toml: "),
        ("requires = []", "unknown field `requires`"),
        ("require = 'gpus>=2'", "Expected `array`"),
        ("ignore = ['pcie-link-degrade']", "ignore, entry 1: 'pcie-link-degrade' is no cause. Nearest: pcie-link-degraded"),
        ("ignore = [{cause = 'nouveau-bound', until = 'soon'}]", "encoded date - at `$.ignore[0].until`"),
        ("ignore = [{cause = 'nouveau-bound', why = 'x'}]", "unknown field `why`"),
        ("strict = 1", "Expected `bool`"),
    ],
)
def test_a_wrong_file_is_told_with_its_name_and_place(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(PolicyError) as error:
        gathered(path, (), KNOWLEDGE.causes)
    assert words in str(error.value)
    assert path in str(error.value)
    assert run("check", "--replay", host(HEALTHY), "--policy", path).code == 2


@pytest.mark.parametrize("text", ["[tool.black]\n", "this is [no TOML\n", "tool = 3\n"])
def test_somebody_elses_project_file_is_no_fault(tmp_path: Path, text: str) -> None:
    write(tmp_path, text, "pyproject.toml")
    assert found(tmp_path).policy == Policy()


def test_a_broken_project_file_with_a_policy_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_file.trust, "changeable", lambda path: None)
    write(tmp_path, "[tool.cudadoctor]\nrequire = [\n", "pyproject.toml")
    with pytest.raises(PolicyError):
        found(tmp_path)


@pytest.mark.parametrize("name", ["absent.toml", "."])
def test_a_policy_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(PolicyError):
        gathered(str(tmp_path / name), (), KNOWLEDGE.causes)


def test_a_file_without_a_policy_that_was_named_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"it has no \[tool\.cudadoctor\]"):
        gathered(write(tmp_path, "[project]\n", "pyproject.toml"), (), KNOWLEDGE.causes)


# ---------------------------------------------------------------- who may write it
@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """Every file belongs to root and only root writes it; the dict changes owner and mode of the paths that it names."""
    others: dict[str, tuple[int, int]] = {}
    real = os.lstat

    def lstat(path: Any) -> Any:
        info = real(path)
        owner, mode = others.get(str(path), (0, info.st_mode & ~0o022))
        return os.stat_result((mode, info.st_ino, info.st_dev, info.st_nlink, owner, 0, *info[6:10]))

    monkeypatch.setattr(policy_file.os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(policy_file.os, "lstat", lstat)
    return others


def test_root_reads_its_own_file(tmp_path: Path, as_root: dict[str, tuple[int, int]]) -> None:
    assert found(tmp_path).policy.source is None
    path = write(tmp_path, POLICY)
    assert found(tmp_path).policy.source == path


@pytest.mark.parametrize(("place", "owner", "mode"), [
    ("file", 1000, 0o100644), ("file", 0, 0o100666), ("folder", 1000, 0o040755), ("folder", 0, 0o040777),
])  # fmt: skip
def test_root_reads_no_file_that_another_user_may_write(
    tmp_path: Path, as_root: dict[str, tuple[int, int]], place: str, owner: int, mode: int
) -> None:
    path = write(tmp_path, POLICY)
    as_root[path if place == "file" else str(tmp_path)] = (owner, mode)
    result = found(tmp_path)
    assert result.policy == Policy()
    assert path in (result.refused or "")
    assert gathered(path, (), KNOWLEDGE.causes).policy.source == path  # named, it is read


def test_a_sticky_folder_is_nobody_elses(tmp_path: Path, as_root: dict[str, tuple[int, int]]) -> None:
    path = write(tmp_path, POLICY)
    as_root[str(tmp_path)] = (0, 0o041777)
    assert found(tmp_path).policy.source == path


def test_a_file_that_was_refused_is_said(tmp_path: Path, as_root: dict[str, tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, POLICY)
    as_root[path] = (1000, 0o100644)
    monkeypatch.chdir(tmp_path)
    result = run("check", "--replay", host(HEALTHY))
    assert result.code == 0
    assert f"Warning: {path} was not read" in result.err
    assert "Note: " in result.out
    assert "was not read: a policy that nobody named counts only where no other user" in " ".join(result.out.split())


def test_a_file_of_another_user_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, POLICY)
    monkeypatch.setattr(policy_file.os, "geteuid", lambda: os.stat(path).st_uid + 1)
    monkeypatch.setattr(policy_file.trust, "changeable", lambda path: None)
    if os.stat(path).st_uid == 0:
        os.chown(path, 1000, -1)
    assert found(tmp_path).policy == Policy()
    assert f"{path} was not read" in (found(tmp_path).refused or "")


def test_a_pipe_that_is_found_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cudadoctor.toml")
    writer = os.open(tmp_path / "cudadoctor.toml", os.O_RDWR)
    with pytest.raises(PolicyError, match="it is no plain file"):
        found(tmp_path)
    os.close(writer)


@pytest.mark.parametrize("head", ["[x{0}]\n", "[x{0}.a.a.a.a.a.a.a.a.a.a.a.a.a.a]\n", "x{0}=1\n"])
def test_more_keys_than_any_project_has_are_not_counted_out(tmp_path: Path, head: str) -> None:
    path = write(
        tmp_path,
        "[tool.cudadoctor]\n" + "".join(head.format(number) for number in range(200_000 // head.count(".") if "." in head else 120_000)),
        "pyproject.toml",
    )
    with pytest.raises(PolicyError, match="too many keys"):
        gathered(path, (), KNOWLEDGE.causes)


# ---------------------------------------------------------------- the command
def test_the_report_says_which_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_file.trust, "changeable", lambda path: None)
    path = write(tmp_path, "require = ['gpus>=1']\nstrict = true\nignore = ['nouveau-bound']\n")
    monkeypatch.chdir(tmp_path)
    assert "Required, and met: gpus>=1" in run("check", "--replay", host(NARROW)).out
    result = run("check", "-v", "--replay", host(NARROW))
    assert result.code == 1  # strict comes from the file
    assert f"The policy of {path} counts." in " ".join(result.out.split())
    assert run("check", "--replay", host("seed-gt740m-nouveau")).code == 1  # gpus>=1
    other = write(tmp_path, "ignore = [{cause = 'pcie-link-degraded', reason = 'riser | 4 lanes', until = 2999-01-01}]\n", "other.toml")
    result = run("check", "--replay", host(NARROW), "--policy", other)
    assert result.code == 0
    assert "expected: riser | 4 lanes, until 2999-01-01" in " ".join(result.out.split())


def test_the_same_policy_gives_the_same_report() -> None:
    assert msgspec.json.encode(without(NARROW, "pcie-link-degraded")) == msgspec.json.encode(without(NARROW, "pcie-link-degraded"))


# ---------------------------------------------------------------- a stranger's file
@pytest.mark.parametrize(("mode", "counts"), [(0o777, False), (0o1777, True), (0o775, True)])
def test_where_everybody_may_replace_it_a_policy_does_not_count(mode: int, counts: bool, tmp_path: Path) -> None:
    """It need not be the one that was looked at a moment ago."""
    (tmp_path / "shared" / "mine").mkdir(parents=True)
    (tmp_path / "shared" / "cudadoctor.toml").write_text("strict = true\n")
    (tmp_path / "shared").chmod(mode)
    one = policy_file._of_a_stranger(str(tmp_path / "shared" / "cudadoctor.toml"))
    assert one == (None if counts else "lies in a folder where every user may replace it")


@pytest.mark.parametrize("dot", [".", "     .     ", "\t.\t\t\t\t\t", '"."."', "'.'.'"])
def test_a_key_with_many_parts_is_refused_before_it_is_read(dot: str, tmp_path: Path) -> None:
    (tmp_path / "cudadoctor.toml").write_text(
        f"{dot.join('a' * 20_000)} = 1\n".replace('a"', '"a"') if '"' not in dot else f'"a{dot * 9000}" = 1\n'
    )
    with pytest.raises(PolicyError, match="more than 64 parts"):
        found(tmp_path)


@pytest.mark.parametrize(("part", "dot"), [('"a"', "."), ("'.'", "."), ('","', " . "), ('"\\t"', ".")])
def test_so_is_one_whose_parts_are_quoted(part: str, dot: str, tmp_path: Path) -> None:
    (tmp_path / "cudadoctor.toml").write_text(f"{dot.join([part] * 9000)} = 1\n")
    with pytest.raises(PolicyError, match="more than 64 parts"):
        found(tmp_path)


def test_a_long_list_is_no_key(tmp_path: Path) -> None:
    entries = ", ".join('"driver>=535.54.3"' for _ in range(500))
    (tmp_path / "cudadoctor.toml").write_text(f"require = [{entries}]\n")
    assert len(found(tmp_path).policy.requirements) == 500


def test_quotes_hide_no_key(tmp_path: Path) -> None:
    text = f'x = ["""a"""", \'\'\'\n\'\'\']\n{".".join("a" * 20_000)} = 1\n'
    (tmp_path / "cudadoctor.toml").write_text(text)
    with pytest.raises(PolicyError, match="more than 64 parts"):
        found(tmp_path)


@pytest.mark.parametrize("line", ['why = """\n{}\n"""', 'why = "{}"', "why = '{}'", "# {}"])
def test_dots_in_texts_are_no_parts(line: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.cudadoctor]\nstrict = true\n[project]\n{line.format('.' * 500)}\n")
    assert found(tmp_path).strict


def test_a_project_that_does_not_speak_of_the_doctor_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.x]\n{'.'.join('a' * 20_000)} = 1\n")
    assert found(tmp_path) == policy_file.Found(policy=Policy())


def test_a_folder_of_any_name_may_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that was called when its system wrote Latin-1."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    (folder / "cudadoctor.toml").write_bytes(b"\xef\xbb\xbfrequire = ['gpus>=99']\n")
    monkeypatch.chdir(folder)
    result = run("check", "--replay", host(HEALTHY), "--format", "json")
    assert (result.code, result.err) == (1, "")
    assert "caf\\\\xe9/cudadoctor.toml" in result.out


TOO_MUCH = (("require = ['", "gpus>=1 ", "']"), ("require = [", '"gpus>=1",', "]"), ("ignore = ['", "x", "']"))


@pytest.mark.parametrize(("start", "part", "end"), TOO_MUCH)
def test_what_no_page_holds_is_refused_in_few_words(start: str, part: str, end: str, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(start + part * 2000 + end)
    with pytest.raises(PolicyError) as refused:
        gathered(str(tmp_path / "p.toml"), (), KNOWLEDGE.causes)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("pyproject.toml", "# " + "x" * 300_000 + '\n[tool.cudadoctor]\nrequire = ["gpus >= 99"]\n'),
        ("pyproject.toml", '[tool]\ncudadoctor.require = ["gpus >= 99"]\n]]\n'),
        ("pyproject.toml", '[ tool . cudadoctor ]\nrequire = ["gpus >= 99"]\n]]\n'),
    ],
)
def test_no_demand_is_lost_in_a_file_that_is_long_or_broken(name: str, body: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(body)
    if body.startswith("#"):
        assert len(gathered(None, (), NAMES, str(tmp_path)).policy.requirements) == 1
    else:
        with pytest.raises(PolicyError, match=name):
            gathered(None, (), NAMES, str(tmp_path))


@pytest.mark.parametrize("kind", ["link", "folder", "UTF-16"])
def test_a_policy_that_cannot_be_read_is_not_passed_over(kind: str, tmp_path: Path) -> None:
    own = tmp_path / "cudadoctor.toml"
    if kind == "link":
        own.symlink_to(tmp_path / "share" / "none")
    elif kind == "folder":
        own.mkdir()
    else:
        (tmp_path / "pyproject.toml").write_bytes('[tool.cudadoctor]\nrequire = ["gpus >= 99"]\n'.encode("utf-16"))
    with pytest.raises(PolicyError):
        gathered(None, (), NAMES, str(tmp_path))


def test_a_project_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.cudadoctor]\nrequire = ["gpus >= 99"]\n')

    def refused(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(policy_file.plain_files, "text", refused)
    found = gathered(None, (), NAMES, str(tmp_path))
    assert found.policy.requirements == ()
    assert f"{tmp_path / 'pyproject.toml'} was not read" in (found.refused or "")
