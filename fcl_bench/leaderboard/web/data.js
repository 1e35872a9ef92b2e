// What the file holds, what is chosen, and the address that names it.

let data; // all boards, as page_data.py writes them
const state = {
  board: null, sort: null, sign: -1, // of the table; 1 is ascending
  columns: new Set(), facts: new Set(), // chosen
  row: null, compared: [], seeds: "band", view: null, // of the details
};

async function unpack(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

const metric = (key) => data.columns.findIndex((column) => column.key === key);
const isOracle = (row) => row.facts.includes("oracle");
/** What a run says about the tasks in the chosen view; nothing if its record does not have it. */
const inView = (run) => (state.view === data.views[0] ? run : run.views[state.view]);
const hasViews = (board) => board.rows.some((row) => row.runs.some((run) => Object.keys(run.views).length));
const factName = (fact) => data.facts[fact] ?? fact;

/** Rows of one method on a board are numbered, to look different; those that compete come first. */
function numberVariants({ rows }) {
  const seen = new Map();
  for (const row of [...rows].sort((one, other) => other.ranked - one.ranked)) {
    row.variant = seen.get(row.method) ?? 0;
    seen.set(row.method, row.variant + 1);
  }
}

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
