// The frontier explorer: the selection, the controls, and the table of the shown rows.

const state = {
  workload: "", attack: "", leakage: "", utility: "accuracy", third: "", point: "", status: "", printed: "", view: "frontier",
  order: { name: "", down: false },  // of the table
  // Unticked names, so that a method that appears later is shown.
  hiddenMethods: new Set(), hiddenKinds: new Set(),
};

const leakage = () => DATA.leakages.find((each) => each.column === state.leakage);
const utility = () => DATA.utilities.find((each) => each.column === state.utility);
const third = () => DATA.thirds.find((each) => each.column === state.third);

const chosen = (row) => row.group === state.workload && !state.hiddenMethods.has(row.method)
  && !state.hiddenKinds.has(String(row.guarantee_kind ?? "None"));
const shownRows = () => DATA.frontier.filter((row) => chosen(row) && row.attack_name === state.attack);

// The initial attack: the strongest of each cell, if the group has it.
const firstAttack = () => DATA.defaults[state.workload]?.attack ?? "";

function chooseWorkload(name) {
  const wasFirst = state.attack === firstAttack();
  state.workload = name;
  state.leakage = DATA.defaults[name]?.leakage ?? "auc";
  if (wasFirst) state.attack = firstAttack();
  state.point = "";
}

function chooseLeakage(column) {
  state.leakage = column;
}

// ---- controls

const GLYPHS = { circle: "●", square: "■", diamond: "◆", "triangle-down": "▼", cross: "✚", "triangle-up": "▲", hexagon: "⬢", star: "★" };

function fillChoices(box, names, hidden, sign) {
  const key = JSON.stringify([names, sign ? DATA.colours : 0]);
  if (box.dataset.names === key) return;
  box.dataset.names = key;
  box.replaceChildren(...names.map(([value, text]) => {
    const label = make("label"), input = make("input");
    input.type = "checkbox";
    input.value = value;
    input.checked = !hidden.has(value);
    input.dataset.mark = `${box.id} ${value}`;
    input.addEventListener("change", () => {
      if (input.checked) hidden.delete(value); else hidden.add(value);
      show();
    });
    label.append(input, ...(sign ? [sign(value)] : []), make("span", text));
    return label;
  }));
}

function swatch(method) {
  const sign = make("span", GLYPHS[DATA.symbols[method]], "swatch");
  sign.style.color = DATA.colours[method];
  sign.setAttribute("aria-hidden", "true");  // the checkbox is named by the method alone
  return sign;
}

function fillControls() {
  const rows = [...DATA.frontier, ...DATA.costs];
  const workloads = unique(rows.map((row) => row.group)).sort();
  // One that was attacked, if there is one: else the first plot would be empty.
  if (!workloads.includes(state.workload)) chooseWorkload(workloads.find((name) => name in DATA.defaults) ?? workloads[0] ?? "");
  const own = DATA.frontier.filter((row) => row.group === state.workload);
  const attacks = unique(own.map((row) => row.attack_name));
  if (!attacks.includes(state.attack)) state.attack = firstAttack();
  const mark = (name) => (name === "strongest" ? "strongest of each cell" : name);
  const offered = (axes, chosenAxis) => axes.filter((each) => each === chosenAxis || own.some((row) => row[each.column] != null))
    .map((each) => [each.column, each.name]);
  const methods = unique(rows.map((row) => row.method));
  fillSelect(find("workload"), workloads.map((name) => [name, name]), state.workload);
  fillSelect(find("attack"), attacks.map((name) => [name, mark(name)]), state.attack);
  fillSelect(find("leakage"), DATA.leakages.map((each) => [each.column, each.name]), state.leakage);
  fillSelect(find("utility"), offered(DATA.utilities, utility()), state.utility);
  fillSelect(find("third"), [["", "all the same"], ...offered(DATA.thirds, third())], state.third);
  const shown = Object.keys(DATA.colours).filter((name) => methods.includes(name));
  const kinds = Object.entries(DATA.kinds).map(([kind, each]) => [kind, each.name]);
  const bare = (name) => own.some((row) => row.method === name && isUntuned(row)) && own.every((row) => row.method !== name || isUntuned(row));
  fillChoices(find("methods"), shown.map((name) => [name, bare(name) ? `${name} (not tuned)` : name]), state.hiddenMethods, swatch);
  fillChoices(find("kinds"), kinds, state.hiddenKinds);
}

function listenToControls() {
  const onChange = (id, choose) => find(id).addEventListener("change", (event) => { choose(event.target.value); show(); });
  onChange("workload", chooseWorkload);
  onChange("leakage", chooseLeakage);
  onChange("attack", (name) => { state.attack = name; state.point = ""; });
  onChange("utility", (column) => { state.utility = column; });
  onChange("third", (column) => { state.third = column; });
  onChange("roc-cell", (task) => { state.point = task; });
  find("download").addEventListener("click", () => download("frontier"));
  for (const form of document.querySelectorAll("form")) form.addEventListener("submit", (event) => event.preventDefault());
}

// ---- texts and the table

