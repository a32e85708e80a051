"""A text with several attempts: what a later run of the same command replaces, and which machine each line belongs to.

A user who types a command again shows its newer state; what it printed before is history. Prompts with another host name begin another
machine; a container's prompt (a host name of twelve hexadecimal digits) belongs to the machine on which it runs.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile

import msgspec

from cudadoctor.model.evidence import OUTPUT
from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.base import Text
from cudadoctor.parsers.discourse import Speech
from cudadoctor.parsers.shell import is_prompt, root_command

_BEFORE = r"^[ \t]{0,16}(?:\([\w./ :-]{1,60}\)[ \t]{0,8}){0,3}"
_HOST = lazy(rf"{_BEFORE}\[?(?P<place>[\w.-]{{1,64}}@(?P<host>[\w.-]{{1,64}}))")
_ENVIRONMENT = lazy(_BEFORE)
_CONTAINER = lazy(r"[0-9a-f]{12}")
_LOCAL = ("localhost",)
_SIGN = lazy(r"[$#%>❯➜]")  # no prompt is without one of these
_OTHER_PLACE = lazy(
    r"(?i)\b(?:not inside|outside(?: of)?|inside|within) (?:the |a |my )?(?:docker|container|pod|wsl|venv|conda)\b|\bon the host\b"
    r"|\b(?:another|other|different|second) (?:machine|computer|server|node|environment|env|venv|container|user|terminal)\b"
)
_PUT_TO_THE_TEST = lazy(r"^(?:sudo )?setenforce 0$")  # shows what was in the way; what was said before is no history
_OF_KERNEL = lazy(r"(?:sudo )?(?:modprobe|insmod|dmesg|journalctl)\b")
_Program = tuple[str | None, ...]
_SENT = lazy(r"(?:>>?|\| ?tee(?: -a)?) ?(?P<file>(?!/dev/)[\w./~-]{1,200})")
_STARTED_BY = lazy(r"(?:(?:nohup|time|sudo|srun|stdbuf|[A-Za-z_]\w{0,60}=\S{0,200}) {1,4}){0,9}")
_PIPED, _MORE, _SCRIPT = lazy(r" (?:\||\d?>)"), lazy(r"&&|;"), lazy(r"^\./|\.(?:py|sh)$")
_RESTARTS = lazy(r"(?:^|[;&] {0,2})(?:sudo )?(?:systemctl )?(?:reboot|poweroff|shutdown)\b")
_ENGINES = "docker|podman|nerdctl|apptainer|singularity"
# Also where a scheduler or a launcher, with its options, starts it.
_OPTIONS = r"(?: {1,4}(?:-[^\s=]{1,60}(?: [^\s-]\S{0,100})?|[\w-]{1,60}=\S{0,200})){0,12} {1,4}"
_ENGINE = lazy(rf"(?:(?:sudo|srun|salloc|mpirun|mpiexec|time|nohup|env){_OPTIONS}){{0,3}}(?P<name>{_ENGINES})\b")
ELSEWHERE = lazy(rf"\b(?:{_ENGINES}|kubectl|lxc|pct|ssh|srun)\b")  # what they run is run in a container or on another node
_SUDO = lazy(r"sudo (?:-u ?[\w.-]{1,40} )?")
_PYTHON = ">>> "
_WORDS_BEFORE = 8  # lines above a prompt in which a user says where it is
_BOOTS_AGO = lazy(r"^(?:sudo )?journalctl\b[^\n]{0,120}?\s(?:-\w{0,4}b ?|--boot[= ])-(?:[2-9]|\d{2,3})\b")
_SHOWS_NOW = lazy(r"^(?:sudo )?nvidia-smi\b")
_ASKS_XIDS = lazy(
    r"^(?:sudo )?(?:dmesg(?: -[TH]{1,2}){0,2}|journalctl -k(?: -b(?: 0)?)?(?: --no-pager)?) ?\| ?e?grep "
    r"(?:-\w{0,3}i\w{0,3} ['\"]?(?:\w{1,12}\|){0,4}xid|(?:-E )?['\"]?(?:\w{1,12}\|){0,4}Xid)(?:\|\w{1,12}){0,4}['\"]?$"
)
_XID = "NVRM: Xid"
_LONGEST = 400  # characters of a line that are looked at
_NO_STATE = ("cd", "ls", "cat", "echo", "export", "vim", "vi", "nano", "clear", "reboot", "exit")  # they show no state of their own


class Typed(msgspec.Struct, frozen=True):
    """A prompt: its line's index, the command behind it, and the lines up to the next prompt."""

    index: int
    end: int
    command: str | None
    host: str | None
    by_root: bool = False  # as far as the prompt names its user


