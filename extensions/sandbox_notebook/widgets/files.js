// The page's part of FileBrowser; it begins with uploader.js. Names and contents reach the page as text nodes only.

const PAGE = 500; // rows of one folder, until one asks for more
const PIECES = 4; // of a download, on the way at once
const AGAIN = 5000; // milliseconds without an answer, after which a question that changes nothing is asked again
const PATIENCE = 30000;
const INVISIBLE = /[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{10ff80}-\u{10ffff}]/gu;
const SHAPES = {
  folder: "M1.5 3.5h4.6l1.4 1.6h7v7.9h-13z",
  file: "M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3",
};

const escaped = (character) => {
  const code = character.codePointAt(0);
  return code > 0xffff ? `\\x${(code & 0xff).toString(16)}` : `\\u${code.toString(16).padStart(4, "0")}`; // a byte of no text
};
const visible = (text) => text.replace(INVISIBLE, escaped); // names and messages
const readable = (text) => text.replace(/\r\n/g, "\n").replace(INVISIBLE, (c) => (c === "\n" || c === "\t" ? c : escaped(c))); // contents
const joined = (folder, name) => (folder ? `${folder}/${name}` : name);
const parent = (path) => path.slice(0, Math.max(0, path.lastIndexOf("/")));
const base = (path) => path.slice(path.lastIndexOf("/") + 1);
const inside = (path, folder) => folder === "" || path === folder || path.startsWith(`${folder}/`);
const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const unique = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

