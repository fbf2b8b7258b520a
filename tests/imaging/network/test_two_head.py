"""The two-head network: shapes, dropout, precision, weights, and its description."""

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from truesigma.imaging.network.losses import faithful
from truesigma.imaging.network.two_head import NEAR_ZERO, Standardise, TwoHead, build, rebuild, rooted
from truesigma.imaging.network.weights import load_weights
from truesigma.imaging.recipe import TrainingRecipe, load_recipe

RECIPE = TrainingRecipe()


def images(cases: int = 4, channels: int = 1, side: int = 32) -> torch.Tensor:
    return torch.rand(cases, channels, side, side, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("heads", ["linear", "deep"])
@pytest.mark.parametrize(("variances", "width"), [("one", 1), ("each", 3)])
def test_shapes_of_the_heads(heads: str, variances: str, width: int) -> None:
    net = build("small", 2, 3, TrainingRecipe(heads=heads), variances=variances)
    mean, log_variance = net(images(channels=2))
    assert mean.shape == (4, 3)
    assert log_variance.shape == (4, width)


def test_deep_heads_are_two_layers_with_leaky_relu_after_relu() -> None:
    net = build("small", 1, 2, TrainingRecipe(heads="deep")).eval()
    x = images()
    with torch.no_grad():
        features = torch.relu(net.backbone(x)[:, : -net.signs])
        first, second = net.mean[0], net.mean[2]
        hidden = features @ first.weight.T + first.bias
        expected = torch.where(hidden > 0, hidden, 0.01 * hidden) @ second.weight.T + second.bias
        torch.testing.assert_close(net(x)[0], expected)


def test_first_variance_is_that_of_an_even_spread() -> None:
    net = build("small", 1, 1, RECIPE, seed=0).eval()
    variance = net(images(16))[1].exp()
    torch.testing.assert_close(variance, torch.full_like(variance, 1 / 12), rtol=0.05, atol=0)


def test_standardised_features_are_those_of_batch_norm() -> None:
    """In evaluation, after the same batches; a batch of one is no trouble, and features never seen say nothing."""
    generator = torch.Generator().manual_seed(0)
    batches = 3 + 2 * torch.randn(400, 8, 5, generator=generator)
    ours, known = Standardise(5), nn.BatchNorm1d(5, affine=False)
    for batch in batches:
        ours(batch), known(batch)
    ours.eval(), known.eval()
    new = torch.randn(20, 5, generator=generator)
    torch.testing.assert_close(ours(new), known(new), rtol=0.1, atol=0.1)
    alone = Standardise(5)
    for case in batches.flatten(0, 1)[:, None]:
        assert alone(case).abs().max() <= 3.001
    torch.testing.assert_close(alone.mean, batches.mean((0, 1)), rtol=0.5, atol=0)


def test_features_far_from_0_are_standardised() -> None:
    """As they are in double precision, whatever the batches: squares in single precision would lose their sd."""
    x = 4000 + 0.1 * torch.randn(96, 3, generator=torch.Generator().manual_seed(0))
    for sizes in ([96], [32, 32, 32], [1, 90, 5]):
        net = Standardise(3, rate=0.0)  # all batches count equally
        for batch in x.split(sizes):
            net(batch)
        parts = [part.double() for part in x.split(sizes)]
        mean = torch.stack([part.mean(0) for part in parts]).mean(0)
        variance = torch.stack([part.square().mean(0) for part in parts]).mean(0) - mean**2
        found = net.eval()(x).double()
        torch.testing.assert_close(found, (x.double() - mean) / variance.sqrt(), rtol=0.02, atol=0.02)


def test_dropout_before_the_heads_is_the_recipes() -> None:
    recipe = load_recipe("paper")
    assert build("small", 1, 1, recipe).dropout.p == 0.2
    assert build("small", 1, 1, load_recipe("code")).dropout.p == 0.5
    probabilities = [
        m.p for m in build("small", 1, 1, recipe).backbone.modules() if isinstance(m, nn.Dropout)
    ]
    assert probabilities == [0.5] * 4
    net = build("small", 1, 1, recipe, seed=0)
    x = images()
    net.eval()
    torch.testing.assert_close(net(x)[0], net(x)[0], rtol=0, atol=0)
    net.train()
    assert not torch.equal(net(x)[0], net(x)[0])


def test_heads_stay_float32_under_autocast() -> None:
    net = build("small", 1, 2, RECIPE, seed=0).eval()
    with torch.autocast("cpu", torch.bfloat16):
        mean, log_variance = net(images())
    assert mean.dtype == log_variance.dtype == torch.float32
    torch.testing.assert_close(mean, net(images())[0], rtol=0.05, atol=0.05)
    # values that bfloat16 could not hold
    assert not torch.equal(mean, mean.bfloat16().float())


def test_rebuild_gives_the_same_network() -> None:
    net = build("timm:resnet18", 1, 2, load_recipe("code"), variances="each")
    again = rebuild(net.plan)
    assert {n: v.shape for n, v in net.state_dict().items()} == {
        n: v.shape for n, v in again.state_dict().items()
    }
    assert again.dropout.p == net.dropout.p


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backbone": "resnet999"}, "small"),
        ({"backbone": "resnet34"}, "timm:NAME for any network of timm"),
        ({"backbone": "small:depth=3"}, "no option 'depth'"),
        ({"backbone": "timm:resnet1O1"}, "resnet101"),
        ({"backbone": "./nowhere.py"}, "nowhere.py"),
        ({"channels": 0}, "channels"),
        ({"outputs": 0}, "outputs"),
        ({"variances": "two"}, "variances"),
        ({"pretrained": True}, "pretrained"),
        ({"pretrained": True, "weights": "a.safetensors"}, "choose one"),
    ],
)
def test_bad_choices_say_what_is_expected(change: dict, message: str) -> None:
    arguments = {"backbone": "small", "channels": 1, "outputs": 1, "recipe": RECIPE} | change
    with pytest.raises(ValueError, match=message):
        build(**arguments)


