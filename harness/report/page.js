"use strict";
// The page: controls, texts and tables. Every name is written with textContent, so that it stays a name.

const DATA = JSON.parse(document.getElementById("data").textContent);
const state = { workload: "", attack: "", leakage: "", roc: "", methods: new Set(), kinds: new Set() };

const find = (id) => document.getElementById(id);
const kindOf = (row) => DATA.kinds[String(row.guarantee_kind ?? "None")];
const unique = (values) => [...new Set(values)];
const leakage = () => DATA.leakages.find((each) => each.column === state.leakage);

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text != null) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// ---- numbers as text; null-safe, and infinity travels as the text "inf"

function say(value, digits) {
  if (value == null) return "–";
  if (typeof value !== "number") return value === "inf" ? "∞" : String(value);
  return value.toFixed(digits);
}

function sayEpsilon(value) {
  if (value == null) return "–";
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : say(value, 0);
}

function sayDelta(value) {
  return value > 0 && value < 1e-3 ? String(Number(value.toPrecision(3)).toExponential()) : String(value);
}

function sayInterval(row, column, digits) {
  const low = row[column + "_low"], high = row[column + "_high"];
  return low == null || high == null ? "" : ` [${say(low, digits)}, ${say(high, digits)}]`;
}

function sayLeakage(row, each) {
  const digits = each.needs ? 4 : 3;
  if (row[each.column] != null) return say(row[each.column], digits) + sayInterval(row, each.column, digits);
  if (!each.needs) return "–";
  return `needs N ≥ ${each.needs.toLocaleString("en")}, has ${row.n_nonmembers?.toLocaleString("en") ?? "none"}`;
}

function sayGuarantee(row) {
  if (row.epsilon == null) return kindOf(row).name;
  const delta = row.delta == null ? "" : `, δ = ${sayDelta(row.delta)}`;
  const other = row.epsilon_rdp == null ? "" : `; RDP ${sayEpsilon(row.epsilon_rdp)}`;
  return `ε = ${sayEpsilon(row.epsilon)}${delta} (${kindOf(row).name}, ${row.adjacency ?? "adjacency not stated"}; ${row.accountant ?? "accountant not stated"}${other})`;
}

function namePoint(row) {
  if (row.epsilon != null) return "ε=" + (typeof row.epsilon === "number" ? Number(row.epsilon.toPrecision(2)) : "∞");
  const label = String(row.label ?? row.method);
  return (label.startsWith(row.method) ? label.slice(row.method.length).trim() : label) || row.method;
}

function sayValid(row) {
  if (row.valid == null) return "blind check not run";
  return `blind check ${row.valid ? "passed" : "FAILED: the cell is invalid"} (AUC ${say(row.blind_auc, 3)})`;
}

// Lines of at most `width` signs, broken at spaces where there are some.
function wrap(text, width) {
  const line = new RegExp(`.{1,${width}}(?=\\s|$)|.{1,${width}}`, "gsu");
  return (clip(text, 240).match(line) ?? [""]).map((each) => each.trim());
}