def typed(text: Text) -> tuple[Typed, ...]:
    """Found once for all who ask one after the other."""
    return _typed("\n".join(text.plain_lines))


@lru_cache(maxsize=4)
def _typed(body: str) -> tuple[Typed, ...]:
    lines = body.split("\n")
    prompts = [index for index, line in enumerate(lines) if _SIGN.search(line) and line[:1] not in "|+" and is_prompt(line)]
    found = []
    for index, end in pairwise([*prompts, len(lines)]):
        named = _HOST.match(lines[index])
        host = named["host"] if named is not None and not _CONTAINER.fullmatch(named["host"]) and named["host"] not in _LOCAL else None
        found.append(Typed(index, end, root_command(lines[index]), host, named is not None and named["place"].startswith("root@")))
    return tuple(found)


def evaluated(text: Text, entries: Sequence[Typed]) -> Iterator[Typed]:
    """What was typed in Python, each up to the next prompt of any kind. A session stands below the command that began it, too."""
    asked = [index for index, line in enumerate(text.lines) if line.startswith(_PYTHON) and "(" in line]  # mail is quoted likewise
    starts = [entry.index for entry in entries]
    stops = sorted([*asked, *starts, len(text.lines)])
    for index in asked:
        above = bisect_left(starts, index) - 1
        host = entries[above].host if above >= 0 else None
        yield Typed(index, stops[bisect_right(stops, index)], text.lines[index].rstrip(), host)


class Prompt(msgspec.Struct, frozen=True):
    """Who typed and where, without what was typed. `environment`: of Python, which many write before it. `host`: where root asked the
    kernel or loaded a module, the machine: what works for any other user there works for root. `engine`: of containers, in one of which
    it ran."""

    place: str
    environment: str = ""
    host: str | None = None
    engine: str = ""


def prompts(text: Text) -> Callable[[int], Prompt | None]:
    """Tells the prompt below which a line of this number (from 1) was printed; None above the first.

    What sudo ran is another user's: it shows nothing of what this one may do.
    """
    lines = text.plain_lines
    found = {entry.index: _prompt(lines[entry.index].removesuffix(entry.command or ""), entry.command or "") for entry in typed(text)}
    found.update({index: Prompt(_PYTHON) for index, line in enumerate(text.lines) if line.startswith(_PYTHON)})
    starts, shown = [index + 1 for index in sorted(found)], [found[index] for index in sorted(found)]

    def prompt_of(line: int) -> Prompt | None:
        at = bisect_right(starts, line) - 1
        return shown[at] if at >= 0 else None

    return prompt_of


def _prompt(before: str, command: str) -> Prompt:
    """Of user@host the folder does not count: who goes into another one is where he was."""
    named, environment = _HOST.match(before), _ENVIRONMENT.match(before)
    assert environment is not None
    place = named["place"] if named is not None else before[environment.end() :]
    by_root = (place.startswith("root@") or command.startswith("sudo ")) and _OF_KERNEL.match(command) is not None
    host = named["host"] if named is not None and by_root else None
    engine = _ENGINE.match(command)
    return Prompt(place + _user_of(command), environment[0].strip(), host, engine["name"] if engine is not None else "")


def survived(text: Text, outcomes: Mapping[str, re.Pattern[str]]) -> frozenset[int]:
    """Numbers (from 1) of the lines below which the same program went on computing, and did not end badly.

    `outcomes`: what programs print then ([outcomes] of tables/conditions.toml).
    """
    goes_on, ends_badly = outcomes["goes-on"], outcomes["ends-badly"]
    out: set[int] = set()
    for entry in typed(text):
        shown = range(entry.index + 1, entry.end)
        last = next((index for index in reversed(shown) if goes_on.search(text.lines[index][:_LONGEST])), None)
        if last is not None and not any(ends_badly.search(text.lines[index][:_LONGEST]) for index in range(last + 1, entry.end)):
            out.update(range(entry.index + 1, last + 1))
    return frozenset(out)


