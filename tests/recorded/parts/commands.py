"""Commands of the numeric half: evaluate, compare, calibrate, apply, report, figure, list; their files and refusals."""

from itertools import product

from .. import folders
from ..book import Book

METHODS = ("none", "sigma", "sigma_by_output", "aux:steps=40", "isotonic", "conformal")


def record(book: Book) -> None:
    folders.tables(book.folder)
    folders.parts(book.folder)
    folders.plugins(book.folder)
    for some in (_evaluate, _sets, _cards, _compare, _reports, _figures, _lists, _refusals):
        some(book)


def _evaluate(book: Book) -> None:
    for ending, json in product(("csv", "npz", "parquet"), ("", "--json result.json", "--json -")):
        book.command(
            f"evaluate --calibration cal.{ending} --test test.{ending} --recalibrate none,sigma {json}"
        )
    base = "evaluate --calibration cal.csv --test test.csv"
    for method in METHODS:
        book.command(f"{base} --recalibrate {method} --json -")
    for metric in (
        "uce:bins=5", "uce:bins=5,spacing=mass,closed=false", "ence", "nll:units=table,outputs=mean", "ause:by=element",
        "crps,rmse,mae,mse,sharpness", "coverage:level=0.8,width:level=0.8", "winkler", "miscalibration_area",
        "./my_metric.py",
    ):  # fmt: skip
        book.command(f"{base} --recalibrate none,sigma --metrics {metric} --json -")
    for more in (
        "--part aleatoric", "--recipe paper", "--recipe code", "--recipe own.toml", "--quiet", "--test again.csv",
        "--recalibrate ./my_recalibration.py,none", "--html page.html", "--by-group", "--one-pass", "--law normal",
        "--keep sums", "--engine local", "--debug", "--recalibrate sigma:part=aleatoric,sigma",
    ):  # fmt: skip
        book.command(
            f"{base} {more if 'recalibrate' in more else '--recalibrate none,sigma ' + more} --json -"
        )
    for name in ("-laplace.csv", "-draws.npz", "3.npz"):
        for recipe in ("exact", "paper", "code"):
            book.command(
                f"evaluate --calibration cal{name} --test test{name} --recipe {recipe} "
                "--recalibrate none,sigma --json -"
            )
    book.command(
        "evaluate --calibration missing.csv --test test.csv --mask-missing --recalibrate none,sigma --json -"
    )
    book.command("evaluate --calibration german.csv --test tabs.csv --recalibrate none,sigma")
    book.command("evaluate --calibration cal.csv --test test.csv")
    book.command("evaluate --calibration cal.csv --test cal.csv --recalibrate none,sigma")


def _sets(book: Book) -> None:
    sets = {
        "npz": "'{}_part*.npz'", "csv": "{0}_part0.csv {0}_part1.csv", "parquet": "'{}_part*.parquet'",
        "manifest": "{}_manifest.csv", "list": "{}.txt", "npy": "'{}_npy/*.npy'", "maps": "{}_maps",
        "table": "{}_maps.csv",
    }  # fmt: skip
    for name, pattern in sets.items():
        cal, test = pattern.format("cal"), pattern.format("test")
        base = f"evaluate --calibration {cal} --test {test} --recalibrate none,sigma"
        book.command(f"{base} --json -")
        book.command(f"{base} --one-pass --json -")
        book.command(f"{base} --by-group --metrics rmse,uce,coverage:level=0.9 --json -")
        book.command(f"{base} --keep kept-{name} --metrics rmse,uce --test {cal} --json -")
        book.command(f"calibrate --calibration {cal} -o set-{name}.json")
        book.command(
            f"calibrate --calibration {cal} -o set-aux-{name}.json --recalibrate aux:steps=30 --recipe paper"
        )


