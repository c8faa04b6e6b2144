"""The journal: every record is in a file beside the database until it is stored, so that no crash loses it.

One file per writer, `<database>.<token>.pending`, that only its owner can read: a header, then frames.
`frames` turns records into bytes and back, `files` is the writer's side, `abandoned` reads what dead writers
left behind.
"""
