// Plots: their style, when they are drawn, the frontier and the ROC curves.

const CONFIG = {
  responsive: true, displaylogo: false,
  // Plotly's own "Share chart" would send the data to its vendor's server.
  showSendToCloud: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
};
const DASHES = ["solid", "dash", "dashdot", "dot"];
const NAMED_POINTS = 40;  // names of more would cover each other; hovering shows them
const DRAWN_CURVES = 12;
const PERCENT_TICKS = ".4~%";  // of d3: 0.01 is 1%; more digits would widen the margins
const NARROW_PX = 560;  // of a plot on which a whole tooltip would stick out

// Its script is below this one, so that text and tables are shown while the browser parses it.
const plotlyRead = new Promise((resolve) => addEventListener("DOMContentLoaded", resolve));

async function drawSoon(draw) {
  await plotlyRead;
  if (window.Plotly) draw();
}

// ---- when: plots far below the fold are drawn when they come near the screen

const waiting = new Map(), near = new Set();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) near.add(entry.target); else near.delete(entry.target);
    if (entry.isIntersecting) doWaiting(entry.target);
  }
}, { rootMargin: "300px 0px" });

function whenNear(element, work) {
  waiting.set(element, work);
  watcher.observe(element);
  if (near.has(element)) doWaiting(element);
}

function doWaiting(element) {
  const work = waiting.get(element);
  waiting.delete(element);
  if (work) work();
}

function drawLater(element, draw) {
  whenNear(element, () => drawSoon(draw));
}

// ---- style

const DIM = 0.12;  // relative luminance below which a colour is lost on a dark page

// The colours of methods; on a dark page the darkest are mixed with white.
function readableColours(colours) {
  if (!matchMedia("(prefers-color-scheme: dark)").matches) return colours;
  return Object.fromEntries(Object.entries(colours).map(([name, colour]) => [name, luminance(colour) < DIM ? whitened(colour) : colour]));
}

