"""A training step on a GPU as one captured CUDA graph: launched at once, not kernel by kernel."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .cuda_graph import capture

Step = Callable[[Tensor, Tensor], None]  # (images, target): updates the weights and the meter
WARM_UP = 3  # steps before the capture: libraries choose their kernels and the optimiser makes its state


def captured(
    step: Step,
    net: nn.Module,
    optimizer: Optimizer,
    images: Tensor,
    target: Tensor,
    reset: Callable[[], None],
) -> Step:
    """The same step as one CUDA graph, replayed on batches of the shape of this example.

    reset: sets the meter back, which counted the steps before the capture.

    At batch 16 the paper's networks wait for kernel launches most of the time; a graph launches once. The warm-up
    steps leave no trace: weights, buffers and optimiser state are restored. If the capture fails, the plain step is
    returned, with a warning.
    """
    image, label = images.clone(memory_format=torch.preserve_format), target.clone()
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    moments = {
        (p, key): v.clone() for p, s in optimizer.state.items() for key, v in s.items() if v is not None
    }
    tuned = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True  # shapes never change: let cuDNN time its kernels once
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step(image, label)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        # without gradients in place the capture makes its own, which every replay overwrites
        optimizer.zero_grad(set_to_none=True)
        _, again = capture(lambda: step(image, label))
    except RuntimeError as error:
        warnings.warn(
            f"the step could not be captured as a CUDA graph, so it runs plainly: {error}", stacklevel=2
        )
        optimizer.zero_grad(set_to_none=True)
        chosen = step
    else:

        def replay(images: Tensor, target: Tensor) -> None:
            image.copy_(images)
            label.copy_(target)
            again()

        chosen = replay
    finally:
        torch.backends.cudnn.benchmark = tuned
    torch.cuda.synchronize()
    with torch.no_grad():
        for name, value in net.state_dict().items():
            value.copy_(weights[name])
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    saved = moments.get((parameter, key))
                    value.zero_() if saved is None else value.copy_(saved)
    reset()
    return chosen
