"""The rows of tables/circumstances.toml and lexicon.toml as typed values: what a text shows beside messages, what people write."""

from __future__ import annotations

from cudadoctor.knowledge.tables import Row, Table


class Circumstance(Row, frozen=True, kw_only=True):
    """A command, a place, a file or a line of a listing that tells where programs run or what was done.

    Found where one of its `hints` (literals) stands and one of its `patterns` fits on that line, and `unless` does not.
    """

    kind: str
    hints: tuple[str, ...]
    patterns: tuple[str, ...]
    unless: str | None = None
    ignore_case: bool = False


class Circumstances(Table, frozen=True, kw_only=True):
    circumstance: tuple[Circumstance, ...]


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
