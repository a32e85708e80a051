"""`cudadoctor fix --apply` and `fix --undo`: step by step, each shown with what it changes, asked for, carried out and verified.

What may be done at all is prescribe/applying.py's to say; sources/applying.py does it and sources/journal.py keeps what was done. A step
runs only after its line of the journal is on the disk; one that fails, or whose verify fails, ends the run, and its undo is shown.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from cudadoctor import __version__
from cudadoctor.commands import examining, gathering, terminal
from cudadoctor.model import exit_codes
from cudadoctor.prescribe import CHECK_AGAIN, undo_of
from cudadoctor.prescribe import applying as planning
from cudadoctor.prescribe.applying import Planned
from cudadoctor.report import words
from cudadoctor.report.clean import one_line
from cudadoctor.sources import applying, interpreters, journal, python_packages

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.model.recipe import Step
    from cudadoctor.model.report import Report

NO_TERMINAL = "there is no terminal to ask on, and --yes does not name this kind"


class StoppedError(Exception):
    """The run ends here; the message says why, and what is left as it is. `code`: of the exit, where a signal ended it."""

    def __init__(self, why: str, code: int | None = None) -> None:
        super().__init__(why)
        self.code = code


class Asking:
    """Who agrees to a step: the person at the terminal, or --yes for a kind."""

    def __init__(self, yes: Collection[str]) -> None:
        self.yes = frozenset(yes)
        self.terminal = sys.stdin.isatty() and sys.stdout.isatty()

    def agreed(self, question: str, kind: str) -> bool:
        """StoppedError where the person wants to end it."""
        if kind in self.yes:
            return True
        if not self.terminal:
            return False
        terminal.write(f"  {question} [y/n/q] ")
        answer = terminal.typed_now().strip().lower()  # what was typed before a step was shown agrees to nothing
        if answer in ("q", "quit", ""):
            raise StoppedError("Ended on request; the steps above stay as they are.")
        return answer in ("y", "yes")


def carried_out(report: Report, options: dict[str, Any]) -> int:
    """Carries the steps out, then checks again. The exit code is that of the last check."""
    terminal.write(one_line(f"{report.verdict.upper()}  {words.headline(report)}") + "\n")
    shown = words.proof(report)
    terminal.write(f"{one_line(shown)}\n" if shown else "")
    try:
        acted = apply(report, gathering.knowledge(), Asking(options["yes"]), dry=options["dry_run"])
    except StoppedError as end:
        terminal.write(f"\n{end}\n")
        return report.exit_code if end.code is None else end.code
    left = planning.of_the_shell(report.prescription) if not options["dry_run"] else ""
    variables = applying.after(left) if left else None
    if options["dry_run"] or not (acted or variables is not None):
        return report.exit_code
    if variables is not None:
        os.environ.clear()
        os.environ.update(variables)
    terminal.write("\nChecking again" + (", as in a shell that was given its commands" if variables is not None else "") + " ...\n")
    answer, knowledge = examining.judge({**options, "record": None})
    examining.finish(answer.report, knowledge, options)
    if variables is not None:
        terminal.write("\nLeft to do in your shell:\n" + "".join(f"  {one_line(line)}\n" for line in left.split("\n")))
    return answer.report.exit_code


def apply(report: Report, knowledge: Knowledge, asking: Asking, *, dry: bool) -> bool:
    """Goes through the steps. Whether anything was carried out. StoppedError where it ends before its last step."""
    why = planning.refusal(report, knowledge.own_causes())
    if why is not None or report.prescription is None:
        raise StoppedError(f"Nothing is carried out: {why}.")
    held = _held(report)
    doer = _Doer(report.prescription.cause, asking, dry=dry)
    with contextlib.nullcontext() if dry else _alone() as doer.lock:
        for planned in planning.plan(report.prescription, report, os.environ, held):
            if planned.step.id or planned.step.verify != CHECK_AGAIN:  # that is done at the end in any case
                doer.go(planned)
    return doer.acted


@contextlib.contextmanager
def _alone() -> Iterator[int]:
    with contextlib.ExitStack() as held:
        try:
            lock = held.enter_context(journal.alone())
        except journal.JournalError as error:
            raise StoppedError(f"Nothing was run: {error}.") from error
        yield lock


def _held(report: Report) -> str | None:
    """Who holds a GPU. Not being root one sees only one's own processes, and does not know."""
    if not report.machine.gpus:
        return None
    return applying.held_by() or (None if os.geteuid() == 0 else "whether others use a GPU is for root to see")