function moment(time) {
  if (!time) return "";
  const date = new Date(time), two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

function shape(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", `nsb-icon nsb-icon-${name}`);
  path.setAttribute("d", SHAPES[name]);
  svg.append(path);
  return svg;
}

// Questions to the kernel. Each has a number, and one answer.
function asking(model, busy) {
  const open = new Map();
  let number = crypto.getRandomValues(new Uint32Array(1))[0] * 100000; // another view of this widget counts elsewhere
  const timer = setInterval(() => {
    const now = performance.now();
    let silent = false;
    for (const [key, question] of open) {
      silent = silent || now - question.begun > 1000;
      if (question.twice && now - question.sent > AGAIN) {
        question.sent = now;
        model.send(question.message);
      } else if (!question.twice && now - question.begun > PATIENCE) {
        open.delete(key);
        question.reject(new Error("no answer came; refresh to see what became of it"));
      }
    }
    busy(silent);
  }, 500);
  const hear = (message, buffers) => {
    const question = message.kind === "answer" && open.get(message.ask);
    if (!question) return;
    open.delete(message.ask);
    if (message.error) question.reject(new Error(message.error));
    else question.resolve({ ...message, buffers: buffers ?? [] });
    if (!open.size) busy(false);
  };
  model.on("msg:custom", hear);
  return {
    ask: (kind, facts, twice = true) => new Promise((resolve, reject) => {
      const message = { kind, ask: (number += 1), ...facts };
      const now = performance.now();
      open.set(message.ask, { message, resolve, reject, twice, begun: now, sent: now });
      model.send(message);
    }),
    dispose: () => { clearInterval(timer); model.off("msg:custom", hear); },
  };
}

// --- what a preview shows ---

const pre = (text, name = "") => make("pre", { class: name, tabindex: "0" }, readable(text));

function picture(type, data, urls, name) {
  const url = URL.createObjectURL(new Blob([data], { type }));
  urls.push(url);
  return make("img", { src: url, alt: `Picture ${visible(name)}` }); // in an <img>, not even an SVG runs scripts
}

function table(rows) {
  const line = (cells, tag) => make("tr", {}, ...cells.map((cell) => make(tag, tag === "th" ? { scope: "col" } : {}, readable(cell))));
  return make("table", {}, make("thead", {}, line(rows[0], "th")), make("tbody", {}, ...rows.slice(1).map((row) => line(row, "td"))));
}

function json([name, kind, text, children], depth = 0) {
  const label = name === null ? [] : [make("span", { class: "nsb-key" }, visible(name)), ": "];
  if (!children) return make("div", { class: "nsb-leaf" }, ...label, make("span", { class: `nsb-${kind}` }, visible(text)));
  const what = `${kind === "list" ? "[…]" : "{…}"} ${text}`;
  const node = make("details", depth < 2 ? { open: "" } : {}, make("summary", {}, ...label, make("span", { class: "nsb-dim" }, what)));
  node.append(...children.map((child) => json(child, depth + 1)));
  if (children.length < text) node.append(make("div", { class: "nsb-leaf nsb-dim" }, `… ${text - children.length} more`));
  return node;
}

function notebook(answer, urls) {
  return make("div", {}, ...answer.cells.map((cell) => make("section", { class: `nsb-cell nsb-${cell.type}` },
    make("div", { class: "nsb-dim nsb-count" }, cell.type === "code" ? `[${cell.count || " "}]` : ""),
    make("div", { class: "nsb-cell-body" }, pre(cell.source, "nsb-source"), ...cell.outputs.map((output) => (output.picture === undefined
      ? pre(output.text, output.error ? "nsb-error" : "")
      : picture(output.type, answer.buffers[output.picture], urls, "an output")))))));
}

function shown(answer, name, urls) {
  if (answer.type === "image") return picture(answer.media, answer.buffers[0], urls, name);
  if (answer.type === "table") return table(answer.rows);
  if (answer.type === "json") return make("div", { class: "nsb-json" }, json(answer.tree));
  if (answer.type === "notebook") return notebook(answer, urls);
  if (answer.type === "text" || answer.type === "binary") return answer.text ? pre(answer.text) : make("p", { class: "nsb-dim" }, "The file is empty.");
  return make("p", { class: "nsb-dim" }, answer.note);
}

function render({ model, el }) {
  const place = model.get("place"), denied = model.get("denied"), page = unique();
  const folders = new Map(); // path → {rows, more, error, loading, shown}
  const opened = new Set([""]);
  const elements = new Map(); // path → its row in the page
  let items = []; // the rows in the page, in order: {key, entry} or {key, more: folder}
  let focused = "", anchor = "", selected = new Set();
  let sort = { by: "name", down: false };
  let urls = [], previewed = "";

  // --- parts ---

  const button = (text, action, name = "") => {
    const element = make("button", { type: "button" }, text);
    if (name) element.className = name;
    element.addEventListener("click", () => { if (element.getAttribute("aria-disabled") !== "true") action(); });
    return element;
  };
  const forbid = (element, reason) => {
    element.setAttribute("aria-disabled", reason ? "true" : "false");
    element.title = reason || "";
  };
  const status = make("div", { class: "nsb-said", role: "status", "aria-live": "polite" });
  const say = (text) => { status.textContent = ""; status.textContent = text; };
  const notice = make("div", { class: "nsb-notice", role: "alert", hidden: "" });
  const complain = (text) => { notice.textContent = text; notice.hidden = !text; };
  const waiting = make("span", { class: "nsb-dim", hidden: "" }, "waiting for the kernel");
  const live = make("span", { class: "nsb-dim nsb-live" });
  const badge = make("span", { class: "nsb-badge", title: Object.values(denied)[0] ?? "" }, "read only");
  badge.hidden = !["upload", "mkdir", "rename", "delete"].every((action) => denied[action]);
  const filter = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the files shown by name" });
  const fresh = button("New folder", () => newFolder());
  const upload = button("Upload", () => { panel.hidden = !panel.hidden; upload.setAttribute("aria-expanded", String(!panel.hidden)); });
  const refresh = button("Refresh", () => { reloadAll(); complain(""); });
  upload.setAttribute("aria-expanded", "false");
  forbid(fresh, denied.mkdir);
  forbid(upload, denied.upload);
  const bar = make("form", { class: "nsb-bar", hidden: "" });
  const target = make("span", {});
  const up = uploader(model, { place: target, rules: model.get("rules"), into: () => folder(), stored: (path) => arrived(path) });
  const panel = make("div", { class: "nsb-panel", hidden: "" }, up.root);
  const heads = ["name", "size", "modified"].map((by) => {
    const element = button("", () => { sort = { by, down: sort.by === by && !sort.down }; rebuild(); say(`Sorted by ${by}, ${sort.down ? "descending" : "ascending"}`); }, `nsb-head-${by}`);
    element.dataset.by = by;
    return element;
  });
  const tree = make("div", { class: "nsb-tree", role: "tree", tabindex: "0", "aria-label": `Files in ${place}`, "aria-multiselectable": "true" });
  const open = button("Open", () => activate(focused));
  const save = button("Download", () => download());
  const rename = button("Rename", () => askName());
  const remove = button("Delete", () => confirmDelete(), "nsb-danger");
  const title = make("h3", {});
  const facts = make("div", { class: "nsb-dim nsb-facts" });
  const why = make("div", { class: "nsb-why", hidden: "" });
  const content = make("div", { class: "nsb-content" });
  const actions = make("div", { class: "nsb-actions" }, open, save, rename, remove);
  const side = make("section", { class: "nsb-side", "aria-label": "Selection" }, title, facts, actions, why, content);
  const downloads = make("ul", { class: "nsb-transfers nsb-downloads", "aria-label": "Downloads" });
  const root = make("section", { class: "nsb-files", "aria-label": `File browser of ${place}`, "data-lm-suppress-shortcuts": "true" },
    make("header", {}, make("strong", { class: "nsb-place", title: place }, place), badge, live, waiting, make("span", { class: "nsb-gap" }), filter, fresh, upload, refresh),
    notice, bar, panel,
    make("div", { class: "nsb-columns" }, make("div", { class: "nsb-list" }, make("div", { class: "nsb-heads", role: "group", "aria-label": "Sort" }, ...heads), tree), side),
    downloads, status);
  el.append(root);
  root.addEventListener("keydown", (event) => event.stopPropagation());

  const { ask, dispose } = asking(model, (silent) => { waiting.hidden = !silent; });

  // --- what there is ---

  const entryOf = (path = "") => folders.get(parent(path))?.rows.find((entry) => entry.path === path);
  const folder = () => {
    const entry = entryOf(focused);
    return !entry ? "" : entry.dir ? entry.path : parent(entry.path);
  };

  async function load(path) {
    const known = folders.get(path) ?? { rows: [], more: false, error: "", shown: PAGE };
    folders.set(path, known);
    if (known.loading) { known.stale = true; return known.loading; }
    known.loading = (async () => {
      do {
        known.stale = false;
        try {
          const answer = await ask("list", { path });
          known.rows = answer.rows.map(([name, dir, kind, size, time, mode, to, kept]) => ({ path: joined(path, name), name, dir, kind, size, time, mode, to, kept }));
          known.more = answer.more;
          known.error = "";
        } catch (error) {
          known.rows = [];
          known.error = error.message;
        }
      } while (known.stale);
    })();
    await known.loading;
    known.loading = null;
    known.ready = true;
    prune();
    rebuild();
  }

  function prune() {
    for (const path of [...opened].filter(Boolean)) if (folders.get(parent(path))?.ready && !entryOf(path)?.dir) { opened.delete(path); folders.delete(path); }
    for (const path of [...selected]) if (folders.has(parent(path)) && !folders.get(parent(path)).loading && !entryOf(path)) selected.delete(path);
    if (previewed && folders.get(parent(previewed))?.ready && !entryOf(previewed)) clear();
  }

  const reloadAll = () => { for (const path of opened) load(path); };
  const reload = (path) => { if (opened.has(path)) return load(path); folders.delete(path); return null; };

  function arrived(full) {
    for (const path of opened) if (inside(full, `${place}/${path}`.replace(/\/$/, ""))) load(path);
  }

  function sorted(rows) {
    const sign = sort.down ? -1 : 1;
    const compare = { name: () => 0, size: (a, b) => a.size - b.size, modified: (a, b) => a.time - b.time }[sort.by];
    return [...rows].sort((a, b) => b.dir - a.dir || sign * (compare(a, b) || order.compare(a.name, b.name)) || (a.name < b.name ? -1 : 1));
  }

  function collect(path, level, wanted) {
    const known = folders.get(path), found = [];
    if (!known) return found;
    const rows = sorted(known.rows).map((entry) => ({ entry, below: entry.dir && opened.has(entry.path) ? collect(entry.path, level + 1, wanted) : [] }))
      .filter(({ entry, below }) => !wanted || entry.name.toLowerCase().includes(wanted) || below.some((item) => item.entry));
    rows.slice(0, known.shown).forEach(({ entry, below }, index) => {
      found.push({ key: entry.path, entry, level, place: index + 1, of: rows.length }, ...below);
    });
    const note = (text) => found.push({ key: `${path}\0note`, note: text, level });
    if (rows.length > known.shown) found.push({ key: `${path}\0more`, more: path, level, note: `Show ${Math.min(PAGE, rows.length - known.shown)} more of ${rows.length.toLocaleString("en")}` });
    else if (known.more) note("There is more than this; the rest is not shown.");
    if (known.error) note(known.error);
    else if (known.loading && !known.ready) note("Loading …");
    else if (!rows.length && !wanted) note("Nothing there.");
    return found;
  }

  function row(item) {
    const element = make("div", { class: "nsb-row", role: "treeitem", "aria-level": item.level, tabindex: "-1" });
    element.dataset.key = item.key;
    const name = make("span", { class: "nsb-cell-name" });
    name.style.paddingInlineStart = `${(item.level - 1) * 1.3 + 0.3}em`;
    element.append(name);
    if (!item.entry) {
      element.classList.add(item.more === undefined ? "nsb-note" : "nsb-more");
      if (item.more === undefined) element.setAttribute("aria-disabled", "true");
      name.append(item.note);
      return element;
    }
    const { entry } = item;
    element.setAttribute("aria-posinset", item.place);
    element.setAttribute("aria-setsize", item.of);
    if (entry.dir) element.setAttribute("aria-expanded", String(opened.has(entry.path)));
    name.append(make("span", { class: "nsb-twisty", "aria-hidden": "true" }, entry.dir ? (opened.has(entry.path) ? "▾" : "▸") : ""), shape(entry.dir ? "folder" : "file"), make("bdi", { class: "nsb-entry", title: visible(entry.name) }, visible(entry.name)));
    if (entry.to) name.append(make("span", { class: "nsb-dim nsb-to" }, `→ ${visible(entry.to)}`));
    else if (!["file", "directory"].includes(entry.kind)) name.append(make("span", { class: "nsb-dim" }, entry.kind));
    if (entry.kept && badge.hidden) name.append(make("span", { class: "nsb-badge" }, "read only"));
    element.append(make("span", { class: "nsb-cell-size" }, entry.dir ? "" : amount(entry.size)), make("span", { class: "nsb-cell-time nsb-dim" }, moment(entry.time)));
    return element;
  }

  function rebuild() {
    const had = tree.contains(document.activeElement), top = tree.scrollTop;
    const wanted = filter.value.trim().toLowerCase();
    items = collect("", 1, wanted);
    elements.clear();
    const rows = items.map((item) => { const element = row(item); elements.set(item.key, element); return element; });
    tree.replaceChildren(...rows);
    if (!elements.has(focused)) focused = items.find((item) => item.entry)?.key ?? "";
    for (const head of heads) {
      const { by } = head.dataset, on = sort.by === by;
      head.textContent = `${by[0].toUpperCase()}${by.slice(1)}${on ? (sort.down ? " ▾" : " ▴") : ""}`;
      head.setAttribute("aria-label", `Sort by ${by}${on ? (sort.down ? ", now descending" : ", now ascending") : ""}`);
    }
    tree.scrollTop = top;
    paint();
    if (had) (elements.get(focused) ?? tree).focus({ preventScroll: true });
  }

  function paint() {
    for (const [key, element] of elements) {
      element.tabIndex = key === focused ? 0 : -1;
      if (element.hasAttribute("aria-posinset")) element.setAttribute("aria-selected", String(selected.has(key)));
    }
    tree.tabIndex = elements.has(focused) ? -1 : 0;
    target.textContent = `to ${visible(folder() ? `${place}/${folder()}` : place)}`;
    describe();
  }

  // --- selection ---

  const reachable = () => items.filter((item) => item.entry || item.more !== undefined);

  function go(key, { extend = false, keep = false, toggle = false } = {}) {
    focused = key;
    const rows = reachable().filter((item) => item.entry).map((item) => item.key);
    const isEntry = rows.includes(key);
    if (extend && isEntry) {
      const [from, to] = [rows.indexOf(anchor), rows.indexOf(key)].sort((a, b) => a - b);
      selected = new Set(from < 0 ? [key] : rows.slice(from, to + 1));
    } else if (toggle && isEntry) {
      if (!selected.delete(key)) selected.add(key);
      anchor = key;
    } else if (!keep && isEntry) {
      selected = new Set([key]);
      anchor = key;
    }
    paint();
    const element = elements.get(key);
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest" });
  }

  let judging = 0, judged = "";
  function describe() {
    const paths = [...selected], entry = paths.length === 1 ? entryOf(paths[0]) : null;
    const sum = paths.map(entryOf).reduce((all, one) => all + (one && !one.dir ? one.size : 0), 0);
    title.textContent = entry ? visible(entry.name) : paths.length ? `${paths.length} selected` : "";
    facts.textContent = entry
      ? [entry.dir ? "folder" : amount(entry.size), moment(entry.time), entry.mode, entry.to ? `link to ${visible(entry.to)}` : ""].filter(Boolean).join(" · ")
      : paths.length ? amount(sum) : "Select a file. Enter or a double click opens it.";
    actions.hidden = !paths.length;
    open.hidden = !entry || (entry.kind !== "file" && !entry.dir && !entry.to);
    rename.hidden = !entry;
    if (previewed && previewed !== paths[0]) clear();
    const key = [...paths, folder()].join("\0");
    if (key === judged) return;
    judged = key;
    allow(denied);
    clearTimeout(judging);
    if (paths.length) judging = setTimeout(async () => {
      const answer = await ask("judge", { paths, into: folder() }).catch(() => null);
      if (answer && key === judged) allow(answer.denied);
    }, 250);
  }

  function allow(refused) {
    const paths = [...selected], packed = paths.length > 1 || entryOf(paths[0])?.dir;
    const reasons = { Open: packed ? "" : refused.preview, Download: refused[packed ? "archive" : "download"], Rename: refused.rename, Delete: refused.delete };
    const told = new Map();
    forbid(fresh, refused.mkdir);
    forbid(upload, refused.upload);
    for (const element of [open, save, rename, remove]) {
      const reason = reasons[element.textContent];
      forbid(element, reason);
      if (reason && !element.hidden) told.set(reason, [...(told.get(reason) ?? []), element.textContent]);
    }
    why.replaceChildren(...[...told].map(([reason, names]) => make("div", {}, make("span", { class: "nsb-badge" }, names.join(", ")), ` ${visible(reason)}`)));
    why.hidden = !told.size || !paths.length;
  }

  function clear() {
    previewed = "";
    content.replaceChildren();
    for (const url of urls) URL.revokeObjectURL(url);
    urls = [];
  }

  // --- what one does ---

  async function toggle(path, wish) {
    const to = wish ?? !opened.has(path);
    if (to === opened.has(path)) return;
    if (to) { opened.add(path); load(path); } else for (const one of [...opened]) if (inside(one, path)) opened.delete(one);
    rebuild();
  }

  function activate(key) {
    const item = items.find((one) => one.key === key);
    if (!item) return;
    if (item.more !== undefined) {
      const known = folders.get(item.more), next = items[items.indexOf(item) - 1]?.key;
      known.shown += PAGE;
      rebuild();
      const rows = reachable().map((one) => one.key);
      if (next) go(rows[rows.indexOf(next) + 1] ?? next);
    } else if (item.entry?.dir) toggle(key);
    else if (item.entry) look(item.entry);
  }

  async function look(entry) {
    if (selected.size !== 1 || !selected.has(entry.path)) go(entry.path);
    if (open.getAttribute("aria-disabled") === "true") { say(open.title); return; }
    clear();
    previewed = entry.path;
    content.replaceChildren(make("p", { class: "nsb-dim" }, "Loading …"));
    try {
      const answer = await ask("preview", { path: entry.path, size: entry.size });
      if (previewed !== entry.path) return;
      content.replaceChildren(shown(answer, entry.name, urls));
      if (answer.note && answer.type !== "none") content.prepend(make("p", { class: "nsb-dim" }, `Shown: ${answer.note}`));
      content.scrollTop = 0;
      say(`${visible(entry.name)} is shown as ${answer.type}`);
    } catch (error) {
      if (previewed === entry.path) content.replaceChildren(make("p", { class: "nsb-error" }, visible(error.message)));
    }
  }

  // One row under the head for what needs a word from the person: a name, or a yes.
  function question(label, field, verb, act, danger = false) {
    const cancel = make("button", { type: "button" }, "Cancel");
    const yes = make("button", danger ? { type: "submit", class: "nsb-danger" } : { type: "submit" }, verb);
    const close = () => { bar.hidden = true; bar.replaceChildren(); (elements.get(focused) ?? tree).focus(); };
    cancel.addEventListener("click", close);
    bar.onkeydown = (event) => { if (event.key === "Escape") close(); };
    bar.onsubmit = async (event) => {
      event.preventDefault();
      yes.disabled = true;
      complain("");
      try { await act(field?.value ?? ""); close(); } catch (error) { complain(visible(error.message)); yes.disabled = false; }
    };
    bar.replaceChildren(make("label", {}, label, ...(field ? [" ", field] : [])), yes, cancel);
    bar.hidden = false;
    (field ?? cancel).focus();
  }

  function newFolder() {
    const into = folder();
    const field = make("input", { type: "text", required: "", "aria-label": "Name of the new folder" });
    question(`New folder in ${visible(into ? `${place}/${into}` : place)}`, field, "Create", async (name) => {
      await ask("mkdir", { path: into, name }, false);
      if (into) opened.add(into);
      await load(into);
      if (elements.has(joined(into, name))) go(joined(into, name));
      say(`Folder ${visible(name)} made`);
    });
  }

  function askName() {
    const entry = entryOf([...selected][0]);
    if (!entry || selected.size !== 1) return;
    if (rename.getAttribute("aria-disabled") === "true") { say(rename.title); return; }
    const field = make("input", { type: "text", required: "", "aria-label": "New name" });
    field.value = entry.name;
    question(`Rename ${visible(entry.name)} to`, field, "Rename", async (name) => {
      if (name === entry.name) return;
      await ask("rename", { path: entry.path, name }, false);
      const renamed = joined(parent(entry.path), name), was = opened.has(entry.path);
      for (const one of [...opened]) if (inside(one, entry.path)) { opened.delete(one); folders.delete(one); }
      await load(parent(entry.path));
      if (elements.has(renamed)) go(renamed);
      if (was) toggle(renamed, true);
      say(`Renamed to ${visible(name)}`);
    });
    const dot = entry.dir ? -1 : entry.name.lastIndexOf(".");
    field.setSelectionRange(0, dot > 0 ? dot : entry.name.length);
  }

  function confirmDelete() {
    const paths = [...selected].filter((path) => ![...selected].some((other) => other !== path && inside(path, other)));
    if (!paths.length) return;
    if (remove.getAttribute("aria-disabled") === "true") { say(remove.title); return; }
    const some = paths.map(entryOf).some((entry) => entry?.dir && !entry.to) ? ", with everything in it" : "";
    const what = paths.length === 1 ? `${visible(base(paths[0]))}${some}` : `${paths.length} entries${some.replace("it", "them")}`;
    question(`Delete ${what}? This cannot be undone.`, null, "Delete", async () => {
      const rows = reachable().map((item) => item.key), at = Math.min(...paths.map((path) => rows.indexOf(path)));
      const { failed } = await ask("delete", { paths }, false);
      const gone = (path) => paths.some((one) => inside(path, one));
      const next = rows.slice(at).find((key) => !gone(key)) ?? rows.slice(0, at).reverse().find((key) => !gone(key)) ?? "";
      selected.clear();
      await Promise.all([...new Set(paths.map(parent))].map(load));
      if (elements.has(next)) { focused = next; paint(); }
      say(`${paths.length - failed.length} deleted`);
      if (failed.length) complain(failed.map(([path, reason]) => `${visible(path)}: ${visible(reason)}`).join("\n"));
    }, true);
  }

  async function download() {
    const paths = [...selected].filter((path) => ![...selected].some((other) => other !== path && inside(path, other)));
    if (!paths.length) return;
    const archive = paths.length > 1 || Boolean(entryOf(paths[0])?.dir), id = unique();
    const bar = make("progress", { max: 1, value: 0, "aria-label": `Download of ${visible(base(paths[0]))}` });
    const name = make("span", { class: "nsb-name" }, paths.length > 1 ? `${paths.length} entries` : visible(base(paths[0])));
    const size = make("span", { class: "nsb-dim nsb-size" }), state = make("span", { class: "nsb-what" }, "asking");
    const end = make("button", { type: "button" }, "Cancel");
    const line = make("li", {}, name, size, bar, state, end);
    let over = false;
    const settle = (phase, text) => {
      over = true;
      line.dataset.phase = phase;
      state.textContent = text;
      end.textContent = "Remove";
      model.send({ kind: "discard", id });
      say(`${name.textContent}: ${text}`);
    };
    end.addEventListener("click", () => { if (over) line.remove(); else settle("cancelled", "cancelled"); });
    downloads.append(line);
    try {
      await ask("fetch", { id, paths, archive });
      let answer;
      while (!over && (answer = await ask("fetched", { id })).state === "coming") {
        state.textContent = `${archive ? "packing" : "reading"} · ${amount(answer.done)}`;
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
      if (over) return;
      if (answer.state === "failed") throw new Error(answer.reason);
      const { length, sha256 } = answer, chunk = model.get("chunk"), parts = new Array(Math.ceil(length / chunk));
      name.textContent = visible(answer.name);
      size.textContent = amount(length);
      let next = 0, got = 0;
      const worker = async () => {
        while (!over && next < parts.length) {
          const index = next++;
          const { buffers } = await ask("piece", { id, offset: index * chunk });
          parts[index] = buffers[0];
          got += buffers[0].byteLength;
          bar.value = got / length;
          state.textContent = `${Math.floor((100 * got) / length)} %`;
        }
      };
      await Promise.all(Array.from({ length: PIECES }, worker));
      if (over) return;
      const blob = new Blob(parts);
      const digest = globalThis.crypto.subtle && [...new Uint8Array(await crypto.subtle.digest("SHA-256", await blob.arrayBuffer()))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      if (blob.size !== length || (digest && digest !== sha256)) throw new Error("what arrived is not what was sent; try again");
      const link = make("a", { href: URL.createObjectURL(blob), download: answer.name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      bar.value = 1;
      settle("done", `saved · SHA-256 ${sha256}`);
    } catch (error) { if (!over) settle("failed", visible(error.message)); }
  }

  // --- keyboard and mouse ---

  let typed = "", typing = 0;
  function find(character) {
    clearTimeout(typing);
    typing = setTimeout(() => { typed = ""; }, 800);
    typed += character.toLowerCase();
    const rows = items.filter((item) => item.entry), at = rows.findIndex((item) => item.key === focused);
    const wanted = [...typed].every((one) => one === typed[0]) ? typed[0] : typed;
    const from = wanted.length > 1 ? at : at + 1;
    const hit = [...rows.slice(from), ...rows.slice(0, from)].find((item) => item.entry.name.toLowerCase().startsWith(wanted));
    if (hit) go(hit.key);
  }

  tree.addEventListener("keydown", (event) => {
    const rows = reachable().map((item) => item.key), at = rows.indexOf(focused), entry = entryOf(focused);
    const control = event.ctrlKey || event.metaKey;
    const options = { extend: event.shiftKey, keep: control };
    const move = (index) => { if (rows[index] !== undefined) go(rows[index], options); };
    const actions = {
      ArrowDown: () => move(at + 1),
      ArrowUp: () => move(at - 1),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      PageDown: () => move(Math.min(rows.length - 1, at + 10)),
      PageUp: () => move(Math.max(0, at - 10)),
      ArrowRight: () => { if (entry?.dir) { if (opened.has(focused)) move(at + 1); else toggle(focused, true); } },
      ArrowLeft: () => { if (entry?.dir && opened.has(focused)) toggle(focused, false); else if (elements.has(parent(focused))) go(parent(focused)); },
      Enter: () => activate(focused),
      " ": () => go(focused, { toggle: true, extend: event.shiftKey }),
      F2: () => askName(),
      Delete: () => confirmDelete(),
      Escape: () => { selected.clear(); complain(""); paint(); },
    };
    if (control && event.key.toLowerCase() === "a") {
      selected = new Set(items.filter((item) => item.entry).map((item) => item.key));
      paint();
      say(`${selected.size} selected`);
    } else if (actions[event.key] && !event.altKey) actions[event.key]();
    else if (event.key.length === 1 && !control && !event.altKey) find(event.key);
    else return;
    event.preventDefault();
  });
  const keyOf = (event) => event.target.closest?.(".nsb-row")?.dataset.key;
  tree.addEventListener("click", (event) => {
    const key = keyOf(event), item = items.find((one) => one.key === key);
    if (!item || (!item.entry && item.more === undefined)) return;
    if (item.more !== undefined) activate(key);
    else if (event.target.closest(".nsb-twisty") && item.entry.dir) { go(key); toggle(key); } else go(key, { extend: event.shiftKey, toggle: event.ctrlKey || event.metaKey });
  });
  tree.addEventListener("mousedown", (event) => { if (event.shiftKey) event.preventDefault(); }); // no text is selected
  tree.addEventListener("dblclick", (event) => {
    const item = items.find((one) => one.key === keyOf(event));
    if (item?.entry && !event.target.closest(".nsb-twisty")) activate(item.key);
  });
  filter.addEventListener("input", () => { rebuild(); say(`${items.filter((item) => item.entry).length} shown`); });

  const hear = (message) => {
    if (message.kind === "changed") for (const path of message.paths.length ? message.paths : opened) reload(path);
    else if (message.kind === "failed") complain(visible(message.message));
  };
  const liveness = () => {
    live.textContent = model.get("live") ? "● live" : "";
    live.title = model.get("live") ? "Changes show by themselves" : "";
  };
  model.on("msg:custom", hear);
  model.on("change:live", liveness);
  liveness();
  model.send({ kind: "hello", page });
  load("");
  rebuild();
  return () => {
    model.send({ kind: "bye", page });
    clear();
    clearTimeout(judging);
    dispose();
    up.dispose();
    model.off("msg:custom", hear);
    model.off("change:live", liveness);
  };
}

export default { render };
