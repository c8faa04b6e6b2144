"""Where runs, findings and incidents are kept: one module per database, behind the contract in `store.py`.

`sqlite.py` is the face of the SQLite store; each idea behind it has a file of its own, and each of those
takes a connection and knows nothing of threads or files.
"""
