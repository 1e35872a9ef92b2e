// Figures in general: the plotting library, which is unpacked when it is needed, and what all plots share.

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
    node.dataset.drawn = "";
  };
  nearby.observe(node);
  return node;
}

function repaint() {
  for (const node of document.querySelectorAll("figure")) node.repaint();
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "quiet", "rule", "card", "sans"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
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

const SCALES = { // one hue, from close to the background to far from it; text is legible on those of accuracy
  light: { samples: ["#b9d6e9", "#5a9cc8", "#08365c"], accuracy: ["#f4f8fb", "#98c3e0", "#4a97ca"] },
  dark: { samples: ["#27506c", "#2f6c94", "#bfe3fa"], accuracy: ["#1d2830", "#264f6d", "#2f78aa"] },
};
const scale = (kind) => SCALES[theme()][kind].map((colour, index) => [index / 2, colour]);

/** At the side of the plot, or below it where there is little room. */
function colourBar(title, width) {
  const place = width < 500 ? { orientation: "h", y: -0.12, yanchor: "top" } : {};
  return { thickness: 10, outlinewidth: 0, title: { text: title, side: width < 500 ? "bottom" : "right" }, ...place };
}

const label = (row) => plain(short(row.name, 22));
