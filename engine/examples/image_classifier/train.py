#!/usr/bin/env python3
"""Trains the image classifier and writes model.safetensors and samples.safetensors beside it.

The pictures are scikit-learn's copy of the UCI digits (Alpaydin and Kaynak 1998): 1797 of 8 by 8
pixels. A fifth is held out; some of it goes into samples.safetensors with the logits that PyTorch gives.

    pip install torch scikit-learn safetensors numpy
    python train.py
"""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

HERE = Path(__file__).parent
WIDTHS = [16, 32]
BLOCKS = 2
SAMPLES = 50


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, WIDTHS[0], 3, padding=1)
        self.norm = nn.BatchNorm2d(WIDTHS[0])

    def forward(self, x):
        return functional.relu(self.norm(self.conv(x)))


class Head(nn.Linear):
    def __init__(self):
        super().__init__(WIDTHS[1], 10)
        self.norm = nn.LayerNorm(WIDTHS[1], eps=1e-6)

    def forward(self, x):
        return super().forward(self.norm(x.mean((2, 3))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Stem()
        self.stages = nn.ModuleList(nn.Sequential(*(Block(w) for _ in range(BLOCKS))) for w in WIDTHS)
        self.widen = nn.Conv2d(*WIDTHS, 1)
        self.head = Head()

    def forward(self, x):
        x = self.stages[0](self.stem(x))
        x = self.widen(functional.max_pool2d(x, 3, stride=2, padding=1))
        return self.head(self.stages[1](x))


def shifted(images, generator):
    """Pictures moved by up to one pixel, so that there are more of them."""
    padded = functional.pad(images, (1, 1, 1, 1))
    y, x = torch.randint(0, 3, (2,), generator=generator).tolist()
    return padded[:, :, y : y + 8, x : x + 8]


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    digits = load_digits()
    order = np.random.default_rng(7).permutation(len(digits.target))
    images = torch.tensor(digits.images[order] / 16.0, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target[order])
    held = len(labels) // 5
    model = Classifier()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    epochs, batch = 30, 64
    steps = epochs * ((len(labels) - held) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, total_steps=steps)
    generator = torch.Generator().manual_seed(7)
    for _ in range(epochs):
        picks = held + torch.randperm(len(labels) - held, generator=generator)
        for at in range(0, len(picks) - batch + 1, batch):
            chosen = picks[at : at + batch]
            loss = functional.cross_entropy(
                model(shifted(images[chosen], generator)), labels[chosen], label_smoothing=0.05
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        logits = model(images[:held])
    right = (logits.argmax(1) == labels[:held]).float().mean().item()
    print(f"{right:.1%} of {held} held-out pictures; loss {loss.item():.3f}")
    weights = {n: t.contiguous() for n, t in model.state_dict().items() if t.is_floating_point()}
    save_file(weights, HERE / "model.safetensors")
    samples = {"images": images[:SAMPLES], "logits": logits[:SAMPLES], "labels": labels[:SAMPLES].float()}
    save_file({n: t.contiguous() for n, t in samples.items()}, HERE / "samples.safetensors")


if __name__ == "__main__":
    main()
