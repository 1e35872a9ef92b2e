"use strict";
// Every text of a record reaches the page through text nodes or plain(), never as HTML.

// ---------------------------------------------------------------- helpers

const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child != null));
  return node;
}

async function unpack(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

const option = (value, text, selected = false) => make("option", { value, selected }, text);
const button = (content, label, onclick) => make("button", { type: "button", "aria-label": label, onclick }, content);

function select(label, options, value, changed) {
  const choices = options.map(([key, text]) => option(key, text, key === value));
  return make("select", { "aria-label": label, onchange: (event) => changed(event.target.value) }, choices);
}

const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;"); // for labels of plots
const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const range = (length) => Array.from({ length }, (_, index) => index);
const mean = (values) => (values.includes(null) ? null : values.reduce((sum, value) => sum + value, 0) / values.length);
const plural = (number, word, words = `${word}s`) => `${number} ${number === 1 ? word : words}`;

function deviation(values) {
  const middle = mean(values);
  if (middle === null || values.length < 2) return 0;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
}

// ---------------------------------------------------------------- state

let data; // what the file holds
let columns; // of the present board, in the order of the table
const state = {
  board: null, sort: null, sign: -1, // of the table; 1 is ascending
  columns: new Set(), facts: new Set(), // chosen
  row: null, beside: [], seeds: "band", // of the details
};

const metric = (key) => data.columns.findIndex((column) => column.key === key);
const oracle = (row) => row.facts.includes("oracle");
const factName = (fact) => data.facts[fact] ?? fact;

function go(board, row) {
  location.hash = new URLSearchParams(row ? { board: board.heading, method: row.name } : { board: board.heading });
}

function route() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const board = data.boards.find((one) => one.heading === asked.get("board")) ?? data.boards[0];
  if (board !== state.board) showBoard(board);
  const row = board.rows.find((one) => one.name === asked.get("method"));
  if (row) openDetails(row);
  else $("details").close();
}

// ---------------------------------------------------------------- theme and looks of methods

const COLOURS = { // far apart for colour-blind readers too, at least 3:1 against their background
  light: ["#1166e5", "#e0700f", "#2f9e5a", "#cf62c4", "#674b16", "#0c3b70", "#63192d", "#6d7679"],
  dark: ["#7e73ee", "#cd680d", "#66e6a0", "#a4749e", "#efc93e", "#8bc1f1", "#ed435e", "#d5dee2"],
};
const SYMBOLS = { // as plots name them, and as paths in a box of 10 x 10
  circle: "M5 1a4 4 0 1 0 0 8a4 4 0 1 0 0-8z", square: "M1.5 1.5h7v7h-7z", diamond: "M5 .5L9.5 5L5 9.5L.5 5z",
  "triangle-up": "M5 1L9.5 9H.5z", cross: "M3.5 .5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
  star: "M5 .3L6.4 3.6L9.9 3.9L7.2 6.2L8 9.7L5 7.8L2 9.7L2.8 6.2L.1 3.9L3.6 3.6z", "triangle-down": "M5 9L.5 1h9z",
  hexagon: "M5 .5L9 2.8v4.4L5 9.5L1 7.2v-4.4z",
  x: "M2.2.8L5 3.6L7.8.8L9.2 2.2L6.4 5L9.2 7.8L7.8 9.2L5 6.4L2.2 9.2L.8 7.8L3.6 5L.8 2.2z",
};
const DASHES = ["solid", "dot", "dashdot", "longdash"]; // an oracle is dashed
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => document.documentElement.dataset.theme;

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "☀ Light" : "☾ Dark";
  $("theme").setAttribute("aria-pressed", name === "dark");
  for (const dot of document.querySelectorAll(".dot")) dot.style.setProperty("--dot", look(dot.row).colour);
  repaint();
}

function kept(name) {
  try {
    if (name) localStorage.setItem("fcl-bench-theme", name);
    return localStorage.getItem("fcl-bench-theme");
  } catch {
    return null; // a browser may refuse storage to files
  }
}

/** A colour for each method; those of one colour, and rows of one method, differ in symbol and dash. */
function look(row) {
  const number = data.methods.indexOf(row.method);
  const place = number % COLOURS.light.length;
  const again = Math.floor(number / COLOURS.light.length) + row.variant;
  const names = Object.keys(SYMBOLS);
  return {
    colour: COLOURS[theme()][place],
    symbol: names[(place + again) % names.length],
    dash: oracle(row) ? "dash" : DASHES[again % DASHES.length],
  };
}