def repeated(text: Text, outcomes: Mapping[str, re.Pattern[str]], computes: re.Pattern[str]) -> frozenset[int]:
    """Numbers (from 1) of the lines of runs whose program was started again below, with whatever options, and then went on computing, as
    it shows itself or the file that its output was sent to does. `computes`: further signs of it."""
    goes_on, ends_badly = outcomes["goes-on"], outcomes["ends-badly"]
    out: set[int] = set()
    runs: dict[_Program, list[tuple[int, Typed]]] = {}  # where each was started, and a command that shows its output
    logs: dict[tuple[str | None, str], tuple[int, _Program]] = {}
    for entry in typed(text):
        command = entry.command or ""
        sources = [logs[entry.host, word] for word in command.split() if (entry.host, word) in logs]
        started, program = sources[0] if sources else (entry.index, (entry.host, *_program(command)))
        if len(program) < 2:
            continue
        shown = [text.lines[index][:_LONGEST] for index in range(entry.index + 1, entry.end)]
        computing = any(goes_on.search(line) or computes.search(line) for line in shown)
        if computing and not any(map(ends_badly.search, shown)):
            out.update(line for at, view in runs.get(program, ()) if at < started for line in range(view.index + 1, view.end + 1))
        runs.setdefault(program, []).append((started, entry))
        if (sent := _SENT.search(command)) is not None:
            logs[entry.host, sent["file"]] = started, program
    return frozenset(out)


def _program(command: str) -> tuple[str, ...]:
    """What is started, without what starts it and its options: python train.py. Empty where that may be anything: `python -c`."""
    begin = _STARTED_BY.match(command)
    words = _PIPED.split(command[begin.end() if begin is not None else 0 :])[0].split()
    if not words or ELSEWHERE.match(words[0]):
        return ()
    plain = [word for word in words if not word.startswith("-")]
    if _MORE.search(command):
        return tuple(plain)
    if "-m" in words[:-1]:
        return words[0], words[words.index("-m") + 1]
    script = next((place for place, word in enumerate(plain) if _SCRIPT.search(word)), None)
    if script is not None:
        return tuple(plain[: script + 1])
    named = [word for word in takewhile(lambda word: not word.startswith("-"), words) if "=" not in word]
    return tuple(named) if len(named) > 1 else ()


def ended_by_restart(text: Text) -> Callable[[int, str], bool]:
    """Tells of a line's number (from 1) and its words whether the machine that printed it was restarted below, used on, and did not print
    them again."""
    entries = [entry for entry in typed(text) if entry.host is not None]
    used = {entry.host: entry.index for entry in entries}
    asked = {entry.host: entry.index for entry in entries if _RESTARTS.search(entry.command or "") and entry.index < used[entry.host]}
    starts = [entry.index + 1 for entry in entries]

    def ended(line: int, words: str) -> bool:
        at = bisect_right(starts, line) - 1
        restart = asked.get(entries[at].host, 0) if at >= 0 else 0
        return line <= restart and not any(words in later for later in text.plain_lines[restart + 1 :])

    return ended


def _user_of(command: str) -> str:
    """Who runs it, where that is not the one who types: sudo, sudo -u NAME."""
    found = _SUDO.match(command)
    return found[0] if found is not None else ""


def shown(text: Text, speech: Speech) -> Text:
    """The text without the lines that only speak of what they quote, or are of a boot long ago: they show no state, of now or of before."""
    return without(text, _spoken_of(text.text, speech, printed=text.item is not None and text.item.what == OUTPUT))


@lru_cache(maxsize=2)
def _spoken_of(body: str, speech: Speech, *, printed: bool) -> frozenset[int]:
    """Found once for the parsers and the recognisers, which ask one after the other. `printed`: by a program, in which nobody speaks."""
    text = Text(body, source="")
    form = speech.quoting.lines_of(text.lines)
    return form if printed else form | speech.lines_of(text.lines) | _of_other_boots(text)


