"""Who carries out a step: the user alone, or whoever administers the machine.

Where the user cannot become root, what they can do alone comes first, and the steps that need root follow as a message to forward. The
owner of a laptop is no root either, but has sudo: for them nothing changes. So the order changes only on facts, the first that speaks:

1. Root is root (a container's root is not root of its host). On Windows nothing is told apart.
2. A job of a batch scheduler, or a pod: the node is its administrator's, whoever the user is there.
3. A member of a group that may use sudo can become root.
4. An ordinary user in a container: there is no sudo.
5. Other people's programs compute on the GPU: the machine is shared, and its users are seldom its administrators.
6. The groups are known and none of them may use sudo. On Debian and SUSE that does not speak against someone who sits at the machine's
   own screen: an owner there becomes root with a password of root's own, and needs no group for it.
7. Otherwise nobody knows, and the steps stay in their order.
"""

from __future__ import annotations

from cudadoctor.model.recipe import Action, StepTemplate, Who
from cudadoctor.model.values import CONTAINER_MARKS, NVML, PROCESSES, USER
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.places import in_pod, scheduler

MAY_USE_SUDO = frozenset(("root", "sudo", "wheel", "admin", "admins", "sudoers", "google-sudoers"))
# What is done to the machine itself; such steps are the administrator's even where no command stands in them.
_TO_THE_MACHINE = ("install-driver", "reload-driver", "reboot", "reset-gpu", "firmware-setup", "inspect-hardware", "ask-administrator")
# What the user does alone, then what is forwarded, then what is left to do after that.
ORDER: tuple[Who, ...] = ("user", "administrator", "afterwards")


def cannot_become_root(case: Case) -> bool:
    """Whether it is known that this user needs somebody else for what needs root. The rule stands above."""
    if case.windows or case.is_root:
        return False
    if scheduler(case) is not None or in_pod(case) or "no-sudo" in case.setting.words:
        return True
    user = case.get(USER)
    if user is None or user.uid == 0 or MAY_USE_SUDO & set(user.groups):
        return False  # uid 0: root in a container, whose host may well be the user's own
    if case.get(CONTAINER_MARKS) or _shared(case):
        return True
    distant = any(case.variable(name) is not None for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))
    at_its_screen = not distant and any(case.variable(name) for name in ("WAYLAND_DISPLAY", "DISPLAY"))
    return bool(user.groups) and not (case.system.family in ("debian", "suse") and at_its_screen)


def _shared(case: Case) -> bool:
    """Whether a program of another person computes on a GPU. Root's and the system's services are on every machine."""
    nvml, table = case.get(NVML), case.get(PROCESSES)
    if nvml is None or table is None:
        return False
    computing = {entry.pid for entry in nvml.processes if entry.kind is None or "C" in entry.kind}
    others = (entry for entry in table.processes if entry.pid in computing and entry.own is False and entry.service is not True)
    return any(entry.user not in (None, "root") for entry in others)


def who(template: StepTemplate, action: Action | None, case: Case) -> Who:
    if not cannot_become_root(case):
        return "user"
    if case.host:
        return "administrator"
    if template.who is not None:
        return template.who
    words = template.shell is None and not template.shells
    return "administrator" if template.needs_root or template.kind == "restart" or (words and action in _TO_THE_MACHINE) else "user"
