"""The paper, reproduced: tables, figures and claims computed from the committed results of its experiments.

`open_paper(root)` reads the folder `paper/`; everything else takes what it returns. Only new results
(`run_planned`) need data, torch and a GPU.
"""

from .paper import Paper, open_paper
from .plan import Ensemble, Experiments, Planned
from .runs import Run

__all__ = ["Ensemble", "Experiments", "Paper", "Planned", "Run", "open_paper"]
