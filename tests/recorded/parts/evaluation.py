"""Evaluation: evaluate over recipes, compare, bootstrap, cards, shift, the report."""

from itertools import product

import numpy as np

import truesigma as ts
from truesigma.report import report

from ..book import Book
from ..contents import page
from ..paths import named as documented
from ..samples import drawn_cases, sample

aupr, auroc, fpr95 = (documented(f"truesigma.detection.{name}") for name in ("aupr", "auroc", "fpr95"))
load_recipe, recipe_names = (
    documented("truesigma.recipe.load_recipe"),
    documented("truesigma.recipe.recipe_names"),
)
paired, fold_of = documented("truesigma.resample.compare"), documented("truesigma.select.fold_of")

ALL = ["none", "sigma", "sigma_by_output", "aux:steps=60", "isotonic", "conformal"]
QUICK = ["none", "sigma"]


def record(book: Book) -> None:
    _evaluate(book)
    _recipes(book)
    _compare(book)
    _bootstrap(book)
    _cards(book)
    _detection(book)
    _report(book)


def _evaluate(book: Book) -> None:
    for law, outputs, mask, weight, group in (
        ("normal", (), False, "", False),
        ("normal", (3,), True, "case", True),
        ("laplace", (), False, "", True),
        ("laplace", (2,), True, "element", False),
    ):
        options = {"law": law, "outputs": outputs, "mask": mask, "weight": weight, "group": group}
        a, b, c = (sample(k, 60, **options) for k in (11, 12, 13))
        book.call(
            f"evaluate all {a.name}", ts.evaluate, a.cases, b.cases, recalibrations=ALL[: 5 if weight else 6]
        )
        repeats = [b.cases, c.cases]
        book.call(
            f"evaluate repeats {a.name}", ts.evaluate, a.cases, repeats, recalibrations=["none", "sigma"]
        )
        parts = ["none:part=aleatoric", "sigma:part=aleatoric", ("aux", {"hidden": 2, "steps": 30})]
        book.call(f"evaluate parts {a.name}", ts.evaluate, a.cases, b.cases, recalibrations=parts)
        metrics = [
            "uce:bins=5,spacing=mass",
            ("coverage", {"level": 0.8}),
            "nll:outputs=mean",
            "ause:by=element",
        ]
        book.call(
            f"evaluate metrics {a.name}", ts.evaluate, a.cases, b.cases, recalibrations=QUICK, metrics=metrics
        )
    drawn = [drawn_cases(k) for k in (0, 1, 2)]
    for name, split in product(("exact", "paper", "code"), (False, True)):
        cases = [d if split else ts.Cases(d.prediction, d.target) for d in drawn]
        label = f"{name} {'with' if split else 'without'} draws"
        found = book.call(
            f"evaluate {label}", ts.evaluate, cases[0], cases[1:], recalibrations=ALL[:4], recipe=name
        )
        book.call(f"evaluate aleatoric {label}", ts.evaluate, cases[0], cases[1],
                  recalibrations=["sigma:part=aleatoric", "none:part=aleatoric"], recipe=name)  # fmt: skip
        for method, metric, level, part in (
            ("sigma", "nll", None, None), ("none", "coverage", 0.9, "total"), ("none", "coverage", 0.123, None),
            ("magic", "nll", None, None),
        ):  # fmt: skip
            book.call(
                f"value {label} {method} {metric} {level} {part}", found.value, method, metric, level, part
            )
        book.call(f"by_label {label}", lambda found=found: {k: len(v) for k, v in found.by_label().items()})
    for library in ("torch", "jax"):
        a, b = (sample(k, outputs=(2,), library=library) for k in (11, 12))
        book.call(f"evaluate {library}", ts.evaluate, a.cases, b.cases, recalibrations=QUICK)
    a, b = sample(11, 400), sample(12, 500)
    book.call("evaluate default", ts.evaluate, a.cases, b.cases)
    for bad in (
        {"recalibrations": ["magic"]},
        {"metrics": ["magic"]},
        {"recipe": "nature"},
        {"recalibrations": []},
    ):
        book.call(f"evaluate {bad}", ts.evaluate, a.cases, b.cases, **bad)
    book.call("evaluate on itself", ts.evaluate, a.cases, a.cases, recalibrations=QUICK)
    book.call(
        "evaluate other outputs", ts.evaluate, a.cases, sample(1, outputs=(2,)).cases, recalibrations=QUICK
    )
    book.call(
        "evaluate other law", ts.evaluate, a.cases, sample(1, law="laplace").cases, recalibrations=QUICK
    )
    book.call("evaluate predictions", ts.evaluate, a.prediction, b.prediction)
    units = [ts.Cases(o.prediction, o.target, unit=u) for o, u in ((a, "mm"), (b, "cm"), (b, ""))]
    book.call("evaluate units", ts.evaluate, units[0], units[1], recalibrations=QUICK)
    book.call("evaluate one unit", ts.evaluate, units[0], units[2], recalibrations=QUICK)


