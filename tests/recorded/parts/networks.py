"""Networks in Python: data sets, backbones, losses, draws, training, prediction, TallyMetric, ONNX."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import truesigma as ts
from truesigma import imaging

from .. import folders
from ..book import Book
from ..paths import named
from ..pictures import dataset, net, pixels, published, spots
from ..samples import BACKBONES, sample

FIELDS = (
    "name heads stage_dropout head_dropout epochs batch optimizer learning_rate momentum weight_decay schedule "
    "patience factor watch keep draws repeats"
)
load_plugin = named("truesigma.plugins.load")


def record(book: Book) -> None:
    torch.set_num_threads(1)
    _values(book)
    _datasets(book)
    _backbones(book)
    _losses(book)
    _draws(book)
    _training(book)


def _values(book: Book) -> None:
    data = dataset()
    book.call(
        "DataSet", lambda: [data.channels, data.outputs, repr(data), data.in_unit(data.splits["test"].target)]
    )
    book.call("Split", lambda: [spots(3, 0).shape, spots(3, 0).labelled, repr(spots(3, 0)), len(spots(3, 0))])
    some = torch.zeros(2, 1, 4, 4)
    for name, given in {
        "names": (some, torch.zeros(2, 1), ("a",)), "target": (some, torch.zeros(3, 1), ("a", "b")),
        "grey": (some[0], torch.zeros(2, 1), ("a", "b")), "group": (some, torch.zeros(2, 1), ("a", "b"), ("g",)),
        "unlabelled": (some, torch.full((2, 1), torch.nan), ("a", "b")),
    }.items():  # fmt: skip
        book.call(f"Split {name}", lambda given=given: repr(imaging.Split(*given)))
    for name in ("exact", "paper", "code"):
        book.call(f"load_recipe {name}", lambda name=name: _known(imaging.load_recipe(name, epochs=3)))
        book.call(f"Recipe repr {name}", lambda name=name: repr(imaging.load_recipe(name)))
    rare = {"weight_decay": 1e-3, "draws": 9, "repeats": 2}
    book.call("Recipe rare", lambda: _known(imaging.Recipe(**rare)))
    own = book.folder / "own.toml"
    own.write_text('[train]\nepochs = 4\nschedule = "cosine"\n[network]\nheads = "deep"\n')
    book.call("load_recipe own", lambda: _known(imaging.load_recipe(own)))
    for bad in (
        {"heads": "x"}, {"optimizer": "x"}, {"schedule": "x"}, {"watch": "test_mse"}, {"keep": "x"}, {"epochs": 0},
        {"batch": True}, {"stage_dropout": 2.0}, {"learning_rate": -1.0}, {"head_dropout": {}}, {"factor": "a"},
    ):  # fmt: skip
        book.call(f"Recipe {bad}", imaging.Recipe, **bad)
    book.call("load_recipe wrong", imaging.load_recipe, "exact", epoch=3)
    book.call("load_recipe none", imaging.load_recipe, "none.toml")
    units = named("truesigma.imaging.units.Units")(("mm", "deg"), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    book.call(
        "Units",
        lambda: [units.text, units.mixed, units.location(np.ones((2, 2))), units.variance(np.ones((2, 2)))],
    )
    one = sample(1, 5, (2,))
    book.call("Units convert", units.convert, one.prediction)
    book.call("Units prediction", units.prediction, one.prediction)
    book.call("Units draws", units.draws, ts.Draws(np.ones((3, 4, 2)), np.ones((3, 4, 2))))
    for kind in ("flip", "crop", "jitter", "transpose"):
        function = named(f"truesigma.imaging.augment.{kind}")
        book.call(
            f"augment {kind}",
            lambda f=function: f(pixels(4), torch.ones(4, 1), torch.Generator().manual_seed(0)),
        )


def _known(recipe: imaging.Recipe) -> dict[str, Any]:
    """The fields of a recipe as they were; others may have come since."""
    return {name: getattr(recipe, name) for name in FIELDS.split()}


def _about(data: imaging.DataSet) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": data.name,
        "unit": data.unit,
        "offset": data.offset,
        "factor": data.factor,
    }
    generator = torch.Generator().manual_seed(0)
    for name, split in data.splits.items():
        images = torch.stack([split.images[k] for k in range(min(3, len(split)))])
        ready = data.prepare(images)
        varied = data.augment(ready, split.target[: len(images)], generator)
        found[name] = [
            images,
            ready,
            *varied,
            split.target,
            list(split.name),
            split.group and list(split.group),
        ]
    return found


def _datasets(book: Book) -> None:
    published(book.folder)
    given: dict[str, tuple[str, list[dict[str, Any]]]] = {
        "boneage": ("boneage", [{"size": 32}, {"size": 24, "seed": 2, "cache": False, "clahe": 0.01},
                                {"size": 24, "other_root": str(book.folder / "breastpathq")}, {"splits": "gone"}]),
        "breastpathq": ("breastpathq", [{"size": 16}, {"size": 16, "seed": 1, "cache": False}, {"splits": "gone"}]),
        "endovis": ("endovis", [{"scale": 0.1}]),
        "endovis loose": ("endovis-loose", [{"scale": 0.1, "valid": 0.34, "test": 0.3, "seed": 3}]),
        "oct": ("oct", [{"size": 32}, {"size": 16, "jitter": "paper", "seed": 2}, {"jitter": "none", "size": 16},
                        {"splits": "gone"}]),
        "simulated": ("sim", [{"cases": 12, "train": 5, "valid": 4, "size": 16},
                              {"cases": 12, "train": 5, "valid": 4, "size": 16, "seed": 1, "jitter": "paper"}]),
    }  # fmt: skip
    (book.folder / "sim").mkdir()
    for name, (root, options) in given.items():
        for one in options:
            module = load_plugin("datasets", name.split()[0])
            words = {k: v for k, v in one.items() if k != "other_root"}
            book.call(f"{name} {words}{' other' if 'other_root' in one else ''}",
                      lambda m=module, r=root, o=one: _about(m.load(str(book.folder / r), **o)))  # fmt: skip
    for kind, more in (
        ("png", {}),
        ("npy", {"volumes": True}),
        ("nii.gz", {"volumes": True}),
        ("tif", {"split": True}),
    ):
        folders.images(book.folder / kind, 12, side=8, ending=f".{kind}", **more)
        load = load_plugin("datasets", "table").load
        base = {"csv": "labels.csv", "image": "file", "target": "age", "group": "patient"}
        for change in (
            {}, {"size": 6, "unit": "mm", "flip": True, "shift": 2}, {"target": "age,size", "unit": "y,mm", "seed": 4},
            {"image": "scans/{id}." + kind}, {"valid": 0.3, "test": 0.2, "group": "", "split": ""}, {"memory": 1e-6},
            {"dimensions": 3 if more.get("volumes") else 2, "skip_broken": True}, {"target": "gone"},
            {"csv": "gone.csv"},
        ):  # fmt: skip
            root, given = str(book.folder / kind), {**base, **change}
            book.call(f"table {kind} {change}", lambda r=root, g=given, f=load: _about(f(r, **g)))
    for name, options in (("simulated", {"cases": "12", "train": 5, "valid": 4, "size": 16}), ("oct", {"size": "a"}),
                          ("magic", {})):  # fmt: skip
        source = book.call(
            f"Source {name}", lambda n=name, o=options: imaging.Source(n, str(book.folder / "sim"), o)
        )
        if source is not None:
            data = source.load()
            book.call(
                "Source record",
                lambda s=source, d=data: {**s.record(d), "root": "", "dataset": s.plugin.TITLE},
            )


def _backbones(book: Book) -> None:
    recipe = imaging.Recipe(stage_dropout=0.1)
    deep = imaging.load_recipe("code")
    options = dict.fromkeys(BACKBONES, ":stage_dropout=0.3") | {
        "any_timm": ":model=resnet10t",
        "densenet201": ":layer_dropout=0.1",
        "efficientnet_b4": ":drop_connect=0.1",
    }
    for name in BACKBONES:
        shape = (2, 1, 16, 16, 16) if name == "small3d" else (2, 1, 32, 32)
        ways = [(name + options[name], recipe, "each"), (name, deep, "one")]
        for spelt, way, variances in (
            ways if name.startswith("small") else ways[:1]
        ):  # the others take seconds each

            def made(spelt=spelt, way=way, variances=variances, shape=shape):
                built = imaging.build(spelt, 1, 2, way, variances=variances, seed=3).eval()
                with torch.no_grad():
                    found = built(torch.linspace(0, 1, int(np.prod(shape))).reshape(shape))
                return {"out": list(found), "parameters": sum(p.numel() for p in built.parameters())}

            book.call(f"build {spelt} {way.name}", made)
    for bad in (
        ("magic", 1, 1),
        ("small", 0, 1),
        ("small", 1, 0),
        ("timm:gone", 1, 1),
        ("timm:resnet10t", 1, 1),
    ):
        book.call(f"build {bad}", imaging.build, *bad, recipe)
    book.call(
        "build pretrained and weights", imaging.build, "small", 1, 1, recipe, pretrained=True, weights="x"
    )
    book.call("build pretrained", imaging.build, "small", 1, 1, recipe, pretrained=True)
    for name in BACKBONES:  # from a network that is not there
        book.call(f"build pretrained {name}", imaging.build, name, 1, 1, recipe, pretrained=True)
    for variances, heads in product(("one", "each"), ("linear", "deep")):
        torch.manual_seed(0)
        two = imaging.TwoHead(nn.Flatten(), 16, 3, dropout=0.5, variances=variances, heads=heads).eval()
        book.call(f"TwoHead {variances} {heads}", lambda two=two: list(two(pixels(2, side=4))))
    book.call("TwoHead wrong", lambda: imaging.TwoHead(nn.Flatten(), 16, 3, dropout=0.5, variances="two"))
    from safetensors.torch import save_file

    built, other = (imaging.build("small", 1, 2, recipe, seed=k) for k in (1, 2))
    save_file(built.state_dict(), book.folder / "whole.safetensors")
    torch.save(built.backbone.state_dict(), book.folder / "backbone.pth")
    for name in ("whole.safetensors", "backbone.pth", "gone.safetensors", "own.toml"):

        def loaded(name=name):
            imaging.load_weights(other, book.folder / name)
            return list(other.eval()(pixels(2)))

        book.call(f"load_weights {name}", loaded)
    whole = book.folder / "whole.safetensors"
    started = imaging.build("small", 1, 2, recipe, weights=whole, seed=0).eval()
    book.call("build weights", lambda: list(started(pixels(2))))


def _losses(book: Book) -> None:
    mean, log, target = pixels(4, 1), pixels(4, 2), pixels(4, 3)
    mask = pixels(4, 4) < 0.7
    holes = torch.where(mask, target, torch.nan)
    for name in ("gaussian", "laplace"):
        loss = named(f"truesigma.imaging.losses.{name}")
        book.call(f"{name}", loss, mean, log, target)
        book.call(f"{name} mask", loss, mean, log, holes, mask)
        book.call(f"{name} one variance", loss, mean, log[:, :, :1, :1], target)
        book.call(f"{name} shapes", loss, mean, log[:2], target)

        def slope(loss=loss):
            grown = mean.clone().requires_grad_()
            loss(grown, log, holes, mask).mean().backward()
            return grown.grad

        book.call(f"{name} gradient", slope)


def _draws(book: Book) -> None:
    batches = list(pixels(10).split(4))
    nets = {kind: net(kind) for kind in ("heads", "inside", "none")}
    nets["small"] = imaging.build("small", 1, 2, imaging.Recipe(), seed=1)
    for name, law in product(nets, (ts.Normal(), ts.Laplace())):
        for function in (imaging.dropout_draws, imaging.dropout_moments):
            draw = partial(function, nets[name], law=law)
            label = f"{function.__name__} {name} {law.name}"
            book.call(label, draw, batches, draws=6, seed=1)
            book.call(f"{label} chunk", draw, batches, draws=5, seed=2, chunk=2)
            book.call(f"{label} bf16", draw, batches, draws=3, seed=3, precision="bf16", close=1e-2)
        book.call(
            f"ensemble {name} {law.name}", imaging.ensemble_draws, [nets[name], net(seed=4)], batches, law=law
        )
    book.call("ensemble bf16", imaging.ensemble_draws, [nets["heads"]], batches, precision="bf16", close=1e-2)
    pairs = [(image, torch.zeros(len(image))) for image in batches]
    book.call("draws of tuples", imaging.dropout_draws, nets["heads"], pairs, draws=3, seed=0)
    book.call("draws default", imaging.dropout_draws, nets["heads"], batches, seed=0)
    for bad in ({"draws": 0}, {"precision": "fp8"}, {"chunk": 0}, {"seed": -1}):
        given = {"draws": 3, "seed": 0, **bad}
        book.call(f"draws {bad}", imaging.dropout_draws, nets["heads"], batches, **given)
    book.call("draws of nothing", imaging.dropout_draws, nets["heads"], [], seed=0)
    book.call("draws of a linear layer", imaging.dropout_draws, nn.Linear(3, 3), [torch.rand(2, 3)], seed=0)
    for name in ("heads", "inside", "none", "small"):

        def parted(name=name):
            prefix, _ = imaging.partition(nets[name], batches[0])
            with torch.no_grad():
                return [prefix(batches[0]), nets[name].training]

        book.call(f"partition {name}", parted)
    book.note("generator untouched", torch.get_rng_state().sum())


def _training(book: Book) -> None:
    data, run = dataset(), book.folder / "run"
    quick = {"device": "cpu", "quiet": True, "seed": 1}
    base = {"epochs": 3, "batch": 8, "learning_rate": 3e-3, "patience": 1, "stage_dropout": 0.1}
    ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "plain": ({}, {}), "laplace": ({}, {"likelihood": "laplace"}),
        "sgd": ({"optimizer": "sgd", "momentum": 0.9}, {}),
        "cosine": ({"schedule": "cosine", "keep": "last"}, {}), "one pass": ({"keep": "valid_mse_one_pass"}, {}),
        "train loss": ({"watch": "train_loss", "keep": "valid_loss"}, {}), "bf16": ({}, {"precision": "bf16"}),
        "workers": ({}, {"workers": 0, "graph": "off"}),
        "kept": ({}, {"out": run, "checkpoint_every": 60.0, "record": {"note": "mine"}}), "again": ({}, {"out": run}),
        "more": ({"epochs": 5}, {"out": run}), "anew": ({}, {"out": run, "resume": False}),
        "no time": ({}, {"time_limit": 0.0}), "bad likelihood": ({}, {"likelihood": "cauchy"}),
        "bad device": ({}, {"device": "tpu"}), "bad precision": ({}, {"precision": "fp8"}),
    }  # fmt: skip
    trained = None
    for name, (recipe, options) in ways.items():
        rows: list[Any] = []

        def fitted(recipe=recipe, options=options, rows=rows):
            way = imaging.Recipe(**{**base, **recipe})
            made = imaging.train(imaging.build("small", 1, 2, way, seed=5), data, way,
                                 progress=lambda row: rows.append(1), **{**quick, **options})  # fmt: skip
            return made

        def told(fitted=fitted):
            made = fitted()
            history = [{k: v for k, v in row.items() if "seconds" not in k} for row in made.history]
            out = made.net.eval()(data.prepare(data.splits["test"].images[:3]))
            return {"history": history, "best": made.best_epoch, "finished": made.finished, "out": list(out)}

        book.call(f"train {name}", told, close=1e-2 if name == "bf16" else 0.0)
        trained = trained or fitted()
    loaded = book.call("load_run", lambda: _run(book.folder / "run"))
    book.call("load_run of nothing", imaging.load_run, book.folder / "nowhere")
    assert loaded is not None
    nets, _ = imaging.load_run(book.folder / "run")
    for options in (
        {}, {"moments": True}, {"scaled": True}, {"law": ts.Laplace()}, {"split": "valid", "batch": 3, "seed": 2},
        {"split": "gone"}, {"precision": "bf16"}, {"progress": lambda n: None},
    ):  # fmt: skip
        words = {k: v if isinstance(v, str | int | bool) else "" for k, v in options.items()}
        close = 1e-2 if "precision" in options else 0.0
        given = {"draws": 4, **options}
        book.call(f"predict_split {words}", imaging.predict_split, nets, data, **given, close=close)
    book.call("predict_split ensemble", imaging.predict_split, [nets, trained.net], data)
    unknown = imaging.Split(
        data.splits["test"].images, torch.full((10, 2), torch.nan), data.splits["test"].name
    )
    book.call("predict_split unlabelled", imaging.predict_split, nets, dataset(test=unknown), draws=3)
    _runs(book)


def _run(folder: Path) -> Any:
    net, about = imaging.load_run(folder)
    return [list(net.eval()(pixels(2))), about["data"]["name"], about["seed"], about["likelihood"]]


def _runs(book: Book) -> None:
    """From a source to predictions of new images."""
    train_run, intake = named("truesigma.imaging.launch.train_run"), named("truesigma.imaging.source.intake")
    list_images = named("truesigma.imaging.predict.list_images")
    options = {"csv": "labels.csv", "image": "file", "target": "age", "group": "patient", "unit": "y"}
    source = imaging.Source("table", str(book.folder / "png"), options)
    said: list[str] = []
    way = imaging.Recipe(epochs=2, batch=4)
    made = train_run(source, book.folder / "table-run", way, backbone="small", device="cpu", say=said.append,
                     variances="each", likelihood="laplace", seed=2)  # fmt: skip
    book.call("train_run", lambda: [len(made.history), made.best_epoch])
    nets, about = imaging.load_run(book.folder / "table-run")
    files = list_images([book.folder / "png" / "scans"])
    book.call("list_images", lambda: [path.name for path in files])
    book.call(
        "list_images volumes",
        lambda: [p.name for p in list_images([book.folder / "nii.gz" / "scans"], volumes=True)],
    )
    book.call("list_images nothing", list_images, [book.folder / "gone"])
    entry = intake(source, about)
    for given in (
        {},
        {"moments": False, "draws": 3},
        {"batch": 2, "seed": 4, "workers": 1},
        {"law": ts.Laplace()},
    ):
        words = {k: v for k, v in given.items() if k != "law"} | (
            {"law": "laplace"} if "law" in given else {}
        )
        book.call(
            f"predict_images {words}", lambda g=given: imaging.predict_images(nets, files, entry, **g)[1]
        )
    (book.folder / "broken.png").write_bytes(b"no image")
    more = [*files, book.folder / "broken.png"]
    book.call("predict_images broken", imaging.predict_images, nets, more, entry)
    book.call(
        "predict_images skipped",
        lambda: imaging.predict_images(nets, more, entry, skip_broken=True, draws=2)[1],
    )
    book.call("predict_images ensemble", lambda: imaging.predict_images([nets, nets], files, entry, precision="bf16",
              progress=lambda n: None)[1], close=1e-2)  # fmt: skip
