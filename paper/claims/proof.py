"""The proposition of appendix C, by simulation."""

from ..paper import Paper
from ..studies.proposition import simulate
from .verdict import FAILS, HOLDS, PART, Verdict

CLOSE = 0.03


def unbiased(paper: Paper) -> Verdict:
    """With 400 draws A + E is within 3 % of the error of the draws, both where the truth is one more draw and where it
    scatters around the mean; in part where it is so in one of the two."""
    correct, assumed = simulate(1.0), simulate(1.0, truth="mean")
    few = simulate(1.0, draws=5)
    # With many draws, and of the draws' error as the paper's definition has it, in both worlds.
    many = [simulate(1.0, draws=400, truth=truth) for truth in ("draw", "mean")]
    agree = [abs(one.predicted / one.error_draws - 1) < CLOSE for one in many]
    return Verdict(
        HOLDS if all(agree) else PART if any(agree) else FAILS,
        f"With A = E = 1 and 25 draws the estimate is {correct.predicted:.2f} ((N-1)/N of E is kept; "
        f"{few.predicted:.2f} with 5 draws). Where the truth is one more draw, the error of the mean is "
        f"{correct.error_mean:.2f} and that of the draws {correct.error_draws:.2f}; where the truth scatters around "
        f"the mean, as the proof assumes, {assumed.error_mean:.2f} and {assumed.error_draws:.2f}. So it holds for many "
        "draws: of the error of the draws under its assumption, of the error of the mean in a correct posterior.",
    )
