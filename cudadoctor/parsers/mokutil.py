"""mokutil --sb-state (and the line of bootctl): whether Secure Boot checks the signatures of kernel modules."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SECURE_BOOT
from cudadoctor.parsers.base import Output, Parser, Text

_STATE = lazy(r"[ \t>|:]{0,20}Secure ?Boot:? {1,4}(enabled|disabled)\b")
_NOT_IN_SHIM = "SecureBoot validation is disabled in shim"
# Said on machines that booted without EFI, and also in containers that do not see the firmware's variables.
_NO_EFI = ("EFI variables are not supported on this system", "This system doesn't support Secure Boot")


def parse(text: Text) -> Output:
    """One fact. Secure Boot whose validation is switched off in shim does not refuse modules, so it counts as off."""
    states: list[tuple[bool, int]] = []
    shim = no_efi = 0
    for number, line in enumerate(text.lines, 1):
        if "Secure" not in line and "EFI" not in line:
            continue
        match = _STATE.match(line)
        if match:
            states.append((match[1] == "enabled", number))
        elif _NOT_IN_SHIM in line:
            shim = number
        elif not no_efi and any(words in line for words in _NO_EFI):
            no_efi = number
    if states:
        enabled, number = states[-1]
        quotes = [text.quote(number), text.quote(shim)] if shim else [text.quote(number)]
        yield text.fact(SECURE_BOOT, enabled and not shim, *quotes)
    elif no_efi:
        yield text.fact(SECURE_BOOT, False, text.quote(no_efi), whole=False)


PARSER = Parser(
    name="mokutil",
    reads=("mokutil",),
    keys=(SECURE_BOOT.name,),
    parse=parse,
    wakes=("SecureBoot enabled", "SecureBoot disabled", "Secure Boot: enabled", "Secure Boot: disabled", *_NO_EFI),
    reads_stderr=True,
)
