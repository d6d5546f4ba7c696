"""The timeline as the page's script reads it: columns as base64 of little-endian integers."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from phantora_py.report.timeline import Timeline

_MOST = (1 << 32) - 1


def timeline_data(timeline: Timeline) -> dict[str, Any]:
    """What `assets/timeline_data.js` decodes. Times are in units of `unit_ns`, to fit 32 bits."""
    length_ns = timeline.window.end_ns - timeline.window.begin_ns
    unit_ns = max(1, -(-length_ns // _MOST))
    return {
        "length_ns": length_ns,
        "unit_ns": unit_ns,
        "names": [[int(name.category), name.text, name.note] for name in timeline.names],
        "columns": [
            {
                "starts": _base64(columns.starts_ns // unit_ns),
                "durations": _base64((columns.ends_ns - columns.starts_ns) // unit_ns),
                "names": _base64(columns.names),
            }
            for columns in timeline.columns
        ],
        "path": timeline.path.columns,
        "tracks": [
            [[track.label, track.columns] for track in tracks] for tracks in timeline.tracks
        ],
    }


def _base64(values: npt.NDArray[np.int64]) -> str:
    return base64.b64encode(values.astype("<u4").tobytes()).decode()
