"""What in a text opens a door or names a person or a machine whatever evidence it stands in: secrets, addresses, numbers of devices.

`Pseudonyms.text` replaces it. Equal things get equal pseudonyms, a prefix of a UUID stays a prefix of its pseudonym, and line counts stay.
The salt is drawn anew for each recording, so pseudonyms of two recordings do not match.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial

from cudadoctor.sources import keyed, private_paths
from cudadoctor.sources.private_paths import known
from cudadoctor.sources.vocabulary import OF_SECRETS, PATTERNS, USERS, WORDS, forms

GONE = "<redacted>"
_LONG, _SHORT = 80, 16  # characters looked at before and after a number
_LONGEST_NUMBER = 128  # hexadecimal digits; what has more is no number of a device, and each costs a digest of all before it
_BLANK = "\x00"  # in a word of a command, which ends at none
_DRAWN = 12  # characters of a word drawn by lot
# Changes in each of its characters. Of 24 letters and digits 0.52 by chance, and less than this in one of twenty; in CamelCase below 0.3.
_CHANGES = 0.38


clock = getattr(time, "thread_time", time.process_time)  # seconds of CPU; Python 3.6 has no thread's own


class TooLongError(Exception):
    """Names and secrets cannot be taken out of a text in the time that it may take."""


class Pseudonyms:
    """One recording's pseudonyms, and what was replaced: the different things of each kind."""

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(16)
        self.replaced: dict[str, set[str]] = {}
        self.until = float("inf")  # of this thread's CPU time
        self.addresses: dict[str, str] = {}  # that were found to be some: they are wherever they stand, and are not looked at again
        # What stands in the place of a form's group.
        self.kinds: dict[str, Callable[[str], str]] = {
            "gone": lambda text: self.gone(text) + "\n" * text.count("\n"),
            "user": self.user, "host": self.host, "site": self.site, "serial": self.serial, "uuid": self.uuid,
            "guid": lambda number: self.digest(number, 16),
            "instance": lambda number: self.digest(number.lower(), 12).upper(),
            "boot": boot_words,
            "assigned": partial(PATTERNS.ASSIGNED.sub, lambda value: self.gone(value.group())),
            "kept": self.values_of_secret, "listed": self.listed,
            "account": lambda name: name if name.lower() in WORDS else self._named("account", name),
            "called": lambda name: name if known(name) else self.of("account", name),
            "page": lambda name: name if known(name) else self.user(name),
            "person": lambda name: name if name.lower() in USERS else self.user(name),
            "machine": lambda name: name if name.lower() in USERS else self.host(name),
            "path": lambda path: private_paths.path(path, partial(self.of, "dir")),
            "relative": lambda path: private_paths.relative(path, partial(self.of, "dir")),
            "drawn": lambda word: self.gone(word) if drawn_by_lot(word) else word,
            "said": partial(PATTERNS.WORD_SAID.sub, lambda word: self.unknown(word.group())),
            "blank": lambda text: " " * len(text),
            "cut": lambda _: "",
            **{kind: partial(self.of, kind) for kind in ("address", "ip", "mac", "sid")},
        }  # fmt: skip
        # The same for those that depend on what stands around them.
        self.within: dict[str, Callable[[re.Match[str], str], str]] = {
            "cells": self.secret_cells, "serials": self.serial_cells, "options": self.options, "numbers": self.four_numbers,
            "windows": lambda match, path: private_paths.of_windows(path, match["sign"], partial(self.of, "dir")),
        }  # fmt: skip

    def digest(self, text: str, length: int = 6) -> str:
        return hashlib.blake2s(text.encode("utf-8", "replace"), key=self.salt).hexdigest()[:length]

    def note(self, kind: str, original: str) -> None:
        self.replaced.setdefault(kind, set()).add(self.digest(original, 16))

    def of(self, kind: str, original: str) -> str:
        """`user-3f2a1c`: the same for the same name, whatever the case of its letters."""
        self.note(kind, original.lower())
        return f"{kind}-{self.digest(original.lower())}"

    def gone(self, original: str) -> str:
        self.note("secret", original)
        return GONE

    def unknown(self, word: str) -> str:
        """A word beside the name of a password, unless it is one of those that are said of passwords."""
        parts = PATTERNS.LETTERS.findall(word.lower())
        return word if not parts or all(len(part) < 3 or part in OF_SECRETS for part in parts) else self.gone(word)

    def look(self) -> None:
        """TooLongError where the time is over."""
        if clock() > self.until:
            raise TooLongError

    # ------------------------------------------------------------ a text
    def text(self, text: str) -> str:
        """The text without what its form alone shows to be private."""
        parts, end = [], 0
        text = self.hidden(text, "secrets", "commands", "lists")
        for start, stop in keyed.spans(text, self.look):
            parts += [text[end:start], self.gone(text[start:stop])]
            end = stop
        return self.hidden("".join((*parts, text[end:])), "opaque", "numbers", "addresses")

    def hidden(self, text: str, *names: str) -> str:
        """The text without what these forms show (vocabulary.py)."""
        small = text.lower()
        for form in (form for name in names for form in forms(name)):
            if any(word in small for word in form.words):
                if len(text) > _LONG:
                    self.look()
                text = form.pattern.sub(self._without, text)
        return text

    def _without(self, match: re.Match[str]) -> str:
        parts, end = [], match.start()
        for group in match.re.groupindex:
            kind = group.rstrip("0123456789")
            if match[group] is not None and kind in (self.kinds if kind in self.kinds else self.within):
                new = self.kinds[kind](match[group]) if kind in self.kinds else self.within[kind](match, match[group])
                parts += [match.string[end : match.start(group)], new]
                end = match.end(group)
        return "".join((*parts, match.string[end : match.end()]))

    # ------------------------------------------------------------ what depends on its surroundings
    def secret_cells(self, match: re.Match[str], cells: str) -> str:
        """A table of which one column's heading names a secret, parted by bars, tabs or commas."""

        def hidden(cell: str) -> str:
            word = cell.strip(" \t\"'")
            return cell.replace(word, self.gone(word)) if word.strip("-=: ")[2:] else cell

        sign = next((sign for sign in "|\t;," if sign in match["heads"]), "\n")
        return _column(sign, [keyed.is_name(head.strip(" \t\"'")) for head in match["heads"].split(sign)], cells, hidden)

    def serial_cells(self, match: re.Match[str], cells: str) -> str:
        def hidden(cell: str) -> str:
            number = cell.strip()
            return cell.replace(number, self.serial(number)) if re.fullmatch(r"\s?\w{6,80}", cell) else cell

        return _column(",", [head.strip().startswith(("serial", "gpu_serial")) for head in match["heads"].split(",")], cells, hidden)

    def values_of_secret(self, lines: str) -> str:
        """What stands below `data:` of a Kubernetes Secret, in YAML: the names stay."""

        def hidden(line: str) -> str:
            found = PATTERNS.KEPT_VALUE.match(line)
            return line if found is None or found["value"] is None else line[: found.start("value")] + self.gone(found["value"])

        return "\n".join(map(hidden, lines.split("\n")))

    def listed(self, text: str) -> str:
        """The words of a command as a list of Python, JSON or YAML."""
        found = list(PATTERNS.LISTED.finditer(text))
        parts, end = [], 0
        for one, new in zip(found, self.arguments([one["quoted"] or one["item"] or "" for one in found])):
            start, stop = one.span("quoted" if one["item"] is None else "item")
            parts += [text[end:start], new]
            end = stop
        return "".join((*parts, text[end:]))

    def arguments(self, words: Sequence[str]) -> list[str]:
        """A command's words without what follows `--token`, or an option by which this program logs in."""
        plain = [re.sub(r"\s", _BLANK, word.strip("\"'")) or _BLANK for word in words]
        shown = self.hidden(" ".join(plain), "commands").split(" ")
        told = ["", *words]
        return [
            self.gone(word) if (len(shown) == len(plain) and new != old) or _gives_away(before, word) else word
            for before, word, new, old in zip(told, words, shown, plain)
        ]

    def options(self, match: re.Match[str], words: str) -> str:
        """A command without what follows the options by which it logs in; of some also without every word that nobody knows."""

        def word(found: re.Match[str]) -> str:
            value = found["value"] or "-"
            address = "://" in value and "@" not in value
            stays = value[0] == "-" or address or (not found["opens"] and (match["loose"] is None or known(value)))
            return found.group() if stays else found.group()[: -len(value)] + self.gone(value)

        return PATTERNS.OPTION.sub(word, words)

    def four_numbers(self, match: re.Match[str], numbers: str) -> str:
        """An address, unless what is before or behind says that it is a version and it does not stand where an address does."""
        if numbers in self.addresses:
            return self.addresses[numbers]
        before = match.string[max(0, match.start() - _LONG) : match.start()].rpartition("\n")[2]
        behind = match.string[match.end() : match.end() + _SHORT]
        if numbers in ("127.0.0.1", "0.0.0.0") or behind.startswith("-microsoft"):  # noqa: S104 - every machine's own, and WSL's kernel
            return numbers
        if PATTERNS.PRIVATE.match(numbers) or PATTERNS.ADDRESSED.search(before) or re.match(r"[:/]\d|>", behind):
            return self.addresses.setdefault(numbers, self.of("ip", numbers))
        # 10.x is a private network, and cuRAND, cuFFT and TensorRT count through 10: there only a name before it says that it is a version.
        goes_on = not numbers.startswith("10.") and PATTERNS.GOES_ON.match(behind)
        version = PATTERNS.OF_PACKAGE.search(before) or goes_on
        return numbers if version else self.addresses.setdefault(numbers, self.of("ip", numbers))

    # ------------------------------------------------------------ names
    def _named(self, kind: str, name: str) -> str:
        return name if PATTERNS.PSEUDONYM.fullmatch(name) else self.of(kind, name)

    def serial(self, number: str) -> str:
        return self._named("serial", number)

    def user(self, name: str) -> str:
        return self._named("user", name)

    def host(self, name: str) -> str:
        return name if name == "host" else self._named("host", name)

    def site(self, name: str) -> str:
        """Addresses on the public web stay: they say where to read on."""
        bare = name.rstrip(".")
        plain = PATTERNS.PUBLIC.search(bare) is not None or re.fullmatch(r"[\d.]+", bare) is not None
        return name if plain else self.host(bare) + name[len(bare) :]

    def uuid(self, number: str) -> str:
        if len(number) > _LONGEST_NUMBER:
            return self.gone(number)
        self.note("UUID", number.lower())
        out = []
        for place, letter in enumerate(number):
            shift = 0 if letter in "-_" else int(self.digest(number[:place].lower(), 1), 16)
            shifted = letter if letter in "-_" else f"{(int(letter, 16) + shift) % 16:x}"
            out.append(shifted.upper() if letter.isupper() else shifted)
        return "".join(out)


