"use strict";
// Shared by all parts: the data, elements, and tables of rows. Names are written with textContent only.

let DATA = null;

const find = (id) => document.getElementById(id);
const unique = (values) => [...new Set(values)];
const isLive = () => "live" in document.body.dataset;

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text != null) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function clip(text, length) {
  const line = String(text ?? "");
  return line.length <= length ? line : line.slice(0, length - 1) + "…";
}

function showOnly(id, visible) {
  find(id).hidden = !visible;
}

async function unpack(id) {
  const letters = atob(find(id).textContent), packed = new Uint8Array(letters.length);
  // A plain loop: Uint8Array.from with a function takes ten times as long over two million characters.
  for (let place = 0; place < letters.length; place += 1) packed[place] = letters.charCodeAt(place);
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
}

function rowsOf(table) {
  const { columns, rows } = table;
  // A plain loop: Object.fromEntries takes several times as long over thousands of rows.
  return rows.map((values) => {
    const row = {};
    for (let place = 0; place < columns.length; place += 1) row[columns[place]] = values[place];
    return row;
  });
}

// The rows of the page, built once from the data. `frontier` is the view with the page's own columns.
function take(data) {
  const points = rowsOf(data.points);
  const frontier = rowsOf(data.views.frontier).map((row, place) => ({ ...row, ...points[place], place }));
  const remarks = data.reproduced.remarks;
  const reproduction = rowsOf(data.views.reproduction).map((row, place) => ({ ...row, remarks: remarks[place] }));
  DATA = { ...data, colours: readableColours(data.colours), frontier, reproduction, audits: rowsOf(data.views.audit),
           inferences: rowsOf(data.views.attribute), runs: rowsOf(data.views.runs) };
}

function fillSelect(select, options, chosen) {
  const same = options.length === select.options.length
    && options.every(([value, text], place) => select.options[place].value === value && select.options[place].text === text);
  // An open list must not close because the same names arrived.
  if (!same) {
    select.replaceChildren(...options.map(([value, text]) => {
      const option = make("option", text);
      option.value = value;
      return option;
    }));
  }
  select.value = chosen;
}

// Redraws, and restores the focus to the element at the same place.
function keepFocus(redraw) {
  const held = document.activeElement;
  const mark = held?.id || held?.dataset?.mark;
  redraw();
  if (!mark || held.isConnected) return;
  (find(mark) ?? document.querySelector(`[data-mark="${CSS.escape(mark)}"]`))?.focus({ preventScroll: true });
}

function notice(text) {
  find("notice").textContent = text;
  find("notice").hidden = !text;
}
