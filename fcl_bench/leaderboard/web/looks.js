// The theme, and the colour, symbol and dash of a row.

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

/** The theme that the reader has chosen before; with a name, remembers it. */
function chosenTheme(name) {
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
    dash: isOracle(row) ? "dash" : DASHES[again % DASHES.length],
  };
}

/** The symbol of a row in plots; open for an oracle. */
const marker = (row) => look(row).symbol + (isOracle(row) ? "-open" : "");

/** The same symbol in front of a name. */
function dot(row) {
  const [node, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  const attributes = { class: isOracle(row) ? "dot open" : "dot", viewBox: "0 0 10 10", "aria-hidden": "true" };
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  path.setAttribute("d", SYMBOLS[look(row).symbol]);
  node.append(path);
  node.row = row;
  node.style.setProperty("--dot", look(row).colour);
  return node;
}

function listenForTheme() {
  $("theme").addEventListener("click", () => {
    setTheme(theme() === "dark" ? "light" : "dark");
    chosenTheme(theme());
  });
  dark.addEventListener("change", () => chosenTheme() ?? setTheme(dark.matches ? "dark" : "light"));
}
