"""Replace secrets before anything is queued, stored, shown or sent.

The marker that replaces a secret names the rule that found it, never the secret. Rules follow constructs,
not single formats: a name and what is assigned to it (`assignments`, with one value in `forms`, `unquoted`
and `defaults`, several in `groups`, and names beyond ASCII in `foreign_names`), arguments of commands
(`commands`), pairs, fields and lists in data (`structures`), tokens with a known prefix and text that looks
random (`tokens`), credentials in addresses and keys in files (`addresses`), other shapes (`plain_shapes`).
What the rules know is in `patterns/*.toml` and `command_rules.toml`.
"""

from steadyhelm.redaction.redactor import Redactor
from steadyhelm.redaction.tokens import hide_tokens

__all__ = ["Redactor", "hide_tokens"]
