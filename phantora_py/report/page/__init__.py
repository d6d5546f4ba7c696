"""The report as one HTML page that needs nothing else: `phantora report FILE --html OUT.html`."""
