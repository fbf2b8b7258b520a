"""The skeleton files of the documentation: copied, they work as plug-ins."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import truesigma as ts
from truesigma.core import plugins

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def skeleton(tmp_path):
    """A skeleton copied out of the documentation, as a reader would do it; its examples run."""

    def copy(name: str) -> str:
        import doctest

        path = tmp_path / name
        path.write_text((DOCS / "skeletons" / name).read_text(encoding="utf-8"), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"skeleton_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        done = doctest.testmod(module)
        assert done.failed == 0
        return str(path)

    return copy


@pytest.fixture
def cases():
    """Cases whose sigma is half of what it should be, with two outputs."""
    rng = np.random.default_rng(0)
    v = rng.gamma(3.0, 0.5, (1000, 2))
    y = 7 + 2 * np.sqrt(v) * rng.normal(size=v.shape)
    return ts.Cases(ts.Prediction(0 * v + 7, aleatoric=0.8 * v, epistemic=0.2 * v), y)


def test_skeletons_of_recalibration_and_metric(skeleton, cases):
    mine, metric = skeleton("recalibration.py"), skeleton("metric.py")
    found = ts.evaluate(
        cases[:500],
        cases[500:],
        recalibrations=["none", mine, f"{mine}:part=aleatoric"],
        metrics=[metric, "coverage:level=0.5"],
    )
    assert found.value("none", "metric") == pytest.approx(4, rel=0.1)
    assert found.value("recalibration", "metric") == pytest.approx(1, rel=0.1)
    assert found.value("recalibration", "coverage") == pytest.approx(0.5, abs=0.04)
    fitted = found.recalibrations["recalibration"]
    stored = fitted.to_dict()
    assert stored.pop("name") == "recalibration"
    again = plugins.load("recalibrate", mine).from_dict(stored)
    assert again.to_dict() == fitted.to_dict()
    np.testing.assert_array_equal(again(cases.prediction).scale, fitted(cases.prediction).scale)
    with pytest.raises(ValueError, match="median does not take"):
        plugins.load("recalibrate", mine).fit(cases.prediction, cases.target, weight=np.ones(1000))
    with pytest.raises(ValueError, match="one calibration case"):
        plugins.load("recalibrate", mine).fit(cases.prediction[:1], cases.target[:1])


def test_a_skeleton_goes_by_the_name_of_its_file(tmp_path, cases):
    text = (DOCS / "skeletons" / "recalibration.py").read_text(encoding="utf-8")
    (tmp_path / "median.py").write_text(text, encoding="utf-8")
    fitted = plugins.load("recalibrate", str(tmp_path / "median.py")).fit(cases.prediction, cases.target)
    assert fitted.to_dict()["name"] == "median"


def test_skeleton_of_a_diagram(skeleton, cases):
    module = plugins.load("diagrams", skeleton("diagram.py"))
    found = module.table(cases.prediction, cases.target, cells=4)
    z = (cases.target - cases.prediction.location) / cases.prediction.scale
    from scipy.special import ndtr

    expected = [np.mean((ndtr(z) >= k / 4) & (ndtr(z) < (k + 1) / 4)) for k in range(4)]
    assert found.columns["share"] == pytest.approx(expected)
    ax = module.draw(found)
    np.testing.assert_array_equal(ax.patches[0].get_data().values, found.share)


def test_skeletons_of_data_set_and_backbone(skeleton, tmp_path):
    torch = pytest.importorskip("torch")
    from truesigma.imaging.network.two_head import TwoHead

    rng = np.random.default_rng(0)
    np.save(tmp_path / "images.npy", rng.integers(0, 255, (9, 32, 32), dtype=np.uint8))
    np.save(tmp_path / "radius.npy", rng.uniform(1, 16, 9))
    data = plugins.load("datasets", skeleton("dataset.py")).load(str(tmp_path))
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 3, "valid": 3, "test": 3}
    split = data.splits["train"]
    batch, target = data.augment(data.prepare(split.images), split.target, torch.Generator().manual_seed(0))
    backbone, features = plugins.load("backbones", skeleton("backbone.py")).build(data.channels)
    mean, log_variance = TwoHead(backbone, features, data.outputs, dropout=0.2)(batch)
    assert mean.shape == target.shape
    assert log_variance.shape == (3, 1)
    with pytest.raises(ValueError, match=r"images\.npy is missing"):
        plugins.load("datasets", str(tmp_path / "dataset.py")).load(str(tmp_path / "nothing"))


def test_skeleton_of_a_sigma(skeleton):
    torch = pytest.importorskip("torch")
    from truesigma import imaging

    net, x = torch.nn.Linear(3, 2), torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    y = net(x).detach() + 0.5 * torch.randn(400, 2, generator=torch.Generator().manual_seed(1))
    sigma = imaging.fit_sigma(net, f"{skeleton('sigma.py')}:times=4", held=[(x, y)])
    assert sigma([x]).scale == pytest.approx(np.ones((400, 2)), rel=0.1)


def test_pages_show_whole_skeletons():
    text = (DOCS / "adding.md").read_text(encoding="utf-8")
    shown = re.findall(r'--8<-- "(.+?)"', text)
    assert sorted(shown) == sorted(path.name for path in (DOCS / "skeletons").glob("*.py"))


@pytest.mark.parametrize(
    ("name", "folder"), [("metric", None), ("recalibration", None), ("diagram", "diagrams")]
)
def test_skeletons_need_the_core_and_their_own_folder_alone(name, folder):
    text = (DOCS / "skeletons" / f"{name}.py").read_text(encoding="utf-8")
    used = set(re.findall(r"from (truesigma[\w.]*) import", text))
    assert "truesigma.core" in used
    assert all(module.startswith(f"truesigma.{folder}.") for module in used - {"truesigma.core"})