/** The symbol of a row in plots; open for an oracle. */
const marker = (row) => look(row).symbol + (oracle(row) ? "-open" : "");

function dot(row) {
  const [node, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  const attributes = { class: oracle(row) ? "dot open" : "dot", viewBox: "0 0 10 10", "aria-hidden": "true" };
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  path.setAttribute("d", SYMBOLS[look(row).symbol]);
  node.append(path);
  node.row = row;
  node.style.setProperty("--dot", look(row).colour);
  return node;
}

// ---------------------------------------------------------------- table

function showBoard(board) {
  state.board = board;
  state.sort = board.sort;
  state.sign = data.columns[metric(board.sort)].lower ? 1 : -1;
  $("board").value = data.boards.indexOf(board);
  $("heading").textContent = board.heading;
  $("stream").textContent = board.stream;
  showHead();
  showRows();
  showStreams();
}

function tableColumns(board) {
  const chosen = data.columns.filter((column) => state.columns.has(column.key) && column.key !== board.sort);
  const best = (row) => row.name === board.best;
  const seeds = (row) => row.runs.length;
  const cell = (text) => (row) => make("td", {}, text(row));
  return [
    { key: "method", title: "method", sign: 1, value: (row) => row.name, cell: nameCell },
    { key: "seeds", title: "seeds", sign: -1, value: seeds, cell: cell((row) => `${seeds(row)}`) },
    numberColumn(board.sort),
    { key: "p", title: "p (Holm)", sign: -1, value: (row) => (best(row) ? 2 : row.p_value), // the best above every p
      cell: cell((row) => (best(row) ? "best" : row.p)) },
    ...chosen.map((column) => numberColumn(column.key)),
    { key: "facts", title: "facts", cell: (row) => make("td", { class: "facts" }, tags(row)) },
  ];
}

function numberColumn(key) {
  const index = metric(key);
  const { title, lower, score } = data.columns[index];
  const cell = (row) => numberCell(row, index, score);
  return { key, title, sign: lower ? 1 : -1, value: (row) => row.means[index], cell };
}

function numberCell(row, index, score) {
  const [middle, spread] = row.texts[index].split(" ± ");
  const shown = make(["span", "b", "u"][row.marks[index]], {}, middle);
  const interval = score && $("intervals").checked ? make("small", {}, row.intervals[index]) : null;
  return make("td", {}, shown, spread ? make("i", {}, ` ± ${spread}`) : null, interval);
}

function nameCell(row) {
  const more = [row.name.slice(row.method.length).trim(), oracle(row) ? "reference" : ""].filter(Boolean).join(" ");
  const open = make("button", { class: "name", type: "button", "aria-haspopup": "dialog" }, dot(row), row.method);
  if (more) open.append(make("small", {}, more));
  return make("th", { scope: "row" }, open);
}

const tags = (row) => row.facts.flatMap((fact) => [make("span", { class: "tag" }, factName(fact)), " "]);

function showHead() {
  columns = tableColumns(state.board);
  const head = columns.map((column) => make("th", { scope: "col", class: column.key === "facts" ? "facts" : null },
    column.value ? make("button", { type: "button", onclick: () => sortBy(column) }, column.title) : column.title));
  $("table").querySelector("thead").replaceChildren(make("tr", {}, head));
  $("columns").querySelectorAll("input").forEach((input, index) => { // that of the order is always there
    input.disabled = data.columns[index].key === state.board.sort;
  });
}

function sortBy(column) {
  state.sign = state.sort === column.key ? -state.sign : column.sign;
  state.sort = column.key;
  showRows();
}

function sorted(rows) {
  const { value } = columns.find((column) => column.key === state.sort) ?? numberColumn(state.sort);
  const order = (one, other) => (one < other ? -state.sign : one > other ? state.sign : 0);
  const undefinedLast = (one, other) => (one === null) - (other === null);
  return [...rows].sort((one, other) => undefinedLast(value(one), value(other)) || order(value(one), value(other)));
}

function visible() {
  const words = $("search").value.toLowerCase().split(/\s+/);
  return state.board.rows.filter((row) => words.every((word) => row.name.toLowerCase().includes(word))
    && [...state.facts].every((fact) => row.facts.includes(fact)) && ($("oracles").checked || !oracle(row)));
}

function showRows() {
  const rows = sorted(visible());
  const lines = rows.map((row) => make("tr", { onclick: (event) => choose(event, row) },
    columns.map((column) => column.cell(row))));
  $("table").querySelector("tbody").replaceChildren(...lines);
  $("table").querySelectorAll("thead th").forEach((th, index) => {
    if (columns[index].key === state.sort) th.setAttribute("aria-sort", state.sign > 0 ? "ascending" : "descending");
    else th.removeAttribute("aria-sort");
  });
  $("count").textContent = `${rows.length} of ${plural(state.board.rows.length, "row")}`;
  for (const figure of $("scatters").children) figure.repaint();
}

function choose(event, row) {
  if (getSelection().toString()) return; // a reader who copies a number
  event.currentTarget.querySelector("button").focus();
  go(state.board, row);
}

// ---------------------------------------------------------------- plots

const CONFIG = { displaylogo: false, responsive: true, modeBarButtons: [["toImage"]] };
const nearby = new IntersectionObserver((entries) => {
  for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
    nearby.unobserve(target);
    target.wanted = true;
    target.repaint();
  }
}, { rootMargin: "200px" });
let library;

