"""The steps for a root cause on this machine. Pure: commands are written here, none is run.

A cause names its recipes (knowledge/recipes); their steps are chosen by conditions, filled with values, and quoted. Where a value is not
known a step keeps its words and has no command. Commands that need root get `sudo` unless the user is root already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Finding
from cudadoctor.model.pattern import lazy
from cudadoctor.model.recipe import Action, Prescription, Recipe, Step, StepTemplate, Who
from cudadoctor.model.values import CONTAINER_MARKS, DKMS, DRIVER_PACKAGES
from cudadoctor.model.version import ComputeCapability
from cudadoctor.prescribe import managers, pip, rights, settings
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.conditions import OTHER_MODULES, holds, installed_branches
from cudadoctor.prescribe.dialect import PIP, fill_powershell, for_cmd, in_powershell, portable, template_of, words_of
from cudadoctor.prescribe.distribution import Distribution, from_word, of_facts
from cudadoctor.prescribe.families import OF_DGX_SPARK, OF_REPOSITORY, choose, newest_of_debian
from cudadoctor.prescribe.gpus import Driver, Gpus, Need, gpus_of, is_headless, need_of
from cudadoctor.prescribe.placeholders import fits, for_commands, placeholders, refused
from cudadoctor.prescribe.places import in_pod, scheduler
from cudadoctor.prescribe.shells import Script, Value, each, fill_shell, fill_words, names, with_sudo

CHECK_AGAIN = "cudadoctor check"
MOST_PLACES = 8
MOST_PROCESSES = 8  # a recipe's steps about a process are written for so many of them
RESTARTS = ("reboot", "Restart-Computer")
VIRTUAL_ENVIRONMENT = "make-virtual-environment"
# What is done to the driver is done on the host of a container, and by the administrator of a cluster.
_HOST_ACTIONS = frozenset(("install-driver", "reload-driver", "firmware-setup", "reset-gpu"))
_LAYERED = lazy(r"^(?:sudo )?(?:rpm-ostree (?:un)?install|transactional-update .*pkg) ", re.MULTILINE)
_ON_THE_HOST = "This shell is inside a container, and the driver is its host's: what follows is to be done on the host, not in here."
_NAME_OF_NODE = "hostname"
_WITHOUT_A_STEP = Step(
    text="The steps for this cause are for Linux. On Windows install the newest driver for the GPU from https://www.nvidia.com/drivers; "
    "for a program in WSL, or on another machine, name its system: --distro wsl-ubuntu-24.04."
)
_OF_WINDOWS = lazy(r"\.dll\b|\b[A-Z]:\\")
_OF_DEBIAN = lazy(r"[~+](?:bpo|deb)\d")  # also in its backports
_OF_BUILD = lazy(r"\bnvidia[\w-]{0,20}/(\d{3})\.\d")
GB10 = ComputeCapability("12.1")  # of DGX Spark
_OF_PROCESS = lazy(r"\{(pid|parent)\}")


def prescribe(
    diagnosis_root: Finding | None, values: Mapping[str, str], facts: Facts, knowledge: Knowledge, distro: str | None
) -> Prescription | None:
    """The steps for the root cause. None: there is no root, or no step is known.

    Where no software cures it (`no_software_fix`) the steps are what can be done without a cure.
    """
    if diagnosis_root is None:
        return None
    case = case_of(diagnosis_root, values, facts, knowledge, distro)
    action: Action | None = None
    steps: list[Step] = []
    for name in _recipes(case):
        recipe = knowledge.recipe(name)
        rendered = list(_of_recipe(recipe, case, distro))
        if rendered and action is None:
            action = recipe.action
        said = {step.shell for step in steps if step.kind == "system"}
        steps += [step for step in rendered if (step.shell not in said if step.shell is not None else step not in steps)]
        if any(_suffices(step, case) for step in recipe.steps):
            break
    if case.windows and action is None and case.cause.recipes:
        action, steps = "none", [_WITHOUT_A_STEP]
    if action is None:
        return None
    return Prescription(
        cause=diagnosis_root.cause,
        action=_without_packages(action, steps),
        steps=_checked_again(sorted(_one_restart(steps), key=lambda step: rights.ORDER.index(step.who))),
        no_software_fix=case.cause.no_software_fix,
    )


def _without_packages(action: Action, steps: Sequence[Step]) -> Action:
    """What the steps do where none of them changes a package: a restart, or a variable of the shell."""
    kinds = {step.kind for step in steps if step.shell is not None} - {"reads"}
    if action not in ("install-package", "install-driver") or not kinds or kinds & {"environment", "system", "destructive"}:
        return action
    reboots = any((step.shell or "").removeprefix("sudo ") == "reboot" for step in steps)
    return "set-environment" if "session" in kinds else "reboot" if reboots else action


def _suffices(step: StepTemplate, case: Case) -> bool:
    enough = holds(step.suffices, case) if isinstance(step.suffices, str) else step.suffices
    return enough and holds(step.when, case)


def _recipes(case: Case) -> Iterator[str]:
    """The cause's recipes. Where one of them installs with pip and this Python refuses that, a virtual environment comes first."""
    chosen = case.cause.recipes
    if pip.refused(case) and VIRTUAL_ENVIRONMENT not in chosen:
        steps = (step for name in chosen for step in case.knowledge.recipe(name).steps)
        if any(PIP.search(step.shell or "") is not None and holds(step.when, case) for step in steps):
            yield VIRTUAL_ENVIRONMENT
    yield from chosen


