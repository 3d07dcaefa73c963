// What the page does beyond HTML. What comes from rows is only ever put into text nodes.

const $ = (selector, from = document) => from.querySelector(selector);
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
const made = (name, text = "", attributes = {}) => {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};
const say = (text) => { $("#said").textContent = text; };

// Airflow says on <html> whether it is dark; its frame is of the same origin.
const host = (() => {
  try { return window.parent === window ? null : (window.parent.document && window.parent); }
  catch { return null; }
})();
const redrawn = [];
const redraw = () => redrawn.forEach((draw) => draw());
if (host) {
  const follow = () => {
    const of = host.document.documentElement.classList;
    const theme = of.contains("dark") ? "dark" : of.contains("light") ? "light" : null;
    if (theme) document.documentElement.dataset.theme = theme;
    redraw();
  };
  new MutationObserver(follow).observe(host.document.documentElement, { attributes: true, attributeFilter: ["class"] });
  follow();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

const localTimes = (from = document) => $$("time", from).forEach((one) => {
  one.title = `${one.dateTime} — here ${new Date(one.dateTime).toLocaleString()}`;
});
localTimes();

// A way out of Airflow's frame, in which a plain link would show Airflow within Airflow.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || !host || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  host.history.pushState(null, "", new URL(link.href).pathname);
  host.dispatchEvent(new host.PopStateEvent("popstate"));
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const text = button.dataset.copy || button.parentElement.querySelector("code").textContent;
  try { await navigator.clipboard.writeText(text); say(`Copied: ${text}`); button.textContent = "Copied"; }
  catch { say("It could not be copied."); }
});

const find = $("#find");
if (find) {
  const rows = $$(`#${find.dataset.filters} tbody tr`);
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, at) => {
      row.hidden = !words.every((word) => texts[at].includes(word));
      shown += !row.hidden;
    });
    $("#found").textContent = words.length ? `${shown} of ${rows.length}` : `${rows.length} pipelines, the worst first`;
    say(`${shown} of ${rows.length} shown`);
  };
  find.addEventListener("input", filter);
  if (find.value) filter();
  document.addEventListener("keydown", (event) => {
    const typing = /^(input|select|textarea)$/i.test(event.target.tagName);
    if (event.key === "/" && !typing) { event.preventDefault(); find.focus(); }
    if (event.key === "Escape" && event.target === find) { find.value = ""; filter(); }
    if (event.key === "Enter" && event.target === find) rows.find((row) => !row.hidden)?.querySelector("a").click();
  });
}

$$("table.sorts").forEach((table) => $$("thead th", table).forEach((head, column) => {
  const button = made("button", head.textContent, { type: "button" });
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const first = head.classList.contains("n") ? "descending" : "ascending";
    const now = head.getAttribute("aria-sort");
    const order = now ? (now === "ascending" ? "descending" : "ascending") : first;
    $$("th", head.parentElement).forEach((one) => one.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", order);
    const value = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
    const number = (text) => (text === "" ? NaN : Number(text));
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [value(row), row]);
    const numeric = rows.every(([text]) => !Number.isNaN(number(text)));
    rows.sort(([a], [b]) => (numeric ? number(a) - number(b) : a.localeCompare(b)));
    if (order === "descending") rows.reverse();
    body.append(...rows.map(([, row]) => row));
  });
}));

// Charts ---------------------------------------------------------------------------------------

const holder = $("#data");
const data = holder ? JSON.parse(holder.textContent) : null;
const probe = document.body.appendChild(made("i", "", { hidden: "" }));
const colour = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
const two = (number) => String(number).padStart(2, "0");
const clock = (seconds, day = true) => {
  const at = new Date(seconds * 1000);
  const date = `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} `;
  const rest = at.getUTCSeconds() ? `:${two(at.getUTCSeconds())}` : "";
  return `${day ? date : ""}${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${rest}`;
};
const short = (seconds, span) => {
  const text = clock(seconds);
  return span > 2 * 86400 && text.endsWith(" 00:00") ? text.slice(5, 10) : span > 86400 ? text.slice(5, 16) : text.slice(11);
};
const number = (value) => value == null ? "–" : Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 });
const compact = (value) => Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(value);
const COLOURS = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];
const TIMES = [1, 5, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 345600, 604800, 1209600, 2592000, 7776000, 31536000];
const BARS = window.uPlot && uPlot.paths.bars({ size: [0.72, 46] });
// Each run's value over its whole column, with what it closes filled below.
const steps = (u, series, from, to) => {
  const line = new Path2D(), values = u.data[series];
  let first = null, right = 0;
  for (let at = from; at <= to; at += 1) {
    if (values[at] == null) continue;
    const left = Math.round(u.valToPos(at - 0.5, "x", true)), y = Math.round(u.valToPos(values[at], "y", true));
    right = Math.round(u.valToPos(at + 0.5, "x", true));
    first === null ? line.moveTo(first = left, y) : line.lineTo(left, y);
    line.lineTo(right, y);
  }
  if (first === null) return null;
  const fill = new Path2D(line), floor = u.bbox.top + u.bbox.height;
  fill.lineTo(right, floor);
  fill.lineTo(first, floor);
  return { stroke: line, fill };
};

