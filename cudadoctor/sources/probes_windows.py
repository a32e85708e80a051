"""What to ask a machine with Windows: data, as in probes.py.

There is no /sys and no /proc: the bus and the drivers come from Windows' own inventory (CIM), one JSON object a line. The scripts use
single quotes only, and nothing that a locked-down PowerShell (constrained language mode) refuses but for the first statement, which asks
for UTF-8; sources/decoding.py reads what comes without it.
"""

from __future__ import annotations

from cudadoctor.sources.probes import ANSWER_LIMIT, Probe

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


PROBES: tuple[Probe, ...] = (
    Probe(id="environment", wave="look", kind="environment", what="environment", reader="read_environment"),
    Probe(id="windows-version", wave="look", kind="command", what=("ver",), reader="read_windows_version"),
    Probe(id="driver-libraries", wave="look", kind="listing", what="System32", reader="list_driver_dlls"),
    Probe(id="processes", wave="look", kind="worker", what="processes.py", own_python=True, limit=15),
    Probe(id="nvcc", wave="look", kind="command", what=("nvcc", "--version")),
    *_cim("pnp-devices", "Win32_PnPEntity", _DEVICES),
    *_cim("video-controllers", "Win32_VideoController", _ADAPTERS),
    Probe(id="python-env", wave="look", kind="worker", what="python_env.py", limit=20),
    Probe(id="nvml", wave="ask", kind="worker", what="nvml.py", own_python=True, limit=ANSWER_LIMIT),
    Probe(id="nvidia-smi", wave="ask", kind="command", what=("nvidia-smi",), limit=ANSWER_LIMIT),
    Probe(id="ladder", wave="ask", kind="worker", what="ladder.py", limit=ANSWER_LIMIT),
)
