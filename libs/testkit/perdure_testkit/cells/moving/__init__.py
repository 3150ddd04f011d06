"""The protocol by which an org moves from one cell to another, as a model that can be played.

    problem = play(Case(seed=7, stops=frozenset({3})))

Each action changes rows of one database, as one transaction would, and finds out from rows alone
whether it may: whoever moves the org can die after any action, and another goes on from there.
`docs/architecture/scale.md` has the steps in words.
"""

from perdure_testkit.cells.moving.play import Case, play

__all__ = ["Case", "play"]