def _cards(book: Book) -> None:
    for method, (name, recipe) in product(METHODS, (("", "exact"), ("-draws", "paper"), ("-draws", "code"))):
        kind = "npz" if name else "csv"
        card = f"card-{method.partition(':')[0]}-{recipe}.json"
        book.command(
            f"calibrate --calibration cal{name}.{kind} --recalibrate {method} --recipe {recipe} -o {card}"
        )
        book.command(f"apply {card} {'new-draws.npz' if name else 'new.csv'} -o after.{'npz' if name else 'csv'}",
                     label=f"apply {card}")  # fmt: skip
    for given, out in product(
        ("new.csv", "new.npz", "test.csv", "german.csv"), ("x.csv", "x.npz", "x.parquet")
    ):
        book.command(f"apply card-sigma-exact.json {given} -o {out} --level 0.5,0.9 --json -")
    for more in ("--part aleatoric", "--json -", "--quiet", "--json said.json", "--law normal"):
        book.command(f"calibrate --calibration cal.csv -o other.json {more}")
    book.command("calibrate --calibration missing.csv --mask-missing -o masked.json")
    book.command("calibrate --calibration cal.csv --recalibrate ./my_recalibration.py -o mine.json")
    book.command("apply mine.json new.csv -o mine.csv --recalibrate ./my_recalibration.py")
    book.command("apply mine.json new.csv -o mine.csv", label="apply mine.json without its file")
    book.command("calibrate --calibration cal-laplace.csv --law laplace -o laplace.json")
    book.command("apply laplace.json test-laplace.csv -o laplace.csv --law laplace")
    book.command("apply card-sigma-exact.json test_maps -o maps-out --level 0.5,0.9")
    book.command("apply card-isotonic-exact.json test_maps.csv -o maps-isotonic --json -")
    book.command("apply card-sigma-exact.json 'test_maps/p0_*.nii.gz' -o maps-one")


def _compare(book: Book) -> None:
    base = "compare --calibration cal.csv --recalibrate none,sigma --folds 3"
    for more in (
        "", "--json -", "-o chosen.json", "--metric crps", "--metric winkler:level=0.8", "--seed 3", "--part aleatoric",
        "--recipe paper", "--law normal", "--quiet --json c.json",
    ):  # fmt: skip
        book.command(f"{base} {more}")
    book.command(
        "compare --calibration cal-draws.npz --recalibrate sigma,aux:steps=30 --recipe code --folds 2 --json -"
    )
    book.command("compare --calibration missing.csv --mask-missing --recalibrate sigma --folds 3 --json -")


def _reports(book: Book) -> None:
    base = "report --calibration cal.csv --test test.csv --replicates 40"
    for number, more in enumerate((
        "", "--recalibrate sigma,aux:steps=30", "--recalibrate conformal --by case", "--shifted again.csv",
        "--shifted new.csv --level 0.8", "--by group --seed 4", "--docs https://example.org", "--part aleatoric",
        "--json -", "--quiet --json said.json", "--recalibrate isotonic", "--law normal",
    )):  # fmt: skip
        book.command(f"{base} {more} -o r{number}.html")
    for recipe in ("paper", "code"):
        book.command(f"report --calibration cal-draws.npz --test test-draws.npz --recipe {recipe} --replicates 40 "
                     f"-o {recipe}.html")  # fmt: skip
    book.command(
        "report --calibration missing.csv --mask-missing --test test.csv --replicates 40 -o masked.html"
    )
    book.command("report --calibration cal3.npz --test test3.npz --replicates 40 -o three.html")
    folders.images(book.folder / "pictures", 3)
    for k in range(80):
        (book.folder / f"c{k}.png").write_bytes((book.folder / "pictures/scans/s000.png").read_bytes())
    book.command(f"{base} --images . -o thumbnails.html")
    book.command(f"{base} --images nowhere -o nowhere.html")


