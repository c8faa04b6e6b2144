"""Where checkpoints are kept: one module per place, behind the contract in `checkpoint.py`.

`files.py` takes and restores the files of a checkpoint; the other modules are shared by the keepers.
"""
