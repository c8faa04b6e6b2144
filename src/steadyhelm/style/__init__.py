"""How an agent speaks: a score for one reply, profiles to score it by, and where scores are going."""
