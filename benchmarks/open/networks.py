"""The networks: the same layers for every method, with the mean alone or with a variance, with dropout or without."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gaussian_nll_loss, mse_loss

WIDTH, BATCH, RATE, DECAY, STEPS = 64, 64, 2e-3, 0.02, 1500
DROPOUT = 0.1


class Perceptron(nn.Module):
    """Two hidden layers; one output, or a mean and a log-variance."""

    def __init__(self, features: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, WIDTH), nn.ReLU(), nn.Dropout(dropout), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Dropout(dropout),
        )  # fmt: skip
        self.last = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """(case, feature) -> the mean (case, 1), or mean and log-variance."""
        made = self.last(self.body(x))
        if made.shape[1] == 1:
            return made
        return made[:, :1], made[:, 1:]


def train(x: Tensor, y: Tensor, *, seed: int, two: bool = False, dropout: float = 0.0) -> Perceptron:
    """Train on standardised targets with AdamW and a cosine; then put the scale into the last layer."""
    torch.manual_seed(seed)
    centre, spread = float(y.mean()), float(y.std())
    net = Perceptron(x.shape[1], 2 if two else 1, dropout)
    scaled = ((y - centre) / spread)[:, None]
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        rows = torch.randint(len(x), (min(BATCH, len(x)),))
        made = net(x[rows])
        if isinstance(made, tuple):
            loss = gaussian_nll_loss(made[0], scaled[rows], made[1].exp(), eps=1e-4)
        else:
            loss = mse_loss(made, scaled[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        net.last.weight[0] *= spread
        net.last.bias[0] = net.last.bias[0] * spread + centre
        if two:
            net.last.bias[1] += 2 * torch.log(torch.tensor(spread))
    return net.eval()