function legend(figure, items) {
  $(".legend", figure).replaceChildren(...items.map(([text, name, kind = ""]) => {
    const item = made("span");
    const mark = made("i", "", { class: kind });
    mark.style.color = mark.style.borderColor = `var(--${name})`;
    if (kind === "box") mark.style.background = `var(--${name})`;
    item.append(mark, text);
    return item;
  }));
}

// A chart and what is at hand without seeing it: a table, a cursor by keys, a line that tells.
function draw(figure, { options, columns, rows, told, enter, keys }) {
  const place = $(".plot", figure);
  const line = $(".at", figure);
  let plot, height = options().height;
  const at = (u) => { line.textContent = u.cursor.idx == null ? "\u00a0" : told(u.cursor.idx); };
  const make = () => {
    plot?.destroy();
    const own = options();
    height = own.height;
    plot = new uPlot({
      ...own,
      width: place.clientWidth || 600,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false, points: { size: 6 }, ...own.cursor },
      hooks: { ...own.hooks, setCursor: [at] },
    }, own.data, place);
    plot.over.addEventListener("click", () => plot.cursor.idx != null && enter?.(plot.cursor.idx, plot, true));
  };
  make();
  redrawn.push(make);
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height })).observe(place);
  place.addEventListener("keydown", (event) => {
    const last = plot.data[0].length - 1;
    const now = plot.cursor.idx ?? last + 1;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (to != null) {
      event.preventDefault();
      const idx = Math.max(0, Math.min(last, to));
      plot.setCursor({ left: plot.valToPos(plot.data[0][idx], "x"), top: 10 }, true, true);
      say(told(idx));
    } else if (event.key === "Enter" && plot.cursor.idx != null) enter?.(plot.cursor.idx, plot);
    else if (keys?.(event.key)) { event.preventDefault(); at(plot); if (plot.cursor.idx != null) say(told(plot.cursor.idx)); }
  });
  $("details", figure).addEventListener("toggle", (event) => {
    if (!event.target.open || $("table", event.target)) return;
    const table = made("table"), head = table.createTHead().insertRow(), body = table.createTBody();
    head.append(...columns.map((name) => made("th", name, { scope: "col" })));
    rows().forEach((row) => body.insertRow().append(...row.map((cell) => made("td", cell))));
    const wide = made("div", "", { class: "wide tall", tabindex: "0", role: "region", "aria-label": `${$("b", figure).textContent} as a table` });
    wide.append(table);
    event.target.append(wide);
  });
}

const axis = (more) => ({ stroke: colour("soft"), font: "11px system-ui", grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, ...more });

