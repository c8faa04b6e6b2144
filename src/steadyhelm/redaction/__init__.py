"""Replace secrets before anything is queued, stored, shown or sent.

The marker that replaces a secret names the rule that found it, never the secret. Rules follow constructs, not
single formats: a name and what is assigned to it (`assignments`), arguments of commands (`commands`), pairs,
fields and lists in data (`structures`), tokens with a known prefix and text that looks random (`tokens`),
credentials in addresses and keys in files (`plain_shapes`). What the rules know is in `patterns/*.toml`.
"""

from steadyhelm.redaction.ids import hide_tokens
from steadyhelm.redaction.redactor import Redactor

__all__ = ["Redactor", "hide_tokens"]
