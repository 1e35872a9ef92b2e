// What happens from task to task: curves of several methods, and the matrix of one.

function curveFigure(row, title, index) {
  const number = row.runs.length;
  const note = number > 1 ? `mean over ${number} seeds, band: ± standard deviation` : "a single seed";
  return figure(title, note, () => curvePlot(index));
}

function curvePlot(index) {
  const rows = [...state.compared, state.row].filter((row) => hasCurve(row, index)); // the last is drawn on top
  const tasks = state.row.runs[0].matrix.length;
  return {
    traces: rows.flatMap((row) => (state.seeds === "lines" ? seedTraces : bandTraces)(row, index)),
    xaxis: { title: "task", dtick: Math.ceil(tasks / 10), range: [0.7, tasks + 0.3], showgrid: false },
    yaxis: { title: "" }, showlegend: true, margin: { l: 40, r: 10, t: 14, b: 40 },
  };
}

/** A record may lack a curve or a view, or have a curve without values. */
function hasCurve(row, index) {
  return row.runs.every((run) => inView(run)?.curves[index].some((value) => value !== null));
}

function bandTraces(row, index) {
  const curves = row.runs.map((run) => inView(run).curves[index]);
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
    ...curveTrace(row, inView(run).curves[index], `, seed ${run.seed}`), legendgroup: row.name, showlegend: number === 0,
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
  const z = chosenMatrix(row.runs.map(matrixInView), $("matrix-seed").value);
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

/** Empty if the record does not have the view. */
function matrixInView(run) {
  return inView(run)?.matrix ?? run.matrix.map((line) => line.map(() => null));
}

function chosenMatrix(matrices, chosen) {
  if (chosen !== "mean") return matrices[chosen];
  return matrices[0].map((line, i) => line.map((_, j) => mean(matrices.map((matrix) => matrix[i][j]))));
}