function runChart(runs, name) {
  const figure = $(`[data-chart="${name}"]`);
  if (!figure || !window.uPlot || !runs.runs.length) return;
  const x = runs.runs.map((_, at) => at);
  const span = Math.max(...runs.times) - Math.min(...runs.times);
  const label = (at) => short(runs.times[at], span);
  const base = (height, y, more = {}) => ({
    height,
    scales: { x: { time: false, range: [-0.5, x.length - 0.5] }, y: {} },
    axes: [axis({ size: 22, gap: 3, space: span > 86400 ? 84 : 48, incrs: [1, 2, 5, 10, 20, 50, 100], grid: { show: false }, values: (_, at) => at.map((one) => Number.isInteger(one) && runs.times[one] != null ? label(one) : "") }), axis({ size: 52, gap: 4, space: 26, ...y })],
    padding: [8, 8, 0, 0],
    ...more,
    cursor: { sync: { key: "runs" } },
  });
  const counts = { values: (_, at) => at.map(compact), };
  const zero = { x: { time: false, range: [-0.5, x.length - 0.5] }, y: { range: (_, min, max) => [0, max > 0 ? max * 1.08 : 1] } };
  const enter = (at) => { const row = $(`#run-${at}`); if (row) { row.focus(); row.scrollIntoView({ block: "center" }); } };
  const of = (at) => `${clock(runs.times[at])} ${runs.runs[at]}`;
  const lines = (items, height) => {
    legend(figure, items.map(([text, , name]) => [text, name]));
    draw(figure, {
      options: () => ({ ...base(height, counts), scales: zero, data: [x, ...items.map((item) => item[1])], series: [{}, ...items.map(([, , name]) => ({ stroke: colour(name), width: 1.8, points: { show: x.length < 40, size: 5 } }))] }),
      columns: ["Run", ...items.map((item) => item[0])],
      rows: () => x.map((at) => [of(at), ...items.map((item) => number(item[1][at]))]),
      told: (at) => `${of(at)}: ${items.map((item) => `${item[0]} ${number(item[1][at])}`).join(", ")}`,
      enter,
    });
  };
  const stacked = (parts, height, single) => {
    const names = Object.keys(parts);
    const kept = names.slice(0, names.length > COLOURS.length ? COLOURS.length - 1 : COLOURS.length);
    const rest = names.slice(kept.length);
    const shown = kept.map((one) => [one, parts[one]]);
    if (rest.length) shown.push([`${rest.length} others`, x.map((at) => rest.reduce((sum, one) => sum + (parts[one][at] ?? 0), 0))]);
    const paint = (at) => single ?? COLOURS[at % COLOURS.length];
    // The tallest first, so that each lower one is painted over it.
    const sums = shown.map((_, upTo) => x.map((at) => shown.slice(0, upTo + 1).reduce((sum, [, of]) => sum + (of[at] ?? 0), 0)));
    const order = shown.map((_, at) => at).reverse();
    if (!single) legend(figure, shown.map(([one], at) => [one, paint(at), "box"]));
    draw(figure, {
      options: () => ({ ...base(height, counts), scales: zero, data: [x, ...order.map((at) => sums[at])], series: [{}, ...order.map((at) => ({ fill: colour(paint(at)), width: 0, stroke: colour(paint(at)), paths: BARS, points: { show: false } }))] }),
      columns: ["Run", ...shown.map(([one]) => one)],
      rows: () => x.map((at) => [of(at), ...shown.map(([, values]) => number(values[at]))]),
      told: (at) => `${of(at)}: ${shown.filter(([, values]) => values[at]).map(([one, values]) => `${one} ${number(values[at])}`).join(", ") || "none"}`,
      enter,
    });
  };
  if (name === "accepted") stacked({ accepted: runs.accepted }, 140, "accepted");
  if (name === "rejected") stacked(runs.reasons, 140);
  if (name === "seconds") stacked(runs.seconds, 140);
  if (name === "late") lines([["late rows", runs.late, "c1"], ["corrected windows", runs.corrected, "corrected"]], 140);
  if (name === "state") lines([["bytes", runs.state, "c3"]], 140);
  if (name !== "picture") return;
  const known = [["closed up to", runs.closed, "closed"], ["watermark", runs.watermark, "watermark"], ["newest event", runs.newest, "newest"]].filter(([, values]) => values.some((one) => one != null));
  const all = [...known.flatMap((one) => one[1]), ...runs.marks.map((one) => one[1])].filter((one) => one != null);
  if (!all.length) return;
  const low = Math.min(...all), high = Math.max(...all), room = (high - low) * 0.06 || 60;
  const ySpan = high - low;
  const marked = runs.marks.reduce((found, [at, time]) => { (found[at] ??= []).push(time); return found; }, {});
  legend(figure, [...known.map(([text, , name]) => [text, name]), ...(runs.marks.length ? [["corrected window", "corrected", "dot full"]] : [])]);
  const marks = (u) => {
    const { ctx } = u;
    ctx.save();
    ctx.fillStyle = colour("corrected");
    ctx.globalAlpha = 0.85;
    for (const [at, time] of runs.marks) {
      ctx.beginPath();
      ctx.arc(u.valToPos(at, "x", true), u.valToPos(time, "y", true), 3.5 * devicePixelRatio, 0, 7);
      ctx.fill();
    }
    ctx.restore();
  };
  const said = (at) => {
    const times = (marked[at] ?? []).slice().sort((a, b) => a - b);
    const some = times.length ? `; ${times.length} corrected: ${times.slice(0, 6).map((one) => clock(one, ySpan > 86400)).join(", ")}${times.length > 6 ? " …" : ""}` : "";
    return `${of(at)}: ${known.map(([text, values]) => `${text} ${values[at] == null ? "–" : clock(values[at])}`).join(", ")}${some}`;
  };
  draw(figure, {
    options: () => {
      const own = base(230, { size: ySpan > 86400 ? 84 : 52, space: 28, incrs: TIMES, values: (_, at) => at.map((one) => short(one, ySpan)) });
      return {
        ...own,
        scales: { ...own.scales, y: { time: false, range: [low - room, high + room] } },
        data: [x, ...known.map((one) => one[1])],
        series: [{}, ...known.map(([, , name]) => ({ stroke: colour(name), fill: name === "closed" ? colour("closedshade") : undefined, width: name === "closed" ? 4 : 1.6, dash: name === "newest" ? [5, 4] : undefined, paths: steps, points: { show: false } }))],
        hooks: { draw: [marks] },
      };
    },
    columns: ["Run", ...known.map((one) => one[0]), "corrected windows, by their starts"],
    rows: () => x.map((at) => [of(at), ...known.map(([, values]) => values[at] == null ? "–" : clock(values[at])), (marked[at] ?? []).map((one) => clock(one)).join(", ") || "–"]),
    told: said,
    enter,
  });
}

