"""The words by which a text says who else is on a GPU and how its programs ended, read by parsers/setting.py: data."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers._setting_words import Sign

_PROGRAM = r"(?:training|jobs?|scripts?|runs?|programs?|python|notebook|kernel|inference|server|it)"
_LINE_WAS_LOST = r"(?:broke|dropped|died|timed out|disconnected|was (?:lost|closed|cut)|got (?:lost|closed|cut))"

MEMORY_WORDS = (
    # Nobody but the user's own program can hold the memory.
    Sign(
        "alone",
        ("alone", "only user", "only one", "else", "o other"),
        lazy(
            r"(?i)\b(?:I am|I['’]m|I was|is|runs) (?:all )?alone on (?:this|the|that|my) (?:card|gpu|machine|server|node|box|workstation)\b"
            r"|\bI am the only (?:user|one) (?:on|of|who uses|using)\b"
            r"|\b(?:nobody|no ?one|no other (?:user|person)) (?:else )?(?:uses|has an account|is (?:logged in|on)|works)\b"
            r"|\bnothing else (?:runs|is running|is open|uses|was running)\b"
            r"|\bno other (?:line|entry|process|program|job)s?\b[^.\n]{0,24}"
            r"\b(?:in the (?:table|list)|on (?:the|this) (?:card|gpu)|than my)\b"
        ),
    ),
    # A program that did not end by itself, or whose terminal went away under it.
    Sign(
        "cut-off",
        ("trl", "TRL", "kill", "ancel", "bort", "nterrupt", "stopp", "rash", "ssh", "SSH", "onnection", "ession", "erminal"),
        lazy(
            rf"(?i)\b(?:pressed|hit|with|used|after|by|typed)\b[^.\n]{{0,12}}\bctrl[ +-]?[cz]\b"
            rf"|\bctrl[ +-]?[cz]\b[^.\n]{{0,24}}\b{_PROGRAM}\b"
            rf"|\b(?:I|we)\b[^.\n]{{0,16}}\b(?:killed|aborted|cancell?ed|interrupted|stopped|terminated)\b[^.\n]{{0,24}}\b{_PROGRAM}\b"
            rf"|\b{_PROGRAM}\b[^.\n]{{0,16}}\b(?:was|got|has been) (?:killed|aborted|cancell?ed|interrupted|terminated)\b"
            rf"|\b{_PROGRAM} (?:has )?crashed\b"
            rf"|\b(?:ssh|connection|terminal|session)\b[^.\n]{{0,20}}\b{_LINE_WAS_LOST}\b"
        ),
    ),
)  # fmt: skip
