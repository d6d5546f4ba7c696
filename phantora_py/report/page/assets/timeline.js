// The timeline's behaviour: zoom, move, open ranks, hover, search.
"use strict";

(() => {
  const timeline = decodeTimeline(JSON.parse(document.getElementById("timeline-data").textContent));
  const box = document.getElementById("timeline-view");
  const canvas = box.querySelector("canvas");
  const spacer = box.querySelector(".spacer");
  const about = document.getElementById("timeline-about");
  const search = document.getElementById("timeline-search");
  const foundText = document.getElementById("timeline-found");
  const few = timeline.ranks.length <= 4;
  const open = new Set(few ? timeline.ranks.map((one) => one.rank) : [0]);
  const view = { from: 0, to: Math.max(timeline.length, 1), scroll: 0, width: 0, height: 0 };
  let rows = [];
  let found = null;
  let match = -1;
  let isQueued = false;

  function draw() {
    isQueued = false;
    view.scroll = box.scrollTop;
    drawTimeline(canvas, timeline, rows, view, found);
    Object.assign(canvas.dataset, { from: Math.round(view.from), to: Math.round(view.to), rows: rows.length });
  }

  function redraw() {
    if (isQueued) return;
    isQueued = true;
    requestAnimationFrame(draw);
  }

  function layOut() {
    const most = Math.max(320, Math.min(640, window.innerHeight * 0.75));
    const laidOut = layOutRows(timeline, open, most);
    rows = laidOut.rows;
    view.height = Math.min(most, AXIS + laidOut.height + 2);
    view.width = box.clientWidth;
    box.style.height = `${view.height}px`;
    canvas.style.width = `${view.width}px`;
    canvas.style.height = `${view.height}px`;
    spacer.style.height = `${Math.max(0, AXIS + laidOut.height + 2 - view.height)}px`;
    redraw();
  }

  function show(from, to) {
    const whole = Math.max(timeline.length, 1);
    const length = Math.min(whole, Math.max(to - from, 50));
    view.from = Math.min(Math.max(from, 0), whole - length);
    view.to = view.from + length;
    redraw();
  }

  const timeAt = (x) => view.from + ((x - GUTTER) / (view.width - GUTTER)) * (view.to - view.from);

  function zoom(factor, centre = (view.from + view.to) / 2) {
    show(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor);
  }

  function move(share) {
    const step = (view.to - view.from) * share;
    show(view.from + step, view.to + step);
  }

  function rowAt(y) {
    const place = y - AXIS + view.scroll;
    return y < AXIS ? undefined : rows.find((row) => row.top <= place && place < row.top + row.height);
  }

  // What is under the pointer: its row, and its span or -1.
  function under(event) {
    const edge = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - edge.left, event.clientY - edge.top];
    const row = rowAt(y);
    return { x, row, span: row && x >= GUTTER ? spanAt(row.track.columns, timeAt(x)) : -1 };
  }

  function describe(row, span) {
    const { names, starts, ends } = row.track.columns;
    const name = timeline.names[names[span]];
    const where = row.rank === null ? row.track.label : `rank ${row.rank}, ${row.track.label}`;
    const time = `${durationText(ends[span] - starts[span])} at ${durationText(starts[span])}`;
    about.textContent = [name.text, time, name.note, where].filter(Boolean).join("  \u00b7  ");
  }

  function toggle(rank) {
    if (!open.delete(rank)) open.add(rank);
    layOut();
  }

  function toggleAll() {
    const all = open.size === timeline.ranks.length;
    timeline.ranks.forEach(({ rank }) => (all ? open.delete(rank) : open.add(rank)));
    layOut();
  }

  function find() {
    found = searchTimeline(timeline, search.value);
    match = -1;
    foundText.textContent = found
      ? `${found.count.toLocaleString("en")} found, ${durationText(found.total / timeline.ranks.length)} per rank`
      : "";
    redraw();
  }

  // Shows the next match of the first rank that has any.
  function nextMatch() {
    const has = (one) => one.tracks.some((track) => found.perColumns[track.index].indexes.length);
    const rank = found && timeline.ranks.find(has);
    if (!rank) return;
    const matches = rank.tracks.flatMap((track) =>
      found.perColumns[track.index].indexes.map((span) => ({ track, span })),
    );
    matches.sort((a, b) => a.track.columns.starts[a.span] - b.track.columns.starts[b.span]);
    match = (match + 1) % matches.length;
    const { track, span } = matches[match];
    if (!open.has(rank.rank)) toggle(rank.rank);
    const length = track.columns.ends[span] - track.columns.starts[span];
    show(track.columns.starts[span] - 4 * length, track.columns.ends[span] + 4 * length);
    describe({ rank: rank.rank, track }, span);
  }

  box.addEventListener("wheel", (event) => {
    const sideways = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    const isFocused = document.activeElement === box;
    if (!isFocused && !event.ctrlKey) return;
    event.preventDefault();
    if (sideways) move(sideways / 1000);
    else zoom(Math.exp(event.deltaY / 400), timeAt(under(event).x));
  }, { passive: false });

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, scroll: box.scrollTop, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
      drag.moved ||= Math.abs(x) + Math.abs(y) > 4;
      if (!drag.moved) return;
      const step = (x / (view.width - GUTTER)) * (drag.to - drag.from);
      box.scrollTop = drag.scroll - y;
      show(drag.from - step, drag.to - step);
      return;
    }
    const { row, span } = under(event);
    if (span >= 0) describe(row, span);
    canvas.style.cursor = span >= 0 ? "crosshair" : row ? "pointer" : "default";
  });
  canvas.addEventListener("pointerup", (event) => {
    const wasClick = drag && !drag.moved;
    drag = null;
    const { x, row } = under(event);
    if (wasClick && row && row.rank !== null && x < GUTTER) toggle(row.rank);
  });
  canvas.addEventListener("dblclick", (event) => {
    const { row, span } = under(event);
    if (span < 0) return;
    const { starts, ends } = row.track.columns;
    const length = ends[span] - starts[span];
    show(starts[span] - 0.2 * length, ends[span] + 0.2 * length);
  });

  const actions = {
    in: () => zoom(0.6),
    out: () => zoom(1 / 0.6),
    all: () => show(0, timeline.length),
    streams: toggleAll,
  };
  for (const button of document.querySelectorAll(".controls [data-do]")) {
    button.addEventListener("click", actions[button.dataset.do]);
  }
  const keys = {
    "+": actions.in, "=": actions.in, w: actions.in,
    "-": actions.out, s: actions.out,
    ArrowLeft: () => move(-0.15), a: () => move(-0.15),
    ArrowRight: () => move(0.15), d: () => move(0.15),
    Home: actions.all, Escape: () => box.blur(),
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextMatch();
  });
  box.addEventListener("scroll", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(layOut).observe(box.parentElement);
  layOut();
})();
