"""The judges that come with Steadyhelm: models behind a client of the user's own, or any function."""