function channels(colour) {
  return [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
}

function luminance(colour) {
  const [red, green, blue] = channels(colour).map((value) => (value / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function whitened(colour) {
  return "#" + channels(colour).map((value) => Math.round((value + 255) / 2).toString(16).padStart(2, "0")).join("");
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function faded(colour, opacity) {
  const [red, green, blue] = channels(colour);
  return `rgba(${red},${green},${blue},${opacity})`;
}

function baseLayout(xTitle, yTitle) {
  const family = getComputedStyle(document.body).fontFamily;
  const axis = { gridcolor: cssColour("--grid"), linecolor: cssColour("--line"), zeroline: false, automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { color: cssColour("--ink"), family, size: 12 },
    margin: { l: 56, r: 26, t: 14, b: 48 },  // "100%" at the end of an axis needs half of its width
    modebar: { bgcolor: "rgba(0,0,0,0)", color: cssColour("--soft"), activecolor: cssColour("--ink") },
    // Scrolling by touch must not be caught by a plot.
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    hoverlabel: { bgcolor: cssColour("--panel"), bordercolor: cssColour("--line"), align: "left",
                  font: { color: cssColour("--ink"), size: 12, family } },
    legend: { x: 1, y: 0, xanchor: "right", yanchor: "bottom", bgcolor: cssColour("--veil"), font: { size: 11 } },
    xaxis: { ...axis, title: { text: escapeText(xTitle), standoff: 8 } },
    yaxis: { ...axis, title: { text: escapeText(yTitle), standoff: 8 } },
  };
}

function verticalLine(x, colour) {
  return { type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, layer: "between",
           line: { color: colour, width: 1, dash: "dot" } };
}

// ---- the frontier

// The shown rows that no other shown one dominates, sorted by leakage; dominance is looked up. Accuracy is
// selected by that on non-members and shown by that on test records.
function findFront(rows, column, gain = DATA.utilities[0]) {
  const { rivals, sets, beaten } = DATA.fronts, by = beaten[`${column} ${gain.column}`];
  const shown = rivals.map(([method, kind]) => !state.hiddenMethods.has(method) && !state.hiddenKinds.has(kind));
  const judged = gain.column === "accuracy" ? "validation_accuracy" : gain.column, sign = gain.higher ? 1 : -1;
  return rows.filter((row) => by[row.place] != null && !sets[by[row.place]].some((rival) => shown[rival]))
    .sort((a, b) => a[column] - b[column] || sign * (a[judged] - b[judged]));
}

function errorBar(rows, column, colour) {
  return {
    type: "data", symmetric: false, color: colour, thickness: 1.2, width: 0,
    array: rows.map((row) => (row[column + "_high"] ?? row[column]) - row[column]),
    arrayminus: rows.map((row) => row[column] - (row[column + "_low"] ?? row[column])),
  };
}

// Diameters with areas proportional to the values; the default without a third axis, a dot without a value.
function pointSize(value, most) {
  if (most == null) return 11;
  return value == null ? 5 : Math.max(6, 30 * Math.sqrt(Math.max(0, value) / most));
}

// The corner of its point that each name is placed at: close points alternate.
function textPlaces(rows, x, y) {
  const corners = ["top right", "bottom right", "top left", "bottom left"];
  const width = (column) => Math.max(...rows.map((row) => row[column])) - Math.min(...rows.map((row) => row[column])) || 1;
  const [wide, high] = [width(x), width(y)];
  const close = (one, other) => Math.abs(one[x] - other[x]) < 0.07 * wide && Math.abs(one[y] - other[y]) < 0.05 * high;
  return new Map(rows.map((row, place) => [row, corners[rows.slice(0, place).filter((other) => close(row, other)).length % corners.length]]));
}

function pointTraces(rows, axes, most) {
  const places = textPlaces(rows, axes.leakage.column, axes.utility.column);
  const crowded = rows.length > NAMED_POINTS, narrow = find("frontier-plot").clientWidth < NARROW_PX;
  const groups = unique(rows.map((row) => row.method)).flatMap((method) => [false, true].map((untuned) => [method, untuned]))
    .map(([method, untuned]) => [method, untuned, rows.filter((row) => row.method === method && isUntuned(row) === untuned)]);
  return groups.filter(([, , own]) => own.length).map(([method, untuned, own]) => {
    const colour = DATA.colours[method], bar = crowded ? faded(colour, 0.35) : colour;
    return {
      type: "scatter", mode: crowded ? "markers" : "markers+text", name: escapeText(method),
      uid: `${untuned ? UNTUNED : "tuned"}-${method}`, meta: untuned ? UNTUNED : "",
      x: own.map((row) => row[axes.leakage.column]), y: own.map((row) => row[axes.utility.column]),
      error_x: errorBar(own, axes.leakage.column, bar), error_y: errorBar(own, axes.utility.column, bar),
      text: own.map((row) => escapeText(clip(namePoint(row), 24))), textposition: own.map((row) => places.get(row)),
      hoverinfo: "text", hovertext: own.map((row) => hoverText(row, narrow)), customdata: own.map((row) => row.attack_task),
      marker: {
        size: own.map((row) => pointSize(row[axes.third?.column], most)), color: colour, opacity: most == null ? 1 : 0.8,
        line: { color: colour, width: 2 },
        symbol: own.map((row) => DATA.symbols[method] + (row.models === 1 || untuned ? "-open" : "")),
      },
    };
  });
}

// The range of test accuracy over the studies of a tune, behind the median one.
function studyTraces(rows, x) {
  return rows.filter((row) => row.accuracy_study_low != null).map((row) => ({
    type: "scatter", mode: "lines", hoverinfo: "skip", x: [row[x], row[x]], y: [row.accuracy_study_low, row.accuracy_study_high],
    line: { color: faded(DATA.colours[row.method], 0.3), width: 8 } }));
}

const UNTUNED = "untuned";
const isUntuned = (row) => DATA.untuned.includes(row.cell);

// Plotly has no dashed edges of markers: they are set on its elements, whenever it has drawn them.
function dashUntuned(plot) {
  const traces = [...plot.querySelectorAll(".scatterlayer .trace")];
  for (const trace of traces) {
    const dashed = trace.__data__?.[0]?.trace?.meta === UNTUNED;
    for (const point of trace.querySelectorAll(".points path")) point.style.strokeDasharray = dashed ? "3 2" : "";
  }
}

function drawFrontier(rows, axes, chosen) {
  const x = axes.leakage.column, y = axes.utility.column;
  const shown = rows.filter((row) => row[x] != null && row[y] != null && isShown(row));
  const front = findFront(shown, x, axes.utility);
  const most = axes.third ? Math.max(...shown.map((row) => row[axes.third.column] ?? 0)) : null;
  const signs = (name, own, marker) => ({ type: "scatter", mode: "markers", hoverinfo: "skip", name,
                                          x: own.map((row) => row[x]), y: own.map((row) => row[y]), marker });
  const traces = [
    { type: "scatter", hoverinfo: "skip", mode: "lines", name: "front", x: front.map((row) => row[x]),
      y: front.map((row) => row[y]), line: { shape: "hv", color: cssColour("--soft"), width: 1.2 } },
    ...(y === "accuracy" ? studyTraces(shown, x) : []),
    ...pointTraces(shown, axes, most || null),
    signs("invalid", shown.filter((row) => row.valid === false),
          { symbol: "x-thin", size: 18, line: { color: cssColour("--alarm"), width: 2.5 } }),
    signs("chosen", shown.filter((row) => row.attack_task === chosen),
          { symbol: "circle-open", size: 36, color: cssColour("--focus"), line: { color: cssColour("--focus"), width: 2 } }),
  ];
  const mean = axes.utility.column.includes("accuracy") ? ", mean over models" : "";
  const turned = axes.utility.higher ? "" : " (less is better)";
  const layout = baseLayout(axes.leakage.name + " (dotted: guessing)", axes.utility.name + mean + turned);
  layout.shapes = [verticalLine(axes.leakage.chance, cssColour("--soft"))];
  if (isPercent(x)) layout.xaxis.tickformat = PERCENT_TICKS;
  if (isPercent(y)) layout.yaxis.tickformat = PERCENT_TICKS;
  layout.yaxis.autorange = axes.utility.higher ? true : "reversed";
  // While the axes stay the same, so does the reader's zoom.
  layout.uirevision = [rows[0]?.group, x, y].join();
  Plotly.react("frontier-plot", traces, layout, CONFIG).then(dashUntuned);
}

// ---- ROC curves

const percentOf = (rate) => `${Number((100 * rate).toPrecision(3))} %`;

function rocTrace(row, turn) {
  const roc = DATA.rocs[row.attack_task], name = escapeText(clip(row.name, 40));
  return {
    type: "scatter", mode: "lines", name: escapeText(clip(row.name, 32)), x: roc.fpr, y: roc.tpr, hoverinfo: "text",
    line: { color: DATA.colours[row.method], width: 2, dash: DASHES[turn % DASHES.length] },
    hovertext: roc.fpr.map((fpr, place) => `${name}<br>FPR ${percentOf(fpr)}, TPR ${percentOf(roc.tpr[place])}`),
  };
}

// Those of all rows, or of the front if they are too many to distinguish.
function chooseCurves(rows) {
  const drawn = rows.filter((row) => DATA.rocs[row.attack_task]);
  return drawn.length <= DRAWN_CURVES ? drawn : findFront(drawn, state.leakage, utility()).slice(0, DRAWN_CURVES);
}

function drawRocs(drawn) {
  const turns = {};
  // At least one power of ten, so that an axis has two labels.
  const lowest = Math.min(0.1, ...drawn.map((row) => 10 / Math.max(row.n_nonmembers ?? 1, 1)));
  const traces = drawn.map((row) => {
    turns[row.method] = (turns[row.method] ?? -1) + 1;
    return rocTrace(row, turns[row.method]);
  });
  traces.push({ type: "scatter", mode: "lines", name: "guessing", x: [lowest, 1], y: [lowest, 1], hoverinfo: "skip",
                showlegend: false, line: { color: cssColour("--soft"), width: 1, dash: "dot" } });
  const layout = baseLayout("false-positive rate", "true-positive rate");
  const range = [Math.log10(lowest), 0];
  Object.assign(layout.xaxis, { type: "log", range, dtick: 1, tickformat: PERCENT_TICKS });
  Object.assign(layout.yaxis, { type: "log", range: [...range], dtick: 1, tickformat: PERCENT_TICKS });
  layout.showlegend = true;
  layout.uirevision = String(lowest);
  Plotly.react("roc-plot", traces, layout, CONFIG);
}
