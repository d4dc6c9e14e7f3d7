// The page's part of ProcessPane. Text reaches the page as text nodes only, never as markup.

const KEPT = 5000; // lines in the page
const PATIENCE = 2000; // milliseconds without the snapshot that was asked for, after which what came meanwhile must do
const UNHEARD = "The kernel is busy. Press ■ in the toolbar to stop the cell, or wait. If no cell runs, reload the page.";
const ESCAPE = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f]/g;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// --- colours -------------------------------------------------------------------------------------------------------

function indexed(number) {
  if (number < 16) return `var(--nsb-${number % 8})`;
  if (number < 232) {
    const steps = [0, 95, 135, 175, 215, 255];
    number -= 16;
    return `rgb(${steps[Math.floor(number / 36) % 6]},${steps[Math.floor(number / 6) % 6]},${steps[number % 6]})`;
  }
  const grey = 8 + 10 * Math.min(23, number - 232);
  return `rgb(${grey},${grey},${grey})`;
}

function extended(codes) {
  if (codes[0] === 5 && codes.length >= 2) return indexed(codes[1]);
  if (codes[0] === 2 && codes.length >= 4) return `rgb(${codes.slice(-3).map((code) => Math.min(255, code)).join(",")})`;
  return "";
}

function apply(parameters, style) {
  const groups = parameters.split(";").map((group) => group.split(":").map((code) => parseInt(code, 10) || 0));
  while (groups.length) {
    let [code, ...rest] = groups.shift();
    if (code === 0) for (const name of Object.keys(style)) delete style[name];
    else if (code === 1) style.fontWeight = "600";
    else if (code === 2) style.opacity = ".7";
    else if (code === 3) style.fontStyle = "italic";
    else if (code === 4) style.textDecoration = "underline";
    else if (code === 22) { delete style.fontWeight; delete style.opacity; }
    else if (code === 23) delete style.fontStyle;
    else if (code === 24) delete style.textDecoration;
    else if (code === 39) delete style.color;
    else if (code === 49) delete style.background;
    else if (code === 38 || code === 48) {
      if (!rest.length) rest = groups.splice(0, groups[0] && groups[0][0] === 5 ? 2 : 4).map((group) => group[0]);
      const colour = extended(rest);
      if (colour) style[code === 38 ? "color" : "background"] = colour;
    } else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style.color = `var(--nsb-${code % 10})`;
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107))
      style.background = `color-mix(in srgb, var(--nsb-${code % 10}) 33%, transparent)`;
  }
}

// Adds what a line says to `pieces`, which are texts and coloured elements.
function colour(text, pieces) {
  const style = {};
  let position = 0;
  const piece = (end) => {
    const plain = text.slice(position, end).replace(HIDDEN, "");
    if (!plain) return;
    if (!Object.keys(style).length) return write(plain, pieces);
    const span = make("span");
    Object.assign(span.style, style);
    span.textContent = plain;
    pieces.push(span);
  };
  for (const escape of text.matchAll(ESCAPE)) {
    piece(escape.index);
    position = escape.index + escape[0].length;
    if (escape[2] === "m") apply(escape[1], style);
  }
  piece(text.length);
}

function write(text, pieces) {
  if (typeof pieces.at(-1) === "string") pieces[pieces.length - 1] += text;
  else pieces.push(text);
}

// --- lines ---------------------------------------------------------------------------------------------------------

// Consecutive lines of one stream become one element: a page can show many more lines a second that way.
function blocks(lines) {
  const found = [];
  for (const [stream, text] of lines) {
    if (found.at(-1)?.stream !== stream || found.at(-1).texts.length === 100) found.push({ stream, texts: [] });
    found.at(-1).texts.push(text);
  }
  return found.map(({ stream, texts }) => {
    const pieces = [];
    texts.forEach((text, number) => {
      if (number) write("\n", pieces);
      if (text.includes("\x1b")) colour(text, pieces);
      else write(text.replace(HIDDEN, ""), pieces);
    });
    const element = make("div", { class: `nsb-block nsb-${stream}`, "data-lines": texts.length }, ...pieces);
    if (!texts.at(-1)) element.append(make("br")); // an empty line at the end would not be seen
    return element;
  });
}

function clock(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return (parts[0] ? parts : parts.slice(1)).map((part, i) => (i ? String(part).padStart(2, "0") : part)).join(":");
}