def _figures(book: Book) -> None:
    base = "--calibration cal.csv --test test.csv"
    for more in (
        f"calibration {base}", f"calibration {base} --bins 5 --spacing mass --log --unit cm --recalibrate sigma",
        "calibration --test test.csv --test again.csv", f"calibration {base} --recipe paper --law normal",
        f"coverage {base} --title T", "coverage --test test.csv", f"coverage {base} --recalibrate none,isotonic",
        f"coverage {base} --recipe paper --law normal",
        f"rejection {base} --over threshold --title T --unit cm", f"rejection {base}", "rejection --test test.csv",
        f"rejection {base} --recalibrate conformal --recipe paper --law normal",
        f"shift {base} --shifted again.csv --shifted new.csv", "shift --test test.csv --shifted again.csv --unit mm",
        f"shift {base} --shifted again.csv --recalibrate aux:steps=20 --title T --recipe paper --law normal",
        "history history.csv", "history history.csv --calibrated --title T --unit mm",
    ):  # fmt: skip
        book.command(f"figure {more} -o figure.png --json -")
    for kind in ("calibration", "coverage", "rejection"):
        book.command(f"figure {kind} --test missing.csv --mask-missing -o f.svg --json figure.json")
    book.command("figure shift --test missing.csv --mask-missing --shifted again.csv -o f.pdf")
    book.command("figure history history.csv -o f.pdf --quiet")


def _lists(book: Book) -> None:
    """That they work: what is listed grows, and is help; the part `recalibrate` has the options of each plug-in."""
    for kind in ("", "recalibrate", "metrics", "diagrams", "datasets", "backbones", "recipes", "magic"):
        for json in ("", "--json -", "--json list.json"):
            book.command(f"list {kind} {json}".strip(), content=False)
    book.command("--version")


def _refusals(book: Book) -> None:
    """Exit codes alone: the wording of errors and help may change."""
    for line in (
        "", "magic", "evaluate", "evaluate --test test.csv", "evaluate --calibration gone.csv --test test.csv",
        "evaluate --calibration cal.csv --test test.csv --recalibrate magic",
        "evaluate --calibration cal.csv --test test.csv --metrics magic",
        "evaluate --calibration cal.csv --test test.csv --recipe magic",
        "evaluate --calibration cal.csv --test test.csv --json gone/x.json",
        "evaluate --calibration cal.csv --test test.csv --json cal.csv",
        "evaluate --calibration cal.csv --test test-laplace.csv", "evaluate --calibration cal.csv --test test3.npz",
        "evaluate --calibration cal.csv --test test.csv --address here",
        "evaluate --calibration empty.csv --test test.csv",
        "evaluate --calibration other.csv --test test.csv", "evaluate --calibration text.csv --test test.csv",
        "evaluate --calibration notnpz.npz --test test.csv", "evaluate --calibration missing.csv --test test.csv",
        "evaluate --calibration cal.csv --test test.csv --law laplace --engine slurm",
        "evaluate --calibration cal.npz --test test.csv --law laplace",
        "evaluate --calibration new.csv --test test.csv",
        "calibrate --calibration cal.csv", "calibrate --calibration cal.csv -o card.txt",
        "calibrate --calibration cal.csv --recalibrate none,sigma -o c.json",
        "calibrate --calibration new.csv -o c.json",
        "apply gone.json new.csv -o x.csv", "apply own.toml new.csv -o x.csv", "apply other.json new.csv -o x.txt",
        "apply other.json new.csv -o x.csv --level 90", "apply other.json new.csv -o new.csv",
        "apply other.json other.csv -o x.csv", "compare --calibration cal.csv --metric uce",
        "compare --calibration cal.csv --folds 1", "report --calibration cal.csv --test new.csv",
        "report --calibration cal.csv --test test.csv -o page.txt", "report --calibration cal.csv --test test_maps",
        "report --calibration cal.csv --test test.csv --docs x", "figure", "figure calibration --test test.csv",
        "figure calibration --test test.csv -o x.gif", "figure rejection --test test.csv --over x -o x.png",
        "figure shift --test test.csv --shifted test.csv -o x.png", "figure history gone.csv -o x.png", "list a b",
        "evaluate --help", "--help", "paper --help", "figure --help", "paper table1 --root .", "run gone.toml",
    ):  # fmt: skip
        book.command(line, label=f"wrong: {line}")
