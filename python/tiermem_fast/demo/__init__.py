"""A real conversation replayed through the four tiers: what is kept, what becomes knowledge, what is let go.

Calls the package as any user does. :mod:`.conversation` reads, :mod:`.rules` judges, :mod:`.replay` replays and
reports; nothing here prints.
"""
