"""What is written is whole, has no NaN in it, and is known by its content."""

import errno
import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import truesigma as ts
from truesigma.files.disk import BadFile, json_text, read_json, write_atomically, write_json
from truesigma.files.store import write


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(part: Path) -> None:
        part.write_text("half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_names_the_file(tmp_path):
    def fill(part: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: .*a\.npz") as caught:
        write_atomically(tmp_path / "a.npz", fill)
    assert caught.value.errno == errno.ENOSPC


def test_writers_at_the_same_time_never_show_half_a_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    texts = ["a" * 20000, "b" * 30000]
    write_json(texts[0], path)
    threads = [threading.Thread(target=lambda t=t: [write_json(t, path) for _ in range(20)]) for t in texts]
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    for thread in threads:
        thread.start()
    seen = {path.read_text() for _ in range(200)}
    for thread in threads:
        thread.join()
    assert not failed
    assert seen <= {f'"{t}"\n' for t in texts}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_link_is_followed_and_rights_are_the_usual_ones(tmp_path):
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    write_json({"a": 1}, tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == '{\n "a": 1\n}\n'
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "real.json").stat().st_mode & 0o777 == 0o666 & ~umask


def test_json_never_holds_nan(tmp_path):
    value = {"a": np.float64("nan"), "b": [np.inf, 1], "c": np.arange(2), "d": np.float32(0.5), "e": None}
    assert (
        json_text(value).replace("\n", "").replace(" ", "")
        == '{"a":null,"b":[null,1],"c":[0,1],"d":0.5,"e":null}'
    )
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        json_text({"a": float("nan")}, strict=True)


def test_sound_json_that_another_program_wrote_is_read(tmp_path):
    """With a mark of its encoding, 1 for 1.0, and texts that look like hashes; a changed number is still noticed."""
    path, value = tmp_path / "a.json", {"count": 1.0, "mark": "ab" * 32, "odd": [0.5, 1e300, -2.0, True]}
    write_json(value, path, seal=True)
    text = path.read_text()
    path.write_text("\ufeff" + text.replace("1.0", "1").replace("-2.0", "-2"), encoding="utf-8")
    assert read_json(path) == value
    for damaged in (text.replace("0.5", "0.6"), text.replace("true", "false")):
        path.write_text(damaged)
        with pytest.raises(BadFile, match=r"a\.json is damaged"):
            read_json(path)
    path.write_text(json.dumps({"sha": "0" * 64, "n": 1}))  # never sealed
    assert read_json(path)["n"] == 1


def test_results_and_recalibrations_are_written_as_json(tmp_path):
    cases = ts.Cases(ts.Prediction([0.0, 1.0, 2.0], aleatoric=[1.0, 1.0, 2.0]), [0.5, 0.5, 3.5])
    result = ts.evaluate(cases, cases, recalibrations=["sigma"], metrics=["uce", "mse"])
    write(result, tmp_path / "result.json")
    stored = json.loads((tmp_path / "result.json").read_text())
    assert stored["recipe"] == "exact"
    assert stored["choices"]["uce"]["bins"] == 15
    assert [row["metric"] for row in stored["rows"]] == ["uce", "uce_draws", "mse"]
    assert stored["rows"][1]["value"] is None
    assert "split" in stored["rows"][1]["reason"]
    assert ts.load_recalibration(stored["recalibrations"]["sigma"]) == result.recalibrations["sigma"]
    with pytest.raises(ValueError, match=r"should end in \.json"):
        write(result, tmp_path / "result.csv")