def replaced(text: Text) -> frozenset[int]:
    """Indexes of the lines that a later run of the same command replaces, the prompt's own line with them."""
    last: dict[tuple[str, str | None], Typed] = {}
    out: set[int] = set()
    commands = typed(text)
    starts = [entry.index for entry in commands]
    entries = sorted([*commands, *evaluated(text, commands)], key=lambda entry: entry.index)
    tests = [entry.index for entry in entries if _PUT_TO_THE_TEST.match(root_command(text.lines[entry.index]) or "")]
    for entry in entries:
        words = (entry.command or "").split()
        if not words or words[0] in _NO_STATE or not any(text.lines[index].strip() for index in range(entry.index + 1, entry.end)):
            continue
        key = (" ".join(words), entry.host)
        # In one session Python warns once, and says nothing the second time.
        same_session = words[0] == _PYTHON.strip() and key in last and not _counted(starts, last[key], entry)
        shows_less = key in last and entry.by_root and not last[key].by_root  # of what another user may do
        if key in last and not same_session and not shows_less and not _elsewhere(text, last[key], entry, tests):
            out.update(range(last[key].index, last[key].end))
        last[key] = entry
    return frozenset(out)


def _of_other_boots(text: Text) -> frozenset[int]:
    """Answers about a boot before the last one, where nvidia-smi shows what is now; and Xids that somebody tells of above all prompts,
    where the kernel's log here has none."""
    commands = typed(text)
    now = any(_SHOWS_NOW.match(entry.command or "") for entry in commands)
    out = {index for entry in commands if now and _BOOTS_AGO.match(entry.command or "") for index in range(entry.index, entry.end)}
    if any(_ASKS_XIDS.match(entry.command or "") and _is_empty(entry, text) for entry in commands):
        out.update(index for index in range(commands[0].index) if _XID in text.lines[index])
    return frozenset(out)


def _is_empty(entry: Typed, text: Text) -> bool:
    """Whether the next prompt follows at once."""
    return entry.end < len(text.lines) and not any(text.lines[index].strip() for index in range(entry.index + 1, entry.end))


def _counted(lines: Sequence[int], before: Typed, again: Typed) -> int:
    """How many of these lines stand between two prompts."""
    return bisect_left(lines, again.index) - bisect_left(lines, before.end)


def _elsewhere(text: Text, before: Typed, again: Typed, tests: Sequence[int]) -> bool:
    """Whether what stands between two runs makes the second one another environment: it then replaces nothing.

    `tests`: the lines on which something was switched off to see whether it is the cause.
    """
    start = max(before.index + 1, again.index - _WORDS_BEFORE)
    if any(_OTHER_PLACE.search(line) for line in text.lines[start : again.index]):
        return True
    return _counted(tests, before, again) > 0


def machines(text: Text) -> tuple[frozenset[int], ...]:
    """The lines of each machine whose prompts name it, in the order of their last prompts; () where there is only one."""
    owned: dict[str, set[int]] = {}
    host: str | None = None
    for entry in typed(text):
        host = entry.host or host
        if host is not None:
            lines = owned.pop(host, set())
            lines.update(range(entry.index, entry.end))
            owned[host] = lines
    return tuple(frozenset(lines) for lines in owned.values()) if len(owned) > 1 else ()


def present(text: Text, speech: Speech) -> Text:
    """The text's last state: nothing that is only spoken of, and nothing that a later run of the same command replaced."""
    text = shown(text, speech)
    return without(text, replaced(text))


def only(text: Text, lines: Iterable[int]) -> Text:
    """The text with nothing but these lines; the others are empty, so that numbers stay."""
    kept = set(lines)
    return _with(text, (line if index in kept else "" for index, line in enumerate(text.lines)))


def without(text: Text, lines: frozenset[int]) -> Text:
    """The text without these lines, which are empty then."""
    return _with(text, ("" if index in lines else line for index, line in enumerate(text.lines))) if lines else text


def _with(text: Text, lines: Iterator[str]) -> Text:
    return Text("\n".join(lines), source=text.source, origin=text.origin, whole=text.whole, item=text.item)
