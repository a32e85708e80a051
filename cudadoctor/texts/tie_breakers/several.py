"""Ties of a machine with several GPUs, and of the links between them: what one shows and the other does not."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.checks.gpu import architecture_of
from cudadoctor.checks.reading import Gpu, Quotes, gpus
from cudadoctor.inventory.devices import same_address
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import PCI, SMI
from cudadoctor.texts.tie_breakers.driver import installed
from cudadoctor.texts.tie_breakers.fit import outside
from cudadoctor.texts.tie_breakers.said import Said, finding, settled, stated, suspected

TOO_OLD, TOO_NEW = "driver-too-old-for-gpu", "driver-too-new-for-gpu"
NVLINK, PEER = "nvlink-error", "peer-access-broken"
_NONE_FOUND = lazy(r"No devices were found")
_COUNTED = lazy(r"Link \d{1,2}: \w")


def not_in_the_table(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The table of nvidia-smi lists GPUs and lacks one that the bus has, and the table's driver does not drive that one."""
    tables = [fact for fact in facts.all(SMI) if fact.value is not None and fact.value.gpus]
    if settled(said) or len(tables) != 1 or facts.there(PCI) is None:
        return
    table = tables[0].need()
    places = [gpu.address for gpu in table.gpus if gpu.address is not None]
    if table.module is None or len(places) < len(table.gpus):
        return
    for gpu in gpus(facts):
        if not any(same_address(place, gpu.address) for place in places) and gpu.driver in (None, "nvidia"):
            yield from _unfit(gpu, table.module.major, tables[0].some()[:1], knowledge, sure=True)


def one_of_the_bus(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """No device is found, and the driver that is shown is too old or too new for one of several GPUs on the bus."""
    lines = suspected(said, TOO_OLD, _NONE_FOUND)
    driver = installed(facts)
    if not lines or driver is None or driver.branch is None or settled(said) or facts.there(PCI) is None or len(gpus(facts)) < 2:
        return
    for gpu in gpus(facts):
        yield from _unfit(gpu, driver.branch, (*lines, *driver.quotes[:1]), knowledge, sure=False)


def _unfit(gpu: Gpu, branch: int, shown: Quotes, knowledge: Knowledge, *, sure: bool) -> Iterator[Clue]:
    family = architecture_of(gpu, knowledge)
    if family is None or not outside(family, branch):
        return
    first = family.first_driver_branch
    cause = TOO_OLD if first is not None and branch < first else TOO_NEW
    wanted = first if cause == TOO_OLD else family.last_driver_branch
    values = {"architecture": family.name, "branch": str(wanted)}
    yield finding(cause, gpu.quotes[:1], shown, basis="derived" if sure else "suspected", values=values)


def counted_on_a_link(said: Said, facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """Programs run without copies between GPUs, and the counters of an NVLink show many errors: it is the link."""
    lines, without = suspected(said, NVLINK, _COUNTED), stated(said, PEER)
    if lines and without:
        yield finding(NVLINK, lines, without)


TIES = (not_in_the_table, one_of_the_bus, counted_on_a_link)