function plotly() {
  library ??= unpack("plotly").then((code) => {
    document.head.append(make("script", {}, code));
    return window.Plotly;
  });
  return library;
}

/** A figure that is drawn when it comes into sight; `describe(width, height)` gives its traces and layout. */
function figure(title, note, describe, kind = "") {
  const plot = make("div", { class: "plot", role: "img", "aria-label": `${title}: ${note}` });
  const node = make("figure", { class: kind }, make("figcaption", {}, title, make("small", {}, note)), plot);
  node.repaint = async () => {
    if (!node.wanted) return;
    const Plotly = await plotly();
    if (!node.isConnected) return;
    const { traces, ...more } = describe(plot.clientWidth, plot.clientHeight);
    await Plotly.react(plot, traces, layout(more), CONFIG);
  };
  nearby.observe(node);
  return node;
}

function repaint() {
  for (const node of document.querySelectorAll("figure")) node.repaint();
}

function colours() {
  const found = getComputedStyle(document.documentElement);
  const names = ["ink", "quiet", "rule", "card", "sans"];
  return Object.fromEntries(names.map((name) => [name, found.getPropertyValue(`--${name}`).trim()]));
}

function layout({ xaxis, yaxis, ...more }) {
  const { ink, quiet, rule, card, sans } = colours();
  const lines = { gridcolor: rule, linecolor: rule, tickcolor: rule, zeroline: false };
  const axis = { ...lines, automargin: true, fixedrange: true };
  const titled = ({ title, ...rest }) => ({ ...axis, title: { text: title, standoff: 10 }, ...rest });
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: sans, size: 12, color: quiet },
    margin: { l: 50, r: 12, t: 14, b: 44 }, dragmode: false, hovermode: "closest", showlegend: false,
    hoverlabel: { bgcolor: card, bordercolor: rule, font: { family: sans, color: ink }, align: "left" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: ink },
    legend: { orientation: "h", traceorder: "reversed", y: -0.2, yanchor: "top", font: { color: ink } },
    xaxis: titled(xaxis), yaxis: titled(yaxis), ...more,
  };
}

// ---------------------------------------------------------------- scatter plots of a board

const SCATTERS = [
  { title: "Accuracy and traffic", note: "average accuracy against all bytes sent",
    x: ["uplink_bytes", "downlink_bytes"], xTitle: "traffic, up and down (MB)", y: "average_accuracy", front: true },
  { title: "Accuracy and time", note: "average accuracy against seconds of training",
    x: ["runtime_seconds"], xTitle: "training (s)", y: "average_accuracy", front: true },
  { title: "Stability and plasticity", note: "what is kept against what is learned",
    x: ["stability"], xTitle: "stability (%)", y: "plasticity", front: false },
];

