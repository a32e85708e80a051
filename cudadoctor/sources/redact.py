"""Takes what names a person or a machine out of evidence, when a recording is written.

What a text's form alone gives away is in sensitive.py; the names of users, hosts, groups and accounts that the evidence as a whole shows
are collected in names_in_evidence.py, and replaced wherever they stand, each by one pseudonym. Here is what each piece needs besides.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from itertools import groupby, islice
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.model.terminal_codes import without_codes
from cudadoctor.sources import names_in_evidence, private_paths
from cudadoctor.sources.decoding import json_object
from cudadoctor.sources.names_in_evidence import Names, keeps
from cudadoctor.sources.sensitive import GONE, Pseudonyms, TooLongError, clock
from cudadoctor.sources.vocabulary import ITEMS, PATTERNS

MOST_NAMES = 300  # with other signs than letters and digits, of one kind, that are looked for wherever they stand
LONGEST, MOST = 2 << 20, 3 << 20  # characters of one output, and of all, that a redacted recording keeps
_WHOLE = 30.0  # seconds of CPU for one recording
_LEAST_TIME, _TIME = 0.5, 2e-5  # seconds of CPU for one piece, and for each of its characters: five times what most texts take
_SHORT = 80  # characters of what is not looked through a second time
_PLAIN = re.compile("[A-Za-z0-9]+")
_ESCAPED = re.compile(r"(\\[ntr])")


class Redacted(NamedTuple):
    """Evidence without names, and what was taken: the number of different things of each kind, and variables that lost their value."""

    evidence: Evidence
    replaced: dict[str, int]
    withheld: int
    variables: int


class Redactor:
    """One recording's names and their pseudonyms."""

    def __init__(self, names: Names) -> None:
        self.pseudonyms, self.names = Pseudonyms(), names
        self.withheld = self.variables = 0
        self.left_out: list[str] = []
        self._seen: dict[tuple[str, bool, bool], str] = {}  # words that workers repeat in line after line
        self.over = clock() + _WHOLE
        made = self.pseudonyms
        self.everywhere = (
            (_any_of(names.of["secret"], loose=True), made.gone),
            (_any_of(names.distinct("host"), loose=True), made.host),
            (_any_of(names.siblings(), loose=True, numbered=True), made.host),
            (_any_of(names.distinct("user"), loose=True), made.user),
            (_any_of(names.distinct("account"), loose=True), lambda name: made.of("account", name)),
        )
        # Words of the trade, and short ones: replaced as whole words, in evidence that speaks of people.
        self.where_named = ((_any_of(names.ordinary("host")), made.host), (_any_of(names.ordinary("user")), made.user))
        self.in_lists = (*self.everywhere[1:4], (_any_of(names.of["host"]), made.host), (_any_of(names.of["user"]), made.user))
        self.groups = _any_of(names.of["group"])

    # ------------------------------------------------------------ texts
    def text(self, text: str, *, named: bool = True, people: bool = True) -> str:
        """`named`: the text speaks of people. `people`: what is written ada@crunch7 in it is one."""
        if len(text) > _SHORT:
            return self._text(text, named=named, people=people)
        asked = (text, named, people)
        if asked not in self._seen:
            self._seen[asked] = self._text(text, named=named, people=people)
        return self._seen[asked]

    def _text(self, text: str, *, named: bool, people: bool) -> str:
        self.pseudonyms.look()
        text = _decoded(text, lambda plain: self.text(plain, named=named, people=people))
        text = self.pseudonyms.text(self.replaced(text, self.everywhere[:1]))
        if people:
            text = self.pseudonyms.hidden(text, "people")
        text = self.pseudonyms.hidden(text, "authors")
        text = self.replaced(text, self.everywhere[1:] + (self.where_named if named else ()))
        return self.pseudonyms.hidden(text, "paths")

    def replaced(self, text: str, parts: Iterable[tuple[_Words | None, Callable[[str], str]]]) -> str:
        for words, pseudonym in parts:
            if words is not None:
                self.pseudonyms.look()
                text = words.sub(pseudonym, text)
        return text

    def lines(self, text: str, redact: Callable[[str], str]) -> str:
        """Lines of JSON are read, for in them a line break is two letters of a word; all between them are taken together, as a key is."""
        if not re.search(r"^\{\"", text, re.MULTILINE):
            return redact(text)
        parts = []
        for is_json, group in groupby(text.split("\n"), key=lambda line: line.lstrip()[:1] == "{"):
            lines = list(group)
            parts += [self.json_line(line, redact) for line in lines] if is_json else [redact("\n".join(lines))]
        return "\n".join(parts)

    def json_line(self, line: str, redact: Callable[[str], str]) -> str:
        before = json_object(line.lstrip())
        if before is None:
            return escaped(line, redact)
        try:
            after = self.value(before, redact)
        except RecursionError:  # nested deeper than anything that a program says of a machine
            return escaped(line, redact)
        separators = (", ", ": ") if '": ' in line else (",", ":")
        return line if after == before else json.dumps(after, ensure_ascii=False, separators=separators)

    def value(self, value: Any, redact: Callable[[str], str], key: str = "") -> Any:
        if isinstance(value, dict):
            keys = _keys(value, key)
            return {redact(name): self.value(inner, redact, keys[name]) for name, inner in value.items()}
        if isinstance(value, list):
            words = self.pseudonyms.arguments(value) if all(isinstance(word, str) for word in value) else value
            return [self.value(inner, redact, key) for inner in words]
        secret = PATTERNS.SECRET_KEY.fullmatch(key)
        if type(value) is int and secret and not secret["counted"] and not secret["short"]:  # eos_token: 2 is a word's number
            return self.pseudonyms.gone(str(value))
        if not isinstance(value, str) or not value:
            return value
        if secret:
            return self.pseudonyms.gone(value)
        if PATTERNS.SERIAL_KEY.fullmatch(key) and value.upper() != "N/A":
            return self.pseudonyms.of("serial", value)
        if PATTERNS.KEPT_VARIABLES.match(key):  # a worker says which ones it was given
            value = self.variable(key, value)
        if PATTERNS.FOUR_NUMBERS.fullmatch(value) and PATTERNS.VERSION_KEY.search(key) and not PATTERNS.PRIVATE.match(value):
            return value
        return redact(value)

    # ------------------------------------------------------------ single kinds of evidence
    def environment(self, text: str) -> str:
        lines = []
        for line in text.split("\n"):
            found = PATTERNS.VARIABLE.match(line)
            if found is None:
                lines.append(GONE if line.strip() else line)  # the rest of a value with line breaks
                continue
            head, name, value = found.groups()
            self.variables += 1
            shown = self.variable(name, value)
            self.withheld += GONE == shown != value
            lines.append(head + shown)
        return "\n".join(lines)

    def variable(self, name: str, value: str) -> str:
        """The value of a variable, wherever it stands: gone where no diagnosis reads it or it may be a secret."""
        if value and not keeps(name, value):
            return GONE
        return private_paths.in_list(value, lambda part: self.pseudonyms.of("dir", part)) if PATTERNS.PLACES.fullmatch(name) else value

    def kernel_log(self, text: str) -> str:
        return "\n".join(line if not line or PATTERNS.KERNEL_LINE.search(line) else GONE for line in text.split("\n"))

    def processes(self, text: str) -> str:
        """Of a command line the program stays, of a user the pseudonym; `DOMAIN\\name` is the user of that name."""
        lines = []
        for line in text.split("\n"):
            entry = json_object(line)
            if entry is None:
                lines.append(re.sub(r'("command": ?"[^" ]*)[^\n]*', r"\1", line))
                continue
            if isinstance(entry.get("command"), str):
                entry["command"] = entry["command"].split(" ")[0]
            if isinstance(entry.get("user"), str) and names_in_evidence.personal(entry["user"]):
                entry["user"] = self.pseudonyms.user(entry["user"].rpartition("\\")[2])
            lines.append(json.dumps(entry, ensure_ascii=False))
        return "\n".join(lines)

    def packages(self, text: str) -> str:
        """Packages of other things than GPUs are nobody's business where they are called after a machine or a person."""
        lines = text.split("\n")
        return "\n".join(line if re.search("nvidia|cuda", line) or self.replaced(line, self.everywhere) == line else GONE for line in lines)

    def item(self, item: Item) -> Item:
        """Without what names anybody; and without its words where to find that takes longer than any machine's words do."""
        size = len(item.stdout or "") + len(item.stderr or "")
        self.pseudonyms.until = min(self.over, clock() + _LEAST_TIME + _TIME * size)
        try:
            return self._item(item)
        except TooLongError:
            self.left_out.append(item.id)
            return msgspec.structs.replace(item, what=item.id, stdout=None, stderr=None, why=None, dropped_bytes=item.dropped_bytes + size)
        finally:
            self.pseudonyms.until = float("inf")

    def _item(self, item: Item) -> Item:
        people = item.id not in ITEMS["no_people"]

        def plain(text: str) -> str:
            return self.text(text, people=people)

        def redact(text: str) -> str:
            return self.text(text, named=item.id in ITEMS["naming"], people=people)

        out = item.stdout
        if out is not None:
            out = self.lines(self.prepared(item.id, item.kind, out), redact)
            out = self.replaced(out, self.in_lists) if item.id in ITEMS["columns"] else out
            if self.groups is not None and item.id in ITEMS["groups"]:
                out = self.groups.sub(lambda name: self.pseudonyms.of("group", name), out)
        what: Any = item.what
        what = redact(what) if isinstance(what, str) else tuple(map(redact, self.pseudonyms.arguments(what)))
        return msgspec.structs.replace(
            item,
            what=what,
            stdout=out,
            stderr=_changed(item.stderr, lambda text: self.lines(text, plain)),
            why=_changed(item.why, plain),
        )

    def prepared(self, name: str, kind: str, text: str) -> str:
        """What only evidence of this kind needs."""
        if kind == "environment":
            return self.environment(text)
        own = {"kernel-log": self.kernel_log, "processes": self.processes, "packages": self.packages}
        if name in own:
            return own[name](text)
        if name.startswith("nvidia-smi") or name == "text":
            text = self.pseudonyms.hidden(text, "process_tables")
        return names_in_evidence.without_dumped_variables(text) if name == "text" else text