class _Doer:
    def __init__(self, cause: str, asking: Asking, *, dry: bool) -> None:
        self.cause, self.asking, self.dry = cause, asking, dry
        self.run = f"{journal.now()}-{os.getpid()}"
        self.acted = False
        self.lock: int | None = None  # the journal's
        self.removed: tuple[str, ...] = ()  # by the step that is asked about

    def go(self, planned: Planned) -> None:
        step = planned.step
        _show(planned)
        if terminal.unread():
            raise StoppedError("Nothing more is carried out: nobody reads what is shown.")
        if planned.does == "stop":
            raise StoppedError(f"Ends here: {planned.why}. When it is up again: cudadoctor check.")
        if planned.does != "run" or step.shell is None or step.kind is None:
            _say(f"Not done here: {planned.why}." if planned.why else "By hand." if step.shell is None else "")
            return
        kind = self._kind(step)
        if self.dry:
            _say("Would run." if kind in planning.AGREEABLE else "Would ask, whatever --yes says.")
        elif step.mode != "do" and not self.asking.terminal:
            _say("Not done: whether it applies is for a person to say.")
        elif not self.asking.agreed(_question(step), kind):
            _say("Not done" + ("." if self.asking.terminal else f": {NO_TERMINAL}."))
        else:
            self._carry_out(planned)

    def _kind(self, step: Step) -> str:
        """A transaction that removes or downgrades packages is worse than its step says."""
        self.removed = removed = applying.removed_by(step.shell or "") if step.kind in ("system", "destructive") else ()
        if removed:
            _say(
                f"The package manager would remove or downgrade: {', '.join(map(one_line, removed[:8]))}"
                + (" ..." if len(removed) > 8 else "")
            )
        return "destructive" if removed else step.kind or "system"

    def _carry_out(self, planned: Planned) -> None:
        step = planned.step
        changes = step.kind != "reads"
        refused = (applying.refused_file(step.values) or applying.kept_already(step.undo or "", step.shell or "")) if changes else None
        if refused is not None:
            raise StoppedError(f"Nothing was run: {one_line(refused)}.")
        held = applying.held_by() if planning.touches_gpu(step) else None  # somebody may have come since the plan was made
        if held is not None:
            raise StoppedError(f"Nothing was run: {held}.")
        entry = self._entry(planned) if changes else None
        self._note(entry, step, "begun")
        try:
            code = applying.run(step.shell or "", self.removed, lock=self.lock if entry is not None and entry.python else None)
            failed = f"it ended with {code}" if code else _unverified(step)
        except applying.RefusedError as error:
            self._note(entry, step, "failed")
            before = f"Stopped: {one_line(str(error))}.{_undo(step)}" if error.begun else f"Nothing was run: {one_line(str(error))}."
            raise StoppedError(before) from None
        except (KeyboardInterrupt, SystemExit) as end:
            with contextlib.suppress(StoppedError):
                self._note(entry, step, "failed")
            raise StoppedError(f"Interrupted: this step may be done in part.{_undo(step)}", _code(end)) from None
        if failed is not None:
            self._note(entry, step, "failed")
            raise StoppedError(f"Failed: {failed}.{_undo(step)}")
        self._note(entry, step, "done")
        self.acted = self.acted or changes
        _say("Done." if changes else "")

    def _entry(self, planned: Planned) -> journal.Entry:
        """What the journal keeps of a step, with the packages as they are before it."""
        step = planned.step
        python, tool = python_packages.changed_by(step.shell or "") or ("", "")
        return journal.Entry(
            run=self.run,
            time=journal.now(),
            cause=self.cause,
            number=planned.number,
            step=step.id,
            values=step.values,
            python=python,
            tool=tool,
            packages=python_packages.pins(python_packages.installed(python)) if python else None,
            files=applying.files_of(step.undo or ""),
            state="begun",
            version=__version__,
        )

    def _note(self, entry: journal.Entry | None, step: Step, state: journal.State) -> None:
        if entry is None:
            return
        if state != "begun":
            entry = _as_left(entry, step)
        if state == "begun":
            _write(_changed(entry, state), "Nothing was run:", ", so it could not be undone.")
        else:
            _write(_changed(entry, state), "The step ran, and", f".{_undo(step)}")


