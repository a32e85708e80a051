"""What to ask a machine, with Linux and with Windows: data. sources/host.py carries it out.

Waves: `look` reads files, listings and package tools and opens no NVIDIA device; `ask` runs nvidia-smi, NVML and the ladder up
to the device count; `load` lets the ladder go on to contexts and kernels. Within a wave all probes start at once.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.evidence import Kind

Wave = Literal["look", "ask", "load"]
ANSWER_LIMIT = 10.0  # seconds within which nvidia-smi, NVML and cuInit must answer
FRAMEWORK_LIMIT = 45.0  # for the import of a framework, whose libraries have several GB, and a small computation
QUICK_LIMIT = 4.0  # the same for --quick
SMI_LIMIT_AFTER_NVML = 3.0  # once NVML has answered, nvidia-smi has no reason to take longer


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `reader` names a function of sources/readers.py; without it a command or worker is run.

    `instead_of`: asked only when none of these items answered. `run`: the command line, where `what` is what a person would type.
    """

    id: str
    wave: Wave
    kind: Kind
    what: tuple[str, ...] | str
    run: tuple[str, ...] | None = None
    limit: float = 5.0
    reader: str | None = None
    instead_of: tuple[str, ...] = ()
    own_python: bool = False  # a worker that runs in the doctor's own interpreter
    spared: bool = False  # with --quick asked last, and only where NVML and cuInit do not both answer
    of_end: bool = False  # of a long output the end is kept


def framework(name: str) -> Probe:
    """One framework, imported and made to compute: asked only where the user asked for it."""
    return Probe(id=f"framework-{name}", wave="load", kind="worker", what="frameworks.py", limit=FRAMEWORK_LIMIT)


def _file(item: str, path: str, **more: object) -> Probe:
    return Probe(id=item, wave="look", kind="file", what=path, reader="read_file", **more)  # type: ignore[arg-type]


LINUX: tuple[Probe, ...] = (
    # -- look: in-process reads first, they cost microseconds and must see the machine before any device is opened
    Probe(id="dev", wave="look", kind="listing", what="/dev", reader="list_dev"),
    Probe(id="environment", wave="look", kind="environment", what="environment", reader="read_environment"),
    Probe(id="setting-files", wave="look", kind="listing", what="shell profiles and unit files", reader="list_settings"),
    Probe(id="held-packages", wave="look", kind="listing", what="locks of package managers", reader="list_held_packages"),
    Probe(id="pci", wave="look", kind="file", what="/sys/bus/pci/devices", reader="read_pci"),
    Probe(id="pci-names", wave="look", kind="file", what="pci.ids", reader="read_pci_names"),
    _file("modules", "/proc/modules"),
    Probe(id="sys-modules", wave="look", kind="listing", what="/sys/module", reader="list_names"),
    _file("devices", "/proc/devices"),
    _file("driver-version", "/proc/driver/nvidia/version"),
    _file("sys-driver-version", "/sys/module/nvidia/version"),
    Probe(id="module-files", wave="look", kind="listing", what="/lib/modules", reader="list_module_files"),
    Probe(id="user", wave="look", kind="command", what=("id",), reader="read_user"),
    _file("capabilities", "/proc/self/status"),
    _file("os-release", "/etc/os-release"),
    Probe(id="uname", wave="look", kind="command", what=("uname", "-a"), reader="read_uname"),
    _file("cgroup", "/proc/1/cgroup"),
    _file("limits", "/proc/self/limits"),
    Probe(id="control-group", wave="look", kind="listing", what="/proc/self/cgroup", reader="read_control_group"),
    _file("dockerenv", "/.dockerenv"),
    _file("containerenv", "/run/.containerenv"),
    _file("ostree-booted", "/run/ostree-booted"),
    Probe(id="container-manager", wave="look", kind="file", what="/run/systemd/container", reader="read_container_manager"),
    Probe(id="root-mount", wave="look", kind="file", what="/proc/self/mounts", reader="read_root_mount"),
    _file("proc-version", "/proc/version"),
    Probe(id="kernel-parameters", wave="look", kind="file", what="/proc/cmdline", reader="read_kernel_parameters"),
    _file("tegra", "/etc/nv_tegra_release"),
    _file("dmi", "/sys/class/dmi/id/product_name"),
    Probe(id="wsl-lib", wave="look", kind="listing", what="/usr/lib/wsl/lib", reader="list_names"),
    Probe(id="driver-libraries", wave="look", kind="listing", what="driver libraries", reader="list_driver_libraries"),
    Probe(id="nvidia-modprobe", wave="look", kind="file", what="nvidia-modprobe", reader="find_program"),
    Probe(id="slurm", wave="look", kind="file", what="srun", reader="find_program"),
    Probe(id="container-stack", wave="look", kind="listing", what="container engines", reader="read_container_stack"),
    # -- look: commands and workers that open no device
    Probe(id="processes", wave="look", kind="worker", what="processes.py", own_python=True, limit=5),
    Probe(id="ldconfig", wave="look", kind="command", what=("ldconfig", "-p")),
    Probe(id="nvcc", wave="look", kind="command", what=("nvcc", "--version")),
    Probe(id="dkms", wave="look", kind="command", what=("dkms", "status")),
    Probe(id="mokutil", wave="look", kind="command", what=("mokutil", "--sb-state")),
    Probe(id="modinfo", wave="look", kind="command", what=("modinfo", "nvidia")),
    # All packages: dpkg-query ends with an error when one of several patterns matches nothing.
    Probe(id="packages", wave="look", kind="command", what=("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Version}\n")),
    Probe(id="packages", wave="look", kind="command", what=("rpm", "-qa", "*nvidia*", "*cuda*"), instead_of=("packages",)),
    Probe(id="packages", wave="look", kind="command", what=("pacman", "-Q"), instead_of=("packages",)),
    Probe(id="lspci", wave="look", kind="command", what=("lspci", "-nnk"), instead_of=("pci",)),
    Probe(id="lsmod", wave="look", kind="command", what=("lsmod",), instead_of=("modules",)),
    Probe(id="lshw", wave="look", kind="command", what=("lshw", "-C", "display"), limit=10, instead_of=("pci", "lspci")),
    Probe(id="python-env", wave="look", kind="worker", what="python_env.py", limit=10),
    # -- ask
    Probe(id="nvml", wave="ask", kind="worker", what="nvml.py", own_python=True, limit=ANSWER_LIMIT),
    Probe(id="nvidia-smi", wave="ask", kind="command", what=("nvidia-smi",), limit=ANSWER_LIMIT, spared=True),
    Probe(id="ladder", wave="ask", kind="worker", what="ladder.py", limit=ANSWER_LIMIT),
    Probe(id="kernel-log", wave="ask", kind="command", what=("dmesg",), of_end=True),
    Probe(
        id="kernel-log",
        wave="ask",
        kind="command",
        what=("journalctl", "-k", "-b", "--no-pager", "-o", "short-monotonic"),
        instead_of=("kernel-log",),
        of_end=True,
    ),
    Probe(id="dev-after", wave="ask", kind="listing", what="/dev", reader="list_dev"),
    # -- load: what has to be seen once the ladder has ended
    Probe(id="kernel-interface", wave="load", kind="listing", what="system calls", reader="read_kernel_interface"),
    Probe(id="control-group-after", wave="load", kind="listing", what="/proc/self/cgroup", reader="read_control_group"),
)

