// Draws the timeline on its canvas: rows of what is visible, each span at least a pixel.
"use strict";

const GUTTER = 118;
const AXIS = 24;
const STREAM_HEIGHT = 17;
const PALETTE = [...CATEGORIES, "idle", "text", "faint", "ground", "line"];

// Rows from top to bottom: the critical path, a rank's device, and its other tracks if it is open.
function layOutRows(timeline, open, height) {
  const closedHeight = Math.max(7, Math.min(STREAM_HEIGHT, Math.floor((height - AXIS) / timeline.ranks.length)));
  const path = { rank: null, track: timeline.path, isDevice: true, top: 0, height: STREAM_HEIGHT };
  const rows = path.track.columns.names.length ? [path] : [];
  let top = rows.length ? STREAM_HEIGHT + 6 : 0;
  for (const { rank, tracks } of timeline.ranks) {
    tracks.forEach((track, i) => {
      if (i > 0 && !open.has(rank)) return;
      const rowHeight = open.has(rank) ? STREAM_HEIGHT : closedHeight;
      rows.push({ rank, track, isDevice: i === 0, top, height: rowHeight });
      top += rowHeight;
    });
    if (open.has(rank)) top += 6;
  }
  return { rows, height: top };
}

function readColours(element) {
  const style = getComputedStyle(element);
  return Object.fromEntries(PALETTE.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// `view`: from and to in ns, scroll in pixels; `found`: of a search, or null.
function drawTimeline(canvas, timeline, rows, view, found) {
  const context = canvas.getContext("2d");
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = view;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const colours = readColours(canvas);
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  const picture = { context, colours, timeline, view, found };
  let labelledTo = -Infinity;
  for (const row of rows) {
    const top = AXIS + row.top - view.scroll;
    if (top + row.height < AXIS || top > height) continue;
    drawRow(picture, row, top);
    const middle = top + row.height / 2;
    if (middle - labelledTo >= 11) {
      drawLabel(picture, row, middle);
      labelledTo = middle;
    }
  }
  drawAxis(picture);
}

function drawLabel({ context, colours }, row, middle) {
  context.fillStyle = row.isDevice ? colours.text : colours.faint;
  const isRank = row.isDevice && row.rank !== null;
  context.fillText(isRank ? `rank ${row.rank}` : row.track.label, row.isDevice ? 6 : 18, middle, GUTTER - 22);
}

function drawRow(picture, row, top) {
  const { context, colours, view, found, timeline } = picture;
  const height = row.height - 1;
  context.fillStyle = colours.idle;
  context.globalAlpha = row.isDevice ? 1 : 0.25;
  context.fillRect(GUTTER, top, view.width - GUTTER, height);
  context.globalAlpha = 1;
  context.save();
  context.beginPath();
  context.rect(GUTTER, top, view.width - GUTTER, height);
  context.clip();
  if (found) {
    context.globalAlpha = 0.22;
    drawSpans(picture, row.track.columns, top, height, null);
    context.globalAlpha = 1;
    // What a closed rank's streams hide is shown on its device.
    const tracks = row.isDevice && row.rank !== null ? timeline.ranks[row.rank].tracks : [row.track];
    for (const track of tracks) drawSpans(picture, track.columns, top, height, found.isFound);
  } else {
    drawSpans(picture, row.track.columns, top, height, null);
  }
  context.restore();
}

function drawSpans({ context, colours, view, timeline }, columns, top, height, isWanted) {
  const { names, starts, ends, reach } = columns;
  const scale = (view.width - GUTTER) / (view.to - view.from);
  let drawnTo = -1;
  let category = -1;
  for (let i = firstAbove(reach, view.from); i < names.length && starts[i] < view.to; i++) {
    if (isWanted && !isWanted[names[i]]) continue;
    const left = GUTTER + Math.max(-2, (starts[i] - view.from) * scale);
    const right = Math.min(view.width + 2, GUTTER + (ends[i] - view.from) * scale);
    if (right <= drawnTo) continue;
    const name = timeline.names[names[i]];
    if (name.category !== category) {
      category = name.category;
      context.fillStyle = colours[CATEGORIES[category]];
    }
    const width = right - left;
    context.fillRect(left, top, width > 4 ? width - 0.7 : Math.max(width, 1), height);
    drawnTo = width < 1 ? Math.floor(left) + 1 : -1;
    if (width > 42 && height > 10) {
      context.fillStyle = colours.ground;
      drawFitting(context, name.text, Math.max(left, GUTTER) + 4, top + height / 2, width - 8);
      category = -1;
    }
  }
}

function drawFitting(context, text, left, middle, width) {
  const letters = Math.floor(width / 5.6); // of this font, on average
  context.fillText(text.length > letters ? `${text.slice(0, Math.max(letters - 1, 1))}\u2026` : text, left, middle);
}

function drawAxis({ context, colours, view }) {
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, view.width, AXIS - 2);
  context.fillStyle = colours.faint;
  const rough = ((view.to - view.from) / (view.width - GUTTER)) * 110;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].find((one) => one * power >= rough) * power);
  const scale = (view.width - GUTTER) / (view.to - view.from);
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const x = GUTTER + (time - view.from) * scale;
    context.fillRect(x, AXIS - 7, 1, 5);
    context.fillText(axisText(time, step), x + 3, 9);
  }
}

// As many digits as tell one mark from the next.
function axisText(time, step) {
  const [unit, size] = step >= 1e8 ? ["s", 1e9] : step >= 1e5 ? ["ms", 1e6] : step >= 100 ? ["us", 1e3] : ["ns", 1];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(time / size).toFixed(digits)} ${unit}`;
}
