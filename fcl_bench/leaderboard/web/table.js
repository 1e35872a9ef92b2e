// The table of a board: columns, order, filters.

let columns; // of the present board, in their order

/** The empty table, in its place on the page. */
function placeTable() {
  const caption = make("caption", { class: "hidden" }, "Methods by their metrics; a method's name opens its details");
  const table = make("table", {}, caption, make("thead"), make("tbody"));
  $("place-of-table").replaceWith(scrollable("Table of methods", table, "table"));
}

function showBoard(board) {
  state.board = board;
  state.sort = board.sort;
  state.sign = data.columns[metric(board.sort)].lower ? 1 : -1;
  $("board").value = data.boards.indexOf(board);
  $("heading").textContent = board.heading;
  $("stream").textContent = board.stream;
  $("statements").replaceChildren(...sentences(board.statements));
  showHead();
  showRows();
  showStreams();
}

function tableColumns(board) {
  const chosen = data.columns.filter((column) => state.columns.has(column.key) && column.key !== board.sort);
  const best = (row) => row.name === board.best;
  const seeds = (row) => row.runs.length;
  const cell = (text) => (row) => make("td", {}, text(row));
  const tuning = { key: "tuned", title: "tuned", cell: (row) => make("td", { class: "words" }, row.tuned) };
  return [
    { key: "method", title: "method", sign: 1, value: (row) => row.name, cell: nameCell },
    { key: "seeds", title: "seeds", sign: -1, value: seeds, cell: cell((row) => row.seeds) },
    numberColumn(board.sort),
    { key: "p", title: "p (Holm)", sign: -1, value: (row) => (best(row) ? 2 : row.p_value), // the best above every p
      cell: cell((row) => (best(row) ? "best" : row.p)) },
    ...chosen.map((column) => numberColumn(column.key)),
    ...(board.tuning ? [tuning] : []),
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
  const more = [row.name.slice(row.method.length).trim(), isOracle(row) ? "reference" : ""].filter(Boolean).join(" ");
  const method = make("span", { title: row.method }, row.method);
  const open = make("button", { class: "name", type: "button", "aria-haspopup": "dialog" }, dot(row), method);
  if (more) open.append(make("small", {}, more));
  return make("th", { scope: "row" }, open);
}

const tags = (row) => row.facts.flatMap((fact) => [make("span", { class: "tag" }, factName(fact)), " "]);

function showHead() {
  columns = tableColumns(state.board);
  const head = columns.map((column) => make("th", { scope: "col", class: { facts: "facts", tuned: "words" }[column.key] },
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
    && [...state.facts].every((fact) => row.facts.includes(fact)) && ($("oracles").checked || !isOracle(row)));
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
