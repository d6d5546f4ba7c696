"""The sections of a report: what each computes, its JSON type, its lines on a terminal.

One module is one section. `summary.py` lists them for the JSON, the terminal and the page.
"""
