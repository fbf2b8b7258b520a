"""From trained networks to files: units, splits, new images, cards, ensembles."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import truesigma as ts
from truesigma.card import calibrate
from truesigma.imaging.archive import BrokenFiles
from truesigma.imaging.data import DataSet, Split, batches
from truesigma.imaging.datasets import table
from truesigma.imaging.launch import train_run
from truesigma.imaging.members import open_runs
from truesigma.imaging.network import TwoHead
from truesigma.imaging.predict import list_images, predict_images, predict_split
from truesigma.imaging.prepare import Normalise
from truesigma.imaging.recipe import Recipe
from truesigma.imaging.results import needs_draws, recalibrated, write_images, write_split
from truesigma.imaging.runs import load_run
from truesigma.imaging.sampling import dropout_draws
from truesigma.imaging.source import Source, check_data, check_resumed, intake, names_hash, recorded
from truesigma.imaging.units import Units, units_from, units_of
from truesigma.law import Laplace
from truesigma.metrics import rmse, uce
from truesigma.recalibrate import sigma

MONTHS = Units(("months",), np.array([1.0]), np.array([227.0]))
POSE = Units(("mm", "mm", "deg"), np.array([0.0, -2.0, 5.0]), np.array([0.9996, 0.5998, 7.998]))


def network(outputs=1, variances="one", seed=0):
    torch.manual_seed(seed)
    net = TwoHead(nn.Flatten(), 64, outputs, dropout=0.5, variances=variances).eval()
    nn.init.normal_(net.log_variance.weight, std=0.3)
    return net


def hands(units, cases=40, seed=0, **change):
    """Random images with random targets, in one split or two."""
    generator = torch.Generator().manual_seed(seed)
    outputs = len(units.unit)
    target = torch.rand(cases, outputs, generator=generator)
    split = Split(
        torch.randint(0, 256, (cases, 1, 8, 8), generator=generator, dtype=torch.uint8),
        change.get("target", target),
        tuple(f"{k}.png" for k in range(cases)),
        change.get("group"),
    )
    return DataSet(
        "hands",
        {"valid": split, "test": split},
        Normalise((0.5,), (0.3,)),
        lambda images, target, generator: (images, target),
        units.unit,
        torch.from_numpy(units.offset).float(),
        torch.from_numpy(units.factor).float(),
    )


class TestUnits:
    def test_months_are_227_times_the_scaled_numbers_and_the_factor_is_the_same(self):
        net, data = network(), hands(MONTHS)
        scaled = predict_split(net, data, draws=6, scaled=True)
        months = predict_split(net, data, draws=6)
        assert (scaled.unit, months.unit) == ("scaled", "months")
        np.testing.assert_allclose(months.target, 1 + 227 * scaled.target, rtol=1e-6)
        np.testing.assert_allclose(months.draws.mean, 1 + 227 * scaled.draws.mean, rtol=1e-6)
        one, two = (sigma.fit(c.prediction, c.target).factor for c in (scaled, months))
        assert two == pytest.approx(one, rel=1e-5)
        error = [rmse.score(c.prediction, c.target) for c in (scaled, months)]
        assert error[1] == pytest.approx(227 * error[0], rel=1e-5)
        score = [uce.score(c.prediction, c.target) for c in (scaled, months)]
        assert score[1] == pytest.approx(227**2 * score[0], rel=1e-4)
        covered = [ts.metrics.coverage.score(c.prediction, c.target) for c in (scaled, months)]
        assert covered[0] == covered[1]

    @pytest.mark.parametrize("variances", ["one", "each"])
    def test_each_output_has_its_own_unit(self, variances):
        net, data = network(3, variances), hands(POSE)
        scaled, posed = (predict_split(net, data, draws=5, scaled=s) for s in (True, False))
        assert posed.unit == "mm, mm, deg"
        factor = data.factor.numpy()
        np.testing.assert_allclose(
            posed.prediction.epistemic, scaled.prediction.epistemic * factor**2, rtol=1e-4
        )
        np.testing.assert_allclose(
            posed.prediction.aleatoric, scaled.prediction.aleatoric * factor**2, rtol=1e-5
        )
        np.testing.assert_allclose(posed.prediction.scale, scaled.prediction.scale * factor, rtol=1e-4)
        fitted = [sigma.fit(c.prediction, c.target) for c in (scaled, posed)]
        assert fitted[1].factor == pytest.approx(fitted[0].factor, rel=1e-5)
        assert fitted[1].standard_error == pytest.approx(fitted[0].standard_error, rel=1e-4)
        edges = [f(c.prediction).interval(0.9).upper for f, c in zip(fitted, (scaled, posed))]
        np.testing.assert_allclose(edges[1], POSE.location(edges[0]), rtol=1e-4, atol=1e-5)

    def test_an_empirical_law_keeps_its_intervals(self):
        p = ts.Prediction(
            [[0.2], [0.4]], [[0.01], [0.02]], [[0.0], [0.01]], law=ts.Empirical([-3.0, 0.5, 1.0])
        )
        made = MONTHS.prediction(p)
        assert made.law is p.law
        np.testing.assert_allclose(made.interval(0.5).upper, MONTHS.location(p.interval(0.5).upper))

    def test_precision_stays(self):
        draws = ts.Draws(np.zeros((2, 3, 1), np.float32), np.ones((2, 3, 1), np.float32))
        made = MONTHS.draws(draws)
        assert made.mean.dtype == made.variance.dtype == np.float32
        assert (made.mean == 1).all()
        assert not MONTHS.mixed
        assert POSE.mixed


class TestSplit:
    def test_it_is_what_the_sampler_draws(self):
        net, data = network(3), hands(POSE)
        cases = predict_split(net, data, "test", draws=7, seed=3, batch=16, scaled=True)
        images = (b.images for b in batches(data.splits["test"], 16, prepare=data.prepare))
        draws = dropout_draws(net, images, draws=7, seed=3)
        np.testing.assert_array_equal(cases.draws.mean, draws.mean)
        np.testing.assert_array_equal(cases.draws.variance, draws.variance)
        assert list(cases.id) == list(data.splits["test"].name)

    def test_moments_are_those_of_the_draws(self):
        net, data = network(3), hands(POSE)
        kept, moments = (predict_split(net, data, draws=7, moments=m) for m in (False, True))
        assert moments.draws is None
        for name in ("location", "aleatoric", "epistemic"):
            one, two = (getattr(c.prediction, name) for c in (kept, moments))
            np.testing.assert_allclose(two, one, rtol=2e-4, atol=1e-6)

    def test_laplace_stays_laplace(self, tmp_path):
        net, data = network(), hands(MONTHS)
        cases = predict_split(net, data, draws=4, law=Laplace())
        assert cases.prediction.law == Laplace()
        ts.write(cases, tmp_path / "draws.npz")
        again = ts.read(tmp_path / "draws.npz")
        assert again.prediction.law == Laplace()
        assert again.unit == "months"

    def test_one_network_alone_is_not_an_ensemble_of_one(self):
        net, data = network(), hands(MONTHS)
        member = predict_split([net], data, scaled=True)
        images = data.prepare(data.splits["test"].images)
        with torch.no_grad():
            mean, log_variance = net(images)
        assert member.draws.mean.shape[0] == 1
        np.testing.assert_allclose(member.draws.mean[0], mean.numpy(), rtol=1e-6)
        np.testing.assert_allclose(member.draws.variance[0], log_variance.exp().numpy(), rtol=1e-6)
        assert not member.prediction.epistemic.any()

    def test_groups_and_names_are_written(self, tmp_path):
        groups = tuple(f"patient {k // 4}" for k in range(40))
        data = hands(MONTHS, group=groups)
        cases = predict_split(network(), data, draws=3)
        write_split(cases, data.splits["test"], MONTHS, False, tmp_path / "d.npz")
        again = ts.read(tmp_path / "d.npz")
        assert tuple(again.group) == groups
        assert again.id[7] == "7.png"
        np.testing.assert_array_equal(again.draws.mean, cases.draws.mean)

    def test_cases_without_targets_are_predicted_and_not_scored(self, tmp_path):
        none = torch.full((40, 1), float("nan"))
        data = hands(MONTHS, target=none)
        draws = predict_split(network(), data, draws=3)
        assert isinstance(draws, ts.Draws)
        write_split(draws, data.splits["test"], MONTHS, False, tmp_path / "d.npz")
        assert isinstance(ts.read(tmp_path / "d.npz"), ts.Draws)
        with np.load(tmp_path / "d.npz") as kept:
            assert kept["id"][0] == "0.png"
            assert kept["unit"] == "months"
        some = torch.rand(40, 1)
        some[::2] = float("nan")
        for moments in (False, True):
            cases = predict_split(network(), hands(MONTHS, target=some), draws=3, moments=moments)
            whole = predict_split(
                network(), hands(MONTHS, target=some.nan_to_num(0.5)), draws=3, moments=moments
            )
            known = ~np.isnan(some.numpy()[:, 0])
            kept = whole[known]
            assert sigma.fit(cases.prediction, cases.target).factor == pytest.approx(
                sigma.fit(kept.prediction, kept.target).factor
            )

    def test_errors_say_what_there_is(self):
        with pytest.raises(ValueError, match="no split 'tests'; it has valid, test"):
            predict_split(network(), hands(MONTHS), "tests")

    def test_progress_counts_every_case(self):
        seen = []
        predict_split(network(), hands(MONTHS), draws=2, batch=16, progress=seen.append)
        assert seen == [16, 16, 8]


# Runs on files ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """So small networks are quicker so, and do not wait for each other where tests run in parallel."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of grey images with a table: the age is the brightness, in months."""
    root = tmp_path_factory.mktemp("ages")
    rng = np.random.default_rng(0)
    rows = ["image,target,split,group"]
    for k in range(36):
        level = rng.uniform(40, 200)
        pixels = np.clip(level + rng.normal(0, 20, (32, 32)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(root / f"{k:02d}.png")
        split = ("train", "valid", "test")[min(k // 16, 2)]
        rows.append(f"{k:02d}.png,{level + rng.normal(0, 5):.3f},{split},p{k}")
    (root / "table.csv").write_text("\n".join(rows) + "\n")
    return root


RECIPE = Recipe(epochs=2, batch=8, learning_rate=3e-3)


@pytest.fixture(scope="module")
def runs(folder, tmp_path_factory):
    """Two runs that differ in their seed."""
    out = tmp_path_factory.mktemp("runs")
    source = Source("table", str(folder), {"unit": "months"})
    for seed in (0, 1):
        train_run(source, out / str(seed), RECIPE, backbone="small", seed=seed, device="cpu")
    return out


@pytest.fixture
def run(runs):
    return open_runs([runs / "0"], device="cpu")[0]


def test_a_run_knows_its_data(run, folder):
    source = recorded(run.about)
    assert (source.dataset, source.root, dict(source.options)) == ("table", str(folder), {"unit": "months"})
    data = source.load()
    check_data(data, run.about)
    assert units_of(data).text == units_from(run.about).text == "months"
    assert run.draws == 25
    assert not run.volumes


def test_new_images_are_predicted_like_those_of_the_split(run, folder):
    source = recorded(run.about)
    data = source.load()
    files = [folder / name for name in data.splits["test"].name]
    read, draws = predict_images(run.net, files, intake(source, run.about), draws=5, batch=3, moments=False)
    cases = predict_split(run.net, data, "test", draws=5, batch=3, scaled=True)
    assert read == files
    np.testing.assert_array_equal(draws.mean, cases.draws.mean)
    np.testing.assert_array_equal(draws.variance, cases.draws.variance)
    _, moments = predict_images(run.net, files, intake(source, run.about), draws=5, batch=3)
    np.testing.assert_allclose(moments.location, cases.prediction.location, rtol=1e-5)


def test_new_images_need_no_training_data(run, folder, tmp_path):
    source = recorded(run.about, root=str(tmp_path / "gone"))
    read, found = predict_images(run.net, [folder / "00.png"], intake(source, run.about), draws=3)
    assert len(read) == len(found) == 1


def test_images_prepared_in_another_way_are_read_with_the_data(runs, folder, tmp_path, monkeypatch):
    """A data set with its own `prepare` is asked for it."""
    load = table.load

    def own(root, **options):
        data = load(root, **options)
        half = data.prepare
        return DataSet(
            data.name, data.splits, lambda x: half(x) * 0.5, data.augment, data.unit, data.offset, data.factor
        )

    own.__annotations__ = load.__annotations__
    monkeypatch.setattr(table, "load", own)
    source = Source("table", str(folder))
    record = source.record(source.load())
    assert record["prepare"] is None
    way = intake(source, {"record": record})
    stored = way.stored(folder / "00.png")[None]
    torch.testing.assert_close(way.prepare(stored), source.load().prepare(stored))


class TestBroken:
    @pytest.fixture
    def files(self, folder, tmp_path):
        (tmp_path / "cut.png").write_bytes((folder / "00.png").read_bytes()[:200])
        Image.new("L", (16, 16)).save(tmp_path / "small.png")
        Image.new("RGB", (32, 32)).save(tmp_path / "colour.png")
        np.save(tmp_path / "float.npy", np.zeros((32, 32), np.float32))
        bad = [tmp_path / name for name in ("cut.png", "small.png", "gone.png", "colour.png", "float.npy")]
        good = [folder / f"{k:02d}.png" for k in range(5)]
        return [file for pair in zip(good, bad) for file in pair]

    def test_all_broken_images_are_named_at_once(self, run, files):
        way = intake(recorded(run.about), run.about)
        with pytest.raises(BrokenFiles, match="5 of 10 images could not be read") as problem:
            predict_images(run.net, files, way, draws=2, batch=3)
        text = str(problem.value)
        for words in (
            "cut.png",
            "small.png (has shape (1, 16, 16)",
            "gone.png (no such file)",
            "colour.png",
            "float32",
        ):
            assert words in text
        assert "--skip-broken" in text

    def test_or_left_out(self, run, files):
        way = intake(recorded(run.about), run.about)
        read, found = predict_images(run.net, files, way, draws=2, batch=3, skip_broken=True)
        assert read == files[::2]
        assert len(found) == 5
        with pytest.raises(BrokenFiles, match="5 of 5"):
            predict_images(run.net, files[1::2], way, draws=2, skip_broken=True)


def test_list_images(tmp_path):
    for name in ("b.png", "a.JPG", ".hidden.png", "notes.txt", "c.nii.gz", "raw.npz"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "scan").mkdir()
    (tmp_path / "scan" / "1.dcm").write_bytes(b"x")
    names = [path.name for path in list_images([tmp_path])]
    assert names == ["a.JPG", "b.png", "c.nii.gz", "raw.npz"]
    assert [path.name for path in list_images([tmp_path], volumes=True)] == [*names, "scan"]
    assert list_images([tmp_path / "scan"], volumes=True) == [tmp_path / "scan"]
    assert list_images([tmp_path / "scan"]) == [tmp_path / "scan" / "1.dcm"]
    assert list_images([tmp_path / "z.png", tmp_path / "b.png"]) == [tmp_path / "z.png", tmp_path / "b.png"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no images"):
        list_images([tmp_path / "empty"])


class TestSources:
    def test_options_are_checked_before_anything_is_read(self):
        with pytest.raises(ValueError, match="no option 'sise'"):
            Source("table", "nowhere", {"sise": 3})
        with pytest.raises(ValueError, match="no datasets plug-in is called 'tabel'"):
            Source("tabel", "nowhere")

    def test_other_training_cases_are_refused(self, run, folder):
        """A test split of another division may hold what was trained on."""
        other = recorded(run.about, options={"split": "none", "group": "none"})
        with pytest.raises(ValueError, match="has no column"):
            other.load()
        text = (folder / "table.csv").read_text()
        swapped = text.replace("00.png", "xx.png").replace("35.png", "00.png").replace("xx.png", "35.png")
        (folder / "swapped.csv").write_text(swapped)
        data = recorded(run.about, options={"csv": "swapped.csv"}).load()
        with pytest.raises(ValueError, match="other cases than at training"):
            check_data(data, run.about)

    def test_another_unit_or_size_is_refused(self, run, folder):
        with pytest.raises(ValueError, match="another data set"):
            check_data(recorded(run.about, options={"unit": "years"}).load(), run.about)
        with pytest.raises(ValueError, match=r"images are now \(1, 16, 16\)"):
            check_data(recorded(run.about, options={"size": 16}).load(), run.about)

    def test_a_run_goes_on_with_the_same_data_only(self, runs, folder):
        kept = load_run(runs / "0")[1]["record"]
        check_resumed(runs / "0", kept)
        with pytest.raises(ValueError, match="options"):
            check_resumed(runs / "0", kept | {"options": {"size": 16}})
        with pytest.raises(ValueError, match="other training cases"):
            check_resumed(runs / "0", kept | {"train": names_hash(["a"])})
        source = Source("table", str(folder), {"unit": "months"})
        with pytest.raises(ValueError, match="variances = 'one', now 'each'"):
            train_run(source, runs / "0", RECIPE, backbone="small", variances="each", device="cpu")

    def test_a_run_without_a_record_says_so(self, run):
        with pytest.raises(ValueError, match=r"does not say how its data set is read.*record=Source"):
            recorded({**run.about, "record": {}})

    def test_a_data_set_that_reads_no_single_files_says_so(self, tmp_path):
        file = tmp_path / "mine.py"
        file.write_text("def load(root):\n    return None\n")
        with pytest.raises(ValueError, match=r"mine\.py has no read\(path"):
            intake(Source(str(file), "."), {"record": {"prepare": None}})


class TestCards:
    @pytest.fixture
    def scaled(self):
        rng = np.random.default_rng(1)
        v = rng.gamma(3.0, 0.003, (300, 3))
        y = rng.uniform(size=(300, 3))
        return ts.Cases(
            ts.Prediction(y + 2 * np.sqrt(v) * rng.normal(size=v.shape), v, 0.1 * v), y, unit="scaled"
        )

    @pytest.mark.parametrize("choice", ["sigma", "aux", "conformal"])
    def test_a_card_is_applied_where_it_was_fitted(self, scaled, choice):
        posed = ts.Cases(POSE.prediction(scaled.prediction), POSE.location(scaled.target), unit=POSE.text)
        by_scaled, by_unit = (calibrate(c, choice) for c in (scaled, posed))
        one = recalibrated(by_scaled, scaled.prediction, POSE)
        np.testing.assert_allclose(one.scale, POSE.prediction(by_scaled(scaled.prediction)).scale)
        two = recalibrated(by_unit, scaled.prediction, POSE)
        np.testing.assert_allclose(two.scale, by_unit(posed.prediction).scale)
        if choice == "sigma":
            np.testing.assert_allclose(one.scale, two.scale, rtol=1e-6)

    def test_other_units(self, scaled):
        card = calibrate(ts.Cases(scaled.prediction, scaled.target, unit="months"))
        with pytest.raises(ValueError, match="fitted on predictions in months, this network predicts in mm"):
            recalibrated(card, scaled.prediction, POSE)
        bare = calibrate(ts.Cases(scaled.prediction, scaled.target))
        with pytest.warns(UserWarning, match="does not say its unit"):
            recalibrated(bare, scaled.prediction, POSE)

    def test_recipes_that_take_draws_apart_differently_get_the_draws(self, scaled):
        assert not needs_draws(calibrate(scaled))
        assert not needs_draws(calibrate(scaled, recipe="paper"))
        assert needs_draws(calibrate(scaled, recipe="code"))

    @pytest.mark.parametrize("choice", ["none", "conformal"])
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
    def test_tables_of_new_images(self, scaled, choice, suffix, tmp_path):
        made = recalibrated(calibrate(scaled, choice), scaled.prediction, POSE)
        files = [Path(f"{k}.png") for k in range(300)]
        out = tmp_path / f"new.{suffix}"
        write_images(files, made, POSE, [0.5, 0.9], out)
        if suffix == "npz":
            with np.load(out) as kept:
                columns = {name: kept[name] for name in kept}
            upper = columns["upper_90"][:, 2]
        else:
            import pandas as pd

            frame = getattr(pd, f"read_{suffix}")(out)
            assert {"id", "location_0", "scale_1", "aleatoric_2", "epistemic_0", "lower_50_2"} <= set(frame)
            upper = frame["upper_90_2"]
            assert frame["id"][3] == "3.png"
        np.testing.assert_allclose(upper, made.interval(0.9).upper[:, 2], rtol=1e-6)
        if not (choice == "conformal" and suffix == "csv"):  # a .csv holds no table of a law
            again = ts.read(out)
            np.testing.assert_allclose(again.scale, made.scale, rtol=1e-6)

    def test_one_output_has_plain_columns_and_short_numbers(self, tmp_path):
        p = ts.Prediction(
            np.float32([[0.1], [0.2]]), np.float32([[0.04], [0.09]]), np.float32([[0.0], [0.0]])
        )
        write_images([Path("a/x.png"), Path("b/x.png")], p, MONTHS, [0.9], tmp_path / "new.csv")
        head, first, _ = (tmp_path / "new.csv").read_text().splitlines()
        assert head == "id,location,scale,aleatoric,epistemic,unit,lower_90,upper_90"
        assert first.startswith("a/x.png,0.1,0.2,0.04,0.0,months,-0.2289707")


class TestEnsembles:
    def test_members_join(self, runs):
        members = open_runs([runs / "0", runs / "1"], device="cpu")
        data = recorded(members[0].about).load()
        joined = predict_split([m.net for m in members], data, scaled=True)
        apart = [predict_split([m.net], data, scaled=True).draws for m in members]
        np.testing.assert_array_equal(joined.draws.mean, ts.Draws.concat(apart).mean)

    def test_members_of_other_data_are_refused(self, runs, folder, tmp_path):
        source = Source("table", str(folder), {"unit": "months", "size": 40})
        train_run(source, tmp_path / "other", Recipe(epochs=1, batch=8), backbone="small", device="cpu")
        with pytest.raises(
            ValueError, match=r"cannot be one ensemble: options is .* trained on the same data"
        ):
            open_runs([runs / "0", tmp_path / "other"], device="cpu")
        source = Source("table", str(folder), {"unit": "years"})
        train_run(source, tmp_path / "years", Recipe(epochs=1, batch=8), backbone="small", device="cpu")
        with pytest.raises(ValueError, match="cannot be one ensemble: unit"):
            open_runs([runs / "0", tmp_path / "years"], device="cpu")
        with pytest.raises(ValueError, match="no runs"):
            open_runs([])


def test_the_package_is_light_and_says_what_is_missing():
    code = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "timm", "lightning"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from truesigma import imaging
assert "train" in dir(imaging)
try:
    imaging.dropout_draws
except ModuleNotFoundError as missing:
    print(missing)
try:
    imaging.nothing
except AttributeError as missing:
    print(missing)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().splitlines()
    assert first == (
        "truesigma.imaging.dropout_draws needs torch, which is not installed: pip install 'truesigma[train]'"
    )
    assert second == "module 'truesigma.imaging' has no attribute 'nothing'"


def test_names_of_the_package_are_the_functions_also_after_their_files_are_loaded():
    code = """
from truesigma import imaging
import truesigma.imaging.train, truesigma.imaging.partition, truesigma.imaging.predict
for name in imaging.__all__:
    assert callable(getattr(imaging, name)), name
from truesigma.imaging import train, partition
assert train.__name__ == "train" and partition.__name__ == "partition"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
