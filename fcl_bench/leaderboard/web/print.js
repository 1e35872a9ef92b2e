// Paper: light, with every figure drawn, and each as wide as its place on the paper allows.

/** Lets a drawn plot be scaled by its box: without a view box its parts keep their size in pixels. */
function makeScalable(plot) {
  plot.style.aspectRatio = `${plot.clientWidth} / ${plot.clientHeight}`;
  for (const svg of plot.querySelectorAll(".main-svg")) {
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
  }
}

/** On the screen Plotly sizes its parts itself. */
function makeFixed(plot) {
  for (const svg of plot.querySelectorAll(".main-svg")) svg.removeAttribute("viewBox");
}

/** Draws before the browser goes on to print, provided that the library is there. */
async function drawForPaper(node) {
  node.wanted = true;
  await node.repaint();
  makeScalable(node.querySelector(".plot"));
}

function listenForPrint() {
  let before;
  addEventListener("beforeprint", () => {
    before = theme();
    setTheme("light");
    document.querySelectorAll("figure").forEach(drawForPaper);
  });
  addEventListener("afterprint", () => {
    document.querySelectorAll(".plot").forEach(makeFixed);
    setTheme(before);
  });
}
