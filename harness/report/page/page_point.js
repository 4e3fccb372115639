// One point: what made it, the command that makes it again, and the runs behind it.

function choosePoint(task) {
  state.point = task;
  show();
}

// The name of a cell in the table: pressed, it shows the point and takes the reader there.
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
    // A page from the disk may not be let near the clipboard: select it, so that the keys copy it.
    getSelection().selectAllChildren(find("command"));
    button.textContent = "Selected: press Ctrl+C";
  }
}

function commandBlock(row) {
  const block = make("div", null, "command"), text = make("pre"), button = make("button", "Copy");
  text.id = "command";
  text.tabIndex = 0;
  text.setAttribute("aria-label", "The command that makes this point");
  text.append(make("code", row.command));
  button.type = "button";
  button.id = "copy";
  button.addEventListener("click", () => copyCommand(row.command, button));
  block.append(text, button);
  return block;
}

function runTable(row) {
  const runs = DATA.runs.filter((run) => run.cell === row.cell && run.index < row.models);
  if (!runs.length) return make("p", "The runs behind it are not in this report.", "soft");
  const box = make("div", null, "scroll tall"), table = make("table");
  box.tabIndex = 0;
  box.dataset.mark = "runs";
  table.id = "runs";
  fillTable(table, [
    ["run", (run) => say(run.index, 0)], ["accuracy", (run) => say(run.test_accuracy, 4)],
    ["train accuracy", (run) => say(run.train_accuracy, 4)], ["test loss", (run) => say(run.test_loss, 4)],
    ["priced ε", (run) => sayShort(run.epsilon)], ["seconds", (run) => say(run.train_seconds, 2)],
    ["host", (run) => run.host ?? "–"], ["task", (run) => { const key = make("code", clip(run.task, 12)); key.title = run.task; return key; }],
  ], runs);
  box.append(table);
  return box;
}

function showPoint(row) {
  const panel = find("point"), key = row ? JSON.stringify([row, DATA.made[row.cell], DATA.runs.length]) : "";
  // Drawn anew only when it has changed: a reader may be selecting text in it.
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
      ["accuracy", `${sayUtility(row, DATA.utilities[0])}; train ${say(row.train_accuracy, 3)}`],
      ["leakage", DATA.leakages.filter((each) => row[each.column] != null).map((each) => `${each.name} ${sayLeakage(row, each)}`).join("; ")],
      ["guarantee", sayGuarantee(row)],
      ["check", `${sayValid(row)}; tuned: ${row.tuned ?? "not counted"}`],
      ["parameters", sayParams(row)],
      ["versions", sayVersions(row)],
      ...madeOf(row),
    ]),
    make("h4", "The command that makes it"),
    commandBlock(row),
    make("h4", "The runs behind it"),
    runTable(row),
  );
}
