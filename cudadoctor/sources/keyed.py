"""Secrets that are known by the name that stands before them, such as `password`.

One table of names, whatever joins a name to its value: password=x, "api_key": "x", --token x, setenv DB_PW x, <secret>x</secret>.
Standard library only.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache

from cudadoctor.sources.common_names import USERS, WORDS

# What the name of a secret ends with. `line`: its value has blanks in it; `counted`: with a number it is a count of words;
# `short`: other words end so too.
NAME = (
    r"(?:(?P<line>authorization|cookie|mnemonic|(?:pass|seed|recovery|backup)[ _-]?(?:phrase|code))|(?P<counted>token)|"
    r"(?:access|account|activation|api|auth|consumer|deploy|disk|encryption|hmac|jwt|licen[cs]e|luks|master|munge|openai|private|product|"
    r"recovery|registration|secret|session|(?:pre)?shared|signing|storage|subscription|unlock|volume|wandb|wep)(?:: |[ _.-])?key"
    r"(?:[_-]?(?:id|base))?|(?<=login\()key|(?-i:SIGN2?)(?==)|"
    r"(?:admin|become|db|ftp|key|mail|require|root|smtp|ssh|store|sudo|trust|user|vault)pass|"
    r"(?-i:[A-Z0-9]_KEY|[A-Z](?:PASS|PW|PWD)|[a-z](?:Pass|Pw|Pwd))|client[_-](?:key|certificate)[_-]data|sshpass|bindpw|rootpw|"
    r"secret|pass[_-]?w(?:or)?[dt]|passcode|kennwort|mot[ _]de[ _]passe|contrase(?:n|\u00f1)a|senha|wachtwoord|has[l\u0142]o|"
    r"\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6[\u7801\u78bc]|\u30d1\u30b9\u30ef\u30fc\u30c9|"
    r"\ube44\ubc88|\u0e23\u0e2b\u0e31\u0e2a\u0e1c\u0e48\u0e32\u0e19|m\u1eadt kh\u1ea9u|"
    r"\u092a\u093e\u0938\u0935\u0930\u094d\u0921|\u03ba\u03c9\u03b4\u03b9\u03ba\u03cc[\u03c2\u03c3]|"
    r"\u05e1\u05d9\u05e1\u05de\u05d4|\u0433\u0430\u0441\u043b\u043e|\u53e3\u4ee4|\u0631\u0645\u0632 \u0639\u0628\u0648\u0631|"
    r"kata[ _]sandi|lozinka|geslo|parool|parola|heslo|jelsz[o\u00f3]|salasana|l[o\u00f6]senord|adgangskode|passord|"
    r"[\u015fs]ifre|\ube44\ubc00\ubc88\ud638|"
    r"\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631|(?<=--)key(?:[_-]string)?|"
    r"securestring(?:[ \t]{1,4}-string)?|credential|jwt|signature|authtok|[_-]verifier|(?<=[?&])(?:key|code|ticket|assertion)|"
    r"session[_-]?id|connection[_-]?string|"
    r"(?P<short>(?<![A-Za-z])(?:auth|clave|dsn|mdp|pass|pat|pin|psk|pwd?|sig|t?otp(?:[ _-]?(?:seed|key|code))?)))s?\d{0,3}"
)
_VERB = "\u662f\u4e3a\u70ba\u306f\ub294"  # "is", written to the name without a blank
_NAME = re.compile(rf"{NAME}(?![^\W{_VERB}]|-)", re.IGNORECASE)
# Between a name and its value: what closes the name and for whom or under which further name it is, a sign, a tag or a type (also YAML's
# and the shell's next line), and what opens the value.
_CLOSED = (
    r"\\{0,3}[\"'`]?[\])]?(?:[ \t]{1,4}(?:for|of)(?:[ \t]{1,4}\S{1,200}){1,2}(?=:[ \t]))?"
    r"(?:(?:</\w{1,20}>)?[\s,{<]{1,60}[\"']?(?:default|value)[\"']?)?"
)
_JOINED = (
    r"(?:[ \t]{0,60}(?:=>|=(?!=)|==(?=[ \t]?[\"'])|:=|:(?!:)|[\uff1a\uff1d])|[ \t]is:|"
    r"(?: [^<>\n]{1,80})?>(?=[^<\n]{1,400}</|[ \t]))"
)
_TAGGED = (
    r"(?:[ \t]{1,4}is:?(?=[ \t]))?"
    r"(?:[ \t]?[|>\\][+-]?[ \t]{0,4}\n[ \t]{0,60}|[ \t]{0,60}(?:!\w{1,40}[ \t]{1,4}|[A-Za-z_][\w.]{0,40}\((?=[\"'])|"
    r"\w[\w\[\].]{0,40}(?: \| None)? ?= ?(?=[\"']))?)"
)
_OPENED = r"(?:[bru]{1,2}(?=[\"']))?(?P<escape>\\{0,3})(?P<quote>[\"']?)"
_SIGN = re.compile(_CLOSED + _JOINED + _TAGGED + _OPENED)
_IS = r"(?:is(?: (?:now|still|set to))?|est|es|\u00e8|ist|lautet|[-\u2013])"
_BLANK = re.compile(
    rf"(?:(?:[ \t]{{1,4}}(?:at|for|in|of|on)[ \t]{{1,4}}\S{{1,80}}){{1,3}}(?=[ \t]{{1,4}}{_IS}[ \t]))?"
    rf"(?:\\{{0,3}}[\"']?(?P<listed>,?)[ \t|]{{1,60}}(?:REG_[A-Z_]{{2,20}}[ \t]{{1,60}})?|[\"'],\s{{0,20}}(?=[bru\"'])|[{_VERB}] ?)"
    rf"(?:(?P<is>{_IS})[ \t]{{1,4}})?\(?{_OPENED}"
)
# Where a blank is sign enough: behind an option, for a variable that is set, in netrc, in ("name", "value") and in a row of a table.
_TOLD = re.compile(
    r"(?:(?<![\w-])--?[\w.-]{0,60}|\([bru]{0,2}[\"'][\w.-]{0,60}|"
    r"\b(?:arg|env|export|set|setenv|setx|login[ \t]{1,4}\S{1,80})[ \t]{1,4}(?:-\w{1,4}[ \t]{1,4}){0,2}[\w.:-]{0,60}|"
    r"\b(?:nmcli|rclone[ \t]config)[ \t][^\n]{0,160}[ \t][\w.-]{0,40}|\bConvertTo-)$|^[ \t]{0,40}\|",
    re.IGNORECASE,
)
_WORDS_FOR_ONE = ("pass", "pw", "pwd", "PW")  # of the short ones: what people say of a password
_ALONE = re.compile(r"[ \t]{0,40}[\w.-]{0,60}")
# A value goes up to its own quote or the end of its element; else up to a blank, or to what begins the next thing.
_QUOTED = {
    "'": re.compile(r"(?:\\[^\n]|[^\\\n']){1,4000}(?=')"),
    '"': re.compile(r"(?:\\[^\n]|[^\\\n\"]){1,4000}(?=\")"),
    "\\": re.compile(r"[^\\\n\"']{1,4000}(?=\\)"),
    ">": re.compile(r"[^<\n]{1,4000}(?=</)"),
}
_LINE = re.compile(r"(?:[^\n\"']{1,4000}|(?<==)\"[^\"\n]{0,400}\"){1,400}")
_REST = re.compile(r"\S{1,4000}")
_STOP = re.compile(r"(?=[,;&][\w.-]{1,40}[=:]|\\{0,3}[\"'](?:[\s,:;)\]}\\]|$)|</|\s)")  # where such a value ends
_OPAQUE = re.compile(r"(?=\S{0,40}[A-Z])(?=\S{0,40}[a-z])(?=\S{0,40}\d)[\w!$%&*+@^~=#-]{8,80}(?=[,.;)\"']{0,2}(?:\s|$))")
_SPOKEN = re.compile(r"(?=\S{0,80}\d)(?=\S{0,80}[A-Za-z])[\w!$%&*+/@^~=.|:-]{6,400}")
_ENDS_LINE = re.compile(r"[\"']?[ \t]{0,40}(?:\||\r?\n|\Z)")
# What stands in a value's place and is none: a word of a message, a variable, a file's path.
_NONE = re.compile(
    r"none|null|nil|true|false|yes|no|not|missing|invalid|required|expired|authentication|is|was|<?redacted>?|\$\{?[A-Z_][A-Z0-9_]*\}?|%\w|\W*|"
    r"(?:~|/(?:etc|home|lib|opt|root|run|tmp|usr|var))/.*",
    re.IGNORECASE,
)
_VERSION = re.compile(r"\d{1,4}[.:]\d")
_COUNT = re.compile(r"\d[\d.,_]*\w?(?:/\w{1,6})?")
_SIGNS = "()[]{}<>,.;:'\"\\"
LONGEST = 200  # characters of a line that are looked at before a name


def is_name(word: str) -> bool:
    """Whether a word is the name of a secret."""
    return _NAME.fullmatch(word) is not None


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the secrets that follow a name stand."""
    end = 0
    for name in _NAME.finditer(text):
        value = _joined(text, name) or _behind_blank(text, name) if name.start() >= end else None
        if value is not None:
            start, end = value.start(), value.start() + len(value.group().rstrip("()[]{},;'\""))
            yield start, end


