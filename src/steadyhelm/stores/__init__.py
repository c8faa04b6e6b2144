"""Where runs, findings and incidents are stored: one module per database, behind the roles in `store.py`.

Each role is one class over `StorePart`, which holds the connections and the cached row ids; `SQLiteStore`
inherits them all. Another database brings its own connections and its own upkeep, and uses the other roles.
"""
