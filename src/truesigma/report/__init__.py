"""One self-contained HTML page that answers: is my sigma true, for whom not, and what does recalibration change?"""

from .page import Report, report

__all__ = ["Report", "report"]
