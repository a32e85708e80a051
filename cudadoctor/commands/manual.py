"""The manual: the pages of cudadoctor/guide/, and one for each cause, code, GPU architecture and environment variable, as Markdown.

`cudadoctor guide` prints a page, `cudadoctor guide --pages DIR` writes them all; .github/scripts/site.py makes the site of those files.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

from cudadoctor.commands import explaining
from cudadoctor.knowledge import lookup
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.report import manual_pages
from cudadoctor.report.manual_pages import Entry

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guide")
INDEX = "index"
SKILL = "skill"
_ENTRY = re.compile(r"^\* \[([\w-]+)\]\(([\w-]+\.md)\): (.+)$", re.MULTILINE)


# ---------------------------------------------------------------- the pages that were written by hand
def names() -> list[str]:
    """The pages in the order of their list, which is itself one."""
    return [INDEX, *(entry.path.removesuffix(".md") for entry in _entries()), SKILL]


def page(name: str) -> str:
    """KeyError where there is no such page."""
    if name not in names():
        raise KeyError(name)
    path = os.path.join(FOLDER, *(("skill", "SKILL.md") if name == SKILL else (f"{name}.md",)))
    with open(path, encoding="utf-8") as file:
        return file.read()


def linked(text: str) -> list[str]:
    """The pages that a page leads to, in their order."""
    return re.findall(r"\]\(([\w/-]+\.md)\)", text)


def _entries() -> list[Entry]:
    with open(os.path.join(FOLDER, f"{INDEX}.md"), encoding="utf-8") as file:
        return [Entry(path, name, beside) for name, path, beside in _ENTRY.findall(file.read())]


# ---------------------------------------------------------------- all of them
def files(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """(path, text) of every page, from the manual's root."""
    parts: dict[str, list[Entry]] = {"Manual": _entries()}
    for entry in parts["Manual"]:
        yield entry.path, page(entry.path.removesuffix(".md"))
    yield "causes/index.md", manual_pages.index(knowledge.causes)
    parts["Causes"] = [Entry(f"causes/{cause.id}.md", cause.title) for cause in knowledge.causes.values()]
    for cause_id in knowledge.causes:
        yield f"causes/{cause_id}.md", manual_pages.of_cause(explaining.document(cause_id, knowledge))
    for folder, title, why, questions in _REFERENCE:
        parts[title] = []
        for name, question in questions(knowledge):
            entry, text = _explained(f"{folder}/{name}.md", question, knowledge)
            parts[title].append(entry)
            yield entry.path, text
        yield f"{folder}/index.md", manual_pages.listing(title, why, parts[title])
    yield "messages.md", manual_pages.messages(knowledge.causes)
    yield "index.md", page(INDEX) + _reference()
    yield "llms.txt", manual_pages.llms(parts)


def _explained(path: str, question: str, knowledge: Knowledge) -> tuple[Entry, str]:
    """The page that answers a question to `cudadoctor explain`."""
    found = lookup.explain_code(question, knowledge)
    if found is None or not (found.matches or found.topics):
        raise KeyError(question)
    if found.matches:
        return Entry(path, manual_pages.called(found.matches[0])), manual_pages.of_codes(found.matches, knowledge.causes)
    return Entry(path, found.topics[0].title), manual_pages.of_topics(found.topics, knowledge.causes)


def _codes(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    numbers: dict[str, set[int]] = {
        "cuda": {error.code for error in knowledge.cuda_errors},
        "nvml": {error.code for error in knowledge.nvml_errors},
        "xid": {xid.number for xid in knowledge.xids},
        "nvidia-smi": {one.code for one in knowledge.smi_exits},
    }
    for api, found in numbers.items():
        for number in sorted(found):
            yield f"{api}-{number}", f"{api} {number}"


def _gpus(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    for architecture in knowledge.architectures:
        yield architecture.id, architecture.name
    for capability in knowledge.capabilities:
        yield f"sm_{capability.cc.replace('.', '')}", f"sm_{capability.cc.replace('.', '')}"


def _variables(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    for name in sorted({*(row.name for row in knowledge.env_vars), *(row.name for row in knowledge.numba_env)}):
        yield name, name


_REFERENCE = (
    ("codes", "Codes", "What each code of CUDA, NVML, nvidia-smi and the kernel's Xid means, and what usually causes it.", _codes),
    ("gpus", "GPUs", "Architectures and compute capabilities, and the drivers and toolkits that serve them.", _gpus),
    ("variables", "Environment variables", "What each does, and what usually goes wrong with it.", _variables),
)


def _reference() -> str:
    heads = [("causes", "Causes", "the causes that are named"), *((folder, title, why) for folder, title, why, _ in _REFERENCE)]
    rows = [f"* [{title}]({folder}/index.md): {why[0].lower()}{why[1:].rstrip('.')}" for folder, title, why in heads]
    rows += ["* [Messages](messages.md): what programs print, and the cause that it speaks of"]
    return "\n".join(("", "## Reference", "", *rows)) + "\n"


def _is_manual(path: str) -> bool:
    """Whether it begins as the list of the pages does."""
    if not os.path.isfile(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.readline(100) == page(INDEX).partition("\n")[0] + "\n"


def write_files(folder: str, knowledge: Knowledge) -> str:
    """Writes all pages into a folder, which is made where it is missing, and says so. OSError where it cannot be written, or holds what is
    no manual.
    """
    from cudadoctor.sources import writing

    if os.path.isdir(folder) and os.listdir(folder) and not _is_manual(os.path.join(folder, "index.md")):
        raise FileExistsError(errno.EEXIST, "it holds other files: name a new folder", folder)
    number = 0
    for number, (path, text) in enumerate(files(knowledge), 1):  # noqa: B007
        with writing.held(os.path.join(folder, os.path.dirname(path)), made=[], mode=0o777) as place:
            writing.text(os.path.join(place, os.path.basename(path)), text)
    return f"{number} pages written to {folder}\n"
