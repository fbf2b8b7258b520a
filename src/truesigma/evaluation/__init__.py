"""From cases to a table: recipes, `evaluate`, `compare`, bootstrap intervals, the card, and what applies it.

`Cases` for calibration and for testing come in. Fitted recalibrations, rows of scores, intervals and cards go out, as
frozen values that print themselves. Nothing here draws, trains or needs more than one machine.
"""
