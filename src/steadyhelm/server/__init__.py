"""The server behind `steadyhelm serve`: a JSON API, a live stream and the page, over one store."""
