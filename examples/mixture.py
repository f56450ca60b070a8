"""Likelihood fitting: the weights, means and widths of a mixture of three normal distributions, by gradient ascent
on the likelihood."""

from __future__ import annotations

import math

from run import options, prepared

import weft


def log_likelihood(x: weft.Tensor, weights: weft.Tensor, means: weft.Tensor, logs: weft.Tensor) -> weft.Tensor:
    """The mean log density of the samples; `weights` are logits and `logs` the logarithms of the widths."""
    distance = (x.unsqueeze(1) - means) / logs.exp()
    each = weights.log_softmax(0) - logs - 0.5 * distance.square() - 0.5 * math.log(2 * math.pi)
    return weft.logsumexp(each, 1).mean()


def main() -> None:
    given = options(__doc__, 600)
    samples = weft.cat([weft.randn(300) * 0.5 - 3, weft.randn(500), weft.randn(200) * 0.3 + 2.5])
    weights, means, logs = (
        weft.zeros(3, requires_grad=True), weft.tensor([-1.0, 0.0, 1.0], requires_grad=True),
        weft.zeros(3, requires_grad=True)
    )
    optimizer = weft.optim.Adam([weights, means, logs], lr=0.02)

    def step(x: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        loss = -log_likelihood(x, weights, means, logs)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = prepared(step, given)
    for i in range(given.steps):
        loss = run(samples[weft.randperm(1000)[: 200 + 10 * (i % 5)]])  # batches of any size: one program
        if i % 100 == 0 or i == given.steps - 1:
            print(f"step {i:4}  negative log likelihood {loss.item():.4f}")
    print("weights", [round(w, 2) for w in weights.detach().softmax(0).tolist()], "of [0.3, 0.5, 0.2]")
    print("means  ", [round(m, 2) for m in means.tolist()], "of [-3, 0, 2.5]")
    print("widths ", [round(w, 2) for w in logs.detach().exp().tolist()], "of [0.5, 1, 0.3]")


if __name__ == "__main__":
    main()
