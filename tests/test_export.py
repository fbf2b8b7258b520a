"""The calibrated model as one ONNX file: what onnxruntime gives is what the package gives, or no file is written."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import truesigma as ts
from truesigma.card import calibrate, read_card
from truesigma.export import to_onnx
from truesigma.files import BadFile
from truesigma.imaging import TwoHead, calibrated, dropout_draws, dropout_moments, ensemble_draws
from truesigma.imaging.prepare import Normalise
from truesigma.imaging.replay import Disagreement, as_predicted
from truesigma.imaging.units import SCALED, Units
from truesigma.store import write

IMAGES = torch.rand(60, 1, 4, 4, generator=torch.Generator().manual_seed(0))
MONTHS = Units(("months",), np.array([12.0]), np.array([200.0]))
PLAIN = Units(("",), np.zeros(1), np.ones(1))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def network(seed=0, outputs=1, dropout=0.5):
    """Pixels to two heads, with variances that differ from case to case."""
    torch.manual_seed(seed)
    net = TwoHead(nn.Flatten(), 16, outputs, dropout=dropout).eval()
    nn.init.normal_(net.log_variance.weight, std=0.5)
    return net


def card_for(draws, recalibration="sigma", *, units=PLAIN, unit=None, recipe="exact"):
    """A card fitted on draws of a network, for targets made up around them."""
    unit = units.text if unit is None else unit
    given = draws if unit == SCALED else units.draws(draws)
    prediction = ts.decompose(given)
    rng = np.random.default_rng(0)
    target = prediction.location + 1.7 * prediction.scale * rng.standard_t(5, prediction.location.shape)
    return calibrate(ts.Cases(prediction, target, draws=given, unit=unit), recalibration, recipe=recipe)


def run(path, images):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"image": np.asarray(images)})))


def expect(found, prediction, levels=(0.9,)):
    """All outputs are those of the package."""
    for name in ("location", "aleatoric", "epistemic", "scale"):
        np.testing.assert_allclose(found[name], getattr(prediction, name), rtol=1e-4, atol=1e-7)
    for level in levels:
        for side in ("lower", "upper"):
            bound = getattr(prediction.interval(level), side)
            np.testing.assert_allclose(found[f"{side}_{100 * level:g}"], bound, rtol=1e-4, atol=1e-6)


KINDS = {
    "none": dict(recalibration="none"),
    "sigma in months": dict(recalibration="sigma", units=MONTHS),
    "sigma, scaled": dict(recalibration="sigma", units=MONTHS, unit=SCALED),
    "aleatoric": dict(recalibration="sigma:part=aleatoric"),
    "aux in months": dict(recalibration="aux:hidden=4,steps=200", units=MONTHS),
    "aux, scaled": dict(recalibration="aux:hidden=4,steps=200", units=MONTHS, unit=SCALED),
    "isotonic": dict(recalibration="isotonic"),
    "conformal": dict(recalibration="conformal", units=MONTHS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_pass_gives_the_numbers_of_the_package(kind, tmp_path):
    net, options = network(), KINDS[kind]
    units = options.get("units", PLAIN)
    draws = ensemble_draws([net], [IMAGES])
    card = card_for(draws, **options)
    made = to_onnx([net], tmp_path / "m.onnx", example=IMAGES, card=card, levels=(0.5, 0.9), units=units)
    assert made.difference < 1e-4
    assert made.outputs == (
        "location", "aleatoric", "epistemic", "scale", "lower_50", "upper_50", "lower_90", "upper_90"
    )  # fmt: skip
    expect(run(made.path, IMAGES), as_predicted(draws, card, units), levels=(0.5, 0.9))


@pytest.mark.parametrize(
    ("recipe", "law"), [("exact", ts.Laplace()), ("paper", ts.Normal()), ("own.toml", ts.Normal())]
)
def test_an_ensemble_of_several_outputs_in_every_recipe(recipe, law, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text('[decompose]\naleatoric = "geometric"\nddof = 1\n')
    nets = [network(seed, outputs=2) for seed in range(3)]
    draws = ensemble_draws(nets, [IMAGES], law=law)
    card = card_for(draws, "aux:hidden=3,steps=100", recipe=recipe)  # paper: one ratio for both outputs
    made = to_onnx(nets, "m.onnx", example=IMAGES, card=card, law=law)
    assert json.loads(made.metadata["sampling"]) == {"kind": "ensemble", "draws": 3}
    expect(run("m.onnx", IMAGES), as_predicted(draws, card, PLAIN))


def test_dropout_in_the_file_is_that_of_the_network(tmp_path):
    net, images = network(), IMAGES[:3]
    card = card_for(dropout_draws(net, [IMAGES], draws=40, seed=0))
    made = to_onnx(net, tmp_path / "m.onnx", example=images, card=card, draws=40)
    session = onnxruntime.InferenceSession(str(made.path), providers=["CPUExecutionProvider"])
    runs = [
        session.run(["location", "aleatoric", "epistemic"], {"image": images.numpy()}) for _ in range(150)
    ]
    location, aleatoric, epistemic = (np.stack(column) for column in zip(*runs))
    factor = card.recalibration.factor
    truth = dropout_moments(net, [images], draws=20_000, seed=1)
    # 6000 draws: the mean of the draws, their variance (of which 40 draws see 39/40), the mean of their variances.
    error = np.sqrt(truth.epistemic / 6000)
    assert (abs(location.mean(0) - truth.location) < 5 * error).all()
    np.testing.assert_allclose(epistemic.mean(0), factor**2 * truth.epistemic * 39 / 40, rtol=0.08)
    np.testing.assert_allclose(aleatoric.mean(0), factor**2 * truth.aleatoric, rtol=0.1)
    assert (location.std(0) > 0).all()  # another run draws other masks
    assert (epistemic > 0).all()


class Layers(nn.Module):
    """Dropout of features, of the functional kind, and of whole paths; a deterministic convolution before."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.mean, self.spread = nn.Conv2d(6, 6, 3), nn.Linear(24, 2), nn.Linear(24, 1)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.dropout2d(x, 0.3, self.training)
        y = F.dropout(self.second(x).flatten(1), 0.4, self.training)
        if self.training:
            y = y * y.new_empty(y.shape[0], 1).bernoulli_(0.8).div_(0.8)
        return self.mean(y), self.spread(y)


