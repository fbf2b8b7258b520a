"""Your own images from start to end: look at a folder, write a recipe, run it to a report; and the demo.

A folder of images with a table comes in; a recipe, trained runs, predictions, a card and a report go out. Every
finished stage is remembered by what it read and wrote, so that a second run resumes.
"""

from .plan import Plan, plan_project
from .project import Project, read_project
from .run import Finished, run_project
from .survey import Survey, survey

__all__ = ["Finished", "Plan", "Project", "Survey", "plan_project", "read_project", "run_project", "survey"]
