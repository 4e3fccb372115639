// The plots of the later sections: costs, equal leakage, audits, attribute inference, methods' theory.

const SOURCES = { bench: "square", paper: "diamond-open" };
const OKABE_ITO = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255"];

// A line for each row, from top to bottom.
function lineLayout(title, names) {
  const layout = baseLayout(title, "");
  Object.assign(layout.xaxis, { rangemode: "tozero" });
  Object.assign(layout.yaxis, { range: [names.length - 0.4, -0.6], showgrid: false, tickvals: names.map((name, place) => place),
                                ticktext: names.map((name) => escapeText(name)) });
  layout.height = 110 + 30 * Math.max(names.length, 1);
  return layout;
}

// For a cell only the time of a step may come from a bench.
function ofTraining(row, column) {
  return column !== "time_overhead" && row.cell != null;
}

function ratioTrace(rows, column) {
  const colours = rows.map((row) => DATA.colours[row.method]);
  return {
    type: "scatter", mode: "markers", x: rows.map((row) => row[column]), y: rows.map((row, place) => place),
    hoverinfo: "text", hovertext: rows.map(hoverCost),
    marker: { size: 11, color: colours, line: { color: colours, width: 2 },
              symbol: rows.map((row) => (ofTraining(row, column) ? null : SOURCES[row.source])
                                        ?? (row.models === 1 ? "circle-open" : "circle")) },
  };
}

function drawRatios(target, rows, column, title) {
  const traces = [ratioTrace(rows, column)];
  if (column === "time_overhead") {
    const bars = rows.map((row, place) => [row, place]).filter(([row]) => row.quartiles);
    traces.unshift(...bars.map(([row, place]) => ({
      type: "scatter", mode: "lines", x: row.quartiles, y: [place, place], hoverinfo: "skip",
      opacity: 0.45, line: { color: DATA.colours[row.method], width: 5 } })));
    traces.push({ type: "scatter", mode: "markers", hoverinfo: "skip",
                  x: rows.map((row) => (row.source === "training" ? row.example_cpu_overhead : null)),
                  y: rows.map((row, place) => place),
                  marker: { symbol: "line-ns", size: 16, line: { color: cssColour("--ink"), width: 2 } } });
  }
  const layout = lineLayout(title, rows.map((row) => clip(row.line_name, 20)));
  const bare = rows.map((row, place) => [row, place]).filter(([row]) => row[column] == null);
  layout.annotations = bare.map(([row, place]) => ({ xref: "paper", x: 0.02, y: place, xanchor: "left", showarrow: false,
                                                    text: row.missing[column] }));
  layout.shapes = [verticalLine(1, cssColour("--soft"))];
  Plotly.react(target, traces, layout, CONFIG);
}

// ---- accuracy at equal leakage

// Two lines without width, the second filled down to the first.
function bandTraces(curve, shape) {
  const edge = { type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false, x: curve.x, line: { width: 0, shape } };
  return [{ ...edge, y: curve.low }, { ...edge, y: curve.high, fill: "tonexty", fillcolor: faded(DATA.colours[curve.method], 0.15) }];
}

function drawOffers(target, each) {
  const shape = each.steps ? "hv" : "linear", ofRate = each.leakage.startsWith("TPR");
  const bands = each.curves.filter((curve) => curve.low).flatMap((curve) => bandTraces(curve, shape));
  const lines = each.curves.map((curve, place) => ({
    type: "scatter", mode: "lines+markers", name: escapeText(clip(curve.method, 24)), x: curve.x, y: curve.y,
    line: { color: DATA.colours[curve.method], width: 2, shape, dash: DASHES[place % DASHES.length] },
    marker: { symbol: DATA.symbols[curve.method], size: curve.x.map((x, corner) => (corner === curve.x.length - 1 ? 0 : 7)) },
    hovertemplate: `at most %{x:${ofRate ? ".2~%" : ".4g"}}: accuracy %{y:.1%}<extra></extra>`,
  }));
  const layout = baseLayout(`${each.leakage} at most`, "accuracy");
  layout.yaxis.tickformat = PERCENT_TICKS;
  if (ofRate) layout.xaxis.tickformat = PERCENT_TICKS;
  layout.showlegend = true;
  if (each.chance != null) layout.shapes = [verticalLine(each.chance, cssColour("--soft"))];
  Plotly.react(target, [...bands, ...lines], layout, CONFIG);
}

// ---- audits: a bar up to the lower bound, a circle at the guarantee, a line at the paper's claim

