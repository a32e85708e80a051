"""The bounds of what a figure can be.

A figure out of its bounds was not measured: a damaged or forged recording says so. In the output of a worker it is left out
(`parsers/json_lines.py:build`); a saved report that holds one is no report.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

GpuIndex = Annotated[int, Meta(ge=0, le=255)]  # drivers know 32 to 64 GPUs
Pid = Annotated[int, Meta(ge=0, lt=1 << 32)]
Bytes = Annotated[int, Meta(ge=0, le=1 << 50)]  # of one device's memory
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
Celsius = Annotated[float, Meta(ge=-100, le=300)]
WholeCelsius = Annotated[int, Meta(ge=-100, le=300)]
Watts = Annotated[float, Meta(ge=0, le=100_000)]
Megahertz = Annotated[int, Meta(ge=0, le=100_000)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Lanes = Annotated[int, Meta(ge=0, le=64)]  # of a PCIe link
Generation = Annotated[int, Meta(ge=0, le=20)]  # of PCI Express
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Figure = Annotated[float, Meta(ge=0, le=1e18)]  # of a benchmark, whatever its unit
