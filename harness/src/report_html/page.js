"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const root = document.getElementById("page");
  const SVG = "http://www.w3.org/2000/svg";

  // Text is only set as text: no string of the data becomes markup.
  function put(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat()) {
      if (child !== undefined && child !== null && child !== false) node.append(child);
    }
    return node;
  }
  const h = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);
  const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

  function clock(ms) {
    const minutes = Math.floor(ms / 60000), rest = (ms % 60000) / 1000;
    return minutes ? `${minutes}m${rest.toFixed(3).padStart(6, "0")}s` : `${rest.toFixed(3)}s`;
  }
  function tick(ms) {
    if (ms === 0) return "0";
    if (ms % 3600000 === 0) return `${ms / 3600000}h`;
    if (ms % 60000 === 0) return `${ms / 60000}m`;
    if (ms >= 60000) return `${Math.floor(ms / 60000)}m${(ms % 60000) / 1000}s`;
    return ms >= 1000 ? `${ms / 1000}s` : `${ms}ms`;
  }

  const state = { run: null, selected: -1, filter: "", order: false, zoom: 1, open: new Set(), print: false, shown: [], effects: [] };
  const ui = {};

  function shell() {
    ui.head = h("header");
    ui.filter = h("input", {
      type: "search", placeholder: "Filter: pvc/data, node-a, NodeStage …", "aria-label": "Filter events by object or word",
      list: "objects", autocomplete: "off", spellcheck: "false", oninput: () => filter(ui.filter.value),
    });
    ui.objects = h("datalist", { id: "objects" });
    ui.byTime = h("button", { type: "button", onclick: () => spacing(false) }, "By time");
    ui.byOrder = h("button", { type: "button", onclick: () => spacing(true) }, "By order");
    ui.count = h("span", { class: "count", role: "status" });
    const zoom = (label, text, by) => h("button", { type: "button", "aria-label": label, title: label, onclick: () => zoomBy(by) }, text);
    ui.tools = h("div", { class: "tools" }, ui.filter, ui.objects,
      h("div", { class: "seg", role: "group", "aria-label": "Spacing" }, ui.byTime, ui.byOrder),
      h("div", { class: "seg", role: "group", "aria-label": "Zoom" }, zoom("Zoom out", "−", 0.5), zoom("Show all", "Fit", 0), zoom("Zoom in", "+", 2)),
      ui.count);
    ui.chart = h("div", { class: "chart", tabindex: "0", role: "group", "aria-label": "Events in lanes; the list below has the same events" });
    ui.legend = h("p", { class: "legend" });
    ui.panel = h("section", { class: "panel", "aria-live": "polite", "aria-label": "The event" });
    ui.copies = h("section", { "aria-label": "Commands and the scenario" });
    ui.list = h("ol", { class: "list" });
    ui.listed = h("h2", {}, "Events");
    ui.about = h("p", { class: "notes small" });
    ui.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    root.append(
      h("a", { class: "skip", href: "#events" }, "To the list of events"), ui.head, ui.tools,
      h("div", { class: "body" }, h("div", {}, ui.chart, ui.legend), h("aside", { class: "side" }, ui.panel)),
      h("div", { class: "more" },
        h("section", { class: "wide", id: "events" }, ui.listed, ui.about, ui.list),
        ui.copies,
        h("section", { class: "keybox" }, h("h2", {}, "Keys"), h("dl", { class: "keys" },
          ...[["← →", "the event before, the next"], ["↑ ↓", "what it follows from, what follows"], ["+ − 0", "zoom, show all"],
            ["t", "space by time or by order"], ["/", "filter"], ["Esc", "no filter"]].flatMap(([key, does]) => [h("dt", {}, key), h("dd", {}, does)])))),
      ui.tip);
    ui.chart.addEventListener("click", (event) => { const at = near(event); if (at >= 0) select(at); });
    ui.chart.addEventListener("pointermove", hover);
    ui.chart.addEventListener("pointerleave", () => { ui.tip.hidden = true; });
    ui.chart.addEventListener("scroll", pin, { passive: true });
    document.addEventListener("keydown", key);
    window.addEventListener("resize", () => draw());
    window.addEventListener("hashchange", fromHash);
    const print = (on) => () => { state.print = on; draw(); list(); };
    window.addEventListener("beforeprint", print(true));
    window.addEventListener("afterprint", print(false));
  }

  function head() {
    const run = state.run;
    const verdict = run && h("span", { class: `verdict ${run.verdict.tone}` }, run.verdict.word);
    // The command printed the same figures.
    const facts = run && [run.name !== page.title && run.name, ...run.facts,
      run.leftOut > 0 && `${plural(run.leftOut, "event")} left out, so that this file stays small`].filter(Boolean).join(" · ");
    ui.head.replaceChildren(
      h("div", { class: "top" }, h("h1", {}, page.title), page.runs.length === 1 && verdict),
      page.runs.length === 1 && h("p", { class: "facts" }, facts) || "",
      ...page.notes.map((note) => h("p", { class: "notes" }, note)),
      page.table && h("div", { class: "tablebox" }, h("table", { class: "table" },
        h("thead", {}, h("tr", {}, page.table.columns.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, page.table.rows.map((row) => h("tr", {}, row.map((text) => h("td", {}, text))))))) || "",
      page.runs.length > 1 && h("nav", { class: "runs", "aria-label": "Runs" }, page.runs.map((one) =>
        h("button", { type: "button", "aria-current": String(one === run), onclick: () => show(one) },
          h("span", { class: `verdict ${one.verdict.tone}` }, one.verdict.word), " ", one.name))) || "",
      page.runs.length > 1 && run && h("p", { class: "facts" }, facts) || "",
      run && run.verdict.message && h("div", { class: `said mono is-${run.verdict.tone}` }, run.verdict.message) || "",
      run && run.violations.length > 0 && h("ul", { class: "violations" }, run.violations.map((violation) => h("li", {},
        h("button", { type: "button", class: "link", onclick: () => select(placeOf(violation.n)) }, `${violation.id} at ${clock(violation.ms)}, event #${violation.n}`),
        " ", violation.message, violation.declared ? ` (declared: ${violation.declared})` : ""))) || "");
  }

  // The position of the event with this number, or of the last event before it that is shown.
  function placeOf(n) {
    let found = -1;
    state.run.events.forEach((event, at) => { if (!event.aside && event.n <= n) found = at; });
    return found;
  }
  // The axis ends with the steps; a run without them ends with its last event.
  function end() {
    const events = state.run.events;
    return Math.max(state.run.endMs || (events.length ? events[events.length - 1].ms : 0), 1);
  }

  const LETTER = 6.3;
  const phaseName = (row) => (row.node ? `${row.phase} · ${row.node}` : row.phase);
  // Width of the longest label in columns.
  function longest(run) {
    const rows = run.timeline.volumes.flatMap((volume) => [volumeName(volume)[0], ...volume.rows.map(phaseName)]);
    return Math.max(...rows.map((name) => name.length + 3), ...run.lanes.map((lane) => lane.name.length + 1), 16);
  }

  // Positions of the rows. On a narrow screen labels stand above their rows, so that they are not cut.
  const ROW = { axis: 30, head: 26, phase: 17, lane: 21, gap: 10, line: 15 };
  function layout() {
    const run = state.run, above = ui.chart.clientWidth < 620 && !state.print;
    const label = above ? 8 : Math.min(Math.max(Math.ceil(longest(run) * LETTER) + 12, 130), 300);
    const inner = (state.print ? 1040 : Math.max(ui.chart.clientWidth, 320)) - label - 22;
    const zoom = state.print ? 1 : state.zoom;
    const width = state.order ? Math.max(inner, run.events.length * 3 * zoom) : inner * zoom;
    const last = end(), count = Math.max(run.events.length - 1, 1);
    // Events after the steps stand at the end.
    // The rest after the steps is not drawn.
    const [from, to] = run.timeline.rest || [last, last];
    const drawn = (ms) => (ms <= from ? ms : from + Math.max(Math.min(ms, last) - to, 0));
    const share = (ms) => drawn(Math.min(ms, last)) / Math.max(drawn(last), 1);
    const ofPlace = (at) => label + 6 + (state.order ? (at / count) * width : share(run.events[at].ms) * width);
    const ofTime = (ms) => {
      if (!state.order) return label + 6 + share(ms) * width;
      let low = 0, high = run.events.length;
      while (low < high) { const mid = (low + high) >> 1; if (run.events[mid].ms < ms) low = mid + 1; else high = mid; }
      return label + 6 + (low / count) * width;
    };
    const lines = above ? ROW.line : 0;
    const isDrawn = (ms) => ms <= from || ms >= to;
    return { label, width, last, span: Math.max(drawn(last), 1), isDrawn, above, lines, ofPlace, ofTime, total: label + width + 22, chars: Math.floor((above ? inner + 8 : label - 10) / LETTER) };
  }

  function ticks(layout) {
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000, 1200000, 1800000, 3600000, 7200000, 21600000, 86400000];
    const wanted = layout.span / Math.max(layout.width / 110, 1);
    const step = steps.find((one) => one >= wanted) || steps[steps.length - 1];
    const all = [];
    for (let ms = 0; ms <= layout.last && all.length < 400; ms += step) if (layout.isDrawn(ms)) all.push(ms);
    // Marks that are too close to each other are left out.
    let before = -99;
    return all.filter((ms) => { const x = layout.ofTime(ms); const far = x - before > 56; if (far) before = x; return far; });
  }

  function volumeName(volume) {
    const claim = volume.claim ? `pvc/${volume.claim.replace(/^default\//, "")}` : "no claim";
    const rest = [volume.volume, volume.sizeGib && `${volume.sizeGib} GiB`, volume.zone, volume.runningAfterMs && `running after ${clock(volume.runningAfterMs)}`];
    return [claim, rest.filter(Boolean).join(" · ")];
  }

  // Parts between dots, in lines of at most `most` letters.
  function lined(text, most) {
    const lines = [];
    for (const part of text.split(" · ")) {
      const last = lines.length - 1;
      if (last >= 0 && lines[last].length + 3 + part.length <= most) lines[last] += ` · ${part}`;
      else lines.push(part);
    }
    return lines;
  }

  function draw() {
    const run = state.run;
    if (!run) return;
    const at = layout();
    const back = s("g"), marks = s("g"), labels = s("g", { class: "labels" }), over = s("g");
    let y = ROW.axis;
    const text = (x, y, content, attributes) => s("text", { x, y, ...attributes }, content);
    labels.append(s("rect", { class: "back", x: 0, y: 0, width: at.label, height: 10 }));
    run.timeline.volumes.forEach((volume, index) => {
      const open = state.open.has(index), [name, rest] = volumeName(volume);
      const toggle = () => { if (open) state.open.delete(index); else state.open.add(index); draw(); };
      labels.append(text(10, y + 17, `${open ? "▾" : "▸"} ${cut(name, at.chars - 2)}`, {
        class: "head", tabindex: "0", role: "button", "aria-expanded": String(open), onclick: (event) => { event.stopPropagation(); toggle(); },
        onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); } },
      }));
      if (!at.above) marks.append(text(at.label + 6, y + 17, rest, { class: "dim" }));
      for (const line of at.above ? lined(rest, at.chars) : []) {
        y += ROW.line;
        labels.append(text(10, y + 17, line, { class: "dim" }));
      }
      y += ROW.head;
      if (!open) return;
      for (const row of volume.rows) {
        phase(row, y, at, marks, labels);
        y += ROW.phase + at.lines;
      }
      y += 4;
    });
    if (run.timeline.volumes.length > 0) y += ROW.gap;
    const lanes = [];
    let group = "";
    run.lanes.forEach((lane) => {
      if (group && group !== lane.group) y += 5;
      group = lane.group;
      labels.append(text(10, y + 15, cut(lane.name, at.chars), {}));
      y += at.lines;
      lanes.push(y);
      back.append(s("line", { class: "base", x1: at.label, x2: at.total, y1: y + ROW.lane / 2, y2: y + ROW.lane / 2 }));
      y += ROW.lane;
    });
    state.lanes = lanes;
    const bottom = y + 8;
    for (const ms of ticks(at)) {
      const x = at.ofTime(ms);
      back.prepend(s("line", { class: "grid", x1: x, x2: x, y1: ROW.axis - 6, y2: bottom }));
      over.append(text(x, 18, tick(ms), { class: "dim", "text-anchor": ms === 0 ? "start" : "middle" }));
    }
    down(at, lanes, back);
    const family = (lane) => ({ scenario: "scenario", cloud: "cloud", API: "api", loops: "loops", driver: "driver" })[lane.group] || "node";
    const shown = new Set(state.shown);
    run.events.forEach((event, place) => {
      const lane = run.lanes[event.lane], y = lanes[event.lane], x = at.ofPlace(place);
      const out = shown.has(place) ? "" : " out", look = event.look ? ` l-${event.look}` : "";
      if (event.ends) {
        const from = at.ofPlace(event.cause[0]);
        if (x - from > 2) marks.append(s("rect", { class: `ev call ${family(lane)}${look}${out}`, x: from, y: y + 7, width: x - from, height: 7, rx: 2 }));
      }
      const big = event.look === "bad";
      marks.append(s("rect", { class: `ev ${family(lane)}${look}${out}`, x: x - (big ? 1.75 : 1.1), y: y + (big ? 2 : 4), width: big ? 3.5 : 2.2, height: big ? 17 : 13, rx: 1 }));
    });
    run.violations.forEach((violation) => {
      const place = placeOf(violation.n), x = place >= 0 ? at.ofPlace(place) : at.ofTime(violation.ms);
      over.append(s("line", { class: violation.declared ? "mark-declared" : "mark-bad", x1: x, x2: x, y1: ROW.axis - 6, y2: bottom }),
        text(x, ROW.axis - 1, violation.id, { class: violation.declared ? "t-declared" : "t-bad", "text-anchor": "middle" }));
    });
    run.events.forEach((event, place) => {
      if (run.kinds[event.kind][0] !== "fault.fired") return;
      const x = at.ofPlace(place);
      back.append(s("line", { class: "mark-fault", x1: x, x2: x, y1: ROW.axis - 6, y2: bottom }));
    });
    labels.firstChild.setAttribute("height", bottom);
    if (at.above) labels.firstChild.setAttribute("width", 0);
    else labels.append(s("line", { class: "grid", x1: at.label, x2: at.label, y1: 0, y2: bottom }));
    ui.threads = s("g");
    ui.labels = labels;
    const svg = s("svg", { width: at.total, height: bottom, viewBox: `0 0 ${at.total} ${bottom}`, role: "img", "aria-label": `Lanes of ${run.name}` }, back, marks, over, ui.threads, labels);
    ui.chart.replaceChildren(svg);
    state.layout = at;
    state.bottom = bottom;
    pin();
    threads();
    ui.byTime.setAttribute("aria-pressed", String(!state.order));
    ui.byOrder.setAttribute("aria-pressed", String(state.order));
  }

  function phase(row, y, at, marks, labels) {
    const from = at.ofTime(row.startMs), to = at.ofTime(row.endMs ?? (row.shape === "moment" ? row.startMs : at.last));
    const name = phaseName(row), words = at.above && row.detail ? `${name} · ${row.detail}` : name;
    labels.append(s("text", { class: "dim", x: at.above ? 10 : 22, y: y + 12.5 }, s("title", {}, words), cut(words, at.chars - (at.above ? 0 : 2))));
    y += at.lines;
    const middle = y + ROW.phase / 2;
    const diamond = (x, kind) => s("path", { class: kind, d: `M${x} ${middle - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5z` });
    let right = to;
    if (row.shape === "moment") marks.append(diamond(from, "moment"));
    else if (row.shape === "wait") marks.append(s("line", { class: "wait", x1: from + 1, x2: Math.max(to - 1, from + 2), y1: middle, y2: middle }));
    else if (row.endMs === null && row.shape !== "state" && row.shape !== "work") { marks.append(diamond(from, row.shape === "broken" ? "broken" : "p-warning")); right = from; }
    else marks.append(s("rect", { class: { work: "work", state: "state", warning: "p-warning", broken: "broken" }[row.shape] || "work", x: from, y: y + 3.5, width: Math.max(to - from, 2), height: 10, rx: 2 }));
    (row.atMs || []).slice(1).forEach((ms) => marks.append(diamond(at.ofTime(ms), row.shape === "broken" ? "broken" : "p-warning")));
    if (row.atMs && row.atMs.length > 1) right = Math.max(right, at.ofTime(row.atMs[row.atMs.length - 1]));
    if (row.detail && !at.above) {
      const room = at.total - right - 18, most = Math.floor(room / 6), left = Math.floor((from - at.label - 14) / 6);
      if (most >= Math.min(row.detail.length, 14) || most >= left) marks.append(s("text", { class: "dim", x: right + 8, y: y + 12.5 }, s("title", {}, row.detail), cut(row.detail, Math.max(most, 3))));
      else marks.append(s("text", { class: "dim", x: from - 8, y: y + 12.5, "text-anchor": "end" }, s("title", {}, row.detail), cut(row.detail, Math.max(left, 3))));
    }
  }

  // From the end of a process until it starts again.
  function down(at, lanes, back) {
    const run = state.run, since = new Map();
    const bar = (lane, from, to) => back.append(s("rect", { class: "down", x: from, y: lanes[lane] + 1, width: Math.max(to - from, 1), height: ROW.lane - 2 }));
    run.events.forEach((event, place) => {
      const kind = run.kinds[event.kind][0];
      if (kind === "process.crashed") since.set(event.lane, at.ofPlace(place));
      else if (kind === "process.started" && since.has(event.lane)) { bar(event.lane, since.get(event.lane), at.ofPlace(place)); since.delete(event.lane); }
    });
    for (const [lane, from] of since) bar(lane, from, at.total - 22);
  }

  function pin() {
    if (ui.labels) ui.labels.setAttribute("transform", `translate(${state.print ? 0 : ui.chart.scrollLeft} 0)`);
  }

  // The causes of the event, as far back as known, and its consequences.
  function chain(at) {
    const all = [];
    for (let now = at; now >= 0 && all.length < 40;) {
      const cause = state.run.events[now].cause;
      if (!cause) break;
      all.push(cause);
      now = cause[0];
    }
    return all;
  }

  function threads() {
    if (!ui.threads || state.selected < 0) return;
    const events = state.run.events, at = state.layout;
    const middle = (place) => [at.ofPlace(place), state.lanes[events[place].lane] + ROW.lane / 2];
    const curve = (from, to, kind) => {
      const [x1, y1] = middle(from), [x2, y2] = middle(to), bend = Math.min(Math.max((x2 - x1) / 2, 10), 60);
      return s("path", { class: `thread ${kind}`, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
    };
    const [x, y] = middle(state.selected);
    ui.threads.replaceChildren(s("line", { class: "cross", x1: x, x2: x, y1: ROW.axis - 6, y2: state.bottom }));
    let now = state.selected;
    for (const [from] of chain(state.selected).slice(0, 12)) { ui.threads.append(curve(from, now, "")); now = from; }
    for (const to of state.effects[state.selected] || []) ui.threads.append(curve(state.selected, to, "on"));
    ui.threads.append(s("circle", { class: "ring", cx: x, cy: y, r: 8 }));
  }

  // The event nearest to the pointer, in its lane.
  function near(pointer) {
    const box = ui.chart.querySelector("svg").getBoundingClientRect();
    const x = pointer.clientX - box.left, y = pointer.clientY - box.top;
    if (pointer.clientX - ui.chart.getBoundingClientRect().left < state.layout.label) return -1;
    const lane = state.lanes.findIndex((top) => y >= top && y < top + ROW.lane);
    if (lane < 0) return -1;
    let best = -1, far = 14;
    for (const place of state.shown) {
      if (state.run.events[place].lane !== lane) continue;
      const away = Math.abs(state.layout.ofPlace(place) - x);
      if (away <= far) { far = away; best = place; }
    }
    return best;
  }

  function hover(pointer) {
    const at = pointer.pointerType === "touch" ? -1 : near(pointer);
    ui.tip.hidden = at < 0;
    if (at < 0) return;
    const event = state.run.events[at];
    ui.tip.textContent = `${clock(event.ms)} · ${event.title}`;
    ui.tip.style.left = `${Math.min(pointer.clientX + 14, innerWidth - 350)}px`;
    ui.tip.style.top = `${pointer.clientY + 16}px`;
  }

  function panel() {
    const event = state.run.events[state.selected];
    if (!event) {
      ui.panel.replaceChildren(h("h2", {}, "Event"), h("p", { class: "notes" }, "Choose an event in a lane or in the list."));
      return;
    }
    const [kind, about] = state.run.kinds[event.kind];
    const jump = (place) => h("button", { type: "button", class: "link", onclick: () => select(place) }, `${clock(state.run.events[place].ms)} ${state.run.events[place].title}`);
    const causes = chain(state.selected).slice(0, 8), effects = (state.effects[state.selected] || []).slice(0, 8);
    const value = (one) => (typeof one === "string" ? one : JSON.stringify(one, null, typeof one === "object" && one !== null ? 1 : 0));
    ui.panel.replaceChildren(
      h("h3", { class: event.look || "" }, event.title),
      h("p", { class: "where" }, `${event.aside ? "after " : ""}#${event.n} · ${clock(event.ms)} · ${event.process}`),
      h("dl", {}, h("dt", {}, "kind"), h("dd", { class: "mono" }, kind),
        ...Object.entries(event.carries).flatMap(([name, one]) => [h("dt", {}, name), h("dd", { class: "mono" }, value(one))])),
      about ? h("p", { class: "about" }, about) : "",
      causes.length ? h("section", {}, h("h2", {}, "Follows from"), h("ol", { class: "chain" }, causes.map(([place, why]) => h("li", {}, jump(place), h("span", { class: "why" }, why))))) : "",
      effects.length ? h("section", {}, h("h2", {}, "What follows"), h("ol", { class: "chain" }, effects.map((place) => h("li", {}, jump(place))))) : "",
      event.objects ? h("section", {}, h("h2", {}, "About"), h("p", {}, event.objects.flatMap((object) => [
        h("button", { type: "button", class: "link", onclick: () => { ui.filter.value = state.run.objects[object]; filter(ui.filter.value); } }, state.run.objects[object]), " "]))) : "");
  }

  const LISTED = 240;
  function list() {
    const shown = state.shown, at = Math.max(shown.indexOf(state.selected), 0);
    const most = state.print ? 60 : LISTED;
    const from = Math.max(0, Math.min(at - Math.floor(most / 2), shown.length - most)), part = shown.slice(from, from + most);
    const run = state.run, apart = run.events.length !== run.counted;
    ui.listed.textContent = part.length < shown.length ? `Events ${from + 1} to ${from + part.length} of ${shown.length}, around the chosen one` : plural(shown.length, "event");
    ui.about.textContent = apart ? `The trace has ${plural(run.counted, "event")}. Messages and streams are not shown here; what only a report hears has no number.` : "";
    ui.list.replaceChildren(...part.map((place) => {
      const event = state.run.events[place];
      return h("li", {}, h("button", { type: "button", class: event.look ? `l-${event.look}` : "", "aria-current": String(place === state.selected), "data-at": place, onclick: () => select(place) },
        h("span", { class: "n" }, event.aside ? "" : `#${event.n}`), h("span", { class: "ms" }, clock(event.ms)), h("span", { class: "who" }, event.process), h("span", { class: `title ${event.look || ""}` }, event.title)));
    }));
  }

  function copies() {
    const button = (text) => {
      const one = h("button", { type: "button", onclick: async () => {
        try { await navigator.clipboard.writeText(text); one.textContent = "Copied"; }
        catch { const range = document.createRange(); range.selectNodeContents(one.closest(".copy").querySelector("pre")); getSelection().removeAllRanges(); getSelection().addRange(range); one.textContent = "Selected"; }
        setTimeout(() => { one.textContent = "Copy"; }, 1600);
      } }, "Copy");
      return one;
    };
    const block = (does, text) => h("div", { class: "copy" }, h("div", {}, h("span", {}, does), button(text)), h("pre", { tabindex: "0" }, text));
    const run = state.run, file = run.file;
    ui.copies.replaceChildren(h("h2", {}, "To see it again"), ...run.commands.map((command) => block(command.does, command.text)),
      file.text ? block(file.cut ? `${file.name}, its beginning` : file.name, file.text) : "");
  }

  function filter(text) {
    state.filter = text;
    const run = state.run, words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const names = run.objects.map((name) => name.toLowerCase());
    const is = (event) => words.every((word) =>
      (event.objects || []).some((object) => names[object].includes(word)) || event.title.toLowerCase().includes(word) ||
      event.process.toLowerCase().includes(word) || run.kinds[event.kind][0].includes(word) || `#${event.n}` === word);
    state.shown = [];
    run.events.forEach((event, at) => { if (words.length === 0 || is(event)) state.shown.push(at); });
    ui.count.textContent = words.length ? `${state.shown.length} of ${plural(run.events.length, "event")}` : "";
    draw();
    list();
  }

  function select(at) {
    if (at < 0 || at >= state.run.events.length) return;
    state.selected = at;
    threads();
    panel();
    list();
    const x = state.layout.ofPlace(at), view = ui.chart;
    if (x < view.scrollLeft + state.layout.label + 20 || x > view.scrollLeft + view.clientWidth - 20) view.scrollLeft = x - view.clientWidth / 2;
    const event = state.run.events[at];
    if (!event.aside) history.replaceState(null, "", `#e${event.n}`);
  }

  function spacing(order) { state.order = order; draw(); }
  function zoomBy(by) {
    const at = state.selected >= 0 ? state.layout.ofPlace(state.selected) : ui.chart.scrollLeft + ui.chart.clientWidth / 2;
    const share = (at - state.layout.label) / state.layout.width;
    state.zoom = by === 0 ? 1 : Math.min(Math.max(state.zoom * by, 1), 256);
    draw();
    ui.chart.scrollLeft = state.layout.label + share * state.layout.width - ui.chart.clientWidth / 2;
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !state.run) return;
    if (event.target === ui.filter) {
      if (event.key === "Escape") { ui.filter.value = ""; filter(""); ui.chart.focus(); }
      return;
    }
    const shown = state.shown, at = shown.indexOf(state.selected);
    const near = shown.findIndex((place) => place > state.selected);
    const cause = state.selected >= 0 && state.run.events[state.selected].cause, effects = state.effects[state.selected] || [];
    const does = {
      ArrowRight: () => select(at >= 0 ? shown[Math.min(at + 1, shown.length - 1)] : shown[Math.max(near, 0)]),
      ArrowLeft: () => select(at >= 0 ? shown[Math.max(at - 1, 0)] : shown[Math.max(near - 1, 0)]),
      ArrowUp: () => cause && select(cause[0]), ArrowDown: () => effects.length && select(effects[0]),
      "+": () => zoomBy(2), "=": () => zoomBy(2), "-": () => zoomBy(0.5), 0: () => zoomBy(0), t: () => spacing(!state.order),
      "/": () => ui.filter.focus(), Escape: () => { ui.filter.value = ""; filter(""); },
    }[event.key];
    if (!does) return;
    // Up and down scroll the page, unless the focus is in the lanes or the list.
    if (event.key.startsWith("Arrow") && !ui.chart.contains(event.target) && !ui.list.contains(event.target)) {
      if (event.key === "ArrowUp" || event.key === "ArrowDown") return;
    }
    event.preventDefault();
    const listed = ui.list.contains(event.target);
    does();
    if (listed) { const row = ui.list.querySelector('[aria-current="true"]'); if (row) row.focus(); }
  }

  const later = (run) => run.events.filter((event) => run.endMs && event.ms > run.endMs + 1000).length;

  function fromHash() {
    const found = /^#e(\d+)$/.exec(location.hash);
    if (found && state.run) select(placeOf(Number(found[1])));
    return Boolean(found);
  }

  function show(run) {
    state.run = run;
    state.selected = -1;
    state.zoom = 1;
    const bad = (volume) => volume.rows.some((row) => row.shape === "broken" || row.shape === "warning");
    const volumes = run.timeline.volumes, some = volumes.length <= 3;
    state.open = new Set(volumes.map((_, index) => index).filter((index) => some || (bad(volumes[index]) && index < 4) || index === 0));
    state.effects = [];
    run.events.forEach((event, at) => { if (event.cause) (state.effects[event.cause[0]] ||= []).push(at); });
    ui.objects.replaceChildren(...run.objects.slice(0, 400).map((name) => h("option", { value: name })));
    ui.filter.value = "";
    head();
    copies();
    const swatch = (text) => h("span", {}, text);
    ui.legend.replaceChildren(...["A bar in a lane is a call; a mark is an event.", "A dashed red line is a fault; a red line is where something did not hold.", "Red ground: the process is down.",
      later(run) > 0 && `${plural(later(run), "event")} after the steps ${later(run) === 1 ? "stands" : "stand"} at its end.`].filter(Boolean).map(swatch));
    filter("");
    panel();
    if (fromHash()) return;
    const first = run.violations.find((violation) => !violation.declared) || run.violations[0];
    const fault = run.events.findIndex((event) => run.kinds[event.kind][0] === "fault.fired");
    if (first) select(placeOf(first.n)); else if (fault >= 0) select(fault);
    else if (run.verdict.tone === "bad" && run.events.length) select(run.events.length - 1);
  }

  shell();
  if (page.runs.length > 0) show(page.runs[0]);
  else { head(); for (const part of [ui.tools, root.querySelector(".body"), root.querySelector(".more")]) part.remove(); }
  document.documentElement.setAttribute("data-drawn", String(page.runs.length ? page.runs[0].events.length : 0));
})();