function drawAudits(rows) {
  const finite = (value) => (typeof value === "number" ? value : null);
  const places = rows.map((row, place) => place);
  const colours = rows.map((row) => (row.alarm ? cssColour("--alarm") : "#8c96a0"));
  const sign = (name, column, symbol, size) => ({
    type: "scatter", mode: "markers", name, x: rows.map((row) => finite(row[column])), y: places, hoverinfo: "x+name",
    marker: { symbol, size, color: cssColour("--ink"), line: { color: cssColour("--ink"), width: 2 } } });
  const traces = [
    { type: "bar", orientation: "h", name: "lower bound", x: rows.map((row) => row.epsilon_audited), y: places, width: 0.5,
      marker: { color: colours, pattern: { shape: rows.map((row) => (row.alarm ? "/" : "")) } }, hoverinfo: "x+name",
      text: rows.map((row) => (row.alarm ? "ALARM" : "")), textposition: "outside", textfont: { color: cssColour("--alarm") } },
    sign("priced", "epsilon_priced", "circle", 9),
    sign("paper's claim", "epsilon_paper", "line-ns", 16),
  ];
  const name = (row) => `${row.alarm ? "ALARM " : ""}${clip(row.label, 30)}`;
  const layout = lineLayout("ε", rows.map(name));
  Plotly.react("audit-plot", traces, layout, CONFIG);
}

// ---- attribute inference: the gap with its interval, filled if that is above zero; a line at the ceiling, if it is near

function drawGaps(rows) {
  const points = (value) => (value == null ? null : 100 * value);
  const places = rows.map((row, place) => place), colours = rows.map((row) => DATA.colours[row.method] ?? cssColour("--ink"));
  const reach = 3 * Math.max(...rows.flatMap((row) => [Math.abs(row.gap_low), Math.abs(row.gap_high)]));
  const ceilings = rows.map((row) => (row.gap_ceiling != null && row.gap_ceiling <= reach ? points(row.gap_ceiling) : null));
  const traces = [
    ...rows.map((row, place) => ({ type: "scatter", mode: "lines", x: [points(row.gap_low), points(row.gap_high)], y: [place, place],
                                   hoverinfo: "skip", line: { color: colours[place], width: 3 } })),
    { type: "scatter", mode: "markers", x: rows.map((row) => points(row.gap)), y: places, hoverinfo: "text",
      hovertext: rows.map((row) => escapeText(`${row.label}, ${row.attribute}: ${row.gap_text} points, ${row.finding}`)),
      marker: { size: 11, color: colours, line: { color: colours, width: 2 },
                symbol: rows.map((row) => (row.gap_low > 0 ? "circle" : "circle-open")) } },
    { type: "scatter", mode: "markers", x: ceilings, y: places, hoverinfo: "skip",
      marker: { symbol: "line-ns", size: 16, line: { color: cssColour("--ink"), width: 2 } } },
  ];
  const ends = [0, ...rows.flatMap((row) => [points(row.gap_low), points(row.gap_high)]), ...ceilings.filter((each) => each != null)];
  const low = Math.min(...ends), high = Math.max(...ends), margin = 0.04 * (high - low || 1);
  const limit = ceilings.some((each) => each != null) ? " (line: highest by the guarantee)" : "";
  const layout = lineLayout(`gap: members minus non-members, percentage points${limit}`, rows.map((row) => clip(row.label, 30)));
  Object.assign(layout.xaxis, { rangemode: "normal", range: [low - margin, high + margin] });
  layout.shapes = [verticalLine(0, cssColour("--soft"))];
  Plotly.react("attributes-plot", traces, layout, CONFIG);
}

// ---- tunes: the studies side by side, then every searched axis

const STUDY_SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross"];
const PANEL_PX = { wide: 190, high: 210, gap: 56, top: 30 };
const STANDING = { tried: [5, 0, 0.55], confirmed: [7, 1, 1], chosen: [11, 2, 1], taken: [15, 1.5, 1] };  // size, edge, opacity
const STANDING_TEXT = { tried: "", confirmed: ", confirmed", chosen: ", chosen by its study", taken: ", taken by a run" };

function trialTrace(each, points, study, place, panel, suffix) {
  const at = (point) => (panel < 0 ? (["chosen", "taken"].includes(point.standing) ? place : place + 0.09 * (point.number % 5 - 2)) : point.places[panel]);
  const text = (point) => [`<b>${(100 * point.score).toFixed(1)} %</b>, study ${study}, trial ${point.number}, ${plural(point.models, "model")}`
    + (point.failed ? `, ${point.failed} failed` : "") + STANDING_TEXT[point.standing], ...wrap(point.values, 56)].join("<br>");
  const look = (index) => points.map((point) => STANDING[point.standing][index]);
  return {
    type: "scatter", mode: "markers", name: `study ${study}`, legendgroup: `study ${study}`, showlegend: panel < 0,
    xaxis: `x${suffix.x}`, yaxis: `y${suffix.y}`, x: points.map(at), y: points.map((point) => point.score),
    hoverinfo: "text", hovertext: points.map(text),
    marker: { color: OKABE_ITO[place % OKABE_ITO.length], size: look(0), opacity: look(2), line: { color: cssColour("--ink"), width: look(1) },
              symbol: points.map((point) => (point.failed && point.score === 0 ? "x-thin" : point.standing === "taken" ? "star"
                : STUDY_SYMBOLS[place % STUDY_SYMBOLS.length])) },
  };
}