function explorerColumns(rows) {
  const front = findFront(rows, state.leakage, utility());
  const auc = DATA.leakages.at(-1), gains = unique([DATA.utilities[0], utility()]);
  return [
    ["cell", pointButton, "text name", (row) => row.name],
    ["models", (row) => format(row.models, 0), "", (row) => row.models],
    ...gains.map((each) => [each.column === "accuracy" ? "accuracy" : each.name, (row) => formatUtility(row, each), "", (row) => row[each.column]]),
    ...unique([leakage(), auc]).map((each) => [each.name, (row) => formatLeakage(row, each), "", (row) => row[each.column]]),
    ["on the front", (row) => (front.includes(row) ? "yes" : "no"), "", (row) => (front.includes(row) ? 0 : 1)],
    ["balanced accuracy", (row) => formatPercent(row.balanced_accuracy), "", (row) => row.balanced_accuracy],
    ["guarantee", formatGuarantee, "text wide", (row) => row.epsilon, (row) => kindOf(row).name],
    ["blind check", (row) => (row.valid == null ? "not run" : row.valid ? "passed" : "failed: invalid")],
    ["time (baseline = 1)", formatTime, "", (row) => row.step_overhead ?? row.example_overhead],
    ["training (baseline = 1)", (row) => format(row.training_overhead, 2), "", (row) => row.training_overhead],
    ["memory (baseline = 1)", (row) => format(row.memory_overhead, 2), "", (row) => row.memory_overhead],
    ["tuned", formatTuned, "", (row) => row.configurations],
  ];
}

function missingText(rows) {
  const each = leakage(), gain = utility();
  const unresolved = rows.filter((row) => row[each.column] == null);
  const bare = rows.filter((row) => row[each.column] != null && row[gain.column] == null);
  const fewest = Math.max(...unresolved.map((row) => row.n_nonmembers ?? 0));
  return [
    unresolved.length && each.needs
      ? `Not drawn: ${unresolved.length} of ${rows.length} cells. ${each.name} needs N ≥ ${each.needs.toLocaleString("en")} `
        + `non-members; they have ${fewest.toLocaleString("en")} at most.` : "",
    bare.length ? `Not drawn: ${bare.length} of ${rows.length} cells, which have no ${gain.name}.` : "",
  ].filter(Boolean).join(" ");
}

function showTexts(rows) {
  const models = unique(rows.map((row) => row.models)).sort((a, b) => a - b);
  const span = models.length ? `${models[0]}${models.length > 1 ? " to " + models.at(-1) : ""} models a cell` : "no cell chosen";
  find("frontier-note").textContent = `${state.workload}, attack ${state.attack}, ${span}; the front is over the valid cells shown. `
    + "Click a point for its curve, its runs and the command that reproduces it.";
  find("frontier-missing").textContent = missingText(rows);
  find("frontier-tuning").replaceChildren(...(DATA.tuning[state.workload] ?? []).map((note) => make("li", note)));
}

// The legend of the third axis: three points in their drawn size.
function showSizes(rows) {
  const each = third(), values = each ? rows.map((row) => row[each.column]).filter((value) => value > 0) : [];
  if (!values.length) { find("sizes").replaceChildren(); return; }
  const most = Math.max(...values), least = Math.min(...values);
  const samples = unique([least, Math.sqrt(least * most), most].map((value) => Number(value.toPrecision(2)))).map((value) => {
    const dot = make("span", null, "dot"), sample = make("span", null, "sample");
    dot.style.width = dot.style.height = `${pointSize(value, most)}px`;
    sample.append(dot, String(value));
    return sample;
  });
  find("sizes").replaceChildren(make("span", `Area: ${each.name}`), ...samples);
}

// Ascending, descending, then in the database's order.
function chooseOrder(name) {
  const same = state.order.name === name;
  state.order = same && state.order.down ? { name: "", down: false } : { name, down: same };
  keepFocus(() => fillRows(shownRows()));
}

function fillRows(rows) {
  const columns = explorerColumns(rows), { name, down } = state.order;
  const [, , , value, group = () => ""] = columns.find((column) => column[0] === name) ?? [];
  fillTable(find("table"), columns, value ? sortGroups(rows, group, value, down) : rows,
            (row) => [row.valid === false ? "invalid" : "", row.attack_task === state.point ? "chosen" : ""].join(" ").trim(),
            { name, down, choose: chooseOrder });
}

function showExplorer() {
  fillControls();
  const rows = shownRows();
  if (!rows.some((row) => row.attack_task === state.point)) state.point = "";
  const curves = chooseCurves(rows);
  const several = curves.length < rows.length ? `${curves.length} cells on the front` : "all cells shown";
  fillSelect(find("roc-cell"), [["", several], ...rows.map((row) => [row.attack_task, clip(row.name, 60)])], state.point);
  showTexts(rows);
  showSizes(rows);
  fillRows(rows);
  showPoint(rows.find((row) => row.attack_task === state.point));
  const axes = { leakage: leakage(), utility: utility(), third: third() }, point = state.point;
  drawSoon(() => {
    drawFrontier(rows, axes, point);
    drawRocs(point ? chooseCurves(rows.filter((row) => row.attack_task === point)) : curves);
    listenToPoints();
  });
}

// Once: the plot has events from its first drawing on.
function listenToPoints() {
  const plot = find("frontier-plot");
  if (plot.dataset.heard) return;
  plot.dataset.heard = "yes";
  plot.on("plotly_afterplot", () => dashUntuned(plot));
  plot.on("plotly_click", (event) => {
    const task = event.points[0]?.customdata;
    if (task) choosePoint(task);
  });
}
