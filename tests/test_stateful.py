"""The same operations on a store and on a naive model: after each, both say the same.

``HYPOTHESIS_PROFILE=explore`` looks for new cases.
"""

import os

from hypothesis import settings

from stateful import Machine

TestMachine = Machine.TestCase
if "HYPOTHESIS_PROFILE" not in os.environ:
    TestMachine.settings = settings(max_examples=60, stateful_step_count=40)
