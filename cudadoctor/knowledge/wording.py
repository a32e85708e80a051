"""The rows of tables/circumstances.toml, lexicon.toml and discourse.toml as typed values: what a text shows beside messages, what people
write of a failure, and of the matter itself. And of placeholders.toml: what a step says of a value that is not known; of conditions.toml:
by which words a finding's lines tell where its steps are done.
"""

from __future__ import annotations

import re

from cudadoctor.knowledge.tables import Row, Table
from cudadoctor.model.pattern import lazy


class Circumstance(Row, frozen=True, kw_only=True):
    """A command, a place, a file or a line of a listing that tells where programs run or what was done.

    Found where one of its `hints` (literals) stands and one of its `patterns` fits on that line, and `unless` does not.
    """

    kind: str
    hints: tuple[str, ...]
    patterns: tuple[str, ...]
    unless: str | None = None
    ignore_case: bool = False


Words = str | tuple[str, ...]  # the name of a list of the lexicon, or words


class Says(Row, frozen=True, kw_only=True):
    """A subject and a complaint within `reach` characters of one sentence, where one of `also` stands in it too and none of `unless`."""

    kinds: tuple[str, ...]
    subject: Words
    complaint: Words
    also: Words = ()
    unless: Words = ()
    reach: int = 60


class Lexicon(Table, frozen=True, kw_only=True):
    words: dict[str, tuple[str, ...]]
    says: tuple[Says, ...]

    @property
    def denials(self) -> tuple[str, ...]:
        """What turns a complaint behind it into its opposite."""
        return self.words["denials"]

    def listed(self, words: Words) -> tuple[str, ...]:
        """KeyError where no list has this name."""
        return self.words[words] if isinstance(words, str) else words


class Placeholders(Table, frozen=True, kw_only=True):
    """By the value's name: what a sentence says in its place where it is not known, and the form that it has. `parts`: of forms."""

    words: dict[str, str]
    parts: dict[str, str]
    forms: dict[str, str]

    def compiled(self) -> dict[str, re.Pattern[str]]:
        parts = {f"<{name}>": pattern for name, pattern in self.parts.items()}
        found = dict(self.forms)
        for name, pattern in [*reversed(parts.items())]:  # a part names only those before it
            found = {form: whole.replace(name, pattern) for form, whole in found.items()}
        return {name: lazy(rf"\A(?:{pattern})") for name, pattern in found.items()}  # they are forms of whole values


class Conditions(Table, frozen=True, kw_only=True):
    """Patterns by what they say of a finding's place."""

    says: dict[str, str]
    outcomes: dict[str, str]
    engines: dict[str, str]
    capabilities: dict[str, str]
    frameworks: dict[str, str]
    packages: dict[str, str]
    words: dict[str, str]
    texts: dict[str, str]

    def compiled(self) -> dict[str, dict[str, re.Pattern[str]]]:
        kinds = [name for name in self.__struct_fields__ if name not in Table.__struct_fields__]
        return {kind: {name: lazy(pattern) for name, pattern in getattr(self, kind).items()} for kind in kinds}


class Discourse(Table, frozen=True, kw_only=True):
    """Lists of words by what they say of the matter itself: `over`, `others`, `meets` ..."""

    words: dict[str, tuple[str, ...]]

    def any_of(self, *names: str) -> re.Pattern[str]:
        """Finds a word of these lists; one that ends in * may go on, one that begins with it may have begun before."""
        apart: dict[tuple[str, str], list[str]] = {}  # what must not stand before and behind is looked for once, not for each word
        for word in (word for name in names for word in self.words[name]):
            apart.setdefault((_edge(word[0], r"(?<!\w)"), _edge(word[-1], r"(?!\w)")), []).append(re.escape(word.strip("*")))
        return lazy("|".join(f"{before}(?:{'|'.join(words)}){after}" for (before, after), words in apart.items()), re.IGNORECASE)


def _edge(letter: str, no_letter: str) -> str:
    """A word of a script without blanks between words stands anywhere."""
    return no_letter if letter.isalnum() and letter < "\u3000" else ""