function scatter(kind, width, height) {
  const points = scatterPoints(kind);
  const front = kind.front ? paretoFront(points) : [];
  const xs = extent(points.map((point) => point.x), kind.front);
  const ys = extent(points.map((point) => point.y), false);
  const positions = labelPlaces(points, front, pixels(xs, ys, width - 70, height - 70), width - 70);
  return {
    traces: [frontTrace(front), pointTrace(points, positions)],
    xaxis: { title: kind.xTitle, type: xs.log ? "log" : "linear", range: xs.range, dtick: xs.log ? "D2" : null },
    yaxis: { title: data.columns[metric(kind.y)].title.replace("average", "average accuracy"), range: ys.range },
  };
}

function scatterPoints({ x, y }) {
  const total = (values) => (values.includes(null) ? null : values.reduce((sum, value) => sum + value));
  const at = (row) => ({
    row, x: total(x.map((key) => row.means[metric(key)])), y: row.means[metric(y)], sd: row.deviations[metric(y)] ?? 0,
  });
  return visible().map(at).filter((point) => point.x !== null && point.y !== null);
}

/** The range of an axis with room for labels; logarithmic, if allowed, for values of very different size. */
function extent(values, mayBeLog) {
  const log = mayBeLog && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 20;
  const scaled = log ? values.map(Math.log10) : values;
  const [low, high] = values.length ? [Math.min(...scaled), Math.max(...scaled)] : [0, 1];
  const room = (high - low) * 0.14 || 1;
  return { log, range: [low - room, high + room] };
}

/** The competitors that no other one beats in both: less of x, more of y. */
function paretoFront(points) {
  const competitors = points.filter((point) => !oracle(point.row));
  competitors.sort((one, other) => one.x - other.x || other.y - one.y);
  const front = [];
  for (const point of competitors) if (!front.length || point.y > front.at(-1).y) front.push(point);
  return front;
}

function frontTrace(front) {
  return {
    name: "Pareto front", mode: "lines", hoverinfo: "skip",
    x: front.map((point) => point.x), y: front.map((point) => point.y),
    line: { shape: "hv", dash: "dash", width: 1.5, color: colours().quiet },
  };
}

function pointTrace(points, positions) {
  const colour = points.map((point) => look(point.row).colour);
  const symbol = points.map((point) => marker(point.row));
  return {
    name: "methods", mode: "markers+text", x: points.map((point) => point.x), y: points.map((point) => point.y),
    text: points.map((point, index) => (positions[index] ? `\u00a0${label(point.row)}\u00a0` : "")),
    textposition: positions.map((position) => position ?? "middle right"), textfont: { size: 11, color: colours().ink },
    marker: { size: 10, color: colour, symbol, line: { width: 1.5, color: colour } },
    error_y: { array: points.map((point) => point.sd), thickness: 1, width: 3, color: colours().quiet },
    customdata: points.map((point) => plain(point.row.name)), cliponaxis: false,
    hovertemplate: "<b>%{customdata}</b><br>%{xaxis.title.text}: %{x:.2f}<br>%{yaxis.title.text}: %{y:.2f}"
      + "<extra></extra>",
  };
}

const label = (row) => plain(short(row.name, 22));
const PLACES = [ // of a label beside its point, with the label's left and upper end from there
  ["middle right", () => 10, -8], ["middle left", (width) => -width - 10, -8],
  ["top center", (width) => -width / 2, -24], ["bottom center", (width) => -width / 2, 8],
  ["top right", () => 5, -22], ["top left", (width) => -width - 5, -22],
  ["bottom right", () => 5, 6], ["bottom left", (width) => -width - 5, 6],
];

/** From values to pixels of the drawing. */
function pixels(xs, ys, width, height) {
  const share = (value, [low, high]) => (value - low) / (high - low);
  return (x, y) => [width * share(xs.log ? Math.log10(x) : x, xs.range), height * (1 - share(y, ys.range))];
}

/** Where each label goes such that it hides neither a point, a line nor another label; undefined if nowhere. */
function labelPlaces(points, front, at, right) {
  const taken = [...points.map((point) => pointBox(point, at)), ...frontBoxes(front, at)];
  return points.map((point) => {
    const [x, y] = at(point.x, point.y);
    const size = 6.2 * short(point.row.name, 22).length;
    for (const [name, left, upper] of PLACES) {
      const box = [x + left(size), y + upper, x + left(size) + size, y + upper + 15];
      if (box[0] < 0 || box[2] > right || taken.some((other) => overlap(box, other))) continue;
      taken.push(box);
      return name;
    }
  });
}