@lru_cache(maxsize=1)
def _stops(text: str) -> list[int]:
    """Looked for once in each text: from each of many names the way to the next may be long."""
    return [stop.start() for stop in _STOP.finditer(text)]


def _stop(text: str, start: int) -> int:
    stops = _stops(text)
    place = bisect_left(stops, start)
    return stops[place] if place < len(stops) else len(text)


def _joined(text: str, name: re.Match[str]) -> re.Match[str] | None:
    sign = _SIGN.match(text, name.end())
    value = sign and _value(text, name, sign)
    if sign is None or value is None:
        return None
    # "PASS: test_3 in 2 s": a short word by itself, with a colon, names a secret where nothing else follows.
    bare = name["short"] is not None and text[name.start() - 1 : name.start()] not in ("_", "-", "'", '"') and "=" not in sign.group()
    last = value.group().endswith((")", "]")) or _ENDS_LINE.match(text, value.end()) is not None
    return None if bare and not last else value


def _behind_blank(text: str, name: re.Match[str]) -> re.Match[str] | None:
    blank = _BLANK.match(text, name.end())
    value = blank and _value(text, name, blank)
    if blank is None or value is None:
        return None
    first = max(text.rfind("\n", max(0, name.start() - LONGEST), name.start()) + 1, name.start() - LONGEST)
    before = text[first : name.start()]
    if _TOLD.search(before):
        return value if value.group()[0] != "-" else None
    said = before.endswith("(") or (blank["is"] is not None and name["short"] in _WORDS_FOR_ONE)
    if name["short"] in _WORDS_FOR_ONE[1:] and not said:
        return _OPAQUE.match(text, value.start())
    if (name["short"] is not None and not said) or blank["listed"] or _VERSION.match(value.group()):
        return None
    alone = _ALONE.fullmatch(before) and _ENDS_LINE.match(text, value.end()) and value.group().lower() not in WORDS | USERS
    return value if alone else _SPOKEN.match(text, value.start())


def _value(text: str, name: re.Match[str], before: re.Match[str]) -> re.Match[str] | None:
    """The value that begins here; None where it says nothing: a word of a message, a number or a mark where tokens are counted."""
    if name["counted"] is not None and text.startswith(("<", "[", "{", "("), before.end()):
        return None
    opened = "\\" if before["escape"] and before["quote"] else before["quote"] or before.group()[-1:]
    value = _QUOTED[opened].match(text, before.end()) if opened in _QUOTED else None
    if value is None and name["line"] is not None and not before["quote"]:
        value = _LINE.match(text, before.end())
    value = value or _REST.match(text, before.end(), _stop(text, before.end()))
    bare = value.group().strip(_SIGNS) if value is not None else ""
    counted = name["counted"] is not None and _COUNT.fullmatch(bare) is not None
    return None if len(bare) < 3 or counted or _NONE.fullmatch(bare) is not None else value