class Dense(nn.Module):
    """A value for every pixel."""

    def __init__(self):
        super().__init__()
        self.mean, self.spread = nn.Conv2d(1, 1, 3, padding=1), nn.Conv2d(1, 1, 1)

    def forward(self, x):
        x = F.dropout(x, 0.3, self.training)
        return self.mean(x), self.spread(x)


class Shared(nn.Module):
    """One mask for all cases of a batch: the draws cannot be folded into it."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        x = x.flatten(1) * F.dropout(x.new_ones(16), 0.5, self.training)
        return self.head(x)[:, :1], self.head(x)[:, 1:]


class Volume(nn.Module):
    """3-D images."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv3d(1, 4, 3), nn.Dropout3d(0.3), nn.Flatten(), nn.Linear(32, 2))

    def forward(self, x):
        return self.body(x).chunk(2, dim=1)


@pytest.mark.parametrize("net", [Layers, Dense, Shared, Volume])
def test_networks_of_ones_own(net, tmp_path):
    torch.manual_seed(1)
    net = net().train()
    images = torch.rand(3, 1, 4, 4, 4) if isinstance(net, Volume) else IMAGES[:3]
    before = {name: value.clone() for name, value in net.state_dict().items()}
    made = to_onnx(net, tmp_path / "m.onnx", example=images, draws=5)
    assert net.training  # left as it was found
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    for cases in (1, 3, 7):
        found = run(made.path, images[:1].expand(cases, *images.shape[1:]))
        shape = (cases, 1, 4, 4) if isinstance(net, Dense) else (cases, 2 if isinstance(net, Layers) else 1)
        assert {value.shape for value in found.values()} == {shape}
        assert (found["epistemic"] > 0).any()
        assert all(np.isfinite(value).all() for value in found.values())


def test_what_is_before_the_first_dropout_runs_once(tmp_path):
    made = to_onnx(Layers().eval(), tmp_path / "m.onnx", example=IMAGES, draws=25)
    graph = onnx.load(made.path).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("Conv") == 2  # not 50: the draws are folded into the cases
    assert kinds.count("RandomUniformLike") == 3
    first = next(node for node in graph.node if node.op_type == "Conv")
    assert first.input[0] == "image"  # before the images are repeated


def test_the_images_are_prepared_inside(tmp_path):
    net, prepare = network(), Normalise((0.3,), (0.2,))
    made = to_onnx([net], tmp_path / "m.onnx", example=255 * IMAGES, prepare=prepare)
    expect(run(made.path, 255 * IMAGES), ts.decompose(ensemble_draws([net], [prepare(255 * IMAGES)])))
    assert prepare(torch.zeros(1, 1, 2, 2)).mean().item() == pytest.approx(-1.5)  # and still works outside