def _recipes(book: Book) -> None:
    book.call("recipe_names", recipe_names)
    own = book.folder / "own.toml"
    own.write_text('[uce]\nbins = 5\n\n[decompose]\naleatoric = "geometric"\n')
    wrong = book.folder / "wrong.toml"
    wrong.write_text("[uce]\nbim = 5\n")
    for name in ("exact", "paper", "code", own, wrong, "none"):
        found = book.call(
            f"load_recipe {getattr(name, 'name', name)}", lambda name=name: load_recipe(name).name
        )
        if found is None:
            continue
        chosen = load_recipe(name)
        for kind in ("sigma", "aux", "none", "isotonic", "conformal", "sigma_by_output"):
            book.call(f"{found} fit_options {kind}", chosen.fit_options, kind)
        for metric, part in product(("uce", "nll", "ence", "crps", "ause", "rmse"), ("total", "aleatoric")):
            book.call(f"{found} score_options {metric} {part}", chosen.score_options, metric, part)
        book.call(f"{found} prediction", chosen.prediction, drawn_cases())
    a, b = drawn_cases(0), drawn_cases(1)
    book.call("evaluate own recipe", ts.evaluate, a, b, recalibrations=QUICK, recipe=own)
    book.call("evaluate recipe value", ts.evaluate, a, b, recalibrations=QUICK, recipe=load_recipe("paper"))


def _compare(book: Book) -> None:
    choices = ["none", "sigma", "aux:steps=30", "isotonic"]
    for metric in ("nll", "crps", "winkler:level=0.8", ("winkler", {})):
        for group in (False, True):
            one = sample(21, 60, group=group, weight="case")
            book.call(f"compare {metric} {one.name}", ts.compare, one.cases, recalibrations=choices[:2], metric=metric,
                      folds=3, replicates=50)  # fmt: skip
    drawn = drawn_cases(3)
    for name in ("exact", "paper", "code"):
        book.call(f"compare {name}", ts.compare, drawn, recalibrations=choices, recipe=name, folds=4, seed=1,
                  level=0.8, replicates=60)  # fmt: skip
    made = ts.compare(drawn, recalibrations=["sigma"], folds=3, replicates=20)
    book.call(
        "comparison",
        lambda: [made.choice, made.best, made.metric, made.recalibration.to_dict(), made.warnings],
    )
    for bad in (
        {"metric": "uce"},
        {"folds": 1},
        {"folds": 1000},
        {"seed": -1},
        {"recalibrations": ["magic"]},
    ):
        book.call(f"compare {bad}", ts.compare, drawn, **bad)
    for folds, seed in ((2, 0), (5, 1), (10, 2)):
        book.call(f"fold_of {folds} {seed}", fold_of, drawn, folds=folds, seed=seed)
        book.call(f"fold_of {folds} {seed} without groups", fold_of, sample(1).cases, folds=folds, seed=seed)


def _bootstrap(book: Book) -> None:
    scores = ["rmse", "mae", "nll", "crps", "coverage:level=0.9", "uce:bins=4", "ence", "ause", "miscalibration_area",
              ("winkler", {"level": 0.8}), "width", "sharpness", "mse"]  # fmt: skip
    samples = [
        sample(31, 50, group=True),
        sample(32, 50, (2,), weight="case", mask=True),
        sample(33, law="laplace"),
    ]
    for one in samples:
        for by in ("auto", "case", "group"):
            book.call(
                f"bootstrap {by} {one.name}", ts.bootstrap, one.cases, scores, by=by, replicates=40, seed=1
            )
        book.call(f"bootstrap level {one.name}", ts.bootstrap, one.cases, "rmse", level=0.5, replicates=30)
        fitted = ts.recalibrate.sigma.fit(one.prediction, one.target)
        after = ts.Cases(fitted(one.prediction), one.target, weight=one.weight, group=one.group)
        book.call(f"paired {one.name}", paired, one.cases, after, scores, replicates=40)
        book.call(f"paired case {one.name}", paired, one.cases, after, "nll", by="case", level=0.8, seed=3,
                  replicates=40)  # fmt: skip
    one = samples[0]
    book.call("paired group", paired, one.cases, one.cases, "nll", by="group", replicates=20)
    book.call(
        "bootstrap function", ts.bootstrap, one.cases, lambda c: float(np.mean(c.target)), replicates=20
    )
    book.call("bootstrap one case", ts.bootstrap, one.cases[:1], ["rmse", "coverage"], replicates=20)
    book.call(
        "bootstrap all inside", ts.bootstrap, ts.Cases(ts.Prediction(np.zeros(9), aleatoric=np.ones(9)), np.zeros(9)),
              "coverage", replicates=20)  # fmt: skip
    for bad in ({"by": "site"}, {"replicates": 0}, {"level": 95}, {"seed": -1}):
        book.call(f"bootstrap {bad}", ts.bootstrap, one.cases, "rmse", **bad)
    book.call("paired others", paired, one.cases, samples[1].cases, "nll")