def _keys(entry: dict[str, Any], key: str) -> dict[str, str]:
    """What tells of each value of an object whether it is a secret: its name, what another field calls it ({"name": "DB_PASSWORD", "value":
    "x"}), or the name of the whole object."""
    secret = PATTERNS.SECRET_KEY.fullmatch(key)
    of_all = key if secret and not secret["counted"] else None
    called = [inner for name, inner in entry.items() if name.lower() in ("name", "key", "type") and isinstance(inner, str)]
    named = next((one for one in called if PATTERNS.SECRET_KEY.fullmatch(one)), called[0] if called else None)
    sealed = ("data", "stringData") if entry.get("kind") == "Secret" else ()

    def of(name: str) -> str:
        if name in sealed:
            return "secret"
        return named if named and name.lower() in ("value", "default") else of_all or name

    return {name: of(name) for name in entry}


def escaped(text: str, redact: Callable[[str], str]) -> str:
    """A text in which a backslash and an n may be a line break: no word goes on over it."""
    return "".join(part if number % 2 else redact(part) for number, part in enumerate(_ESCAPED.split(text)))


def _decoded(text: str, redact: Callable[[str], str]) -> str:
    """The text with its encoded paths as they read without the code: all at once, each on lines of its own, for redaction keeps lines."""
    if "%" not in text:
        return text
    words = {match.group() for match in PATTERNS.ENCODED.finditer(text)}
    if any("%25" in word for word in words):  # encoded twice, which no diagnosis reads
        text = PATTERNS.ENCODED.sub(lambda match: match.group() if "%25" not in match.group() else GONE, text)
    plain = {word: unquote(word) for word in sorted(words) if "%2f" in word.lower() or "%5c" in word.lower()}
    lines = iter(redact("\n".join(each for each in plain.values() if "%" not in each)).split("\n")) if plain else iter(())
    for code, each in plain.items():
        bare = each if "%" in each else "\n".join(islice(lines, each.count("\n") + 1))
        plain[code] = code if bare == each else quote(bare, safe="<>")
    return PATTERNS.ENCODED.sub(lambda match: plain.get(match.group(), match.group()), text) if plain else text


