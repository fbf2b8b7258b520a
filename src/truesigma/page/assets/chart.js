"use strict";
// A small drawing kit: scales, axes, lines, bands, and points that answer to the pointer and to the arrow keys.
// Text from the data only ever becomes textContent or an attribute, never markup.

const SVG = "http://www.w3.org/2000/svg";

function make(space, name, attributes, parent, text) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}
const svg = (name, attributes, parent, text) => make(SVG, name, attributes, parent, text);
const node = (name, attributes, parent, text) => make(null, name, attributes, parent, text);

/** A number with three figures, as the Python side writes it. */
function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  let text = "0";
  if (size && (size < 1e-3 || size >= 1e6)) {
    text = size.toExponential(2).replace("e+", "e");
  } else if (size) {
    const power = Math.floor(Math.log10(size));
    text = power < 2 ? size.toFixed(2 - power) : String(Math.round(size / 10 ** (power - 2)) * 10 ** (power - 2));
  }
  return (value < 0 ? "−" : "") + text;
}
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u00a0%`;
const withUnit = (text, unit, square) => (unit ? `${text}\u00a0${unit}${square ? "²" : ""}` : text);

/** Round numbers that cut a range in about so many steps. */
function ticks(from, to, count) {
  const rough = (to - from) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((k) => k * power >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to * (1 + 1e-9) + 1e-300; k += 1) found.push(k * step);
  return found;
}

/** 1, 2, 5 of every power of ten; the powers alone where there are many. */
function logTicks(from, to) {
  const heads = Math.log10(to / from) > 2.2 ? [1] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power += 1) {
    for (const head of heads) {
      const value = head * 10 ** power;
      if (value >= from && value <= to) found.push(value);
    }
  }
  return found;
}

function tickText(value, axis) {
  if (axis.percent) return String(Number((100 * value).toPrecision(3)));
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-3 ? size.toExponential(1).replace("e+", "e") : String(Number(size.toPrecision(6)));
  return (value < 0 ? "−" : "") + text;
}

/** An axis maps values to pixels. */
function scale(axis, start, end) {
  const turn = axis.log ? Math.log : (v) => v;
  const [low, high] = [turn(axis.from), turn(axis.to)];
  return (value) => start + ((turn(value) - low) / (high - low || 1)) * (end - start);
}

let plots = 0;

/** A plot with its axes and grid; what is drawn into `inside` is cut off at its edges. */
function plot(host, { width, height, x, y, title, label, top = 26, left = 52, right = 12 }) {
  const bottom = 44;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img" }, host);
  root.setAttribute("aria-label", `${label}. Arrow keys step through the points.`);
  const area = { left, right: width - right, top: top + (title ? 20 : 0), bottom: height - bottom };
  const X = scale(x, area.left, area.right);
  const Y = scale(y, area.bottom, area.top);
  const across = x.log ? logTicks(x.from, x.to) : x.ticks || ticks(x.from, x.to, (area.right - area.left) / 75);
  const up = y.log ? logTicks(y.from, y.to) : y.ticks || ticks(y.from, y.to, (area.bottom - area.top) / 55);
  for (const value of up) {
    svg("line", { class: "grid", x1: area.left, x2: area.right, y1: Y(value), y2: Y(value) }, root);
    svg("text", { x: area.left - 7, y: Y(value) + 4, "text-anchor": "end" }, root, tickText(value, y));
  }
  for (const value of across) {
    svg("line", { class: "frame", x1: X(value), x2: X(value), y1: area.bottom, y2: area.bottom + 4 }, root);
    svg("text", { x: X(value), y: area.bottom + 18, "text-anchor": "middle" }, root, tickText(value, x));
  }
  svg("line", { class: "frame", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }, root);
  if (title) svg("text", { class: "strong", x: 2, y: 14 }, root, title);
  svg("text", { x: 2, y: title ? 33 : 13 }, root, y.label);
  svg("text", { x: area.right, y: height - 8, "text-anchor": "end" }, root, x.label);
  plots += 1;
  const cut = svg("clipPath", { id: `cut-${plots}` }, svg("defs", {}, root));
  svg("rect", { x: area.left, y: area.top - 6, width: area.right - area.left, height: area.bottom - area.top + 6 }, cut);
  const inside = svg("g", { "clip-path": `url(#cut-${plots})` }, root);
  return { root, inside, area, X, Y, x, y };
}

