"""The words by which a text says which libraries of CUDA are there, read by parsers/setting.py: data, as _setting_words.py."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers._setting_words import Sign

_CUDNN_DLL = r"cudnn(?:_[a-z_]{2,24})?64_\d{1,2}\.dll"
_ABSENT = (
    r"(?:missing|absent|not found|can(?:no|')t (?:be )?f(?:i|ou)nd|not there|red|rot\w{0,2}|fehlt|fehlend\w{0,2}|nicht gefunden"
    r"|manque|introuvable|falta)"
)

LIBRARY_WORDS = (
    # The loader is led nowhere: neither a variable nor a toolkit beside the packages.
    Sign(
        "no-library-path",
        ("LD_LIBRARY_PATH",),
        lazy(
            r"(?i)\bLD_LIBRARY_PATH[`'\"]?,? (?:is |ist |est |está |is not |isn't |nicht |was )?"
            r"(?:empty|unset|not set|set anywhere|set at all|undefined|leer|nicht gesetzt|gesetzt nicht|vide|vac[ií]o|пуст\w?)\b"
        ),
    ),
    # A tool that shows what a DLL needs, or the user, finds none of cuDNN's.
    Sign(
        "no-cudnn",
        ("cudnn",),
        lazy(
            rf"(?i)\b{_ABSENT}\b[^.\n]{{0,40}}[ `'\"(/\\]{_CUDNN_DLL}|\bno {_CUDNN_DLL}"
            rf"|\b{_CUDNN_DLL}[`'\")]{{0,2}}[^.\n]{{0,16}}\b{_ABSENT}\b"
        ),
    ),
)  # fmt: skip
