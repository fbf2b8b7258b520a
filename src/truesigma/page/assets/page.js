// What the page does beside drawing: choices, the slider, downloads, sorting.

const data = JSON.parse(document.getElementById("data").textContent);
const painters = {
  calibration: drawCalibration, intervals: drawIntervals, shares: drawShares, scatter: drawScatter,
  agreement: drawAgreement, content: drawContent, pit: drawPit, rejection: drawRejection, shift: drawShift,
};

function paint(key) {
  const host = document.getElementById(`figure-${key}`);
  if (!host || !data.sections[key]) return;
  const focused = host.contains(document.activeElement);
  host.replaceChildren();
  painters[key](host, data.sections[key], data.unit);
  if (focused) host.querySelector("svg")?.focus();
}

for (const key of Object.keys(painters)) {
  const host = document.getElementById(`figure-${key}`);
  if (!host) continue;
  let width = host.clientWidth;
  paint(key);
  new ResizeObserver(() => {
    if (host.clientWidth === width || !host.clientWidth) return;
    width = host.clientWidth;
    requestAnimationFrame(() => paint(key)); // within the observer's own turn, what is drawn would be observed again
  }).observe(host);
}

for (const input of document.querySelectorAll('input[type="radio"]')) {
  input.addEventListener("change", () => paint(input.closest("section").id));
}

// The slider: every number comes from the table that the Python side computed.
const slider = document.getElementById("refer");
function refer() {
  const all = rows(data.sections.rejection);
  const row = all[Number(slider.value)];
  const unit = data.unit;
  const bounds = `[${number(Math.sqrt(row.mse_low))}, ${number(Math.sqrt(row.mse_high))}]`;
  const output = document.getElementById("referred");
  output.textContent =
    `Refer ${row.cases.toLocaleString("en")} case${row.cases === 1 ? "" : "s"} (${percent(row.referred, 1)}), those with a scale above ${withUnit(number(row.sigma_threshold), unit)}: ` +
    `the RMSE of the rest is ${withUnit(number(row.rmse), unit)} ${bounds} instead of ${withUnit(number(Math.sqrt(row.mse_blind)), unit)}` +
    (row.rmse < data.sections.rejection.gain * Math.sqrt(row.mse_blind) ? "." : ", so nothing is gained.");
  Object.assign(output.dataset, { mse: row.mse, referred: row.referred, threshold: row.sigma_threshold });
  slider.setAttribute("aria-valuetext", percent(Number(slider.value) / 100));
  paint("rejection");
}
if (slider) {
  slider.addEventListener("input", refer);
  refer();
}

/** A cell of a csv file; text that a spreadsheet would take for a formula is made harmless. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvText(table) {
  const names = Object.keys(table);
  const size = names.length ? table[names[0]].length : 0;
  const lines = [names.map(csvCell).join(",")];
  for (let k = 0; k < size; k += 1) lines.push(names.map((name) => csvCell(table[name][k])).join(","));
  return `${lines.join("\n")}\n`;
}

for (const button of document.querySelectorAll("button.csv")) {
  button.addEventListener("click", () => {
    const key = button.dataset.csv;
    const address = URL.createObjectURL(new Blob([csvText(data.sections[key].table)], { type: "text/csv" }));
    node("a", { href: address, download: `${key}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  });
}

for (const table of document.querySelectorAll("table.sortable")) {
  const buttons = [...table.querySelectorAll("thead .sort")];
  buttons.forEach((button, column) => {
    button.addEventListener("click", () => {
      const order = button.dataset.order === "down" ? "up" : "down";
      for (const other of buttons) {
        delete other.dataset.order;
        other.closest("th").removeAttribute("aria-sort");
      }
      button.dataset.order = order;
      button.closest("th").setAttribute("aria-sort", order === "up" ? "ascending" : "descending");
      const body = table.tBodies[0];
      const key = (line) => {
        const cell = line.cells[column];
        return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
      };
      const sign = order === "up" ? 1 : -1;
      const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
      body.append(...[...body.rows].sort((a, b) => sign * compare(key(a), key(b))));
    });
  });
}

const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const a of links.values()) a.removeAttribute("aria-current");
    const link = links.get(entry.target.id);
    link?.setAttribute("aria-current", "true");
    link?.parentElement.scrollTo({ left: link.offsetLeft - 60 });
  }
}, { rootMargin: "-20% 0px -70% 0px" });
for (const section of document.querySelectorAll("main section")) seen.observe(section);
