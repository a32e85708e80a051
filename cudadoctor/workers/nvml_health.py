"""What NVML says of a GPU's health and of its place: recovery, memory that fails, links, fabric, virtualisation, confidential computing.

Loaded by nvml.py by its path. Each value is asked on its own through `ask`; one that cannot be had keeps NVML's answer under `errors`.
It is read by Python 3.8 and later, and imports the standard library only: `nv` is the binding, wherever it came from.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Optional

RECOVERY_ACTIONS = ("none", "gpu-reset", "node-reboot", "drain-p2p", "drain-and-reset", "recover-imex-domain", "bus-reset", "system-reboot")
RECOVERY_FIELD = 230
EVENT_REASONS = (
    (0x1, "gpu-idle"), (0x2, "applications-clocks-setting"), (0x4, "sw-power-cap"), (0x8, "hw-slowdown"), (0x10, "sync-boost"),
    (0x20, "sw-thermal-slowdown"), (0x40, "hw-thermal-slowdown"), (0x80, "hw-power-brake-slowdown"), (0x100, "display-clock-setting"),
    (0x200, "board-limit"), (0x400, "reliability"),
)  # fmt: skip
FABRIC_STATES = {0: "not-supported", 1: "not-started", 2: "in-progress", 3: "completed"}
VGPU_MODES = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}
SLOWDOWN = 1  # NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
LINKS = 36


def describe(nv: Any, handle: Any, answers: Any) -> None:
    """All values of one GPU. `answers` keeps them (see Answers in nvml.py)."""
    ask = answers.ask
    ask("throttle_reasons", lambda: event_reasons(nv, handle))
    ask("temperature_slowdown_c", lambda: float(nv.nvmlDeviceGetTemperatureThreshold(handle, SLOWDOWN)))
    ask("remap_pending", lambda: bool(nv.nvmlDeviceGetRemappedRows(handle)[2]))
    ask("remap_failed", lambda: bool(nv.nvmlDeviceGetRemappedRows(handle)[3]))
    ask("remap_uncorrectable", lambda: int(nv.nvmlDeviceGetRemappedRows(handle)[1]))
    ask("retired_pages_pending", lambda: bool(nv.nvmlDeviceGetRetiredPagesPendingStatus(handle)))
    ask("recovery_action", lambda: recovery_action(nv, handle))
    ask("pcie_generation_card", lambda: int(nv.nvmlDeviceGetGpuMaxPcieLinkGeneration(handle)))
    ask("vgpu_mode", lambda: VGPU_MODES.get(int(nv.nvmlDeviceGetVirtualizationMode(handle))))
    if answers.values.get("vgpu_mode") == "vgpu":
        ask("vgpu_license", lambda: license_state(nv, handle))
    nvlinks(nv, handle, answers)
    fabric(nv, handle, answers)


def event_reasons(nv: Any, handle: Any) -> List[str]:
    """Why clocks are held down, in words. Older bindings and drivers know it as throttle reasons."""
    query = getattr(nv, "nvmlDeviceGetCurrentClocksEventReasons", None) or nv.nvmlDeviceGetCurrentClocksThrottleReasons
    try:
        mask = query(handle)
    except nv.NVMLError_FunctionNotFound:
        mask = nv.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return [word for bit, word in EVENT_REASONS if int(mask) & bit]


def recovery_action(nv: Any, handle: Any) -> Optional[str]:
    """What the GPU needs before it is used again (branch 565 and later)."""
    value = nv.nvmlDeviceGetFieldValues(handle, [getattr(nv, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", RECOVERY_FIELD)])[0]
    if value.nvmlReturn != 0:
        raise nv.NVMLError(value.nvmlReturn)
    return dict(enumerate(RECOVERY_ACTIONS)).get(int(value.value.uiVal))


def nvlinks(nv: Any, handle: Any, answers: Any) -> None:
    states: List[int] = []
    for link in range(LINKS):
        try:
            states.append(int(nv.nvmlDeviceGetNvLinkState(handle, link)))
        except Exception as error:  # past the last link, or a GPU without NVLink
            if not states:
                answers.errors["nvlinks"] = str(error)
            break
    if states:
        answers.values.update(nvlinks_active=sum(state == 1 for state in states), nvlinks_inactive=sum(state == 0 for state in states))


def fabric(nv: Any, handle: Any, answers: Any) -> None:
    """Whether the GPU is registered with its NVSwitch fabric, and NVML's word for how that went."""

    def told(info: Any, query: Callable[..., Any]) -> Dict[str, Any]:
        query(handle, ctypes.byref(info))
        return {"state": FABRIC_STATES.get(int(info.state)), "status": int(info.status)}

    def query() -> Dict[str, Any]:
        if hasattr(nv, "c_nvmlGpuFabricInfo_v2_t") and hasattr(nv, "nvmlDeviceGetGpuFabricInfoV"):  # bindings before 12.535 know neither
            try:
                return told(nv.c_nvmlGpuFabricInfo_v2_t(), nv.nvmlDeviceGetGpuFabricInfoV)
            except nv.NVMLError_FunctionNotFound:
                pass  # a driver that does not know the newer call knows the older
        return told(nv.c_nvmlGpuFabricInfo_t(), nv.nvmlDeviceGetGpuFabricInfo)

    found = answers.ask("fabric", query)
    answers.values.pop("fabric", None)
    if not found:
        return
    answers.values["fabric_state"] = found["state"]
    if found["state"] == "completed":  # before that the status means nothing
        answers.ask("fabric_status", lambda: message(nv, found["status"]))


def message(nv: Any, code: int) -> str:
    words = nv.nvmlErrorString(code)
    return words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)


def license_state(nv: Any, handle: Any) -> Optional[str]:
    features = nv.nvmlDeviceGetGridLicensableFeatures(handle)
    if not features.isGridLicenseSupported:
        return None
    states = [features.gridLicensableFeatures[index] for index in range(int(features.licensableFeaturesCount))]
    enabled = [feature for feature in states if int(getattr(feature, "featureEnabled", 0))]
    if any(int(feature.featureState) for feature in enabled or states):
        return "licensed"
    return "unlicensed"


def confidential(nv: Any, ask: Callable[[str, Callable[[], Any]], Any]) -> Dict[str, Any]:
    """The system's confidential-computing mode, and whether GPUs accept work in it."""

    def mode() -> str:
        state = nv.nvmlSystemGetConfComputeState()
        if int(getattr(state, "devToolsMode", 0)):
            return "devtools"
        return "on" if int(state.ccFeature) else "off"

    found = {"confidential_compute": ask("confidential_compute", mode), "confidential_compute_ready": None}
    if found["confidential_compute"] in ("on", "devtools"):
        found["confidential_compute_ready"] = ask("confidential_compute_ready", lambda: bool(nv.nvmlSystemGetConfComputeGpusReadyState()))
    return found
