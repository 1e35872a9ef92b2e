// Scatter plots of a board: accuracy and its price, with labels that hide nothing.

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
  const total = (values) => (values.includes(null) ? null : sum(values));
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
  const competitors = points.filter((point) => point.row.ranked);
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

const PLACES = [ // of a label around its point, with the label's left and upper end from there
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
