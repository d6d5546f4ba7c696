"""The sections of a report: what each computes, its JSON type, its lines on a terminal, its part of
the page.

One module is one section; it may lack any of these. `SECTIONS` in `summary.py` lists them.
"""