# ---------------------------------------------------------------- Windows
# There is no /sys and no /proc: the bus and the drivers come from Windows' own inventory (CIM), one JSON object a line. The scripts use
# single quotes only, and nothing that a locked-down PowerShell (constrained language mode) refuses but for the first statement, which asks
# for UTF-8; decoding.py reads what comes without it.
POWERSHELL_LIMIT = 20.0  # its first start of a day is slow
_HEAD = "[Console]::OutputEncoding = [Text.Encoding]::UTF8; "
# `(1,0,0)` at the end of LocationInformation is bus, device, function; the words before it are in the user's language.
_LOCATION = (
    "@{n='Location'; e={(Get-ItemProperty -LiteralPath ('HKLM:\\SYSTEM\\CurrentControlSet\\Enum\\' + $_.PNPDeviceID)"
    " -ErrorAction SilentlyContinue).LocationInformation}}"
)
# The last line is how many there are: without it a list that was cut, or a query that failed, would look whole.
_LINES = " | ForEach-Object { ConvertTo-Json -Compress -InputObject $_ }; ConvertTo-Json -Compress -InputObject @{Count = $found.Count}"
_DEVICES = (
    "$found = @(Get-CimInstance Win32_PnPEntity -Filter 'DeviceID LIKE ''PCI%''' -ErrorAction Stop); "
    "$found | Select-Object Name, ConfigManagerErrorCode, Service, Status, PNPDeviceID,"
    f" {_LOCATION}, @{{n='CompatibleID'; e={{$_.CompatibleID -join ' '}}}}{_LINES}"
)
_ADAPTERS = (
    "$found = @(Get-CimInstance Win32_VideoController -ErrorAction Stop); "
    "$found | Select-Object Name, ConfigManagerErrorCode, DriverVersion, Status, AdapterRAM, PNPDeviceID,"
    f" {_LOCATION}{_LINES}"
)


def _cim(item: str, name: str, script: str) -> tuple[Probe, Probe]:
    """By Windows PowerShell; where an administrator took it away, by the newer one."""

    def by(program: str, **more: object) -> Probe:
        run = (program, "-NoProfile", "-NonInteractive", "-Command", _HEAD + script)
        what = ("Get-CimInstance", name)
        return Probe(id=item, wave="look", kind="command", what=what, run=run, limit=POWERSHELL_LIMIT, **more)  # type: ignore[arg-type]

    return by("powershell"), by("pwsh", instead_of=(item,))


WINDOWS: tuple[Probe, ...] = (
    Probe(id="environment", wave="look", kind="environment", what="environment", reader="read_environment"),
    Probe(id="windows-version", wave="look", kind="command", what=("ver",), reader="read_windows_version"),
    Probe(id="driver-libraries", wave="look", kind="listing", what="System32", reader="list_driver_dlls"),
    Probe(id="processes", wave="look", kind="worker", what="processes.py", own_python=True, limit=15),
    Probe(id="nvcc", wave="look", kind="command", what=("nvcc", "--version")),
    *_cim("pnp-devices", "Win32_PnPEntity", _DEVICES),
    *_cim("video-controllers", "Win32_VideoController", _ADAPTERS),
    Probe(id="python-env", wave="look", kind="worker", what="python_env.py", limit=20),
    Probe(id="nvml", wave="ask", kind="worker", what="nvml.py", own_python=True, limit=ANSWER_LIMIT),
    Probe(id="nvidia-smi", wave="ask", kind="command", what=("nvidia-smi",), limit=ANSWER_LIMIT, spared=True),
    Probe(id="ladder", wave="ask", kind="worker", what="ladder.py", limit=ANSWER_LIMIT),
)
PROBES = {"linux": LINUX, "win32": WINDOWS}  # by the value of sys.platform: the systems on which a live check knows what to ask
