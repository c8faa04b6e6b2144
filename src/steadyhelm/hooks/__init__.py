"""Watch coding agents from their own hooks: a short-lived client, a resident helper, an installer."""
