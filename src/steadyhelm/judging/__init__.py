"""What is asked of a judge, when, and which answers count."""
