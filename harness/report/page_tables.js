// Tables of text, and rows as CSV.

// `heads`: [name, row -> text or element, class of the cell].
function fillTable(table, heads, rows, classOf = () => "") {
  const head = make("tr");
  head.append(...heads.map(([name]) => { const cell = make("th", name); cell.scope = "col"; return cell; }));
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
