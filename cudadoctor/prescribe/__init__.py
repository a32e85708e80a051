"""Root cause and facts to the steps for this machine.

steps.py         prescribe(): chooses a cause's steps, fills and quotes them; says where this shell is not the place for them
conditions.py    CONDITIONS: what a step's `when` may ask for; about containers, schedulers, machines: places.py; a process: processes.py;
                 about libraries, toolkits and Python: toolkits.py
placeholders.py  the {values} of recipes, as far as they are known; driver_values.py: those about the driver
rights.py        which steps are the user's and which are for an administrator to do
free_gpu.py      another GPU for a program whose own is full; one_recipe.py: what a single recipe asks and says
case.py          what both read
distribution.py  which distribution; gpus.py: which GPUs, whether the machine has a screen, what they need and its words
families.py      which driver fits them, and how each family packages it
pip.py           toolkit, Numba and Python that fit GPU and driver, and who installs them
way.py           what comes after the fix until a kernel runs
dialect.py       a command as this system writes it; shells.py: quoting, and sudo
"""

from __future__ import annotations

from cudadoctor.prescribe.conditions import CONDITIONS
from cudadoctor.prescribe.steps import CHECK_AGAIN, prescribe, render_step, undo_of
from cudadoctor.prescribe.way import way

__all__ = ["CHECK_AGAIN", "CONDITIONS", "prescribe", "render_step", "undo_of", "way"]
