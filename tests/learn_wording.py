"""Learns cudadoctor/knowledge/tables/wording.toml anew; needs scikit-learn, which nothing else here does.

    python -m tests.learn_wording [FOLDER ...] [--measure FOLDER]

Each FOLDER holds folders with a report.txt (what somebody pasted) and a case.toml (its cause), as fixtures/reports does. The project's own
are read too. Of others' texts the table keeps words that several of them share, and nothing else.
--measure leaves a folder out, also the project's own, and prints in how many of its texts the words alone name the cause first, and in how many among three.
"""

from __future__ import annotations

import argparse
import datetime as dt
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

try:
    import tomllib
except ImportError:
    import tomli as tomllib

from cudadoctor.judge.wording import cues, ends
from cudadoctor.knowledge.load import load

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "cudadoctor" / "knowledge" / "tables" / "wording.toml"
MOST = 120  # cues of a cause
LEAST_TEXTS = 3  # that share a cue
KNOWN = load().causes
Sample = tuple[str, str]  # text, cause


def reports(folder: Path) -> Iterator[Sample]:
    for case in sorted(folder.glob("*/case.toml")):
        said = tomllib.loads(case.read_text("utf-8"))
        if said.get("cause") in KNOWN and not said.get("unsure") and said.get("enough", True):
            yield (case.parent / "report.txt").read_text("utf-8", errors="replace"), said["cause"]


def samples(folders: Iterable[Path], left_out: Path | None = None) -> Iterator[Sample]:
    """What is learnt from: nothing of the folder that is left out, however its path is written."""
    yield from own(left_out)
    for folder in folders:
        yield from but_for(left_out, folder)


def but_for(left_out: Path | None, folder: Path) -> Iterator[Sample]:
    if left_out is None or folder.resolve() != left_out.resolve():
        yield from reports(folder)


def own(left_out: Path | None = None) -> Iterator[Sample]:
    """The project's own texts: reports, lines of programs, and what each cause says of itself."""
    yield from but_for(left_out, ROOT / "fixtures" / "reports")
    for file in sorted((ROOT / "tests" / "said_by_programs").glob("*.toml")):
        yield from ((line, file.stem) for line in tomllib.loads(file.read_text("utf-8"))["lines"] if file.stem in KNOWN)
    yield from ((f"{cause.title}\n{cause.why}", cause.id) for cause in KNOWN.values())


def analyzed(text: str) -> list[str]:
    return [cue for _, line in ends(text.splitlines()) for cue in cues(line)]


def learnt(samples: Iterable[Sample]) -> dict[str, list[tuple[float, str]]]:
    """Cause -> weight and cue, strongest first."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC

    texts, causes = zip(*dict.fromkeys(samples), strict=True)
    vectors = TfidfVectorizer(analyzer=analyzed, min_df=LEAST_TEXTS, sublinear_tf=True, binary=True)
    model = LinearSVC(C=1, fit_intercept=False).fit(vectors.fit_transform(texts), causes)
    names, weights = vectors.get_feature_names_out(), model.coef_ * vectors.idf_
    found = {}
    for cause, row in zip(model.classes_, weights, strict=True):
        best = [(round(float(row[at]), 2), str(names[at])) for at in np.argsort(-row)[:MOST]]
        found[str(cause)] = [entry for entry in best if entry[0] >= 0.05]
    return found


def write(table: dict[str, list[tuple[float, str]]], count: int) -> None:
    lines = [
        "# Words, and pairs of words side by side, that point at a cause, with their weights: what a text is suspected of whose messages are not",
        "# known. Learnt by tests/learn_wording.py (a linear classifier) from texts with an established cause; a cue stands here only where",
        f"# at least {LEAST_TEXTS} texts share it, and no text is kept.",
        "",
        "[meta]",
        f'learnt = "{dt.datetime.now(tz=dt.timezone.utc).date()}"',
        f"texts = {count}",
        'source = "texts"',
        "",
        "[sources]",
        'texts = "fixtures/reports, tests/said_by_programs, and public threads of forums and issue trackers with an established cause"',
        "",
        "[cues]",
    ]
    for cause, entries in sorted(table.items()):
        body = ", ".join(f"{weight} {cue}" for weight, cue in entries)
        lines += [f'{cause} = """\\', *(f"{line} \\" for line in textwrap.wrap(body, 138, break_on_hyphens=False)), '"""']
    TARGET.write_text("\n".join(lines) + "\n", "utf-8")


def measure(table: dict[str, list[tuple[float, str]]], folder: Path) -> None:
    right = near = count = 0
    for text, cause in reports(folder):
        seen = set(analyzed(text))
        order = sorted(table, key=lambda one: -sum(weight for weight, cue in table[one] if cue in seen))
        right, near, count = right + (order[0] == cause), near + (cause in order[:3]), count + 1
    print(f"{folder}: first {right}, among three {near}, of {count}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--measure", type=Path)
    options = parser.parse_args()
    everything = list(samples(options.folders, options.measure))
    result = learnt(everything)
    if options.measure is not None:
        measure(result, options.measure)
    else:
        write(result, len(dict.fromkeys(everything)))
