"""Fabric Manager's package, which must have the loaded driver's own version.

NVIDIA's packages for RHEL and its like are called nvidia-fabric-manager up to branch 575 and nvidia-fabricmanager from 580 on; Ubuntu's
archive and NVIDIA's for Debian and Ubuntu put the branch behind the name (nvidia-fabricmanager-580).
Source: https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/, https://packages.ubuntu.com/source/resolute/fabric-manager-580
"""

from __future__ import annotations

from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.driver_values import Found, loaded_version

ONE_WORD_FROM = 580


def values(case: Case) -> Found:
    version = loaded_version(case)
    if version is None:
        return
    branch = version.split(".")[0]
    if case.system.family in ("debian", "ubuntu"):
        yield "fabric_manager", f"nvidia-fabricmanager-{branch}"
        yield "fabric_manager_words", f"nvidia-fabricmanager-{branch}, version {version}"
    elif case.system.family in ("fedora", "rhel", "suse"):
        name = "nvidia-fabricmanager" if int(branch) >= ONE_WORD_FROM else "nvidia-fabric-manager"
        sign = "=" if case.system.family == "suse" else "-"
        yield "fabric_manager", f"{name}{sign}{version}"
        yield "fabric_manager_words", f"{name}, version {version}"
    else:
        yield "fabric_manager_words", f"version {version}"
