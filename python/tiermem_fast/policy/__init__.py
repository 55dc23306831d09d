"""The rules of memory, in Python and replaceable: what is kept, who may see it, what goes into a prompt.

Each room offers a small ``Protocol`` and the default that follows it. Calls the words and shapes of the floor below.
"""

from .access import Grant
from .policies import Policies

__all__ = ["Grant", "Policies"]
