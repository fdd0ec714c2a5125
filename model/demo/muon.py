"""The Muon optimizer (Jordan et al., 2024) for the matrices of a model."""

import torch


def orthogonal(gradient, iterations=5):
    """Return the matrix of a momentum with all its singular values near 1.

    Newton-Schulz iteration with the quintic coefficients of Muon.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = gradient / (gradient.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.t()
    for _ in range(iterations):
        square = x @ x.t()
        x = a * x + (b * square + c * square @ square) @ x
    return x.t() if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum whose step is made orthogonal."""

    def __init__(self, weights, lr=0.02, momentum=0.95):
        super().__init__(weights, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["momentum"] = torch.zeros_like(weight)
                average = state["momentum"]
                average.lerp_(weight.grad, 1 - group["momentum"])
                ahead = weight.grad.lerp(average, group["momentum"])
                scale = max(1, weight.shape[0] / weight.shape[1]) ** 0.5
                weight.add_(orthogonal(ahead), alpha=-group["lr"] * scale)
