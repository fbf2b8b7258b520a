"""Patients say which cases belong together, groups what is looked at apart: in every value, file and command."""

import math

import numpy as np
import pytest

from truesigma import Cases, Prediction, Tally, calibrate, evaluate, read, report, write
from truesigma.core import plugins
from truesigma.evaluation.compare import compare, fold_of
from truesigma.evaluation.headline import lines
from truesigma.evaluation.inference.clustered import both_averages
from truesigma.evaluation.questions import QUESTIONS, questions
from truesigma.evaluation.replicates import Resampling, clusters_by


def made(seed=0, patients=40, each=6, outputs=0, group=True):
    """Cases of patients who share half of their error, at two sites and of two sexes; sigma is right."""
    rng = np.random.default_rng(seed)
    size = patients * each
    patient = np.repeat([f"p{k}" for k in range(patients)], each)
    shape = (size, outputs) if outputs else (size,)
    y = rng.normal(size=shape)
    own = np.repeat(rng.normal(size=(patients, *shape[1:])), each, axis=0)
    error = (own + rng.normal(size=shape)) / math.sqrt(2)
    site = np.where(np.arange(size) % (2 * each) < each, "A", "B")
    sex = np.repeat(rng.choice(["f", "m"], size=patients), each)
    groups = {"site": site, "sex": sex} if group else None
    return Cases(Prediction(y + error, aleatoric=np.ones(shape)), y, patient=patient, group=groups)


def error_by_cluster(cases, names):
    """The standard error of s from its equation, cluster by cluster, in a loop."""
    z2 = np.ravel((cases.target - cases.prediction.location) ** 2 / cases.prediction.total)
    names = np.repeat(names, z2.size // len(names))
    mean, count, total = z2.mean(), len(set(names)), 0.0
    for name in set(names):
        total += sum(z - mean for z in z2[names == name]) ** 2
    return math.sqrt(count / (count - 1) * total) / z2.size / (2 * math.sqrt(mean))


@pytest.mark.parametrize("outputs", [0, 3])
def test_a_standard_error_counts_patients(outputs):
    cases = made(outputs=outputs)
    fitted = calibrate(cases, "sigma").recalibration
    assert fitted.standard_error == pytest.approx(error_by_cluster(cases, cases.patient), rel=1e-12)
    alone = calibrate(Cases(cases.prediction, cases.target, group=cases.patient), "sigma").recalibration
    assert alone.standard_error == fitted.standard_error  # without patients, a group is in their place
    by_site = calibrate(Cases(cases.prediction, cases.target, group=cases.group), "sigma").recalibration
    each = error_by_cluster(cases, np.arange(len(cases)))
    assert by_site.standard_error == pytest.approx(each, rel=1e-10)  # two sites do not show how sites differ


def test_a_tally_keeps_patients_across_batches():
    cases = made(outputs=2, group=False)
    whole = calibrate(cases, "sigma").recalibration.to_dict()
    order = np.random.default_rng(1).permutation(len(cases))
    parts = [cases[some] for some in np.array_split(order, 5)]  # which divide patients
    tallies = [
        Tally.empty().add(p.prediction, p.target, patient=p.patient, group=["A"] * len(p)) for p in parts
    ]
    tally = tallies[0]
    for other in tallies[1:]:
        tally = other.merge(tally)
    found = calibrate(tally, "sigma").recalibration.to_dict()
    for key in set(whole) - {"name", "part"}:
        assert found[key] == pytest.approx(whole[key], rel=1e-12)
    with pytest.raises(ValueError, match="a patient in every add, or in none"):
        tally.add(cases.prediction, cases.target)


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
@pytest.mark.parametrize("group", [True, False])
def test_files_keep_patients_and_groups(tmp_path, ending, group):
    cases = made(patients=3, group=group)
    write(cases, tmp_path / f"cases.{ending}")
    again = read(tmp_path / f"cases.{ending}")
    assert again.patient.tolist() == cases.patient.tolist()
    assert {k: v.tolist() for k, v in again.groups.items()} == {
        k: v.tolist() for k, v in cases.groups.items()
    }
    some = again[again.patient == "p1"]
    assert set(some.patient) == {"p1"}
    assert all(len(names) == 6 for names in some.groups.values())


def test_what_clusters_are():
    cases = made()
    few = made(patients=4)
    only = Cases(few.prediction, few.target, group=few.groups["site"])
    assert [clusters_by(one) for one in (cases, few, only)] == ["patient", "patient", "case"]
    assert [clusters_by(one, "patient") for one in (cases, only)] == ["patient", "group"]
    assert [clusters_by(one, "group") for one in (cases, only)] == ["patient", "group"]  # its former name
    assert clusters_by(cases, "case") == "case"
    assert Resampling.of(cases).clusters == 40
    with pytest.raises(ValueError, match="give patient, or use by='case'"):
        clusters_by(Cases(few.prediction, few.target), "patient")
    with pytest.raises(ValueError, match="by is 'site'; expected 'case', 'patient', or 'auto'"):
        clusters_by(cases, "site")


def test_one_patient_proves_nothing():
    """Many images of a single patient, all too high, may be that patient's fault alone."""
    cases = made(patients=1, each=40, group=False)
    off = Prediction(cases.prediction.location + 3, aleatoric=cases.prediction.total)
    rows = questions(made(group=False), cases, {"none": (made(group=False).prediction, off)})
    assert {row["verdict"] for row in rows} == {"unclear"}
    rows = questions(made(group=False), cases, {"none": (made(group=False).prediction, off)}, by="case")
    assert "off" in {row["verdict"] for row in rows}


def test_questions_count_patients_inside_of_groups():
    """Sites are asked about, and the error of each counts its patients, not its images."""
    cases = made(patients=100, each=4)
    rows = questions(cases, cases, {"none": (cases.prediction, cases.prediction)})
    asked = {row["group"]: row for row in rows if row["question"] == "centre"}
    assert list(asked) == [None, "site A", "site B", "sex f", "sex m"]
    site = cases[cases.groups["site"] == "A"]
    alone = Cases(site.prediction, site.target, patient=site.patient)
    low, high = (
        questions(alone, alone, {"none": (alone.prediction,) * 2}, by=by)[1] for by in ("patient", "case")
    )
    wide, narrow = (row["high"] - row["low"] for row in (low, high))
    assert wide > 1.3 * narrow  # four images that share half of their error
    row = asked["site A"]
    assert row["estimate"] == pytest.approx(low["estimate"])
    assert row["high"] - row["low"] == pytest.approx(wide)  # of its own: the family is in the verdicts


def test_folds_and_guarantees_go_by_patient():
    cases = made()
    fold = fold_of(cases, folds=5)
    for name in set(cases.patient):
        assert len(set(fold[cases.patient == name])) == 1
    found = compare(cases, recalibrations=["sigma"], folds=5, replicates=50)
    assert (found.plan["by"], found.plan["units"]) == ("patient", 40)
    conformal = calibrate(cases, "conformal").recalibration
    direct = plugins.load("recalibrate", "conformal").fit(
        cases.prediction, cases.target, patient=cases.patient
    )
    assert conformal.to_dict() == direct.to_dict()
    repaired = calibrate(cases, "sigma_by_group").recalibration
    assert sorted(repaired.groups) == ["A", "B"]  # the first column is what is repaired


def test_wrong_names_are_refused():
    p = Prediction([1.0, 2.0], aleatoric=[1.0, 1.0])
    with pytest.raises(ValueError, match=r"group 'sex' .* one name for each of the 2"):
        Cases(p, [1.0, 2.0], group={"site": ["A", "B"], "sex": ["f"]})
    with pytest.raises(ValueError, match="group 'sex' is None"):
        Cases(p, [1.0, 2.0], group={"sex": None})
    with pytest.raises(ValueError, match="patient is empty in 1 of 2 cases"):
        Cases(p, [1.0, 2.0], patient=["A", None])
    assert Cases(p, [1.0, 2.0], group={}).group is None


def of_unequal_patients(seed, worse):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, size=60)
    patient = np.repeat(np.arange(60), sizes)
    spread = np.where(sizes[patient] > 20, worse, 1.0)
    z = spread * (rng.normal(size=60)[patient] + rng.normal(size=patient.size)) / math.sqrt(2)
    return Cases(Prediction(0 * z, aleatoric=0 * z + 1), z, patient=patient)