function hoverText(row) {
  const params = Object.entries(row.params ?? {}).map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`);
  const lines = [
    ...wrap(row.label ?? row.method, 56).map((line) => `<b>${escapeText(line)}</b>`),
    escapeText(`accuracy ${say(row.accuracy, 3)}${sayInterval(row, "accuracy", 3)}, ${row.models} model${row.models === 1 ? "" : "s"}`),
    escapeText(`attack ${clip(row.attack_name, 48)}`),
    ...unique([leakage(), DATA.leakages.at(-1)]).map((each) => escapeText(`${each.name} ${sayLeakage(row, each)}`)),
    ...wrap(sayGuarantee(row), 56).map(escapeText),
    escapeText(sayValid(row)),
    escapeText(`configurations tried: ${row.tuned ?? "not counted"}`),
    ...wrap(params.join(", "), 56).map(escapeText),
  ];
  return lines.join("<br>");
}

function hoverBench(row) {
  return [
    `<b>${escapeText(clip(row.line_name, 48))}</b>`,
    `relative to sgd, interleaved: ${say(row.ratio, 3)}${sayInterval(row, "ratio", 3)}`,
    `with drawing the batch ${say(row.ratio_whole_step, 2)}, wall ${say(row.ratio_wall, 2)}, memory ${say(row.memory_ratio, 2)}`,
    `step ${say(row.median_cpu_seconds * 1e3, 3)} ms CPU, ${say(row.median_wall_seconds * 1e3, 3)} ms wall, ${row.steps} steps`,
    `batch ${row.batch_size}, ${row.threads} thread${row.threads === 1 ? "" : "s"}, engine ${escapeText(row.engine_used ?? "none")}`,
    row.trustworthy ? "trustworthy" : wrap(row.doubt ?? "", 56).map(escapeText).join("<br>"),
  ].join("<br>");
}

function hoverCost(row) {
  if (row.source === "bench") return hoverBench(row);
  if (row.source === "paper") return `<b>${escapeText(row.line_name)}</b><br>step relative to sgd: ${say(row.step_overhead, 2)}`;
  return [
    `<b>${escapeText(clip(row.line_name, 48))}</b>`,
    `step ${say(row.step_seconds == null ? null : row.step_seconds * 1e3, 3)} ms wall, ${say(row.step_cpu_seconds == null ? null : row.step_cpu_seconds * 1e3, 3)} ms CPU`,
    `relative to sgd: ${say(row.step_overhead, 2)} wall, ${say(row.step_cpu_overhead, 2)} CPU, ${say(row.memory_overhead, 2)} memory`,
    `extra memory ${say(row.extra_memory_bytes == null ? null : row.extra_memory_bytes / 2 ** 20, 1)} MiB`,
    `training ${say(row.train_seconds, 1)} s, ${row.models} model${row.models === 1 ? "" : "s"}`,
  ].join("<br>");
}

// ---- controls

function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => {
    const option = make("option", text);
    option.value = value;
    return option;
  }));
  select.value = chosen;
}

function fillChoices(box, names, set, sign) {
  box.replaceChildren(...names.map(([value, text]) => {
    const label = make("label"), input = make("input");
    input.type = "checkbox";
    input.value = value;
    input.checked = true;
    set.add(value);
    input.addEventListener("change", () => {
      if (input.checked) set.add(value); else set.delete(value);
      show();
    });
    label.append(input, ...(sign ? [sign(value)] : []), make("span", text));
    return label;
  }));
}

function swatch(method) {
  const sign = make("span", null, "swatch");
  sign.style.backgroundColor = DATA.colours[method];
  return sign;
}

const GLYPHS = { circle: "●", square: "■", diamond: "◆", "triangle-down": "▼", cross: "✚", "triangle-up": "▲", hexagon: "⬢" };

// The attack that is strongest by the chosen leakage; a weaker one stays only where the reader chose it.
const strongest = () => DATA.defaults[state.workload]?.strongest[state.leakage] ?? "";

function fillAttacks() {
  const attacks = unique(DATA.frontier.filter((row) => row.group === state.workload).map((row) => row.attack_name));
  if (!attacks.includes(state.attack)) state.attack = strongest();
  const mark = (name) => (attacks.length > 1 && name === strongest() ? `${name} (strongest)` : name);
  fillSelect(find("attack"), attacks.map((name) => [name, mark(name)]), state.attack);
}

function chooseWorkload(name) {
  const wasStrongest = state.attack === strongest();
  state.workload = name;
  state.leakage = DATA.defaults[name]?.leakage ?? "auc";
  if (wasStrongest) state.attack = strongest();
  state.roc = "";
  find("leakage").value = state.leakage;
  fillAttacks();
}

function chooseLeakage(column) {
  const wasStrongest = state.attack === strongest();
  state.leakage = column;
  if (wasStrongest) state.attack = strongest();
  fillAttacks();
}

function setUpControls() {
  const rows = [...DATA.frontier, ...DATA.overhead];
  const workloads = unique(rows.map((row) => row.group)).sort();
  const methods = unique(rows.map((row) => row.method));
  fillSelect(find("workload"), workloads.map((name) => [name, name]), workloads[0]);
  fillSelect(find("leakage"), DATA.leakages.map((each) => [each.column, each.name]), "auc");
  fillChoices(find("methods"), Object.keys(DATA.colours).filter((name) => methods.includes(name)).map((name) => [name, name]), state.methods, swatch);
  fillChoices(find("kinds"), Object.entries(DATA.kinds).map(([kind, each]) => [kind, `${GLYPHS[each.symbol]} ${each.name}`]), state.kinds);
  chooseWorkload(workloads[0]);
  find("workload").addEventListener("change", (event) => { chooseWorkload(event.target.value); show(); });
  find("attack").addEventListener("change", (event) => { state.attack = event.target.value; state.roc = ""; show(); });
  find("leakage").addEventListener("change", (event) => { chooseLeakage(event.target.value); show(); });
  find("roc-cell").addEventListener("change", (event) => { state.roc = event.target.value; show(); });
  find("controls").addEventListener("submit", (event) => event.preventDefault());
  find("download").addEventListener("click", download);
}

// ---- texts and tables

const chosen = (row) => row.group === state.workload && state.methods.has(row.method)
  && state.kinds.has(String(row.guarantee_kind ?? "None"));
const shownRows = () => DATA.frontier.filter((row) => chosen(row) && row.attack_name === state.attack);

function columns(rows) {
  const front = findFront(rows, state.leakage);
  const auc = DATA.leakages.at(-1);
  return [
    ["cell", (row) => row.label ?? row.method, "text"],
    ["models", (row) => say(row.models, 0)],
    ["accuracy", (row) => say(row.accuracy, 3) + sayInterval(row, "accuracy", 3)],
    ...unique([leakage(), auc]).map((each) => [each.name, (row) => sayLeakage(row, each)]),
    ["on the front", (row) => (front.includes(row) ? "yes" : "no")],
    ["balanced accuracy", (row) => say(row.balanced_accuracy, 3)],
    ["guarantee", sayGuarantee, "text wide"],
    ["blind check", (row) => (row.valid == null ? "not run" : row.valid ? "passed" : "failed: invalid")],
    ["step time (sgd = 1)", (row) => say(row.step_overhead, 2)],
    ["memory (sgd = 1)", (row) => say(row.memory_overhead, 2)],
    ["tried", (row) => say(row.tuned, 0)],
  ];
}

function fillTable(table, heads, rows) {
  const head = make("tr");
  head.append(...heads.map(([name]) => { const cell = make("th", name); cell.scope = "col"; return cell; }));
  const lines = rows.map((row) => {
    const line = make("tr", null, row.valid === false ? "invalid" : "");
    line.append(...heads.map(([, text, className]) => make("td", text(row), className)));
    return line;
  });
  const top = make("thead"), body = make("tbody");
  top.append(head);
  body.append(...lines);
  table.replaceChildren(top, body);
}

function showTexts(rows) {
  const models = unique(rows.map((row) => row.models)).sort((a, b) => a - b);
  const span = models.length ? `${models[0]}${models.length > 1 ? " to " + models.at(-1) : ""} models a cell` : "no cell chosen";
  find("frontier-note").textContent = `${state.workload}, attack ${state.attack}, ${span}; the front is over the valid cells shown.`;
  const each = leakage();
  const missing = rows.filter((row) => row[each.column] == null);
  const fewest = Math.max(...missing.map((row) => row.n_nonmembers ?? 0));
  find("frontier-missing").textContent = missing.length && each.needs
    ? `Not drawn: ${missing.length} of ${rows.length} cells. ${each.name} needs N ≥ ${each.needs.toLocaleString("en")} non-members; they have ${fewest.toLocaleString("en")} at most.`
    : "";
}

function showTable(place, columns, rows) {
  const table = make("table"), box = make("div", null, "scroll");
  box.tabIndex = 0;
  fillTable(table, columns, rows);
  box.append(table);
  place.append(box);
}

function showAudits() {
  const place = find("audits"), digits = (value) => value == null ? "–" : typeof value === "number" ? value.toPrecision(3) : value;
  if (!DATA.audits.length) {
    place.replaceChildren(make("p", "No cell was audited. Canaries are needed: canary = \"gradient\", canaries = 100 in a grid, and attack audit-one-run."));
    return;
  }
  place.replaceChildren(make("p", "What canaries prove: epsilon is at least so much. A small bound proves nothing; one above the price is an alarm."));
  for (const row of DATA.audits.filter((each) => each.alarm)) place.append(make("p", `ALARM: ${row.workload}, ${row.label}: ${row.message}`, "alarm"));
  showTable(place, [
    ["workload", (row) => row.workload, "text"], ["cell", (row) => row.label, "text"], ["audit", (row) => row.attack, "text"],
    ["canaries", (row) => `${row.canaries} ${row.canary}`, "text"], ["models", (row) => row.models],
    ["right guesses", (row) => `${row.correct} of ${row.guesses}`],
    ["proved ε ≥", (row) => `${digits(row.epsilon_audited)} (${100 * row.confidence} %)`],
    ["priced ε", (row) => digits(row.epsilon_priced)], ["paper's ε", (row) => digits(row.epsilon_paper)],
    ["meaning", (row) => row.meaning, "text"], ["alarm", (row) => row.alarm ? "ALARM" : ""],
  ], DATA.audits);
}

function showFailures() {
  if (!DATA.failures.length) {
    find("failed").replaceChildren(make("p", "No task failed."));
    return;
  }
  find("failed").replaceChildren();
  showTable(find("failed"), [
    ["workload", (row) => row.workload, "text"], ["cell", (row) => row.label ?? row.method, "text"],
    ["task", (row) => row.kind], ["reason", (row) => row.reason], ["tasks", (row) => row.tasks],
    ["message", (row) => row.message ?? "–", "text"],
  ], DATA.failures);
}

function download() {
  const names = Object.keys(DATA.frontier[0] ?? {});
  const quote = (value) => {
    const text = value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const lines = [names, ...DATA.frontier.map((row) => names.map((name) => row[name]))];
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([lines.map((line) => line.map(quote).join(",") + "\r\n").join("")], { type: "text/csv" }));
  link.download = "frontier.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

// ---- the whole

function show() {
  const rows = shownRows();
  if (!rows.some((row) => row.attack_task === state.roc)) state.roc = "";
  fillSelect(find("roc-cell"), [["", "all cells shown"], ...rows.map((row) => [row.attack_task, clip(row.label ?? row.method, 60)])], state.roc);
  showTexts(rows);
  fillTable(find("table"), columns(rows), rows);
  if (window.Plotly) draw(rows);
}

function draw(rows) {
  const costs = DATA.overhead.filter(chosen);
  drawFrontier(rows, leakage(), hoverText, namePoint);
  drawRocs(state.roc ? rows.filter((row) => row.attack_task === state.roc) : rows);
  drawRatios("time-plot", costs, "step_overhead", "time of a training step (sgd = 1)", hoverCost);
  drawRatios("memory-plot", costs, "memory_overhead", "extra peak memory (sgd = 1)", hoverCost);
}

function notice(text) {
  find("notice").textContent = text;
  find("notice").hidden = false;
}

async function loadPlotly() {
  const packed = Uint8Array.from(atob(find("plotly").textContent.trim()), (sign) => sign.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const code = await new Response(stream).blob();
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  await new Promise((resolve, reject) => {
    const script = make("script");
    script.onload = resolve;
    script.onerror = () => reject(new Error("its code did not load"));
    script.src = url;
    document.head.append(script);
  });
  URL.revokeObjectURL(url);
}

async function start() {
  const cells = unique([...DATA.frontier, ...DATA.overhead].map((row) => row.cell).filter(Boolean)).length;
  const condition = DATA.where ? ` · where ${DATA.where}` : "";
  find("summary").textContent = `Accuracy against measured leakage, and what it costs to train · ${cells} cells${condition} · privbench ${DATA.version}`;
  find("clocks").textContent = DATA.clocks;
  showAudits();
  showFailures();
  if (!cells) {
    notice(DATA.empty);
    for (const id of ["controls", "frontier", "rows", "overhead"]) find(id).hidden = true;
    return;
  }
  setUpControls();
  show();
  try {
    await loadPlotly();
  } catch (error) {
    notice(`The interactive plots cannot be drawn in this browser (${error.message}). The tables below hold the same numbers; frontier.svg and overhead.svg hold the figures.`);
    return;
  }
  show();
  find("frontier-plot").on("plotly_click", (event) => {
    const task = event.points[0]?.customdata;
    if (task) { state.roc = task; show(); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
}

start().finally(() => find("main").setAttribute("aria-busy", "false"));
