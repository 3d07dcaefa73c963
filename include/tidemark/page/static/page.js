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

// A chart and what is at hand without seeing it: a table, a cursor by keys, a line that tells.
function draw(figure, { options, height, items, columns, rows, told, enter, keys }) {
  $(".legend", figure).replaceChildren(...items.map(([text, name, kind = ""]) => {
    const item = made("span"), mark = made("i", "", { class: kind });
    mark.style.color = `var(--${name})`;
    item.append(mark, text);
    return item;
  }));
  const place = $(".plot", figure), line = $(".at", figure);
  let plot;
  const at = (u) => { line.textContent = u.cursor.idx == null ? "\u00a0" : told(u.cursor.idx); };
  const make = () => {
    plot?.destroy();
    const own = options();
    plot = new uPlot({
      ...own,
      height,
      padding: [8, 8, 0, 0],
      width: place.clientWidth || 600,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false, points: { size: 6 }, ...own.cursor },
      hooks: { ...own.hooks, setCursor: [at] },
    }, own.data, place);
    plot.over.addEventListener("click", () => plot.cursor.idx != null && enter(plot.cursor.idx, plot, true));
  };
  make();
  redrawn.push(make);
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height })).observe(place);
  place.addEventListener("keydown", (event) => {
    const last = plot.data[0].length - 1, now = plot.cursor.idx ?? last + 1;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (to != null) {
      const idx = Math.max(0, Math.min(last, to));
      plot.setCursor({ left: plot.valToPos(plot.data[0][idx], "x"), top: 10 }, true, true);
    } else if (keys?.(event.key)) at(plot);
    else if (event.key === "Enter" && plot.cursor.idx != null) return enter(plot.cursor.idx, plot);
    else return;
    event.preventDefault();
    if (plot.cursor.idx != null) say(told(plot.cursor.idx));
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
const timeAxis = (span, more) => axis({ incrs: TIMES, values: (_, at) => at.map((one) => short(one, span)), ...more });

// A column for each run. `series` are layers, lines, or event times as steps, with windows as marks.
function runChart(figure, { runs, times, marks }, series) {
  const name = figure.dataset.chart, picture = name === "picture", stacked = !["picture", "late", "state"].includes(name);
  const x = runs.map((_, at) => at), span = Math.max(...times) - Math.min(...times);
  const of = (at) => `${clock(times[at])} ${runs[at]}`;
  const value = (one) => picture ? (one == null ? "–" : clock(one)) : number(one);
  // The tallest first, so that each lower one is painted over it.
  const sums = x.map(() => 0);
  const drawn = stacked ? series.map(([label, paint, values]) => [label, paint, values.map((one, at) => sums[at] += one ?? 0)]).reverse() : series;
  const corrected = Object.groupBy(marks, ([at]) => at);
  const windows = (at) => (corrected[at] ?? []).map((one) => one[1]).sort((a, b) => a - b);
  const all = [...series.flatMap((one) => one[2]), ...marks.map((one) => one[1])].filter((one) => one != null);
  const low = Math.min(...all), high = Math.max(...all), room = (high - low) * 0.06 || 60;
  const line = (paint) => picture
    ? { stroke: colour(paint), fill: paint === "closed" ? colour("closedshade") : undefined, width: paint === "closed" ? 4 : 1.6, dash: paint === "newest" ? [5, 4] : undefined, paths: steps, points: { show: false } }
    : stacked ? { fill: colour(paint), width: 0, stroke: colour(paint), paths: BARS, points: { show: false } }
      : { stroke: colour(paint), width: 1.8, points: { show: x.length < 40, size: 5 } };
  const dots = (u) => {
    u.ctx.save();
    u.ctx.fillStyle = colour("corrected");
    u.ctx.globalAlpha = 0.85;
    for (const [at, time] of marks) {
      u.ctx.beginPath();
      u.ctx.arc(u.valToPos(at, "x", true), u.valToPos(time, "y", true), 3.5 * devicePixelRatio, 0, 7);
      u.ctx.fill();
    }
    u.ctx.restore();
  };
  draw(figure, {
    height: picture ? 230 : 140,
    items: [...series.map(([label, paint]) => [label, paint, stacked ? "box" : paint === "newest" ? "dashed" : ""]), ...(picture && marks.length ? [["corrected window", "corrected", "dot full"]] : [])],
    options: () => ({
      scales: { x: { time: false, range: [-0.5, x.length - 0.5] }, y: { time: false, range: (_, min, max) => picture ? [low - room, high + room] : [0, max > 0 ? max * 1.08 : 1] } },
      axes: [
        axis({ size: 26, gap: 7, space: span > 86400 ? 84 : 48, incrs: [1, 2, 5, 10, 20, 50, 100], grid: { show: false }, values: (_, at) => at.map((one) => Number.isInteger(one) && times[one] != null ? short(times[one], span) : "") }),
        picture ? timeAxis(high - low, { size: high - low > 86400 ? 84 : 52, gap: 4, space: 28 }) : axis({ size: 52, gap: 4, space: 26, values: (_, at) => at.map(compact) }),
      ],
      data: [x, ...drawn.map((one) => one[2])],
      series: [{}, ...drawn.map((one) => line(one[1]))],
      hooks: { draw: picture ? [dots] : [] },
      cursor: { sync: { key: "runs" } },
    }),
    columns: ["Run", ...series.map((one) => one[0]), ...(picture ? ["corrected windows, by their starts"] : [])],
    rows: () => x.map((at) => [of(at), ...series.map((one) => value(one[2][at])), ...(picture ? [windows(at).map((one) => clock(one)).join(", ") || "–"] : [])]),
    told: (at) => {
      const some = picture ? windows(at) : [], told = series.filter((one) => !stacked || one[2][at]);
      return `${of(at)}: ${told.map(([label, , values]) => `${label} ${value(values[at])}`).join(", ") || "none"}` + (some.length ? `; ${some.length} corrected: ${some.slice(0, 6).map((one) => clock(one, high - low > 86400)).join(", ")}${some.length > 6 ? " …" : ""}` : "");
    },
    enter: (at) => { const row = $(`#run-${at}`); row?.focus(); row?.scrollIntoView({ block: "center" }); },
  });
}

function tableChart(figure, { starts, windows, keys }) {
  const isOpen = (status) => status === "provisional";
  const sets = keys.map((one, at) => {
    const there = one.value.flatMap((value, where) => value == null ? [] : [where]);
    // The dashed line begins where the full one ends.
    const joint = there.filter((where, n) => !isOpen(one.status[where]) && isOpen(one.status[there[n + 1]]));
    return {
      ...one,
      paint: COLOURS[at],
      closed: one.value.map((value, where) => isOpen(one.status[where]) ? null : value),
      open: one.value.map((value, where) => isOpen(one.status[where]) || joint.includes(where) ? value : null),
    };
  });
  const any = (status) => sets.some((one) => one.status.includes(status));
  const open = starts.find((_, at) => sets.some((one) => isOpen(one.status[at])));
  const span = starts.at(-1) - starts[0], sparse = starts.length < 60;
  let chosen = 0;
  const shade = (u) => {
    if (open == null) return;
    const left = Math.max(u.bbox.left, u.valToPos(open, "x", true)), right = u.bbox.left + u.bbox.width;
    if (left >= right) return;
    const wide = right - left > 90 * devicePixelRatio;
    u.ctx.save();
    u.ctx.fillStyle = colour("shade");
    u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
    u.ctx.fillStyle = colour("soft");
    u.ctx.font = `${11 * devicePixelRatio}px system-ui`;
    u.ctx.fillRect(left, u.bbox.top, devicePixelRatio, u.bbox.height);
    u.ctx.textAlign = wide ? "left" : "right";
    u.ctx.fillText("still open", left + (wide ? 4 : -4) * devicePixelRatio, u.bbox.top + 11 * devicePixelRatio);
    u.ctx.restore();
  };
  const only = (wanted) => (u, at) => u.data[at].flatMap((value, where) => value != null && wanted(where) ? [where] : []);
  const lone = (values, where) => values[where - 1] == null && values[where + 1] == null;
  draw(figure, {
    height: 280,
    items: [...sets.map((one) => [one.label, one.paint]), ...(any("provisional") ? [["still open", "soft", "dashed"]] : []), ...(any("corrected") ? [["corrected", "soft", "dot full"]] : []), ...(sets.some((one) => one.before.some((was) => was != null)) ? [["before that", "soft", "dot"]] : [])],
    options: () => ({
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: { range: (_, min, max) => { const room = (max - min) * 0.01 || 600; return [min - room, max + room]; } } },
      axes: [timeAxis(span, { size: 24, gap: 3, grid: { show: false }, space: span > 86400 ? 84 : 48 }), axis({ size: 58, gap: 4, space: 28, values: (_, at) => at.map(compact) })],
      data: [starts, ...sets.flatMap((one) => [one.closed, one.open, one.before])],
      series: [{}, ...sets.flatMap((one) => {
        const paint = colour(one.paint), common = { stroke: paint, width: 1.8, spanGaps: true };
        return [
          { ...common, points: { show: true, size: 7, fill: paint, stroke: paint, filter: only((where) => one.status[where] === "corrected" || lone(one.closed, where)) } },
          { ...common, dash: [5, 4], points: { show: sparse, size: 5, fill: colour("paper"), stroke: paint, filter: only((where) => isOpen(one.status[where])) } },
          { stroke: paint, paths: () => null, points: { show: true, size: 8, fill: colour("paper"), stroke: paint, width: 1.5, filter: only(() => true) } },
        ];
      })],
      hooks: { drawClear: [shade] },
    }),
    columns: ["Window", ...sets.flatMap((one) => [one.label, "status", "before"])],
    rows: () => starts.map((start, at) => [clock(start), ...sets.flatMap((one) => [number(one.value[at]), one.status[at] ?? "", one.before[at] == null ? "" : number(one.before[at])])]),
    told: (at) => {
      const one = sets[chosen], was = one.before[at] == null ? "" : `, before ${number(one.before[at])}`;
      const others = sets.filter((of) => of !== one && of.value[at] != null).map((of) => `; ${of.label} ${number(of.value[at])}`);
      return `${clock(starts[at])} ${one.label}: ${number(one.value[at])}${one.status[at] ? ` (${one.status[at]}${was})` : ""}${others.join("")}`;
    },
    enter: (at, u, clicked) => {
      const far = (one) => Math.abs(u.valToPos(one.value[at], "y") - u.cursor.top);
      const there = sets.filter((one) => one.value[at] != null);
      if (clicked && there.length) chosen = sets.indexOf(there.sort((a, b) => far(a) - far(b))[0]);
      if (sets[chosen].value[at] == null) return say("There is no row of this key in that window.");
      tell(`${location.pathname.split("/").pop()}/story?window=${encodeURIComponent(windows[at])}&key=${encodeURIComponent(sets[chosen].key)}`);
    },
    keys: (key) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[key];
      if (step) chosen = (chosen + step + sets.length) % sets.length;
      return step;
    },
  });
}

// The story of a row: HTML that the server made, in which rows are text.
async function tell(address) {
  const place = $("#story");
  place.replaceChildren(made("p", "Reading its story …", { class: "soft" }));
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    place.replaceChildren(...($("#told", read) ?? $("main", read)).childNodes);
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

if (data && window.uPlot) $$("[data-chart]").forEach((figure) => {
  if (data.starts?.length) tableChart(figure, data);
  else if (data.runs?.length) runChart(figure, data, data.charts[figure.dataset.chart]);
});