def _cards(book: Book) -> None:
    drawn, new = drawn_cases(4), drawn_cases(5)
    many = sample(41, 80, group=True)
    for name, method in product(("exact", "paper", "code"), ALL):
        card = book.call(f"calibrate {method} {name}", ts.calibrate, drawn, method, recipe=name,
                         data={"file": "a.npz"}, unit="mm")  # fmt: skip
        if card is None:
            continue
        path = book.folder / f"{method.partition(':')[0]}-{name}.json"
        ts.write(card, path)
        again = ts.read_card(path)
        book.call(f"read_card {method} {name}", lambda again=again: again)
        for kind, value in {"cases": new, "draws": new.draws, "prediction": new.prediction}.items():
            book.call(f"card {method} {name} of {kind}", again, value)
        book.call(f"card {method} {name} repr", repr, again)
    for method in ALL:
        card = book.call(f"calibrate {method} many", ts.calibrate, many.cases, method)
        book.call(f"card {method} of laplace", card, sample(42, law="laplace").prediction)
        book.call(f"card {method} of others", card, sample(42, outputs=(3,)).prediction)
    bad = book.folder / "bad.json"
    for text in ("", "{}", "[]", '{"recalibration": {"name": "sigma"}}', "not json"):
        bad.write_text(text)
        book.call(f"read_card of {text}", ts.read_card, bad)
    book.call("read_card of nothing", ts.read_card, book.folder / "nothing.json")
    book.call("calibrate magic", ts.calibrate, many.cases, "magic")
    book.call("calibrate a prediction", ts.calibrate, many.prediction)


def _detection(book: Book) -> None:
    rng = np.random.default_rng(0)
    pairs = {
        "apart": ([1.0, 2.0], [3.0, 4.0]), "ties": ([1.0, 2.0, 2.0], [2.0, 3.0]),
        "many": (rng.gamma(2, 1, 200), rng.gamma(3, 1, (50, 2))), "none": ([], [1.0]), "nan": ([np.nan], [1.0]),
    }  # fmt: skip
    for name, (a, b) in pairs.items():
        for function in (auroc, aupr, fpr95):
            book.call(f"{function.__name__} {name}", function, a, b)
        book.call(f"fpr95 half {name}", fpr95, a, b, recall=0.5)
    book.call("fpr95 too much", fpr95, [1.0], [2.0], recall=1.5)


def _report(book: Book) -> None:
    named = [ts.Cases(s.prediction, s.target, group=s.group, unit="mm", id=[f"c{k}" for k in range(len(s.target))])
             for s in (sample(51, 80, group=True), sample(52, 90, group=True))]  # fmt: skip
    laplace = [sample(k, 60, (2,), law="laplace", weight="case", mask=True).cases for k in (53, 54)]
    drawn = [drawn_cases(k) for k in (6, 7)]
    shifted = {"prediction": sample(55).prediction, "cases": sample(55).cases, "draws": drawn_cases(8).draws}
    files = {"test": {"file": "t.csv", "sha256": "ab"}, "calibration": {"file": "c.csv", "sha256": "cd"}}
    given = {
        "plain": (*named, {}),
        "several": (*named, {"recalibrations": ["sigma", "aux:steps=30", "none", "isotonic"], "level": 0.8}),
        "conformal": (*named, {"recalibrations": "conformal", "by": "case", "seed": 2}),
        "shift": (*named, {"shifted": shifted["prediction"], "files": files, "docs": "https://example.org"}),
        "shifted cases": (*named, {"shifted": shifted["cases"], "by": "group"}),
        "laplace": (*laplace, {"recalibrations": ["sigma_by_output"]}),
        "draws": (*drawn, {"shifted": shifted["draws"]}),
        "paper": (*drawn, {"recipe": "paper"}),
        "code": (*drawn, {"recipe": "code", "recalibrations": ["sigma:part=aleatoric"]}),
        "bad docs": (*named, {"docs": "javascript:"}),
        "bad level": (*named, {"level": 90}),
    }
    for name, (a, b, options) in given.items():

        def made(a=a, b=b, options=options):
            found = report(a, b, replicates=40, **options)
            return {
                "headline": found.headline,
                "shift": found.shift,
                "tables": found.tables,
                "repr": repr(found),
            }

        if book.call(f"report {name}", made) is not None:
            book.note(f"page {name}", page(report(a, b, replicates=40, **options).page, book.encode))
    whole = report(*named, replicates=20)
    book.call("report written", whole.write, book.folder / "report.html")
