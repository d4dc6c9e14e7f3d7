// The page's part of PolicyMatrix: a grid of verdicts, one of them explained below, a path tried, two columns compared.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const verdict = (word) => make("span", { class: "nsb-verdict", "data-verdict": word }, word);

function render({ model, el }) {
  let chosen = null; // [endpoint, column] of the cell explained below
  let compared = null; // { before, after, endpoints } while only differences are shown

  const filter = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter endpoints" });
  const path = make("input", { class: "nsb-path", "aria-label": "Try a path", placeholder: "Try a path, for example /etc/passwd", spellcheck: "false" });
  const op = make("select", { "aria-label": "Operation" }, make("option", { value: "" }, "as called"),
    ...model.get("ops").map((name) => make("option", { value: name }, name)));
  const form = make("form", {}, path, op, make("button", { type: "submit" }, "Try"));
  const pick = (label) => make("select", { "aria-label": label },
    ...model.get("columns").map((column, index) => make("option", { value: String(index) }, column.title)));
  const before = pick("Compare"), after = pick("with");
  const compare = make("button", { type: "button", "aria-pressed": "false" }, "Compare");
  const several = model.get("columns").length > 1;
  after.selectedIndex = several ? 1 : 0;
  const bar = make("span", { class: "nsb-rules-bar" }, before, "with", after, compare);
  bar.hidden = !several;
  const table = make("table", { class: "nsb-table" });
  const about = make("div", { class: "nsb-rules-about", "aria-live": "polite" });
  const said = make("div", { class: "nsb-rules-said", role: "status", "aria-live": "polite" });
  const root = make("section", { class: "nsb-rules nsb-matrix", "aria-label": "Policies side by side" },
    make("header", {}, make("strong", {}, "Who may call what"), make("span", { class: "nsb-gap" }), bar, filter),
    form, make("div", { class: "nsb-scroll", tabindex: "-1" }, table), said, about);
  el.append(root);
  root.addEventListener("keydown", (event) => event.stopPropagation());

  // What a cell says now: about the path that was tried, where there is one and the endpoint takes paths.
  const shown = (cell) => (cell.asked.length ? (cell.asked.every(Boolean) ? "allowed" : "denied") : cell.verdict);

  function draw() {
    const columns = model.get("columns"), words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const numbers = compared ? [compared.before, compared.after] : columns.map((_, index) => index);
    const head = make("tr", {}, make("th", { scope: "col" }, make("b", {}, "Endpoint")),
      ...numbers.map((number) => make("th", { scope: "col", class: "nsb-column", title: columns[number].about }, columns[number].title)));
    const parts = [make("thead", {}, head)];
    const rows = model.get("rows").filter((row) => {
      const text = `${row.id} ${row.group} ${row.cells.map((cell) => cell.verdict).join(" ")}`.toLowerCase();
      return words.every((word) => text.includes(word)) && (!compared || compared.endpoints.includes(row.id));
    }).sort((a, b) => (a.group === b.group ? (a.id < b.id ? -1 : 1) : a.group < b.group ? -1 : 1));
    let group = null, part = null;
    for (const row of rows) {
      if (row.group !== group) {
        group = row.group;
        part = make("tbody", {}, make("tr", {}, make("th", { class: "nsb-group", scope: "rowgroup", colspan: String(numbers.length + 1) }, group)));
        parts.push(part);
      }
      part.append(make("tr", { "data-endpoint": row.id }, make("th", { class: "nsb-first", scope: "row", title: row.summary }, row.id),
        ...numbers.map((number) => make("td", {}, cellOf(row, number, columns[number])))));
    }
    if (!rows.length) parts.push(make("tbody", {}, make("tr", {}, make("td", { class: "nsb-dim", colspan: String(numbers.length + 1) }, compared && !words.length ? "both mean the same" : "nothing matches"))));
    table.replaceChildren(...parts);
    explain();
  }

  function cellOf(row, number, column) {
    const cell = row.cells[number];
    const button = make("button", { type: "button", class: "nsb-rules-cell", "data-at": `${row.id} ${number}`, title: cell.facts.map((fact) => fact.join(": ")).join("\n") }, verdict(shown(cell)));
    button.setAttribute("aria-label", `${row.id}, ${column.title}: ${shown(cell)}`);
    const choose = () => { chosen = [row.id, number]; explain(); };
    button.addEventListener("click", choose);
    button.addEventListener("focus", choose);
    return button;
  }

  function explain() {
    for (const other of table.querySelectorAll(".nsb-rules-cell")) other.setAttribute("aria-pressed", String(chosen !== null && other.dataset.at === chosen.join(" ")));
    const row = chosen && model.get("rows").find((one) => one.id === chosen[0]);
    if (!row) {
      about.replaceChildren(make("span", { class: "nsb-dim" }, "Choose a verdict to see the reason, the rule that decides, and the bounds."));
      return;
    }
    const cell = row.cells[chosen[1]], column = model.get("columns")[chosen[1]];
    const list = make("dl", { class: "nsb-rules-facts" });
    for (const [name, value] of cell.facts) list.append(make("dt", {}, name), make("dd", {}, value));
    about.replaceChildren(verdict(cell.verdict), " ", make("b", {}, row.id), ` for ${column.title} `, make("span", { class: "nsb-dim" }, `(${column.about}) · ${row.summary}`), list);
  }

  // As in any grid: arrows go from cell to cell.
  table.addEventListener("keydown", (event) => {
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!step || !event.target.classList.contains("nsb-rules-cell")) return;
    const lines = [...table.querySelectorAll("tr[data-endpoint]")].map((line) => [...line.querySelectorAll(".nsb-rules-cell")]);
    const at = lines.findIndex((line) => line.includes(event.target));
    lines[at + step[0]]?.[lines[at].indexOf(event.target) + step[1]]?.focus();
    event.preventDefault();
  });
  filter.addEventListener("input", draw);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    said.textContent = "asking …";
    model.send({ kind: "try", path: path.value, op: op.value });
  });
  const ask = () => model.send({ kind: "diff", before: before.selectedIndex, after: after.selectedIndex });
  compare.addEventListener("click", () => {
    if (!compared) { ask(); return; }
    compared = null;
    compare.setAttribute("aria-pressed", "false");
    compare.textContent = "Compare";
    said.textContent = "";
    draw();
  });
  for (const one of [before, after]) one.addEventListener("change", () => { if (compared) ask(); });

  function summary() {
    const counts = { allowed: 0, limited: 0, denied: 0 };
    const rows = new Map(model.get("rows").map((row) => [row.id, row]));
    for (const id of compared.endpoints) counts[shown(rows.get(id).cells[compared.after])] += 1;
    const parts = Object.entries(counts).filter(([, number]) => number).map(([word, number]) => `${number} ${word}`);
    return `${compared.endpoints.length} differ${parts.length ? `; with ${model.get("columns")[compared.after].title} they are: ${parts.join(", ")}` : ""}`;
  }

  const hear = (message) => {
    if (message.kind === "diff") {
      compared = message;
      compare.setAttribute("aria-pressed", "true");
      compare.textContent = "Show all";
      said.textContent = summary();
      draw();
    } else if (message.kind === "tried") {
      said.textContent = message.path ? `each verdict now answers for "${message.path}", where paths are taken` : "";
      draw();
      if (compared) ask();
    } else if (message.kind === "failed") said.textContent = message.message;
  };
  model.on("msg:custom", hear);
  draw();
  return () => model.off("msg:custom", hear);
}

export default { render };
