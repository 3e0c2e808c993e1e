// Draws the figures of a page, in light or dark, with native controls for sliders and buttons.
"use strict";
const DARK = {/* DARK */};
const root = document.documentElement;
const night = matchMedia("(prefers-color-scheme: dark)");
const NARROW = 560, PRINTED = 660, MOST_BUTTONS = 6;
const figures = [];

// --- colour scheme: the system's, or the reader's own choice, kept where the browser allows it
const storage = (task) => { try { return task(localStorage); } catch { return null; } };
const chosen = storage((kept) => kept.getItem("scheme"));
if (chosen) root.dataset.scheme = chosen;
const isDark = () => root.dataset.scheme ? root.dataset.scheme === "dark" : night.matches;

function choose(dark) {
  if (dark === night.matches) {
    delete root.dataset.scheme;
    storage((kept) => kept.removeItem("scheme"));
  } else {
    root.dataset.scheme = dark ? "dark" : "light";
    storage((kept) => kept.setItem("scheme", root.dataset.scheme));
  }
}

function recolored(value, dark) {
  if (!dark) return value;
  if (typeof value === "string") return DARK[value] ?? value;
  if (Array.isArray(value)) return value.map((item) => recolored(item, dark));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, recolored(v, dark)]));
}

// --- layout: the title is the caption, controls are native, labels take the room they need
function laidOut({ data, layout: given }, width) {
  const layout = structuredClone(given), narrow = width < NARROW;
  const above = (layout.annotations ?? []).filter((a) => a.yref === "paper" && a.y >= 1);
  const top = above.length ? 12 + 20 * (narrow ? above.length : 1) : 14;
  const old = { t: 100, b: 80, r: 30, ...layout.margin };
  const height = (layout.height ?? 430) - (old.t - top) - (old.b - 60);
  const beside = old.r > 60 || data.some(({ textposition }) => textposition === "outside");
  const size = narrow ? 11 : layout.font?.size ?? 13;
  for (const key of Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name))) {
    Object.assign(layout[key], { automargin: true, tickcolor: "#595959", linecolor: "#595959" });
    if (narrow) small(layout[key], key[0], data);
  }
  if (narrow) smallLabels(layout, above);
  delete layout.template; delete layout.title; delete layout.updatemenus; delete layout.sliders;
  return { ...layout, font: { ...layout.font, size }, width, height, autosize: false,
    dragmode: narrow ? false : "zoom",
    margin: { l: 12, r: narrow ? (beside ? Math.min(old.r, 90) : 12) : old.r, t: top, b: 12 } };
}

const wrapped = (text, width) =>
  text.replace(new RegExp(`(.{1,${width}})(?:\\s+|$)`, "g"), "$1<br>").replace(/<br>$/, "");

function small(axis, way, data) {
  if (axis.title?.text) {
    axis.title = { ...axis.title, text: wrapped(axis.title.text, 28), font: { size: 12 } };
  }
  if (way === "x") { axis.nticks = 5; return; }
  const names = [...new Set(data.flatMap(({ y = [] }) => y))].filter((y) => typeof y === "string");
  if (names.length > 8) axis.tickfont = { ...axis.tickfont, size: 9 };
  else if (names.length && !axis.ticktext) {
    Object.assign(axis, { tickvals: names, ticktext: names.map((name) => wrapped(name, 14)) });
  }
}

function smallLabels(layout, above) {
  for (const label of layout.annotations ?? []) label.font = { ...label.font, size: 10 };
  if (layout.legend?.orientation === "h") layout.legend.x = 0;
  above.forEach((label, place) =>
    Object.assign(label, { x: 0, xanchor: "left", yshift: 17 * (above.length - 1 - place) }));
}

// --- drawing, one after the other for each figure
function draw(figure, how) {
  figure.turn = figure.turn.then(() => drawNow(figure, how));
  return figure.turn;
}

async function drawNow(figure, { dark = isDark(), width = figure.plot.clientWidth } = {}) {
  const whole = figure.given.data.map((trace) => trace.textposition === "outside"
    ? { ...trace, cliponaxis: false } : trace);
  const data = recolored(structuredClone(whole), dark);
  const layout = recolored(laidOut(figure.given, width), dark);
  await Plotly.react(figure.plot, data, layout, { displayModeBar: false });
  for (const change of Object.values(figure.held)) await apply(figure, change, dark);
  figure.width = width;
  figure.plot.dataset.drawn = dark ? "dark" : "light";
}

const LAYOUT_OF = { restyle: -1, relayout: 0, update: 1 };  // which argument is about the layout
function apply(figure, { method, args }, dark = isDark()) {
  if (!Object.hasOwn(LAYOUT_OF, method)) return undefined;
  const told = args.map((part, n) => n === LAYOUT_OF[method] ? captioned(figure, part) : part);
  return Plotly[method](figure.plot, ...recolored(structuredClone(told), dark));
}