def _unverified(step: Step) -> str | None:
    """Why it is not known that the step did what it was for; CHECK_AGAIN comes at the end of all."""
    if step.verify is None or step.verify.startswith("cudadoctor ") or step.kind == "reads":
        return None
    try:
        code = applying.run(step.verify)
    except applying.RefusedError as error:
        return f"its commands ended well, but its verify was not run ({one_line(str(error))})"
    return f"its verify ended with {code}" if code else None


def _as_left(entry: journal.Entry, step: Step) -> journal.Entry:
    """With the packages and the files as they are when the step has ended."""
    import msgspec

    packages = python_packages.pins(python_packages.installed(entry.python)) if entry.python else None
    return msgspec.structs.replace(entry, packages_after=packages, files_after=applying.files_of(step.undo or ""))


def _write(entry: journal.Entry, before: str, after: str = ".") -> None:
    try:
        journal.write(entry)
    except journal.JournalError as error:
        raise StoppedError(f"{before} the journal cannot be written ({error}){after}") from error


def _code(end: BaseException) -> int:
    return end.code if isinstance(end, SystemExit) and isinstance(end.code, int) else exit_codes.INTERRUPTED


def _question(step: Step) -> str:
    changed = python_packages.changed_by(step.shell or "")
    known = changed is not None and python_packages.installed(changed[0]) is not None
    return "Run it?" if step.undo or step.kind == "reads" or known else "Run it? It has no undo."


def _show(planned: Planned) -> None:
    step = planned.step
    terminal.write(f"\n{planned.number}. {one_line(words.told(step))}\n")
    for line in (step.shell or "").split("\n") if step.shell else ():
        _say(one_line(line), indent=6)
    if step.kind is not None and step.shell:
        _say(f"({words.KINDS[step.kind]})", indent=6)
    if step.verify and step.verify != CHECK_AGAIN and planned.does == "run":
        _say(f"Verify: {one_line(step.verify)}", indent=6)


def _say(text: str, indent: int = 2) -> None:
    if text:
        terminal.write(f"{' ' * indent}{text}\n")


def _undo(step: Step) -> str:
    if step.undo:
        return f" To undo it: {one_line(words.typed(step.undo))}"
    packages = python_packages.changed_by(step.shell or "")
    return " To bring the packages back: cudadoctor fix --undo." if packages else " It has no undo."


# ---------------------------------------------------------------- undo
def taken_back(options: dict[str, Any]) -> int:
    """Undoes what the last --apply changed. The exit code."""
    knowledge, root = gathering.knowledge(), os.geteuid() == 0
    try:
        return undo(
            knowledge,
            Asking(options["yes"]),
            dry=options["dry_run"],
            named=options["python"],
            render=lambda entry: undo_of(entry.step, entry.values, knowledge, root=root),
        )
    except (StoppedError, journal.JournalError) as end:
        terminal.write(f"\n{end}\n")
        return getattr(end, "code", None) or exit_codes.UNDECIDED


def undo(
    knowledge: Knowledge, asking: Asking, *, dry: bool, render: Callable[[journal.Entry], str | None], named: str | None = None
) -> int:
    """Takes back the steps of the last --apply, the last one first. The exit code. `named`: the interpreter of --python."""
    left = journal.last_run(journal.read())
    if not left:
        terminal.write("Nothing to undo: `cudadoctor fix --apply` has changed nothing here that is not undone.\n")
        return exit_codes.HEALTHY
    for python in sorted({entry.python for entry in left} - {"", named}):
        why = interpreters.refusal(python)
        if why is not None:
            raise StoppedError(f"Nothing was run: {one_line(f'{python} {why}')}; name it with --python if it may be.")
    with contextlib.nullcontext() if dry else _alone() as lock:
        taken = [_take_back(entry, knowledge, asking, dry=dry, render=render, lock=lock) for entry in left]
    return exit_codes.HEALTHY if all(taken) else exit_codes.UNDECIDED


