// The sections below the frontier. An empty one states what to run, or is hidden.

const SHOWN_ROWS = 100;

// A number of blocks, each with a heading, a plot and a table; existing ones are kept.
function blocksIn(place, count) {
  while (place.children.length > count) {
    const last = place.lastElementChild;
    window.Plotly?.purge(last.querySelector(".plot"));
    last.remove();
  }
  while (place.children.length < count) {
    const block = make("article"), box = make("div", null, "scroll");
    box.append(make("table"));
    box.tabIndex = 0;
    block.append(make("h3"), make("div", null, "plot short"), box);
    place.append(block);
  }
  return [...place.children].map((block) => ({ title: block.children[0], plot: block.children[1], box: block.children[2] }));
}

function showOverhead() {
  const costs = DATA.costs.filter(chosen);
  find("clocks").textContent = DATA.clocks;
  drawLater(find("time-plot"), () => drawRatios("time-plot", costs, "time_overhead", "a step at equal batch (■), else per example (●), baseline = 1"));
  drawLater(find("training-plot"), () => drawRatios("training-plot", costs, "training_overhead", "time of the whole training (baseline = 1)"));
  const resolved = costs.some((row) => row.memory_overhead != null && row.role !== "plain-baseline");
  showOnly("memory-plot", resolved);  // noise is left out
  if (resolved) drawLater(find("memory-plot"), () => drawRatios("memory-plot", costs, "memory_overhead", "extra peak memory (baseline = 1)"));
}

function showCalibrations() {
  const found = DATA.calibrations.filter((each) => each.group === state.workload && each.curves.length);
  showOnly("calibration", found.length > 0);
  blocksIn(find("calibrations"), found.length).forEach(({ title, plot, box }, place) => {
    const each = found[place];
    title.textContent = `${each.leakage}, attack ${each.attack}`;
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", `Accuracy at equal ${each.leakage}; the same numbers are in the table below`);
    box.setAttribute("aria-label", title.textContent);
    fillTable(box.firstElementChild, each.columns.map((name, column) => [name, (line) => line[column], column ? "" : "first"]), each.rows);
    drawLater(plot, () => drawOffers(plot, each));
  });
  find("calibration-notes").replaceChildren(...(found[0]?.notes ?? []).map((note) => make("li", note)));
}

function showTunes() {
  const { blocks, columns, rows, notes } = DATA.tunes;
  showOnly("tunes", blocks.length > 0);
  const wide = ["values taken", "warnings"];
  fillTable(find("tunes-table"), columns.map((name, place) => [name, (line) => line[place], wide.includes(name) ? "text wide" : ""]), rows);
  blocksIn(find("tunes-plots"), blocks.length).forEach(({ title, plot, box }, place) => {
    const each = blocks[place];
    title.textContent = each.title;
    box.hidden = true;
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", `${each.title}; the same numbers are in the view trial below`);
    drawLater(plot, () => drawTrials(plot, each));
  });
  find("tunes-notes").replaceChildren(...notes.map((note) => make("li", note)));
}

function showAudits() {
  const rows = DATA.audits, place = find("audits"), box = find("audit-table").parentElement;
  box.hidden = find("audit-plot").hidden = !rows.length;
  if (!rows.length) {
    place.replaceChildren(make("p", "No cell was audited. Canaries are needed: privbench run ... --set canary=gradient "
      + "--set canaries=100 --attack audit-one-run, or canary and canaries in a grid.", "soft"));
    return;
  }
  const alarms = rows.filter((row) => row.alarm).map((row) => `ALARM: ${row.workload}, ${row.label}: ${row.message}`);
  const meaning = "Lower bounds on ε from canaries. A small bound proves nothing; one above the guarantee's ε is an alarm. "
    + "Bar: lower bound; circle: guarantee; line: the paper's claim.";
  place.replaceChildren(make("p", meaning, "soft"), ...alarms.map((alarm) => make("p", alarm, "alarm")));
  drawLater(find("audit-plot"), () => drawAudits(rows));
  const digits = (value) => (typeof value === "number" ? value.toPrecision(3) : formatShort(value));
  fillTable(find("audit-table"), [
    ["workload", (row) => row.workload, "text"], ["cell", (row) => row.label, "text"], ["audit", (row) => row.attack],
    ["canaries", (row) => `${row.canaries} ${row.canary}`, "text"], ["models", (row) => format(row.models, 0)],
    ["correct guesses", (row) => `${row.correct} of ${row.guesses}`],
    ["audited ε ≥", (row) => `${digits(row.epsilon_audited)} (${100 * row.confidence} %)`],
    ["guaranteed ε", (row) => digits(row.epsilon_priced)], ["paper's ε", (row) => digits(row.epsilon_paper)],
    ["meaning", (row) => row.meaning, "text"], ["alarm", (row) => (row.alarm ? "ALARM" : "no")],
  ], rows, (row) => (row.alarm ? "alarm" : ""));
}

