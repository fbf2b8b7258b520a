"""The networks: the same layers for every method, with the mean alone, with a variance, or with quantiles."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gaussian_nll_loss, mse_loss, softplus

WIDTH, BATCH, RATE, DECAY, STEPS = 64, 64, 2e-3, 0.02, 600
DROPOUT = 0.1
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
KINDS = {"mean": 1, "two": 2, "quantiles": len(PROBABILITIES)}


class Perceptron(nn.Module):
    """Two hidden layers; gives the mean (case, 1), mean and log-variance, or quantiles (case, quantile) in order."""

    def __init__(self, features: int, kind: str, dropout: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, WIDTH), nn.ReLU(), nn.Dropout(dropout), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Dropout(dropout),
        )  # fmt: skip
        self.last, self.kind = nn.Linear(WIDTH, KINDS[kind]), kind

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """(case, feature) -> what the kind says."""
        made = self.last(self.body(x))
        if self.kind == "two":
            return made[:, :1], made[:, 1:]
        if self.kind == "mean":
            return made
        median, gaps = made[:, :1], softplus(made[:, 1:])
        below, above = gaps[:, :2].cumsum(1).flip(1), gaps[:, 2:].cumsum(1)
        return torch.cat([median - below, median, median + above], 1)


def loss_of(made: Tensor | tuple[Tensor, Tensor], y: Tensor) -> Tensor:
    """Squared error of a mean, Gaussian likelihood of mean and variance, pinball loss of quantiles."""
    if isinstance(made, tuple):
        return gaussian_nll_loss(made[0], y, made[1].exp(), eps=1e-4)
    if made.shape[1] == 1:
        return mse_loss(made, y)
    apart, p = y - made, torch.tensor(PROBABILITIES)
    return torch.maximum(p * apart, (p - 1) * apart).mean()


class InUnit(nn.Module):
    """A network of standardised targets, in their own unit."""

    def __init__(self, inner: Perceptron, centre: float, spread: float) -> None:
        super().__init__()
        self.inner, self.centre, self.spread = inner, centre, spread
        if inner.kind == "mean":  # into the last layer, which sigmas look for
            with torch.no_grad():
                inner.last.weight *= spread
                inner.last.bias.mul_(spread).add_(centre)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """(case, feature) -> what the kind says."""
        made = self.inner(x)
        if isinstance(made, tuple):
            return self.centre + self.spread * made[0], made[1] + 2 * torch.log(torch.tensor(self.spread))
        return made if self.inner.kind == "mean" else self.centre + self.spread * made


def train(x: Tensor, y: Tensor, *, seed: int, kind: str = "mean", dropout: float = 0.0) -> InUnit:
    """Train on standardised targets, with AdamW and a cosine."""
    torch.manual_seed(seed)
    centre, spread = float(y.mean()), float(y.std())
    net = Perceptron(x.shape[1], kind, dropout)
    scaled = ((y - centre) / spread)[:, None]
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        rows = torch.randint(len(x), (min(BATCH, len(x)),))
        optimiser.zero_grad()
        loss_of(net(x[rows]), scaled[rows]).backward()
        optimiser.step()
        schedule.step()
    return InUnit(net, centre, spread).eval()