def test_the_card_and_the_shapes_stand_in_the_file(tmp_path):
    net = network()
    draws = dropout_draws(net, [IMAGES], draws=4, seed=0)
    cases = ts.Cases(
        ts.decompose(MONTHS.draws(draws)), np.full((60, 1), 90.0), draws=MONTHS.draws(draws), unit="months"
    )
    card = calibrate(cases, data={"file": "valid.npz", "sha256": "ab" * 32})
    made = to_onnx(
        net, tmp_path / "m.onnx", example=IMAGES, card=card, draws=4, units=MONTHS, about={"site": "A"}
    )
    model = onnx.load(made.path)
    onnx.checker.check_model(model)
    found = {entry.key: entry.value for entry in model.metadata_props}
    assert found == dict(made.metadata)
    assert found["site"] == "A"
    stored = json.loads(found["card"])
    assert stored == json.loads(json.dumps(card.to_dict()))
    assert stored["recalibration"]["factor"] == card.recalibration.factor
    assert stored["data"] == {"file": "valid.npz", "sha256": "ab" * 32, "cases": 60, "outputs": 1, "draws": 4}
    assert json.loads(found["input"]) == {"name": "image", "dtype": "float32", "shape": ["case", 1, 4, 4]}
    assert json.loads(found["outputs"])["aleatoric"] == "variance of the noise, in months squared"
    assert json.loads(found["outputs"])["upper_90"] == "upper bound of the 90 % interval, in months"
    assert {"python", "torch", "truesigma"} <= set(json.loads(found["versions"]))
    shape = model.graph.output[0].type.tensor_type.shape
    assert [d.dim_param or d.dim_value for d in shape.dim] == ["case", 1]
    content = made.path.read_bytes()
    for private in (b"site-packages", b"truesigma/imaging", b"stack_trace", str(Path.home()).encode() + b"/"):
        assert private not in content
    assert repr(made) == f"Exported(m.onnx, image ('case', 1, 4, 4) -> {', '.join(made.outputs)})"
    (tmp_path / "card.json").write_text(found["card"])  # and can be taken out again
    assert read_card(tmp_path / "card.json").to_dict() == card.to_dict()


def test_a_file_that_is_wrong_is_never_put_in_place(tmp_path, monkeypatch):
    out = tmp_path / "m.onnx"
    out.write_text("the one before")

    def attempt(message, nets, **options):
        with pytest.raises(Disagreement, match=message):
            to_onnx(nets, out, example=IMAGES, **options)
        assert out.read_text() == "the one before"
        assert list(tmp_path.iterdir()) == [out]

    with monkeypatch.context() as patch:  # dropout as torch writes it: onnxruntime leaves it out
        patch.setattr(calibrated, "with_uniform_numbers", lambda rest: rest)
        attempt("off by", network(), draws=3)
    with monkeypatch.context() as patch:
        patch.setattr(calibrated, "bounded_exp", lambda exponent: 1.001 * exponent.exp())
        attempt("aleatoric of the exported model is off by 0.0005", [network()])
    with monkeypatch.context() as patch:
        patch.setattr(ts.recalibrate.sigma.Sigma, "variance_ratio", lambda self, total: 1.0)
        attempt("is off by", [network()], card=card_for(ensemble_draws([network()], [IMAGES])))


OWN = """
from truesigma import Prediction
class Double:
    def __call__(self, prediction, *, group=None):
        return Prediction(prediction.location, 4 * prediction.aleatoric, 4 * prediction.epistemic)
    def to_dict(self):
        return {"name": "double"}
def fit(prediction, target, *, weight=None, group=None):
    return Double()
"""


def test_recalibrations_of_ones_own(tmp_path):
    (tmp_path / "double.py").write_text(OWN)
    draws = ensemble_draws([network()], [IMAGES])
    with pytest.raises(ValueError, match=r"'double' cannot be exported.*variance_ratio.*Add the method"):
        to_onnx(
            [network()],
            tmp_path / "m.onnx",
            example=IMAGES,
            card=card_for(draws, str(tmp_path / "double.py")),
        )
    (tmp_path / "able.py").write_text(
        OWN.replace(
            "    def to_dict", "    def variance_ratio(self, total):\n        return 4.0\n    def to_dict"
        )
    )
    card = card_for(draws, str(tmp_path / "able.py"))
    to_onnx([network()], tmp_path / "m.onnx", example=IMAGES, card=card)
    expect(run(tmp_path / "m.onnx", IMAGES), as_predicted(draws, card, PLAIN))


