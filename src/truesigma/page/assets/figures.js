// The figures of the page, each drawn from the table that its csv button gives.

/** Rows of a section's table as objects. */
function rows(section) {
  const names = Object.keys(section.table);
  const size = names.length ? section.table[names[0]].length : 0;
  return Array.from({ length: size }, (_, k) => Object.fromEntries(names.map((name) => [name, section.table[name][k]])));
}
const kindOf = (label) => (label === "none" ? "before" : "after");
const wordsOf = (label) => (label === "none" ? "before" : `after ${label}`);
const inUnit = (words, unit, square) => (unit ? `${words} (${unit}${square ? "²" : ""})` : words);
const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`)?.value;

function drawCalibration(host, section, unit) {
  const root = chosen("axes") !== "square";
  const turn = root ? Math.sqrt : (v) => v;
  const every = rows(section).filter((row) => row.bins === chosen("bins"));
  const labels = section.labels.filter((label) => every.some((row) => row.recalibration === label));
  const wide = host.clientWidth >= 640 && labels.length > 1;
  const width = wide ? Math.floor((host.clientWidth - 16) / 2) : Math.min(host.clientWidth, 560);
  for (const label of labels) {
    const bins = every.filter((row) => row.recalibration === label);
    const enough = bins.filter((row) => row.count >= section.trust);
    const solid = enough.length ? enough : bins;
    const farthest = turn(solid[solid.length - 1].variance) * 1.12;
    const highest = Math.max(...solid.map((row) => turn(row.squared_error_high))) * 1.06;
    const kind = kindOf(label);
    const to = plot(host, {
      width, height: Math.min(width * 0.86, 400), top: 50, title: wordsOf(label), label: `${host.dataset.label}, ${wordsOf(label)}`,
      x: { from: 0, to: farthest, label: inUnit(root ? "predicted sigma" : "predicted variance", unit, !root) },
      y: { from: 0, to: Math.max(highest, Math.min(farthest, 1.5 * highest)), label: inUnit(root ? "root mean squared error" : "observed squared error", unit, !root) },
    });
    drawCounts(to, bins, turn);
    line(to, [[0, 0], [farthest, farthest]], "ideal");
    band(to, solid.map((row) => [turn(row.variance), turn(row.squared_error_low), turn(row.squared_error_high)]), kind);
    line(to, solid.map((row) => [turn(row.variance), turn(row.squared_error)]), kind);
    for (const row of bins) {
      const hollow = row.count < section.trust ? " hollow" : "";
      mark(to, turn(row.variance), turn(row.squared_error), `mark ${kind}${hollow}`);
    }
    watch(to, bins.filter((row) => turn(row.variance) <= farthest).map((row) => ({
      x: turn(row.variance), y: turn(row.squared_error), head: wordsOf(label),
      rows: [
        `predicted ${withUnit(number(turn(row.variance)), unit, !root)}`,
        `observed ${withUnit(number(turn(row.squared_error)), unit, !root)} [${number(turn(row.squared_error_low))}, ${number(turn(row.squared_error_high))}]`,
        `${number(row.count)} in this bin`,
      ],
    })));
  }
}

/** Bars on top: roots of the counts, so that a bin of five is seen beside one of thousands. */
function drawCounts(to, bins, turn) {
  const most = Math.sqrt(Math.max(...bins.map((row) => row.count)));
  const base = to.area.top - 4;
  for (const row of bins) {
    const [start, end] = [to.X(turn(row.variance_from)), Math.min(to.X(turn(row.variance_to)), to.area.right)];
    const tall = (24 * Math.sqrt(row.count)) / most;
    if (start < to.area.right) {
      svg("rect", { class: "bar-count", x: start, y: base - tall, width: Math.max(end - start - 1, 1), height: tall }, to.root);
    }
  }
}

// What was observed over a column, with its band, a line for each recalibration.
function drawObserved(to, section, every, over) {
  for (const label of section.labels) {
    const some = every.filter((row) => row.recalibration === label);
    band(to, some.map((row) => [row[over], row.low, row.high]), kindOf(label));
    line(to, some.map((row) => [row[over], row.observed]), kindOf(label));
    for (const row of some) mark(to, row[over], row.observed, `mark ${kindOf(label)}`, 3.5);
  }
}

function drawIntervals(host, section) {
  const width = Math.min(host.clientWidth, 680);
  legend(host, section.labels.map((label) => [kindOf(label), wordsOf(label)]).concat([["dash", "perfect"]]));
  const to = plot(host, {
    width, height: Math.min(width * 0.82, 460), label: host.dataset.label,
    x: { from: 0, to: 1, percent: true, label: "estimated interval (%)" },
    y: { from: 0, to: 1, percent: true, label: "observed share (%)" },
  });
  line(to, [[0, 0], [1, 1]], "ideal");
  const every = rows(section);
  drawObserved(to, section, every, "level");
  watch(to, every.map((row) => ({
    x: row.level, y: row.observed, head: `${percent(row.level)} interval, ${wordsOf(row.recalibration)}`,
    rows: [`holds ${percent(row.observed, 1)} [${(100 * row.low).toFixed(1)}, ${(100 * row.high).toFixed(1)}]`],
  })));
}

function drawShares(host, section, unit) {
  const every = rows(section);
  const width = Math.min(host.clientWidth, 760);
  legend(host, [["two", "epistemic"], ["one", "aleatoric"]]);
  const places = every.map((_, k) => k);
  const to = plot(host, {
    width, height: Math.min(300, width * 0.7), label: host.dataset.label,
    x: { from: -0.5, to: every.length - 0.5, ticks: [], label: inUnit("sigma before recalibration", unit) },
    y: { from: 0, to: 1, percent: true, label: "share of the variance (%)" },
  });
  const bar = ((to.area.right - to.area.left) / every.length) * 0.8;
  const share = (row) => row.epistemic / (row.aleatoric + row.epistemic);
  for (const k of places) {
    const middle = to.X(k);
    const cut = to.Y(share(every[k]));
    svg("rect", { class: "bar-two", x: middle - bar / 2, y: cut, width: bar, height: to.area.bottom - cut }, to.inside);
    svg("rect", { class: "bar-one", x: middle - bar / 2, y: to.area.top, width: bar, height: Math.max(cut - to.area.top - 1, 0) }, to.inside);
    if (width > 520 || k % 2 === 0) svg("text", { x: middle, y: to.area.bottom + 18, "text-anchor": "middle" }, to.root, number(every[k].sigma));
  }
  watch(to, every.map((row, k) => ({
    x: k, y: share(row), head: `sigma about ${withUnit(number(row.sigma), unit)}`,
    rows: [`epistemic ${percent(share(row), 1)}`, `aleatoric ${percent(1 - share(row), 1)}`, `${number(row.count)} cases`],
  })), 80);
}

function drawScatter(host, section, unit) {
  const label = chosen("funnel") || section.labels[0];
  const [low, high] = section.bounds[label];
  const every = rows(section).map((row) => ({ ...row, sigma: row[`sigma ${label}`], error: row.target - row.location }));
  const sizes = every.map((row) => row.sigma).sort((a, b) => a - b);
  const farthest = sizes[Math.ceil(0.995 * sizes.length) - 1] * 1.15;
  const errors = every.map((row) => Math.abs(row.error)).sort((a, b) => a - b);
  const highest = errors[Math.ceil(0.998 * errors.length) - 1] * 1.1 || 1;
  const width = host.clientWidth;
  legend(host, [["point-in", "inside its interval"], ["point-out", "outside"]]);
  const to = plot(host, {
    width, height: Math.min(460, Math.max(320, width * 0.5)), label: host.dataset.label,
    x: { from: 0, to: farthest, label: inUnit(`predicted sigma, ${wordsOf(label)}`, unit) },
    y: { from: -highest, to: highest, label: inUnit("truth minus prediction", unit) },
  });
  const edge = (bound) => (Number.isFinite(bound) && bound !== null ? bound * farthest : Math.sign(bound || 1) * 2 * highest);
  const corner = [to.X(0), to.Y(0)];
  const ends = [edge(high), edge(low)].map((bound) => [to.X(farthest), to.Y(bound)]);
  svg("path", { class: "funnel", d: `${path([corner, ...ends])}Z` }, to.inside);
  for (const end of ends) svg("path", { class: "edge", d: path([corner, end]) }, to.inside);
  const out = (row) => row.error < low * row.sigma || row.error > high * row.sigma;
  for (const row of every) mark(to, row.sigma, row.error, out(row) ? "point out" : "point", 2.8);
  watch(to, every.filter((row) => row.sigma <= farthest && Math.abs(row.error) <= highest).map((row) => ({
    x: row.sigma, y: row.error, head: row.case,
    rows: [
      ...(row.group === undefined ? [] : [row.group]),
      ...outputOf(row),
      `truth ${number(row.target)}, prediction ${number(row.location)}`,
      `error ${withUnit(number(row.error), unit)}, sigma ${withUnit(number(row.sigma), unit)}`,
    ],
  })), 20);
}

function drawRejection(host, section, unit) {
  const every = rows(section);
  const here = every[Number(document.getElementById("refer").value)];
  const blind = Math.sqrt(here.mse_blind);
  const width = host.clientWidth;
  legend(host, [["after", "referred by sigma"], ["dash", "referred blindly"], ["dots", "best possible"]]);
  const to = plot(host, {
    width, height: Math.min(360, Math.max(260, width * 0.42)), label: host.dataset.label,
    x: { from: 0, to: 1, percent: true, label: "referred cases (%)" },
    y: { from: 0, to: Math.max(blind, ...every.map((row) => Math.sqrt(row.mse_high))) * 1.08, label: inUnit("RMSE of the rest", unit) },
  });
  line(to, [[0, blind], [1, blind]], "ideal");
  band(to, every.map((row) => [row.referred, Math.sqrt(row.mse_low), Math.sqrt(row.mse_high)]), "after");
  line(to, every.map((row) => [row.referred, Math.sqrt(row.mse_oracle)]), "ink thin dotted");
  line(to, every.map((row) => [row.referred, row.rmse]), "after");
  svg("line", { class: "cursor", x1: to.X(here.referred), x2: to.X(here.referred), y1: to.area.top, y2: to.area.bottom }, to.inside);
  mark(to, here.referred, here.rmse, "mark after", 6);
  to.root.addEventListener("click", (event) => {
    const share = (event.clientX - to.root.getBoundingClientRect().left - to.area.left) / (to.area.right - to.area.left);
    const slider = document.getElementById("refer");
    slider.value = Math.round(100 * share);
    slider.dispatchEvent(new Event("input"));
  });
  watch(to, every.map((row) => ({
    x: row.referred, y: row.rmse, head: `refer ${percent(row.referred, 1)} (${row.cases} cases)`,
    rows: [
      `scale above ${withUnit(number(row.sigma_threshold), unit)}`,
      `RMSE of the rest ${withUnit(number(row.rmse), unit)} [${number(Math.sqrt(row.mse_low))}, ${number(Math.sqrt(row.mse_high))}]`,
    ],
  })));
}

function drawShift(host, section, unit) {
  const every = rows(section);
  const width = Math.min(host.clientWidth, 820);
  const kinds = { [section.names[0]]: "one", [section.names[1]]: "two" };
  legend(host, section.names.map((name) => [kinds[name], name]));
  const top = Math.max(...every.flatMap((row) => section.names.map((name) => row[name])));
  const to = plot(host, {
    width, height: Math.min(330, Math.max(240, width * 0.45)), label: host.dataset.label,
    x: { from: every[0].sigma_from, to: every[every.length - 1].sigma_to, log: true, label: inUnit("predicted sigma", unit) },
    y: { from: 0, to: top * 1.1, percent: true, label: "cases (%)" },
  });
  for (const name of section.names) {
    for (const row of every) {
      const [start, end, tall] = [to.X(row.sigma_from), to.X(row.sigma_to), to.Y(row[name])];
      svg("rect", { class: `bar-${kinds[name]} half`, x: start, y: tall, width: Math.max(end - start - 0.5, 0.5), height: to.area.bottom - tall }, to.inside);
    }
    const middle = to.X(section.medians[name]);
    svg("line", { class: `median-${kinds[name]}`, x1: middle, x2: middle, y1: to.area.top - 6, y2: to.area.bottom }, to.inside);
  }
  watch(to, every.flatMap((row) => section.names.filter((name) => row[name] > 0).map((name) => ({
    x: Math.sqrt(row.sigma_from * row.sigma_to), y: row[name], head: name,
    rows: [`sigma ${number(row.sigma_from)} to ${withUnit(number(row.sigma_to), unit)}`, `${percent(row[name], 1)} of the cases`],
  }))));
}

/** What the output of a point of the scatter is called, if there are several. */
const outputOf = (row) => (row.output === undefined ? [] : [data.sections.scatter.names[row.output] ?? `output ${row.output}`]);

/** What a point of the scatter is called, and its numbers. */
const pointRows = (row, unit) => [
  ...(row.group === undefined ? [] : [row.group]),
  ...outputOf(row),
  `truth ${withUnit(number(row.target), unit)}, prediction ${withUnit(number(row.location), unit)}`,
  `difference ${withUnit(number(row.target - row.location), unit)}`,
];

function drawAgreement(host, section, unit) {
  const limits = rows(section);
  const output = chosen("agreed");
  const of = limits.find((row) => output === undefined || String(row.output) === output);
  const every = rows(data.sections.scatter).filter((row) => output === undefined || String(row.output) === output);
  const wide = host.clientWidth >= 640;
  const width = wide ? Math.floor((host.clientWidth - 16) / 2) : host.clientWidth;
  const height = Math.min(width * 0.9, 420);
  const ends = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const space = 0.04 * (high - low || Math.abs(high) || 1);
    return { from: low - space, to: high + space };
  };
  const both = ends(every.flatMap((row) => [row.target, row.location]));
  const left = plot(host, {
    width, height, left: 60, label: "Truth against prediction",
    x: { ...both, label: inUnit("prediction", unit) }, y: { ...both, label: inUnit("truth", unit) },
  });
  line(left, [[both.from, both.from], [both.to, both.to]], "ideal");
  const mean = (row) => (row.target + row.location) / 2;
  const across = ends(every.map(mean));
  const right = plot(host, {
    width, height, left: 60, label: "Difference against mean (Bland-Altman)",
    x: { ...across, label: inUnit("mean of truth and prediction", unit) },
    y: { ...ends([...every.map((row) => row.target - row.location), of.low, of.high]), label: inUnit("truth minus prediction", unit) },
  });
  line(right, [[across.from, 0], [across.to, 0]], "ideal");
  const lines = [[of.bias, "ink thin"], [of.low, "ink thin dotted"], [of.high, "ink thin dotted"]];
  for (const [value, kind] of lines) line(right, [[across.from, value], [across.to, value]], kind);
  const out = (row) => row.target - row.location < of.low || row.target - row.location > of.high;
  for (const row of every) {
    mark(left, row.location, row.target, "point", 2.8);
    mark(right, mean(row), row.target - row.location, out(row) ? "point out" : "point", 2.8);
  }
  for (const [value] of lines) {
    svg("text", { x: right.area.right - 4, y: right.Y(value) - 4, "text-anchor": "end" }, right.inside, withUnit(number(value), unit));
  }
  watch(left, every.map((row) => ({ x: row.location, y: row.target, head: row.case, rows: pointRows(row, unit) })), 20);
  watch(right, every.map((row) => ({ x: mean(row), y: row.target - row.location, head: row.case, rows: pointRows(row, unit) })), 20);
}

function drawContent(host, section, unit) {
  const by = chosen("sorted") || "sigma";
  const every = rows(section).filter((row) => row.by === by);
  const width = host.clientWidth;
  const words = by === "sigma" ? "predicted sigma" : "predicted value";
  const values = every.map((row) => row.middle);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const log = by === "sigma" && low > 0 && high > 4 * low;
  const space = 0.04 * (high - low || Math.abs(high) || 1);
  legend(host, section.labels.map((label) => [kindOf(label), wordsOf(label)]).concat([["dash", "promised"]]));
  const to = plot(host, {
    width, height: Math.min(340, Math.max(250, width * 0.4)), label: host.dataset.label,
    x: { from: log ? low / 1.05 : low - space, to: log ? high * 1.05 : high + space, log, label: inUnit(words, unit) },
    y: { from: Math.max(0, Math.min(section.level, ...every.map((row) => row.low)) - 0.03), to: 1, percent: true, label: `inside the ${percent(section.level)} interval (%)` },
  });
  line(to, [[to.x.from, section.level], [to.x.to, section.level]], "ideal");
  drawObserved(to, section, every, "middle");
  watch(to, every.map((row) => ({
    x: row.middle, y: row.observed, head: `${words} ${number(row.from)} to ${withUnit(number(row.to), unit)}, ${wordsOf(row.recalibration)}`,
    rows: [`holds ${percent(row.observed, 1)} [${(100 * row.low).toFixed(1)}, ${(100 * row.high).toFixed(1)}]`, `${number(row.count)} of them`],
  })));
}

function drawPit(host, section) {
  const label = chosen("pit") || section.labels[0];
  const every = rows(section).filter((row) => row.recalibration === label);
  const width = host.clientWidth;
  const to = plot(host, {
    width, height: Math.min(300, Math.max(230, width * 0.36)), label: host.dataset.label,
    x: { from: 0, to: 1, percent: true, label: "place in the predicted distribution (%)" },
    y: { from: 0, to: 1.06 * Math.max(2, ...every.map((row) => row.high)), label: `times as many as expected, ${wordsOf(label)}` },
  });
  for (const row of every) {
    const [start, end] = [to.X(row.from), to.X(row.to)];
    svg("rect", { class: `bar-${kindOf(label)} half`, x: start + 0.5, y: to.Y(row.density), width: end - start - 1, height: to.area.bottom - to.Y(row.density) }, to.inside);
    const middle = (row.from + row.to) / 2;
    line(to, [[middle, row.low], [middle, row.high]], kindOf(label));
  }
  line(to, [[0, 1], [1, 1]], "ideal");
  watch(to, every.map((row) => ({
    x: (row.from + row.to) / 2, y: row.density, head: `${percent(row.from)} to ${percent(row.to)}`,
    rows: [`${number(row.density)} times as many as expected [${number(row.low)}, ${number(row.high)}]`],
  })), 60);
}