function render({ model, el }) {
  const label = model.get("title");
  const button = (text, action, hint) => {
    const element = make("button", { type: "button", title: hint }, text);
    element.addEventListener("click", action);
    return element;
  };

  const state = make("span", { class: "nsb-state", role: "status" });
  const elapsed = make("span", { class: "nsb-dim" });
  const notice = make("div", { class: "nsb-notice", role: "alert", hidden: "" });
  const skipped = make("div", { class: "nsb-dim nsb-skipped", hidden: "" });
  const log = make("div", { class: "nsb-lines" });
  const open = make("div", { class: "nsb-open" });
  const scroller = make("div", { class: "nsb-log", role: "log", tabindex: "0", "aria-label": `Output of ${label}`, "aria-live": "off" }, skipped, log, open);
  const search = make("input", { type: "search", class: "nsb-search", placeholder: "Find", "aria-label": "Find in the output" });
  const matches = make("span", { class: "nsb-dim nsb-matches", role: "status" });
  const follow = make("input", { type: "checkbox", checked: "" });

  let waiting = 0; // the timer of an unheard click
  const ask = (kind, facts = {}) => {
    model.send({ kind, ...facts });
    clearTimeout(waiting);
    waiting = setTimeout(() => tell(UNHEARD), 1000);
  };
  const tell = (text) => { notice.textContent = text; notice.hidden = !text; };

  const stop = button("Stop", () => { if (model.get("state") === "stopping") ask("kill"); else ask("stop"); }, "Ask it to end; again: end it at once");
  stop.className = "nsb-stop";
  const text = () => [...log.children, ...open.children].map((block) => block.textContent).join("\n");
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text());
      copy.textContent = "Copied";
    } catch { // on pages without https, and where it is forbidden
      getSelection().selectAllChildren(log);
      copy.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 1200);
  }, "Copy the lines shown");
  const save = button("Download", () => {
    const link = make("a", { href: URL.createObjectURL(new Blob([text() + "\n"], { type: "text/plain" })), download: "output.log" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }, "Save the lines shown to a file");

  const field = make("input", { type: "text", class: "nsb-input", placeholder: "Type a line for the process, Enter sends it", "aria-label": "Standard input" });
  const eof = button("End of input", () => ask("eof"), "Close the standard input");
  const entry = make("form", { class: "nsb-entry" }, field, eof);
  entry.addEventListener("submit", (event) => { event.preventDefault(); ask("type", { text: field.value }); field.value = ""; });

  const pane = make("section", { class: "nsb nsb-pane", "aria-label": label },
    make("header", {}, make("strong", { class: "nsb-title", title: label }, label), state, elapsed, make("span", { class: "nsb-gap" }), stop),
    notice, scroller, entry,
    make("footer", {}, make("label", {}, follow, " Follow"), search, matches, make("span", { class: "nsb-gap" }), copy, save));
  el.append(pane);

  // Nothing may listen to what the notebook would take for a shortcut.
  pane.addEventListener("keydown", (event) => event.stopPropagation());

  let last = -1, count = 0, lowest = 0;
  const tail = () => { if (follow.checked) scroller.scrollTop = scroller.scrollHeight; };
  scroller.addEventListener("scroll", () => {
    const bottom = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 40;
    if (bottom !== follow.checked) follow.checked = bottom;
  });
  follow.addEventListener("change", tail);
  const grown = new ResizeObserver(tail); // lines come before the page shows the pane, and are measured when they are seen
  grown.observe(log);

  const add = (first, lines) => {
    const fresh = lines.slice(Math.max(0, last + 1 - first));
    if (!fresh.length) return;
    if (!count) lowest = first;
    last = first + lines.length - 1;
    log.append(...blocks(fresh));
    count += fresh.length;
    settle();
  };

  // Lines before those that are shown, of a snapshot that was late.
  const addBefore = (first, lines) => {
    const missing = lines.slice(0, Math.max(0, lowest - first));
    if (!count || !missing.length) return;
    log.prepend(...blocks(missing));
    lowest = first;
    count += missing.length;
    settle();
  };

  const settle = () => {
    while (count > KEPT && log.firstChild) {
      count -= Number(log.firstChild.dataset.lines);
      log.firstChild.remove();
    }
    const gone = last + 1 - count;
    skipped.hidden = gone <= 0;
    skipped.textContent = gone > 0 ? `${gone.toLocaleString("en")} earlier lines skipped` : "";
    if (search.value) find();
  };

  const show = (message) => {
    add(message.first, message.lines);
    open.replaceChildren(...blocks(message.open));
    tail();
  };

  // What comes before the snapshot that was asked for may lie behind or before it, and a busy kernel may not even hear.
  const early = [];
  const begin = () => {
    begun = true;
    clearTimeout(patience);
    early.splice(0).forEach(show);
  };
  let begun = false;
  const patience = setTimeout(begin, PATIENCE);

  const hear = (message) => {
    if (message.kind === "snapshot") {
      addBefore(message.first, message.lines);
      show(message);
      begin();
    } else if (message.kind === "lines") {
      if (begun) show(message);
      else early.push(message);
    } else if (message.kind === "heard") {
      clearTimeout(waiting);
      tell("");
    } else if (message.kind === "failed") {
      clearTimeout(waiting);
      tell(message.message);
    }
  };
  model.on("msg:custom", hear);

  const find = () => {
    const wanted = search.value.toLowerCase();
    let found = 0;
    for (const block of log.children) {
      const hit = wanted && block.textContent.toLowerCase().includes(wanted);
      block.classList.toggle("nsb-hit", Boolean(hit));
      if (hit) found += block.textContent.toLowerCase().split(wanted).length - 1;
    }
    matches.textContent = wanted ? `${found} found` : "";
  };
  search.addEventListener("input", () => {
    find();
    const hit = log.querySelector(".nsb-hit");
    if (hit) { follow.checked = false; hit.scrollIntoView({ block: "nearest" }); }
  });

  const update = () => {
    const done = model.get("done"), word = model.get("state");
    clearTimeout(waiting);
    state.textContent = word;
    state.dataset.state = done ? ({ "exit code 0": "good", stopped: "stopped" }[word] ?? "bad") : "running";
    stop.hidden = done;
    stop.textContent = word === "stopping" ? "Kill" : "Stop";
    entry.hidden = done || !model.get("takes_input");
    if (done) tell("");
    tick();
  };
  const tick = () => { elapsed.textContent = clock((model.get("ended") || Date.now()) - model.get("started")); };
  const timer = setInterval(tick, 1000);
  for (const name of ["state", "done", "takes_input"]) model.on(`change:${name}`, update);
  update();
  model.send({ kind: "sync", from: 0 });
  return () => {
    grown.disconnect();
    clearInterval(timer);
    clearTimeout(waiting);
    clearTimeout(patience);
    model.off("msg:custom", hear);
    for (const name of ["state", "done", "takes_input"]) model.off(`change:${name}`, update);
  };
}

export default { render };
