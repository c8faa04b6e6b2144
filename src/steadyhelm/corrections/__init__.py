"""What a user's next message says about the work before it, and what can be foreseen of it."""