def test_pretrained_offline_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import timm

    def unreachable(*arguments: object, **options: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(ValueError, match=r"network\.weights"):
        build("resnet101", 3, 1, RECIPE, pretrained=True)


def test_options_of_a_backbone_follow_its_name_and_go_before_the_recipes() -> None:
    net = build(
        "small:stage_dropout=0.37", 1, 1, load_recipe("paper", head_dropout={"small": 0.1, "other": 0.9})
    )
    rates = [module.p for module in net.modules() if isinstance(module, nn.Dropout)]
    assert rates == [0.37] * 4 + [0.1]
    again = [module.p for module in rebuild(net.plan).modules() if isinstance(module, nn.Dropout)]
    assert again == rates
    assert build("any_timm:model=resnet10t", 2, 1, RECIPE)(images(channels=2))[0].shape == (4, 1)


class TestWeights:
    def test_whole_network_and_backbone_alone(self, tmp_path: Path) -> None:
        source = build("small", 1, 2, RECIPE, seed=0)
        save_file(source.state_dict(), tmp_path / "whole.safetensors")
        torch.save(source.backbone.state_dict(), tmp_path / "backbone.pt")
        whole = build("small", 1, 2, RECIPE, seed=1, weights=tmp_path / "whole.safetensors")
        assert all(torch.equal(whole.state_dict()[n], v) for n, v in source.state_dict().items())
        part = build("small", 1, 5, RECIPE, seed=1, weights=tmp_path / "backbone.pt")
        assert all(
            torch.equal(part.backbone.state_dict()[n], v) for n, v in source.backbone.state_dict().items()
        )

    def test_a_timm_file_with_its_classifier_and_other_channels(self, tmp_path: Path) -> None:
        import timm

        published = timm.create_model("resnet18", pretrained=False, num_classes=10)
        torch.save(
            {"state_dict": {f"module.{n}": v for n, v in published.state_dict().items()}}, tmp_path / "r.pth"
        )
        net = build("timm:resnet18", 1, 2, RECIPE, weights=tmp_path / "r.pth").eval()
        published.eval()
        grey = images(2, side=64)
        with torch.no_grad():
            expected = published.forward_head(
                published.forward_features(grey.expand(-1, 3, -1, -1)), pre_logits=True
            )
            torch.testing.assert_close(net.backbone(grey), expected, rtol=1e-4, atol=1e-4)

    def test_files_that_do_not_fit_are_named(self, tmp_path: Path) -> None:
        net = build("small", 1, 2, RECIPE)
        with pytest.raises(ValueError, match="no file"):
            load_weights(net, tmp_path / "absent.safetensors")
        (tmp_path / "text.safetensors").write_text("no tensors here, only a sentence")
        with pytest.raises(ValueError, match="not a safetensors"):
            load_weights(net, tmp_path / "text.safetensors")
        save_file({"backbone.0.weight": torch.zeros(16, 1, 3, 3)}, tmp_path / "few.safetensors")
        with pytest.raises(ValueError, match="lacks"):
            load_weights(net, tmp_path / "few.safetensors")
        save_file(build("timm:resnet18", 1, 2, RECIPE).state_dict(), tmp_path / "other.safetensors")
        with pytest.raises(ValueError, match="weight of this network"):
            load_weights(net, tmp_path / "other.safetensors")
        save_file(build("small", 1, 3, RECIPE).state_dict(), tmp_path / "outputs.safetensors")
        with pytest.raises(ValueError, match="shape"):
            load_weights(net, tmp_path / "outputs.safetensors")

    def test_a_file_with_code_in_it_is_refused(self, tmp_path: Path) -> None:
        torch.save({"state_dict": nn.Linear(1, 1)}, tmp_path / "module.pt")
        with pytest.raises(ValueError, match="plain tensors"):
            load_weights(build("small", 1, 1, RECIPE), tmp_path / "module.pt")


class TestRecipe:
    def test_numbers_of_the_paper(self) -> None:
        paper, code = load_recipe("paper"), load_recipe("code")
        assert (paper.epochs, paper.batch, paper.optimizer, paper.learning_rate) == (500, 16, "adam", 3e-4)
        assert (paper.weight_decay, paper.patience, paper.factor, paper.stage_dropout) == (1e-7, 20, 0.1, 0.5)
        assert dict(paper.head_dropout) == {
            "resnet101": 0.5,
            "densenet201": 0.2,
            "efficientnet_b4": 0.4,
            "other": 0.2,
        }
        assert (code.optimizer, code.momentum, code.heads, code.watch) == ("sgd", 0.9, "deep", "train_loss")

    def test_a_file_of_ones_own_and_overrides(self, tmp_path: Path) -> None:
        (tmp_path / "mine.toml").write_text(
            "[train]\nepochs = 3\n[network]\nheads = 'deep'\n[uce]\nbins = 9\n"
        )
        recipe = load_recipe(tmp_path / "mine.toml", batch=8)
        assert (recipe.name, recipe.epochs, recipe.heads, recipe.batch) == ("mine", 3, "deep", 8)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("epochs", 0), ("epochs", 1.5), ("batch", True), ("learning_rate", -1.0), ("factor", 2.0),
            ("optimizer", "adagrad"), ("watch", "test_mse"), ("keep", "test_loss"), ("heads", "wide"),
            ("stage_dropout", float("nan")), ("head_dropout", {"resnet101": 0.5}), ("head_dropout", {"other": 2}),
        ],
    )  # fmt: skip
    def test_bad_values_are_named(self, key: str, value: object) -> None:
        with pytest.raises(ValueError, match=key):
            load_recipe("exact", **{key: value})


