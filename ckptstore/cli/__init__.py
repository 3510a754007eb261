"""The `ckpt` command line: one file a command.

`app` collects the commands, `entry` runs them and turns whatever is raised into a message, a next command and an
exit code, `call` is what every command shares: its store, its run, and where its output goes. Nothing here imports
torch, and nothing heavy is imported before a command needs it: `ckpt --help` answers in a blink.
"""

__all__ = ["main"]


def main() -> int:
    """Run the command line of this process and return its exit code."""
    from ckptstore.cli.stopping import leave, stop_on_signals
    from ckptstore.cli.streams import hold_descriptors

    hold_descriptors()
    stop_on_signals()
    return leave(_run)


def _run() -> int:
    import sys

    from ckptstore.cli.entry import run

    return run(sys.argv[1:])
