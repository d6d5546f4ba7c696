"""`phantora profile`: fills a timing cache with measurements of one real GPU."""