function tableChart(chart) {
  const figure = $('[data-chart="table"]');
  if (!figure || !window.uPlot) return;
  const starts = [...new Set([...chart.keys.flatMap((one) => one.points.map((point) => point[0])), ...chart.before.map((one) => one[1])])].sort((a, b) => a - b);
  const index = new Map(starts.map((one, at) => [one, at]));
  const empty = () => new Array(starts.length).fill(null);
  const sets = chart.keys.map((one) => {
    const closed = empty(), open = empty(), status = empty(), value = empty();
    one.points.forEach(([start, of, told], at) => {
      const where = index.get(start);
      [value[where], status[where]] = [of, told];
      (told === "provisional" ? open : closed)[where] = of;
      // The dashed line begins where the full one ends.
      if (told === "provisional" && one.points[at - 1] && one.points[at - 1][2] !== "provisional") open[index.get(one.points[at - 1][0])] = one.points[at - 1][1];
    });
    return { ...one, closed, open, status, value, paint: COLOURS[chart.keys.indexOf(one) % COLOURS.length] };
  });
  sets.forEach((one, at) => { one.before = empty(); chart.before.filter((was) => was[0] === at).forEach(([, start, of]) => { one.before[index.get(start)] = of; }); });
  const any = (status) => sets.some((one) => one.status.includes(status));
  legend(figure, [...sets.map((one) => [one.label, one.paint]), ...(any("provisional") ? [["still open", "soft", "dashed"]] : []), ...(any("corrected") ? [["corrected", "soft", "dot full"]] : []), ...(chart.before.length ? [["before that", "soft", "dot"]] : [])]);
  const open = chart.keys.flatMap((one) => one.points.filter((point) => point[2] === "provisional").map((point) => point[0]));
  let chosen = 0;
  const span = starts.at(-1) - starts[0];
  const shade = (u) => {
    if (!open.length) return;
    const left = Math.max(u.bbox.left, u.valToPos(Math.min(...open), "x", true)), right = u.bbox.left + u.bbox.width;
    if (left >= right) return;
    u.ctx.save();
    u.ctx.fillStyle = colour("shade");
    u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
    u.ctx.fillStyle = u.ctx.strokeStyle = colour("soft");
    u.ctx.font = `${11 * devicePixelRatio}px system-ui`;
    u.ctx.fillRect(left, u.bbox.top, devicePixelRatio, u.bbox.height);
    u.ctx.textAlign = right - left > 90 * devicePixelRatio ? "left" : "right";
    u.ctx.fillText("still open", left + (u.ctx.textAlign === "left" ? 4 : -4) * devicePixelRatio, u.bbox.top + 11 * devicePixelRatio);
    u.ctx.restore();
  };
  const told = (at) => {
    const one = sets[chosen];
    const was = one.before[at] != null ? `, before ${number(one.before[at])}` : "";
    const others = sets.filter((of) => of !== one && of.value[at] != null).map((of) => `${of.label} ${number(of.value[at])}`);
    return `${clock(starts[at])} ${one.label}: ${number(one.value[at])}${one.status[at] ? ` (${one.status[at]}${was})` : ""}${others.length ? `; ${others.join(", ")}` : ""}`;
  };
  const sparse = starts.length < 60;
  const only = (wanted) => (u, at) => u.data[at].flatMap((value, where) => (value != null && wanted(where) ? [where] : []));
  const lone = (values) => (where) => values[where - 1] == null && values[where + 1] == null;
  draw(figure, {
    options: () => ({
      height: 280,
      padding: [8, 8, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { range: (_, min, max) => { const room = (max - min) * 0.01 || 600; return [min - room, max + room]; } } },
      axes: [
        axis({ size: 24, gap: 3, grid: { show: false }, incrs: TIMES, space: span > 86400 ? 84 : 48, values: (_, at) => at.map((one) => short(one, span)) }),
        axis({ size: 58, gap: 4, space: 28, values: (_, at) => at.map(compact) }),
      ],
      data: [starts, ...sets.flatMap((one) => [one.closed, one.open, one.before])],
      series: [{}, ...sets.flatMap((one) => {
        const paint = colour(one.paint), common = { stroke: paint, width: 1.8, spanGaps: true };
        return [
          { ...common, points: { show: true, size: 7, fill: paint, stroke: paint, filter: only((where) => one.status[where] === "corrected" || lone(one.closed)(where)) } },
          { ...common, dash: [5, 4], points: { show: sparse, size: 5, fill: colour("paper"), stroke: paint, filter: only((where) => one.status[where] === "provisional") } },
          { stroke: paint, paths: () => null, points: { show: true, size: 8, fill: colour("paper"), stroke: paint, width: 1.5, filter: only(() => true) } },
        ];
      })],
      hooks: { drawClear: [shade] },
      cursor: { focus: { prox: 24 } },
      focus: { alpha: 1 },
    }),
    columns: ["Window", ...sets.flatMap((one) => [one.label, "status", "before"])],
    rows: () => starts.map((start, at) => [clock(start), ...sets.flatMap((one) => [number(one.value[at]), one.status[at] ?? "", one.before[at] == null ? "" : number(one.before[at])])]),
    told,
    enter: (at, u, clicked) => {
      if (clicked) chosen = nearest(sets, at, u) ?? chosen;
      if (sets[chosen].value[at] == null) return say("There is no row of this key in that window.");
      const window_ = new Date(starts[at] * 1000).toISOString();
      tell(`${location.pathname.split("/").pop()}/story?window=${encodeURIComponent(window_)}&key=${encodeURIComponent(sets[chosen].key)}`);
    },
    keys: (key) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[key];
      if (step) chosen = (chosen + step + sets.length) % sets.length;
      return Boolean(step);
    },
  });
}

const nearest = (sets, at, u) => {
  const far = (one) => Math.abs(u.valToPos(one.value[at], "y") - u.cursor.top);
  const there = sets.map((_, set) => set).filter((set) => sets[set].value[at] != null);
  return there.sort((a, b) => far(sets[a]) - far(sets[b]))[0];
};

// The story of a row: HTML that the server made, in which rows are text.
async function tell(address) {
  const place = $("#story") ?? $("main").appendChild(made("div", "", { id: "story", "aria-live": "polite" }));
  place.replaceChildren(made("p", "Reading its story …", { class: "soft" }));
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    place.replaceChildren(...($("main", read) ?? read.body).childNodes);
  } catch { place.replaceChildren(made("p", "The story could not be read.", { class: "fault" })); }
  localTimes(place);
  place.tabIndex = -1;
  place.focus();
  place.scrollIntoView({ block: "nearest" });
}
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-story]");
  if (!link || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  tell(link.href);
});

if (data?.kind === "table") tableChart(data.chart);
if (data?.runs) ["picture", "accepted", "rejected", "late", "seconds", "state"].forEach((name) => runChart(data.runs, name));