def test_both_averages_appear_where_they_differ():
    """An interval may hold a share of the cases, and another of a patient's, where those with many cases are worse."""
    shown = {1.0: 0, 2.0: 0}
    for worse in shown:
        for seed in range(100):
            cases = of_unequal_patients(seed, worse)
            held = np.abs(cases.target) < 1.6448536
            found = both_averages(*(np.bincount(cases.patient, each) for each in (0 * held + 1, held)))
            shown[worse] += found is not None
            if found is not None:
                each = [held[cases.patient == name].mean() for name in range(60)]
                assert found == pytest.approx((held.mean(), np.mean(each)), abs=1e-4)
    assert shown[1.0] <= 8
    assert shown[2.0] >= 80
    sets = of_unequal_patients(0, 2.0), of_unequal_patients(1, 2.0)
    found = evaluate(*sets, recalibrations=["none", "sigma"], metrics=["rmse"])
    words = lines(found.questions, "sigma", QUESTIONS)[-1]
    assert words.startswith("Whose average?")
    assert "of cases, and of a patient's cases on average: " in words
    cases = sets[1]
    wide = [np.abs(cases.target)[cases.patient == name].mean() for name in range(60)]
    made = report(*sets, recalibrations=["sigma"], replicates=20)
    row = made.tables["scores"]["score"].index("mae")
    assert made.tables["scores"]["none_of_patients"][row] == pytest.approx(np.mean(wide))
    assert f"of patients {np.mean(wide):.2f}"[:14] in made.page
