"""What tensors are called in a recording."""

import contextlib
import sqlite3


def names_in(run_gpumem, log):
    """(kind, name, address of the block, offset, bytes) of all blocks that were ever there."""
    database = log.with_suffix(".db")
    run_gpumem("export", log, "--to", "sqlite", "-o", database).check()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT kind, name, address, offset, bytes FROM name JOIN block ON block.id = name.block")
        return sorted(map(tuple, rows))