def _gives_away(option: str, word: str) -> bool:
    return option.startswith("-") and PATTERNS.SECRET_KEY.fullmatch(option.lstrip("-")) is not None and not word.startswith("-")


def boot_words(said: str) -> str:
    """The boot parameters that concern a GPU, and a mark for the others."""
    begins = re.match(r"BOOT_IMAGE=[(/]", said)
    image = f"{begins.group()}{GONE}" if begins is not None else ""  # GRUB is known by it
    return image + "".join(f" {word}" for word in said.split() if PATTERNS.BOOT_WORD.fullmatch(word)) + f" {GONE}"


def drawn_by_lot(word: str) -> bool:
    """Whether a word changes between capitals, small letters, digits and signs as often as chance does, and no name of parts does.

    It has letters of both cases and digits, and a sign among them or 12 characters without - and _.
    """
    cases = any(map(str.isupper, word)) and any(map(str.islower, word)) and any(map(str.isdigit, word))
    if not cases or PATTERNS.WRITTEN.fullmatch(word):
        return False
    long_enough = re.search(r"[^\w-]", word) is not None or max(map(len, re.split("[_-]", word))) >= _DRAWN
    return long_enough and len(PATTERNS.PIECE.findall(word)) - 1 >= _CHANGES * (len(word) - 1)


def _column(sign: str, wanted: list[bool], table: str, hidden: Callable[[str], str]) -> str:
    """A table in whose lines with as many cells some columns are hidden."""
    lines = []
    for line in table.split("\n"):
        cells = line.split(sign)
        if len(cells) == len(wanted) > 1:
            cells = [hidden(cell) if hides else cell for cell, hides in zip(cells, wanted)]
        lines.append(sign.join(cells))
    return "\n".join(lines)
