"""Clients of model APIs, watched in place: OpenAI, whatever speaks as it does, and Anthropic."""
