"""What a backbone starts from: published weights on this machine or out of reach, a file, random numbers."""

import pytest
from project_files import asked

from truesigma.project.project import read_project


def test_published_weights_on_this_machine_are_used(place, run, monkeypatch, tmp_path_factory):
    """As they lie in the cache of timm; a file that is given comes before them."""
    constants = pytest.importorskip("huggingface_hub.constants")
    hub = tmp_path_factory.mktemp("hub")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub))
    more = "--set network.backbone=timm:resnet10t --set train.epochs=1 --device cpu --force"
    words = [*asked(), *more.split()]
    code, out, _ = run("init", *words)
    assert code == 0
    assert "from random weights (pretrained: they are not on this machine; true fetches them)" in out
    assert not read_project(place / "recipe.toml").network.pretrained
    model = hub / "models--timm--resnet10t.c3_in1k"
    for file, text in (("refs/main", "0a1b"), ("snapshots/0a1b/model.safetensors", "weights")):
        (model / file).parent.mkdir(parents=True)
        (model / file).write_text(text)
    code, out, _ = run("init", *words)
    assert code == 0
    assert "from its published weights (pretrained: they are on this machine)" in out
    assert read_project(place / "recipe.toml").network.pretrained
    (place / "mine.safetensors").write_bytes(b"x")
    code, out, _ = run("init", *words, "--set", "network.weights=mine.safetensors")
    assert code == 0
    assert "gaussian, from mine.safetensors" in out
    network = read_project(place / "recipe.toml").network
    assert (network.pretrained, network.weights) == (False, "mine.safetensors")
    code, _, err = run("run", "--dry-run", "--device", "cpu")
    assert code != 0
    assert "mine.safetensors" in err
    code, _, err = run("init", *words, "--set", "network.weights=none.safetensors")
    assert code != 0
    assert "there is no file none.safetensors; expected weights to start from" in err