// The range of an axis a little beyond the search's bounds, in plotly's terms.
function axisRange(axis) {
  if (axis.choices.length) return [-0.5, axis.choices.length - 0.5];
  const [low, high] = axis.log ? [Math.log10(axis.low), Math.log10(axis.high)] : [axis.low, axis.high];
  return [low - 0.06 * (high - low), high + 0.06 * (high - low)];
}

function drawTrials(target, each) {
  const panels = [{ name: "study", log: false, choices: each.studies.map(String) }, ...each.axes];
  const across = Math.max(1, Math.min(panels.length, Math.floor(target.clientWidth / PANEL_PX.wide)));
  const lines = Math.ceil(panels.length / across), height = PANEL_PX.top + lines * (PANEL_PX.high + PANEL_PX.gap);
  const layout = baseLayout("", ""), traces = [];
  const x = { ...layout.xaxis }, y = { ...layout.yaxis };
  layout.margin = { ...layout.margin, t: PANEL_PX.top };
  layout.shapes = [];
  panels.forEach((axis, panel) => {
    const line = Math.floor(panel / across), column = panel % across;
    const suffix = { x: panel ? panel + 1 : "", y: line ? line + 1 : "" }, share = 1 / across;
    const up = PANEL_PX.gap / height, top = 1 - line / lines;
    layout[`xaxis${suffix.x}`] = {
      ...x, title: { text: escapeText(axis.name), standoff: 6 }, anchor: `y${suffix.y}`, range: axisRange(axis), automargin: false,
      domain: [column * share + 0.03 * share, (column + 1) * share - 0.03 * share],
      ...(axis.log ? { type: "log", dtick: Math.log10(axis.high / axis.low) > 1.3 ? 1 : "D2", tickformat: "~g" } : {}),
      ...(axis.choices.length ? { tickvals: axis.choices.map((name, place) => place), ticktext: axis.choices.map(escapeText) } : {}),
    };
    layout[`yaxis${suffix.y}`] = { ...y, domain: [top - 1 / lines + (line < lines - 1 ? up : 0), top], tickformat: PERCENT_TICKS, nticks: 6, range: each.range,
                                  title: { text: "validation accuracy", standoff: 8 }, ...(line ? { matches: "y" } : {}) };
    each.studies.forEach((study, place) => {
      traces.push(trialTrace(each, each.points.filter((point) => point.study === study), study, place, panel - 1, suffix));
    });
    if (axis.low == null || axis.choices.length) return;
    const [from, to] = axisRange(axis).map((end) => (axis.log ? 10 ** end : end));
    const outside = (x0, x1) => ({ type: "rect", xref: `x${suffix.x}`, yref: `y${suffix.y} domain`, x0, x1, y0: 0, y1: 1, layer: "below",
                                   line: { width: 0 }, fillcolor: cssColour("--grid") });
    layout.shapes.push(outside(from, axis.low), outside(axis.high, to));
  });
  const level = (value, dash, colour, line) => ({ type: "line", xref: "paper", yref: `y${line ? line + 1 : ""}`, x0: 0, x1: 1, y0: value, y1: value,
                                                  line: { color: colour, width: 1, dash } });
  for (let line = 0; line < lines; line += 1) {
    if (each.reference != null) layout.shapes.push(level(each.reference, "dash", cssColour("--ink"), line));
    if (each.majority != null) layout.shapes.push(level(each.majority, "dot", cssColour("--alarm"), line));
  }
  layout.height = height;
  layout.showlegend = true;
  layout.legend = { orientation: "h", x: 0, y: 1, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", font: { size: 11 } };
  Plotly.react(target, traces, layout, CONFIG);
}

// ---- methods' theory

function drawPanel(target, panel) {
  const traces = panel.curves.map((curve, place) => ({
    type: "scatter", mode: curve.x.length < 50 ? "lines+markers" : "lines", name: escapeText(clip(curve.name, 48)), x: curve.x, y: curve.y,
    line: { color: OKABE_ITO[place % OKABE_ITO.length], width: 2, dash: DASHES[place % DASHES.length] },
    hovertemplate: "%{x:.4g}: %{y:.4g}",
  }));
  const layout = baseLayout(panel.x, panel.y);
  layout.showlegend = true;
  layout.legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", font: { size: 11 } };
  if (panel.log) Object.assign(layout.yaxis, { type: "log", dtick: 1, tickformat: "~g" });
  if (panel.range) layout.yaxis.range = panel.range.map(Math.log10);
  Plotly.react(target, traces, layout, CONFIG);
}
