// The page's part of TerminalPane: xterm.js, fed by the kernel. The library comes in a message, once for a page.

const LIBRARY = Symbol.for("sandbox_notebook.xterm");
const SCROLLBAR = 14; // pixels that xterm keeps for it
const PATIENCE = 2000; // milliseconds without an answer, after which the kernel must be busy
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// The module and its style sheet, which are not in the page before some terminal asked for them.
async function take(code, style) {
  const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  try {
    const { Terminal } = await import(/* @vite-ignore */ address);
    return { Terminal, style: new TextDecoder().decode(style) };
  } finally {
    URL.revokeObjectURL(address);
  }
}

// The colours of the page, which may change at any moment.
function themeOf(element) {
  const style = getComputedStyle(element), page = getComputedStyle(document.body);
  const value = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  const ink = page.getPropertyValue("--jp-content-font-color0").trim() ? style.color : "#202020";
  const ground = value("--jp-layout-color0", "#ffffff");
  const colours = {};
  NAMES.forEach((name, number) => {
    colours[name] = colours[`bright${name[0].toUpperCase()}${name.slice(1)}`] = value(`--nsb-${number}`, ink);
  });
  return { ...colours, background: ground, foreground: ink, cursor: ink, cursorAccent: ground, selectionBackground: "#7a9cc680" };
}

function render({ model, el }) {
  const label = model.get("title");
  const button = (text, action, hint) => {
    const element = make("button", { type: "button", title: hint }, text);
    element.addEventListener("click", action);
    return element;
  };
  const state = make("span", { class: "nsb-state", role: "status" });
  const notice = make("div", { class: "nsb-notice", role: "alert", hidden: "" });
  const say = (text) => { notice.textContent = text; notice.hidden = !text; };
  const attach = button("Take it back", () => model.send({ kind: "attach" }), "Connect again; other viewers are closed");
  const copy = button("Copy", () => navigator.clipboard.writeText(terminal?.getSelection() ?? ""), "Copy the selection (Ctrl+Shift+C)");
  const close = button("Close", () => model.send({ kind: "close" }), "End the shell and everything that it started");
  close.className = "nsb-stop";
  const screen = make("div", { class: "nsb-screen" });
  // Lab must not take a key for a shortcut of its own: what is typed here is for the program that runs.
  const pane = make("section", { class: "nsb nsb-pane nsb-terminal", "aria-label": label, "data-lm-suppress-shortcuts": "true" },
    make("header", {}, make("strong", { class: "nsb-title", title: label }, label), state, make("span", { class: "nsb-gap" }), attach, copy, close),
    notice, screen);
  for (const kind of ["keydown", "keyup", "keypress", "paste", "copy"]) pane.addEventListener(kind, (event) => event.stopPropagation());
  el.append(pane);

  let terminal = null, library = globalThis[LIBRARY], position = -1, quiet = 0, leaving = false, size = "";
  const patience = setTimeout(() => say("The kernel is busy. Press ■ in the toolbar to stop the cell, or wait. If no cell runs, reload the page."), PATIENCE);

  const fit = () => {
    const grid = screen.querySelector(".xterm-screen");
    if (!terminal || !grid || !grid.clientWidth || !screen.clientWidth) return;
    const space = getComputedStyle(screen);
    const wide = screen.clientWidth - parseFloat(space.paddingLeft) - parseFloat(space.paddingRight) - SCROLLBAR;
    const high = screen.clientHeight - parseFloat(space.paddingTop) - parseFloat(space.paddingBottom);
    const cols = Math.max(2, Math.floor(wide / (grid.clientWidth / terminal.cols)));
    const rows = Math.max(2, Math.floor(high / (grid.clientHeight / terminal.rows)));
    if (size === `${cols}x${rows}`) return;
    size = `${cols}x${rows}`;
    terminal.resize(cols, rows);
    model.send({ kind: "size", cols, rows });
  };

  // False: not for the terminal. Escape and then Tab lead on to the next thing on the page.
  const wanted = (event) => {
    if (event.type !== "keydown") return true;
    const leaves = leaving && event.key === "Tab";
    if (event.key !== "Shift") leaving = event.key === "Escape";
    if (event.ctrlKey && event.shiftKey && event.code === "KeyC") {
      event.preventDefault();
      navigator.clipboard.writeText(terminal.getSelection());
      return false;
    }
    return !leaves && !(event.ctrlKey && event.shiftKey && event.code === "KeyV"); // the browser pastes by itself
  };

  const begin = ({ Terminal, style }) => {
    if (!pane.querySelector("style")) pane.append(make("style", {}, style));
    const font = getComputedStyle(pane);
    terminal = new Terminal({
      theme: themeOf(pane), scrollback: 5000, cursorBlink: true, allowProposedApi: false, screenReaderMode: false,
      fontFamily: font.getPropertyValue("--jp-code-font-family").trim() || "monospace", fontSize: 13, minimumContrastRatio: 4.5,
    });
    terminal.open(screen);
    terminal.textarea.setAttribute("aria-label", `${label}. Escape and then Tab leaves it.`);
    terminal.attachCustomKeyEventHandler(wanted);
    // What it answers to a question of a program that was asked long ago is not typed again.
    terminal.onData((text) => { if (!quiet) model.send({ kind: "type", text }); });
    terminal.onBinary((text) => { if (!quiet) model.send({ kind: "type", text }); });
    fit();
  };

  const bytes = (buffer) => new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const draw = ({ kind, at }, data) => {
    if (kind === "screen") {
      position = at;
      size = "";
      terminal.reset();
      quiet += 1;
    } else if (position < 0 || at + data.length <= position) {
      return; // before the first picture, or in it
    } else if (at > position) {
      position = -1;
      model.send({ kind: "open", library: false });
      return;
    }
    const fresh = data.subarray(Math.max(0, position - at));
    position = at + data.length;
    terminal.write(fresh, () => { if (kind === "screen") { quiet -= 1; fit(); } });
  };

  const hear = async (message, buffers) => {
    if (message.kind === "failed") return say(message.message);
    if (message.kind === "library") library = globalThis[LIBRARY] ??= take(...buffers.map(bytes));
    if ((message.kind !== "screen" && message.kind !== "output") || !library) return; // what comes too soon comes again
    const data = bytes(buffers[0]).slice();
    try {
      const found = await library; // all that wait go on in the order in which they came
      if (!terminal) begin(found);
      clearTimeout(patience);
      if (message.kind === "screen") say("");
      draw(message, data);
    } catch (error) {
      say(`xterm.js does not load in this page: ${error.message}`);
    }
  };
  model.on("msg:custom", hear);

  const update = () => {
    const done = model.get("done"), connected = model.get("connected");
    state.textContent = model.get("state");
    state.dataset.state = done ? (model.get("state") === "exit code 0" ? "good" : "bad") : connected ? "running" : "bad";
    attach.hidden = done || connected;
    close.hidden = done;
    if (terminal) terminal.options.disableStdin = done || !connected;
  };
  const traits = ["state", "connected", "done"];
  for (const name of traits) model.on(`change:${name}`, update);
  update();

  const shape = new ResizeObserver(() => fit());
  shape.observe(screen);
  const colours = new MutationObserver(() => { if (terminal) terminal.options.theme = themeOf(pane); });
  colours.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  model.send({ kind: "open", library: !library });
  return () => {
    clearTimeout(patience);
    shape.disconnect();
    colours.disconnect();
    model.off("msg:custom", hear);
    for (const name of traits) model.off(`change:${name}`, update);
    terminal?.dispose();
  };
}

export default { render };
