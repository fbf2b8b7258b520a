"""Export and metric: ONNX files of networks with their cards, and TallyMetric."""

from itertools import product
from typing import Any

import numpy as np
import torch

import truesigma as ts
from truesigma import imaging

from ..book import Book
from ..contents import content
from ..paths import named
from ..pictures import net, pixels
from ..samples import sample


def record(book: Book) -> None:
    torch.set_num_threads(1)
    _metric(book)
    _export(book)


def _metric(book: Book) -> None:
    for law, settings in product(
        ("normal", "laplace"),
        (
            {},
            {"edges": [0.1, 1.0, 5.0]},
            {"outputs": "mean", "error": "draws"},
            {"levels": [0.8]},
            {"groups": ["p0", "p1", "p2", "p3"]},
        ),
    ):
        one = sample(3, 40, (3,), law=law, weight="case", library="torch", group="groups" in settings)

        def filled(one=one, settings=settings):
            metric = imaging.TallyMetric(**settings)
            for cut in (slice(0, 15), slice(15, None)):
                group = None if one.group is None else list(one.group[cut])
                metric.update(one.prediction[cut], one.target[cut], weight=one.weight[cut], group=group)
            return metric

        book.call(f"TallyMetric {law} {settings}", lambda filled=filled: filled().compute())
        book.call(f"TallyMetric tally {law} {settings}", lambda filled=filled: filled().tally)
    plain = imaging.TallyMetric()
    book.call("TallyMetric forward", plain, (torch.zeros(5), torch.ones(5)), torch.arange(5.0))
    book.call("TallyMetric compute", plain.compute)
    book.call("TallyMetric wrong", plain.update, torch.zeros(3), torch.zeros(3))
    plain.reset()
    book.call("TallyMetric nothing", plain.compute)


def _export(book: Book) -> None:
    to_onnx = named("truesigma.export.to_onnx")
    images = pixels(30)
    one = net("heads", outputs=1)
    drawn = imaging.dropout_draws(one, images.split(10), draws=8, seed=0)
    held = ts.decompose(drawn)
    target = held.location + 1.5 * held.scale * np.random.default_rng(0).normal(size=held.location.shape)
    for method in ("aux:steps=30", "isotonic", "sigma_by_output"):
        card = ts.calibrate(ts.Cases(held, target, draws=drawn), method)
        path = book.folder / "model.onnx"
        book.call(
            f"to_onnx {method}",
            lambda c=card, p=path: _exported(to_onnx(one, p, example=images[:2], card=c, draws=8)),
        )
        book.note(f"onnx {method}", content(path, book.encode))
    units = named("truesigma.imaging.units.Units")(("mm",), np.array([1.0]), np.array([3.0]))
    for name, nets, options in (
        ("levels", one, {"levels": (0.5, 0.95), "draws": 3}),
        ("ensemble", [one, net(seed=2, outputs=1)], {}),
        ("laplace", one, {"law": ts.Laplace(), "units": units, "about": {"made": "here"}, "prepare": _half}),
        ("inside", net("inside", outputs=1), {"draws": 4}),
        ("bad levels", one, {"levels": (90,)}),
    ):
        path = book.folder / f"{name}.onnx"
        book.call(
            f"to_onnx {name}",
            lambda n=nets, p=path, o=options: _exported(to_onnx(n, p, example=images[:2], **o)),
        )
        if path.is_file():
            book.note(f"onnx {name}", content(path, book.encode))
            if name in ("ensemble",):  # without chance
                import onnxruntime

                session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
                book.note(f"onnx run {name}", session.run(None, {"image": images[:3].numpy()}))


def _half(images: torch.Tensor) -> torch.Tensor:
    return images / 2


def _exported(made: Any) -> list[Any]:
    return [made.input, made.outputs, made.draws, sorted(made.metadata), made.difference < 1e-4]
