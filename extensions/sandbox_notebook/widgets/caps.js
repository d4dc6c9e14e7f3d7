// The page's part of CapabilityTable: lines that open, a filter, an order, and a question about a path.

const WORDS = { kernel: "kernel", api: "server" };
const FLASH = 2500; // milliseconds
const RANK = { denied: 0, limited: 1, allowed: 2 };

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const verdict = (word) => make("span", { class: "nsb-verdict", "data-verdict": word }, word);

function render({ model, el }) {
  const denials = new Map(); // endpoint -> how often, since this page shows it
  let order = "group", open = "", asked = "";

  const head = make("strong"), facts = make("span", { class: "nsb-dim" });
  const filter = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter endpoints" });
  const only = make("input", { type: "checkbox" });
  const again = make("button", { type: "button" }, "Refresh");
  const body = make("table", { class: "nsb-table" });
  const said = make("div", { class: "nsb-rules-said", role: "status", "aria-live": "polite" });
  const root = make("section", { class: "nsb-rules", "aria-label": "What this sandbox may do" },
    make("header", {}, head, facts, make("span", { class: "nsb-gap" }), filter, make("label", {}, only, "only denied"), again),
    make("div", { class: "nsb-scroll", tabindex: "-1" }, body), said);
  el.append(root);
  root.addEventListener("keydown", (event) => event.stopPropagation());

  const COLUMNS = [["group", "Endpoint"], ["verdict", "Verdict"], ["enforcement", "Paths held by"], ["", "Reason, or what it does"]];

  function header() {
    const cells = COLUMNS.map(([key, title]) => {
      if (!key) return make("th", { scope: "col" }, make("b", {}, title));
      const button = make("button", { type: "button", "data-order": key }, `${title}${order === key ? " ▾" : ""}`);
      button.addEventListener("click", () => { order = key; draw(); body.querySelector(`[data-order="${key}"]`).focus(); });
      return make("th", { scope: "col", "aria-sort": order === key ? "ascending" : "none" }, button);
    });
    return make("thead", {}, make("tr", {}, ...cells));
  }

  function chosen() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = model.get("rows").filter((row) => {
      const text = `${row.id} ${row.group} ${row.verdict} ${row.why}`.toLowerCase();
      return (!only.checked || row.verdict === "denied") && words.every((word) => text.includes(word));
    });
    const name = (a, b) => (a.id < b.id ? -1 : 1);
    const by = {
      group: (a, b) => (a.group === b.group ? name(a, b) : a.group < b.group ? -1 : 1),
      verdict: (a, b) => RANK[a.verdict] - RANK[b.verdict] || name(a, b),
      enforcement: (a, b) => b.enforcement.localeCompare(a.enforcement) || name(a, b),
    };
    return rows.sort(by[order]);
  }

  function line(row) {
    const button = make("button", { type: "button", class: "nsb-rules-name", "aria-expanded": String(open === row.id) }, row.id);
    button.addEventListener("click", () => { open = open === row.id ? "" : row.id; asked = ""; draw(); focus(row.id); });
    const cells = [make("th", { scope: "row" }, button), make("td", {}, verdict(row.verdict)),
      make("td", { class: "nsb-dim" }, WORDS[row.enforcement] ?? ""), make("td", { class: "nsb-dim" }, row.why)];
    const times = denials.get(row.id);
    if (times) cells[1].append(make("span", { class: "nsb-rules-count" }, `refused ${times}×`));
    return make("tr", { "data-endpoint": row.id }, ...cells);
  }

  function details(row) {
    const list = make("dl", { class: "nsb-rules-facts" });
    for (const [name, value] of row.facts) list.append(make("dt", {}, name), make("dd", {}, value));
    const cell = make("td", { colspan: String(COLUMNS.length) }, list);
    if (row.paths) {
      const path = make("input", { class: "nsb-path", "aria-label": `A path for ${row.id}`, placeholder: "Try a path, for example /etc/passwd", spellcheck: "false" });
      const op = make("select", { "aria-label": "Operation" }, make("option", { value: "" }, "as called"),
        ...model.get("about").ops.map((name) => make("option", { value: name }, name)));
      const answer = make("div", { class: "nsb-answer", role: "status", "aria-live": "polite" });
      const form = make("form", {}, path, op, make("button", { type: "submit" }, "Try"));
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (path.value) model.send({ kind: "try", endpoint: row.id, path: path.value, op: op.value });
      });
      cell.append(form, answer);
    }
    return make("tr", { class: "nsb-details" }, cell);
  }

  function draw() {
    const about = model.get("about"), rows = chosen();
    head.textContent = about.head;
    facts.textContent = about.facts.join(" · ");
    const parts = [header()];
    let part = make("tbody"), group = null;
    for (const row of rows) {
      if (order === "group" && row.group !== group) {
        group = row.group;
        part = make("tbody", {}, make("tr", {}, make("th", { class: "nsb-group", scope: "rowgroup", colspan: String(COLUMNS.length) }, group)));
        parts.push(part);
      } else if (!part.isConnected && !parts.includes(part)) parts.push(part);
      part.append(line(row));
      if (open === row.id) part.append(details(row));
    }
    if (!rows.length) parts.push(make("tbody", {}, make("tr", {}, make("td", { class: "nsb-dim", colspan: String(COLUMNS.length) }, "nothing matches"))));
    body.replaceChildren(...parts);
  }

  const find = (id) => [...body.querySelectorAll("tr[data-endpoint]")].find((row) => row.dataset.endpoint === id);
  const focus = (id) => find(id)?.querySelector("button").focus();

  body.addEventListener("keydown", (event) => {
    if (!["ArrowDown", "ArrowUp"].includes(event.key) || !event.target.classList.contains("nsb-rules-name")) return;
    const buttons = [...body.querySelectorAll(".nsb-rules-name")];
    buttons[buttons.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    event.preventDefault();
  });
  filter.addEventListener("input", draw);
  only.addEventListener("change", draw);
  again.addEventListener("click", () => model.send({ kind: "refresh" }));

  function flash(id, text) {
    denials.set(id, (denials.get(id) ?? 0) + 1);
    said.textContent = `refused: ${id}: ${text}`;
    const row = find(id);
    if (!row) return;
    row.replaceWith(line(model.get("rows").find((one) => one.id === id)));
    const fresh = find(id);
    fresh.classList.add("nsb-flash");
    const scroller = body.parentElement;
    if (!root.contains(document.activeElement)) // nobody is reading elsewhere in it
      scroller.scrollTop += fresh.getBoundingClientRect().top - scroller.getBoundingClientRect().top - scroller.clientHeight / 3;
    setTimeout(() => fresh.classList.remove("nsb-flash"), FLASH);
  }

  const hear = (message) => {
    if (message.kind === "answer" && message.endpoint === open) {
      const answer = body.querySelector(".nsb-answer");
      answer?.replaceChildren(verdict(message.verdict), ` ${message.path}${message.why ? ` · ${message.why}` : ""}`);
    } else if (message.kind === "denied") flash(message.endpoint, message.message);
    else if (message.kind === "failed") said.textContent = message.message;
  };
  model.on("msg:custom", hear);
  model.on("change:rows", draw);
  draw();
  return () => { model.off("msg:custom", hear); model.off("change:rows", draw); };
}

export default { render };
