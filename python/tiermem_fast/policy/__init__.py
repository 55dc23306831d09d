"""The rules of memory, in Python and replaceable: what goes into a prompt, and what it costs.

Each room offers a small ``Protocol`` and the default that follows it. Calls the words and shapes of the floor below.
"""
