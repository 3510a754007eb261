"""What jobs are made of in tests of their state."""


class Order:
    """A loader of the simplest kind: a position."""

    def __init__(self):
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]
