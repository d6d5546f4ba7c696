// The timeline's data: decodes the columns, finds spans by time and by name.
"use strict";

const CATEGORIES = ["compute", "communication", "waiting", "copies", "host"];

function decodeColumn(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Uint32Array(bytes.buffer);
}

// Times in ns, as Float64Array: exact up to 2^53 ns.
function decodeColumns(encoded, unit) {
  const names = decodeColumn(encoded.names);
  const starts = Float64Array.from(decodeColumn(encoded.starts), (value) => value * unit);
  const ends = Float64Array.from(decodeColumn(encoded.durations), (value, i) => starts[i] + value * unit);
  // The latest end so far: spans of one launch may overlap, and then ends are in no order.
  const reach = ends.slice();
  for (let i = 1; i < reach.length; i++) reach[i] = Math.max(reach[i], reach[i - 1]);
  return { names, starts, ends, reach };
}

function decodeTimeline(data) {
  const columns = data.columns.map((one) => decodeColumns(one, data.unit_ns));
  const ranks = data.tracks.map((tracks, rank) => ({
    rank,
    tracks: tracks.map(([label, index]) => ({ label, index, columns: columns[index] })),
  }));
  const names = data.names.map(([category, text, note]) => ({ category, text, note }));
  // The row above all ranks.
  const path = { label: "critical path", index: data.path, columns: columns[data.path] };
  return { length: data.length_ns, names, columns, ranks, path };
}

// The first index whose value is above `limit`, of values that never fall.
function firstAbove(values, limit) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The index of the span at a time, the last to start of those that cover it; -1 if there is none.
function spanAt(columns, time) {
  const first = firstAbove(columns.reach, time);
  for (let i = firstAbove(columns.starts, time) - 1; i >= first; i--) {
    if (columns.ends[i] > time) return i;
  }
  return -1;
}

// Which names have the text, and how many spans and how much time have such a name.
function searchTimeline(timeline, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const isFound = timeline.names.map((name) => `${name.text} ${name.note}`.toLowerCase().includes(wanted));
  const perColumns = timeline.columns.map((columns) => {
    const indexes = [];
    let total = 0;
    columns.names.forEach((name, i) => {
      if (!isFound[name]) return;
      indexes.push(i);
      total += columns.ends[i] - columns.starts[i];
    });
    return { indexes, total };
  });
  let count = 0;
  let total = 0;
  for (const { tracks } of timeline.ranks) {
    for (const track of tracks) {
      count += perColumns[track.index].indexes.length;
      total += perColumns[track.index].total;
    }
  }
  return { isFound, perColumns, count, total };
}

// Three significant digits and a unit.
function durationText(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) {
    if (ns >= 0.9995 * size) return `${(ns / size).toPrecision(3)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}
