// The page's part of SandboxPanel. It asks for what the open tab shows, once a second and only while one can see it.

const PACE = 1000;
const PATIENCE = 6000; // milliseconds without an answer, after which it asks again, and says that the kernel is busy
const SAMPLES = 120;
const TABS = [["overview", "Overview"], ["files", "Files"], ["processes", "Processes"], ["rules", "Rules"], ["metrics", "Metrics"], ["audit", "Audit"]];
const SVG = "http://www.w3.org/2000/svg";
let panels = 0;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function facts(pairs) {
  const list = make("dl", { class: "nsb-about-it" });
  for (const [name, value] of pairs) list.append(make("dt", {}, name), make("dd", {}, value));
  return list;
}

function lines(titles, rows, nothing) {
  if (!rows.length) return make("p", { class: "nsb-dim" }, nothing);
  const head = make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title)));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell))));
  return make("div", { class: "nsb-sandbox-lines", tabindex: "-1" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

const toned = (tone, text) => make("span", { "data-tone": tone }, text);

// A line of the last samples in percent; more than 100, as a load may be, touches the top.
function sparkline(title, values) {
  const top = Math.max(100, ...values), first = SAMPLES - values.length;
  const points = values.map((value, index) => `${first + index},${40 - (38 * value) / top}`);
  const now = values[values.length - 1], low = Math.min(...values), high = Math.max(...values);
  const picture = draw("svg", { viewBox: `0 0 ${SAMPLES - 1} 40`, preserveAspectRatio: "none", role: "img",
    "aria-label": `${title}: ${Math.round(now)} percent now, between ${Math.round(low)} and ${Math.round(high)} since this is shown` });
  if (points.length > 1) picture.append(draw("polygon", { points: `${first},40 ${points.join(" ")} ${SAMPLES - 1},40` }), draw("polyline", { points: points.join(" ") }));
  return picture;
}

function render({ model, el }) {
  const mark = `nsb-sandbox-${(panels += 1)}`;
  const about = model.get("about");
  let open = "overview", asked = 0, seen = true, over = false, trouble = "";
  const refused = new Set(); // tabs that the policy keeps shut; asked for again when chosen again
  const drawn = new Map(); // tab -> what it shows, as text: the same is not drawn again under somebody's finger

  const word = make("div", { class: "nsb-sandbox-word", role: "status", "aria-live": "polite" });
  const list = make("div", { class: "nsb-tabs", role: "tablist", "aria-label": `Sandbox ${about.name}` });
  const tabs = new Map(), sheets = new Map(), below = make("div");
  for (const [id, title] of TABS) {
    const tab = make("button", { type: "button", class: "nsb-tab", role: "tab", id: `${mark}-${id}`, "aria-controls": `${mark}-${id}-sheet` }, title);
    const sheet = make("div", { class: "nsb-sheet", role: "tabpanel", id: `${mark}-${id}-sheet`, "aria-labelledby": `${mark}-${id}`, tabindex: "-1" });
    tab.addEventListener("click", () => choose(id));
    tabs.set(id, tab);
    sheets.set(id, sheet);
    list.append(tab);
  }
  const table = make("div", {}, make("p", { class: "nsb-dim" }, "asking …"));
  sheets.get("processes").append(table, below); // what is open below stays as it is when the list changes
  sheets.get("overview").append(facts(about.facts));
  const root = make("section", { class: "nsb-sandbox", "aria-label": `Sandbox ${about.name}` },
    make("header", {}, make("strong", {}, about.name), list), ...sheets.values(), word);
  el.append(root);
  root.addEventListener("keydown", (event) => event.stopPropagation());
  list.addEventListener("keydown", (event) => {
    const ids = TABS.map(([id]) => id), at = ids.indexOf(open);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: ids.length - 1 }[event.key];
    if (next === undefined) return;
    choose(ids[(next + ids.length) % ids.length]);
    tabs.get(open).focus();
    event.preventDefault();
  });

  function choose(id) {
    open = id;
    refused.delete(id);
    asked = 0;
    word.textContent = "";
    for (const [name, tab] of tabs) {
      tab.setAttribute("aria-selected", String(name === id));
      tab.tabIndex = name === id ? 0 : -1;
      sheets.get(name).hidden = name !== id;
    }
    const sheet = sheets.get(id);
    if (!sheet.childElementCount) sheet.append(make("p", { class: "nsb-dim" }, over ? "The sandbox has ended." : "asking …"));
    if (["files", "rules"].includes(id) && !drawn.has(id) && !over) model.send({ kind: "open", tab: id });
    tick();
  }

  function tick() {
    const now = performance.now();
    if (over || !seen || document.hidden || !el.isConnected || open === "files" || refused.has(open)) return;
    if (asked && now - asked < PATIENCE) return;
    if (asked) word.textContent = "The kernel does not answer: it is busy, or gone.";
    asked = now;
    model.send({ kind: "tick", tab: open });
  }

  function show(tab, content, key) {
    if (drawn.get(tab) === key) return;
    drawn.set(tab, key);
    const focused = document.activeElement?.dataset?.at;
    const place = tab === "processes" ? table : sheets.get(tab);
    place.replaceChildren(...content);
    if (focused) [...place.querySelectorAll("[data-at]")].find((one) => one.dataset.at === focused)?.focus();
  }

  function processes(rows) {
    const button = (row, title, message) => {
      const made = make("button", { type: "button", "data-at": `${row.id} ${title}`, "aria-label": `${title}: ${row.command}` }, title);
      made.addEventListener("click", () => { if (message.kind === "stop") word.textContent = `${title}: ${row.command}`; model.send(message); });
      return made;
    };
    const cells = rows.map((row) => [toned(row.tone, row.state), make("code", {}, row.command), make("span", { class: "nsb-dim" }, row.since),
      make("span", {}, button(row, "Output", { kind: "follow", id: row.id }), ...(row.running ? [
        button(row, "Stop", { kind: "stop", id: row.id }), button(row, "Kill", { kind: "stop", id: row.id, hard: true })] : []))]);
    return lines(["State", "Command", "Since", ""], cells, "No process runs in the background.");
  }

  function gauges(message) {
    return message.words.map(([title, amount], index) => {
      const values = message.samples.map((sample) => sample[index]);
      return make("div", { class: "nsb-gauge" }, make("span", {}, make("b", {}, title), make("div", { class: "nsb-dim" }, amount)),
        make("span", { class: "nsb-much" }, `${Math.round(values[values.length - 1])} %`), sparkline(title, values));
    });
  }

  function noted(message) {
    if (message.missing) return make("p", { class: "nsb-dim" }, message.missing);
    const cells = message.rows.map((row) => [make("span", { class: "nsb-dim" }, row.when), toned(row.verdict, row.verdict), make("code", {}, row.endpoint),
      row.what, make("span", { class: "nsb-dim" }, row.code), make("span", { class: "nsb-dim" }, row.identity)]);
    return lines(["Time", "", "Endpoint", "What", "Code", "Who"], cells, "Nothing noted yet. What is noted, the policy says; refusals always are, unless it says off.");
  }

  async function embed(tab, id) {
    try {
      const view = await model.widget_manager.create_view(await model.widget_manager.get_model(id));
      if (tab === "processes") below.replaceChildren(view.el);
      else { sheets.get(tab).replaceChildren(view.el); drawn.set(tab, id); }
    } catch (error) {
      word.textContent = `This page cannot show a widget inside another one (${error.message}).`;
    }
  }

  const hear = (message) => {
    asked = 0;
    if (message.kind !== "failed" && (word.textContent.startsWith("The kernel") || word.textContent === trouble)) word.textContent = "";
    const key = JSON.stringify(message);
    if (message.kind === "overview") show("overview", [facts(message.facts)], key);
    else if (message.kind === "processes") show("processes", [processes(message.rows)], key);
    else if (message.kind === "metrics") show("metrics", gauges(message), key);
    else if (message.kind === "audit") show("audit", [noted(message)], key);
    else if (message.kind === "opened") embed(message.tab, message.model);
    else if (message.kind === "refused") {
      refused.add(message.tab);
      show(message.tab, [make("p", {}, toned("denied", message.message))], key);
    } else if (message.kind === "ended") {
      over = true;
      word.textContent = "The sandbox has ended.";
    } else if (message.kind === "failed") word.textContent = trouble = message.message;
  };
  model.on("msg:custom", hear);
  const watcher = new IntersectionObserver((entries) => { seen = entries[entries.length - 1].isIntersecting; if (seen) tick(); });
  watcher.observe(root);
  const timer = setInterval(tick, PACE);
  choose("overview");
  return () => { clearInterval(timer); watcher.disconnect(); model.off("msg:custom", hear); };
}

export default { render };
