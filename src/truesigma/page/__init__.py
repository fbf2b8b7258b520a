"""One self-contained HTML page that answers: is my sigma true, for whom is it not, and what does recalibration change?

Calibration and test cases come in. A page that needs no other file goes out, with the numbers behind every picture;
each section is one file.
"""

from .page import Report, report

__all__ = ["Report", "report"]
