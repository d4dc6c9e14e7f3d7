// Sends files to the kernel, a few chunks ahead of what it has confirmed: large ones one at a time, small ones together.
// The widgets that take files begin with this text.

const AHEAD = 4; // chunks on the way
const LEAST = 128 << 10; // bytes of a chunk, where something on the way lets no larger ones through
const SILENCE = 2000; // milliseconds without an answer, after which the kernel is asked where it is
const BUSY = 1000;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function amount(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
  return `${unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

// The files below what was dropped: folders too, each with the path it had there.
async function dropped(items) {
  const found = [];
  const walk = async (entry, prefix) => {
    if (entry.isFile) {
      found.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), name: prefix + entry.name });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const one of some) await walk(one, `${prefix}${entry.name}/`);
    }
  };
  // All are looked at before the first wait: after it the list is empty. Not everything that is dropped has an entry.
  const dragged = [...items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.() || item.getAsFile());
  for (const one of dragged) {
    if (one instanceof File) found.push({ file: one, name: one.name });
    else if (one) await walk(one, "");
  }
  return found;
}

// A place to drop files on, and what became of each. `into()` names the folder, below the widget's own, that files
// chosen now go to; `stored` is called with each path that has arrived.
function uploader(model, { place, rules, into = () => "", stored = () => {} }) {
  const transfers = new Map();
  const sending = new Set();

  const choose = make("input", { type: "file", multiple: "", "aria-label": "Choose files to upload", hidden: "" });
  const folder = make("input", { type: "file", webkitdirectory: "", "aria-label": "Choose a folder to upload", hidden: "" });
  const list = make("ul", { class: "nsb-transfers", "aria-label": "Uploads" });
  const status = make("div", { class: "nsb-said", role: "status", "aria-live": "polite" });
  const told = [];
  if (rules.most_text) told.push(`at most ${rules.most_text} each`);
  if (rules.allow_extensions) told.push(`only ${rules.allow_extensions.join(" ")}`);
  if (rules.deny_extensions) told.push(`not ${rules.deny_extensions.join(" ")}`);
  if (rules.keeps) told.push("nothing is replaced");
  const button = (text, input) => {
    const element = make("button", { type: "button" }, text);
    element.addEventListener("click", () => input.click());
    return element;
  };
  const zone = make("div", { class: "nsb-zone" },
    make("strong", {}, "Drop files or folders here"),
    make("div", { class: "nsb-choose" }, "or ", button("Choose files", choose), button("Choose a folder", folder)),
    make("div", { class: "nsb-dim" }, place, told.length ? ` · ${told.join(" · ")}` : ""));
  const root = make("section", { class: "nsb nsb-upload", "aria-label": "Upload to the sandbox" }, zone, choose, folder, list, status);
  if (rules.refused) {
    root.replaceChildren(make("div", { class: "nsb-zone" }, rules.refused));
    return { root, dispose: () => {} };
  }

  const take = (files) => { for (const { file, name } of files) enqueue(file, name); work(); };
  choose.addEventListener("change", () => { take([...choose.files].map((file) => ({ file, name: file.name }))); choose.value = ""; });
  folder.addEventListener("change", () => { take([...folder.files].map((file) => ({ file, name: file.webkitRelativePath || file.name }))); folder.value = ""; });
  let inside = 0;
  zone.addEventListener("dragenter", (event) => { event.preventDefault(); inside += 1; zone.classList.add("nsb-over"); });
  zone.addEventListener("dragleave", () => { inside -= 1; if (inside <= 0) zone.classList.remove("nsb-over"); });
  zone.addEventListener("dragover", (event) => { event.preventDefault(); event.stopPropagation(); });
  zone.addEventListener("drop", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    inside = 0;
    zone.classList.remove("nsb-over");
    try { take(await dropped(event.dataTransfer.items)); } catch (error) { say(`What was dropped could not be read: ${error.message}`); }
  });

  const say = (text) => { status.textContent = text; };

  function enqueue(file, name) {
    const id = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const bar = make("progress", { max: Math.max(1, file.size), value: 0, "aria-label": `Upload of ${name}` });
    const state = make("span", { class: "nsb-what" }, "waiting");
    const action = make("button", { type: "button" }, "Cancel");
    const row = make("li", {}, make("span", { class: "nsb-name", title: name }, name), make("span", { class: "nsb-dim nsb-size" }, amount(file.size)), bar, state, action);
    list.append(row);
    const transfer = { id, file, name, into: into(), bar, state, action, row, got: 0, rewind: null, phase: "waiting", wake: null, overwrite: false, tenth: 0 };
    transfers.set(id, transfer);
    action.addEventListener("click", () => act(transfer));
    const wrong = forbidden(file, name);
    if (wrong) settle(transfer, "failed", wrong, "");
  }

  function forbidden(file, name) {
    if (rules.most !== undefined && file.size > rules.most) return `larger than the ${rules.most_text} that the policy allows`;
    const suffix = (/\.[^./]+$/.exec(name.split("/").pop().slice(1)) || [""])[0].toLowerCase();
    if (rules.deny_extensions?.includes(suffix)) return `the policy takes no ${suffix} files`;
    if (rules.allow_extensions && !rules.allow_extensions.includes(suffix)) return `the policy takes ${rules.allow_extensions.join(" ")} only`;
    return "";
  }

  function act(transfer) {
    if (["waiting", "sending"].includes(transfer.phase)) {
      model.send({ kind: "cancel", id: transfer.id });
      settle(transfer, "cancelled", "cancelled", "Retry");
    } else if (["failed", "cancelled", "exists"].includes(transfer.phase)) {
      transfer.overwrite = transfer.overwrite || transfer.phase === "exists";
      transfer.phase = "waiting";
      transfer.got = 0;
      show(transfer, "waiting", "Cancel");
      work();
    }
  }

  function show(transfer, text, action) {
    transfer.state.textContent = text;
    transfer.action.textContent = action;
    transfer.action.hidden = !action;
    transfer.row.dataset.phase = transfer.phase;
    transfer.bar.value = transfer.file.size ? transfer.got : transfer.phase === "done" ? 1 : 0;
  }

  function settle(transfer, phase, text, action) {
    transfer.phase = phase;
    show(transfer, text, action);
    say(`${transfer.name}: ${text}`);
    transfer.wake?.();
  }

  // Each file waits for the kernel three times; small ones wait together, no more of them than chunks of a large one.
  function work() {
    const fits = ({ file }) => file.size <= model.get("chunk");
    for (const next of transfers.values()) {
      if (next.phase !== "waiting" || sending.has(next)) continue;
      if (sending.size && (sending.size >= AHEAD || ![next, ...sending].every(fits))) return;
      sending.add(next);
      send(next).catch((error) => {
        const why = error instanceof DOMException ? `cannot be read: ${error.message}` : "the kernel is gone; run the cell again";
        settle(next, "failed", why, "Retry");
      }).finally(() => { sending.delete(next); work(); });
    }
  }

  function opening({ id, into, name, file, overwrite }) {
    return { kind: "open", id, into, name, size: file.size, overwrite };
  }

  async function send(transfer) {
    const { file, id } = transfer;
    let chunk = model.get("chunk");
    const opened = opening(transfer);
    transfer.phase = "sending";
    transfer.opened = false;
    transfer.heard = performance.now();
    const begun = transfer.heard;
    show(transfer, "asking", "Cancel");
    model.send(opened);
    let offset = 0, closed = false, sent = false;
    while (transfer.phase === "sending") {
      if (transfer.rewind !== null) {
        offset = transfer.rewind;
        transfer.rewind = null;
        if (sent && offset === 0) chunk = Math.max(LEAST, chunk / 4); // nothing has ever arrived
        sent = false;
      }
      if (transfer.opened && offset < file.size && offset - transfer.got < AHEAD * chunk) {
        const data = await file.slice(offset, offset + chunk).arrayBuffer();
        if (transfer.phase !== "sending" || transfer.rewind !== null) continue;
        model.send({ kind: "chunk", id, offset }, undefined, [data]);
        offset += data.byteLength;
        sent = true;
        continue;
      }
      if (transfer.opened && transfer.got >= file.size && !closed) {
        closed = true;
        show(transfer, "checking", "Cancel");
        model.send({ kind: "close", id });
      }
      await Promise.race([new Promise((resolve) => { transfer.wake = resolve; }), new Promise((resolve) => setTimeout(resolve, 300))]);
      if (transfer.phase !== "sending") return;
      const silent = performance.now() - transfer.heard;
      if (silent > SILENCE) {
        transfer.heard = performance.now();
        closed = false;
        show(transfer, transfer.opened ? "finding the connection again" : "waiting for the kernel", "Cancel");
        model.send(transfer.opened ? { kind: "status", id } : opened);
      } else if (!transfer.opened && silent > BUSY) show(transfer, "waiting for the kernel", "Cancel");
      else if (transfer.opened && !closed) {
        const seconds = (performance.now() - begun) / 1000;
        show(transfer, `${Math.floor((100 * transfer.got) / Math.max(1, file.size))} % · ${amount(transfer.got / Math.max(seconds, 0.1))}/s`, "Cancel");
        const tenth = Math.floor((10 * transfer.got) / Math.max(1, file.size));
        if (tenth > transfer.tenth) { transfer.tenth = tenth; say(`${transfer.name}: ${tenth * 10} percent`); }
      }
    }
  }

  const hear = (message) => {
    const transfer = transfers.get(message.id);
    if (!transfer) return;
    transfer.heard = performance.now();
    if (message.kind === "at") {
      transfer.opened = true;
      transfer.got = message.offset;
      if (message.rewind) transfer.rewind = message.offset;
    } else if (message.kind === "unknown") {
      transfer.opened = false; // the kernel has been started anew
      transfer.got = 0;
      transfer.rewind = 0;
      model.send(opening(transfer));
    } else if (message.kind === "done") {
      transfer.got = transfer.file.size;
      transfer.action.title = "";
      transfer.row.title = `${message.path}\nSHA-256 ${message.sha256}`;
      settle(transfer, "done", `stored · SHA-256 ${message.sha256.slice(0, 12)}…`, "");
      stored(message.path);
    } else if (message.kind === "refused") {
      if (message.exists && !rules.keeps) settle(transfer, "exists", "is there already", "Replace");
      else settle(transfer, "failed", message.message, "Retry");
    }
    transfer.wake?.();
  };
  model.on("msg:custom", hear);
  return { root, dispose: () => model.off("msg:custom", hear) };
}

