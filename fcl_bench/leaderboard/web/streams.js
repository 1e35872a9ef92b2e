// The picture of a stream: who holds which class when.

function showStreams() {
  const runs = state.board.rows.flatMap((row) => row.runs);
  const seeds = [...new Map(runs.map((run) => [run.stream, run.seed]))].sort((one, other) => one[1] - other[1]);
  $("seed").replaceChildren(...seeds.map(([hash, seed]) => option(hash, `${seed}`)));
  showStream();
}

function showStream() {
  const hash = $("seed").value;
  const picture = data.streams[hash];
  if (typeof picture === "string") {
    $("stream-note").textContent = `Stream ${hash}`;
    $("picture").replaceChildren(make("p", { class: "notice" }, `The picture is not available because ${picture}.`));
    return;
  }
  const { tasks, clients, shown, classes } = picture;
  const first = shown < clients ? ` The first ${shown} of ${clients} clients are shown.` : "";
  $("stream-note").textContent = `Who holds which class when: per task a column per client.${first} Stream ${hash}`;
  const title = `${plural(tasks, "task")}, ${plural(clients, "client")}, ${plural(classes, "class", "classes")}`;
  const note = "training samples of each class; the line ends the classes seen so far";
  $("picture").replaceChildren(figure(title, note, (width) => streamPlot(picture, width), "tall"));
}

function streamPlot(picture, width) {
  const { tasks, shown, classes } = picture;
  const wide = shown + 1; // a gap between tasks
  const { z, text } = streamCells(picture, wide);
  const highest = Math.max(1, Math.log10(picture.counts.reduce((most, count) => Math.max(most, count), 1)));
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
