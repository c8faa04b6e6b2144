"""Read what the pages show: one module a page, each function one answer.

Every query is bounded: by a page, by the latest runs, or by the steps of one run.
"""