function pointBox(point, at) {
  const [[x, top], [, bottom]] = [at(point.x, point.y + point.sd), at(point.x, point.y - point.sd)];
  return [x - 5, top - 5, x + 5, bottom + 5];
}

function frontBoxes(front, at) {
  return front.slice(1).flatMap((point, index) => {
    const [[x, y], [left, low]] = [at(point.x, point.y), at(front[index].x, front[index].y)];
    return [[left, low - 1, x, low + 1], [x - 1, y, x + 1, low]];
  });
}

const overlap = (one, other) => one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];

// ---------------------------------------------------------------- picture of the stream

function showStreams() {
  const runs = state.board.rows.flatMap((row) => row.runs);
  const seeds = [...new Map(runs.map((run) => [run.stream, run.seed]))].sort((one, other) => one[1] - other[1]);
  $("seed").replaceChildren(...seeds.map(([hash, seed]) => option(hash, `${seed}`)));
  showStream();
}

function showStream() {
  const hash = $("seed").value;
  const found = data.streams[hash];
  if (typeof found === "string") {
    $("stream-note").textContent = `Stream ${hash}`;
    $("picture").replaceChildren(make("p", { class: "notice" }, `The picture is not available because ${found}.`));
    return;
  }
  const { tasks, clients, shown, classes } = found;
  const first = shown < clients ? ` The first ${shown} of ${clients} clients are shown.` : "";
  $("stream-note").textContent = `Who holds which class when: per task a column per client.${first} Stream ${hash}`;
  const title = `${plural(tasks, "task")}, ${plural(clients, "client")}, ${plural(classes, "class", "classes")}`;
  const note = "training samples of each class; the line ends the classes seen so far";
  $("picture").replaceChildren(figure(title, note, (width) => streamPlot(found, width), "tall"));
}

function streamPlot(found, width) {
  const { tasks, shown, classes } = found;
  const wide = shown + 1; // a gap between tasks
  const { z, text } = streamCells(found, wide);
  const highest = Math.max(1, Math.log10(found.counts.reduce((most, count) => Math.max(most, count), 1)));
  const powers = range(Math.floor(highest) + 1);
  const bar = { ...colourBar("samples", width), tickvals: powers, ticktext: powers.map((power) => `${10 ** power}`) };
  const middles = range(tasks).map((task) => task * wide + (shown - 1) / 2);
  return {
    traces: [{
      type: "heatmap", z, text, zmin: 0, zmax: highest, colorscale: scale("samples"), colorbar: bar, hoverongaps: false,
      hovertemplate: "%{text}<extra></extra>",
    }, seenTrace(z, tasks, wide)],
    xaxis: { title: "task", tickvals: middles, ticktext: middles.map((_, task) => `${task + 1}`), showgrid: false },
    yaxis: { title: "class, in order of registration", range: [classes - 0.5, -0.5], showgrid: false },
  };
}

function streamCells({ tasks, shown, classes, steps, counts }, wide) {
  const z = range(classes).map(() => Array(tasks * wide - 1).fill(null));
  const text = z.map((line) => [...line]);
  let cell = 0;
  steps.forEach((step, index) => {
    cell += step;
    const [share, number] = [Math.floor(cell / classes), cell % classes];
    const [task, client] = [Math.floor(share / shown), share % shown];
    z[number][task * wide + client] = Math.log10(counts[index]);
    const holder = `task ${task + 1}, client ${client}, class ${number}`;
    text[number][task * wide + client] = `${holder}: ${plural(counts[index], "sample")}`;
  });
  return { z, text };
}

function seenTrace(z, tasks, wide) {
  const [x, y] = [[], []];
  let seen = 0;
  for (const task of range(tasks)) {
    const held = z.map((line) => line.slice(task * wide, (task + 1) * wide).some((value) => value !== null));
    seen = Math.max(seen, held.lastIndexOf(true) + 1);
    x.push(task * wide - 0.5, (task + 1) * wide - 1.5, null);
    y.push(seen - 0.5, seen - 0.5, null);
  }
  return { mode: "lines", x, y, hoverinfo: "skip", line: { color: COLOURS[theme()][1], width: 1.5 } };
}