def _of_recipe(recipe: Recipe, case: Case, distro: str | None) -> Iterator[Step]:
    """The recipe's steps; what is not for this shell to do is said first."""
    if case.get(CONTAINER_MARKS) and recipe.action in _HOST_ACTIONS:
        # The container's own /etc/os-release says nothing of its host.
        system = case.system if distro else Distribution()
        host = msgspec.structs.replace(case, system=system, driver=choose(case.need, system, case.knowledge), host=True)
        yield Step(text=_ON_THE_HOST, who="administrator" if rights.cannot_become_root(host) else "user")
        yield from render(recipe, host)
        return
    rendered = list(render(recipe, case))
    if rendered and recipe.action in _HOST_ACTIONS:
        yield from _of_a_cluster(case, forwarded=rights.cannot_become_root(case))
    yield from rendered


# ---------------------------------------------------------------- where this shell is not the place for the steps
def _of_a_cluster(case: Case, *, forwarded: bool) -> Iterator[Step]:
    """For a job of a scheduler, whose node is its administrator's. `forwarded`: the steps are written as a message to them."""
    name = scheduler(case) or ("Kubernetes" if in_pod(case) else None)
    if name is None:
        return
    job = f"This is a job of {name}: the node's driver is its administrator's."
    if forwarded:
        yield Step(text=f"{job} Send them the lines below, with the name of the node.", shell=_NAME_OF_NODE, kind="reads")
    else:
        yield Step(text=f"{job} Give these lines to them, with the node's name (`{_NAME_OF_NODE}`).")


def _is_from_nvidia(system: Distribution, facts: Facts, knowledge: Knowledge) -> bool:
    """Whether the driver that is installed came from NVIDIA's repository for apt: by its name, or by a branch that Debian has not."""
    installed = facts.value(DRIVER_PACKAGES) or () if system.family in ("debian", "ubuntu") else ()
    newest = newest_of_debian(system.codename, knowledge) if system.family == "debian" else None
    if any(package.name in OF_REPOSITORY["debian"] for package in installed):
        return True
    foreign = (package.version for package in installed if package.name == "nvidia-driver" and not _OF_DEBIAN.search(package.version))
    branches = (int(version[:3]) for version in foreign if version[:3].isdigit())
    return newest is not None and max(branches, default=0) > newest


def case_of(root: Finding, values: Mapping[str, str], facts: Facts, knowledge: Knowledge, distro: str | None) -> Case:
    """What conditions and placeholders read, put together once."""
    system = of_facts(facts, distro, knowledge)
    if system == Distribution() and any(_OF_WINDOWS.search(quote.text) for quote in root.evidence):
        system = from_word("windows", knowledge)
    if _is_from_nvidia(system, facts, knowledge):
        system = msgspec.structs.replace(system, from_nvidia=True)
    gpus = gpus_of(root, values, facts, knowledge)
    headless = is_headless(gpus, facts, system.headless)

    def of(least: int | None) -> Case:
        stated = re.fullmatch(r"\d{2,3}", values.get("legacy_branch") or "")
        need = _flavoured(root, need_of(gpus.architectures, least, int(stated[0]) if stated is not None else None), knowledge)
        spark = system.family == "ubuntu" and GB10 in gpus.capabilities
        driver = Driver(words=OF_DGX_SPARK) if spark else choose(need, system, knowledge, headless=headless)
        return Case(
            root=root, values=values, facts=facts, knowledge=knowledge, system=system, gpus=gpus, need=need, driver=driver,
            headless=headless,
        )  # fmt: skip

    case = _same_branch(of(_after_failed(root, gpus, facts, knowledge)))
    least = _minimum(case)
    newer = of(least) if least is not None else case
    return case if newer.need.conflict else newer  # where no newer one drives this GPU


