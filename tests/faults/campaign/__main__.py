"""`python -m tests.faults.campaign SEED …`: run injections again, one by one."""

import sys

from tests.faults.campaign.campaign import run

for seed in map(int, sys.argv[1:]):
    sys.stdout.write(f"{run(seed)}\n")
