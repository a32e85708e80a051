"""The live host: carries out the probes in their three waves and returns evidence. Nothing is judged here."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping

import msgspec

from cudadoctor.model.evidence import SPARED, Evidence, Item, Status, writable
from cudadoctor.sources import gpu_workers, inherited, listings, trust
from cudadoctor.sources.children import Child, watch
from cudadoctor.sources.interpreters import AFTER_SHIM, examined_python, own_environment, own_on_path, own_packages, worker_path
from cudadoctor.sources.keeping import Keeper, started
from cudadoctor.sources.plain_files import beginning
from cudadoctor.sources.probes import ANSWER_LIMIT, PROBES, QUICK_LIMIT, SMI_LIMIT_AFTER_NVML, Probe, framework
from cudadoctor.sources.programs import found, handed_on, lying, refused
from cudadoctor.sources.readers import READERS
from cudadoctor.sources.spawning import ON_WINDOWS, obey, remembered, uninterrupted

LEAST_FOR_FRAMEWORK = 3.0  # seconds: with less none of them can be imported
Progress = Callable[[Item], None]
BUSY = 3  # processors that the ladder's two halves and this process keep busy
NODE = "CUDADOCTOR_NODE"  # the name of the machine, where its own is another: in a pod


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to collect. `timeout` bounds the whole collection in seconds; `platform` chooses the questions (sources/probes.py)."""

    python: str | None = None
    quick: bool = False
    timeout: float = 60.0
    benchmark: bool = True
    busy: bool = False  # measure on GPUs too on which others compute
    on_gpus: Mapping[str, tuple[str, ...]] = {}  # the workers that do more on every GPU (bench, smoke, sustained), and their arguments
    leave_out: frozenset[str] = frozenset()  # evidence ids that no chosen row reads
    frameworks: tuple[str, ...] = ()  # those to import, where they are installed
    distro: str | None = None
    more: tuple[Probe, ...] = ()  # what extensions ask
    platform: str = sys.platform


_WITHOUT_PACKAGES = ("ladder", "python-env")  # workers that import no package, the ladder not before it is told to go on
INTERRUPTED = "interrupted: what had not answered by then is not known"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a collection; `evidence` is what was there by then."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self.evidence = evidence


