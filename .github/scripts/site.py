"""Builds the manual's site with Sphinx and Furo from the pages that `cudadoctor guide --pages` writes. Needs the extra `site`.

python .github/scripts/site.py FOLDER

Addresses are stable: causes/<id>/ and, beside it, its Markdown twin causes/<id>.md; llms.txt lists the twins. A link inside that leads
nowhere ends the build.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

from cudadoctor import __version__
from cudadoctor.commands import manual
from cudadoctor.knowledge.load import load
from cudadoctor.model import site
from cudadoctor.model.recipe import Match

SETTINGS = {
    "project": "cudadoctor",
    "version": __version__,
    "release": __version__,
    "extensions": ["myst_parser", "sphinx_copybutton", "sphinx_design"],
    "myst_enable_extensions": ["colon_fence"],
    "html_theme": "furo",
    "html_title": "cudadoctor",
    "html_static_path": ["static"],
    "html_css_files": ["own.css"],
    "html_baseurl": site.ADDRESS,
    "html_copy_source": False,
    "html_show_copyright": False,
    "html_show_sphinx": False,
    "highlight_language": "sh",
    "exclude_patterns": ["llms.txt"],
    # Pages of causes and codes are reached from the lists of their folders, so that no sidebar carries 600 names.
    "suppress_warnings": ["toc.not_included", "misc.highlighting_failure"],
}


# A line that scrolls sideways cannot be reached with the keyboard.
STYLE = ".highlight pre { white-space: pre-wrap; overflow-wrap: anywhere; }\n"
_SENTENCE = re.compile(r"(?<=[a-z)])[.:] ")
MOST = 120  # characters of a sentence that somebody searches for
_FAMILY = re.compile(r"^### On (.+)\n((?:(?!^#{2,3} ).*\n?)*)", re.MULTILINE)


def tabbed(page: str) -> str:
    """The steps of each family as a tab. The Markdown twin has them one below the other."""
    first = page.find("\n### On ")
    if first < 0:
        return page
    before, fixes = page[: first + 1], page[first + 1 :]
    end = max(match.end() for match in _FAMILY.finditer(fixes))
    tabs = (f":::{{tab-item}} {match[1]}\n\n{match[2]}\n:::\n" for match in _FAMILY.finditer(fixes))
    return f"{before}::::{{tab-set}}\n{''.join(tabs)}::::\n\n{fixes[end:]}"


def indexed(page: str, entries: list[str]) -> str:
    """A page with the words by which the search finds it at once: what programs print, and a code as people write it."""
    plain = dict.fromkeys(" ".join(re.sub(r"[;!`\\{}|]", " ", entry).split()) for entry in entries)
    return "".join(f"```{{index}} !single: {entry}\n```\n\n" for entry in plain if len(entry) > 3) + page


def sentences(match: Match) -> list[str]:
    """What a program prints, and its examples' sentences that hold it."""
    whole = (sentence for example in match.examples for line in example.split("\n") for sentence in _SENTENCE.split(line))
    return [*match.literals, *(one for one in whole if len(one) <= MOST and any(literal in one for literal in match.literals))]


def sidebar(index: str, heads: list[str]) -> str:
    """The index with the names of the sidebar, which only Sphinx reads."""
    return "\n".join((index, "```{toctree}", ":hidden:", "", *heads, "```", ""))


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        source, made = Path(work, "source"), Path(work, "made")
        manual.write_files(str(source), load())
        index = source / "index.md"
        heads = [path.removesuffix(".md") for path in dict.fromkeys(manual.linked(index.read_text("utf-8")))]
        twins = {path: path.read_bytes() for path in sorted(source.rglob("*")) if path.is_file()}
        index.write_text(sidebar(index.read_text("utf-8"), heads), "utf-8")
        knowledge = load()
        said = {f"cuda-{error.code}": error.message for error in knowledge.cuda_errors}
        for page in source.glob("causes/*.md"):
            cause = knowledge.causes.get(page.stem)
            printed = [words for match in cause.match for words in sentences(match)] if cause is not None else []
            page.write_text(indexed(tabbed(page.read_text("utf-8")), printed), "utf-8")
        for page in source.glob("codes/*-*.md"):
            page.write_text(indexed(page.read_text("utf-8"), [page.stem.replace("-", " "), said.get(page.stem) or ""]), "utf-8")
        (source / "static").mkdir()
        (source / "static" / "own.css").write_text(STYLE, "utf-8")
        places = (str(source), None, str(made), str(Path(work, "trees")))
        app = Sphinx(*places, "dirhtml", confoverrides=SETTINGS, status=None, warningiserror=True, parallel=os.cpu_count() or 1)
        app.build()
        if app.statuscode:
            sys.exit(app.statuscode)
        for path, content in twins.items():
            made.joinpath(path.relative_to(source)).write_bytes(content)
        shutil.copytree(made, folder, dirs_exist_ok=True)
    print(f"{sum(1 for _ in folder.rglob('*.html'))} pages in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
