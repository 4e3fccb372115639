// Numbers and rows as text; null-safe, with infinity as the text "inf".

const kindOf = (row) => DATA.kinds[String(row.guarantee_kind ?? "None")];
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function format(value, digits) {
  if (value == null) return "–";
  if (typeof value !== "number") return value === "inf" ? "∞" : String(value);
  return value.toFixed(digits);
}

function formatShort(value) {
  if (value == null) return "–";
  if (typeof value !== "number") return value === "inf" ? "∞" : String(value);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

function formatDelta(value) {
  return value > 0 && value < 1e-3 ? String(Number(value.toPrecision(3)).toExponential()) : String(value);
}

// Accuracies and rates are shown in per cent, as in the terminal and in tables (harness/report/units.py); all else is a number.
const isPercent = (column) => column.endsWith("accuracy") || column.startsWith("tpr_at_");
const FINE = { tpr_at_0p1pct: 2, tpr_at_0p01pct: 3 };

function formatPercent(value, digits = 1) {
  return typeof value === "number" ? `${format(100 * value, digits)} %` : format(value, digits);
}

function formatInterval(row, column, digits, scale = 1) {
  const low = row[column + "_low"], high = row[column + "_high"];
  return low == null || high == null ? "" : ` [${format(scale * low, digits)}, ${format(scale * high, digits)}]`;
}

// A figure in its unit, with its interval if it has one.
function formatFigure(row, column) {
  if (!isPercent(column)) return format(row[column], 3) + formatInterval(row, column, 3);
  const digits = FINE[column] ?? 1;
  return formatPercent(row[column], digits) + formatInterval(row, column, digits, 100);
}

// An accuracy that is no better than the most common class has a mark, and in words what it means.
const isNoBetter = (row) => row.beats_majority === false;
const majorityText = (row) => (isNoBetter(row) ? `no better than the most common class (${formatPercent(row.majority_accuracy)})` : "");

function formatLeakage(row, each) {
  if (row[each.column] != null) return formatFigure(row, each.column);
  if (!each.needs) return "–";
  return `needs N ≥ ${each.needs.toLocaleString("en")}, has ${row.n_nonmembers?.toLocaleString("en") ?? "none"}`;
}

function formatUtility(row, each) {
  return formatFigure(row, each.column) + (each.column === "accuracy" && isNoBetter(row) ? " †" : "");
}

function formatGuarantee(row) {
  const mark = row.tested === "average case only" ? "; average case only" : "";
  if (row.epsilon == null) return kindOf(row).name + mark;
  const delta = row.delta == null ? "" : `, δ = ${formatDelta(row.delta)}`;
  const other = row.epsilon_rdp == null ? "" : `; RDP ${formatShort(row.epsilon_rdp)}`;
  const terms = `${row.adjacency ?? "adjacency not stated"}; ${row.accountant ?? "accountant not stated"}${other}`;
  return `ε = ${formatShort(row.epsilon)}${delta} (${kindOf(row).name}, ${terms})${mark}`;
}

function formatValid(row) {
  if (row.valid == null) return "blind check not run";
  return `blind check ${row.valid ? "passed" : "FAILED: the cell is invalid"} (AUC ${format(row.blind_auc, 3)})`;
}

// How many configurations were tried, and which study of a tune chose the values.
function formatTuned(row) {
  return `${row.tuned ?? ""}${row.study == null ? "" : `, study ${row.study}`}`;
}

// Of several studies of a tune the median one stands for its method.
const isShown = (row) => row.median_study !== false;

function formatValue(value) {
  return value != null && typeof value === "object" ? JSON.stringify(value) : formatShort(value);
}

function formatParams(row) {
  const given = Object.entries(row.params ?? {}).filter(([, value]) => value != null);
  return given.map(([name, value]) => `${name}=${formatValue(value)}${name === "steps" ? formatEpochs(row) : ""}`).join(", ");
}

function formatEpochs(row) {
  const epochs = row.params.steps * row.params.batch_size / row.n_train;
  return Number.isFinite(epochs) ? ` (${formatShort(epochs)} epochs)` : "";
}

function formatVersions(row) {
  return `workload version ${row.workload_version ?? "–"}, method ${row.method_version ?? "–"}, attack ${row.attack_version ?? "–"}; seed ${row.seed ?? "–"}`;
}

// The provenance of the cell, each item with its name; empty if the store lacks it.
function madeOf(row) {
  const made = DATA.made[row.cell];
  if (!made) return [];
  const list = (name) => (made[name] ?? []).join(", ");
  const threads = list("threads") ? `, threads ${list("threads")}` : "";
  const versions = ["privbench", "torch", "opacus", "python"].filter((name) => made[name]).map((name) => `${name} ${list(name)}`);
  const code = [...versions, ...(made.git ? [`git ${list("git")}`] : []), ...(made.image ? [`image ${list("image")}`] : [])];
  return [["host", list("host")], ["device", `${list("device")}${threads}`], ["code", code.join(", ")], ["trained", list("day")]]
    .filter(([, text]) => text);
}

// The epsilon asked for, else the computed one, else the rest of the name after the method.
function namePoint(row) {
  if (row.epsilon_asked != null) return "ε=" + (typeof row.epsilon_asked === "number" ? row.epsilon_asked : "∞");
  if (row.epsilon != null) return "ε=" + (typeof row.epsilon === "number" ? Number(row.epsilon.toPrecision(2)) : "∞");
  return (row.name.startsWith(row.method) ? row.name.slice(row.method.length).trim() : row.name) || row.method;
}

// ---- hover texts: plotly reads some tags, so every text is escaped

function escapeText(text) {
  return String(text ?? "").replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

// Lines of at most `width` characters, broken at spaces if possible.
function wrap(text, width, most = 240) {
  const line = new RegExp(`.{1,${width}}(?=\\s|$)|.{1,${width}}`, "gsu");
  return (clip(text, most).match(line) ?? [""]).map((each) => escapeText(each.trim()));
}

// On a narrow plot only what fits: a tap shows the rest below.
function hoverText(row, narrow) {
  const width = narrow ? 38 : 56;
  const lines = [
    ...wrap(row.name, width, 112).map((line) => `<b>${line}</b>`),
    escapeText(`accuracy ${formatFigure(row, "accuracy")}, ${plural(row.models, "model")}`),
    ...(isNoBetter(row) ? [escapeText(majorityText(row))] : []),
    ...[utility(), third()].filter((each) => each && each.column !== "accuracy").map((each) => escapeText(`${each.name} ${formatFigure(row, each.column)}`)),
    escapeText(`attack ${clip(row.attack_name, 48)}`),
    ...unique([leakage(), DATA.leakages.at(-1)]).map((each) => escapeText(`${each.name} ${formatLeakage(row, each)}`)),
    ...wrap(formatGuarantee(row), width),
    ...wrap(formatValid(row), width),
  ];
  if (narrow) return lines.join("<br>");
  lines.push(
    escapeText(`tuned: ${row.tuned ?? "not counted"}`),
    ...wrap(formatParams(row), width, 170),
    ...wrap(formatVersions(row), width),
    ...wrap(madeOf(row).map(([name, text]) => `${name} ${text}`).join("; "), width).filter(Boolean),
    ...wrap(row.command, width, 230).map((line) => `<i>${line}</i>`),
  );
  return lines.join("<br>");
}

// The cost of a step: at equal batch size if a bench timed it, else per example.
function formatTime(row) {
  if (row.overhead_by == null) return format(null, 2);
  return row.overhead_by === "bench" ? `${format(row.step_overhead, 2)} a step` : `${format(row.example_overhead, 2)} an example`;
}

function hoverBench(row) {
  return [
    `<b>${escapeText(clip(row.line_name, 48))}</b>`,
    `relative to the baseline, interleaved: ${format(row.ratio, 3)}${formatInterval(row, "ratio", 3)}`,
    `with drawing the batch ${format(row.ratio_whole_step, 2)}, wall ${format(row.ratio_wall, 2)}, memory ${format(row.memory_ratio, 2)}`,
    `step ${format(row.median_cpu_seconds * 1e3, 3)} ms CPU, ${format(row.median_wall_seconds * 1e3, 3)} ms wall, ${row.steps} steps`,
    `batch ${row.batch_size}, ${plural(row.threads, "thread")}, engine ${escapeText(row.engine_used ?? "none")}`,
    row.trustworthy ? "trustworthy" : wrap(row.doubt ?? "", 56).join("<br>"),
  ].join("<br>");
}

function hoverCost(row) {
  if (row.source === "bench" && row.cell == null) return hoverBench(row);
  if (row.source === "paper") return `<b>${escapeText(row.line_name)}</b><br>step relative to the baseline: ${format(row.step_overhead, 2)}`;
  const scaled = (value, factor) => (value == null ? null : value * factor);
  return [
    `<b>${escapeText(clip(row.line_name, 48))}</b>`,
    `step ${format(scaled(row.step_seconds, 1e3), 3)} ms wall, ${format(scaled(row.step_cpu_seconds, 1e3), 3)} ms CPU`,
    row.source === "bench" ? `a step at equal batch, relative to the baseline: ${format(row.step_overhead, 3)}${formatInterval(row, "step_overhead", 3)}`
      : `per example, relative to the baseline: ${format(row.example_overhead, 2)} wall, ${format(row.example_cpu_overhead, 2)} CPU`,
    `whole training, relative to the baseline: ${format(row.training_overhead, 2)}; memory ${format(row.memory_overhead, 2)}`,
    `extra memory ${format(scaled(row.extra_memory_bytes, 2 ** -20), 1)} MiB`,
    `training ${format(row.train_seconds, 1)} s, ${plural(row.models, "model")}`,
  ].join("<br>");
}