class Collector:
    """One collection. Items are kept in the order in which the probes are listed, whatever order they end in."""

    def __init__(
        self, plan: Plan, progress: Progress | None = None, meanwhile: Callable[[], None] | None = None, keeper: Keeper | None = None
    ) -> None:
        self.keeper = keeper
        self.plan, self.progress, self.meanwhile = plan, progress, meanwhile
        self.probes = (*PROBES[plan.platform], *plan.more)
        self.end = time.monotonic() + (min(plan.timeout, QUICK_LIMIT) if plan.quick else plan.timeout)
        self.items: dict[str, Item] = {}
        self.identity = identity()
        self.remarks = inherited.stand_somewhere()
        self.chosen: tuple[str | None, str] | None = None
        self.own = own_on_path() if plan.python is None and trust.as_root() else None
        if self.own is not None and plan.quick:
            self.chosen = self.own  # nothing imports its packages
        self.ladder: Child | None = None
        self.ahead: gpu_workers.Workers | None = None
        self.at_gate = False
        self.children: list[Child] = []

    # ------------------------------------------------------------ the examined interpreter
    @property
    def python(self) -> str | None:
        return self.examined()[0]

    def examined(self) -> tuple[str | None, str]:
        """It and the rule that chose it. As root all that it may load is looked through first, which takes a while."""
        if self.chosen is None:
            self.chosen = examined_python(self.plan.python)
            if AFTER_SHIM in self.chosen[1]:
                self.remarks += (f"Examined is {self.chosen[1]}, which is not started and names no Python here: name yours with --python.",)
        return self.chosen

    # ------------------------------------------------------------ single probes
    def keep(self, item: Item) -> None:
        """Record an item. A second way to the same evidence replaces the first only if the first did not answer."""
        item = item.writable()
        before = self.items.get(item.id)
        if before is None or (not before.useful and item.status != "absent"):
            self.items[item.id] = item
            if self.progress is not None:
                self.progress(item)

    def read(self, probe: Probe) -> None:
        obey()
        started = time.monotonic()
        status: Status = "ok"
        why = text = None
        assert probe.reader is not None
        assert isinstance(probe.what, str) or probe.kind == "command"
        target = probe.what if isinstance(probe.what, str) else probe.what[0]
        try:
            text = READERS[probe.reader](target)
        except (FileNotFoundError, NotADirectoryError) as error:
            status, why = "absent", f"{target}: {error.strerror}"
        except OSError as error:
            status, why = "denied", f"{target}: {error.strerror}"
        self.keep(
            Item(id=probe.id, kind=probe.kind, what=probe.what, status=status, why=why, stdout=text, seconds=time.monotonic() - started)
        )

    def start(self, probe: Probe) -> Child | None:
        """Start a command or worker; None where its interpreter may not be run."""
        environment = own_environment() if probe.own_python else inherited.environment()
        most = probe.limit if not self.plan.quick else SMI_LIMIT_AFTER_NVML if probe.spared else QUICK_LIMIT
        limit = min(probe.limit, most, max(0.1, self.end - time.monotonic()))
        if probe.kind == "worker":
            python = sys.executable if probe.own_python else (self.own[0] if self.own and probe.id in _WITHOUT_PACKAGES else self.python)
            assert isinstance(probe.what, str)
            if python is None:
                self.keep(Item(id=probe.id, kind="worker", what=("python", probe.what), status="not-run", why=self.examined()[1]))
                return None
            environment["CUDA_CACHE_DISABLE"] = "1"  # a kernel must really be compiled, and nothing be left in the user's cache
            argv = [python, "-u", "-B", worker_path(probe.what), *self.worker_arguments(probe)]
            if probe.own_python and probe.id != "ladder-own":
                # Start-up hooks of the doctor's packages (numba-cuda has one) cost more than what these two workers do.
                argv.insert(1, "-S")
                environment["PYTHONPATH"] = own_packages()
            shown: tuple[str, ...] = (python, probe.what)
        else:
            assert not isinstance(probe.what, str)
            shown = probe.what
            argv = list(probe.run or probe.what)
            environment["LC_ALL"] = "C"
            environment["PATH"] = handed_on(argv[0])
            program = found(argv[0]) or (None if ON_WINDOWS else lying(argv[0]))
            if program is None:
                why = refused(argv[0])
                status: Status = "absent" if why is None else "denied"
                self.keep(Item(id=probe.id, kind=probe.kind, what=shown, status=status, why=why or f"{argv[0]}: command not found"))
                return None
            argv[0] = program
            spared = self.not_needed() if probe.spared and self.plan.quick else None
            if spared is not None:
                self.keep(Item(id=probe.id, kind=probe.kind, what=shown, status="not-run", why=spared))
                return None
        talks = probe.id.startswith("ladder")
        with uninterrupted():
            child = Child(
                probe.id, probe.kind, argv, limit=limit, environment=environment, shown=shown, talks=talks, keeper=self.keeper,
                of_end=probe.of_end,
            )  # fmt: skip
            self.children.append(child)
        if child.over:  # it could not be started
            self.finished(child)
        return child

    def worker_arguments(self, probe: Probe) -> list[str]:
        if probe.id.startswith("ladder"):
            measured = '"benchmark"' in self.said("ladder")  # once is enough
            own = ["--own"] if probe.id == "ladder-own" else []
            without = measured or not self.plan.benchmark or "bench" in self.plan.on_gpus
            flags = {"--quick": self.plan.quick, "--no-benchmark": without, "--busy": self.plan.busy}
            return own + [flag for flag, given in flags.items() if given]
        if probe.id == "processes":
            # The driver takes its time to end a process; --quick takes one look less.
            return ["--doctor", str(os.getpid()), "--looks", "1" if self.plan.quick else "2"]
        if probe.id.startswith("framework-"):
            return [probe.id[len("framework-") :], *(["--devices"] if self.at_gate else [])]
        return []

    def finished(self, child: Child) -> None:
        self.keep(child.as_item())
        if child.item == "nvml" and child.status == "ok":
            for smi in self.children:
                if smi.item == "nvidia-smi" and smi.limit > SMI_LIMIT_AFTER_NVML:
                    smi.deadline = min(smi.deadline, max(smi.started + SMI_LIMIT_AFTER_NVML, time.monotonic() + 0.5))
                    smi.limit = SMI_LIMIT_AFTER_NVML

    # ------------------------------------------------------------ waves
    def wave(self, name: str) -> list[Probe]:
        return [probe for probe in self.probes if probe.wave == name and probe.id not in self.plan.leave_out]

    def run_children(self, probes: list[Probe]) -> None:
        """Start every probe at once, the longest first; then those that stand in for one that did not answer. As root the examined
        interpreter is looked through meanwhile, and its workers come last; where it is the doctor's own, before they import its packages.

        After that all have ended, but for the ladder, which may wait for our word. Package tools and the Python listing open no device, so
        they need not end before nvidia-smi, NVML and cuInit begin; the list of processes leaves the doctor's own children out.
        """

        def settled() -> bool:
            others = all(child.over for child in self.children if child is not self.ladder)
            return others and (self.ladder is None or self.ladder.over or self.at_gate)

        def turn(probe: Probe) -> tuple[bool, bool, bool]:
            waits = trust.as_root() and self.plan.python is None and self.own is None and probe.kind == "worker" and not probe.own_python
            return waits, probe.id != "ladder", probe.kind != "worker"

        later = [probe for probe in probes if probe.instead_of or (probe.spared and self.plan.quick)]
        at_once = sorted((probe for probe in probes if probe not in later), key=turn)
        begun = [self.start(probe) for probe in at_once]
        started = [child for child in begun if child is not None]
        for child in started:
            if child.item == "ladder":
                self.ladder = child
                child.on_line = self.ladder_line
        if self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        watch(started, until=settled, on_over=self.finished)
        for probe in later:
            if not any(self.answered(item) for item in probe.instead_of):
                other = self.start(probe)
                if other is not None:
                    watch([other], on_over=self.finished)

    def not_needed(self) -> str | None:
        """Why with --quick the driver is not asked once more: it answered, or it hangs and no time is left."""
        if self.at_gate and '"event": "gpu"' in self.said("nvml"):
            return SPARED
        hangs = [item for item in ("nvml", "ladder") if item in self.items and self.items[item].status in ("timed-out", "abandoned")]
        return f"--quick: {hangs[0]} gave no answer, and no time was left" if hangs else None

    def answered(self, item: str) -> bool:
        known = self.items.get(item)
        return known is not None and known.useful

    def said(self, item: str) -> str:
        """What is there of its output."""
        known = self.items.get(item)
        return (known.stdout or "") if known is not None else ""

    def ladder_line(self, line: str) -> None:
        # The worker waits after its last rung of this wave; that a line names the rung is all that is read here.
        if '"end"' in line and '"devices"' in line and '"pass"' in line:
            self.at_gate = True
            if self.ladder is not None:
                self.ladder.deadline = self.end  # it answered in time; what it now waits for is our word

    def collect(self) -> Evidence:
        try:
            with listings.until((time.monotonic() + self.end) / 2), remembered():  # the other half is for the questions
                self.carry_out()
        except BaseException as error:
            for child in self.children:
                child.kill("interrupted")
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted(self.evidence(INTERRUPTED)) from None
            raise
        return self.evidence()

    def carry_out(self) -> None:
        look, ask = self.wave("look"), self.wave("ask")
        # Listings and files first: they take a few milliseconds and no child may have opened a device before them.
        for probe in look:
            if probe.reader is not None:
                self.read(probe)
        self.run_children([probe for probe in (*look, *ask) if probe.reader is None])
        if self.python is None and self.own is not None:  # whoever asked it or not
            self.take_back()
        for probe in ask:
            if probe.reader is not None:
                self.read(probe)
        self.load()
        for probe in self.wave("load"):
            self.read(probe)
        self.work_on_gpus()
        self.try_frameworks()

    def take_back(self) -> None:
        """The doctor's own interpreter was refused once its packages were looked through: as if it had not been started."""
        for child in self.children:
            if child.item in _WITHOUT_PACKAGES:
                if not child.over:
                    child.kill("refused")
                what = self.items[child.item].what if child.item in self.items else ("python",)
                self.items[child.item] = Item(id=child.item, kind="worker", what=what, status="not-run", why=self.examined()[1])
        self.ladder, self.at_gate = None, False

    def evidence(self, *remarks: str) -> Evidence:
        """What is there. A child that had not ended is left out: what it had said is no answer."""
        order = {probe.id: number for number, probe in enumerate(self.probes)}
        host, boot_id, when = self.identity
        python, python_why = self.chosen or (None, INTERRUPTED)
        items = sorted(self.items.values(), key=lambda item: order.get(item.id, len(order)))
        return Evidence(
            items=tuple(items),
            platform=self.plan.platform,
            python=writable(python) if python is not None else None,
            python_why=writable(python_why),
            quick=self.plan.quick,
            distro=self.plan.distro,
            host=host,
            boot_id=boot_id,
            time=when,
            remarks=tuple(map(writable, (*self.remarks, *inherited.left_out(), *remarks))),
        )

    def load(self) -> None:
        """Contexts, kernels, benchmark: the ladder goes on, unless it ended or only a quick look was asked for."""
        ladder = self.ladder
        if ladder is not None and not ladder.over:
            self.start_ahead(ladder)
            self.let_go(ladder)
        item = self.items.get("ladder")
        if item is None or self.plan.quick:
            return
        said = self.said("ladder")
        silent = '"no Numba here"' in said or not said.strip()
        if silent and self.python != sys.executable and item.status not in ("timed-out", "abandoned"):
            own = self.start(Probe(id="ladder-own", wave="load", kind="worker", what="ladder.py", own_python=True, limit=ANSWER_LIMIT))
            if own is not None:
                self.let_go(own)

    def let_go(self, ladder: Child) -> None:
        ladder.limit = max(0.1, self.end - time.monotonic())
        ladder.deadline = time.monotonic() + ladder.limit
        if not self.plan.quick:
            ladder.say("go\n")
        watch([ladder], on_over=self.finished)

    def work_on_gpus(self) -> None:
        """The long benchmark and the further steps of the smoke test, on each GPU whose kernel computed."""
        said = self.said("ladder")
        gpus = gpu_workers.devices(said)
        numba = sys.executable if '"no Numba here"' in said else None  # the doctor's own stands in, as on the ladder
        ran = any(gpu_workers.devices(text, rung="numba-kernel") for text in (said, self.said("ladder-own")))

        def work(name: str, on: tuple[int, ...], arguments: tuple[str, ...]) -> None:
            python = (numba if name == "smoke" else None) or self.python or sys.executable
            ahead, self.ahead = self.ahead, None
            if ahead is not None and (ahead.name, ahead.extra, ahead.python) != (name, arguments, python):
                ahead.drop()
                ahead = None
            (ahead or self.workers(name, arguments, python)).run(on)

        for name, arguments in self.plan.on_gpus.items() if gpus else ():
            work(name, gpus, (*arguments, "--no-numba") if name == "smoke" and not ran else arguments)
        if "bench" in self.plan.on_gpus and gpus and ran:  # what a timer measures, on one GPU
            work("smoke", gpus[:1], ("--lesson-only",))
        if self.ahead is not None:
            self.ahead.drop()

    def workers(self, name: str, arguments: tuple[str, ...], python: str) -> gpu_workers.Workers:
        return gpu_workers.Workers(
            name, arguments, python=python, end=self.end, keeper=self.keeper, started=self.children.append, on_over=self.finished
        )

    def start_ahead(self, ladder: Child) -> None:
        """The smoke test's workers import Numba while the ladder climbs, where there are processors for that."""
        arguments, gpus = self.plan.on_gpus.get("smoke"), gpu_workers.listed(ladder.text("stdout"))
        if arguments is not None and self.python is not None and len(gpus) + BUSY < (os.cpu_count() or 1):
            self.ahead = self.workers("smoke", arguments, self.python)
            self.ahead.ahead(gpus)

    def try_frameworks(self) -> None:
        """One after the other, once nothing else of ours is on a GPU. What one does to its process ends with it.

        That the listing of the examined Python names a framework is all that is read here; the time left is shared by those that wait.
        """
        listed = "" if self.plan.quick else self.said("python-env")
        probes = [framework(name) for name in self.plan.frameworks if f'"framework", "name": "{name}"' in listed]
        probes = [probe for probe in probes if probe.id not in self.plan.leave_out]
        for place, probe in enumerate(probes):
            left = self.end - time.monotonic()
            if left < LEAST_FOR_FRAMEWORK:
                why = "no time was left: give a longer --timeout"
                self.keep(Item(id=probe.id, kind="worker", what=(self.python or "python", str(probe.what)), status="not-run", why=why))
                continue
            share = max(LEAST_FOR_FRAMEWORK, left / (len(probes) - place) if left < probe.limit * (len(probes) - place) else probe.limit)
            child = self.start(msgspec.structs.replace(probe, limit=min(probe.limit, share)))
            if child is not None:
                watch([child], on_over=self.finished)


def identity() -> tuple[str | None, str | None, str]:
    """Which machine this is, which start of it, and when: name, boot id, UTC. A pod is told its node's name, which it cannot see."""
    boot = beginning("/proc/sys/kernel/random/boot_id", 64).strip()
    return os.environ.get(NODE) or platform.node() or None, boot or None, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def collect(plan: Plan, progress: Progress | None = None, meanwhile: Callable[[], None] | None = None) -> Evidence:
    """All evidence of this machine. Children are gone when this returns or raises. `meanwhile` is called once, when the first run."""
    keeper = started()
    try:
        return Collector(plan, progress, meanwhile, keeper).collect()
    finally:
        keeper.close()