// a control's title goes where the first one is, into caption and text alternative, not into the
// drawing; returned is what is left to draw
function captioned({ plot }, { "title.text": text, title = text, ...rest }) {
  if (title === undefined) return rest;
  const caption = plot.closest(".figure").querySelector("figcaption");
  const said = plain(title.text ?? title), old = caption.textContent;
  plot.ariaLabel = plot.ariaLabel.replace(bare(old), () => bare(said));
  caption.textContent = said;
  return rest;
}

const bare = (sentence) => sentence.replace(/\.$/, "");
const plain = (markup) => new DOMParser()
  .parseFromString(markup.replace(/<[^>]+>/g, " "), "text/html")
  .body.textContent.replace(/\s+/g, " ").trim();

// --- native controls: plotly's own cannot be reached with a keyboard
const element = (tag, properties, ...inside) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...inside);
  return made;
};

function hold(figure, key, change) {
  figure.held[key] = change;
  return apply(figure, change);
}

function slider(figure, { steps, active = 0, currentvalue = {} }, key) {
  const output = element("output", {}, steps[active].label);
  const input = element("input", { type: "range", min: 0, max: steps.length - 1, value: active });
  const told = () => input.setAttribute("aria-valuetext", steps[input.value].label);
  input.addEventListener("input", () => {
    output.textContent = steps[input.value].label;
    told();
    hold(figure, key, steps[input.value]);
  });
  told();
  return element("label", {}, (currentvalue.prefix ?? "step").trim(), input, output);
}

function buttons(figure, { buttons: choices, active = 0, name }, key) {
  const made = choices.map((choice, place) => {
    const button = element("button", { type: "button", ariaPressed: place === active }, choice.label);
    button.addEventListener("click", () => {
      made.forEach((other) => { other.ariaPressed = other === button; });
      hold(figure, key, choice);
    });
    return button;
  });
  return element("fieldset", {}, element("legend", {}, name ?? "Show"), ...made);
}

function list(figure, { buttons: choices, active = 0, name }, key) {
  const options = choices.map((choice) => element("option", {}, choice.label));
  const select = element("select", {}, ...options);
  select.selectedIndex = active;
  select.addEventListener("change", () => hold(figure, key, choices[select.selectedIndex]));
  return element("label", {}, name ?? "Show", select);
}

const menu = (figure, one, key) =>
  (one.type === "buttons" && one.buttons.length <= MOST_BUTTONS ? buttons : list)(figure, one, key);

function prepare(place) {
  const given = JSON.parse(place.querySelector("script").textContent);
  const figure = { given, plot: place.querySelector(".plot"), held: {}, width: 0,
    turn: Promise.resolve() };
  const { updatemenus = [], sliders = [] } = given.layout;
  place.querySelector(".controls").append(
    ...updatemenus.map((one, n) => menu(figure, one, `menu ${n}`)),
    ...sliders.map((one, n) => slider(figure, one, `slider ${n}`)));
  return figure;
}

// --- the page: what scrolls can be reached with a keyboard, what is printed is open and fits
function reachable() {
  for (const box of document.querySelectorAll("pre, .output_subarea, .text_cell_render")) {
    const scrolls = box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX === "auto";
    if (scrolls) Object.assign(box, { tabIndex: 0, role: "group", ariaLabel: "scrolls sideways" });
    else box.removeAttribute("tabindex");
  }
}

const drawAll = (how) => Promise.all(figures.map((figure) => draw(figure, how)));

function scheme() {
  const button = document.getElementById("scheme");
  const show = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  const changed = () => { show(); return drawAll(); };
  button.addEventListener("click", () => {
    choose(!isDark());
    changed();
  });
  night.addEventListener("change", changed);
  show();
}

function printing() {
  const closed = () => [...document.querySelectorAll("details:not([open])")];
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = closed();
    opened.forEach((details) => { details.open = true; });
    drawAll({ dark: false, width: PRINTED });
  });
  addEventListener("afterprint", () => {
    opened.forEach((details) => { details.open = false; });
    drawAll();
  });
}

function resizing() {
  new ResizeObserver(() => requestAnimationFrame(() => {
    reachable();
    figures.filter((f) => f.width && f.width !== f.plot.clientWidth).forEach((f) => draw(f));
  })).observe(document.querySelector("main"));
}

addEventListener("DOMContentLoaded", () => {
  figures.push(...[...document.querySelectorAll(".figure")].map(prepare));
  scheme();
  printing();
  reachable();
  drawAll().then(resizing);
});