def _same_branch(case: Case) -> Case:
    """With the branch that is here, where nothing but the kind of its kernel modules is wrong, and it is packaged with the other kind."""
    here = set(installed_branches(case)) if case.cause.driver in OTHER_MODULES else set()
    if len(here) != 1:
        return case
    kept = choose(msgspec.structs.replace(case.need, keep=here.pop()), case.system, case.knowledge, headless=case.headless)
    # RPM Fusion's current packages move on to the next branch under one name, and the branch that is here may have got one for old GPUs.
    moved = case.system.family == "fedora" and not {package.name for package in case.packages} & set(kept.packages)
    return case if kept.branch is None or moved else msgspec.structs.replace(case, driver=kept)


def _flavoured(root: Finding, need: Need, knowledge: Knowledge) -> Need:
    """The driver itself said which kernel modules this GPU takes, also where the GPU's model is not known."""
    wrong = knowledge.cause(root.cause).driver
    if wrong == "open-modules":
        return msgspec.structs.replace(need, flavour="open", refused=True, conflict=False)
    if wrong == "proprietary-modules":
        volta = knowledge.architecture("volta")
        last = need.high if need.high is not None or volta is None else volta.last_driver_branch
        return msgspec.structs.replace(need, flavour="proprietary", high=last, conflict=False)
    return need


def _minimum(case: Case) -> int | None:
    """The oldest branch for the toolkit that is too new for the driver at present."""
    if case.cause.driver != "newer-cuda":
        return None
    full = case.knowledge.driver_minimum(case.wanted_cuda, windows=case.windows).full if case.wanted_cuda is not None else None
    newer = _next_branch(case.module.major, case.knowledge) if case.module is not None else None  # the one that is here was asked for more
    return max((branch for branch in (full.major if full is not None else None, newer) if branch is not None), default=None)


def _next_branch(branch: int, knowledge: Knowledge) -> int | None:
    return min((row.branch for row in knowledge.branches if row.branch > branch), default=None)


def _after_failed(root: Finding, gpus: Gpus, facts: Facts, knowledge: Knowledge) -> int | None:
    """The branch after the one that does not compile here, unless that one is the last for a GPU."""
    known = (f"{entry.module}/{entry.version}" for entry in facts.value(DKMS) or ())
    said = (number for words in (*(quote.text for quote in root.evidence), *known) for number in _OF_BUILD.findall(words))
    found = [int(number) for number in said]
    if knowledge.cause(root.cause).driver != "newer-branch" or not found:
        return None
    ends = [row.last_driver_branch for row in gpus.architectures if row.last_driver_branch is not None]
    if any(end <= max(found) for end in ends):
        return None
    return _next_branch(max(found), knowledge)


def render(recipe: Recipe, case: Case) -> Iterator[Step]:
    """The steps of one recipe that hold here. Those about a process, or a line of a file, come once for each, together."""
    pids = dict.fromkeys(map(int, re.findall(r"\d{1,10}", case.value("pids", "pid") or "")))
    several = {
        "process": [msgspec.structs.replace(case, pid=pid) for pid in islice(pids, MOST_PROCESSES)],
        "place": [msgspec.structs.replace(case, place=place) for place in settings.places(case)[:MOST_PLACES]],
    }
    usual = several["process"][0] if several["process"] else case
    written: set[str] = set()
    for template in recipe.steps:
        about = _about(template)
        if about is None:
            # A step that is a command for Linux, on Windows: its words would mislead too.
            foreign = case.windows and bool(template.shell or template.shells) and template_of(template, case.system) is None
            if not foreign and holds(template.when, usual):
                yield _named(recipe, template, usual)
        elif about not in written:
            written.add(about)
            for one in several[about]:
                yield from (_named(recipe, entry, one) for entry in recipe.steps if _about(entry) == about and holds(entry.when, one))


def _named(recipe: Recipe, template: StepTemplate, case: Case) -> Step:
    step = render_step(template, case, recipe.action)
    return msgspec.structs.replace(step, id=f"{recipe.id}/{recipe.steps.index(template) + 1}", values=_used(template, placeholders(case)))


def _used(template: StepTemplate, values: Mapping[str, Value]) -> dict[str, tuple[str, ...]]:
    """What its commands are written with: undoing it needs that, and before it is done each file among it is looked at."""
    commands = (template.shell, *template.shells.values(), template.undo)
    found = {name: values[name] for command in commands for name in names(command or "") if name in values}
    return {name: each(value) for name, value in found.items() if not isinstance(value, Script)}


