"""Causes and recipes as the knowledge files state them, and the prescription that a user gets."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.findings import Effect, Layer
from cudadoctor.model.values import RungName

# What a step's command changes: nothing; the calling shell, or a program that it starts (nobody can do it for that shell); packages and
# settings of this user; the machine, as root; starts a service, a session or the machine anew; ends programs or removes something.
Kind = Literal["reads", "session", "environment", "system", "restart", "destructive"]
Mode = Literal["do", "or", "if"]  # or: in place of the steps before it; if: only where something holds that the doctor cannot see
Who = Literal["user", "administrator", "afterwards"]  # afterwards: the user again, once the administrator is done
Action = Literal[
    "none", "set-environment", "install-package", "install-driver", "reload-driver", "reboot", "reset-gpu",
    "restart-container", "fix-program", "free-gpu", "firmware-setup", "inspect-hardware", "ask-administrator",
    "request-gpu", "collect-evidence",
]  # fmt: skip


class StepTemplate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a recipe. Placeholders are {name}; values are shell-quoted when they are put into `shell`.

    `shell`: the same for every Linux distribution. `shells`: by family (debian, ubuntu, fedora, rhel, arch, suse), and for systems that
    are changed in another way: nixos, ostree and transactional (images), windows (PowerShell). Neither: words only.
    `when`: the step is for machines where these conditions hold (prescribe/conditions.py).
    `kind`: what its command does to the machine; every step with a command states it, and words do where they ask for a restart.
    `mode` and `given`: an alternative and when it is the better one ("a restart has to wait"), or the condition that the reader looks at
    ("the engine does not know --gpus"); they are read after "Or, where" and "If".
    `known_by`: conditions under which it is known that the one that is `given` holds: the step is one like others then.
    `suffices`: where this step is for the machine, and these conditions hold if it names some, the recipes behind its own have nothing
    left to do.
    `who`: who carries it out where the user cannot become root; prescribe/rights.py knows what holds where it is not said.
    """

    text: str
    shell: str | None = None
    shells: dict[str, str] = {}
    verify: str | None = None
    undo: str | None = None
    needs_root: bool = False
    kind: Kind | None = None
    mode: Mode = "do"
    given: str | None = None
    known_by: str | None = None
    when: str | None = None
    suffices: bool | str = False
    who: Who | None = None


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fix shared by causes: knowledge/recipes/<id>.toml."""

    id: str
    action: Action
    steps: tuple[StepTemplate, ...]
    sources: tuple[str, ...] = ()


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that states its cause, and the program that prints it. `contains`: a case-sensitive literal of six or more characters, or
    several of which each will do. `example`: what the program prints, one text or several; each literal is in one of them.

    `pattern` is tried on the `window` lines around a hit, `unless` refuses a hit where it matches there, `until` where it matches on its
    line or further below: the program says that it is over.
    `suspects`: the message has several causes; it states none and raises suspicion of these, likeliest first.
    `values`: what it means for the steps beyond its own words; the groups of `pattern` that have a name are values too.
    `advice`: the message is no failure (a warning, a line of a listing); it blames nothing, and leads only where nothing else does.
    """

    contains: str | tuple[str, ...]
    program: str = ""
    example: str | tuple[str, ...] = ()
    pattern: str | None = None
    unless: str | None = None
    until: str | None = None
    window: int = 1
    suspects: tuple[str, ...] = ()
    values: dict[str, str] = {}
    advice: bool = False

    @property
    def literals(self) -> tuple[str, ...]:
        return (self.contains,) if isinstance(self.contains, str) else self.contains

    @property
    def examples(self) -> tuple[str, ...]:
        return (self.example,) if isinstance(self.example, str) else self.example


class Cause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A root cause: knowledge/causes/<id>.toml. The file's name is its id."""

    id: str
    title: str
    named: str | None = None  # the title where the values that it names are known: "{variable} breaks CUDA"
    layer: Layer
    row: str  # the row of the pipeline that shows it
    breaks: tuple[RungName, ...]
    effect: Effect  # where no rung that it breaks was looked at
    in_use: bool = False  # no fault of the GPU, which serves others: nothing is broken where programs compute on another by default
    dormant: Effect = "degrades"  # where the rungs that it breaks were seen to work; advises: such a set-up may be meant
    signs: str = ""  # what distinguishes it from its neighbours; "not X" says which one to prefer when its evidence is there
    why: str  # plain words: what this means and why it stops a GPU program
    yields_to: tuple[str, ...] = ()
    tell_apart: str  # one command that shows whether this is the cause
    tell_apart_on_windows: str | None = None  # the same there, for PowerShell
    match: tuple[Match, ...] = ()
    tries: tuple[str, ...] = msgspec.field(name="try", default=())  # what to change to see whether it is this: knowledge/experiments.py
    recipes: tuple[str, ...] = ()
    driver: Literal["newer-branch", "newer-cuda", "open-modules", "proprietary-modules"] | None = None  # what is wrong with the present one
    no_software_fix: str | None = None  # why none cures it; its recipes, all of action `none`, are what works without a cure
    sources: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step for this machine. All are the user's, but where root is needed and the user is known not to become it.

    `id` is recipe/number; `values`: what its commands are written with. `kind` is None for words that no command carries out. `when`
    belongs to `mode`: it is read after "Or, where" and "If".
    """

    id: str = ""
    text: str
    shell: str | None = None
    needs_root: bool = False
    kind: Kind | None = None
    mode: Mode = "do"
    when: str | None = None
    verify: str | None = None
    undo: str | None = None
    who: Who = "user"
    values: dict[str, tuple[str, ...]] = {}


Stage = Literal["gpu", "driver", "cuda", "toolkit", "python", "numba", "check"]
LegState = Literal["fits", "by-the-fix", "to-do", "later"]


class Leg(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage of the way to a running kernel: what it needs here, and what is left to do for it once the fix is done.

    `later`: not known before the stages above it are done.
    """

    stage: Stage
    state: LegState
    text: str
    steps: tuple[Step, ...] = ()


class Prescription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The steps for a cause. With `no_software_fix` they cure nothing: they are what can be done without a cure."""

    cause: str
    action: Action
    steps: tuple[Step, ...]
    no_software_fix: str | None = None
