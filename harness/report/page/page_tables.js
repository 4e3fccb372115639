// Tables of text, and rows as CSV.

// The header of a column; a button if it can be sorted.
function headOf(name, order) {
  const cell = make("th", order ? null : name);
  cell.scope = "col";
  if (!order) return cell;
  const button = make("button", name);
  button.type = "button";
  button.dataset.mark = `sort ${name}`;
  button.addEventListener("click", () => order.choose(name));
  if (order.name === name) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
  cell.append(button);
  return cell;
}

// By numbers or texts; rows without a value come last in either order.
function sortRows(rows, value, down) {
  const sign = down ? -1 : 1;
  const number = (each) => (each === "inf" ? Infinity : each);
  const order = (one, other) => (typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one < other ? -1 : Number(one > other));
  const keyed = rows.map((row) => [number(value(row)), row]);
  const known = keyed.filter(([key]) => key != null).sort(([one], [other]) => sign * order(one, other));
  return [...known, ...keyed.filter(([key]) => key == null)].map(([, row]) => row);
}

// The same within groups, for values of different kinds; groups without any value come last in either order.
function sortGroups(rows, group, value, down) {
  const groups = unique(rows.map(group)).sort().map((name) => rows.filter((row) => group(row) === name));
  const known = (each) => each.some((row) => value(row) != null);
  return [...groups.filter(known), ...groups.filter((each) => !known(each))].flatMap((each) => sortRows(each, value, down));
}

// `heads`: [name, row -> text or element, class of the cell, row -> sort key, if sortable,
// row -> the kind of that value, if values of different kinds are not comparable].
function fillTable(table, heads, rows, classOf = () => "", order = null) {
  const head = make("tr");
  head.append(...heads.map(([name, , , value]) => headOf(name, value && order)));
  const lines = rows.map((row) => {
    const line = make("tr", null, classOf(row));
    line.append(...heads.map(([, show, className]) => {
      const shown = show(row), cell = make("td", null, className);
      cell.append(shown ?? "–");
      return cell;
    }));
    return line;
  });
  const top = make("thead"), body = make("tbody");
  top.append(head);
  body.append(...lines);
  table.replaceChildren(top, body);
}

function quoteCsv(value) {
  const text = value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function csvOf(table) {
  return [table.columns, ...table.rows].map((line) => line.map(quoteCsv).join(",") + "\r\n").join("");
}

function download(view) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([csvOf(DATA.views[view])], { type: "text/csv" }));
  link.download = `${view}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}
