"""What runs had reached at steps 1, 2, 4, 8 and so on: the bands of clean runs are taken from it."""

import sqlite3
from typing import Final

_SUMS: Final = """
    SELECT total(tokens), total(cost_usd) FROM events WHERE run = ? AND seq >= ? AND seq < ?"""
_SCORE: Final = "SELECT score FROM scores WHERE run = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
_INSERT: Final = """
    INSERT INTO run_marks VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, step) DO UPDATE SET
        score = excluded.score, tokens = excluded.tokens, cost_usd = excluded.cost_usd"""


def write_marks(connection: sqlite3.Connection, run: int) -> None:
    """Store what an ended run had reached at each of these steps."""
    (last,) = connection.execute("SELECT max(seq) FROM events WHERE run = ?", (run,)).fetchone()
    rows: list[tuple[int, int, float | None, int, float]] = []
    tokens, cost_usd, before, step = 0, 0.0, 0, 1
    while last is not None and step <= last + 1:
        more_tokens, more_cost = connection.execute(_SUMS, (run, before, step)).fetchone()
        tokens, cost_usd = tokens + int(more_tokens), cost_usd + more_cost
        found = connection.execute(_SCORE, (run, step)).fetchone()
        rows.append((run, step, found and found[0], tokens, cost_usd))
        before, step = step, step * 2
    connection.executemany(_INSERT, rows)
