"""Kinds of figures: one file each, `draw(paper, figure, runs) -> (matplotlib figure, rows of numbers)`."""
