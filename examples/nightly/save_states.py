"""A small model in training, saved at steps 10 and 20 into the store that CKPT_STORE names: something to drill with."""

import os

import torch

import ckptstore

STEPS, EVERY = 20, 10


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = ckptstore.open(os.environ["CKPT_STORE"]).run(os.environ.get("CKPT_RUN", "default"))
    for step in range(1, STEPS + 1):
        inputs = torch.randn(64, 512)
        loss = (model(inputs) - inputs.roll(1, dims=1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % EVERY == 0:
            run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, step=step)
            print(f"step {step}: loss {loss.item():.4f}, saved")


if __name__ == "__main__":
    main()
