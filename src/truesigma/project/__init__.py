"""Own images from start to end: look at a folder, write a recipe, and run it to a report."""

from .plan import Plan, plan_project
from .recipe import Project, read_project
from .run import Finished, run_project
from .survey import Survey, survey

__all__ = ["Finished", "Plan", "Project", "Survey", "plan_project", "read_project", "run_project", "survey"]
