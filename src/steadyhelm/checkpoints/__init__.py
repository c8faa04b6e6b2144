"""Where checkpoints are kept: one module per place, behind the contract in `checkpoint.py`.

`files.py` takes and restores the files that go into one; what the keepers share stands beside them.
"""
