"""What to try next, and what the experiments prove. Pure: sources/experiments.py carries them out.

planning.py  what may be tried here, from the first judgement
search.py    which experiment comes next, until nothing is left that would say more
proof.py     what they prove, and in which words
"""

from cudadoctor.judge.experiments.planning import UNFORESEEN, kept_out, plan
from cudadoctor.judge.experiments.proof import concluded
from cudadoctor.judge.experiments.search import MOST, next_try

__all__ = ["MOST", "UNFORESEEN", "concluded", "kept_out", "next_try", "plan"]
