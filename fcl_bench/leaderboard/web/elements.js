// Parts of the page. Every text of a record reaches it through text nodes here or plain(), never as HTML.

const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(2).filter((child) => child != null));
  return node;
}

const option = (value, text, selected = false) => make("option", { value, selected }, text);
const button = (content, label, onclick) => make("button", { type: "button", "aria-label": label, onclick }, content);

const sentences = (texts) => texts.map((text) => make("li", {}, text));

function select(label, options, value, changed) {
  const choices = options.map(([key, text]) => option(key, text, key === value));
  return make("select", { "aria-label": label, onchange: (event) => changed(event.target.value) }, choices);
}

/** A box that puts a name into a set, or takes it out. */
function checkbox(text, checked, set, name, changed) {
  const onchange = (event) => {
    if (event.target.checked) set.add(name);
    else set.delete(name);
    changed();
  };
  return make("label", {}, make("input", { type: "checkbox", checked, onchange }), text);
}

/** A table that scrolls sideways where it is too wide, with a button that says so, and an edge that fades. */
function scrollable(label, table, id = null) {
  const area = make("div", { id, class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
  const more = make("button", { class: "more", type: "button", onclick: () => turn(area) });
  const node = make("div", { class: "edges" }, more, area);
  const update = () => showEdges(node, area, more);
  area.addEventListener("scroll", update, { passive: true });
  const resized = new ResizeObserver(update);
  resized.observe(area);
  resized.observe(table);
  return node;
}

/** Says in `data-more` at which sides columns are hidden, and on the button how many. */
function showEdges(node, area, more) {
  const end = area.scrollLeft + area.clientWidth;
  const heads = [...area.querySelectorAll("thead th")];
  const hidden = heads.filter((head) => head.offsetLeft + head.offsetWidth > end + 1).length;
  const sides = { left: area.scrollLeft > 1, right: hidden > 0 };
  node.dataset.more = Object.keys(sides).filter((side) => sides[side]).join(" ");
  node.style.setProperty("--area", `${area.offsetHeight}px`); // where the edge fades
  node.style.setProperty("--columns", heads.length); // by which the letters on paper are chosen
  more.hidden = !sides.left && !sides.right;
  more.textContent = hidden ? `${plural(hidden, "more column")} →` : "← first columns";
}

function turn(area) {
  const atEnd = area.scrollLeft + area.clientWidth >= area.scrollWidth - 1;
  area.scrollTo({ left: atEnd ? 0 : area.scrollLeft + 0.6 * area.clientWidth, behavior: "smooth" });
}