function showAttributes() {
  const rows = DATA.inferences.map((row, place) => ({ ...row, ...DATA.inferred[place] }));
  showOnly("attributes", rows.length > 0);
  if (!rows.length) return;
  drawLater(find("attributes-plot"), () => drawGaps(rows));
  fillTable(find("attributes-table"), [
    ["workload", (row) => row.workload, "text"], ["cell", (row) => row.label, "text"], ["attribute", (row) => row.attribute, "text"],
    ["attack", (row) => row.attack_name, "text"], ["models", (row) => format(row.models, 0)],
    ["members", (row) => row.members], ["non-members", (row) => row.nonmembers], ["gap, points [95 %]", (row) => row.gap_text],
    ["highest gap", (row) => (row.gap_ceiling == null ? "–" : (100 * row.gap_ceiling).toFixed(1))],
    ["guaranteed ε", (row) => formatShort(row.epsilon)], ["finding", (row) => row.finding, "text"],
  ], rows);
}

// ---- published numbers

const OURS = "ours";
const withOurs = (row) => row.ours != null;

function showReproduction() {
  const rows = DATA.reproduction, reproduced = rows.filter(withOurs).length;
  showOnly("reproduction", rows.length > 0);
  if (!state.status) state.status = OURS;
  const tables = unique(rows.map((row) => row.table_name));
  const statuses = DATA.reproduced.statuses.map((each) => [each.status, `${each.name} (${each.count})`]);
  fillSelect(find("status"), [[OURS, `with ours (${reproduced})`], ...statuses, ["all", `all (${rows.length})`]], state.status);
  fillSelect(find("printed"), [["", "all tables"], ...tables.map((name) => [name, name])], state.printed);
  find("reproduction-note").textContent = reproduced
    ? `${reproduced} of ${rows.length} published numbers are reproduced here.`
    : `None of ${rows.length} published numbers is reproduced here yet: `
      + "see privbench list published, then privbench run --published TABLE.";
  whenNear(find("reproduction"), fillReproduction);
}

function formatPublished(row) {
  const spread = row.deviation == null ? "" : ` ± ${row.deviation.toFixed(row.decimals)}`;
  return `${row.value.toFixed(row.decimals)}${spread}${row.unit ? " " + row.unit : ""}`;
}

function formatOurs(row) {
  if (row.ours == null) return "–";
  const digits = row.decimals + 1;  // one more than in print, so that rounding hides no difference
  const spread = row.ours_low != null ? ` [${row.ours_low.toFixed(digits)}, ${row.ours_high.toFixed(digits)}]`
    : row.ours_deviation == null ? "" : ` ± ${row.ours_deviation.toFixed(digits)}`;
  return `${row.ours.toFixed(digits)}${spread}${row.unit ? " " + row.unit : ""} (n=${row.models})`;
}

