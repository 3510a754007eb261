"""The conformance suite: what every target must do, tried on a real one. Made for pytest.

    class TestMine(TargetTests):
        @pytest.fixture
        def opening(self): return {"name": "t", "url": "mine://place/" + unique(), "options": {…}}
        @pytest.fixture
        def outside(self, opening): return MyOutside(…)

Where it can, the suite looks around the target with a client of its own (`Outside`): a target can't vouch for itself.
"""

from ckptstore.targets.testing.contents import ContentTests
from ckptstore.targets.testing.exclusive import ExclusiveTests
from ckptstore.targets.testing.names import ODD_PATHS, NameTests
from ckptstore.targets.testing.place import Outside, unique
from ckptstore.targets.testing.processes import ProcessTests

__all__ = ["ODD_PATHS", "Outside", "TargetTests", "unique"]


class TargetTests(ContentTests, ExclusiveTests, NameTests, ProcessTests):
    """Subclass it, give `opening` and `outside`; each test has an empty place of its own."""
