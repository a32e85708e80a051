"""Secrets without a name of their own: known by who takes them, for a command, a call or a sentence lets somebody in with them.

Behind the option by which a program logs in, as the next of its words, through its standard input, as an argument, beside a user's name.
What a name such as `password` announces is in keyed.py. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from cudadoctor.sources.private_paths import known

_TO = r"[ \t]{1,4}"
# A value, and one that no word of a language is: with letters and digits.
_VALUE = r"['\"]?(?![-<$%])(?P<value>[^\s'\"\\|;]{3,200})"
_MIXED = r"['\"]?(?=[^\s'\"]{0,60}[A-Za-z])(?=[^\s'\"]{0,60}\d)(?P<value>[^\s'\"\\,;()/]{6,200})"
# Commands that read a password from their standard input.
_READS = (
    r"(?:sudo\b[^\n|<]{0,60}[ \t]-\w{0,6}S\b|(?:sudo[ \t]{1,4})?(?:chpasswd|cryptsetup|gpg2?|kinit|smbpasswd|su|\w{0,6}passwd|"
    r"[\w ]{1,20}login)\b|[^\n|<]{1,80}[ \t]--?(?:pass|key-?file)[\w-]{0,20})"
)


class _Taker(NamedTuple):
    """What takes a secret. `words`: in small letters, without one of which none of it stands in a text."""

    words: list[str]
    pattern: re.Pattern[str]


def _taker(words: str, *pattern: str) -> _Taker:
    return _Taker(words.split("|"), re.compile("".join(pattern), re.MULTILINE))


_TAKERS = (
    # ---- its standard input
    _taker(
        "echo|printf|yes",
        rf"\b(?:echo|printf|yes){_TO}(?:(?:-\w{{1,3}}|[\"']?%s(?:\\n)?[\"']?){_TO}){{0,2}}{_VALUE}[\"']?[ \t]{{0,4}}\|[ \t]{{0,4}}{_READS}",
    ),
    _taker(
        "(echo|(printf",
        rf"(?:pass|key|psk|secret|token)[\w-]{{0,20}}[ \t=]{{1,4}}[<$]\((?:echo|printf){_TO}(?:-n{_TO})?",
        r"['\"]?(?P<value>[^\s'\"\\|;)]{3,200})",
    ),
    _taker(
        "<<<",
        r"\b(?:sudo\b[^\n|<]{0,60}[ \t]-\w{0,6}S|gpg2?|kinit|su|\w{0,6}passwd|cryptsetup|\w{1,20}[ \t]login|(?<=-)pass[\w-]{0,20})",
        rf"\b[^\n|<]{{0,120}}<<<[ \t]{{0,4}}{_VALUE}",
    ),
    _taker(
        "echo|printf",
        rf"\b(?:echo|printf){_TO}(?:-\w{{1,3}}{_TO})?{_VALUE}[\"']?[ \t]{{0,4}}>{{1,2}}[ \t]{{0,4}}",
        r"(?=\S{0,100}(?:passw|\.key\b|secret|token|netrc|pgpass|credential))",
    ),
    _taker("send", rf"\bsend(?:_user)?{_TO}(?:--{_TO})?['\"](?P<value>[^\s'\"\\]{{3,200}})(?=\\[rn])"),
    _taker("send", r"(?i:\bpass(?:word|phrase)[\w :]{0,20}\"\s{1,20}send[ \t]{1,4}['\"])(?P<value>[^\s'\"\\]{3,200})"),
    # ---- its next word
    _taker(
        "mc|poetry|community|createuser|rclone|secret_access_key|convertto|radtest",
        rf"\b(?:mc{_TO}(?:alias{_TO}set|config{_TO}host{_TO}add)(?:{_TO}\S{{1,200}}){{3}}|poetry{_TO}config{_TO}(?:\S{{0,40}}token\S{{0,60}}|",
        rf"http-basic\S{{0,60}}{_TO}\S{{1,60}})|r[ow]community6?|createUser(?:{_TO}\S{{1,60}}){{2}}|rclone{_TO}obscure|secret_access_key|",
        rf"ConvertTo-SecureString(?:{_TO}-String)?|radtest(?:{_TO}-\S{{1,20}}){{0,4}}{_TO}\S{{1,60}}){_TO}{_VALUE}",
    ),
    _taker(
        "com2sec|set password|rootpw|from-literal",
        rf"\b(?:com2sec(?:{_TO}\S{{1,60}}){{2}}{_TO}|user{_TO}set{_TO}password{_TO}\d{{1,3}}{_TO}|rootpw(?:{_TO}--\w{{1,20}}){{1,3}}{_TO}|",
        rf"from-literal[= ]['\"]?[\w.-]{{1,80}}=){_VALUE}",
    ),
    _taker("community", rf"(?i:\bcommunity(?: string)?(?: is|:)? ){_MIXED}"),
    _taker("auth", rf"^(?:\S{{0,40}}> ?)?(?i:auth)(?: [\w.-]{{1,40}})? {_MIXED}(?=['\"]?$)"),
    _taker("radtest", rf"\bradtest(?:{_TO}\S{{1,200}}){{4,9}}{_TO}{_VALUE}(?=[ \t]{{0,4}}$)"),
    _taker(
        "unseal|rekey|attach|cloudflared|login|suseconnect|anaconda",
        rf"\b(?:vault{_TO}operator{_TO}(?:unseal|rekey)|(?:pro|ua){_TO}attach|cloudflared{_TO}service{_TO}install|",
        rf"(?:wandb|vault|netlify){_TO}login|SUSEConnect{_TO}-r|anaconda{_TO}-t)(?:{_TO}-[\w-]{{1,30}}){{0,3}}{_TO}{_MIXED}",
    ),
    # ---- its options
    _taker("zip|mosquitto", rf"\b(?:unzip|zip|mosquitto_[a-z]{{3}})\b(?:[^\n|]{{0,160}}[ \t]|[ \t]{{1,4}})-P{_TO}{_VALUE}"),
    _taker("ssh-keygen", rf"\bssh-keygen\b[^\n|]{{0,160}}[ \t]-N{_TO}{_VALUE}"),
    _taker("pass:", r"[ \t]-pass(?:in|out)?[ \t=]{1,4}['\"]?pass:(?P<value>[^\s'\"\\]{3,200})"),
    _taker(
        "-u|--user",
        r"(?<=\s)(?:-u|--user(?:name)?)[ \t=]?[\w.@-]{1,60}:(?=\S{0,60}[A-Za-z])(?=\S{0,60}\d)(?P<value>[^\s/:'\"]{4,200})(?!\S)",
    ),
    _taker(
        "-u",
        r"(?<=\s)-[uU][ \t=]?(?![\w./-]{1,60}\.py\b)[\w.@-]{1,60}(?:[ \t]{1,4}-{1,2}[\w-]{1,20}(?:[ \t=]\S{1,80})?){0,3}[ \t]{1,4}",
        r"-[pP][ \t]?(?=\S{0,60}[A-Za-z])(?=\S{0,60}\d)(?P<value>[^\s/:.'\"=-]{6,200})(?!\S)",
    ),
    # ---- languages of data bases, and calls
    _taker(
        "identified|password",
        r"(?i:\bidentified (?:with \S{1,60} )?(?:by|as) (?:password )?|\bwith password |\bset password\b[^\n=]{0,120}= ?)",
        r"['\"](?P<value>[^\s'\"\\]{3,200})",
    ),
    _taker(
        "auth|.login(",
        r"(?i:\bauth ?= ?\(?(?:[\w.]{0,20}auth\()?|\.(?:login|authenticate)\()",
        r"[bru]?['\"][^'\"\n]{0,100}['\"], ?[bru]?['\"](?P<value>[^\s'\"\\]{3,200})",
    ),
    _taker(
        "connect(",
        r"\bconnect\((?:[^,()\n]{1,80}, ?){1,4}[bru]?['\"][^'\"\n]{1,60}['\"], ?[bru]?['\"](?P<value>[^\s'\"\\]{3,200})(?=['\"]\))",
    ),
    # ---- a user's name beside it
    _taker("jdbc:", r"(?i:\bjdbc:[\w:]{1,40}:)[\w.$#-]{1,60}/(?P<value>[^\s/@'\"]{3,200})(?=@)"),
    _taker("user=|username=", r"(?i:\buser(?:name)?=)[\w.\\-]{1,60}%(?P<value>[^\s,'\"]{3,200})"),
    _taker(
        "log|ssh|sign",
        r"(?i:\b(?:log ?in|sign in|ssh)\b)[^\n()]{1,60}\((?=[^\s()]{0,60}\d)(?=[^\s()]{0,60}[A-Za-z])(?P<value>[^\s()'\"\\]{6,60})(?=\))",
    ),
    _taker(
        "log|ssh|sign",
        r"(?i:\b(?:log(?:ged)?[ -]?in|ssh(?: in)?|sign(?:ed)? in)(?: (?:is|as|with|using|by|via))? )",
        rf"[\w.@-]{{1,60}}(?: ?/ ?| and ){_MIXED}",
    ),
    _taker(" as ", rf"(?i:\bwith ){_MIXED}(?=['\"]?(?i: as (?:the |my |its |root )?(?:pass(?:word|phrase|code)?|pw|pin|token|secret)\b))"),
    _taker(
        "root|admin",
        rf"(?<![/\w.-])(?:root|[Aa]dmin(?:istrator)?)[/:](?=[^\s]{{0,60}}[A-Z])(?=[^\s]{{0,60}}[a-z]){_MIXED}(?![\w/])",
    ),
    _taker(
        "user|login|account|cred|usuario|utilisateur|benutzer|kennung|zugangsdaten|identifiant",
        r"(?i:\b(?:user(?:name)?|login|account|cred(?:ential)?|usuario|utilisateur|benutzer|kennung|zugangsdaten|identifiant)s?",
        r"(?: ?/ ?pass(?:word)?)?(?: ?[:=] ?| are | is ))",
        r"[\w.@-]{1,60}(?:/| / |:| and )(?P<value>[^\s/:'\"\\]{4,200})(?![/:\w])",
    ),
    _taker(
        "user|login|id|usuario|utilisateur|benutzer|kennung|identifiant",
        r"(?i:\b(?:user(?:name)?|login|id|usuario|utilisateur|benutzer|kennung|identifiant)[ :=]{1,3})[\w.@-]{1,60},?(?: and| y| et| und)?",
        rf" (?i:pass|pw|pwd|clave|mdp)[ :=]{{1,3}}{_MIXED}",
    ),
    _taker("chpasswd", r"^[ \t-]{0,40}[a-z][\w.-]{0,31}:(?!RANDOM$)(?P<value>[^\s:]{6,200})$"),
    # ---- nobody: what it is says enough
    _taker("pin|puk|tan|otp", r"\b(?:PIN|PUK|TAN|OTP)(?:[ -]?(?:code|number))?(?: (?:is|was))?[ :=]{1,3}(?P<value>\d{4,8})(?![\w.])"),
    _taker("code", r"(?i:\b(?:verification|one-time|authentication|2fa|mfa|security|access) code(?: is|:)? )(?P<value>\d{6,8})(?![\w.])"),
    _taker("passw", rf"(?i:passw(?:or)?d)[ \t]{{0,4}}\n[ \t]{{0,20}}(?=\S{{0,60}}[A-Z])(?=\S{{0,60}}[a-z]){_MIXED}(?=[ \t]{{0,20}}$)"),
    _taker(
        "licen",
        r"(?i:\blicen[cs]e\b[^\n]{0,20}[ :=\"'])(?=[A-Z0-9-]{0,60}\d)(?P<value>(?:[A-Z0-9]{4,6}-){2,7}[A-Z0-9]{4,6})(?![\w-])",
    ),
    _taker("licen", rf"(?i:\blicen[cs]e\b)[^\n]{{0,40}}\bkey[ :=]{{1,3}}{_MIXED}"),
)
_STORED = re.compile(r"\bvault[ \t]{1,4}(?:kv[ \t]{1,4}(?:put|patch)|write)[ \t][^\n]{1,400}")
# What Kubernetes keeps in a Secret: each of its lines has a name that its owner chose.
_KEPT = re.compile(
    r"^(?P<indent>[ \t]{0,20})(?:stringData|data):[ \t]{0,8}\n"
    r"(?:(?P=indent)[ \t]{1,8}[\w.-]{1,100}:[ \t][^\n]{1,4000}(?:\n|\Z)){1,60}",
    re.MULTILINE,
)
_KEPT_VALUE = re.compile(r"(?<=: )[ \t]{0,8}[^\s|>][^\n]{2,4000}")
_ASSIGNED = re.compile(r"(?<==)[^\s@]\S{2,200}")
# Programs that log in, by these options; `loose`: by any word of theirs.
_OPENS = r"-[aAbckKpPuUwWX]|-pass(?:in|out)?|--(?:proxy-)?user|--(?:src-|dest-)?creds|/\w{1,10}:"
_LOGIN = re.compile(
    r"\b(?i:(?P<loose>htpasswd|net[ \t]use|smbclient|sqlplus)|7z\w?|cqlsh|curl|https?(?=[ \t]{1,4}-)|ipmitool|ldap\w{1,10}|lftp|"
    r"mongo\w{0,8}|mysql\w{0,8}|ncftp\w{0,4}|openssl|psexec|racadm|rdesktop|redfish\w{0,6}|redis-cli|(?:un)?rar|skopeo|snmp\w{1,12}|sqlcmd|sshpass|"
    r"user(?:add|mod)|wget|xfreerdp|"
    r"(?:az|buildah|docker|helm|nerdctl|oc|podman|twine)\b[^\n]{0,60}?[ \t](?:login|upload))(?:64)?(?:\.exe)?"
    rf"(?=[^\n]{{0,200}}?[ \t](?:{_OPENS}|-\w{{1,6}}u[\w.@-]{{1,60}}:|\\\\|[\w.$#-]{{1,60}}/[^\s/]{{1,80}}@))(?P<words>[ \t][^\n]{{1,400}})"
)
_WORD = re.compile(rf"[ \t](?:(?P<opens>{_OPENS}|-\w{{1,6}}u(?=[\w.@-]{{1,60}}:))[= \t]?)?(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+)?")


def without(text: str, gone: Callable[[str], str]) -> str:
    """The text without the secrets that somebody is handed in it."""

    def hidden(match: re.Match[str]) -> str:
        whole, start, end = match.group(), match.start("value") - match.start(), match.end("value") - match.start()
        return whole[:start] + gone(match["value"]) + whole[end:]

    small = text.lower()
    for taker in _TAKERS:
        if any(word in small for word in taker.words):
            text = taker.pattern.sub(hidden, text)
    if "vault" in text:
        text = _STORED.sub(lambda match: _ASSIGNED.sub(lambda value: gone(value.group()), match.group()), text)
    if "kind: secret" in small:
        text = _KEPT.sub(lambda match: _KEPT_VALUE.sub(lambda value: gone(value.group()), match.group()), text)
    return _LOGIN.sub(lambda command: _without_options(command, gone), text)


def _without_options(command: re.Match[str], gone: Callable[[str], str]) -> str:
    """A command without what follows the options by which it logs in; of some also without every word that nobody knows."""

    def word(found: re.Match[str]) -> str:
        value = found["value"] or "-"
        address = "://" in value and "@" not in value
        stays = value[0] == "-" or address or (not found["opens"] and (command["loose"] is None or known(value)))
        return found.group() if stays else found.group()[: -len(value)] + gone(value)

    return command.group()[: -len(command["words"])] + _WORD.sub(word, command["words"])