const SCALES = { // one hue, from close to the background to far from it; text is legible on those of accuracy
  light: { samples: ["#b9d6e9", "#5a9cc8", "#08365c"], accuracy: ["#f4f8fb", "#98c3e0", "#4a97ca"] },
  dark: { samples: ["#27506c", "#2f6c94", "#bfe3fa"], accuracy: ["#1d2830", "#264f6d", "#2f78aa"] },
};
const scale = (kind) => SCALES[theme()][kind].map((colour, index) => [index / 2, colour]);

/** Beside the plot, or below where there is little room. */
function colourBar(title, width) {
  const place = width < 500 ? { orientation: "h", y: -0.12, yanchor: "top" } : {};
  return { thickness: 10, outlinewidth: 0, title: { text: title, side: width < 500 ? "bottom" : "right" }, ...place };
}

// ---------------------------------------------------------------- details of a method

function openDetails(row) {
  const { board } = state;
  const others = board.rows.filter((one) => one !== row);
  const rival = others.find((one) => one.name === board.best) ?? others.find((one) => !oracle(one));
  Object.assign(state, { row, beside: rival ? [rival] : [] });
  const close = button("✕ Close", "Close details", () => $("details").close());
  const matrixNote = "Accuracy (%) on the test set of each task after learning each task";
  $("details").replaceChildren(
    make("header", {}, make("h2", { id: "name" }, dot(row), row.name), close),
    make("p", { class: "quiet" }, board.heading), make("p", {}, tags(row)),
    make("h3", {}, "Over tasks"), make("div", { id: "beside", class: "chips" }),
    make("div", { id: "curves", class: "grid" }, data.curves.map((name, index) => curveFigure(row, name, index))),
    make("h3", {}, "Task by task"), seedChoice(row),
    figure("Task matrix", matrixNote, (width) => matrixPlot(row, width), "tall"),
    make("h3", {}, "Every metric, every seed"), metricTable(row),
    make("h3", {}, "Runs"), ...row.runs.map(runDetails));
  showBeside();
  if (!$("details").open) $("details").showModal();
  $("details").scrollTop = 0;
}

function closed() {
  if ($("details").open) return; // another method was opened at once
  for (const plot of $("details").querySelectorAll(".js-plotly-plot")) window.Plotly.purge(plot);
  $("details").replaceChildren();
  if (state.row) go(state.board);
  state.row = null;
}

/** The methods drawn beside the one in question: take one away, add one, band or lines. */
function showBeside() {
  const change = (changes) => {
    Object.assign(state, changes);
    showBeside();
    for (const node of $("curves").children) node.repaint();
  };
  const without = (row) => ({ beside: state.beside.filter((one) => one !== row) });
  const chips = state.beside.map((row) =>
    button([dot(row), short(row.name, 40), " ✕"], `Remove ${row.name}`, () => change(without(row))));
  const others = state.board.rows.filter((row) => row !== state.row && !state.beside.includes(row));
  const choices = [["", "add a method"], ...others.map((row, index) => [index, row.name])];
  const also = (index) => ({ beside: [...state.beside, others[index]] });
  const add = select("Add a method to the plots", choices, "", (index) => change(also(index)));
  const seeds = select("How seeds are drawn", [["band", "mean and band"], ["lines", "a line per seed"]],
    state.seeds, (value) => change({ seeds: value }));
  $("beside").replaceChildren("compared with", ...chips, ...(others.length ? [add] : []), seeds);
}

const CURVE_TITLES = {
  average_accuracy: "Average accuracy (%)", retention: "Retention",
  stability: "Stability (%)", plasticity: "Plasticity (%)",
};

function curveFigure(row, name, index) {
  const number = row.runs.length;
  const note = number > 1 ? `mean over ${number} seeds, band: ± standard deviation` : "a single seed";
  return figure(CURVE_TITLES[name], note, () => curvePlot(index));
}

function curvePlot(index) {
  const rows = [...state.beside, state.row]; // the last is drawn on top
  const tasks = Math.max(...rows.flatMap((row) => row.runs.map((run) => run.curves[index].length)));
  return {
    traces: rows.flatMap((row) => (state.seeds === "lines" ? seedTraces : bandTraces)(row, index)),
    xaxis: { title: "task", dtick: Math.ceil(tasks / 10), range: [0.7, tasks + 0.3], showgrid: false },
    yaxis: { title: "" }, showlegend: true, margin: { l: 40, r: 10, t: 14, b: 40 },
  };
}

