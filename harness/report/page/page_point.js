// One point: its provenance, the command that reproduces it, and the runs behind it.

function choosePoint(task) {
  state.point = task;
  show();
}

// The name of a cell in the table: a click shows the point and scrolls to it.
function pointButton(row) {
  const button = make("button", row.name, "link");
  button.type = "button";
  button.dataset.mark = `row ${row.attack_task}`;
  button.addEventListener("click", () => {
    choosePoint(row.attack_task);
    find("point").focus({ preventScroll: true });
    find("point").scrollIntoView({ block: "nearest" });
  });
  return button;
}

function closePoint() {
  const mark = `row ${state.point}`;
  choosePoint("");
  document.querySelector(`[data-mark="${CSS.escape(mark)}"]`)?.focus({ preventScroll: true });
}

function factList(facts) {
  const list = make("dl", null, "facts");
  for (const [name, text] of facts) list.append(make("dt", name), make("dd", text));
  return list;
}

async function copyCommand(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // A page from disk may have no access to the clipboard: select the text, to be copied by keys.
    getSelection().selectAllChildren(find("command"));
    button.textContent = "Selected: press Ctrl+C";
  }
}

function commandBlock(row) {
  const block = make("div", null, "command"), text = make("pre"), button = make("button", "Copy");
  text.id = "command";
  text.tabIndex = 0;
  text.setAttribute("aria-label", "The command that reproduces this point");
  text.append(make("code", row.command));
  button.type = "button";
  button.id = "copy";
  button.addEventListener("click", () => copyCommand(row.command, button));
  block.append(text, button);
  return block;
}

function runTable(row) {
  const runs = DATA.runs.filter((run) => run.cell === row.cell && run.index < row.models);
  if (!runs.length) return make("p", "Its runs are not in this report.", "soft");
  const box = make("div", null, "scroll tall"), table = make("table");
  box.tabIndex = 0;
  box.dataset.mark = "runs";
  table.id = "runs";
  fillTable(table, [
    ["run", (run) => format(run.index, 0)], ["accuracy", (run) => formatPercent(run.test_accuracy)],
    ["train accuracy", (run) => formatPercent(run.train_accuracy)], ["test loss", (run) => format(run.test_loss, 4)],
    ["ε", (run) => formatShort(run.epsilon)], ["seconds", (run) => format(run.train_seconds, 2)],
    ["host", (run) => run.host ?? "–"], ["task", (run) => { const key = make("code", clip(run.task, 12)); key.title = run.task; return key; }],
  ], runs);
  box.append(table);
  return box;
}

function showPoint(row) {
  const panel = find("point"), key = row ? JSON.stringify([row, DATA.made[row.cell], DATA.runs.length]) : "";
  // Redrawn only when it has changed: a reader may be selecting text in it.
  if (panel.dataset.key === key) return;
  panel.dataset.key = key;
  panel.classList.toggle("quiet", !row);
  if (!row) {
    const hint = make("p", "Click a point, or choose a cell's name in the table below.", "soft");
    hint.id = "point-title";
    panel.replaceChildren(hint);
    return;
  }
  const title = make("h3", row.name), close = make("button", "Close"), head = make("div", null, "head");
  title.id = "point-title";
  close.type = "button";
  close.id = "close-point";
  close.addEventListener("click", closePoint);
  head.append(title, close);
  panel.replaceChildren(
    head,
    factList([
      ["cell", `${row.group}, attack ${row.attack_name}, ${plural(row.models, "model")}`],
      ["accuracy", [formatFigure(row, "accuracy"), majorityText(row), `train ${formatPercent(row.train_accuracy)}`].filter(Boolean).join("; ")],
      ["leakage", DATA.leakages.filter((each) => row[each.column] != null).map((each) => `${each.name} ${formatLeakage(row, each)}`).join("; ")],
      ["guarantee", formatGuarantee(row)],
      ["check", `${formatValid(row)}; tuned: ${formatTuned(row) || "not counted"}`],
      ["parameters", formatParams(row)],
      ["versions", formatVersions(row)],
      ...madeOf(row),
    ]),
    make("h4", "Command to reproduce it"),
    commandBlock(row),
    make("h4", "Runs"),
    runTable(row),
  );
}
