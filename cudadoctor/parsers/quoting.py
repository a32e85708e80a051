"""Blocks and lines of a text that quote messages and report none, seen from how they are built: source code, what grep found in it, tests
that passed, ruled tables, lists of releases and guides, questions of a FAQ, names of Ansible's tasks, and mail of others; and documents: a
manual page (man-pages(7)), a changelog of Debian (deb-changelog(5)), comments of a Dockerfile, of YAML and of settings, terms and their
meaning, what a list in YAML defines, a mapping from messages to advice, and what git tells of a source.

Only the form counts, and the words that stand at its places (tables/discourse.toml), not what a sentence says. A program's own output has
none of these forms; a traceback, which shows code, is no block of code. A page, a list and a comment end where their form ends: what
somebody writes below is his own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from cudadoctor.knowledge.wording import Discourse
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.shell import command, is_prompt

_SOURCES = "c|h|cc|cpp|cxx|cu|cuh|hpp|inl|py|pyi|rs|go|java|kt|js|ts|sh|md|rst|adoc|toml|po|pot"  # endings of their names
MOST = 5000  # lines of a text that somebody wrote; a longer one is a log
LONGEST = 400  # characters of a line that are looked at
# path:12:  code, as grep finds it in a source. What a compiler or a program says of a place there begins behind one blank at most.
_FOUND = lazy(
    rf"^(?:\./)?(?:[\w.+-]{{1,80}}/){{0,12}}[\w.+-]{{1,80}}\.(?:{_SOURCES})"
    r"[:-]\d{1,6}[:-](?:\s{2}|\t| ?(?:[#/*]|(?:return|raise|throw|case|if|else|def|class|static|const|print\w{0,4}|log\w{0,6})\b)"
    r"|[\w.>-]{1,60} ?(?:=|\(\\?[\"'])|[\"'`]|[-*+] )"
)
_AT = lazy(r"^(?!/etc/)(?:\./|/)?(?:[\w.+-]{1,80}/){0,12}[\w.+-]{1,80}\.\w{1,5}[:-]\d{1,6}[:-]")
_NAMED = lazy(r"^(?:\./)?(?:[\w.+-]{1,80}/){0,12}[\w+-]{1,80}\.\w{1,5}$")  # rg names the file once, above what it found there
_LISTED = lazy(r"^\d{1,6}[:-]")
HUNK = lazy(r"^(?:```diff\s{0,4}$|diff --git a/|@@ -\d{1,7}(?:,\d{1,7})? \+\d{1,7}(?:,\d{1,7})? @@|--- a/|\+\+\+ b/)")
_BBCODE = lazy(r"(?i)\[(?P<end>/?)quote\b[^\]\n]{0,80}\]")
_ENDS = r"(?:[)\]}\"']|=.{1,200}|\breturn\b.{0,200});\s{0,4}(?://.{0,200})?$"
_CODE = lazy(
    r"^\s{0,60}(?:(?:#include|#define|#if|#endif|#pragma|import|from|package|using|namespace|def|class|func|fn|impl|enum|struct|typedef"
    r"|static|const|constexpr|switch|case|default|throw|raise|try|except|catch|elif|else|return|public|private|void|let|var|async|with|assert)\b"
    rf"|[}}\])]{{1,3}}[;,]?\s{{0,4}}$|//|/\*|\*/|@\w)|{_ENDS}|\{{\s{{0,4}}(?://.{{0,200}})?$"
    r"|;;\s{0,4}$|;\s(?:then|do)\s{0,4}$|^\s{0,60}(?:fi|done|esac)\b|^\s{0,60}\{[\"'].{6,300}\},?$"
    r"|^\s{0,60}(?:if|for|while)\b.{0,300}[:{]\s{0,4}$|^\s{0,60}[\w.>-]{1,60}\([^)]{0,300}\)[;:]\s{0,4}$"
)
_STRONG = lazy(
    rf"{_ENDS}|;;\s{{0,4}}$|^\s{{0,60}}(?:fi|done|esac)\s{{0,4}}$"
    r"|^\s{0,60}(?:#include|#define|def \w|class \w|return\b|raise \w|throw\b|case .{1,80}:|func |fn |impl |except\b)"
)
_JSON = lazy(r"^\s{0,60}(?:\"[^\"]{0,200}\"\s{0,4}:|[{}\[\]],?\s{0,4}$)")
_FRAME = lazy(r"^\s{0,12}File \".{1,300}\", line \d{1,7}")
_PROMPT = lazy(r"^\s{0,4}(?:[\w.@:~/\[\] -]{0,80}[$#%] |>>> |\.\.\. |In \[\d)")
_PASSED = lazy(
    r"\bPASSED\b|\bSKIPPED [(\[]|^\s{0,8}\[ {1,10}OK \]|^\s{0,8}ok \d{1,6}\b|^\s{0,8}[✓✔√] |\.{2,60} ?(?:ok|OK|Passed|passed)\b"
    r"|^(?:--- )?PASS:"
)
_FAILED = lazy(r"\b(?:FAILED|not ok|XFAIL)\b|\bERROR\b(?! {1,8}[\w.]{1,80}:[\w.]{1,60}\.py:\d)")  # a record of its log is no result
# The first and the last words of a run of tests in which none failed: of pytest (also with -q), ctest, GoogleTest, cargo, Go and Ginkgo,
# behind the time that GitHub Actions and others put before each line.
_STAMP = r"^(?:\d{4}-\d\d-\d\dT[\d:.]{8,18}Z )?"
_SUITE = lazy(
    rf"{_STAMP}(?:={{3,80}} (?:test session starts|PASSES) |-{{3,80}} live log \w{{3,9}} -|Test project /|\[ {{0,4}}(?:=+|RUN|-+) {{0,6}}\]"
    r"|running \d{1,6} tests?$|=== RUN |Running Suite: |\[sig-[\w-]{2,30}\] |##\[group\]Run [^\n]{0,60}pytest\b)"
)
_ALL_PASSED = lazy(
    rf"{_STAMP}(?:(?:={{3,80}} )?(?:\d{{1,7}} \w{{4,12}}, ){{0,4}}\d{{1,7}} passed"
    r"(?:, \d{1,7} (?:skipped|deselected|xfailed|warnings?)){0,4} in \d"
    r"|100% tests passed|\[ {1,6}PASSED {1,6}\] \d{1,7} tests?\.|test result: ok\.|PASS$|SUCCESS! -- \d{1,7} Passed \| 0 Failed)"
)
_RULE = lazy(r"^\s{0,8}[|+]?(?:\s{0,8}:?[-=]{2,160}:?\s{0,8}[|+]){1,8}(?:\s{0,8}:?[-=]{2,160}:?\s{0,8}[|+]?)?\s{0,4}$")
_PATTERN = lazy(r"(?:^|\s)/(?=[^/\n]{0,200}\s)[^/\s][^/\n]{4,300}/[gimsu]{0,4}[\s,;)]{0,4}$")  # /a regular expression/
_ITEM = lazy(r"^\s{0,12}(?:[-*+•]|\d{1,2}[.)]|\[[ xX]\])\s{1,4}\S")
_OPTION = lazy(r"(?:^|\s)\(?([A-Ha-h])\)\s")  # a letter that stands for an answer
_ALONE = lazy(r"^(?:\W{0,6}Q: |(?:TASK|PLAY|RUNNING HANDLER) \[)")  # a question of a FAQ; the name of what Ansible does
# What stands above a list: a version, a version with its day, and what keepachangelog.com names.
_VERSION = lazy(r"(?i)^\W{0,6}(?:v|version |release )\d{1,3}(?:\.\d{1,4}){1,3}\b")
_RELEASE = lazy(r"#{0,4} ?\[?v?\d{1,3}\.\d{1,3}(?:\.\d{1,4})?\]? {0,2}(?:\(|[-–] ?)?\d{4}-\d\d-\d\d")
_SECTION = lazy(r"(?i)^#{1,4} (?:added|changed|fixed|removed|deprecated|security)\s{0,4}$")
_PYTHON = lazy(r"^>>> ")
_TWICE = lazy(r"^> ?>(?!>)")
_NAMED_ERROR = lazy(r"^[\w.]{1,60}(?:Error|Exception|Warning): ")
_FEW = 3  # lines that make a block
# Documents.
_PAGE = lazy(r"[\w.:+-]{1,60}\(\d\w{0,6}\)")  # NAME(section), at both ends of a manual page's first line and of its last
_DEB_RELEASE = lazy(r"^[a-z\d][a-z\d+.-]{1,60} \([^()\s]{1,80}\) [\w -]{1,60}; urgency=\w")
_SIGNED = lazy(r"^ -- \S.{0,120}<[^<>\s]{1,80}>  ")
_INSTRUCTION = lazy(
    r"^(?:FROM|RUN|COPY|ADD|ENV|ARG|CMD|ENTRYPOINT|WORKDIR|USER|EXPOSE|VOLUME|LABEL|SHELL|HEALTHCHECK|ONBUILD|STOPSIGNAL) \S"
)
_BEGINS_IMAGE = "FROM "
_KEY = lazy(r"^\s{0,40}(?:- )?[A-Za-z][\w./-]{0,60}:(?: .{0,300})?$|^\s{0,40}- \S")
_COMMENT = lazy(r"^\s{0,40}# ")
_BEHIND_KEY = lazy(r"^\s{0,40}(?:- )?[A-Za-z][\w./-]{0,60}:(?: [^#\n]{0,200})? # |^\s{0,40}- [^#\n]{1,200} # ")
_REMARK = lazy(r"^\s{0,8}(?:#|;|//) (?!/\S{1,400}$)")  # a path alone heads each file that systemctl cat prints
_SETTING = lazy(
    r"^\s{0,8}(?:export )?[A-Za-z_][\w.-]{0,60}\s{0,3}=|^(?:options|blacklist|install|alias|remove|softdep) \S|^\[[A-Za-z][\w. -]{1,60}\]$"
)
_YAML_NAMED = lazy(r"^\s{0,12}- (?:name|id|alert|rule|title): \S")
_DIRECTIVE = lazy(r"^\.\. [a-z][\w:-]{2,40}:: ?")
_TERM = lazy(r"[A-Z][A-Z\d]{0,40}(?:_[A-Z\d]{1,40}){1,8}")
_EXPLAINED = lazy(r"^\s{2,12}\S.{6,2000}\.$")
_ADVISED = lazy(
    r"^\s{0,40}(?:\"(?:[^\s\"]{1,60} ){3,30}[^\s\"]{1,60}\"|'(?:[^\s']{1,60} ){3,30}[^\s']{1,60}')\s{0,4}(?::|=>)\s{0,8}[\"'(\[{]"
)
_PAST = lazy(r"^git (?:--no-pager )?(?:log|show|blame|annotate|diff|grep)\b")
_SEARCH = lazy(r"^(?:e?grep|rg|ag|ack)\b[^|]*$")  # what a pipe hands on is no source
_QUOTED = lazy(r"'[^']{0,400}'|\"[^\"]{0,400}\"")
_PLACE = lazy(  # of what a search found in a source; a compiler's error in a log has a column too
    rf"^(?!/etc/)(?:\./|/)?(?:[\w.+-]{{1,80}}/){{0,16}}[\w.+-]{{1,80}}\.(?:{_SOURCES})[:-](?!\d{{1,6}}[:-]\d{{1,5}}: (?:fatal )?error: )"
)
_COMMIT, _AUTHOR = lazy(r"^commit [0-9a-f]{7,64}\b"), lazy(r"^(?:Author|Merge): ")  # git log, with or without its prompt
_OF_COMMIT = lazy(r"^(?:commit [0-9a-f]{7,40}\b|Merge: |Author: |Date: |diff --git |index |@@ |[ +-])")


class Quoting:
    def __init__(self, discourse: Discourse) -> None:
        self._too, self._guide, self._done, self._own = map(discourse.any_of, ("too", "guide", "done", "own"))
        explains, wrote, mail = (f"(?:{discourse.any_of(name).pattern})" for name in ("explains", "wrote", "mail"))
        self._explains = lazy(rf"\|\s{{0,8}}{explains}\s{{0,8}}(?:\||$)", re.IGNORECASE)
        said = rf"{wrote} ?[:：]\s{{0,4}}$|^\w\w .{{3,80}}{wrote}.{{0,60}}:\s{{0,4}}$|^-{{2,10}} ?{mail}"
        self._wrote = lazy(said, re.IGNORECASE)

    def lines_of(self, lines: Sequence[str]) -> frozenset[int]:
        """Indexes (from 0) of the lines of such blocks, and of lines that are one alone."""
        if len(lines) > MOST:
            return frozenset()
        lines = [line[:LONGEST] for line in lines]
        forms = (
            _searched,
            _code,
            _tests,
            _pages,
            _changelogs,
            _comments,
            _settings,
            _definitions,
            _directives,
            _mappings,
            _terms,
            _history,
            _options,
        )
        found = {index for form in (*forms, self._tables, self._lists, self._mail) for index in form(lines)}
        return frozenset(found).union(index for index, line in enumerate(lines) if _ALONE.match(line))

    def _tables(self, lines: Sequence[str]) -> Iterator[int]:
        """The rows of a table with a rule of dashes below its headings, one of which says that the others are explained; and those of any
        long table of Markdown, which no program prints, but below words of what somebody did."""
        rules = [index for index, line in enumerate(lines) if index and "--" in line and _RULE.match(line)]
        done = next((index for index, line in enumerate(lines) if self._done.search(line)), len(lines)) if rules else 0
        rows = told = 0
        for index in rules:
            rows = max(rows, index + 1)
            while rows < len(lines) and "|" in lines[rows]:
                rows += 1
            drawn = lines[index].lstrip().startswith("|-") and "+" not in lines[index] and rows - index > _FEW and done >= index - 1
            if drawn or self._explains.search(f"|{lines[index - 1].strip(' |')}|"):
                yield from range(max(index + 1, told), rows)
                told = rows

    def _lists(self, lines: Sequence[str]) -> Iterator[int]:
        """The items below a heading of a guide or a release."""
        belongs = lambda index: _ITEM.match(lines[index]) is not None or (lines[index][:2] == "  " and bool(lines[index].strip()))  # noqa: E731
        for block in _runs(lines, belongs):
            items = sum(_ITEM.match(lines[index]) is not None for index in block)
            above = lines[max(0, block[0] - 4) : block[0]]
            heads = any(self._guide.search(line) or _VERSION.search(line) or _RELEASE.match(line) for line in above)
            listed = items >= _FEW and heads and not any(map(self._done.search, above))
            if listed or (above and _SECTION.match(above[-1])):
                yield from block

    def _mail(self, lines: Sequence[str]) -> list[int]:
        """What somebody else wrote, unless the answer says that it is so here too."""
        quoted, own = list(_in_bbcode(lines)), set(range(len(lines)))
        heads = [index for index, line in enumerate(lines) if self._wrote.search(line)]
        if heads:
            quoted += [index for index, line in enumerate(lines) if line.lstrip().startswith(">")]
        quoted += range(next((head + 1 for head in heads if lines[head].startswith("--")), len(lines)), len(lines))
        quoted += self._told_by_others(lines)
        own -= {*quoted, *heads}
        return [] if any(self._too.search(lines[index]) for index in own) else quoted

    def _told_by_others(self, lines: Sequence[str]) -> Iterator[int]:
        """Quoted paragraphs in which somebody speaks of himself, with an answer below; output that is set off so has no speaker."""
        for block in _runs(lines, lambda index: lines[index].startswith(">") and not _PYTHON.match(lines[index])):
            told = [lines[index].lstrip("> ") for index in block]
            answered = any(line.strip() for line in lines[block[-1] + 1 :])
            of_himself = any(self._own.search(line) and not _NAMED_ERROR.match(line) for line in told)
            if answered and of_himself and not any(line.startswith("```") for line in told):
                yield from block
            elif answered:
                yield from (index for index in block if _TWICE.match(lines[index]))


def _searched(lines: Sequence[str]) -> Iterator[int]:
    """Two lines of source code or more that a search found; what stands below a file that it names; a patch."""
    hits = [index for index, line in enumerate(lines) if _FOUND.match(line)]
    for block in _runs(lines, lambda index: _AT.match(lines[index]) is not None):
        hits += block if 2 * len(set(block).intersection(hits)) > len(block) > 1 else ()  # a log among the sources is found with them
    for block in _runs(lines, lambda index: _LISTED.match(lines[index]) is not None):
        hits += block if block[0] and _NAMED.match(lines[block[0] - 1]) else ()
    yield from hits if len(hits) > 1 else ()
    for block in _runs(lines, lambda index: lines[index][:1] in (" ", "+", "-", "@") or HUNK.match(lines[index]) is not None):
        yield from block if any(HUNK.match(lines[index]) for index in block) else ()
    yield from (index for index, line in enumerate(lines) if "/" in line and _PATTERN.search(line))


def _code(lines: Sequence[str]) -> Iterator[int]:
    """Source code: most of its lines have the form of code, and two at least could be nothing else."""
    for block in _runs(lines, lambda index: bool(lines[index].strip()) and not _PROMPT.match(lines[index])):
        if any(_FRAME.match(lines[index]) for index in block):
            continue
        shown = [index for index in block if _CODE.search(lines[index]) and not _JSON.match(lines[index])]
        strong = sum(_STRONG.search(lines[index]) is not None for index in shown)
        if len(shown) >= _FEW and 5 * len(shown) >= 3 * len(block) and strong > 1:
            yield from block


def _tests(lines: Sequence[str]) -> Iterator[int]:
    """Those that passed; where none failed, all that was printed meanwhile."""
    first = None
    for index, line in enumerate(lines):
        if _SUITE.match(line) and first is None:
            first = index
        elif first is not None and _ALL_PASSED.search(line):
            yield from range(first, index) if not any(map(_FAILED.search, lines[first:index])) else ()
            first = None
    yield from (index for index, line in enumerate(lines) if _PASSED.search(line) and not _FAILED.search(line))


def _options(lines: Sequence[str]) -> Iterator[int]:
    """Answers to choose from, below a question: a) and b) in one line, or a), b) and c) one below another."""
    index, asked = 0, False
    while index < len(lines):
        marks = [_marks(line) for line in lines[index : index + 3]]
        end = index + 1
        if asked and (marks == ["a", "b", "c"] or marks[0].startswith("ab")):
            end = next((end for end in range(index, len(lines)) if not _marks(lines[end])), len(lines))
            yield from range(index, end)
        asked = lines[index].rstrip().endswith(("?", "？")) or (asked and not lines[index].strip())
        index = end


def _marks(line: str) -> str:
    """The letters that stand for answers in a line that begins with one."""
    return "".join(mark[1].lower() for mark in _OPTION.finditer(line)) if _OPTION.match(line.lstrip()) else ""


def _in_bbcode(lines: Sequence[str]) -> Iterator[int]:
    """What stands between [quote=...] and [/quote]."""
    inside = False
    for index, line in enumerate(lines):
        marks = [mark["end"] for mark in _BBCODE.finditer(line)]
        inside = inside or "" in marks
        if inside:
            yield index
        inside = inside and marks[-1:] != ["/"]


# ---------------------------------------------------------------- documents that a format tells apart
def _pages(lines: Sequence[str]) -> Iterator[int]:
    """From the first line of a manual page to the last, or to the first line that is neither indented nor a heading in capitals."""
    inside: str | None = None
    for index, line in enumerate(lines):
        words = line.split() if ")" in line else []
        name = words[0] if len(words) > 1 and words[0] == words[-1] and _PAGE.fullmatch(words[0]) else None
        if inside is not None and line[:1].strip() and name is None and line != line.upper():
            inside = None
        if inside is not None:
            yield index
        if name is not None:
            inside = None if name == inside else name


def _changelogs(lines: Sequence[str]) -> Iterator[int]:
    inside = False
    for index, line in enumerate(lines):
        if _DEB_RELEASE.match(line):
            inside = True
        elif _SIGNED.match(line) or line[:1].strip():
            inside = False
        if inside:
            yield index


def _comments(lines: Sequence[str]) -> Iterator[int]:
    """What stands behind the sign of a comment: of a Dockerfile from its FROM on, and of YAML where nearly every line has its form."""
    instructions = {index for index, line in enumerate(lines) if _INSTRUCTION.match(line)}
    if len(instructions) > 1 and any(lines[index].startswith(_BEGINS_IMAGE) for index in instructions):
        for block in _runs(lines, lambda index: bool(lines[index].strip())):
            if instructions.intersection(block):
                yield from (index for index in block if _COMMENT.match(lines[index]))
    keys = [index for index, line in enumerate(lines) if _KEY.match(line)]
    remarks = [index for index, line in enumerate(lines) if _COMMENT.match(line)]
    written = sum(1 for line in lines if line.strip())
    if len(keys) >= _FEW and len({*keys, *remarks}) == written:
        yield from (index for index in {*keys, *remarks} if index in remarks or _BEHIND_KEY.match(lines[index]))


def _settings(lines: Sequence[str]) -> Iterator[int]:
    """The comments of a file of settings, which holds nothing else, or has sections."""
    if sum(line.startswith("[") and _SETTING.match(line) is not None for line in lines) > 1:
        yield from (index for index, line in enumerate(lines) if _REMARK.match(line))
    for block in _runs(lines, lambda index: bool(lines[index].strip())):
        remarks = [index for index in block if _REMARK.match(lines[index])]
        if remarks and len(remarks) < len(block) and all(index in remarks or _SETTING.match(lines[index]) for index in block):
            yield from remarks


def _definitions(lines: Sequence[str]) -> Iterator[int]:
    """A list in YAML of what is named: tasks, rules, alerts. No program reports so."""
    depths = {index: len(line) - len(line.lstrip()) for index, line in enumerate(lines) if _YAML_NAMED.match(line)}
    alike = Counter(depths.values())
    for head, depth in depths.items() if not any(line.startswith("@@ ") for line in lines) else ():
        end = head + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (depth + 2))):
            end += 1
        yield from range(head, end) if alike[depth] > 1 else ()


def _directives(lines: Sequence[str]) -> Iterator[int]:
    """What belongs to a directive of reStructuredText: the indented lines below it."""
    inside = False
    for index, line in enumerate(lines):
        inside = _DIRECTIVE.match(line) is not None or (inside and (not line.strip() or line[:2] == "  "))
        if inside:
            yield index


def _mappings(lines: Sequence[str]) -> Iterator[int]:
    """Whole sentences as keys: no program names the fields of its log so."""
    rows = [index for index, line in enumerate(lines) if _ADVISED.match(line)]
    yield from rows if len(rows) > 1 else ()


def _terms(lines: Sequence[str]) -> Iterator[int]:
    """Names of codes, each with indented sentences below it."""
    heads = [index for index, line in enumerate(lines) if _TERM.fullmatch(line)]
    meant = {index: _explanation(lines, index) for index in heads}
    explained = [index for index in heads if meant[index]]
    if len(explained) >= _FEW and len(explained) == len(heads):
        yield from (row for index in explained for row in (index, *meant[index]))


def _explanation(lines: Sequence[str], head: int) -> range:
    """The indented lines right below a term, if they end as a sentence does."""
    end = head + 1
    while end < len(lines) and lines[end][:2] == "  ":
        end += 1
    return range(head + 1, end) if end > head + 1 and _EXPLAINED.match(lines[end - 1]) else range(0)


def _history(lines: Sequence[str]) -> Iterator[int]:
    """What git prints of a source's past, and the places that a search shows, up to the next prompt or to somebody's own words."""
    belongs: re.Pattern[str] | None = None
    for index, line in enumerate(lines):
        if _COMMIT.match(line) and _AUTHOR.match("".join(lines[index + 1 : index + 2])):
            belongs = _OF_COMMIT
        typed = command(line)
        if typed is not None:
            belongs = _OF_COMMIT if _PAST.match(typed) else _PLACE if _SEARCH.match(_QUOTED.sub("", typed)) else None
            if belongs is _OF_COMMIT:
                yield index
        elif belongs is not None and not is_prompt(line):
            if line.strip() and not belongs.match(line) and not (index and lines[index - 1].strip() and belongs is _OF_COMMIT):
                belongs = None
            elif line.strip():
                yield index


def _runs(lines: Sequence[str], belongs: Callable[[int], bool]) -> Iterator[range]:
    """Ranges of lines, one after another, that belong together."""
    for so, run in groupby(range(len(lines)), key=belongs):
        indexes = list(run)
        if so:
            yield range(indexes[0], indexes[-1] + 1)
