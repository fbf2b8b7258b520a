"""Every score of ours beside that of uncertainty-toolbox or netcal, and the reason where the definitions differ.

python benchmarks/agreement.py --json benchmarks/results/agreement.json
"""

import warnings
from typing import Any

import numpy as np
from command import command, write

from truesigma import Prediction, Tally, metrics
from truesigma.evaluation.scoring import LEVELS

UCT, NETCAL = "uncertainty-toolbox", "netcal"
COARSE = "theirs, by default, on 100 levels; ours on 1000 cells"
BINS = "ours in bins of equal mass of the variance, theirs of equal width of the deviation"
Row = tuple[str, str, Any, Any, str]


def agreement(n: int = 100_000) -> list[dict[str, Any]]:
    """The scores of n simulated cases, whose scale is a little too small."""
    rng = np.random.default_rng(1)
    location, deviation = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    target = location + 1.3 * deviation * rng.normal(size=n)
    data = (location, deviation, target)
    rows = [*_plain(*data), *_calibration(*data)]
    for level in LEVELS:
        rows += _intervals(*data, level)
    names = ("score", "peer", "ours", "theirs", "reason")
    return [
        dict(zip(names, (score, peer, float(x), float(np.squeeze(y)), why)))
        for score, peer, x, y, why in rows
    ]


def _plain(location: Any, deviation: Any, target: Any) -> list[Row]:
    import uncertainty_toolbox as uct
    from netcal.metrics import NLL

    p, data = Prediction(location, aleatoric=deviation**2), (location, deviation, target)
    errors = uct.prediction_error_metrics(location, target)
    nll = metrics.nll.score(p, target)
    return [
        ("MSE", UCT, metrics.mse.score(p, target), errors["rmse"] ** 2, ""),
        ("RMSE", UCT, metrics.rmse.score(p, target), errors["rmse"], ""),
        ("MAE", UCT, metrics.mae.score(p, target), errors["mae"], ""),
        ("NLL", UCT, nll, uct.nll_gaussian(*data), ""),
        ("NLL", NETCAL, nll, NLL().measure(data[:2], target), ""),
        ("CRPS", UCT, metrics.crps.score(p, target), uct.crps_gaussian(*data), ""),
        ("sharpness", UCT, metrics.sharpness.score(p, target), uct.sharpness(deviation), ""),
    ]


def _calibration(location: Any, deviation: Any, target: Any) -> list[Row]:
    import uncertainty_toolbox as uct
    from netcal.metrics import ENCE, UCE

    p, data = Prediction(location, aleatoric=deviation**2), (location, deviation, target)
    area, ence = metrics.miscalibration_area.score(p, target), ENCE(bins=15).measure(data[:2], target)
    # Edges that are the squares of equal steps of the deviation make our ENCE theirs.
    steps = np.linspace(deviation.min(), deviation.max(), 16)
    same = Tally.empty(edges=steps**2).add(p, target).summary()["ence"]
    return [
        ("miscalibration area on 1001 levels", UCT, area, uct.miscalibration_area(*data, num_bins=1001), ""),
        ("miscalibration area", UCT, area, uct.miscalibration_area(*data), COARSE),
        ("UCE", NETCAL, metrics.uce.score(p, target), UCE(bins=15).measure(data[:2], target), ""),
        ("ENCE in equal widths of the deviation", NETCAL, same, ence, ""),
        ("ENCE", NETCAL, metrics.ence.score(p, target), ence, BINS),
    ]


def _intervals(location: Any, deviation: Any, target: Any, level: float) -> list[Row]:
    import uncertainty_toolbox as uct
    from netcal.metrics import PICP

    p, data = Prediction(location, aleatoric=deviation**2), (location, deviation, target)
    coverage = metrics.coverage.score(p, target, level=level)
    winkler = uct.interval_score(*data, start_p=level, end_p=level, resolution=1)
    theirs = PICP().measure(data[:2], target, q=level)
    return [
        (f"coverage {level:g}", UCT, coverage, uct.get_proportion_in_interval(*data, level), ""),
        (f"coverage {level:g}", NETCAL, coverage, theirs.picp, ""),
        (f"width {level:g}", NETCAL, metrics.width.score(p, target, level=level), theirs.mpiw, ""),
        (f"Winkler {level:g}", UCT, metrics.winkler.score(p, target, level=level), winkler, ""),
    ]


def main() -> None:
    """Compare, and write it as json if a file is named."""
    args = command(__doc__).parse_args()
    warnings.simplefilter("ignore")
    rows = agreement()
    for row in rows:
        print(f"{row['score']:40} {row['peer']:20} {row['ours']:.10g} {row['theirs']:.10g} {row['reason']}")
    write(args.json, {"rows": rows})


if __name__ == "__main__":
    main()
