// The details of a method.

function openDetails(row) {
  const { board } = state;
  const others = board.rows.filter((one) => one !== row);
  const rival = others.find((one) => one.name === board.best) ?? others.find((one) => one.ranked);
  Object.assign(state, { row, compared: rival ? [rival] : [], view: data.views[0] });
  const close = button("✕ Close", "Close details", () => $("details").close());
  const matrixNote = "Accuracy (%) on the test set of each task after learning each task";
  $("details").replaceChildren(
    make("header", {}, make("h2", { id: "name" }, dot(row), row.name), close),
    make("p", { class: "quiet" }, board.heading), make("p", {}, tags(row)),
    make("h3", {}, "Over tasks"), make("div", { id: "compared", class: "chips" }),
    make("div", { id: "curves", class: "grid" }, data.curves.map((title, index) => curveFigure(row, title, index))),
    make("h3", {}, "Task by task"), seedChoice(row),
    figure("Task matrix", matrixNote, (width) => matrixPlot(row, width), "tall"),
    make("h3", {}, "Every metric, every seed"), metricTable(row),
    make("h3", {}, "Runs"), ...row.runs.map(runDetails));
  showCompared();
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

/** The methods drawn with the one in question: take one away, add one, band or lines, and which tests tasks have. */
function showCompared() {
  const change = (changes) => {
    Object.assign(state, changes);
    showCompared();
    for (const node of $("details").querySelectorAll("figure")) node.repaint();
  };
  const without = (row) => ({ compared: state.compared.filter((one) => one !== row) });
  const chips = state.compared.map((row) =>
    button([dot(row), short(row.name, 40), " ✕"], `Remove ${row.name}`, () => change(without(row))));
  const others = state.board.rows.filter((row) => row !== state.row && !state.compared.includes(row));
  const choices = [["", "add a method"], ...others.map((row, index) => [index, row.name])];
  const also = (index) => ({ compared: [...state.compared, others[index]] });
  const add = select("Add a method to the plots", choices, "", (index) => change(also(index)));
  const seeds = select("How seeds are drawn", [["band", "mean and band"], ["lines", "a line per seed"]],
    state.seeds, (value) => change({ seeds: value }));
  const tests = select("Which tests tasks have", data.views.map((view) => [view, `tests: ${view}`]),
    state.view, (value) => change({ view: value }));
  const shown = [...(others.length ? [add] : []), ...(hasViews(state.board) ? [tests] : []), seeds];
  $("compared").replaceChildren("compared with", ...chips, ...shown);
}

function metricTable(row) {
  const heads = ["metric", "mean", "95 %", ...row.runs.map((run) => `seed ${run.seed}`)];
  const cells = (index) => [row.texts[index], row.intervals[index], ...row.runs.map((run) => run.values[index])];
  const lines = data.columns.map((column, index) =>
    make("tr", {}, make("th", { scope: "row" }, column.title), cells(index).map((text) => make("td", {}, text))));
  const head = make("thead", {}, make("tr", {}, heads.map((text) => make("th", { scope: "col" }, text))));
  return scrollable("Every metric, every seed", make("table", {}, head, make("tbody", {}, lines)));
}

function runDetails(run, index) {
  const facts = Object.entries({
    seed: run.seed, "run id": run.id, "stream hash": run.stream, "hash of inputs": run.inputs, commit: run.commit,
    certificate: run.certificate ?? "none", checked: run.trust,
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