def test_cards_of_other_predictions_are_refused(tmp_path):
    net, out = network(), tmp_path / "m.onnx"
    single, many = ensemble_draws([net], [IMAGES]), dropout_draws(net, [IMAGES], draws=5, seed=0)

    def attempt(message, card, nets=net, **options):
        with pytest.raises(ValueError, match=message):
            to_onnx(nets, out, example=IMAGES, card=card, **{"draws": 5, **options})
        assert not out.exists()

    attempt("fitted on 1 draws of each case, the model would make 5", card_for(single))
    attempt("fitted on 5 draws of each case, the model would make 1", card_for(many), nets=[net])
    attempt(
        "fitted on predictions in mm, this network predicts in months",
        card_for(many, unit="mm"),
        units=MONTHS,
    )
    attempt("the card was fitted for 'normal'", card_for(many), law=ts.Laplace())
    attempt("fitted on 1 outputs, the network has 2", card_for(many), nets=network(outputs=2))
    attempt("recipe 'code' clamps", card_for(many, recipe="code"))
    attempt(
        "0.99 interval of this recalibration is infinite", card_for(many, "conformal"), levels=(0.9, 0.99)
    )
    with pytest.warns(UserWarning, match="fitted on 5 draws, the model makes 6"):
        to_onnx(net, out, example=IMAGES, card=card_for(many), draws=6)


BAD = {
    "suffix": (dict(out="m.pt"), "m.pt should end in .onnx"),
    "folder": (dict(out="missing/m.onnx"), "does not exist; make it first"),
    "draws": (dict(draws=0), "draws is 0; expected a whole number, 1 or more"),
    "level": (dict(levels=(90,)), "level is 90"),
    "no network": (dict(nets=[]), "nets is empty"),
    "no randomness": (dict(nets=network(dropout=0.0)), "draws no random numbers"),
    "one output": (dict(nets=nn.Flatten()), "draws no random numbers"),
    "not two outputs": (dict(nets=[nn.Flatten()]), r"expected two tensors, \(mean, log-variance\)"),
    "no tensor": (dict(example=np.zeros((2, 1, 4, 4))), "example is a ndarray; expected a tensor of images"),
    "no cases": (dict(example=torch.zeros(0, 1, 4, 4)), r"example is \(0, 1, 4, 4\)"),
    "law": (dict(law=ts.Empirical([1.0])), r"expected Normal\(\) or Laplace\(\)"),
    "noise": (
        dict(nets=[nn.Sequential(nn.Flatten(), nn.Dropout(0.5))]),
        "expected two tensors",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, message = BAD[name]
    given = {"nets": network(), "out": "m.onnx", "example": IMAGES, **options}
    with pytest.raises(ValueError, match=message) as raised:
        to_onnx(given.pop("nets"), given.pop("out"), **given)
    assert isinstance(raised.value, BadFile) == (name in ("suffix", "folder"))
    assert list(tmp_path.iterdir()) == []


class Fixed(nn.Module):
    """Written for two cases."""

    def forward(self, x):
        x = F.dropout(x, 0.5, self.training).reshape(len(x), 16)
        return x[:, :1], x[:, 1:2]


def test_a_network_that_cannot_be_followed_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"Fixed cannot be exported, since torch\.export cannot follow it: "):
        to_onnx(Fixed(), tmp_path / "m.onnx", example=IMAGES)
    assert list(tmp_path.iterdir()) == []


class Noise(nn.Module):
    """Random in a way that is no dropout."""

    def forward(self, x):
        x = x.flatten(1) + torch.randn_like(x.flatten(1))
        return x[:, :1], x[:, 1:2]


def test_other_randomness_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"draws random numbers by aten\.randn_like.*Export a single pass"):
        to_onnx(Noise(), tmp_path / "m.onnx", example=IMAGES)


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"needs onnxruntime.*pip install 'truesigma\[train,onnx\]'"
    ) as raised:
        to_onnx(network(), tmp_path / "m.onnx", example=IMAGES)
    assert raised.value.name == "onnxruntime"
    assert list(tmp_path.iterdir()) == []


def test_draws_of_a_card_are_recorded(tmp_path):
    draws = dropout_draws(network(), [IMAGES], draws=5, seed=0)
    card = card_for(draws)
    assert card.data["draws"] == 5
    write(card, tmp_path / "card.json")
    assert read_card(tmp_path / "card.json").data["draws"] == 5