def test_roots_are_learned_and_means_come_out():
    """Loss, mean and variance are those of a network for square roots, by a loop from its own formulas."""
    torch.manual_seed(0)
    net = TwoHead(nn.Flatten(), 4, 1, dropout=0.0, link="root", detached=True)
    images, target = torch.rand(5, 1, 2, 2), torch.rand(5, 1)
    root, log_variance = net.mean(images.flatten(1)), net.log_variance(images.flatten(1))
    mean, second = net(images)
    for k in range(5):
        r = root[k].item()
        assert mean[k].item() == pytest.approx(r * r, rel=1e-5)
        assert second[k].item() == pytest.approx(
            log_variance[k].item() + math.log(4 * (r * r + NEAR_ZERO)), abs=1e-5
        )
    mine = faithful(root.abs(), log_variance, target.sqrt())
    assert torch.allclose(faithful(*rooted(mean, second, target)), mine, atol=1e-3)
    slopes = [
        torch.autograd.grad(one.mean(), net.mean.weight)[0]
        for one in (mine, faithful(*rooted(mean, second, target)))
    ]
    assert torch.allclose(*slopes, atol=1e-4)
    again = rebuild(build("small", 1, 1, TrainingRecipe(), link="root", seed=0).plan)
    assert again.link == "root"
