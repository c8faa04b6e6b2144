"""Present a scanned run: in words, as HTML, as JUnit, as GitHub annotations."""