class _Words(NamedTuple):
    """What is looked for: words of letters and digits by a look into a set, of which there may be many, others by a pattern."""

    plain: frozenset[str]
    pattern: re.Pattern[str] | None

    def sub(self, pseudonym: Callable[[str], str], text: str) -> str:
        if self.pattern is not None:
            text = self.pattern.sub(lambda match: pseudonym(match.group()), text)
        if not self.plain:
            return text
        return _PLAIN.sub(lambda match: pseudonym(match.group()) if match.group().lower() in self.plain else match.group(), text)


def _any_of(names: Iterable[str], *, loose: bool = False, numbered: bool = False) -> _Words | None:
    """Any of these words, the longest first. `loose`: in any case, and joined to others by - _ . too; `numbered`: with a number."""
    all_of_them = sorted(names, key=lambda name: (-len(name), name))
    plain = frozenset(name.lower() for name in all_of_them if loose and not numbered and _PLAIN.fullmatch(name))
    some = [name for name in all_of_them if name.lower() not in plain][:MOST_NAMES]
    if not some:
        return _Words(plain, None) if plain else None
    # By first letters: at each place of a text a few branches are tried, not one for each name.
    first: dict[str, list[str]] = {}
    for name in some:
        first.setdefault(name[0].lower(), []).append(re.escape(name))
    words = "|".join(f"{_begins_with(letter)}(?:{'|'.join(each)})" for letter, each in first.items())
    if not loose:
        return _Words(plain, re.compile(rf"(?<![\w.-])(?:{words})(?![\w-])"))
    ends = "[0-9]{1,6}" if numbered else ""
    return _Words(plain, re.compile(rf"(?<![A-Za-z0-9])(?:{words}){ends}(?![A-Za-z0-9])", re.IGNORECASE))


