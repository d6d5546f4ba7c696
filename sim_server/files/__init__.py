"""Files of ours and of the user: read with limits, checked, written whole."""