def undo_of(step_id: str, values: Mapping[str, tuple[str, ...]], knowledge: Knowledge, *, root: bool) -> str | None:
    """The command that undoes a step which was carried out with these values, written anew. None where no such step or value is known."""
    name, _, number = step_id.partition("/")
    recipe = knowledge.recipes.get(name)
    numbered = {str(place): step for place, step in enumerate(recipe.steps, 1)} if recipe is not None else {}
    template = numbered.get(number)
    if template is None or template.undo is None:
        return None
    given = {name: value[0] if len(value) == 1 else value for name, value in values.items() if value}
    filled = fill_shell(
        template.undo.strip("\n"), for_commands({name: value for name, value in given.items() if fits(name, value, knowledge)}, knowledge)
    )
    return with_sudo(filled) if filled is not None and template.needs_root and not root else filled


def _about(template: StepTemplate) -> str | None:
    """What a step speaks of that there may be several of."""
    words = f"{template.text} {template.shell or ''}"
    return "process" if _OF_PROCESS.search(words) else "place" if "{set_file}" in words or "set-in-conda" in (template.when or "") else None


def render_step(template: StepTemplate, case: Case, action: Action | None = None) -> Step:
    """One step with its values. `sudo` stands in front where root is needed and the user is not root. `action`: its recipe's."""
    values, unknown = placeholders(case), case.knowledge.placeholder_words
    shell = _as_root(_filled(template_of(template, case.system), values, case), template, case)
    words = words_of(template.text, case.system)
    text = in_powershell(words) if case.windows else words
    known = template.given is None or (template.known_by is not None and holds(template.known_by, case))
    verify, undo = (portable(command) if case.windows else command for command in (template.verify, template.undo))
    return Step(
        text=fill_words(text, values, unknown) + _remark(template, case, shell),
        shell=shell,
        needs_root=template.needs_root,
        kind=template.kind,
        mode="do" if known else template.mode,
        when=fill_words(template.given or "", values, unknown) if not known else None,
        verify=_filled(verify, values, case) if not _counts_later(case, shell) else None,
        undo=_as_root(_filled(undo, values, case), template, case) if shell is not None else None,
        who=rights.who(template, action, case),
    )


def _remark(template: StepTemplate, case: Case, shell: str | None) -> str:
    """What the command alone does not say."""
    if shell is None:
        lost = "{python}" in (template_of(template, case.system) or "") and refused("python", case)
        return " No command is printed: this interpreter lies where everybody may make files." if lost else ""
    if case.windows:
        in_cmd = for_cmd(shell)
        return (" (In a PowerShell that was opened as administrator.)" if template.needs_root else "") + (
            f" (PowerShell; in cmd: {in_cmd})" if in_cmd is not None else ""
        )
    if _counts_later(case, shell):
        return " It is layered over the system's image and counts after a restart."
    if shell.startswith(("pacman -Syu", "sudo pacman -Syu")):
        return " Arch takes no partial upgrades: this brings the whole system up to date, so restart afterwards."
    if "uv add " in shell and " --index " in shell:
        return " uv asks this index first for every package: write explicit = true below its [[tool.uv.index]] in pyproject.toml."
    by_pip = PIP.search(template.shell or "") is not None and managers.manager(case) is None
    python = pip.interpreter(case) if by_pip else None
    return "" if not by_pip else pip.REMARK if python is None else pip.NEAR if pip.is_near(python) else ""


def _counts_later(case: Case, shell: str | None) -> bool:
    """A change of the system's image, which nothing can see before the restart."""
    return shell is not None and case.system.image is not None and _LAYERED.search(shell) is not None and "--apply-live" not in shell


def _filled(text: str | None, values: Mapping[str, Value], case: Case) -> str | None:
    """The command with its values, in the words of this system."""
    words = managers.in_its_words(text, case) if text is not None else None
    if words is None:
        return None
    known = for_commands({name: values[name] for name in names(words) if name in values}, case.knowledge)
    return fill_powershell(words, known) if case.windows else fill_shell(words, known)


def _as_root(command: str | None, template: StepTemplate, case: Case) -> str | None:
    return command if command is None or not template.needs_root or case.is_root or case.windows else with_sudo(command)


def _one_restart(steps: list[Step]) -> list[Step]:
    """Recipes end with a restart of their own; of several only the last is kept, when everything is in place."""
    restarts = [place for place, step in enumerate(steps) if (step.shell or "").split(" ")[-1] in RESTARTS]
    return [step for place, step in enumerate(steps) if place not in restarts[:-1]]


def _checked_again(steps: list[Step]) -> tuple[Step, ...]:
    """The last step is checked by looking again; where it has a check of its own, one more step says so."""
    if steps[-1].verify is None and steps[-1].who != "administrator":
        return (*steps[:-1], msgspec.structs.replace(steps[-1], verify=CHECK_AGAIN))
    who: Who = "afterwards" if any(step.who == "administrator" for step in steps) else "user"
    return (*steps, Step(text="Check the machine again.", verify=CHECK_AGAIN, who=who))
