// The controls of the page, and its start.

function fillControls() {
  placeTable();
  const { boards, methods, runs, note } = data;
  const rows = boards.flatMap((board) => board.rows);
  const numbers = [plural(boards.length, "board"), plural(methods.length, "method"), plural(runs, "run")];
  $("summary").textContent = numbers.join(" · ");
  $("note").textContent = note;
  $("protocols").append(...sentences(data.protocols));
  $("protocols").hidden = !data.protocols.length;
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

function listen() {
  $("board").addEventListener("change", (event) => go(data.boards[event.target.value]));
  for (const name of ["search", "oracles", "intervals"]) $(name).addEventListener("input", showRows);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("seed").addEventListener("change", showStream);
  $("details").addEventListener("close", closed);
  $("details").addEventListener("click", ({ target, currentTarget, clientX }) => {
    if (target === currentTarget && clientX < target.getBoundingClientRect().left) target.close(); // at its side
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address names the board
    $("table").focus();
  });
  addEventListener("hashchange", route);
  listenForMenu();
  listenForTheme();
  listenForPrint();
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

async function start() {
  document.documentElement.dataset.theme = chosenTheme() ?? (dark.matches ? "dark" : "light");
  data = JSON.parse(await unpack("data"));
  data.boards.forEach(numberVariants);
  fillControls();
  listen();
  setTheme(theme());
  if (data.boards.length) route();
  document.documentElement.dataset.ready = "";
  setTimeout(plotly, 2000); // printing cannot wait for it
}

start();
