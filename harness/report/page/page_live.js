// Under `privbench serve`: poll for progress and for newer data, and redraw without reloading.

const PAUSE_MS = 2000;

// The server's data, or null if unchanged. Requests need the page's own token.
async function ask(name, tag) {
  const response = await fetch(name + location.search, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
  const text = await response.text();
  if (response.status === 304) return null;
  if (!response.ok) throw new Error(`status ${response.status}`);
  return { tag: response.headers.get("ETag"), value: JSON.parse(text) };
}

function barOf(done, total, label) {
  const bar = make("progress");
  bar.max = Math.max(total, 1);
  bar.value = done;
  bar.setAttribute("aria-label", label);
  return bar;
}

function sweepLine(sweep) {
  const line = make("div", null, "sweep"), failed = sweep.failed ? `, ${sweep.failed} failed` : "";
  const open = [sweep.running ? `${sweep.running} running` : "", sweep.waiting ? `${sweep.waiting} waiting` : ""].filter(Boolean).join(", ");
  line.append(make("strong", sweep.sweep), barOf(sweep.done + sweep.failed, sweep.tasks, `Tasks of ${sweep.sweep}`),
              make("span", `${sweep.done} of ${sweep.tasks} tasks${failed}${open ? `; ${open}` : ""}${sweep.backend ? `; ${sweep.backend}` : ""}`));
  if (sweep.failed) line.classList.add("alarm");
  return line;
}

function runningLine(task) {
  const line = make("li"), phase = task.phase || "starting";
  line.append(make("span", `${task.label}: ${phase}`), barOf(task.done, task.total, `${task.label}, ${phase}`),
              make("span", task.total ? `${task.done} of ${task.total}` : ""));
  return line;
}

function showProgress(progress) {
  if (!progress.sweeps) return;  // only a database is served, which has no sweeps
  const open = progress.sweeps.filter((sweep) => sweep.running || sweep.waiting);
  const over = progress.sweeps.filter((sweep) => !open.includes(sweep));
  const text = !progress.sweeps.length ? "No sweep in this store yet: privbench run SWEEP, or privbench quickstart."
    : open.length ? `${plural(open.length, "sweep")} running.` : "All sweeps have finished.";
  showOnly("progress", true);
  // A screen reader repeats a status whenever it is written.
  if (find("progress-note").textContent !== text) find("progress-note").textContent = text;
  find("sweeps").replaceChildren(...open.map(sweepLine));
  find("running").replaceChildren(...progress.running.map(runningLine));
  showOnly("over", over.length > 0);
  find("over").firstElementChild.textContent = `Finished: ${plural(over.length, "sweep")}`;
  find("over").lastElementChild.replaceChildren(...over.map(sweepLine));
}

function showAway(error) {
  const text = error ? `The server does not respond (${error.message}). Retrying every ${PAUSE_MS / 1000} s; the page shows the last data received.` : "";
  find("away").hidden = !error;
  if (find("away").textContent !== text) find("away").textContent = text;
}

async function follow() {
  let tag = null;
  for (;;) {
    try {
      showProgress((await ask("progress.json")).value);
      const newer = await ask("data.json", tag);
      if (newer) {
        tag = newer.tag;
        take(newer.value);
        keepFocus(showAll);
      }
      showContents();
      showAway(null);
    } catch (error) {
      showAway(error);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