const path = (points) => points.map(([a, b], k) => `${k ? "L" : "M"}${a.toFixed(2)} ${b.toFixed(2)}`).join("");

function line(to, points, kind) {
  return svg("path", { class: `line ${kind}`, d: path(points.map(([a, b]) => [to.X(a), to.Y(b)])) }, to.inside);
}

/** The area between a lower and an upper bound: points are [x, low, high]. */
function band(to, points, kind) {
  const whole = [...points.map(([a, low]) => [a, low]), ...points.map(([a, , high]) => [a, high]).reverse()];
  svg("path", { class: `band ${kind}`, d: `${path(whole.map(([a, b]) => [to.X(a), to.Y(b)]))}Z` }, to.inside);
}

function mark(to, a, b, kind, radius = 4) {
  return svg("circle", { class: kind, cx: to.X(a), cy: to.Y(b), r: radius }, to.inside);
}

/** A row of names with their colours. */
function legend(host, entries) {
  const list = node("div", { class: "legend" }, host);
  for (const [kind, text] of entries) {
    const one = node("span", {}, list);
    node("i", { class: `key ${kind}` }, one);
    one.append(text);
  }
}

/** The note beside a point; it is also what a screen reader hears. */
function tip(at, head, rows) {
  const box = document.getElementById("tip");
  box.hidden = !at;
  box.replaceChildren();
  if (!at) return;
  if (head) node("strong", {}, box, head);
  for (const text of rows) node("div", {}, box, text);
  const { width, height } = box.getBoundingClientRect();
  const right = at.x + width + 22 <= window.innerWidth;
  const beside = right || at.x - width - 14 >= 4;
  // Beside the point; on a narrow page above it, where a finger does not hide it.
  const left = right ? at.x + 14 : beside ? at.x - width - 14 : Math.min(at.x - width / 2, window.innerWidth - width - 4);
  const top = beside ? at.y - height / 2 : at.y - height - 18;
  box.style.left = `${Math.max(4, left)}px`;
  box.style.top = `${Math.max(4, Math.min(top, window.innerHeight - height - 4))}px`;
}

/** Points answer to the pointer and, while the plot has the focus, to the arrow keys: [{x, y, head, rows}]. */
function watch(to, points, reach = 36) {
  const placed = points.map((p) => ({ ...p, px: to.X(p.x), py: to.Y(p.y) })).sort((a, b) => a.px - b.px || a.py - b.py);
  const ring = svg("circle", { class: "here", r: 7, visibility: "hidden" }, to.root);
  let current = -1;
  const show = (k) => {
    current = k;
    const one = placed[k];
    ring.setAttribute("visibility", one ? "visible" : "hidden");
    if (!one) return tip(null);
    ring.setAttribute("cx", one.px);
    ring.setAttribute("cy", one.py);
    const box = to.root.getBoundingClientRect();
    return tip({ x: box.left + one.px, y: box.top + one.py }, one.head, one.rows);
  };
  to.root.addEventListener("pointermove", (event) => {
    const box = to.root.getBoundingClientRect();
    const [a, b] = [event.clientX - box.left, event.clientY - box.top];
    let [best, least] = [-1, reach * reach];
    placed.forEach((p, k) => {
      const distance = (p.px - a) ** 2 + ((p.py - b) * 0.7) ** 2;
      if (distance < least) [best, least] = [k, distance];
    });
    show(best);
  });
  to.root.addEventListener("pointerleave", () => show(-1));
  to.root.addEventListener("blur", () => show(-1));
  to.root.addEventListener("keydown", (event) => {
    const last = placed.length - 1;
    const moves = { ArrowRight: Math.min(current + 1, last), ArrowLeft: Math.max(current - 1, 0), Home: 0, End: last, Escape: -1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]);
  });
}
