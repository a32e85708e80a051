"""Root cause and facts to the steps for this machine.

steps.py         prescribe(): chooses a cause's steps, fills and quotes them
conditions.py    CONDITIONS: what a step's `when` may ask for
placeholders.py  the {values} of recipes, as far as they are known
case.py          what both read
distribution.py  which distribution; gpus.py: which GPUs
packages.py      which driver packages fit them; pip.py: which Python packages
shellwords.py    quoting, and sudo
"""

from __future__ import annotations

from cudadoctor.prescribe.conditions import CONDITIONS
from cudadoctor.prescribe.steps import CHECK_AGAIN, prescribe, render_step

__all__ = ["CHECK_AGAIN", "CONDITIONS", "prescribe", "render_step"]
