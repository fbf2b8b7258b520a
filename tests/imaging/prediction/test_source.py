"""A run knows its data, and goes on with no other."""

import pytest
from hand_images import RECIPE

from truesigma.imaging.data.fingerprint import names_hash
from truesigma.imaging.data.source import Source, intake, recorded
from truesigma.imaging.data.units import units_from
from truesigma.imaging.prediction.runs import check_data
from truesigma.imaging.training.folder import check_same, load_run
from truesigma.imaging.training.start import train_run


def test_a_run_knows_its_data(run, folder):
    source = recorded(run.about)
    assert (source.dataset, source.root, dict(source.options)) == ("table", str(folder), {"unit": "months"})
    data = source.load()
    check_data(data, run.about)
    assert data.units.text == units_from(run.about).text == "months"
    assert run.draws == 25
    assert not run.volumes


class TestSources:
    def test_other_training_cases_are_refused(self, run, folder):
        """A test split of another division may hold what was trained on."""
        other = recorded(run.about, options={"split": "none", "group": "none"})
        with pytest.raises(ValueError, match="has no column"):
            other.load()
        text = (folder / "table.csv").read_text()
        swapped = text.replace("00.png", "xx.png").replace("35.png", "00.png").replace("xx.png", "35.png")
        (folder / "swapped.csv").write_text(swapped)
        data = recorded(run.about, options={"csv": "swapped.csv"}).load()
        with pytest.raises(ValueError, match="other training cases"):
            check_data(data, run.about)

    def test_another_unit_or_size_is_refused(self, run, folder):
        with pytest.raises(ValueError, match="not the data that the run was trained on: unit"):
            check_data(recorded(run.about, options={"unit": "years"}).load(), run.about)
        with pytest.raises(ValueError, match=r"image is .*\[1, 16, 16\]"):
            check_data(recorded(run.about, options={"size": 16}).load(), run.about)

    def test_a_run_goes_on_with_the_same_data_only(self, runs, folder):
        about = load_run(runs / "0")[1]
        check_same(runs / "0", about)
        for part, change, message in (
            ("record", {"options": {"size": 16}}, "options = "),
            ("record", {"train": names_hash(["a"])}, "other training cases"),
            ("data", {"labels": {"train": names_hash(["a"])}}, "with other cases"),
            ("data", {"factor": [2.0]}, r"data\.factor = "),
        ):
            with pytest.raises(ValueError, match=message):
                check_same(runs / "0", about | {part: about[part] | change})
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
