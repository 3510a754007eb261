"""Train, be stopped at any moment, go on as if nothing had happened: python train.py store.toml 20"""

import sys

import torch
from torch import nn

import ckptstore
from ckptstore.state import ShuffledBatches, TrainState


class Noisy(torch.utils.data.Dataset):
    """Points, each with noise of its own that worker processes draw."""

    def __len__(self):
        return 50

    def __getitem__(self, index):
        x = torch.linspace(0, 1, 8) * index / 50 + 0.1 * torch.randn(8)
        return x, x.sum(0, keepdim=True)


def main(store, until):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    batches = ShuffledBatches(Noisy(), 8, num_workers=2)
    state = TrainState(model=model, optimizer=optimizer, scheduler=scheduler, loader=batches)

    run = ckptstore.open(store).run("resume")
    if run.checkpoints():
        run.load(state)
    while state.step < until:
        for x, y in batches:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            state.step += 1
            print(state.step, loss.item().hex(), flush=True)
            if state.step % 5 == 0:
                run.save(state)
            if state.step == until:
                break
    return state


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
