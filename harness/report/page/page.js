// The page as a whole: what is shown when, and the start.

// The parts that depend on the reader's choices.
function show() {
  showExplorer();
  showOverhead();
  showCalibrations();
}

function showAll() {
  const cells = unique([...DATA.frontier, ...DATA.costs].map((row) => row.cell).filter(Boolean)).length;
  const condition = DATA.where ? ` · where ${DATA.where}` : "";
  find("summary").textContent = "Accuracy against measured leakage, and what it costs to train"
    + ` · ${plural(cells, "cell")}${condition} · privbench ${DATA.version}`;
  const any = DATA.frontier.length + DATA.costs.length > 0;
  notice(any ? "" : DATA.empty);
  for (const id of ["frontier", "rows", "overhead", "calibration"]) showOnly(id, any);
  if (any) show();
  showTunes();
  showAudits();
  showAttributes();
  showReproduction();
  showTheory();
  showPictures();
  showFailures();
  showRaw();
  showContents();
}

function showContents() {
  for (const link of document.querySelectorAll("#contents a")) link.parentElement.hidden = find(link.hash.slice(1)).hidden;
}

// The link of the section at the top of the screen is marked.
function followReader() {
  const links = new Map([...document.querySelectorAll("#contents a")].map((link) => [link.hash.slice(1), link]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      for (const [id, link] of links) {
        if (id === entry.target.id) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
      }
    }
  }, { rootMargin: "-20% 0px -75% 0px" });
  for (const id of links.keys()) observer.observe(find(id));
}

async function start() {
  try {
    take(await (await unpack("data")).json());
  } catch (error) {
    notice(`The data of this page cannot be read in this browser (${error.message}). `
      + "frontier.svg and overhead.svg hold the figures.");
    return;
  }
  listenToControls();
  listenToSections();
  followReader();
  showAll();
  await plotlyRead;  // after the explorer, which waits for it too: its plots are drawn by now
  if (!window.Plotly) {
    notice("The interactive plots cannot be drawn in this browser. "
      + "The tables below hold the same numbers; frontier.svg and overhead.svg hold the figures.");
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showAll);
  // In print everything is drawn.
  addEventListener("beforeprint", () => { for (const element of [...waiting.keys()]) doWaiting(element); });
  if (isLive()) follow();
}

start().finally(() => find("main").setAttribute("aria-busy", "false"));