function fillReproduction() {
  const fits = (row) => (state.status === "all" || (state.status === OURS ? withOurs(row) : row.status === state.status))
    && (!state.printed || row.table_name === state.printed);
  const rows = DATA.reproduction.filter(fits);
  const figure = (row) => (DATA.reproduced.figures[row.metric] ?? row.metric) + (row.attack ? `, ${row.attack}` : "");
  const method = (row) => row.label + (Object.keys(row.params ?? {}).length ? ` (${formatParams(row)})` : "");
  const box = find("reproduction-table").parentElement;
  box.hidden = !rows.length;
  fillTable(find("reproduction-table"), [
    ["source", (row) => `${row.citation}, ${row.printed}`, "text"], ["workload", (row) => row.workload ?? row.printed_workload, "text"],
    ["method", method, "text"], ["figure", figure, "text"], ["paper", formatPublished], ["ours", formatOurs],
    ["difference", (row) => (row.difference == null ? "–" : (row.difference > 0 ? "+" : "") + row.difference.toFixed(row.decimals + 1))],
    ["verdict", (row) => row.status], ["remarks", (row) => row.remarks, "text wide"],
  ], rows, (row) => (row.status === "outside" ? "outside" : ""));
}

// ---- theory, pictures, failures, raw rows

function showTheory() {
  const panels = DATA.theory;
  showOnly("theory", panels.length > 0);
  find("theory-note").textContent = "The methods' theory, with statistics of their training runs if there are any. "
    + "All figures and their tables: privbench report theory.";
  blocksIn(find("theory-plots"), panels.length).forEach(({ title, plot, box }, place) => {
    title.textContent = panels[place].title;
    box.hidden = true;
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", panels[place].title);
    drawLater(plot, () => drawPanel(plot, panels[place]));
  });
}

function showPictures() {
  const { blocks, left_out: left } = DATA.pictures;
  const rest = left ? ` Left out: ${plural(left, "attack")}; all of them: privbench report reconstructions.` : "";
  find("pictures-note").textContent = blocks.length
    ? `Members, and their reconstructions from the gradients of single steps.${rest}`
    : left ? "The pictures are not available here. On the store's machine: privbench report reconstructions."
      : "No reconstruction yet. Run: privbench run --workload cifar10-lenet --method METHOD --models 1 --attack inverting-gradients";
  find("galleries").replaceChildren(...blocks.map((block) => {
    const article = make("article", null, "gallery");
    article.append(make("h3", block.title), ...block.lines.map((line) => {
      const figure = make("figure"), image = make("img");
      image.src = line.image;
      image.alt = line.text;
      image.loading = "lazy";
      figure.append(make("figcaption", line.text), image);
      return figure;
    }));
    return article;
  }));
}

function showFailures() {
  const rows = DATA.failed;
  find("failed-note").textContent = rows.length
    ? "Every failed task, whatever the filter. Full traceback: privbench logs TASK." : "No task failed.";
  find("failed").parentElement.hidden = !rows.length;
  fillTable(find("failed"), [
    ["workload", (row) => row.workload, "text"], ["cell", (row) => row.label ?? row.method, "text"],
    ["task", (row) => row.kind], ["reason", (row) => row.reason], ["tasks", (row) => format(row.tasks, 0)],
    ["message", (row) => row.message, "text wide"],
  ], rows);
}

function showRaw() {
  const views = Object.entries(DATA.views).filter(([, table]) => table.rows.length);
  showOnly("raw", views.length > 0);
  if (!views.length) return;
  if (!DATA.views[state.view]?.rows.length) state.view = views[0][0];
  fillSelect(find("view"), views.map(([name, table]) => [name, `${name} (${table.rows.length})`]), state.view);
  const count = DATA.views[state.view].rows.length;
  find("raw-note").textContent = count > SHOWN_ROWS ? `The first ${SHOWN_ROWS} of ${count.toLocaleString("en")} rows; the file has all of them.` : "";
  whenNear(find("raw"), () => {
    const { columns, rows } = DATA.views[state.view];
    fillTable(find("raw-table"), columns.map((name, place) => [name, (row) => clip(formatValue(row[place]), 80)]), rows.slice(0, SHOWN_ROWS));
  });
}

function listenToSections() {
  const onChange = (id, name, redraw) => find(id).addEventListener("change", (event) => { state[name] = event.target.value; redraw(); });
  onChange("status", "status", showReproduction);
  onChange("printed", "printed", showReproduction);
  onChange("view", "view", showRaw);
  find("download-view").addEventListener("click", () => download(state.view));
}