def _take_back(
    entry: journal.Entry,
    knowledge: Knowledge,
    asking: Asking,
    *,
    dry: bool,
    render: Callable[[journal.Entry], str | None],
    lock: int | None = None,
) -> bool:
    """Whether nothing of this step is left. StoppedError where an earlier step must not be taken back before this one is."""
    way = python_packages.back_to(entry.python, entry.packages, entry.packages_after, entry.tool) if entry.python else None
    command, by_hand = (way.commands, way.by_hand) if way is not None else (None if entry.python else render(entry), ())
    terminal.write(f"\n{one_line(entry.step)}, for {one_line(entry.cause)} ({entry.state})\n")
    if by_hand:
        _say(f"Not brought back, for no index has it so: {', '.join(map(one_line, by_hand))}. Install it again by hand.")
    if not command:
        known = "The packages are as they were before." if command == "" else "Which packages there were is not known."
        _say("" if by_hand else known if entry.python else "It has no undo.")
        if not dry:
            journal.write(_changed(entry, "undone" if command == "" and not by_hand else "kept"))
        return (command == "" and not by_hand) or entry.state == "failed"
    for line in command.split("\n"):
        _say(one_line(line), indent=6)
    if entry.python and entry.packages_after is None:
        _say("This step did not come to its end: what was installed or removed since, by whomever, is taken back with it.")
    if dry or not asking.agreed("Run it?", _kind_of(entry, knowledge)):
        _say("Would run." if dry else "Not done.")
        return False
    refused = applying.refused_file(entry.values) or applying.changed_since(command, entry.files, entry.files_after)
    if refused is None and terminal.unread():
        refused = "nobody reads what is shown"
    if refused is not None:
        raise StoppedError(f"Nothing was run: {one_line(refused)}.")
    _write(entry, "Nothing was run:")  # what cannot be noted afterwards must not begin
    code = _undone(command, entry, lock)
    _say(f"It ended with {code}: the step had not been carried out in full. Look at it yourself; it stays as it is." if code else "Undone.")
    _write(_changed(entry, "kept" if code or by_hand else "undone"), "The undo ran, and")
    return code == 0 and not by_hand


def _undone(command: str, entry: journal.Entry, lock: int | None) -> int:
    """The exit code. StoppedError where it was not all done, but for a step that was not either."""
    torn_before = python_packages.torn(entry.python) if entry.python else ()
    try:
        code = applying.run(command, installs=False, lock=lock if entry.python else None)
    except applying.RefusedError as error:
        before = "Stopped, and done in part" if error.begun else "Nothing was run"
        raise StoppedError(f"{before}: {one_line(str(error))}.") from error
    except (KeyboardInterrupt, SystemExit) as end:
        raise StoppedError("Interrupted: this undo may be done in part; cudadoctor fix --undo goes on with it.", _code(end)) from None
    if code and entry.state == "done":
        part = " The lines before the one that failed were run; cudadoctor fix --undo goes on with it." if "\n" in command else ""
        raise StoppedError(f"Failed: it ended with {code}.{part}")
    torn = [one for one in python_packages.torn(entry.python) if one not in torn_before] if entry.python and not code else ()
    if torn:
        raise StoppedError(f"Done, but files of {', '.join(map(one_line, torn))} are gone: install it again (--force-reinstall --no-deps).")
    stayed = applying.not_put_back(command) if not code else None
    if stayed is not None:
        raise StoppedError(f"Failed: {one_line(stayed)} is still there, so it was not put back. Look at it yourself.")
    return code


def _changed(entry: journal.Entry, state: journal.State) -> journal.Entry:
    import msgspec

    return msgspec.structs.replace(entry, state=state, time=journal.now())


def _kind_of(entry: journal.Entry, knowledge: Knowledge) -> str:
    """The kind of its step; one that --yes does not name of another version's step, whose number may be another's today, and of one of
    which nobody knows what it did to the packages and what others did since."""
    name, _, number = entry.step.partition("/")
    if entry.python and entry.packages_after is None:
        return "destructive"
    recipe = knowledge.recipes.get(name)
    if entry.version != __version__ or recipe is None or not (number.isdecimal() and 1 <= int(number) <= len(recipe.steps)):
        return "destructive"
    return recipe.steps[int(number) - 1].kind or "system"