def _begins_with(letter: str) -> str:
    """A look at the next letter, of either case; other alphabets have more than two."""
    return f"(?=[{letter}{letter.upper()}])" if re.fullmatch("[a-z0-9]", letter) else ""


def _shortened(evidence: Evidence) -> Evidence:
    """Looking for names takes up to 6 s of CPU time for each 1e6 characters: of what is longer the beginning is kept, of a log its end."""
    left, items, cut = MOST, [], 0
    for item in evidence.items:
        kept, before = [], cut
        for text in (item.stdout, item.stderr):
            room, length = min(LONGEST, left), len(text or "")
            at_end = item.kind == "text" or item.id == "kernel-log"
            kept.append(text if text is None or length <= room else _end(text[length - room :]) if at_end else text[:room])
            cut, left = cut + max(0, length - room), left - min(length, room)
        if cut > before:
            item = msgspec.structs.replace(item, stdout=kept[0], stderr=kept[1], dropped_bytes=item.dropped_bytes + cut - before)
        items.append(item)
    if not cut:
        return evidence
    said = f"{cut} characters of long outputs are not in this recording; --no-redact keeps all"
    return msgspec.structs.replace(evidence, items=tuple(items), remarks=(*evidence.remarks, said))


def _end(text: str) -> str:
    """From the beginning of a line, else of a word but one: what shows that a word is a secret stands before it."""
    _, broken, lines = text.partition("\n")
    return lines if broken else "".join(text.split(" ", 2)[2:])


def _changed(text: str | None, change: Callable[[str], str]) -> str | None:
    return None if text is None else change(text)


def _plain(text: str) -> str:
    """Without colours, and with the line ends that the forms know."""
    return without_codes(text).replace("\r\n", "\n")


def redacted(evidence: Evidence) -> Redacted:
    """The same evidence without names of people and machines, and an account of what was taken."""
    evidence = _shortened(evidence)
    # Colours may stand between a secret and what shows that it is one.
    plain = tuple(
        msgspec.structs.replace(item, stdout=_changed(item.stdout, _plain), stderr=_changed(item.stderr, _plain)) for item in evidence.items
    )
    evidence = msgspec.structs.replace(evidence, items=plain)
    redactor = Redactor(names_in_evidence.of(evidence))
    made = redactor.pseudonyms
    items = tuple(redactor.item(item) for item in evidence.items)
    taken = msgspec.structs.replace(
        evidence,
        items=items,
        redacted=True,
        python=_changed(evidence.python, redactor.text),
        python_why=_changed(evidence.python_why, redactor.text),
        host=_host(evidence, made),
        boot_id=_changed(evidence.boot_id, _pseudonym),
        node=None if evidence.node is None else "node",
        remarks=(
            *(redactor.text(remark.replace(evidence.node or "\n", "node")) for remark in evidence.remarks),
            *(f"{name} was left out: to take names out of it takes too long; --no-redact keeps it" for name in redactor.left_out),
        ),
    )
    replaced = {kind: len(things) for kind, things in sorted(made.replaced.items())}
    return Redacted(taken, replaced, redactor.withheld, redactor.variables)


def _host(evidence: Evidence, made: Pseudonyms) -> str | None:
    """Windows and some sandboxes number no start: there a name is all, and whoever guesses it would find it by its digest."""
    if evidence.host is None or evidence.boot_id is None:
        return None if evidence.host is None else made.host(evidence.host)
    return _pseudonym(f"{evidence.boot_id}{evidence.host}", "host-")


def _pseudonym(word: str, before: str = "") -> str:
    """The same for the same machine since its last start, so that runs can be told apart; nobody finds the word that it stands for."""
    return before + hashlib.sha256(word.encode("utf-8", "replace")).hexdigest()[:12]


_KINDS = {
    "user": ("user name", "user names"), "host": ("host name", "host names"), "group": ("group name", "group names"),
    "dir": ("part of a path", "parts of paths"), "account": ("account name", "account names"),
    "address": ("e-mail address", "e-mail addresses"), "ip": ("IP address", "IP addresses"),
    "mac": ("MAC address", "MAC addresses"), "serial": ("serial number", "serial numbers"), "UUID": ("UUID", "UUIDs"),
    "sid": ("number of a Windows account", "numbers of Windows accounts"), "secret": ("secret", "secrets"),
}  # fmt: skip


def account(taken: Redacted) -> tuple[str, ...]:
    """What was taken, in words: one sentence on names and numbers, one on variables."""
    counts = [f"{count} {_KINDS[kind][count != 1]}" for kind, count in taken.replaced.items()]
    return (
        f"Replaced: {', '.join(counts) or 'nothing'}.",
        f"{taken.withheld} of {taken.variables} environment variables kept only their name.",
    )


def redact(evidence: Evidence) -> Evidence:
    """The same evidence without names of people and machines, and nothing else."""
    return redacted(evidence).evidence