function bandTraces(row, index) {
  const curves = row.runs.map((run) => run.curves[index]);
  const steps = curves[0].map((_, task) => curves.map((curve) => curve[task]));
  const line = { ...curveTrace(row, steps.map(mean), " ± %{customdata:.2f}"), customdata: steps.map(deviation) };
  return curves.length > 1 ? [bandTrace(line, look(row).colour), line] : [curveTrace(row, curves[0], "")];
}

function bandTrace({ y, customdata }, colour) {
  const there = range(y.length).filter((task) => y[task] !== null);
  const back = [...there].reverse();
  return {
    mode: "lines", hoverinfo: "skip", showlegend: false, fill: "toself", fillcolor: `${colour}33`, line: { width: 0 },
    x: [...there, ...back].map((task) => task + 1),
    y: [...there.map((task) => y[task] + customdata[task]), ...back.map((task) => y[task] - customdata[task])],
  };
}

function seedTraces(row, index) {
  return row.runs.map((run, number) => ({
    ...curveTrace(row, run.curves[index], `, seed ${run.seed}`), legendgroup: row.name, showlegend: number === 0,
  }));
}

function curveTrace(row, y, more) {
  const { colour, dash } = look(row);
  return {
    name: label(row), mode: "lines+markers", x: y.map((_, task) => task + 1), y,
    line: { color: colour, width: 2, dash }, marker: { symbol: marker(row), size: 6, color: colour },
    hovertemplate: `${label(row)}, task %{x}: %{y:.2f}${more}<extra></extra>`,
  };
}

function seedChoice(row) {
  const average = row.runs.length > 1 ? [["mean", "mean of all"]] : [];
  const seeds = row.runs.map((run, index) => [index, `${run.seed}`]);
  const redraw = () => $("details").querySelector("figure.tall").repaint();
  const choice = select("Seed of the task matrix", [...average, ...seeds], null, redraw);
  choice.id = "matrix-seed";
  return make("p", {}, make("label", { class: "field" }, "Seed", choice));
}

function matrixPlot(row, width) {
  const z = chosenMatrix(row.runs.map((run) => run.matrix), $("matrix-seed").value);
  const names = z[0].map((_, task) => `${task + 1}`);
  const axis = { type: "category", showgrid: false };
  return {
    traces: [{
      type: "heatmap", z, x: names, y: names.slice(0, z.length), zmin: 0, zmax: 100, xgap: 1, ygap: 1,
      colorscale: scale("accuracy"), colorbar: colourBar("accuracy (%)", width), textfont: { color: colours().ink },
      texttemplate: names.length <= 12 ? "%{z:.0f}" : "", hoverongaps: false,
      hovertemplate: "task %{x} after task %{y}: %{z:.2f} %<extra></extra>",
    }],
    xaxis: { ...axis, title: "tested on task" },
    yaxis: { ...axis, title: "after learning task", autorange: "reversed" },
  };
}

function chosenMatrix(matrices, chosen) {
  if (chosen !== "mean") return matrices[chosen];
  return matrices[0].map((line, i) => line.map((_, j) => mean(matrices.map((matrix) => matrix[i][j]))));
}

function metricTable(row) {
  const heads = ["metric", "mean", "95 %", ...row.runs.map((run) => `seed ${run.seed}`)];
  const cells = (index) => [row.texts[index], row.intervals[index], ...row.runs.map((run) => run.values[index])];
  const lines = data.columns.map((column, index) =>
    make("tr", {}, make("th", { scope: "row" }, column.title), cells(index).map((text) => make("td", {}, text))));
  const head = make("thead", {}, make("tr", {}, heads.map((text) => make("th", { scope: "col" }, text))));
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Every metric, every seed" },
    make("table", {}, head, make("tbody", {}, lines)));
}

function runDetails(run, index) {
  const facts = Object.entries({
    seed: run.seed, "run id": run.id, "stream hash": run.stream, "hash of inputs": run.inputs, commit: run.commit,
  });
  const list = facts.map(([name, value]) => [make("dt", {}, name), make("dd", {}, `${value ?? "not recorded"}`)]);
  return make("details", { class: "run", open: index === 0 },
    make("summary", {}, `Seed ${run.seed}, run ${run.id}`),
    make("div", {},
      make("dl", {}, list),
      make("h4", {}, "Command"), commandLine(run.command),
      settings("Configuration", run.config.map((part) => data.pool[part]).join("\n")),
      settings("Environment", data.pool[run.environment])));
}

