"use strict";
// What plotly draws. Texts go through `escapeText`, because plotly reads some tags in them.

const CONFIG = {
  responsive: true, displaylogo: false,
  // Plotly's own "Share chart" would send the data to its makers' server.
  showSendToCloud: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
};

function escapeText(text) {
  return String(text ?? "").replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function clip(text, length) {
  const line = String(text ?? "");
  return line.length <= length ? line : line.slice(0, length - 1) + "…";
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function baseLayout(xTitle, yTitle) {
  const axis = { gridcolor: cssColour("--grid"), linecolor: cssColour("--line"), zeroline: false, automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { color: cssColour("--ink"), family: getComputedStyle(document.body).fontFamily, size: 12 },
    margin: { l: 56, r: 14, t: 14, b: 48 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: cssColour("--soft"), activecolor: cssColour("--ink") },
    // A finger that scrolls the page must not be caught by a plot.
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    hoverlabel: { bgcolor: cssColour("--panel"), bordercolor: cssColour("--line"), align: "left",
                  font: { color: cssColour("--ink"), size: 12, family: getComputedStyle(document.body).fontFamily } },
    xaxis: { ...axis, title: { text: escapeText(xTitle), standoff: 8 } },
    yaxis: { ...axis, title: { text: escapeText(yTitle), standoff: 8 } },
  };
}

function verticalLine(x, colour) {
  return { type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, layer: "between",
           line: { color: colour, width: 1, dash: "dot" } };
}

// The rows that no other beats: valid, with both numbers; equal rows stay together.
function findFront(rows, column) {
  const able = rows.filter((row) => row.valid === true && row.accuracy != null && row[column] != null);
  const beats = (one, other) => one[column] <= other[column] && one.accuracy >= other.accuracy
    && (one[column] < other[column] || one.accuracy > other.accuracy);
  return able.filter((row) => !able.some((other) => beats(other, row)))
    .sort((a, b) => a[column] - b[column] || a.accuracy - b.accuracy);
}

function errorBar(rows, column, colour) {
  return {
    type: "data", symmetric: false, color: colour, thickness: 1.2, width: 0,
    array: rows.map((row) => (row[column + "_high"] ?? row[column]) - row[column]),
    arrayminus: rows.map((row) => row[column] - (row[column + "_low"] ?? row[column])),
  };
}

function pointTraces(rows, column, hover, name) {
  const methods = [...new Set(rows.map((row) => row.method))];
  return methods.map((method) => {
    const own = rows.filter((row) => row.method === method);
    const colour = DATA.colours[method];
    return {
      type: "scatter", mode: "markers+text", name: escapeText(method),
      x: own.map((row) => row[column]), y: own.map((row) => row.accuracy),
      error_x: errorBar(own, column, colour), error_y: errorBar(own, "accuracy", colour),
      text: own.map((row) => escapeText(clip(name(row), 24))), textposition: "top right",
      hoverinfo: "text", hovertext: own.map(hover), customdata: own.map((row) => row.attack_task),
      marker: {
        size: 11, color: colour, line: { color: colour, width: 2 },
        symbol: own.map((row) => kindOf(row).symbol + (row.models === 1 ? "-open" : "")),
      },
    };
  });
}

function drawFrontier(rows, leakage, hover, name) {
  const column = leakage.column;
  const shown = rows.filter((row) => row[column] != null && row.accuracy != null);
  const front = findFront(shown, column);
  const invalid = shown.filter((row) => row.valid === false);
  const quiet = { type: "scatter", hoverinfo: "skip" };
  const traces = [
    { ...quiet, mode: "lines", name: "front", x: front.map((row) => row[column]), y: front.map((row) => row.accuracy),
      line: { shape: "hv", color: cssColour("--soft"), width: 1.2 } },
    ...pointTraces(shown, column, hover, name),
    { ...quiet, mode: "markers", name: "invalid", x: invalid.map((row) => row[column]),
      y: invalid.map((row) => row.accuracy),
      marker: { symbol: "x-thin", size: 18, line: { color: cssColour("--alarm"), width: 2.5 } } },
  ];
  const layout = baseLayout(leakage.name + " (dotted: guessing)", "test accuracy, mean over models");
  layout.shapes = [verticalLine(leakage.chance, cssColour("--soft"))];
  return Plotly.react("frontier-plot", traces, layout, CONFIG);
}

function drawRocs(rows) {
  const dashes = ["solid", "dash", "dashdot", "dot"];
  const turns = {};
  let lowest = 0.5;
  const traces = rows.filter((row) => DATA.rocs[row.attack_task]).map((row) => {
    const roc = DATA.rocs[row.attack_task];
    const limit = Math.min(0.5, 10 / Math.max(row.n_nonmembers ?? 1, 1));
    lowest = Math.min(lowest, limit);
    const kept = roc.fpr.map((fpr, i) => [fpr, roc.tpr[i]]).filter(([fpr, tpr]) => fpr >= limit && tpr > 0);
    turns[row.method] = (turns[row.method] ?? -1) + 1;
    return {
      type: "scatter", mode: "lines", name: escapeText(clip(row.label, 32)),
      x: kept.map((point) => point[0]), y: kept.map((point) => point[1]),
      line: { color: DATA.colours[row.method], width: 2, dash: dashes[turns[row.method] % dashes.length] },
      hoverinfo: "text",
      hovertext: kept.map(([fpr, tpr]) => `${escapeText(clip(row.label, 40))}<br>FPR ${fpr.toPrecision(3)}, TPR ${tpr.toPrecision(3)}`),
    };
  });
  traces.push({ type: "scatter", mode: "lines", name: "guessing", x: [lowest, 1], y: [lowest, 1], hoverinfo: "skip",
                showlegend: false, line: { color: cssColour("--soft"), width: 1, dash: "dot" } });
  const layout = baseLayout("false-positive rate", "true-positive rate");
  const range = [Math.log10(lowest), 0];
  Object.assign(layout.xaxis, { type: "log", range: range, dtick: 1, tickformat: "~g" });
  Object.assign(layout.yaxis, { type: "log", range: [...range], dtick: 1, tickformat: "~g" });
  layout.showlegend = traces.length <= 9;
  layout.legend = { x: 1, y: 0, xanchor: "right", yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", font: { size: 11 } };
  return Plotly.react("roc-plot", traces, layout, CONFIG);
}

const SOURCES = { bench: "square", paper: "diamond-open" };

function ratioTrace(rows, column, hover) {
  return {
    type: "scatter", mode: "markers", x: rows.map((row) => row[column]), y: rows.map((row, place) => place),
    hoverinfo: "text", hovertext: rows.map(hover),
    marker: { size: 11, color: rows.map((row) => DATA.colours[row.method]),
              line: { color: rows.map((row) => DATA.colours[row.method]), width: 2 },
              symbol: rows.map((row) => SOURCES[row.source] ?? (row.models === 1 ? "circle-open" : "circle")) },
  };
}

function drawRatios(target, rows, column, title, hover) {
  const traces = [ratioTrace(rows, column, hover)];
  if (column === "step_overhead") {
    rows.forEach((row, place) => {
      if (row.quartiles) {
        traces.unshift({ type: "scatter", mode: "lines", x: row.quartiles, y: [place, place], hoverinfo: "skip",
                         opacity: 0.45, line: { color: DATA.colours[row.method], width: 5 } });
      }
    });
    traces.push({ type: "scatter", mode: "markers", x: rows.map((row) => row.step_cpu_overhead), hoverinfo: "skip",
                  y: rows.map((row, place) => place),
                  marker: { symbol: "line-ns", size: 16, line: { color: cssColour("--ink"), width: 2 } } });
  }
  const layout = baseLayout(title, "");
  const bare = rows.map((row, place) => [row, place]).filter(([row]) => row[column] == null);
  layout.annotations = bare.map(([row, place]) => ({ xref: "paper", x: 0.02, y: place, xanchor: "left", showarrow: false,
                                                  text: row.missing }));
  layout.shapes = [verticalLine(1, cssColour("--soft"))];
  Object.assign(layout.xaxis, { rangemode: "tozero" });
  Object.assign(layout.yaxis, { range: [rows.length - 0.4, -0.6], showgrid: false, tickvals: rows.map((row, i) => i),
                                ticktext: rows.map((row) => escapeText(clip(row.line_name, 20))) });
  layout.height = 110 + 30 * Math.max(rows.length, 1);
  return Plotly.react(target, traces, layout, CONFIG);
}
