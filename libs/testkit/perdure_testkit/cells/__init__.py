"""Cells: installations side by side, each a PostgreSQL, a Valkey and the six services.

A model, not the engine: how many cells a load needs, what the busiest one carries and what one that
fails takes along (`python -m perdure_testkit.cells`), and the protocol by which an org moves
(`perdure_testkit.cells.moving`). `docs/architecture/scale.md` says what follows from it.
"""