function settings(title, text) {
  const box = { class: "settings", tabindex: 0, role: "region", "aria-label": title };
  return [make("h4", {}, title), make("pre", box, text)];
}

function commandLine(command) {
  if (!command) return make("p", { class: "quiet" }, "not recorded");
  const text = make("pre", { class: "command" }, command);
  const copy = button("Copy", "Copy the command", () => copied(copy, text));
  return make("div", { class: "copy" }, text, copy);
}

async function copied(copy, text) {
  try {
    await navigator.clipboard.writeText(text.textContent);
  } catch { // not allowed for this file: copy what is selected
    getSelection().selectAllChildren(text);
    document.execCommand("copy");
  }
  copy.textContent = "Copied";
  setTimeout(() => { copy.textContent = "Copy"; }, 1500);
}

// ---------------------------------------------------------------- start

function fillControls() {
  const { boards, methods, note } = data;
  const rows = boards.flatMap((board) => board.rows);
  const runs = rows.flatMap((row) => row.runs);
  const numbers = [plural(boards.length, "board"), plural(methods.length, "method"), plural(runs.length, "run")];
  $("summary").textContent = numbers.join(" · ");
  $("note").textContent = note;
  $("choice").hidden = boards.length < 2;
  $("board").append(...boards.map((board, index) => option(index, board.heading)));
  fillFacts(new Set(rows.flatMap((row) => row.facts)));
  fillColumns();
  $("scatters").append(...SCATTERS.map((kind) => figure(kind.title, kind.note, (...size) => scatter(kind, ...size))));
}

function fillFacts(declared) {
  const known = new Set([...Object.keys(data.facts), ...declared]);
  const facts = [...known].filter((fact) => declared.has(fact) && fact !== "oracle");
  $("facts").append(...facts.map((fact) => checkbox(factName(fact), false, state.facts, fact, showRows)));
  $("facts").hidden = !facts.length;
}

function fillColumns() {
  const change = () => {
    showHead();
    showRows();
  };
  for (const { key, title, shown } of data.columns) {
    if (shown) state.columns.add(key);
    $("columns").lastElementChild.append(checkbox(title, shown, state.columns, key, change));
  }
}

/** Whether a name is in a set. */
function checkbox(text, checked, set, name, changed) {
  const onchange = (event) => {
    if (event.target.checked) set.add(name);
    else set.delete(name);
    changed();
  };
  return make("label", {}, make("input", { type: "checkbox", checked, onchange }), text);
}

function listen() {
  $("board").addEventListener("change", (event) => go(data.boards[event.target.value]));
  for (const name of ["search", "oracles", "intervals"]) $(name).addEventListener("input", showRows);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("seed").addEventListener("change", showStream);
  $("details").addEventListener("close", closed);
  $("details").addEventListener("click", ({ target, currentTarget, clientX }) => {
    if (target === currentTarget && clientX < target.getBoundingClientRect().left) target.close(); // beside it
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address names the board
    $("table").focus();
  });
  addEventListener("hashchange", route);
  listenForMenu();
  listenForTheme();
}

function listenForMenu() {
  const menu = $("columns");
  addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

function listenForTheme() {
  $("theme").addEventListener("click", () => {
    setTheme(theme() === "dark" ? "light" : "dark");
    kept(theme());
  });
  dark.addEventListener("change", () => kept() ?? setTheme(dark.matches ? "dark" : "light"));
  let before;
  addEventListener("beforeprint", () => {
    before = theme();
    setTheme("light");
  });
  addEventListener("afterprint", () => setTheme(before));
}

/** Rows of one method on a board are numbered, to look different. */
function numberVariants({ rows }) {
  const seen = new Map();
  for (const row of rows) {
    row.variant = seen.get(row.method) ?? 0;
    seen.set(row.method, row.variant + 1);
  }
}

async function start() {
  document.documentElement.dataset.theme = kept() ?? (dark.matches ? "dark" : "light");
  data = JSON.parse(await unpack("data"));
  data.boards.forEach(numberVariants);
  fillControls();
  listen();
  setTheme(theme());
  if (data.boards.length) route();
  document.documentElement.dataset.ready = "";
}

start();
