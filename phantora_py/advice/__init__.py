"""From runs to decisions: what a faster part is worth, what fits, which configuration to take."""
